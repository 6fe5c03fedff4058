"""Searches side by side, against numbers by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from searched import SEARCHES, searched

from pipeline.scoring.searches import ALL, compared_scores, compared_searches, search_tables
from sweeps.file.search import Search


def test_differences_are_paired_by_cell() -> None:
    (found,) = compared_searches(searched(), SEARCHES)
    assert (found.search, found.reference, found.title) == ("second", "first", "second beside first")
    table = found.differences.set_index(["score", "dataset", "model"])
    assert set(table.index.get_level_values("model")) == {"posterior", "unsupervised"}, (
        "methods do not search"
    )
    row = table.loc[("objective", "a", "posterior")]
    assert (row["n_cells"], row["n"], row["unit"]) == (4, 4, "redraws")
    assert (row["wins_b"], row["wins_a"], row["ties"]) == (0.25, 0.25, 0.5)
    assert row["difference"] == pytest.approx(-0.25)
    # of 1, -2, 0, 0: variance 1.5833
    assert row["se"] == pytest.approx((4.75 / 3 / 4) ** 0.5)
    assert table.loc[("nmi", "a", "posterior"), "difference"] == pytest.approx(0.025)
    whole = table.loc[("nmi", ALL, "posterior")]
    assert whole["difference"] == pytest.approx(0.0125)
    assert whole["n_cells"] == 8
    assert table.loc[("objective", "a", "unsupervised"), "ties"] == 1


def test_costs_are_ratios() -> None:
    (found,) = compared_searches(searched(), SEARCHES)
    costs = found.costs.set_index(["dataset", "model"])
    assert list(costs.loc[("a", "posterior")]) == [4, 0.5, 1.0, 0.5, 0.25]
    assert list(costs.loc[(ALL, "unsupervised")]) == [2, 0.5, 1.0, 0.5, 0.25]


def test_other_objectives_do_not_compare() -> None:
    first, second, prior = SEARCHES
    assert compared_scores(first, second) == ("objective", "nmi", "adjusted_rand")
    assert compared_scores(first, prior) == ("nmi", "adjusted_rand")
    found = compared_searches(searched(("first", "second", "prior")), SEARCHES)
    assert [each.search for each in found] == ["second", "prior"]
    assert set(found[1].differences["score"]) == {"nmi", "adjusted_rand"}
    assert found[1].costs["to_best"].isna().all()
    assert (found[1].costs["cpu"] == 1).all()


def test_cells_that_chose_another_shape_maximised_another_objective() -> None:
    cells = searched()
    other = (cells["search"] == "second") & (cells["replicate"] == 1) & (cells["model"] == "posterior")
    shapes = cells["covariance_shape"].where(cells["model"] != "posterior", "full").mask(other, "tied")
    (found,) = compared_searches(cells.assign(covariance_shape=shapes), SEARCHES)
    row = found.differences.set_index(["score", "dataset", "model"]).loc[("objective", "a", "posterior")]
    assert (row["n_cells"], row["n_missing"], row["wins_a"]) == (3, 1, 0)
    assert row["wins_b"] == pytest.approx(1 / 3)
    nmi = found.differences.set_index(["score", "dataset", "model"]).loc[("nmi", "a", "posterior")]
    assert nmi["n_cells"] == 4


def test_only_cells_that_are_done_in_both_are_compared() -> None:
    cells = searched()
    late = (cells["search"] == "second") & (cells["replicate"] == 0)
    (found,) = compared_searches(cells.assign(status=cells["status"].mask(late, "pending")), SEARCHES)
    assert found.costs.set_index(["dataset", "model"]).loc[("a", "posterior"), "n_cells"] == 3
    assert (
        found.differences.set_index(["score", "dataset", "model"]).loc[("nmi", "a", "posterior"), "n_cells"]
        == 3
    )
    none = cells.assign(status=cells["status"].mask(cells["search"] == "second", "pending"))
    assert compared_searches(none, SEARCHES) == ()


def test_one_search_has_nothing_beside_it() -> None:
    cells = searched(("first",))
    assert compared_searches(cells, SEARCHES) == ()
    assert compared_searches(cells.drop(columns="search"), (replace(SEARCHES[0], name=None),)) == ()
    assert search_tables(()) == {}
    assert compared_searches(cells.iloc[:0], (Search(),)) == ()


def test_files_name_both_searches() -> None:
    tables = search_tables(compared_searches(searched(("first", "second", "prior")), SEARCHES))
    assert set(tables) == {"searches", "search-costs"}
    for table in tables.values():
        assert set(table["search"]) == {"second", "prior"}
        assert set(table["reference"]) == {"first"}
