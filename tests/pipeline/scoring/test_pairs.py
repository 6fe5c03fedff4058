"""The same cells in pairs: hand-made cells of two cubes, and of the searches of a sweep."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from searched import SEARCHES, searched

from pipeline.scoring.pairs import (
    ALL,
    compared_scores,
    compared_searches,
    difference_table,
    pair,
    search_tables,
    total_table,
)
from pipeline.scoring.tables import MIXTURES, REDRAWS
from sweeps.file.search import Search


def cells(*rows: dict[str, object]) -> pd.DataFrame:
    usual = {
        "dataset": "iris",
        "mixture": pd.NA,
        "p": 0.9,
        "m": 10,
        "replicate": 0,
        "model": "posterior",
        "status": "done",
        "nmi": 0.5,
        "goldberger_kl": 1.0,
    }
    table = pd.DataFrame([{**usual, **row} for row in rows])
    return table.astype({**dict.fromkeys(("mixture", "m", "replicate"), "Int64"), "p": float})


BASELINE = {"p": np.nan, "m": pd.NA, "replicate": pd.NA, "model": "unsupervised"}


def test_differences_are_paired_cell_by_cell() -> None:
    a = cells(*({"replicate": r, "nmi": nmi} for r, nmi in enumerate((0.1, 0.5, 0.9))))
    b = cells(*({"replicate": r, "nmi": nmi} for r, nmi in ((2, 0.9), (0, 0.4), (1, 0.6))))
    pairs, unpaired = pair(a, b, ["nmi"])
    assert unpaired.empty
    (row,) = difference_table(pairs).itertuples()
    differences = np.array([0.3, 0.1, 0.0])
    assert (row.n_cells, row.n, row.unit, row.n_missing) == (3, 3, REDRAWS, 0)
    assert row.difference == pytest.approx(differences.mean())
    assert row.se == pytest.approx(differences.std(ddof=1) / np.sqrt(3))
    assert (row.wins_b, row.wins_a, row.ties) == pytest.approx((2 / 3, 0, 1 / 3))
    assert (row.mean_a, row.mean_b) == pytest.approx((0.5, 1.9 / 3))


def test_less_divergence_wins_and_rounding_does_not() -> None:
    a = cells(*({"replicate": r, "goldberger_kl": kl} for r, kl in enumerate((1.0,) * 4)))
    b = cells(*({"replicate": r, "goldberger_kl": kl} for r, kl in enumerate((0.5, 0.6, 2.0, 1.0 + 1e-12))))
    (row,) = difference_table(pair(a, b, ["goldberger_kl"])[0]).itertuples()
    assert (row.wins_b, row.wins_a, row.ties) == (0.5, 0.25, 0.25)


def test_baselines_pair_although_they_have_no_coordinates() -> None:
    pairs, unpaired = pair(cells(BASELINE, {}), cells({}, BASELINE), ["nmi"])
    assert len(pairs) == 2
    assert unpaired.empty


def test_cells_without_a_partner_are_named_with_the_reason() -> None:
    a = cells({}, {"m": 20}, {"m": 30, "status": "failed"}, {"m": 40}, {"dataset": "wine"})
    b = cells({}, {"m": 30}, {"m": 40, "status": "pending"}, {"dataset": "ecoli", "mixture": 3})
    pairs, unpaired = pair(a, b, ["nmi"])
    assert len(pairs) == 1
    assert unpaired.set_index("cell")["why"].to_dict() == {
        "iris/p=0.9/m=20/replicate=0/posterior": "only in A",
        "iris/p=0.9/m=30/replicate=0/posterior": "not done in A",
        "iris/p=0.9/m=40/replicate=0/posterior": "not done in B",
        "wine/p=0.9/m=10/replicate=0/posterior": "only in A",
        "ecoli/mixture=3/p=0.9/m=10/replicate=0/posterior": "only in B",
    }


def test_a_score_that_one_of_two_lacks_is_counted_and_left_out() -> None:
    a = cells({"nmi": 0.5}, {"replicate": 1, "nmi": np.nan})
    b = cells({"nmi": 0.7}, {"replicate": 1, "nmi": 0.9})
    (row,) = total_table(pair(a, b, ["nmi"])[0]).itertuples()
    assert (row.n_cells, row.n_missing, row.n, row.n_datasets, row.mean_b) == (1, 1, 1, 1, 0.7)
    assert row.difference == pytest.approx(0.2)


def test_redraws_of_a_mixture_are_one_unit() -> None:
    """By hand: differences of two mixtures, 0.1 and 0.3 on average, have an error of 0.1."""
    a = cells(*({"mixture": k, "replicate": r, "nmi": 0.2} for k in range(2) for r in range(2)))
    found = {(0, 0): 0.2, (0, 1): 0.4, (1, 0): 0.5, (1, 1): 0.5}
    b = cells(*({"mixture": k, "replicate": r, "nmi": nmi} for (k, r), nmi in found.items()))
    (row,) = difference_table(pair(a, b, ["nmi"])[0]).itertuples()
    assert (row.n_cells, row.n, row.unit) == (4, 2, MIXTURES)
    assert row.difference == pytest.approx(0.2)
    assert row.se == pytest.approx(0.1)
    assert (row.wins_b, row.ties) == (0.75, 0.25)


def test_in_all_each_data_set_counts_alike_with_the_error_of_its_draws() -> None:
    """By hand: 0.2 ± 0.1 of two redraws, each a mean over m, and 0.4 ± 0.3 of two mixtures."""
    gains = {10: (0.0, 0.2), 20: (0.2, 0.4)}
    rows = [
        {"m": m, "replicate": r, "nmi": 0.1 + gain}
        for m, found in gains.items()
        for r, gain in enumerate(found)
    ]
    rows += [{"dataset": "mix", "mixture": k, "nmi": 0.1 + gain} for k, gain in enumerate((0.1, 0.7))]
    a = cells(*({**row, "nmi": 0.1} for row in rows))
    (row,) = total_table(pair(a, cells(*rows), ["nmi"])[0]).itertuples()
    assert (row.n_datasets, row.n_cells, row.n, row.unit) == (2, 6, 4, f"{MIXTURES} and {REDRAWS}")
    assert row.difference == pytest.approx(0.3)
    assert row.se == pytest.approx(np.sqrt(0.1**2 + 0.3**2) / 2)


def test_what_nothing_draws_again_has_no_error() -> None:
    rows = [{**BASELINE, "dataset": name} for name in ("iris", "wine")]
    pairs, _ = pair(cells(*rows), cells(*({**row, "nmi": 0.7} for row in rows)), ["nmi"])
    assert difference_table(pairs)["se"].isna().all()
    (row,) = total_table(pairs).itertuples()
    assert (row.n_datasets, row.n_cells) == (2, 2)
    assert np.isnan(row.se)
    assert pd.isna(row.unit)


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
