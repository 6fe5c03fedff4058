"""Every delta against the objective from scratch, over long random walks."""

from __future__ import annotations

import numpy as np
import pytest
from oracles import Case, adjacency, draw_case, draw_labels, gain, objective_parts

from kernels.exact import exact_gain
from kernels.gains import set_gains, set_links
from kernels.problem import CANNOT, MUST, Layer
from kernels.relocation import collect, relocate
from kernels.state import State, new_state

STEPS = 150


def with_layers(case: Case, layers: list[Layer]) -> Case:
    return Case(case.X, layers, case.n_clusters, case.model, case.min_size, case.kappa)


def duplicates(model: str) -> Case:
    case = draw_case(5, model=model, min_size=1)
    X = case.X.copy()
    X[:6] = X[0]
    X[6:12] = X[6] + 1e-9 * np.arange(6)[:, None]
    return Case(X, case.layers, 4, model, 1)


def annotators(model: str) -> Case:
    case = draw_case(6, model=model)
    rng = np.random.default_rng(6)
    layers = [
        Layer(kind, rng.integers(0, 24, size=(9, 2)), None, accuracy)
        for kind, accuracy in ((MUST, 0.95), (MUST, 0.6), (CANNOT, 0.3), (CANNOT, 1.0), (MUST, 1.0))
    ]
    layers.insert(2, Layer(MUST, np.empty((0, 2), dtype=np.int64), None, 0.9))
    return with_layers(case, layers)


def fractional(model: str) -> Case:
    case = draw_case(7, model=model)
    rng = np.random.default_rng(7)
    return with_layers(
        case, [Layer(a.kind, a.pairs, rng.uniform(0.1, 3.0, len(a.pairs)), a.accuracy) for a in case.layers]
    )


CASES = {
    "plain": lambda model: draw_case(1, model=model),
    "two clusters": lambda model: draw_case(2, model=model, n_clusters=2, m=60),
    "singletons": lambda model: draw_case(3, model=model, n_clusters=6, min_size=1),
    "one feature": lambda model: draw_case(4, model=model, n_features=1),
    "duplicates": duplicates,
    "annotators": annotators,
    "fractional weights": fractional,
    "variance prior": lambda model: draw_case(8, model=model, kappa=0.7, min_size=1),
    "no error": lambda model: draw_case(9, model=model, accuracies=(1.0, 1.0)),
    "mostly errors": lambda model: draw_case(10, model=model, accuracies=(0.02, 0.1)),
    "must-links only": lambda model: with_layers(
        draw_case(11, model=model), list(draw_case(11, model=model).layers)[:1]
    ),
}


def check_statistics(case: Case, state: State) -> None:
    labels = state.labels.astype(int)
    centred = case.X - case.X.mean(axis=0)
    Z = np.eye(case.n_clusters)[labels]
    np.testing.assert_array_equal(state.sizes, Z.sum(axis=0))
    for r in range(case.n_clusters):
        members = centred[labels == r]
        np.testing.assert_allclose(state.means[:, r], members.mean(axis=0), atol=1e-9)
        error = np.sum((members - members.mean(axis=0)) ** 2)
        np.testing.assert_allclose(state.errors[r], error, rtol=1e-9, atol=1e-14)
    for number, layer in enumerate(case.used_layers):
        np.testing.assert_allclose(
            state.edge_counts[number], Z.T @ adjacency(layer, len(labels)) @ Z, atol=1e-12
        )


@pytest.mark.parametrize("model", ["likelihood", "posterior"])
@pytest.mark.parametrize("name", CASES)
def test_walk(name: str, model: str) -> None:
    case = CASES[name](model)
    data = case.problem().data
    state = new_state(data)
    state.labels[:] = draw_labels(case, 0)
    collect(data, state)
    rng = np.random.default_rng(1)
    decided = 0
    for _ in range(STEPS):
        sample = int(rng.integers(len(case.X)))
        labels = state.labels.astype(int)
        source = labels[sample]
        if state.sizes[source] <= case.min_size:
            continue
        degree = set_links(data, state, sample)
        largest = set_gains(data, state, sample, degree)
        gains = state.gains.copy()
        assert gains[source] == 0.0
        assert largest == gains.max()
        for target in range(case.n_clusters):
            if target == source:
                continue
            wanted = gain(case, labels, sample, target)
            slack = state.slack[0, source, target] + degree * state.slack[1, source, target]
            assert exact_gain(data, state, sample, target) == pytest.approx(wanted, rel=1e-9, abs=1e-8)
            assert abs(gains[target] - wanted) <= slack + 1e-8
            if abs(wanted - 1e-9) > 1e-8:
                assert (gains[target] > 1e-9) == (wanted > 1e-9)
                decided += slack < abs(wanted)
        target = int(rng.choice([k for k in range(case.n_clusters) if k != source]))
        relocate(data, state, sample, target)
    assert decided > STEPS / 2, "the bound on the series decides next to nothing"
    check_statistics(case, state)
    collect(data, state)
    check_statistics(case, state)
    parts = objective_parts(case, state.labels.astype(int))
    assert state.terms.sum() == pytest.approx(parts[0], abs=1e-8)


def test_first_order_is_close_on_real_sizes() -> None:
    """The series must decide nearly all candidates, or the fast path would not be one."""
    case = draw_case(12, n_samples=120, n_clusters=4, m=200)
    data = case.problem().data
    state = new_state(data)
    state.labels[:] = draw_labels(case, 3)
    collect(data, state)
    off = np.ones((4, 4), dtype=bool) ^ np.eye(4, dtype=bool)
    assert (state.slack[0][off] + 4 * state.slack[1][off]).max() < 0.05
