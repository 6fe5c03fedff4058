"""Restarts: their gaps to the best of a cell, and how many would have been enough."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from pipeline.optima import SAME_OPTIMUM
from pipeline.report.parts.ink import (
    GREY,
    MOST_DATASETS,
    hover,
    hover_unseen,
    legend,
    mark,
    short,
    titled_panels,
)
from pipeline.report.parts.parts import Section, Table, number, shape_groups, spread, words
from pipeline.report.sections.content import Content
from pipeline.scoring.tables import chance_of_best, gap_table, restart_table, tree_of
from pipeline.text import plural

PANEL = (2.75, 1.9)
MOST_TIPS = 12
"""Points of a line that have a marker, or words beneath the pointer."""
GAPS = "Share of restarts whose objective is no further from the best of its cell."
CHANCES = (
    "Probability that so many restarts hold the best that all of a cell's restarts found, over cells"
    " and over all orders of the restarts."
)


def section(content: Content) -> Section:
    """Gaps and chances, and the table of both."""
    names = {name: plan.baselines for name, plan in content.manifest.plans.items()}
    pictures = (
        *content.save(draw_gaps(gap_table(tree_of(content.tree, content.chosen), names)), "gaps", GAPS),
        *content.save(draw_chances(content.cells), "restarts", CHANCES),
    )
    text, tables = entries(content.cells)
    return Section("restarts", "Restarts", text, tables, pictures)


def entries(cells: pd.DataFrame) -> tuple[tuple[str, ...], tuple[Table, ...]]:
    """Words and tables on restarts.

    Parameters
    ----------
    cells : pandas.DataFrame
        From `pipeline.scoring.tables.cell_table`.
    """
    found = restart_table(cells)
    if found.empty:
        return ("No cell is done.",), ()
    text = [
        f"A hit is a restart whose objective is within {SAME_OPTIMUM:g} nats of the best of its cell. The"
        " best known may not be the best there is: where a cell's best was found once only, more restarts"
        " may find a better one, or another search: method and generations in the sweep file."
    ]
    if found["restarts"].max() <= 1:
        text.append("These cells ran one restart each, which says nothing of how many are needed.")
    if found["unseen"].notna().any():
        text.append(
            "Cells were ended by a rule when their optima repeated, so those with few restarts are the easy"
            " ones, and what was not found there cannot count."
        )
    rows = tuple(
        (
            words(row.dataset),
            words(row.model),
            number(float(row.cells)),
            number(row.restarts, ".1f"),
            number(100 * row.hit_rate, ".1f"),
            number(100 * row.once, ".1f"),
            number(float(row.for_95)),
            number(float(row.for_99)),
            number(100 * row.unseen, ".2f"),
        )
        for row in found.itertuples()
    )
    head = ("data set", "model", "cells", "restarts of a cell", "hit rate, %", "found once, %")
    note = (
        "Enough are as many restarts as hold the best of their cell with that probability. Where a rule ended"
        " the restarts, the last column is their mean estimate of the chance of an optimum not seen before."
    )
    table = Table("Restarts", (*head, "enough for 95 %", "enough for 99 %", "unseen, %"), rows, note=note)
    return tuple(text), (table,)


def draw_gaps(gaps: pd.DataFrame) -> Figure | None:
    """Draw the share of restarts by their gap to the best of the cell, a panel per data set.

    Parameters
    ----------
    gaps : pandas.DataFrame
        From `pipeline.scoring.tables.gap_table`.

    Returns
    -------
    Figure or None
        None if nothing is done.
    """

    def panel(axes: Axes, rows: pd.DataFrame, model: str) -> None:
        look = mark(model)
        gap, share = rows["gap"].to_numpy(dtype=float), rows["share"].to_numpy(dtype=float)
        (drawn,) = axes.plot(gap, share, color=look.color, linestyle=look.line, label=model)
        drawn.set(linewidth=1.6, drawstyle="steps-post")
        axes.set_xscale("log")
        shown = spread(range(len(gap)), MOST_TIPS)
        words = [f"{model}: {share[at]:.0%} of restarts within {gap[at]:.2g} nats" for at in shown]
        hover_unseen(axes, gap[shown], share[shown], words)
        axes.set_xticks([SAME_OPTIMUM, 1e-3, 1, 1e3], ["same", "0.001", "1", "1000"])
        axes.minorticks_off()

    # a method without an objective has no gaps, and none of its restarts is far from the best
    known = gaps.groupby(["dataset", "model"])["share"].transform("max") > 0
    return _by_dataset(gaps[known], panel, "gap to the best of the cell (nats)", "restarts (share)")


def draw_chances(cells: pd.DataFrame) -> Figure | None:
    """Draw the probability that so many restarts hold the best known, a panel per data set.

    Parameters
    ----------
    cells : pandas.DataFrame
        From `pipeline.scoring.tables.cell_table`.

    Returns
    -------
    Figure or None
        None if no cell is done.
    """

    def panel(axes: Axes, rows: pd.DataFrame, model: str) -> None:
        look = mark(model)
        chance = chance_of_best(
            rows["restarts_done"].to_numpy(np.int64), rows["hits"].to_numpy(dtype=np.int64)
        )
        restarts = np.arange(1, len(chance) + 1)
        (drawn,) = axes.plot(restarts, chance, color=look.color, linestyle=look.line, label=model)
        drawn.set(**look.markers, linewidth=1.6, markersize=4 if len(chance) <= MOST_TIPS else 0)
        shown = spread(range(len(chance)), MOST_TIPS)
        words = [f"{model}, {plural(restarts[at], 'restart')}: {chance[at]:.3f}" for at in shown]
        if len(shown) == len(chance):
            hover(drawn, words)
        else:
            hover_unseen(axes, restarts[shown], chance[shown], words)
        axes.axhline(0.95, color=GREY, linewidth=0.8, linestyle="-.", label="0.95")
        axes.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))

    rows = cells[(cells["status"] == "done") & (cells["hits"].fillna(0) > 0)]
    return _by_dataset(rows, panel, "restarts (number)", "cells with the best (share)")


def _by_dataset(
    rows: pd.DataFrame, panel: Callable[[Axes, pd.DataFrame, str], None], across: str, up: str
) -> Figure | None:
    if rows.empty:
        return None
    names = spread(list(rows["dataset"].unique()), MOST_DATASETS)
    groups = shape_groups(rows["model"].unique())
    shown = list(product(names, groups))
    figure, flat = titled_panels([short(*each) for each in shown], PANEL, up, share="all")
    for axes, (name, group) in zip(flat, shown, strict=True):
        there = rows[(rows["dataset"] == name) & rows["model"].isin(groups[group])]
        for model, runs in there.groupby("model", sort=True):
            panel(axes, runs, str(model))
        axes.set_xlabel(across)
        axes.set_ylim(-0.03, 1.05)
        axes.grid()
        axes.tick_params(labelbottom=True)
    legend(figure, flat)
    return figure
