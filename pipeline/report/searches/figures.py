"""A figure of one search beside the first: objectives, a score and time of each data set and model."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from pipeline.report.parts.ink import BLUE, GREEN, GREY, RULE, VERMILLION, hover, panels, short
from pipeline.report.parts.parts import spread
from pipeline.scoring.pairs import ALL, OBJECTIVE, Compared
from pipeline.scoring.ranking import RANKED
from pipeline.scoring.scores import LABELS

MOST_LINES = 48
"""Models and data sets in one figure."""

WIDTH, LINE, BAR = 2.9, 0.24, 0.62
"""Inches of a panel and of a line; share of a line that its bar takes."""

KEYS = {
    "loc": "lower left",
    "bbox_to_anchor": (0, 1),
    "frameon": False,
    "handlelength": 1,
    "columnspacing": 1,
}
"""Of the legend of a panel, above it."""

SHARES = (("wins_b", GREEN, "higher"), ("ties", RULE, "the same"), ("wins_a", VERMILLION, "lower"))


def draw_search(found: Compared) -> Figure | None:
    """Draw a line for each data set and model.

    Parameters
    ----------
    found : Compared
        Of one search.

    Returns
    -------
    Figure or None
        Panels of objectives, where they compare, of the first ranked score, where true labels are known, and
        of time; None without any line.
    """
    costs = found.costs[found.costs["dataset"] != ALL]
    if costs.empty:
        return None
    lines = spread(list(zip(costs["dataset"], costs["model"], strict=True)), MOST_LINES)
    keyed = found.differences.set_index(["score", "dataset", "model"])
    scored = [score for score in (OBJECTIVE, RANKED[0]) if score in keyed.index.get_level_values("score")]
    figure, grid = panels(1, len(scored) + 1, (WIDTH, max(1.2, LINE * len(lines))))
    for score, axes in zip(scored, grid[0], strict=False):
        table = keyed.loc[score].reindex(lines)
        if score == OBJECTIVE:
            _shares(axes, table)
        else:
            _differences(axes, table, score)
    _times(grid[0][-1], costs.set_index(["dataset", "model"]).loc[lines])
    for place, axes in enumerate(grid[0]):
        axes.set_ylim(len(lines) - 0.5, -0.5)
        names = [f"{short(dataset)}, {model}" for dataset, model in lines] if place == 0 else []
        axes.set_yticks(range(len(lines)), names or [""] * len(lines))
        axes.grid(axis="x")
    return figure


def _shares(axes: Axes, table: pd.DataFrame) -> None:
    start = pd.Series(0.0, index=table.index)
    for key, color, label in SHARES:
        share = 100 * table[key].fillna(0.0)
        axes.barh(range(len(table)), share, left=start, height=BAR, color=color, label=label)
        start = start + share
    axes.set_xlim(0, 100)
    axes.set_xlabel("cells by best objective, %")
    axes.legend(
        loc="lower left", bbox_to_anchor=(0, 1), ncols=3, frameon=False, handlelength=1, columnspacing=1
    )


def _differences(axes: Axes, table: pd.DataFrame, score: str) -> None:
    places = list(range(len(table)))
    axes.axvline(0, color=GREY, linewidth=1)
    drawn = axes.errorbar(
        table["difference"],
        places,
        xerr=table["se"].fillna(0.0),
        linestyle="",
        marker="o",
        color=BLUE,
        markersize=4.5,
        capsize=2.5,
    )
    rows = zip(table.index, table["difference"], table["se"], strict=True)
    words = [
        f"{', '.join(name)}: {value:+.3f}" + ("" if pd.isna(error) else f" ± {error:.3f}")
        for name, value, error in rows
    ]
    if drawn.lines[0] is not None:
        hover(drawn.lines[0], words)
    axes.set_xlabel(f"{LABELS[score].short}, difference")


def _times(axes: Axes, table: pd.DataFrame) -> None:
    axes.axvline(1, color=GREY, linewidth=1)
    for key, marker, color, label in (
        ("cpu", "o", BLUE, "a cell"),
        ("to_best", "D", VERMILLION, "a restart that found the best"),
    ):
        (drawn,) = axes.plot(table[key], range(len(table)), marker, color=color, markersize=4.5, label=label)
        hover(drawn, [f"{', '.join(name)}, {label}: {value:.2f} times" for name, value in table[key].items()])
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=8))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("CPU time, times")
    axes.legend(
        loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False, handlelength=1, columnspacing=1
    )
