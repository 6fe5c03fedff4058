"""Time in kernels of each cell."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from pipeline.report.parts.ink import INK, MOST_DATASETS, RULE, mark, short
from pipeline.report.parts.parts import Section, Table, number, spread, words
from pipeline.report.sections.content import Content
from pipeline.scoring.scores import LABELS
from pipeline.scoring.tables import SEARCH, time_table
from pipeline.text import plural

BOX_HEIGHT = 0.24
"""Inches of one box."""
HEAD = (
    "data set",
    "model",
    "cells",
    "mean, CPU s",
    "mean, s",
    "quickest tenth, s",
    "median, s",
    "slowest tenth, s",
    "a restart, ms",
    "all, core-hours",
)
NOTE = "Of cells that are done, all restarts of a cell together. times.csv holds these numbers in full."
CAPTION = "Time in kernels: boxes are quartiles, whiskers the slowest and the quickest tenth."


def section(content: Content) -> Section:
    """Times as boxes and as a table."""
    pictures = content.save(draw_times(content.timed_cells), "seconds", CAPTION)
    text, tables = entries(content.timed_cells)
    if tables and SEARCH in content.chosen:
        text += tuple(f"All searches together: {line}" for line in entries(content.all_cells)[0])
    return Section("times", "Time", text, tables, pictures)


def entries(cells: pd.DataFrame) -> tuple[tuple[str, ...], tuple[Table, ...]]:
    """Words and tables on time.

    Parameters
    ----------
    cells : pandas.DataFrame
        From `pipeline.scoring.tables.cell_table`.
    """
    table = time_table(cells)
    if table.empty:
        return ("No cell is done.",), ()
    rows = tuple(
        (
            words(row.dataset),
            words(row.model),
            number(float(row.n)),
            *(number(float(value), ".3g") for value in (row.cpu_seconds, row.seconds)),
            *(number(float(value), ".3g") for value in (row.seconds_10, row.seconds_50, row.seconds_90)),
            number(1000 * float(row.restart_seconds), ",.3g"),
            number(float(row.cpu_hours), ".4f"),
        )
        for row in table.itertuples()
    )
    shown = Table("Time of a cell", HEAD, rows, note=NOTE)
    done = plural(int(table["n"].sum()), "cell")
    total = f"{table['cpu_hours'].sum():,.3f} core-hours in kernels, for {done}."
    return (total,), (shown,)


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
