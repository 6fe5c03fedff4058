"""Units and means over them, by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from pipeline.scoring.units import MIXTURES, REDRAWS, by_unit, kind_of, over_datasets, over_units, unit_of

CELLS = pd.DataFrame(
    {
        "mixture": [0, 0, 1, pd.NA, pd.NA],
        "replicate": [0, 1, 0, 2, pd.NA],
        "nmi": [0.1, 0.3, 0.6, 0.5, 0.9],
        "kl": [np.nan, 3.0, 1.0, 2.0, np.nan],
    }
).astype({"mixture": "Int64", "replicate": "Int64"})


def test_a_unit_is_a_mixture_else_a_redraw_else_nothing() -> None:
    assert unit_of(CELLS).fillna(-1).tolist() == [0, 0, 1, 2, -1]
    assert kind_of(CELLS).fillna("").tolist() == [MIXTURES, MIXTURES, MIXTURES, REDRAWS, ""]


def test_means_are_over_units_each_over_its_cells_first() -> None:
    groups = pd.Series(["mix", "mix", "mix", "iris", "iris alone"])
    found = over_units(CELLS[["nmi", "kl"]], groups, unit_of(CELLS))
    assert list(found.mean.index) == ["mix", "iris", "iris alone"]
    # 0.2 and 0.6, not 0.1, 0.3 and 0.6
    assert found.mean.loc["mix"].tolist() == pytest.approx([0.4, 2.0])
    assert found.se.loc["mix"].tolist() == pytest.approx([0.2, 1.0])
    assert found.n.loc["mix"].tolist() == [2, 2]
    assert found.se.loc[["iris", "iris alone"]].isna().all(axis=None)
    assert found.n.loc["iris alone"].tolist() == [1, 0]


def test_units_of_places_are_mixtures_where_there_are_any() -> None:
    index = pd.MultiIndex.from_tuples([(0, 0), (0, 1), (1, 0)], names=["mixture", "replicate"])
    assert by_unit(pd.DataFrame({"x": [1.0, 3.0, 5.0]}, index))["x"].tolist() == [2.0, 5.0]
    real = pd.MultiIndex.from_tuples([(-1, 0), (-1, 1), (-1, 1)], names=["mixture", "replicate"])
    assert by_unit(pd.DataFrame({"x": [1.0, 3.0, 5.0]}, real))["x"].tolist() == [1.0, 4.0]


def test_the_error_of_a_mean_over_data_sets_is_that_of_their_draws() -> None:
    table = pd.DataFrame({"model": "a", "mean": [0.2, 0.4, 0.9], "se": [0.3, 0.4, np.nan]})
    (row,) = over_datasets(table, ["model"]).itertuples()
    assert (row.mean, row.se, row.n) == (pytest.approx(0.5), pytest.approx(0.5 / 3), 3)
    (row,) = over_datasets(table.tail(1), ["model"]).itertuples()
    assert np.isnan(row.se)
