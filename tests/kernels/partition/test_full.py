"""Matrices of covariance: what drifts over a walk stays within its bound, or is renewed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import ortho_group
from solving.entries import collect
from solving.from_python import from_python
from solving.oracles import Case, draw_case, draw_labels, gain, objective

from kernels.partition.full import LARGEST_DRIFT
from kernels.partition.gains import exact_gain, set_distances, set_gains, set_links
from kernels.partition.objective import objective_terms
from kernels.partition.relocation import relocate
from kernels.partition.state import State, new_state
from kernels.problem.data import Data

exact_gain = from_python(exact_gain)
relocate = from_python(relocate)
set_gains = from_python(set_gains)
set_links = from_python(set_links)
set_distances = from_python(set_distances)

MATRICES = pytest.mark.parametrize("covariance", ["tied", "full"])


def scatter_of(data: Data, labels: np.ndarray, cluster: int) -> np.ndarray:
    members = data.Z[labels == cluster]
    differences = members - members.mean(axis=0)
    return np.asarray(differences.T @ differences)


def errors(data: Data, state: State) -> list[tuple[float, float]]:
    """Largest relative error of each inverse, by any vector, and the bound on it."""
    labels = state.labels.astype(int)
    scatters = [scatter_of(data, labels, k) for k in range(data.n_clusters)]
    if len(state.scatter) == 1:
        scatters = [np.sum(scatters, axis=0)]
    found = []
    for place, scatter in enumerate(scatters):
        A = scatter + data.ridge * np.eye(len(scatter))
        root = np.linalg.cholesky(A)
        off = root.T @ state.inverse[place] @ root - np.eye(len(A))
        found.append((np.abs(np.linalg.eigvalsh(off)).max(), float(state.drift[place])))
        np.testing.assert_allclose(state.scatter[place], A, rtol=1e-7, atol=1e-7)
        assert state.logdets[place] == pytest.approx(np.linalg.slogdet(A)[1], abs=1e-6)
    return found


@MATRICES
@pytest.mark.parametrize("name", ["plain", "outliers", "small clusters", "many features", "one cluster"])
def test_errors_of_a_walk_stay_below_the_drift(name: str, covariance: str) -> None:
    rng = np.random.default_rng(7)
    X = rng.normal(size=(40, 4)) @ rng.normal(size=(4, 4))
    n_clusters, prior = 3, 1.0
    if name == "outliers":
        X[::7] *= 1e5
        prior = 0.01
    elif name == "small clusters":
        n_clusters = 15
    elif name == "many features":
        X = rng.normal(size=(40, 20))
    elif name == "one cluster":
        n_clusters = 1
    case = Case(X, [], n_clusters, "unsupervised", 1, covariance=covariance, covariance_prior=prior)
    data = case.problem().data
    state = new_state(data)
    state.labels[:] = draw_labels(case, 0)
    collect(data, state)
    for _ in range(600 if n_clusters > 1 else 0):
        sample, target = int(rng.integers(40)), int(rng.integers(n_clusters))
        source = int(state.labels[sample])
        if target != source and state.sizes[source] > 1:
            set_distances(data, state, sample)
            set_links(data, state, sample)
            relocate(data, state, sample, target)
    for error, drift in errors(data, state):
        # numpy's own factor is off by some roundings too
        assert error <= drift + 1e-11
        assert drift <= 1e3 * LARGEST_DRIFT


@MATRICES
def test_an_outlier_that_leaves_a_small_cluster_takes_no_digits_with_it(covariance: str) -> None:
    rng = np.random.default_rng(3)
    X = np.concatenate([1e-3 * rng.normal(size=(10, 3)), rng.normal(size=(20, 3)), [[1e4, 0.5, -0.5]]])
    case = Case(X, [], 3, "unsupervised", 1, covariance=covariance, covariance_prior=0.001)
    data = case.problem().data
    state = new_state(data)
    labels = np.repeat([0, 1, 2], [10, 10, 11])
    labels[-1] = 0
    state.labels[:] = labels
    collect(data, state)
    for sample, target in ((30, 1), (30, 2), (0, 1)):
        set_gains(data, state, sample, set_links(data, state, sample))
        wanted = gain(case, labels, sample, target)
        assert exact_gain(data, state, sample, target) == pytest.approx(wanted, rel=1e-6)
        bound = 4 * (state.doubt[labels[sample]] + state.doubt[target]) + 1e-6 * abs(wanted)
        assert abs(state.gains[target] - wanted) <= max(bound, 1e-2 * abs(wanted))
        assert (state.gains[target] > 0) == (wanted > 0)
    set_distances(data, state, 30)
    set_links(data, state, 30)
    relocate(data, state, 30, 1)
    for error, drift in errors(data, state):
        assert error <= drift + 1e-9


@MATRICES
def test_rotations_change_nothing_and_units_a_constant(covariance: str) -> None:
    case = replace(draw_case(6, model="posterior", n_features=4), covariance=covariance)
    rotated = replace(case, X=case.X @ ortho_group.rvs(4, random_state=0))
    units = np.array([1e-4, 1.0, 30.0, 1e5])
    scaled = replace(case, X=case.X * units)
    for seed in range(5):
        labels = draw_labels(case, seed)
        found, turned, grown = (
            sum(objective_terms(each.problem(), labels)) for each in (case, rotated, scaled)
        )
        assert found == pytest.approx(objective(case, labels))
        assert turned == pytest.approx(found)
        assert grown == pytest.approx(found - 24 * np.log(units).sum())


@MATRICES
def test_features_that_others_give_change_a_constant_alone(covariance: str) -> None:
    case = replace(draw_case(6, model="unsupervised", n_features=3), covariance=covariance)
    more = np.column_stack([case.X, case.X[:, 0] - 2 * case.X[:, 2], np.ones(24), 5e3 * case.X[:, 1]])
    wide = replace(case, X=more)
    assert len(wide.problem().kept) == 3
    values = []
    for seed in range(6):
        labels = draw_labels(case, seed)
        values.append([sum(objective_terms(each.problem(), labels)) for each in (case, wide)])
    differences = np.subtract(*np.transpose(values))
    np.testing.assert_allclose(differences, differences[0], atol=1e-7)
