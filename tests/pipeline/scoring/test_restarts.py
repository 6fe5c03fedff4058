"""Restarts: gaps to the best of a cell, and how many would have sufficed."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from cubes import toy

from pipeline.common import SAME_OPTIMUM
from pipeline.scoring.restarts import (
    GAPS,
    chance_of_best,
    gap_table,
    hits,
    restart_table,
    sufficient,
    within,
)
from pipeline.scoring.tables import cell_table


def node(*objectives: list[float]) -> xr.Dataset:
    return xr.Dataset({"log_likelihood": (("cell", "restart"), np.array(objectives, dtype=float))})


def test_hits_are_within_a_millionth_of_a_nat() -> None:
    found = hits(node([5.0, 5.0 - SAME_OPTIMUM / 2, 5.0 - 3 * SAME_OPTIMUM], [-1.0, -2.0, -1.0]))
    assert found.values.tolist() == [2, 2]


def test_restarts_that_were_not_run_count_nowhere() -> None:
    counts = within(node([1.0, 3.0, np.nan], [np.nan] * 3), np.array([SAME_OPTIMUM, 10.0]))
    assert counts.values.tolist() == [[1, 2], [0, 0]]


def test_lazy_counts_equal_the_plain_ones() -> None:
    objectives = np.random.default_rng(3).normal(size=(6, 5)).round(1)
    plain = node(*objectives.tolist())
    lazy = within(plain.chunk(cell=2), GAPS)
    assert lazy.chunks is not None
    np.testing.assert_array_equal(lazy.values, within(plain, GAPS).values)


@pytest.mark.parametrize(("n", "k"), [(1, 1), (4, 1), (5, 2), (5, 5), (6, 3)])
def test_the_chance_is_the_share_of_orders(n: int, k: int) -> None:
    """Every order of n restarts, k of which found the best."""
    orders = list(permutations(range(n)))
    expected = [np.mean([min(order[:r]) < k for order in orders]) for r in range(1, n + 1)]
    np.testing.assert_allclose(chance_of_best(np.array([n]), np.array([k])), expected, atol=1e-12)


def test_cells_of_fewer_restarts_have_their_best_from_then_on() -> None:
    together = chance_of_best(np.array([2, 5, 2]), np.array([1, 1, 1]))
    np.testing.assert_allclose(together, [(0.5 + 0.2 + 0.5) / 3, (2 + 0.4) / 3, 2.6 / 3, 2.8 / 3, 1.0])


def test_enough_is_the_first_that_reaches_the_chance() -> None:
    chance = np.array([0.5, 0.9, 0.95, 1.0])
    assert [sufficient(chance, wanted) for wanted in (0.3, 0.9, 0.95, 0.99)] == [1, 2, 3, 4]


def test_the_table_has_a_row_for_each_data_set_and_model() -> None:
    plans = {"iris": toy.plan("iris", restarts=4)}
    cells = cell_table(toy.tree(*plans.values()), plans)
    table = restart_table(cells).set_index("model")
    assert table["cells"].to_dict() == {"unsupervised": 1, "likelihood": 11, "posterior": 11}
    assert (table["restarts"] == 4).all()
    np.testing.assert_allclose(table["hit_rate"], 0.25)  # drawn at random: no two alike
    assert (table["once"] == 1).all()
    assert (table["for_95"] == 4).all()


def test_gaps_are_shares_of_the_restarts_that_were_run() -> None:
    plan = toy.plan("iris")
    tree = toy.tree(plan)
    table = gap_table(tree, {"iris": plan.baselines})
    assert list(table["model"].unique()) == ["unsupervised", "likelihood", "posterior"]
    for model, rows in table.groupby("model"):
        assert rows["share"].is_monotonic_increasing
        assert rows["share"].iloc[-1] == 1.0, model
    best = tree["iris/unsupervised"]["log_likelihood"].values
    row = table[(table["model"] == "unsupervised") & np.isclose(table["gap"], 0.1)].iloc[0]
    assert row["share"] == np.mean(best.max() - best <= 0.1)


def test_nothing_done_gives_empty_tables() -> None:
    plan = toy.plan("iris", models=(), p=(), m=())
    tree = toy.tree(plan)
    tree["iris/unsupervised"] = tree["iris/unsupervised"].to_dataset().assign(restarts_done=((), 0))
    assert gap_table(tree, {"iris": plan.baselines}).empty
    cells = cell_table(toy.tree(plan), {"iris": plan}).assign(status="pending")
    assert isinstance(restart_table(cells), pd.DataFrame)
    assert restart_table(cells).empty
