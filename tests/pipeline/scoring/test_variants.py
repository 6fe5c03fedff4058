"""Cells of one design and one search."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from contests import contest
from designed import designed
from searched import searched

from pipeline.scoring.variants import compared, rows_of, titled, tree_of, values_of, with_variants


def test_models_are_compared_in_uniform_pairs_and_in_the_first_search() -> None:
    cells = searched(("second", "first"))
    cells = cells.assign(design=["active", "uniform"] * (len(cells) // 2))
    assert values_of(cells, "search") == ["second", "first"]
    assert compared(cells) == {"design": "uniform", "search": "second"}
    assert compared(cells[cells["design"] == "active"]) == {"design": "active", "search": "second"}


def test_a_sweep_that_names_none_is_compared_whole() -> None:
    cells = contest({"a": [0.5], "b": [0.4]})
    assert "search" not in cells
    assert compared(cells) == {}
    assert len(rows_of(cells, {})) == 2
    assert with_variants(cells)[["design", "search"]].isna().all(axis=None)
    assert compared(designed(lambda design, x, unit: x)) == {"design": "uniform"}


def test_rows_of_a_search_hold_what_has_none() -> None:
    cells = searched()
    rows = rows_of(cells, {"search": "second"})
    assert set(rows["model"]) == {"posterior", "pckmeans", "unsupervised", "k-means"}
    assert set(rows["search"].dropna()) == {"second"}
    assert rows["search"].isna().sum() == 2


@pytest.mark.parametrize(
    ("row", "title"),
    [
        ({"design": np.nan, "search": np.nan}, "iris"),
        ({"design": "active", "search": None}, "iris, active"),
        ({"design": "active", "search": "long"}, "iris, active, long"),
    ],
)
def test_titles_name_what_there_is(row: dict[str, object], title: str) -> None:
    assert titled("iris", row) == title


def test_a_tree_of_one_search_has_no_such_dimension() -> None:
    names = ["first", "second"]
    values = xr.Dataset(
        {"status": (("p", "search"), np.arange(4).reshape(2, 2))}, {"search": names, "p": [0.8, 1]}
    )
    tree = xr.DataTree.from_dict(
        {
            "/a": values,
            "/a/unsupervised": xr.Dataset({"status": ("search", [5, 6])}),
            "/a/k-means": xr.Dataset({"status": ((), 7)}),
        }
    )
    found = tree_of(tree, {"search": "second", "design": "uniform"})
    assert found["a"]["status"].values.tolist() == [1, 3]
    assert "search" not in found["a"].coords
    assert found["a/unsupervised"]["status"].item() == 6
    assert found["a/k-means"]["status"].item() == 7
    pd.testing.assert_index_equal(found["a"].indexes["p"], tree["a"].indexes["p"])
