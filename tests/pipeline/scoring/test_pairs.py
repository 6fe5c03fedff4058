"""The same cells in pairs: hand-made cells of two cubes, and of the searches of a sweep."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pytest
from searched import SEARCHES, other_shapes, searched

from pipeline.scoring.pairs import (
    ALL,
    COSTS,
    compared_scores,
    compared_searches,
    difference_table,
    pair,
    total_table,
)
from pipeline.scoring.tables import MIXTURES, REDRAWS
from sweeps.file.search import Search

USUAL = {
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
BASELINE = {"p": np.nan, "m": pd.NA, "replicate": pd.NA, "model": "unsupervised"}


def cells(*rows: dict[str, object]) -> pd.DataFrame:
    table = pd.DataFrame([USUAL | row for row in rows])
    return table.astype({**dict.fromkeys(("mixture", "m", "replicate"), "Int64"), "p": float})


def paired(
    a: Mapping[Any, float], b: Mapping[Any, float], keys: tuple[str, ...] = ("replicate",), score: str = "nmi"
) -> pd.DataFrame:
    """Pairs of cells of A and B, whose coordinates and scores are given."""

    def side(values: Mapping[Any, float]) -> pd.DataFrame:
        places = [place if isinstance(place, tuple) else (place,) for place in values]
        rows = zip(places, values.values(), strict=True)
        return cells(*({**dict(zip(keys, place, strict=True)), score: value} for place, value in rows))

    pairs, unpaired = pair(side(a), side(b), [score])
    assert unpaired.empty
    return pairs


def test_differences_are_paired_cell_by_cell() -> None:
    (row,) = difference_table(paired({0: 0.1, 1: 0.5, 2: 0.9}, {2: 0.9, 0: 0.4, 1: 0.6})).itertuples()
    differences = np.array([0.3, 0.1, 0.0])
    assert (row.n_cells, row.n, row.unit, row.n_missing) == (3, 3, REDRAWS, 0)
    assert row.difference == pytest.approx(differences.mean())
    assert row.se == pytest.approx(differences.std(ddof=1) / np.sqrt(3))
    assert (row.wins_b, row.wins_a, row.ties) == pytest.approx((2 / 3, 0, 1 / 3))
    assert (row.mean_a, row.mean_b) == pytest.approx((0.5, 1.9 / 3))
    # less divergence wins, and rounding does not
    found = {0: 0.5, 1: 0.6, 2: 2.0, 3: 1.0 + 1e-12}
    (row,) = difference_table(paired(dict.fromkeys(range(4), 1.0), found, score="goldberger_kl")).itertuples()
    assert (row.wins_b, row.wins_a, row.ties) == (0.5, 0.25, 0.25)
    # a score that one of two lacks is counted and left out
    (row,) = total_table(paired({0: 0.5, 1: np.nan}, {0: 0.7, 1: 0.9})).itertuples()
    assert (row.n_cells, row.n_missing, row.n, row.n_datasets, row.mean_b) == (1, 1, 1, 1, 0.7)
    assert row.difference == pytest.approx(0.2)


def test_cells_without_a_partner_are_named_with_the_reason() -> None:
    a = cells({}, {"m": 20}, {"m": 30, "status": "failed"}, {"m": 40}, {"dataset": "wine"}, BASELINE)
    b = cells(BASELINE, {}, {"m": 30}, {"m": 40, "status": "pending"}, {"dataset": "ecoli", "mixture": 3})
    pairs, unpaired = pair(a, b, ["nmi"])
    assert len(pairs) == 2
    assert unpaired.set_index("cell")["why"].to_dict() == {
        "iris/p=0.9/m=20/replicate=0/posterior": "only in A",
        "iris/p=0.9/m=30/replicate=0/posterior": "not done in A",
        "iris/p=0.9/m=40/replicate=0/posterior": "not done in B",
        "wine/p=0.9/m=10/replicate=0/posterior": "only in A",
        "ecoli/mixture=3/p=0.9/m=10/replicate=0/posterior": "only in B",
    }


def test_cells_of_a_cube_that_names_no_design_or_search_pair_with_those_of_their_name() -> None:
    in_search = [{}, {"m": 20}, BASELINE, {"model": "pckmeans"}]
    alone = {**BASELINE, "model": "k-means"}  # a method without annotations is of no search
    named = [
        {**row, "search": "long", **({} if row is BASELINE else {"design": "uniform"})} for row in in_search
    ]
    other = {"design": "active", "search": "long", "m": 20}
    for swap in (1, -1):
        sides = (cells(*in_search, alone), cells(*named, alone, other))[::swap]
        pairs, unpaired = pair(*sides, ["nmi"], ("long", "long"))
        assert len(pairs) == 5
        only = "only in B" if swap == 1 else "only in A"
        name = "iris/p=0.9/m=20/design=active/replicate=0/search=long/posterior"
        assert unpaired.to_numpy().tolist() == [[name, only]]


def test_redraws_of_a_mixture_are_one_unit() -> None:
    """By hand: differences of two mixtures, 0.1 and 0.3 on average, have an error of 0.1."""
    found = {(0, 0): 0.2, (0, 1): 0.4, (1, 0): 0.5, (1, 1): 0.5}
    (row,) = difference_table(paired(dict.fromkeys(found, 0.2), found, ("mixture", "replicate"))).itertuples()
    assert (row.n_cells, row.n, row.unit) == (4, 2, MIXTURES)
    assert (row.difference, row.se) == pytest.approx((0.2, 0.1))
    assert (row.wins_b, row.ties) == (0.75, 0.25)


def test_in_all_each_data_set_counts_alike_with_the_error_of_its_draws() -> None:
    """By hand: 0.2 ± 0.1 of two redraws, each a mean over m, and 0.4 ± 0.3 of two mixtures."""
    found = {("iris", pd.NA, 10, 0): 0.1, ("iris", pd.NA, 10, 1): 0.3, ("iris", pd.NA, 20, 0): 0.3}
    found |= {("iris", pd.NA, 20, 1): 0.5, ("mix", 0, 10, 0): 0.2, ("mix", 1, 10, 0): 0.8}
    keys = ("dataset", "mixture", "m", "replicate")
    (row,) = total_table(paired(dict.fromkeys(found, 0.1), found, keys)).itertuples()
    assert (row.n_datasets, row.n_cells, row.n, row.unit) == (2, 6, 4, f"{MIXTURES} and {REDRAWS}")
    assert (row.difference, row.se) == pytest.approx((0.3, np.sqrt(0.1**2 + 0.3**2) / 2))
    # what nothing draws again has no error
    rows = [{**BASELINE, "dataset": name} for name in ("iris", "wine")]
    pairs, _ = pair(cells(*rows), cells(*({**row, "nmi": 0.7} for row in rows)), ["nmi"])
    assert difference_table(pairs)["se"].isna().all()
    (row,) = total_table(pairs).itertuples()
    assert (row.n_datasets, row.n_cells) == (2, 2)
    assert pd.isna([row.se, row.unit]).all()


def only(cells: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Differences and costs of the one search beside the first."""
    found = compared_searches(cells, SEARCHES)
    for table in found.values():
        assert table[["search", "reference"]].drop_duplicates().to_numpy().tolist() == [["second", "first"]]
    return found["searches"].set_index(KEYS), found["search-costs"].set_index(KEYS[1:])


