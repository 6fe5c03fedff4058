"""Tables of what cells took: restarts and time."""

from __future__ import annotations

import pandas as pd

from pipeline.page.parts import Table, number, words
from pipeline.restarts import SAME, restart_table


def restart_entries(cells: pd.DataFrame) -> tuple[tuple[str, ...], tuple[Table, ...]]:
    """Words and tables on restarts.

    Parameters
    ----------
    cells : pandas.DataFrame
        From `pipeline.tables.cell_table`.
    """
    found = restart_table(cells)
    if found.empty:
        return ("No cell is done.",), ()
    text = [
        f"A hit is a restart whose objective is within {SAME:g} nats of the best of its cell. The best known"
        " may not be the best there is: where a cell's best was found once only, more restarts may find"
        " a better one, or another search: crossover, mutation and relocation in the sweep file."
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
        From `pipeline.tables.cell_table`.
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
