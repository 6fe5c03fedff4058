"""Time in kernels of each cell."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from pipeline.report.parts.ink import INK, MOST_DATASETS, RULE, mark, short
from pipeline.report.parts.parts import Section, Table, number, spread, words
from pipeline.report.sections.content import Content
from pipeline.scoring.catalogue import LABELS

BOX_HEIGHT = 0.24
"""Inches of one box."""
CAPTION = "Time in kernels: boxes are quartiles, whiskers the slowest and the quickest tenth."


def section(content: Content) -> Section:
    """Times as boxes and as a table."""
    pictures = content.save(draw_times(content.cells), "seconds", CAPTION)
    text, tables = entries(content.cells)
    return Section("times", "Time", text, tables, pictures)


def entries(cells: pd.DataFrame) -> tuple[tuple[str, ...], tuple[Table, ...]]:
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
                number(float(group["cpu_seconds"].sum()) / 3600, ".4f"),
            )
        )
    head = ("data set", "model", "cells", "quickest tenth, s", "median, s", "slowest tenth, s")
    table = Table("Time of a cell", (*head, "a restart, ms", "all, core-hours"), tuple(rows))
    total = f"{timed['cpu_seconds'].sum() / 3600:,.3f} core-hours in kernels, for {len(timed):,} cells."
    return (total,), (table,)


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
        box.set(facecolor=mark(model).color, edgecolor=INK, alpha=0.75, linewidth=0.8)
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
