"""Methods of scikit-learn, which see no annotations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture

from pipeline.methods.contract import NoSolution, Solution, checked
from pipeline.methods.shipped import baselines

RNG = np.random.default_rng(3)
TRUE = np.repeat([0, 1, 2], 20)
X = np.array([[0.0, 0.0], [6.0, 0.0], [0.0, 6.0]])[TRUE] + 0.7 * RNG.normal(size=(60, 2))
SHAPES = ("spherical", "diag", "tied", "full")


def call(method: Any, X: Any = X, n_clusters: int = 3, seed: int = 0, **options: Any) -> Solution:
    empty = np.empty((0, 2), dtype=np.int64)
    arguments = {"weights": (np.empty(0), np.empty(0)), "accuracy": None, "random_state": seed}
    answer = method(X, n_clusters, empty, empty, **arguments, **options)
    return checked(answer, n_samples=len(X), n_features=X.shape[1], n_clusters=n_clusters)


def inertia(labels: Any) -> float:
    return float(sum(((X[labels == k] - X[labels == k].mean(axis=0)) ** 2).sum() for k in set(labels)))


def mixture(shape: str) -> Any:
    return getattr(baselines, f"gaussian_mixture_{shape}")


@pytest.mark.parametrize("method", [baselines.k_means, baselines.ward, *map(mixture, SHAPES)])
def test_plain_clusters_are_found(method: Any) -> None:
    assert adjusted_rand_score(TRUE, call(method).labels) > 0.95


@pytest.mark.parametrize("method", [baselines.k_means, baselines.ward])
def test_the_objective_is_minus_the_inertia(method: Any) -> None:
    found = call(method)
    assert found.objective == pytest.approx(-inertia(found.labels))
    centroids = np.stack([X[found.labels == k].mean(axis=0) for k in range(3)])
    assert found.centroids == pytest.approx(centroids)


def test_k_means_is_one_start_of_scikit_learn() -> None:
    for seed in (0, 1):
        theirs = KMeans(3, n_init=1, random_state=seed).fit(X)
        found = call(baselines.k_means, seed=seed)
        assert np.array_equal(found.labels, theirs.labels_)
        assert found.objective == -theirs.inertia_


@pytest.mark.parametrize("shape", SHAPES)
def test_the_objective_of_a_mixture_is_its_log_likelihood(shape: str) -> None:
    found = call(mixture(shape))
    theirs = GaussianMixture(3, covariance_type=shape, random_state=0).fit(X)
    matrices = {
        "spherical": lambda k: np.eye(2) * theirs.covariances_[k],
        "diag": lambda k: np.diag(theirs.covariances_[k]),
        "tied": lambda k: theirs.covariances_,
        "full": lambda k: theirs.covariances_[k],
    }
    densities = [
        theirs.weights_[k] * multivariate_normal.pdf(X, theirs.means_[k], matrices[shape](k))
        for k in range(3)
    ]
    assert found.objective == pytest.approx(float(np.log(np.sum(densities, axis=0)).sum()))
    assert np.array_equal(found.labels, np.asarray(found.probabilities).argmax(axis=1))


def test_ward_of_a_hand_case() -> None:
    # 0 and 1 join first; then 4 joins 5, adding 0.5, before anything adds 4.5 or more
    line = np.array([[0.0], [1.0], [4.0], [5.0], [9.0]])
    found = call(baselines.ward, line)
    labels = np.asarray(found.labels)
    assert labels[0] == labels[1] != labels[2] == labels[3]
    assert found.objective == -1.0


def test_fewer_samples_than_clusters() -> None:
    few = X[:2]
    for method in (baselines.k_means, baselines.ward):
        found = call(method, few)
        assert len(set(np.asarray(found.labels))) == 2
        assert found.objective == pytest.approx(0.0)
    with pytest.raises(NoSolution, match="2 samples for 3 Gaussians"):
        call(mixture("full"), few)


def test_a_singular_covariance_is_no_solution() -> None:
    flat = np.column_stack([X[:, 0], np.zeros(60)])
    with pytest.raises(NoSolution, match="singular"):
        call(mixture("full"), flat, reg_covar=0.0)
