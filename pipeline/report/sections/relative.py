"""Figures of whole distributions over cells: relative NMI as boxes, the centroid index as bars."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from pipeline.report.parts.ink import GREY, INK, PAPER, legend, mark, panels, short
from pipeline.report.parts.parts import spread
from pipeline.report.sections.curves import MOST_DATASETS
from pipeline.scoring.labels import LABELS
from sweeps.models import BASELINES

PANEL, BAR_PANEL = (2.75, 2.0), (2.4, 1.8)
ACROSS = 3
"""Panels in a row of the boxes."""
MOST_COUNTS = 8
"""Numbers of annotations in a panel of boxes."""
MOST_INDICES = 8
"""Centroid indices with a number below."""
PAPER_K, PAPER_COUNTS = 6, (0, 200, 400, 600)
"""Clusters and annotations of the published histograms."""


def draw_boxes(cells: pd.DataFrame, p: float, written: Mapping[tuple[str, int], str]) -> Figure | None:
    """Draw relative NMI of one accuracy: a panel per data set, a box per number of annotations and model.

    Boxes are quartiles, whiskers reach to the last value within 1.5 of their height, points lie beyond.

    Parameters
    ----------
    cells : pandas.DataFrame
        From `pipeline.scoring.tables.cell_table`.
    p : float
        The accuracy.
    written : mapping
        From `pipeline.scoring.tables.written_counts`.

    Returns
    -------
    Figure or None
        None if no cell has a relative NMI.
    """
    rows = cells[(cells["p"] == p) & cells["relative_nmi"].notna()]
    if rows.empty:
        return None
    datasets = spread(list(rows["dataset"].unique()), MOST_DATASETS)
    across = min(ACROSS, len(datasets))
    figure, grid = panels(math.ceil(len(datasets) / across), across, PANEL)
    flat = [axes for line in grid for axes in line]
    models = sorted(rows["model"].unique())
    for axes, dataset in zip(flat, datasets, strict=False):
        _boxes(axes, rows[rows["dataset"] == dataset], models, dataset, written)
    for axes in flat[len(datasets) :]:
        axes.remove()
    for line in grid:
        line[0].set_ylabel(LABELS["relative_nmi"].axis)
    legend(figure, flat[: len(datasets)])
    return figure


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
    models = sorted(rows["model"].unique(), key=lambda model: (model not in BASELINES, model))
    figure, grid = panels(len(names), len(PAPER_COUNTS), BAR_PANEL, share="row")
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


def _boxes(
    axes: Axes, rows: pd.DataFrame, models: list[str], name: str, written: Mapping[tuple[str, int], str]
) -> None:
    counts = spread(sorted(rows["m"].unique()), MOST_COUNTS)
    width = 0.7 / len(models)
    for position, model in enumerate(models):
        color, marker, filling, _ = mark(model)
        one = rows[rows["model"] == model]
        values = [one.loc[one["m"] == m, "relative_nmi"].to_numpy() for m in counts]
        places = np.arange(len(counts)) + (position - (len(models) - 1) / 2) * width
        drawn = axes.boxplot(values, positions=places, widths=width * 0.85, whis=1.5, patch_artist=True)
        for box in drawn["boxes"]:
            box.set(facecolor=filling, edgecolor=color, alpha=0.75)
        for part in ("whiskers", "caps"):
            for drawing in drawn[part]:
                drawing.set(color=color)
        for median in drawn["medians"]:
            median.set(color=INK, linewidth=1.6)
        for flier in drawn["fliers"]:
            flier.set(marker=marker, markersize=3, markeredgecolor=color, markerfacecolor=PAPER)
        drawn["boxes"][0].set_label(model)
    axes.axhline(0, color=GREY, linewidth=1, linestyle="--")
    axes.set_xticks(np.arange(len(counts)), [written.get((name, int(m)), str(m)) for m in counts])
    axes.set_xlim(-0.6, len(counts) - 0.4)
    axes.set_title(short(name))
    axes.set_xlabel("annotations m (pairs)")
    axes.grid(axis="y")
    axes.yaxis.set_major_locator(MaxNLocator(nbins=5))


def _bars(axes: Axes, rows: pd.DataFrame, models: list[str]) -> None:
    found = [model for model in models if (rows["model"] == model).any()]
    width = 0.8 / max(1, len(found))
    for position, model in enumerate(found):
        color, _, filling, line = mark(model)
        values = rows.loc[rows["model"] == model, "centroid_index"].to_numpy(dtype=np.int64)
        counts = np.bincount(values)
        places = np.arange(len(counts)) + (position - (len(found) - 1) / 2) * width
        axes.bar(places, counts, width * 0.9, color=filling, edgecolor=color, linewidth=1.2, label=model)
        if line == ":":
            _hatch(axes.patches[-len(counts) :])
    axes.grid(axis="y")
    axes.yaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))


def _hatch(bars: Sequence[Patch]) -> None:
    for bar in bars:
        bar.set_hatch("///")
