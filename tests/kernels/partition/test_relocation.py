"""A long run of relocations ends with the statistics of members, and with all that is derived from them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from solving.entries import collect
from solving.from_python import from_python
from solving.oracles import draw_case, draw_labels
from solving.tiny import COVARIANCES, MODELS

from kernels.partition.gains import set_distances, set_links
from kernels.partition.relocation import error_after_removal, relocate
from kernels.partition.state import RELOCATIONS, STALE, State, new_state
from kernels.problem.data import Data
from kernels.problem.problem import build_problem

relocate = from_python(relocate)
error_after_removal = from_python(error_after_removal)
set_links = from_python(set_links)
set_distances = from_python(set_distances)

DERIVED = (
    "sizes", "means", "errors", "squares", "scatter", "inverse", "logdets", "edge_counts", "agreed",
    "terms", "join", "ratios", "count_terms", "rates", "logs", "base", "slack",
)  # fmt: skip


def move(data: Data, state: State, sample: int, target: int) -> None:
    set_distances(data, state, sample)
    set_links(data, state, sample)
    relocate(data, state, sample, target)


@pytest.mark.parametrize("covariance", COVARIANCES)
@pytest.mark.parametrize("model", MODELS)
def test_relocations_equal_a_fresh_start(model: str, covariance: str) -> None:
    case = replace(draw_case(3, model=model, n_clusters=4, m=40), covariance=covariance)
    data = case.problem().data
    state = new_state(data)
    state.labels[:] = draw_labels(case, 0)
    collect(data, state)
    rng = np.random.default_rng(0)
    for _ in range(200):
        sample, step = int(rng.integers(24)), int(rng.integers(1, 4))
        source = int(state.labels[sample])
        if state.sizes[source] > 1:
            move(data, state, sample, (source + step) % 4)
    assert state.counters[RELOCATIONS] > 150
    fresh = new_state(data)
    fresh.labels[:] = state.labels
    collect(data, fresh)
    for name in DERIVED:
        found, wanted = getattr(state, name), getattr(fresh, name)
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9, err_msg=name)


def test_there_and_back_is_no_change() -> None:
    case = draw_case(1)
    data = case.problem().data
    state = new_state(data)
    state.labels[:] = draw_labels(case, 1)
    collect(data, state)
    before = {name: getattr(state, name).copy() for name in DERIVED}
    for sample in range(24):
        source = int(state.labels[sample])
        move(data, state, sample, (source + 1) % 3)
        move(data, state, sample, source)
    for name in DERIVED:
        np.testing.assert_allclose(getattr(state, name), before[name], rtol=1e-9, atol=1e-9, err_msg=name)


def test_collecting_again_is_free_until_something_moves() -> None:
    case = draw_case(2)
    data = case.problem().data
    state = new_state(data)
    state.labels[:] = draw_labels(case, 2)
    collect(data, state)
    assert state.counters[STALE] == 0
    state.errors[0] = -1.0
    collect(data, state)
    assert state.errors[0] == -1.0
    move(data, state, int(np.flatnonzero(state.labels == 1)[0]), 2)
    assert state.counters[STALE] == 1
    collect(data, state)
    assert state.errors[0] > 0.0


@pytest.mark.parametrize("spread", [1e-3, 1e-6, 1e-9, 0.0])
def test_what_an_outlier_leaves_behind_has_all_its_digits(spread: float) -> None:
    """The squared error before the removal is up to 1e18 times the one after it."""
    X = np.concatenate([spread * np.random.default_rng(0).normal(size=(5, 2)), [[1.0, 2.0]], np.eye(2) * 9])
    data = build_problem(X, n_clusters=2, model="unsupervised").data
    state = new_state(data)
    state.labels[:] = [0] * 6 + [1] * 2
    collect(data, state)
    set_distances(data, state, 5)
    members = data.X[:5]
    wanted = np.sum((members - members.mean(axis=0)) ** 2)
    assert error_after_removal(data, state, 5, 0) == pytest.approx(wanted, rel=1e-6, abs=1e-30)
