"""Units that were drawn independently, and means with standard errors over them: n counts these, never cells.

Cells of one mixture share its data, whatever annotations were drawn for it; so its redraws, p and m say
nothing new of other mixtures. Of a real data set, which nothing draws, the annotations are drawn: there the
unit is the redraw.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

REDRAWS, MIXTURES = "redraws", "mixtures"
NAMES = {"mixture": MIXTURES, "replicate": REDRAWS}
"""Of a unit, by the coordinate of cells that numbers it."""


class Means(NamedTuple):
    """Means over units, each a table of groups by columns.

    Parameters
    ----------
    mean, se : pandas.DataFrame
        Mean of the units' means, and its standard error, which is missing for one unit.
    n : pandas.DataFrame
        Units with a value.
    """

    mean: pd.DataFrame
    se: pd.DataFrame
    n: pd.DataFrame


def unit_of(cells: pd.DataFrame) -> pd.Series:
    """Number of the unit of each cell within its data set.

    Parameters
    ----------
    cells : pandas.DataFrame
        With the columns `mixture` and `replicate`.

    Returns
    -------
    pandas.Series of Int64
        The mixture where there is one, else the redraw of the annotations; missing for a model without
        annotations on a real data set, of which nothing is drawn.
    """
    return cells["mixture"].astype("Int64").fillna(cells["replicate"].astype("Int64"))


def kind_of(cells: pd.DataFrame) -> pd.Series:
    """What the unit of each cell is: `MIXTURES` or `REDRAWS`; missing where nothing is drawn."""
    drawn = pd.Series(np.nan, cells.index, dtype=object).mask(cells["replicate"].notna(), REDRAWS)
    return drawn.mask(cells["mixture"].notna(), MIXTURES)


def over_units(values: pd.DataFrame, groups: pd.Series, units: pd.Series) -> Means:
    """Means of some columns within groups: over the cells of each unit first, then over units.

    With the mean x_u of the cells of unit u = 1, ..., n, the mean is x = sum x_u / n, and its standard error
    sqrt(sum (x_u - x)² / (n (n - 1))).

    Parameters
    ----------
    values : pandas.DataFrame of shape (n_cells, n_columns)
        Missing ones count nowhere.
    groups, units : pandas.Series of shape (n_cells,)
        What each cell belongs to. Groups are rows of the result, in the order in which they come.
    """
    means = values.groupby([groups.rename("group"), units.rename("unit")], dropna=False, sort=False).mean()
    whole = means.groupby(level="group", sort=False)
    return Means(whole.mean(), whole.sem(), whole.count())


def unit_level(places: pd.Index) -> str:
    """Name of the level that numbers units, of an index with `mixture` (-1 for none) and `replicate`."""
    return "mixture" if (places.get_level_values("mixture") >= 0).any() else "replicate"


def by_unit(places: pd.DataFrame) -> pd.DataFrame:
    """Mean over the places of each unit: a row per mixture, or per redraw where there are no mixtures."""
    return places.groupby(level=unit_level(places.index)).mean()


def over_datasets(table: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Mean over data sets, in which each counts alike, and its error; the data sets are given.

    With the standard errors s_d of D data sets it is sqrt(sum s_d²) / D: that of their draws. A data set
    without an error adds nothing to it.

    Parameters
    ----------
    table : pandas.DataFrame
        A row for each data set and `keys`, with `mean` and `se`.
    keys : list of str
        Columns within which the mean is taken.

    Returns
    -------
    pandas.DataFrame
        An index of `keys`; `mean`, `se`, missing without any, and `n`, the number of data sets.
    """
    groups = table.assign(square=table["se"] ** 2).groupby(keys, sort=False, dropna=False)
    whole = groups.agg(mean=("mean", "mean"), n=("mean", "size"))
    whole["se"] = np.sqrt(groups["square"].sum(min_count=1).astype(float)) / whole["n"]
    return whole
