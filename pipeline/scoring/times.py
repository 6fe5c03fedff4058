"""Time of a cell, by data set and model."""

from __future__ import annotations

import pandas as pd

from pipeline.scoring.variants import SEARCH, with_variants

COLUMNS = (
    "dataset",
    SEARCH,
    "model",
    "n",
    "cpu_seconds",
    "seconds",
    "seconds_10",
    "seconds_50",
    "seconds_90",
    "restart_seconds",
    "cpu_hours",
)


def time_table(cells: pd.DataFrame) -> pd.DataFrame:
    """Measure what a cell takes, over cells with a result.

    Parameters
    ----------
    cells : pandas.DataFrame
        From `pipeline.scoring.tables.cell_table`.

    Returns
    -------
    pandas.DataFrame
        A row for each data set, search and model with a time: `n` cells; means of `cpu_seconds` and of
        `seconds` of a cell, all of its restarts; its quickest tenth, median and slowest tenth as
        `seconds_10`, `seconds_50`, `seconds_90`; `restart_seconds`, the seconds of all cells per restart
        that is done; and `cpu_hours` of all cells.
    """
    timed = with_variants(cells[cells["seconds"].notna()])
    if timed.empty:
        return pd.DataFrame(columns=list(COLUMNS))
    groups = timed.groupby(["dataset", SEARCH, "model"], sort=False, dropna=False)
    table = groups[["cpu_seconds", "seconds"]].mean()
    table.insert(0, "n", groups.size())
    for tenths in (1, 5, 9):
        table[f"seconds_{tenths}0"] = groups["seconds"].quantile(tenths / 10)
    table["restart_seconds"] = groups["seconds"].sum() / groups["restarts_done"].sum().astype(float).clip(1)
    table["cpu_hours"] = groups["cpu_seconds"].sum() / 3600
    return table.reset_index()[list(COLUMNS)]