KEYS = ["score", "dataset", "model"]


def test_searches_are_paired_by_cell_and_costs_are_ratios() -> None:
    table, costs = only(searched())
    # methods do not search
    assert set(table.index.get_level_values("model")) == {"posterior", "unsupervised"}
    row = table.loc[("objective", "a", "posterior")]
    assert (row["n_cells"], row["n"], row["unit"]) == (4, 4, "redraws")
    assert (row["wins_b"], row["wins_a"], row["ties"]) == (0.25, 0.25, 0.5)
    # of 1, -2, 0, 0: variance 1.5833
    assert (row["difference"], row["se"]) == pytest.approx((-0.25, (4.75 / 3 / 4) ** 0.5))
    assert table.loc[("nmi", "a", "posterior"), "difference"] == pytest.approx(0.025)
    assert table.loc[("nmi", ALL, "posterior"), ["difference", "n_cells"]].tolist() == pytest.approx(
        [0.0125, 8]
    )
    assert table.loc[("objective", "a", "unsupervised"), "ties"] == 1
    assert list(costs[list(COSTS[2:])].loc[("a", "posterior")]) == [4, 0.5, 1.0, 0.5, 0.25]
    assert list(costs[list(COSTS[2:])].loc[(ALL, "unsupervised")]) == [2, 0.5, 1.0, 0.5, 0.25]
    assert costs.index.tolist() == [
        (name, model) for name in (ALL, "a", "b") for model in ("posterior", "unsupervised")
    ]


def test_other_objectives_do_not_compare() -> None:
    first, second, prior = SEARCHES
    assert compared_scores(first, second) == ("objective", "nmi", "adjusted_rand")
    assert compared_scores(first, prior) == ("nmi", "adjusted_rand")
    found = compared_searches(searched(("first", "second", "prior")), SEARCHES)
    table, costs = (each[each["search"] == "prior"] for each in found.values())
    assert set(table["score"]) == {"nmi", "adjusted_rand"}
    assert costs["to_best"].isna().all()
    assert (costs["cpu"] == 1).all()
    # nor do those of cells that chose another shape
    table, _ = only(other_shapes())
    row = table.loc[("objective", "a", "posterior")]
    assert (row["n_cells"], row["n_missing"], row["wins_a"], row["wins_b"]) == (3, 1, 0, pytest.approx(1 / 3))
    assert table.loc[("nmi", "a", "posterior"), "n_cells"] == 4


def test_only_cells_that_are_done_in_both_are_compared() -> None:
    cells = searched()
    late = (cells["search"] == "second") & (cells["replicate"] == 0)
    table, costs = only(cells.assign(status=cells["status"].mask(late, "pending")))
    assert costs.loc[("a", "posterior"), "n_cells"] == 3
    assert table.loc[("nmi", "a", "posterior"), "n_cells"] == 3
    none = cells.assign(status=cells["status"].mask(cells["search"] == "second", "pending"))
    alone = searched(("first",))
    for one in (none, alone, alone.iloc[:0]):
        assert compared_searches(one, SEARCHES) == {}
    assert compared_searches(alone.drop(columns="search"), (Search(),)) == {}
