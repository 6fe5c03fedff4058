"""Local search equals its slow twin, and moves whole must-link components."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components
from solving import entries, oracles

from sweep_clustering.kernels.fits import Fit
from sweep_clustering.kernels.lanes import LANES
from sweep_clustering.kernels.partition.gains import set_distances
from sweep_clustering.kernels.partition.statistics import CAPS, new_state
from sweep_clustering.kernels.problem.data import MUST
from sweep_clustering.kernels.search.genetic import SearchSettings, run_restart
from sweep_clustering.kernels.search.local_search import (
    draw_below,
    list_component,
    new_component,
    set_costs,
    set_members,
    set_trial,
    shuffle,
)


@pytest.mark.parametrize("covariance", oracles.COVARIANCES)
@pytest.mark.parametrize("model", oracles.MODELS)
def test_local_search_takes_the_slow_path(model: str, covariance: str) -> None:
    settings = [(0.0, "equal", 2), (2.0, "equal", 2), (0.0, "free", 2), (0.0, "equal", 1)]
    for seed, (kappa, proportions, min_size) in enumerate(settings):
        options = {"covariance": covariance, "kappa": kappa, "proportions": proportions, "min_size": min_size}
        own_model = "unknown" if model == "conditional" and seed else model
        case = oracles.draw_case(seed, model=own_model, n_samples=12, m=9, **options)  # type: ignore[arg-type]
        labels = oracles.draw_labels(case, seed)
        if min_size == 1:  # equal rows, which alone are a degenerate cluster
            case.X[:4] = case.X[0]
            labels[:4], labels[4:] = 0, np.maximum(labels[4:], 1)
        data = case.problem().data
        state = new_state(data)
        state.labels[:] = labels
        expected = oracles.local_search(case, labels, np.random.default_rng(seed))
        value = entries.local_search(data, state, np.random.default_rng(seed))
        np.testing.assert_array_equal(state.labels, expected)
        assert value == pytest.approx(oracles.objective(case, expected), abs=1e-9)
        assert state.counters[CAPS] == 0


@pytest.mark.parametrize(("model", "seed"), [("likelihood", 121), ("likelihood", 133), ("posterior", 39)])
def test_the_best_round_is_kept_where_a_later_one_ends_lower(model: str, seed: int) -> None:
    case = oracles.draw_case(seed, model=model, n_samples=16, m=100, feature_weight=0.3)
    data = case.problem().data
    state, labels = new_state(data), oracles.draw_labels(case, seed)
    state.labels[:] = labels
    value = entries.local_search(data, state, np.random.default_rng(seed))
    expected = oracles.local_search(case, labels, np.random.default_rng(seed))
    np.testing.assert_array_equal(state.labels, expected)
    assert value == pytest.approx(oracles.objective(case, expected), abs=1e-9)


def costs_of(case: oracles.Case, labels: NDArray[np.integer]) -> NDArray[np.float64]:
    """Return half of squared distances and log-determinants, for each sample and cluster."""
    X = oracles.features_with_a_density(case)
    costs = np.full((len(X), case.n_clusters), np.inf)
    for k, (_, covariance) in enumerate(oracles.covariances_of(case, X, labels)):
        if covariance is None and case.covariance == "common":
            covariance = 1e-10 * X.var(axis=0).mean() * np.eye(X.shape[1])
        if covariance is not None:
            differences = X - X[labels == k].mean(axis=0)
            squares = (differences @ np.linalg.inv(covariance) * differences).sum(axis=1)
            costs[:, k] = 0.5 * squares + 0.5 * np.linalg.slogdet(covariance)[1]
    return costs


@pytest.mark.parametrize(
    ("covariance", "is_degenerate"),
    [*((covariance, False) for covariance in oracles.COVARIANCES), ("spherical", True), ("common", True)],
)
def test_samples_cost_what_the_gaussians_of_the_clusters_say(covariance: str, is_degenerate: bool) -> None:
    case = oracles.draw_case(3, model="unsupervised", n_clusters=4, covariance=covariance, kappa=2.0)
    labels = np.repeat(np.arange(4), [3, 5, 7, 9])
    if is_degenerate:
        case = replace(case, kappa=0.0)
        case.X[labels < (4 if covariance == "common" else 1)] = 0.0
        case.X[:, 0] += 10.0 * labels
    data = case.problem().data
    state, precision, offset = entries.collect_state(data, labels), np.zeros(LANES), np.zeros(LANES)
    entries.plain_kernel(set_costs)(data, state, precision, offset)
    for sample, expected in enumerate(costs_of(case, labels)):
        entries.plain_kernel(set_distances)(data, state, sample)
        costs = (state.distances * precision + offset)[:4]
        np.testing.assert_allclose(costs - costs[3], expected - expected[3], rtol=1e-6, atol=1e-6)


def test_draws_are_uniform() -> None:
    rng = np.random.default_rng(0)
    counts = np.bincount([entries.plain_kernel(draw_below)(rng, 3) for _ in range(3000)], minlength=3)
    assert (np.abs(counts / 3000 - 1 / 3) < 0.04).all()
    orders = np.array([np.arange(3)] * 3000)
    for items in orders:
        entries.plain_kernel(shuffle)(rng, items)
    counts = np.unique(orders, axis=0, return_counts=True)[1]
    assert len(counts) == 6
    assert (np.abs(counts / 3000 - 1 / 6) < 0.04).all()


# Moves of whole must-link components: the sets, and the objective after their moves.


def case_of(seed: int, model: str, covariance: str) -> oracles.Case:
    # Full matrices fit thirty samples so well that links would hold no set together.
    weight = 0.2 if covariance in ("tied", "full") else 1.0
    options = {"covariance": covariance, "feature_weight": weight}
    return oracles.draw_case(seed, model=model, n_samples=30, n_clusters=4, m=24, **options)  # type: ignore[arg-type]


def end_of(case: oracles.Case, seed: int = 0, **settings: object) -> Fit:
    search_settings = SearchSettings(**settings)  # type: ignore[arg-type]
    return run_restart(case.problem(), search_settings, np.random.default_rng(seed))


def component_gains(case: oracles.Case, labels: NDArray[np.integer]) -> list[float]:
    """Return the gains of moving each set of samples of one cluster that must-links connect.

    In the model "conditional" the annotations of a pair are one weight, here of one accuracy.
    """
    links = np.zeros((len(labels), len(labels)))
    for layer in case.used_layers:
        if layer.kind == MUST or case.model == "conditional":
            links += oracles.adjacency(layer, len(labels)) * (1 if layer.kind == MUST else -1)
    _, names = connected_components((links > 0) & (labels[:, None] == labels), directed=False)
    gains = [-np.inf]
    for name in np.flatnonzero(np.bincount(names) > 1):
        members = np.flatnonzero(names == name)
        source = int(labels[members[0]])
        if (labels == source).sum() - len(members) >= case.min_size:
            for target in set(range(case.n_clusters)) - {source}:
                moved = np.where(names == name, target, labels)
                gains.append(oracles.objective(case, moved) - oracles.objective(case, labels))
    return gains


@pytest.mark.parametrize("model", ["likelihood", "conditional"])
def test_statistics_after_the_move_of_a_component_are_those_of_the_partition(model: str) -> None:
    case = case_of(0, model, "spherical")
    weighted = [replace(layer, weights=np.linspace(0.5, 2.0, len(layer.pairs))) for layer in case.layers]
    data, labels = replace(case, layers=weighted).problem().data, oracles.draw_labels(case, 0)
    state = entries.collect_state(data, labels)
    component = new_component(data, state)
    component.root[:] = -1
    for sample in data.annotated:
        if component.root[sample] < 0:
            source, target = int(labels[sample]), (int(labels[sample]) + 1) % 4
            size = entries.plain_kernel(list_component)(data, state, component, sample)
            members = component.members[:size]
            error = entries.plain_kernel(set_members)(data, state, component, size)
            assert error == pytest.approx(size * data.Z[members].var(axis=0).sum())
            np.testing.assert_allclose(component.mean, data.Z[members].mean(axis=0))
            entries.plain_kernel(set_trial)(data, state, component, size, source, target)
            moved_labels = labels.copy()
            moved_labels[members] = target
            moved = entries.collect_state(data, moved_labels)
            for name in ("sizes", "edge_counts", "agreements"):
                values, expected = getattr(component.trial, name), getattr(moved, name)
                np.testing.assert_allclose(values, expected, atol=1e-9)


@pytest.mark.parametrize("covariance", oracles.COVARIANCES)
@pytest.mark.parametrize("model", oracles.MODELS)
def test_no_component_gains_by_a_move(model: str, covariance: str) -> None:
    n_improvable = n_raised = 0
    for seed in range(2):
        case = case_of(seed, model, covariance)
        one_search = {"population": 1, "offspring": 0, "generations": 0}
        alone, whole = (end_of(case, **one_search, relocation=kind) for kind in ("all", "components"))
        assert whole.objective == pytest.approx(oracles.objective(case, whole.labels))
        assert whole.objective >= alone.objective - 1e-9
        n_raised += whole.objective > alone.objective + 1e-6
        n_improvable += max(component_gains(case, alone.labels)) > 1e-6
        assert max(component_gains(case, whole.labels)) <= 1e-8
        movable = np.flatnonzero(whole.sizes[whole.labels] > case.min_size)
        assert max(oracles.gain(case, whole.labels, i, t) for i in movable for t in range(4)) <= 1e-8
    assert n_raised == n_improvable
    assert n_improvable == 0 or model != "unsupervised"


def test_solutions_that_would_not_survive_are_left_alone() -> None:
    """Moves cost time, and most solutions are found again or dropped."""
    options = {"generations": 10, "crossover": "labels", "mutation": 0.2}
    case = case_of(2, "posterior", "spherical")
    # a local search follows each move, and only a few solutions are moved
    assert 110 < end_of(case, 1, **options, relocation="components").local_searches < 150
    assert end_of(case, 1, **options, relocation="all").local_searches == 110
