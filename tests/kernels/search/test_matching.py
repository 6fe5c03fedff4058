"""Matching of centroids against scipy and all permutations."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment
from solving.from_python import from_python

from kernels.search.matching import match, new_matching

match = from_python(match)


def test_match_agrees_with_scipy() -> None:
    rng = np.random.default_rng(0)
    for size in [1, 2, 3, 5, 8, 13] * 8:
        cost = rng.random((size, size))
        if rng.random() < 0.3:
            cost = np.round(cost * 3)
        matching = new_matching(size)
        matching.cost[:] = cost
        match(matching)
        columns = matching.column_of
        assert sorted(columns.tolist()) == list(range(size))
        rows, best = linear_sum_assignment(cost)
        assert cost[np.arange(size), columns].sum() == pytest.approx(cost[rows, best].sum())


@settings(deadline=None)  # the first call may compile
@given(
    st.integers(1, 5).flatmap(
        lambda k: st.lists(st.lists(st.integers(0, 4), min_size=k, max_size=k), min_size=k, max_size=k)
    )
)
def test_no_permutation_costs_less(costs: list[list[int]]) -> None:
    """Small whole numbers: many ties, and sums without rounding."""
    cost = np.array(costs, dtype=float)
    size = len(cost)
    matching = new_matching(size)
    # What an earlier, larger matching left in the scratch memory must not matter.
    matching.cost[:] = 9.0 - cost
    match(matching)
    matching.cost[:] = cost
    match(matching)
    rows = np.arange(size)
    assert matching.row_of[matching.column_of].tolist() == rows.tolist()
    least = min(cost[rows, list(order)].sum() for order in itertools.permutations(range(size)))
    assert cost[rows, matching.column_of].sum() == least


@settings(deadline=None, max_examples=300)
@given(st.integers(1, 5).flatmap(lambda k: st.lists(st.floats(), min_size=k * k, max_size=k * k)))
def test_costs_that_are_no_numbers_end_with_some_permutation(costs: list[float]) -> None:
    size = int(len(costs) ** 0.5)
    matching = new_matching(size)
    for values in (np.arange(len(costs), dtype=float), np.array(costs)):
        matching.cost[:] = values.reshape(size, size)
        match(matching)
        assert sorted(matching.column_of.tolist()) == list(range(size))
