"""Figures of what cells took: gaps of restarts to the best, how many would have sufficed, time."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from pipeline.optima import SAME_OPTIMUM
from pipeline.report.parts.ink import GREY, INK, RULE, legend, mark, panels, short
from pipeline.report.parts.parts import Table, number, spread, words
from pipeline.report.sections.curves import MOST_DATASETS
from pipeline.scoring.labels import LABELS
from pipeline.scoring.restarts import chance_of_best, restart_table

PANEL = (2.75, 1.9)
ACROSS = 3
"""Panels in a row."""
BOX_HEIGHT = 0.24
"""Inches of one box of the times."""


def draw_gaps(gaps: pd.DataFrame) -> Figure | None:
    """Draw the share of restarts by their gap to the best of the cell, a panel per data set.

    Parameters
    ----------
    gaps : pandas.DataFrame
        From `pipeline.scoring.restarts.gap_table`.

    Returns
    -------
    Figure or None
        None if nothing is done.
    """

    def panel(axes: Axes, rows: pd.DataFrame, model: str) -> None:
        color, _, _, line = mark(model)
        gap, share = rows["gap"].to_numpy(dtype=float), rows["share"].to_numpy(dtype=float)
        axes.plot(gap, share, color=color, linestyle=line, label=model, linewidth=1.6, drawstyle="steps-post")
        axes.set_xscale("log")
        axes.set_xticks([SAME_OPTIMUM, 1e-3, 1, 1e3], ["same", "0.001", "1", "1000"])
        axes.minorticks_off()

    return _by_dataset(gaps, panel, "gap to the best of the cell (nats)", "restarts (share)")


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
        color, marker, filling, line = mark(model)
        chance = chance_of_best(
            rows["restarts_done"].to_numpy(np.int64), rows["hits"].to_numpy(dtype=np.int64)
        )
        restarts = np.arange(1, len(chance) + 1)
        (drawn,) = axes.plot(restarts, chance, color=color, linestyle=line, label=model, linewidth=1.6)
        drawn.set(marker=marker, markerfacecolor=filling, markersize=4 if len(chance) <= 12 else 0)
        axes.axhline(0.95, color=GREY, linewidth=0.8, linestyle="-.", label="0.95")
        axes.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))

    rows = cells[(cells["status"] == "done") & (cells["hits"].fillna(0) > 0)]
    return _by_dataset(rows, panel, "restarts (number)", "cells with the best (share)")


def draw_times(cells: pd.DataFrame) -> Figure | None:
    """Draw seconds per cell: a box per data set and model, from quickest to slowest tenth by whiskers.

    Parameters
    ----------
    cells : pandas.DataFrame
        From `pipeline.scoring.tables.cell_table`.

    Returns
    -------
    Figure or None
        None if no time is known.
    """
    rows = cells[cells["seconds"] > 0]
    if rows.empty:
        return None
    names = spread(list(rows["dataset"].unique()), MOST_DATASETS)
    groups = [
        (str(dataset), str(model), group["seconds"].to_numpy())
        for (dataset, model), group in rows[rows["dataset"].isin(names)].groupby(
            ["dataset", "model"], sort=False
        )
    ]
    figure = Figure(figsize=(8.2, BOX_HEIGHT * len(groups) + 1.0), layout="constrained")
    axes = figure.subplots()
    drawn = axes.boxplot(
        [values for _, _, values in groups],
        orientation="horizontal",
        whis=(10, 90),
        showfliers=False,
        patch_artist=True,
        widths=0.62,
    )
    for (_, model, _), box, median in zip(groups, drawn["boxes"], drawn["medians"], strict=True):
        box.set(facecolor=mark(model)[0], edgecolor=INK, alpha=0.75, linewidth=0.8)
        median.set(color=INK, linewidth=1.6)
    axes.set_yticks(np.arange(1, len(groups) + 1), [f"{short(name)}, {model}" for name, model, _ in groups])
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda seconds, _: f"{seconds:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel(LABELS["seconds"].axis + " of a cell, all restarts")
    axes.grid(axis="x", color=RULE)
    return figure


def _by_dataset(
    rows: pd.DataFrame, panel: Callable[[Axes, pd.DataFrame, str], None], across: str, up: str
) -> Figure | None:
    if rows.empty:
        return None
    names = spread(list(rows["dataset"].unique()), MOST_DATASETS)
    columns = min(ACROSS, len(names))
    figure, grid = panels(math.ceil(len(names) / columns), columns, PANEL, share="all")
    flat = [axes for line in grid for axes in line]
    for axes, name in zip(flat, names, strict=False):
        for model, group in rows[rows["dataset"] == name].groupby("model", sort=True):
            panel(axes, group, str(model))
        axes.set_title(short(name))
        axes.set_xlabel(across)
        axes.set_ylim(-0.03, 1.05)
        axes.grid()
        axes.tick_params(labelbottom=True)
    for axes in flat[len(names) :]:
        axes.remove()
    for line in grid:
        line[0].set_ylabel(up)
    legend(figure, flat[: len(names)])
    return figure


def restart_entries(cells: pd.DataFrame) -> tuple[tuple[str, ...], tuple[Table, ...]]:
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
        " may find a better one, or another search: crossover, mutation and relocation in the sweep file."
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


def time_entries(cells: pd.DataFrame) -> tuple[tuple[str, ...], tuple[Table, ...]]:
    """Words and tables on time.

    Parameters
    ----------
    cells : pandas.DataFrame
        From `pipeline.scoring.tables.cell_table`.
    """
    timed = cells[cells["seconds"].notna()]
    if timed.empty:
        return ("No cell is done.",), ()
    rows = []
    for (dataset, model), group in timed.groupby(["dataset", "model"], sort=False):
        seconds = group["seconds"]
        rows.append(
            (
                words(dataset),
                words(model),
                number(float(len(group))),
                *(number(float(seconds.quantile(q)), ".3g") for q in (0.1, 0.5, 0.9)),
                number(1000 * float(seconds.sum()) / max(1.0, float(group["restarts_done"].sum())), ",.3g"),
                number(float(seconds.sum()) / 3600, ".4f"),
            )
        )
    head = ("data set", "model", "cells", "quickest tenth, s", "median, s", "slowest tenth, s")
    table = Table("Time of a cell", (*head, "a restart, ms", "all, core-hours"), tuple(rows))
    total = f"{timed['seconds'].sum() / 3600:,.3f} core-hours in kernels, for {len(timed):,} cells."
    return (total,), (table,)
