"""Cells of one design, for what compares models and not designs: a mean over designs would mean nothing."""

from __future__ import annotations

import numpy as np
import pandas as pd
import xarray as xr

from sweeps.designs import UNIFORM

DESIGN = "design"


def with_design(table: pd.DataFrame) -> pd.DataFrame:
    """The table, with a column of designs: one that was kept may be older than designs."""
    return (
        table if DESIGN in table else table.assign(**{DESIGN: pd.Series(np.nan, table.index, dtype=object)})
    )


def designs_of(cells: pd.DataFrame) -> list[str]:
    """Designs of a table of cells, in the order of the file; none where the sweep names none.

    Parameters
    ----------
    cells : pandas.DataFrame
        From `pipeline.scoring.tables.cell_table`.
    """
    return list(with_design(cells)[DESIGN].dropna().unique())


def compared_design(cells: pd.DataFrame) -> str | None:
    """The design in which models are compared: "uniform", or the first one where that is not there."""
    names = designs_of(cells)
    return UNIFORM if UNIFORM in names else next(iter(names), None)


def rows_of(table: pd.DataFrame, design: str | None) -> pd.DataFrame:
    """Rows of one design, and of models without annotations; all rows where the sweep names no design."""
    return table if design is None else table[(table[DESIGN] == design) | table["p"].isna()]


def tree_of(tree: xr.DataTree, design: str | None) -> xr.DataTree:
    """An opened cube without its dimension `design`, if it has one: the cells of one design."""
    nodes = {}
    for node in tree.subtree:
        values = node.to_dataset(inherit=False)
        nodes[node.path] = values.sel(design=design, drop=True) if DESIGN in values.dims else values
    return xr.DataTree.from_dict(nodes)
