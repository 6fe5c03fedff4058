"""A walk over cases, models and shapes compares increments and objectives with the slow twins."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from solving import oracles
from solving.entries import collect, collect_state, gain_by_terms, gains_of, largest_gain, move, plain_kernel
from solving.oracles import COVARIANCES, MODELS, Case, draw_case, draw_labels, gain

from sweep_clustering.kernels.partition.objective import error_after_removal, objective_terms
from sweep_clustering.kernels.partition.shaped import LARGEST_DRIFT
from sweep_clustering.kernels.partition.statistics import RELOCATIONS, STALE, State
from sweep_clustering.kernels.problem.data import CANNOT, IMPROVEMENT, MUST, Data
from sweep_clustering.kernels.problem.problem import Layer, build_problem

STEPS = 5
DERIVED = (
    "sizes", "means", "errors", "squares", "scatter", "inverse", "logdets", "edge_counts", "agreements",
    "terms", "join", "ratios", "count_terms", "logs", "base", "slack",
)  # fmt: skip


def duplicates(case: Case) -> Case:
    case.X[:6] = case.X[0]
    case.X[6:12] = case.X[6] + 1e-9 * np.arange(6)[:, None]
    return case


def with_features(case: Case) -> Case:
    """Add a feature in other units, the sum of two features, and a constant one."""
    first, second, third = case.X.T
    return replace(case, X=np.column_stack([case.X, 1e-3 * first, second + 1e4 * third, np.full(24, 1e5)]))


def far_away(case: Case) -> Case:
    """Move two groups apart by a thousand of their widths."""
    return replace(case, X=case.X + np.where(np.arange(24) % 3 == 0, 1e3, 0.0)[:, None])


def annotators(case: Case) -> Case:
    rng = np.random.default_rng(6)
    kinds = ((MUST, 0.95), (MUST, 0.6), (CANNOT, 0.3), (CANNOT, 1.0), (MUST, 1.0))
    layers = [Layer(kind, rng.integers(0, 24, size=(9, 2)), None, accuracy) for kind, accuracy in kinds]
    if case.model == "conditional":
        layers = [replace(layer, annotator=n // 2) for n, layer in enumerate(layers)]
        layers[:2] = [replace(layer, accuracy=None) for layer in layers[:2]]
        layers[2] = replace(layers[2], accuracies=np.where(np.arange(9) % 2, np.nan, 0.7), accuracy=None)
        layers[3] = replace(layers[3], accuracies=rng.uniform(0.0, 1.0, 9))
    layers.insert(2, Layer(MUST, np.empty((0, 2), dtype=np.int64), None, 0.9))
    return replace(case, layers=layers)


def fractional(case: Case) -> Case:
    layers = [replace(layer, weights=np.linspace(0.1, 3.0, len(layer.pairs))) for layer in case.layers]
    return replace(case, layers=layers)


def unknown_accuracies(case: Case) -> Case:
    """Remove accuracies where the model allows it; one annotator has nothing but a self pair."""
    if case.model == "posterior":
        return case
    rng = np.random.default_rng(13)
    layers = [replace(layer, accuracy=None, annotator=layer.kind) for layer in case.layers]
    layers.append(Layer(CANNOT, rng.integers(0, 24, size=(12, 2)), rng.uniform(0.1, 3.0, 12), annotator=1))
    layers.append(Layer(MUST, np.array([[23, 23]]), annotator=7))
    return replace(case, layers=layers)


CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "two clusters": {"n_clusters": 2, "m": 60},
    "singletons": {"n_clusters": 6, "min_size": 1},
    "one feature": {"n_features": 1},
    "duplicates": {"change": duplicates, "n_clusters": 4, "min_size": 1},
    "annotators": {"change": annotators},
    "fractional weights": {"change": fractional},
    "variance prior": {"kappa": 0.7, "min_size": 1},
    "weighted features": {"feature_weight": 0.3},
    "effective features": {"feature_weight": "effective", "kappa": 0.4},
    "proportions": {"proportions": "free", "n_clusters": 4, "min_size": 1},
    "no error": {"accuracies": (1.0, 1.0)},
    "mostly errors": {"accuracies": (0.02, 0.1)},
    "unknown accuracies": {"change": unknown_accuracies, "m": 40},
    "features that others give": {"change": with_features},
    "more features than samples": {"n_features": 30},
    "far from 0": {"change": far_away, "min_size": 1},
    "weak prior": {"covariance_prior": 0.001, "min_size": 1},
    "strong prior": {"covariance_prior": 30.0},
    "must-links only": {"change": lambda case: replace(case, layers=case.layers[:1])},
}


@pytest.mark.parametrize("covariance", COVARIANCES)
@pytest.mark.parametrize("model", MODELS)
def test_walk(model: str, covariance: str) -> None:
    n_bounds = 0
    for seed, (name, settings) in enumerate(CASES.items()):
        options = {"change": lambda case: case, "model": model, "covariance": covariance} | settings
        change = options.pop("change")
        case = change(draw_case(seed, **options))
        data, rng = case.problem().data, np.random.default_rng(1)
        state, n_decided = collect_state(data, draw_labels(case, 0)), 0
        for _ in range(STEPS):
            labels = state.labels.astype(int)
            sample = int(rng.choice(np.flatnonzero(state.sizes[labels] > case.min_size)))
            source = labels[sample]
            degree = gains_of(data, state, sample)
            gains = state.gains.copy()
            assert gains[source] == 0.0
            largest = largest_gain(data, state, sample)
            assert largest == state.gains.max()
            # Gains that do not decide are upper bounds, and none of them gains.
            above = state.gains > IMPROVEMENT
            assert ((gains > IMPROVEMENT) == above).all(), name
            np.testing.assert_allclose(state.gains[above], gains[above], rtol=1e-9, atol=1e-9, err_msg=name)
            assert (state.gains[~above] >= gains[~above] - 1e-9 * (1.0 + abs(gains[~above]))).all(), name
            n_bounds += int((state.gains[~above] > gains[~above] + 1e-12).sum())
            target = int(rng.choice([k for k in range(case.n_clusters) if k != source]))
            expected = gain(case, labels, sample, target)
            slack = state.slack[0, source, target] + degree * state.slack[1, source, target]
            slack += 4 * (state.doubt[source] + state.doubt[target])
            assert abs(gains[target] - expected) <= slack + 1e-8, name
            assert (gains[target] > 1e-9) == (expected > 1e-9) or abs(expected - 1e-9) <= 1e-8, name
            n_decided += slack < abs(expected)
            assert gain_by_terms(data, state, sample, target) == pytest.approx(
                expected, rel=1e-9, abs=1e-8
            ), name
            move(data, state, sample, target)
        assert n_decided >= STEPS / 2 or model == "unsupervised", "the series decides next to nothing"
        labels = state.labels.astype(int)
        terms, parts = objective_terms(case.problem(), labels), oracles.objective_parts(case, labels)
        assert terms == pytest.approx(parts, rel=1e-9, abs=1e-8), name
    assert (n_bounds > 0) == (covariance == "spherical")


def wander(data: Data, state: State, rng: np.random.Generator, steps: int) -> int:
    """Relocate random samples, but none that is alone in its cluster, and return how often."""
    n_moves = 0
    for _ in range(steps):
        sample, step = int(rng.integers(len(state.labels))), int(rng.integers(1, data.n_clusters))
        source = int(state.labels[sample])
        if state.sizes[source] > 1:
            move(data, state, sample, (source + step) % data.n_clusters)
            n_moves += 1
    return n_moves


@pytest.mark.parametrize("covariance", COVARIANCES)
@pytest.mark.parametrize("model", MODELS)
def test_a_long_run_of_relocations_equals_a_fresh_start(model: str, covariance: str) -> None:
    case = replace(draw_case(3, model=model, n_clusters=4, m=40), covariance=covariance)
    data = case.problem().data
    state = collect_state(data, draw_labels(case, 0))
    n_moves = wander(data, state, np.random.default_rng(0), 200)
    assert n_moves > 150
    assert state.counters[RELOCATIONS] == n_moves
    assert state.counters[STALE] == 1
    fresh = collect_state(data, state.labels)
    assert fresh.counters[STALE] == 0
    for name in DERIVED:
        value, expected = getattr(state, name), getattr(fresh, name)
        np.testing.assert_allclose(value, expected, rtol=1e-9, atol=1e-9, err_msg=name)


def test_weights_that_are_not_whole_are_added_again_after_relocations() -> None:
    """Sums of whole weights are exact, but others round, and would depend on the way of the search."""
    data = fractional(draw_case(3, m=40)).problem().data
    state = collect_state(data, np.arange(24) % 3)
    wander(data, state, np.random.default_rng(0), 100)
    fresh = collect_state(data, state.labels)
    assert not np.array_equal(state.edge_counts, fresh.edge_counts)
    collect(data, state)
    np.testing.assert_array_equal(state.edge_counts, fresh.edge_counts)


# Where digits are lost.


def test_common_variance_near_nothing_left() -> None:
    """The squared error all but vanishes here, or is degenerate."""
    labels = np.array([1, 0, 0, 0, *[1] * 4, *[2] * 4])
    for noise in (0.0, 1e-7, 1e-3):
        X = np.eye(3, 2, -1).repeat(4, axis=0) + noise * np.random.default_rng(0).normal(size=(12, 2))
        case = Case(X, [], 3, "unsupervised", 1, covariance="common")
        data = case.problem().data
        state = collect_state(data, labels)
        gains_of(data, state, 0)
        for target in (0, 2):
            expected = pytest.approx(gain(case, labels, 0, target), rel=1e-10)
            assert state.gains[target] == expected
            assert gain_by_terms(data, state, 0, target) == expected


def test_what_an_outlier_leaves_behind_has_all_its_digits() -> None:
    """The squared error before the removal is up to 1e18 times the one after it."""
    near, far = np.random.default_rng(0).normal(size=(5, 2)), [[1.0, 2.0], [9.0, 0.0], [0.0, 9.0]]
    for spread in (1e-3, 1e-6, 1e-9, 0.0):
        data = build_problem(np.concatenate([spread * near, far]), n_clusters=2, model="unsupervised").data
        state = collect_state(data, np.array([0] * 6 + [1] * 2))
        gains_of(data, state, 5)
        expected = 5 * data.X[:5].var(axis=0).sum()
        assert plain_kernel(error_after_removal)(data, state, 5, 0) == pytest.approx(
            expected, rel=1e-6, abs=1e-30
        )


@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_a_cluster_is_degenerate_with_one_sample_more_up_to_the_limit(factor: float) -> None:
    X = np.concatenate([np.random.default_rng(0).normal(size=(12, 2)), np.zeros((6, 2))])
    limit = 1e-10 * X.var(axis=0).mean() * 2 * 6
    X[12, 0] = np.sqrt(factor * limit * 6 / 5)  # the five samples of the cluster are equal
    case = Case(X, [], 2, "unsupervised", 1)
    labels = np.repeat([0, 1], [13, 5])
    data = case.problem().data
    state = collect_state(data, labels)
    gains_of(data, state, 12)
    expected = gain(case, labels, 12, 1)
    assert (expected > 50.0) == (factor > 1.0)
    assert state.gains[1] == pytest.approx(expected, rel=1e-6)


# Shape "diagonal": products of many features, and what is degenerate without a prior.


def test_many_far_features_do_not_overflow() -> None:
    """The product has ninety factors of about a billion."""
    X = np.repeat([[0.0], [1.0], [-1.0]], 6, axis=0) + 1e-6 * np.random.default_rng(0).normal(size=(18, 90))
    case = Case(X, [], 3, "unsupervised", 1, covariance="diagonal", covariance_prior=0.001)
    labels = np.array([1, *[0] * 5, *[1] * 6, *[2] * 6])
    data = case.problem().data
    state = collect_state(data, labels)
    for sample in (0, 3, 8):
        gains_of(data, state, sample)
        expected = [gain(case, labels, sample, target) for target in range(3)]
        assert state.gains[:3] == pytest.approx(expected, rel=1e-6)
        assert np.abs(expected).max() > 1000.0


@pytest.mark.parametrize("model", ["unsupervised", "conditional"])
def test_without_a_prior_a_walk_meets_degenerate_clusters(model: str) -> None:
    case = draw_case(3, model=model, min_size=1, n_clusters=5, covariance="diagonal", covariance_prior=0.0)
    case.X[:7, 1] = case.X[0, 1]
    case.X[7:12] = case.X[7]
    data = case.problem().data
    state = collect_state(data, np.repeat([0, 1, 2, 3, 4], [7, 5, 4, 4, 4]))
    assert np.isinf(state.logdets[:2]).all()
    rng = np.random.default_rng(1)
    for _ in range(40):
        labels = state.labels.astype(int)
        sample = int(rng.choice(np.flatnonzero(state.sizes[labels] > 1)))
        gains_of(data, state, sample)
        targets = [k for k in range(5) if k != labels[sample]]
        for target in targets:
            assert state.gains[target] == pytest.approx(gain(case, labels, sample, target), abs=1e-7)
        near = [k for k in targets if k < 2]
        move(data, state, sample, int(rng.choice(near if near and rng.random() < 0.7 else targets)))


# Shapes "tied" and "full": what drifts over a walk stays within its bound, or is renewed.

MATRICES = pytest.mark.parametrize("covariance", ["tied", "full"])


def check_drifts(data: Data, state: State, roundings: float) -> None:
    """No inverse is off, by any vector, by more than its bound, but for roundings of numpy's own factor."""
    groups = [data.Z[state.labels == k] for k in range(data.n_clusters)]
    scatters = [len(group) * np.cov(group, rowvar=False, ddof=0) for group in groups]
    if len(state.scatter) == 1:
        scatters = [np.sum(scatters, axis=0)]
    for place, scatter in enumerate(scatters):
        A = scatter + data.ridge * np.eye(len(scatter))
        root = np.linalg.cholesky(A)
        off = root.T @ state.inverse[place] @ root - np.eye(len(A))
        assert np.abs(np.linalg.eigvalsh(off)).max() <= state.drift[place] + roundings
        np.testing.assert_allclose(state.scatter[place], A, rtol=1e-7, atol=1e-7)
        assert state.logdets[place] == pytest.approx(np.linalg.slogdet(A)[1], abs=1e-6)


