"""Cells of one design and one search, for what compares models: a mean over several would mean nothing."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
import xarray as xr

from sweeps.words import UNIFORM

DESIGN, SEARCH = "design", "search"
VARIANTS = (DESIGN, SEARCH)
"""Coordinates of a cell that only some sweeps name: missing in all others."""


def with_variants(table: pd.DataFrame) -> pd.DataFrame:
    """The table, with a column of each variant: one that was kept may be older than they are."""
    missing = [key for key in VARIANTS if key not in table]
    return table.assign(**{key: pd.Series(np.nan, table.index, dtype=object) for key in missing})


def values_of(cells: pd.DataFrame, key: str) -> list[str]:
    """Designs or searches of a table of cells, in the order of the file; none where the sweep names none.

    Parameters
    ----------
    cells : pandas.DataFrame
        From `pipeline.scoring.tables.cell_table`.
    key : str
        One of `VARIANTS`.
    """
    return list(with_variants(cells)[key].dropna().unique())


def compared(cells: pd.DataFrame) -> dict[str, str]:
    """The design and the search in which models are compared, as far as the sweep names them.

    The design is "uniform", or the first one where that is not there; the search is the first one.
    """
    names = {key: values_of(cells, key) for key in VARIANTS}
    if UNIFORM in names[DESIGN]:
        names[DESIGN] = [UNIFORM]
    return {key: found[0] for key, found in names.items() if found}


def titled(title: str, row: Mapping[str, object]) -> str:
    """A title with the design and the search of a row of a table, as far as it has them."""
    return ", ".join([title, *(str(row[key]) for key in VARIANTS if not pd.isna(row[key]))])


def rows_of(table: pd.DataFrame, chosen: Mapping[str, str]) -> pd.DataFrame:
    """Rows of the design and search from `compared`, and of models that have none."""
    for key, value in chosen.items():
        table = table[(table[key] == value) | table[key].isna()]
    return table


def tree_of(tree: xr.DataTree, chosen: Mapping[str, str]) -> xr.DataTree:
    """An opened cube without its dimensions `design` and `search`, if it has them: cells of one of each."""
    nodes = {}
    for node in tree.subtree:
        values = node.to_dataset()
        there = {key: value for key, value in chosen.items() if key in values.dims}
        nodes[node.path] = values.sel(there, drop=True) if there else values
    return xr.DataTree.from_dict(nodes)
