"""Relative NMI over the cells of each data set, as boxes."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from pipeline.report.parts.ink import (
    ACROSS,
    COUNTS_LABEL,
    GREY,
    INK,
    MOST_DATASETS,
    PAPER,
    Mark,
    hover,
    legend,
    mark,
    short,
    titled_panels,
)
from pipeline.report.parts.parts import Section, spread
from pipeline.report.parts.wording import count_of
from pipeline.report.sections.content import Content, pictured
from pipeline.scoring.scores import LABELS

PANEL = (2.75, 2.0)
FEW = 10
"""Cells of a box below which each is a point."""
BOXES = (
    "Boxes are quartiles, the line in them is the median; whiskers end at the last value within 1.5 of their"
    f" height, beyond which cells are points. Of fewer than {FEW} cells each is a point. Dashed: no gain."
)
MOST_COUNTS = 8
"""Numbers of annotations in a panel."""
MOST_MODELS = 6
"""In a panel of that width; those of more models are wider."""


def section(content: Content) -> Section:
    """Relative NMI, a figure for each accuracy."""
    pictures = tuple(
        picture
        for p in content.accuracies
        for picture in content.save(
            draw_boxes(content.cells, p, content.written),
            f"relative-nmi-p{p:.9g}",
            f"p = {p:g}: NMI above the model without annotations on the same data, of each cell. {BOXES}",
        )
    )
    return pictured("relative", "Relative NMI", pictures)


def draw_boxes(cells: pd.DataFrame, p: float, written: Mapping[tuple[str, int], str]) -> Figure | None:
    """Draw relative NMI of one accuracy: a panel per data set, a box per number of annotations and model.

    Boxes are quartiles, whiskers reach to the last value within 1.5 of their height, points lie beyond; of
    fewer than `FEW` cells each is a point.

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
    models = sorted(rows["model"].unique())
    times = math.ceil(len(models) / MOST_MODELS)
    size, across = (PANEL[0] * min(times, ACROSS), PANEL[1]), max(1, ACROSS // times)
    figure, flat = titled_panels(list(map(short, datasets)), size, LABELS["relative_nmi"].axis, across=across)
    for axes, dataset in zip(flat, datasets, strict=True):
        _boxes(axes, rows[rows["dataset"] == dataset], models, dataset, written)
    legend(figure, flat)
    return figure


def _points(axes: Axes, place: float, values: NDArray[np.float64], look: Mark, what: str) -> None:
    """All values of a small box, those beyond the whiskers of a larger one."""
    if len(values) >= FEW:
        low, high = np.quantile(values, [0.25, 0.75])
        values = values[(values < low - 1.5 * (high - low)) | (values > high + 1.5 * (high - low))]
    if len(values):
        (drawn,) = axes.plot([place] * len(values), values, linestyle="", color=look.color, zorder=3)
        drawn.set(marker=look.marker, markersize=3, markerfacecolor=PAPER)
        hover(drawn, [f"{what}: {value:.3f}" for value in values])


def _boxes(
    axes: Axes, rows: pd.DataFrame, models: list[str], name: str, written: Mapping[tuple[str, int], str]
) -> None:
    counts = spread(sorted(rows["m"].unique()), MOST_COUNTS)
    width = 0.7 / len(models)
    for position, model in enumerate(models):
        look = mark(model)
        one = rows[rows["model"] == model]
        values = [one.loc[one["m"] == m, "relative_nmi"].to_numpy() for m in counts]
        places = np.arange(len(counts)) + (position - (len(models) - 1) / 2) * width
        drawn = axes.boxplot(
            values, positions=places, widths=width * 0.85, whis=1.5, patch_artist=True, showfliers=False
        )
        for box in drawn["boxes"]:
            box.set(facecolor=look.area, edgecolor=look.color, hatch=look.hatch, alpha=0.75)
        for part in ("whiskers", "caps"):
            for drawing in drawn[part]:
                drawing.set(color=look.color)
        for median in drawn["medians"]:
            median.set(color=INK, linewidth=1.6)
        for place, found, m in zip(places, values, counts, strict=True):
            _points(axes, float(place), found, look, f"{model}, m = {count_of(written, name, m)}")
        drawn["boxes"][0].set_label(model)
    axes.axhline(0, color=GREY, linewidth=1, linestyle="--")
    axes.set_xticks(np.arange(len(counts)), [count_of(written, name, m) for m in counts])
    axes.set_xlim(-0.6, len(counts) - 0.4)
    axes.set_xlabel(COUNTS_LABEL)
    axes.grid(axis="y")
    axes.yaxis.set_major_locator(MaxNLocator(nbins=5))
