"""Histograms of the centroid index."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from pipeline.report.parts.ink import MOST_DATASETS, legend, mark, panels, short
from pipeline.report.parts.parts import Section, spread
from pipeline.report.sections.content import Content, pictured
from pipeline.scoring.catalogue import LABELS

PANEL = (2.4, 1.8)
MOST_INDICES = 8
"""Centroid indices with a number below."""
PAPER_K, PAPER_COUNTS = 6, (0, 200, 400, 600)
"""Clusters and annotations of the published histograms."""


def section(content: Content) -> Section:
    """Centroid index, a figure for each accuracy."""
    datasets = index_datasets(content.cells)
    pictures = tuple(
        picture
        for p in content.accuracies
        for picture in content.save(
            draw_indices(content.cells, p, datasets),
            f"centroid-index-p{p:.9g}",
            f"p = {p:g}: cells by centroid index. 0 is a solution with a centroid for each true class.",
        )
    )
    return pictured("index", "Centroid index", pictures)


def draw_indices(cells: pd.DataFrame, p: float, datasets: Sequence[str]) -> Figure | None:
    """Draw histograms of the centroid index: a row per data set, a column per number of annotations.

    Parameters
    ----------
    cells : pandas.DataFrame
        From `pipeline.scoring.tables.cell_table`.
    p : float
        The accuracy.
    datasets : sequence of str
        From `index_datasets`.

    Returns
    -------
    Figure or None
        None if no cell has an index.
    """
    rows = cells[cells["dataset"].isin(datasets) & cells["centroid_index"].notna()]
    names = [name for name in datasets if ((rows["dataset"] == name) & (rows["p"] == p)).any()]
    if not names:
        return None
    alone = set(rows.loc[rows["p"].isna(), "model"])
    models = sorted(rows["model"].unique(), key=lambda model: (model not in alone, model))
    figure, grid = panels(len(names), len(PAPER_COUNTS), PANEL, share="row")
    for line, name in zip(grid, names, strict=True):
        one = rows[rows["dataset"] == name]
        counts = nearest_counts(one.loc[one["p"] == p, "m"])
        for axes, m in zip(line, counts, strict=False):
            _bars(axes, one[one["p"].isna() if m == 0 else (one["p"] == p) & (one["m"] == m)], models)
            axes.set_title(f"m = {m}" + (", no annotations" if m == 0 else ""))
        for axes in line[len(counts) :]:
            axes.remove()
        line[0].set_ylabel(f"{short(name)}\ncells (number)")
        most = int(one["centroid_index"].max())
        for axes in line[: len(counts)]:
            axes.set_xlim(-0.6, most + 0.6)
            axes.set_xticks(spread(range(most + 1), MOST_INDICES))
            axes.set_xlabel(LABELS["centroid_index"].axis)
    legend(figure, (axes for line in grid for axes in line))
    return figure


def index_datasets(cells: pd.DataFrame) -> list[str]:
    """Data sets of the histograms: mixtures with K nearest to the published one, else the real ones."""
    rows = cells[cells["centroid_index"].notna() & cells["p"].notna()]
    mixtures = rows[rows["mixture"].notna()]
    if len(mixtures):
        distance = (mixtures["n_clusters"] - PAPER_K).abs()
        rows = mixtures[distance == distance.min()]
    return spread(list(rows["dataset"].unique()), MOST_DATASETS)


def nearest_counts(found: pd.Series) -> list[int]:
    """The published numbers of annotations where they were run, else the nearest; always with 0."""
    counts = np.unique(found.dropna().to_numpy(dtype=np.int64))
    wanted = PAPER_COUNTS[1:]
    nearest = {int(counts[np.abs(counts - m).argmin()]) for m in wanted}
    if len(nearest) < min(len(wanted), len(counts)):
        # Another grid altogether, such as that of a small data set.
        nearest = set(spread(counts.tolist(), len(wanted)))
    return [0, *sorted(nearest)]


def _bars(axes: Axes, rows: pd.DataFrame, models: list[str]) -> None:
    found = [model for model in models if (rows["model"] == model).any()]
    width = 0.8 / max(1, len(found))
    for position, model in enumerate(found):
        look = mark(model)
        values = rows.loc[rows["model"] == model, "centroid_index"].to_numpy(dtype=np.int64)
        counts = np.bincount(values)
        places = np.arange(len(counts)) + (position - (len(found) - 1) / 2) * width
        bars = axes.bar(places, counts, width * 0.9, color=look.area, edgecolor=look.color, label=model)
        for bar in bars:
            bar.set(linewidth=1.2, hatch=look.hatch)
    axes.grid(axis="y")
    axes.yaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