@MATRICES
@pytest.mark.parametrize(
    ("n_features", "n_clusters", "outlier", "prior"),
    [(4, 3, 1.0, 1.0), (4, 3, 1e5, 0.01), (4, 15, 1.0, 1.0), (20, 3, 1.0, 1.0)],
)
def test_errors_of_a_walk_stay_below_the_drift(
    n_features: int, n_clusters: int, outlier: float, prior: float, covariance: str
) -> None:
    rng = np.random.default_rng(7)
    X = rng.normal(size=(40, n_features)) @ rng.normal(size=(n_features, n_features))
    X[::7] *= outlier
    case = Case(X, [], n_clusters, "unsupervised", 1, covariance=covariance, covariance_prior=prior)
    data = case.problem().data
    state = collect_state(data, draw_labels(case, 0))
    wander(data, state, rng, 500)
    check_drifts(data, state, 1e-11)
    assert (state.drift <= 1e3 * LARGEST_DRIFT).all()


@MATRICES
def test_an_outlier_that_leaves_a_small_cluster_takes_no_digits_with_it(covariance: str) -> None:
    rng = np.random.default_rng(3)
    X = np.concatenate([1e-3 * rng.normal(size=(10, 3)), rng.normal(size=(20, 3)), [[1e4, 0.5, -0.5]]])
    case = Case(X, [], 3, "unsupervised", 1, covariance=covariance, covariance_prior=0.001)
    data = case.problem().data
    labels = np.repeat([0, 1, 2, 0], [10, 10, 10, 1])
    state = collect_state(data, labels)
    for sample, target in ((30, 1), (30, 2), (0, 1)):
        gains_of(data, state, sample)
        value, expected = state.gains[target], gain(case, labels, sample, target)
        bound = 4 * (state.doubt[labels[sample]] + state.doubt[target]) + 1e-6 * abs(expected)
        assert abs(value - expected) <= max(bound, 1e-2 * abs(expected))
        assert (value > 0) == (expected > 0)
        assert gain_by_terms(data, state, sample, target) == pytest.approx(expected, rel=1e-6)
    move(data, state, 30, 1)
    check_drifts(data, state, 1e-9)
