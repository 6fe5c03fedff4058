"""What a relocation does to the counts as they are: tables, and the bound on what the series leaves out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from solving.entries import collect
from solving.from_python import from_python
from solving.oracles import Case, adjacency, draw_case, draw_labels, objective_parts, rates

from kernels.partition.size_terms import JOIN, LEAVE, NOW, RATE, SWAP, largest_curvature
from kernels.partition.state import State, new_state
from kernels.problem.problem import CANNOT, MUST, Layer

largest_curvature = from_python(largest_curvature)


def collected(case: Case, labels: np.ndarray) -> State:
    data = case.problem().data
    state = new_state(data)
    state.labels[:] = labels
    collect(data, state)
    return state


def with_a_bystander(model: str, seed: int, accuracies: tuple[float, float] = (0.9, 0.9)) -> Case:
    """The last sample, 23, is in no pair: moving it changes sizes alone."""
    case = draw_case(seed, model=model, n_clusters=4, m=40, accuracies=accuracies)
    assert all((layer.pairs < 23).all() for layer in case.layers)
    return case


@pytest.mark.parametrize("accuracies", [(0.9, 0.9), (1.0, 0.6), (0.2, 1.0)])
@pytest.mark.parametrize("model", ["likelihood", "posterior"])
def test_base_is_the_gain_of_sizes_alone_within_the_slack(
    model: str, accuracies: tuple[float, float]
) -> None:
    inexact = 0
    for seed in range(6):
        case = with_a_bystander(model, seed, accuracies)
        for source in range(4):
            labels = draw_labels(case, seed)
            labels[23] = source
            state = collected(case, labels)
            before = sum(objective_parts(case, labels)[1:])
            for target in set(range(4)) - {source}:
                moved = labels.copy()
                moved[23] = target
                wanted = sum(objective_parts(case, moved)[1:]) - before
                slack = state.slack[0, source, target]
                assert abs(state.base[source, target] - wanted) <= slack + 1e-9
                inexact += slack > 0.0
    # The likelihood has no prior rates, and its table is the exact change.
    assert (inexact > 0) == (model == "posterior")


def test_logarithms_of_the_four_pairs_of_sizes() -> None:
    case = draw_case(2, n_clusters=3)
    labels = draw_labels(case, 2)
    state = collected(case, labels)
    sizes = np.bincount(labels, minlength=3).astype(float)
    for number, layer in enumerate(case.layers):
        inner, outer = rates(layer, sizes.astype(int), float(adjacency(layer, 24).sum() / 2))
        for r in range(3):
            for c in range(3):
                n_r, n_c = sizes[r], sizes[c]
                pairs = {
                    NOW: n_r * n_c,
                    JOIN: n_r * (n_c + 1),
                    LEAVE: (n_r - 1) * n_c,
                    SWAP: (n_r - 1) * (n_c + 1),
                }
                rate = outer
                if r == c:
                    pairs, rate = {NOW: n_r**2, JOIN: (n_r + 1) ** 2, LEAVE: (n_r - 1) ** 2}, 2 * inner
                for table, exposure in pairs.items():
                    wanted = np.log(exposure + rate)
                    assert state.logs[number, table, r, c] == pytest.approx(wanted, rel=1e-12)
                if r != c:
                    after = sizes + np.eye(3)[c] - np.eye(3)[r]
                    changed, _ = rates(layer, after.astype(int), float(adjacency(layer, 24).sum() / 2))
                    assert state.logs[number, RATE, r, c] == pytest.approx(np.log(changed / inner), abs=1e-12)


@settings(deadline=None)  # the first call may compile
@given(st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_curvature_is_bounded_between_two_shares(one: float, other: float) -> None:
    low, high = sorted((one, other))
    shares = np.linspace(low, high, 101)
    largest = (shares * (1.0 - shares)).max()
    found = largest_curvature(low, high)
    assert largest <= found + 1e-15
    assert found <= max(low * (1 - low), high * (1 - high), 0.25 * (low <= 0.5 <= high)) + 1e-15


def test_a_single_layer_of_either_kind() -> None:
    """Each layer adds its own table."""
    case = with_a_bystander("posterior", 3)
    labels = draw_labels(case, 3)
    both = collected(case, labels)
    alone = [collected(replace(case, layers=[layer]), labels) for layer in case.layers]
    np.testing.assert_allclose(both.base, alone[0].base + alone[1].base, rtol=1e-12, atol=1e-12)
    assert [layer.kind for layer in case.layers] == [MUST, CANNOT]
    empty = Layer(MUST, np.empty((0, 2), dtype=np.int64), None, 0.9)
    assert not collected(replace(case, layers=[empty]), labels).base.any()
