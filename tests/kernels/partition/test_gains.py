"""Every delta against the objective from scratch, over long random walks."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from solving.entries import collect
from solving.from_python import from_python
from solving.oracles import SHAPED, Case, adjacency, draw_case, draw_labels, gain, objective_parts
from solving.tiny import COVARIANCES, MODELS

from kernels.partition.blockmodel import agreement_value
from kernels.partition.gains import count_change, exact_gain, set_distances, set_gains, set_links
from kernels.partition.objective import objective_terms
from kernels.partition.relocation import relocate
from kernels.partition.state import State, new_state
from kernels.problem.data import CONDITIONAL
from kernels.problem.problem import CANNOT, MUST, Layer

# The gain term by term against the kernels' own objective before and after.

exact_gain = from_python(exact_gain)
count_change = from_python(count_change)
set_links = from_python(set_links)
set_distances = from_python(set_distances)


@pytest.mark.parametrize("kappa", [0.0, 0.5])
@pytest.mark.parametrize("covariance", COVARIANCES)
@pytest.mark.parametrize("model", MODELS)
def test_every_relocation_of_a_partition(model: str, covariance: str, kappa: float) -> None:
    case = replace(
        draw_case(4, n_samples=12, model=model, m=16, kappa=kappa, min_size=1), covariance=covariance
    )
    problem = case.problem()
    data, state = problem.data, new_state(problem.data)
    labels = draw_labels(case, 1)
    state.labels[:] = labels
    collect(data, state)
    before = sum(objective_terms(problem, labels))
    for sample, target in itertools.product(range(12), range(3)):
        if target == labels[sample]:
            continue
        set_distances(data, state, sample)
        set_links(data, state, sample)
        moved = labels.copy()
        moved[sample] = target
        wanted = sum(objective_terms(problem, moved)) - before
        assert exact_gain(data, state, sample, target) == pytest.approx(wanted, rel=1e-9, abs=1e-9)


def test_changes_of_the_edge_counts_are_those_of_the_matrices() -> None:
    case = draw_case(5, n_clusters=4, m=40)
    layer, labels = case.layers[0], draw_labels(case, 5)
    A = adjacency(layer, 24)
    for sample, target in itertools.product((0, 1, 2, 23), range(4)):
        source = int(labels[sample])
        if target == source:
            continue
        moved = labels.copy()
        moved[sample] = target
        Z, after = np.eye(4)[labels], np.eye(4)[moved]
        change = after.T @ A @ after - Z.T @ A @ Z
        others = A[sample].copy()
        others[sample] = 0.0
        links = others @ Z
        for r, c in itertools.product(range(4), range(4)):
            assert count_change(links, A[sample, sample], r, c, source, target) == change[r, c]


relocate = from_python(relocate)
agreement_value = from_python(agreement_value)
set_gains = from_python(set_gains)

STEPS, SHAPED_STEPS = 150, 60


def with_layers(case: Case, layers: list[Layer]) -> Case:
    return replace(case, layers=layers)


def duplicates(model: str) -> Case:
    case = draw_case(5, model=model, min_size=1)
    X = case.X.copy()
    X[:6] = X[0]
    X[6:12] = X[6] + 1e-9 * np.arange(6)[:, None]
    return Case(X, case.layers, 4, model, 1)


def collinear(model: str) -> Case:
    """A copy of a feature in other units, and the sum of two others."""
    case = draw_case(5, model=model)
    X = case.X
    return replace(case, X=np.column_stack([X, 1e-3 * X[:, 0], X[:, 1] + 1e4 * X[:, 2]]))


def constant(model: str) -> Case:
    case = draw_case(5, model=model)
    return replace(case, X=np.column_stack([np.full(len(case.X), 1e5), case.X]))


def far_away(model: str) -> Case:
    """Two groups at a distance of a thousand of their widths."""
    case = draw_case(6, model=model, min_size=1)
    return replace(case, X=case.X + np.where(np.arange(24) % 3 == 0, 1e3, 0.0)[:, None])


def annotators(model: str) -> Case:
    case = draw_case(6, model=model)
    rng = np.random.default_rng(6)
    layers = [
        Layer(kind, rng.integers(0, 24, size=(9, 2)), None, accuracy)
        for kind, accuracy in ((MUST, 0.95), (MUST, 0.6), (CANNOT, 0.3), (CANNOT, 1.0), (MUST, 1.0))
    ]
    if model == "conditional":
        layers = [replace(layer, annotator=n // 2) for n, layer in enumerate(layers)]
        layers[0] = replace(layers[0], accuracy=None)
        layers[1] = replace(layers[1], accuracy=None)
        layers[2] = replace(layers[2], accuracies=np.where(np.arange(9) % 2, np.nan, 0.7), accuracy=None)
        layers[3] = replace(layers[3], accuracies=rng.uniform(0.0, 1.0, 9))
    layers.insert(2, Layer(MUST, np.empty((0, 2), dtype=np.int64), None, 0.9))
    return with_layers(case, layers)


def fractional(model: str) -> Case:
    case = draw_case(7, model=model)
    rng = np.random.default_rng(7)
    return with_layers(
        case, [Layer(a.kind, a.pairs, rng.uniform(0.1, 3.0, len(a.pairs)), a.accuracy) for a in case.layers]
    )


def unknown_accuracies(model: str) -> Case:
    """Without accuracies where the model can do without; one annotator has nothing but a self pair."""
    case = draw_case(13, model=model, m=40)
    if model == "posterior":
        return case
    rng = np.random.default_rng(13)
    layers = [replace(layer, accuracy=None, annotator=layer.kind) for layer in case.layers]
    layers.append(Layer(CANNOT, rng.integers(0, 24, size=(12, 2)), rng.uniform(0.1, 3.0, 12), annotator=1))
    layers.append(Layer(MUST, np.array([[23, 23]]), annotator=7))
    return with_layers(case, layers)


CASES = {
    "plain": lambda model: draw_case(1, model=model),
    "two clusters": lambda model: draw_case(2, model=model, n_clusters=2, m=60),
    "singletons": lambda model: draw_case(3, model=model, n_clusters=6, min_size=1),
    "one feature": lambda model: draw_case(4, model=model, n_features=1),
    "duplicates": duplicates,
    "annotators": annotators,
    "fractional weights": fractional,
    "variance prior": lambda model: draw_case(8, model=model, kappa=0.7, min_size=1),
    "weighted features": lambda model: draw_case(12, model=model, feature_weight=0.3),
    "effective features": lambda model: draw_case(14, model=model, feature_weight="effective", kappa=0.4),
    "proportions": lambda model: draw_case(18, model=model, proportions="free", n_clusters=4, min_size=1),
    "no error": lambda model: draw_case(9, model=model, accuracies=(1.0, 1.0)),
    "mostly errors": lambda model: draw_case(10, model=model, accuracies=(0.02, 0.1)),
    "unknown accuracies": unknown_accuracies,
    "two features that are one": collinear,
    "a constant feature": constant,
    "more features than samples": lambda model: draw_case(15, model=model, n_features=30),
    "far from 0": far_away,
    "weak prior": lambda model: draw_case(16, model=model, covariance_prior=0.001, min_size=1),
    "strong prior": lambda model: draw_case(17, model=model, covariance_prior=30.0),
    "must-links only": lambda model: with_layers(
        draw_case(11, model=model), list(draw_case(11, model=model).layers)[:1]
    ),
}


def check_statistics(case: Case, state: State) -> None:
    labels = state.labels.astype(int)
    centred = case.problem().data.Z if case.covariance in SHAPED else case.X - case.X.mean(axis=0)
    Z = np.eye(case.n_clusters)[labels]
    np.testing.assert_array_equal(state.sizes, Z.sum(axis=0))
    for r in range(case.n_clusters):
        members = centred[labels == r]
        np.testing.assert_allclose(state.means[:, r], members.mean(axis=0), atol=1e-9)
        if case.covariance not in SHAPED:
            error = np.sum((members - members.mean(axis=0)) ** 2)
            np.testing.assert_allclose(state.errors[r], error, rtol=1e-9, atol=1e-14)
    if case.model == "conditional":
        return
    for number, layer in enumerate(case.used_layers):
        np.testing.assert_allclose(
            state.edge_counts[number], Z.T @ adjacency(layer, len(labels)) @ Z, atol=1e-12
        )


@pytest.mark.parametrize("covariance", COVARIANCES)
@pytest.mark.parametrize("model", ["likelihood", "posterior", "conditional"])
@pytest.mark.parametrize("name", CASES)
def test_walk(name: str, model: str, covariance: str) -> None:
    case = replace(CASES[name](model), covariance=covariance)
    data = case.problem().data
    state = new_state(data)
    state.labels[:] = draw_labels(case, 0)
    collect(data, state)
    rng = np.random.default_rng(1)
    decided = 0
    steps = SHAPED_STEPS if covariance in SHAPED else STEPS
    for _ in range(steps):
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
            slack += 4 * (state.doubt[source] + state.doubt[target])
            assert exact_gain(data, state, sample, target) == pytest.approx(wanted, rel=1e-9, abs=1e-8)
            assert abs(gains[target] - wanted) <= slack + 1e-8
            if abs(wanted - 1e-9) > 1e-8:
                assert (gains[target] > 1e-9) == (wanted > 1e-9)
                decided += slack < abs(wanted)
        target = int(rng.choice([k for k in range(case.n_clusters) if k != source]))
        relocate(data, state, sample, target)
    assert decided > steps / 2, "the bound on the series decides next to nothing"
    check_statistics(case, state)
    collect(data, state)
    check_statistics(case, state)
    parts = objective_parts(case, state.labels.astype(int))
    labels = state.labels.astype(int)
    total = state.terms.sum() + data.unit_term
    if case.proportions == "free":
        total += np.log(np.bincount(labels)[labels] / len(labels)).sum()
    assert total == pytest.approx(parts[0], rel=1e-9, abs=1e-8)
    if data.model == CONDITIONAL:
        value = sum(agreement_value(data, layer, agreed) for layer, agreed in enumerate(state.agreed))
        assert value == pytest.approx(parts[1], abs=1e-9)


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_samples_without_annotations_gain_by_features_alone(covariance: str) -> None:
    """All candidates of a partition, where some have no links in some layers or none at all."""
    case = replace(unknown_accuracies("conditional"), covariance=covariance)
    bare = replace(case, model="unsupervised")
    data = case.problem().data
    state = new_state(data)
    state.labels[:] = draw_labels(case, 1)
    collect(data, state)
    labels = state.labels.astype(int)
    unseen = set(range(24)) - set(data.annotated.tolist())
    assert unseen
    for sample, target in itertools.product(range(24), range(3)):
        if target != labels[sample] and state.sizes[labels[sample]] > 2:
            set_gains(data, state, sample, set_links(data, state, sample))
            wanted = gain(bare if sample in unseen else case, labels, sample, target)
            assert state.gains[target] == pytest.approx(wanted, rel=1e-9, abs=1e-9)


def test_common_variance_near_nothing_left() -> None:
    """Rounding of a squared error that all but vanishes, and of one that is degenerate."""
    X = np.repeat([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]], 4, axis=0)
    for noise in (0.0, 1e-7, 1e-5, 1e-3):
        moved = X + noise * np.random.default_rng(0).normal(size=X.shape)
        case = Case(moved, [], 3, "unsupervised", 1, covariance="common")
        data = case.problem().data
        state = new_state(data)
        state.labels[:] = np.repeat([0, 1, 2], 4)
        state.labels[0] = 1
        labels = state.labels.astype(int)
        collect(data, state)
        set_gains(data, state, 0, set_links(data, state, 0))
        for target in (0, 2):
            assert state.gains[target] == pytest.approx(gain(case, labels, 0, target), rel=1e-10)
            assert exact_gain(data, state, 0, target) == pytest.approx(
                gain(case, labels, 0, target), rel=1e-10
            )


def test_first_order_is_close_on_real_sizes() -> None:
    """The series must decide nearly all candidates, or the fast path would not be one."""
    case = draw_case(12, n_samples=120, n_clusters=4, m=200)
    data = case.problem().data
    state = new_state(data)
    state.labels[:] = draw_labels(case, 3)
    collect(data, state)
    off = np.ones((4, 4), dtype=bool) ^ np.eye(4, dtype=bool)
    assert (state.slack[0][off] + 4 * state.slack[1][off]).max() < 0.05
