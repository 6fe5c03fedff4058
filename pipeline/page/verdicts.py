"""Figure of how far our means lie from published ones."""

from __future__ import annotations

from itertools import pairwise

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from pipeline.labels import LABELS
from pipeline.page.curves import MOST_ACCURACIES
from pipeline.page.ink import GREY, PAPER, legend, mark, panels
from pipeline.page.parts import spread
from sweeps.models import BASELINES

PANEL = (3.0, 2.3)
LIMIT = 2.0
"""Values of z up to which a mean agrees."""
LINEAR, TICKS = 4.0, (-1000, -100, -30, -10, -6, -4, -2, 0, 2, 4, 6, 10, 30, 100, 1000)
"""Up to this z the axis is linear; where an error is tiny, z may be anything."""
APART = 0.36
"""Distance between the models at one number of annotations, as a share of the step to the next."""


def draw_verdicts(compared: pd.DataFrame) -> Figure | None:
    """Draw z of every value: a row of panels per score, a column per accuracy, the digit of K in each point.

    Parameters
    ----------
    compared : pandas.DataFrame
        From `pipeline.page.against.compare`.

    Returns
    -------
    Figure or None
        None if no value has a z.
    """
    rows = compared[compared["z"].notna()]
    if rows.empty:
        return None
    scores = list(rows["score"].unique())
    accuracies = spread(sorted(rows["p"].unique()), MOST_ACCURACIES)
    figure, grid = panels(len(scores), len(accuracies), PANEL, share="all")
    models = list(rows["model"].unique())
    for line, score in zip(grid, scores, strict=True):
        for axes, p in zip(line, accuracies, strict=True):
            _panel(axes, rows[(rows["score"] == score) & (rows["p"] == p)], models)
            axes.tick_params(labelbottom=True, labelleft=True)
        line[0].set_ylabel(f"{LABELS[score].short.partition(',')[0]}: z, ours less theirs")
    grid[0][0].set_yscale("symlog", linthresh=LINEAR)
    most = max(LINEAR, float(rows["z"].abs().max()))
    grid[0][0].set_yticks([z for z in TICKS if abs(z) <= most], [f"{z:g}" for z in TICKS if abs(z) <= most])
    grid[0][0].minorticks_off()
    for axes, p in zip(grid[0], accuracies, strict=True):
        axes.set_title(f"accuracy p = {p:g}")
    for axes in grid[-1]:
        axes.set_xlabel("annotations m (pairs)")
    legend(figure, [], (_entry(model) for model in models))
    return figure


def _panel(axes: Axes, rows: pd.DataFrame, models: list[str]) -> None:
    axes.axhspan(-LIMIT, LIMIT, color=GREY, alpha=0.14, linewidth=0)
    axes.axhline(0, color=GREY, linewidth=1)
    counts = sorted(rows["m"].unique())
    step = min((right - left for left, right in pairwise(counts)), default=1)
    supervised = [model for model in models if model not in BASELINES]
    for (model, clusters), points in rows.groupby(["model", "n_clusters"], sort=True):
        place = supervised.index(str(model)) - (len(supervised) - 1) / 2 if model in supervised else 0
        across = points["m"].to_numpy(dtype=float) + place * APART * step
        color = mark(str(model))[0]
        axes.plot(across, points["z"], "o", markersize=9, markerfacecolor=PAPER, markeredgecolor=color)
        for x, y in zip(across, points["z"], strict=True):
            axes.text(x, y, str(clusters), color=color, fontsize=7.5, ha="center", va="center_baseline")
    axes.grid(axis="y")
    axes.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))


def _entry(model: str) -> Line2D:
    return Line2D([], [], color=mark(model)[0], marker="s", linestyle="", label=model)
