"""What a fit says of samples without annotations: clusters and densities."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.exceptions import ConvergenceWarning

from pipeline.fit.estimator import AnnotatedClustering


@pytest.fixture(scope="module")
def noise() -> np.ndarray:
    """Forty samples without clusters."""
    return np.random.default_rng(3).normal(size=(40, 3))


def small(n_clusters: int = 3, **changes: Any) -> AnnotatedClustering:
    return AnnotatedClustering(n_clusters, **({"restarts": 2, "generations": 2, "random_state": 5} | changes))


def slow_costs(estimator: AnnotatedClustering, x: np.ndarray) -> list[float]:
    """Costs of one sample, written down as in the text."""
    costs = []
    for center, variance in zip(estimator.cluster_centers_, estimator.covariances_, strict=True):
        squares = sum((a - b) ** 2 for a, b in zip(x.tolist(), center.tolist(), strict=True))
        is_degenerate = variance == 0
        cost = math.inf if is_degenerate else squares / (2 * variance) + len(x) / 2 * math.log(variance)
        costs.append(cost)
    return costs


def test_predict_and_score_against_one_sample_at_a_time() -> None:
    rng = np.random.default_rng(8)
    # a wide and a narrow cluster: the closest centre is not always the cheapest
    X = np.concatenate([rng.normal(0, 5, size=(60, 2)), rng.normal(4, 0.3, size=(60, 2))])
    estimator = small(2).fit(X)
    other = rng.normal(2, 4, size=(200, 2))
    costs = np.array([slow_costs(estimator, x) for x in other])
    predicted = estimator.predict(other)
    assert predicted.dtype == estimator.labels_.dtype == np.int32
    assert predicted.tolist() == costs.argmin(axis=1).tolist()
    closest = np.square(other[:, None] - estimator.cluster_centers_).sum(axis=2).argmin(axis=1)
    assert (predicted != closest).any()
    expected = -costs.min(axis=1).mean() - math.log(2 * math.pi) - math.log(2)
    assert estimator.score(other) == pytest.approx(expected, rel=1e-12)


def test_labels_without_annotations_are_those_predicted(noise: np.ndarray) -> None:
    estimator = small().fit(noise)
    assert estimator.sizes_.min() > estimator.min_cluster_size
    assert estimator.predict(noise).tolist() == estimator.labels_.tolist()


def test_score_is_a_density(noise: np.ndarray) -> None:
    estimator = small().fit(noise)
    n_samples, n_features = noise.shape
    dropped = 0.5 * n_samples * n_features * math.log(2 * math.pi) + n_samples * math.log(3)
    assert n_samples * estimator.score(noise) == pytest.approx(estimator.objective_ - dropped, rel=1e-12)
    clusters = zip(estimator.cluster_centers_, estimator.covariances_, strict=True)
    mixture = sum(multivariate_normal(mean, variance).pdf(noise) for mean, variance in clusters) / 3
    assert estimator.score(noise) < np.log(mixture).mean() < estimator.score(noise) + math.log(3)


def test_ties_go_to_the_lowest_cluster() -> None:
    estimator = small(2).fit([[-3.0], [-1.0], [1.0], [3.0]])
    assert sorted(estimator.cluster_centers_.ravel().tolist()) == [-2, 2]
    assert estimator.predict([[0.0]]).tolist() == [0]


def test_nothing_is_predicted_if_all_clusters_are_degenerate() -> None:
    X = np.repeat([[0.0], [100.0]], 3, axis=0)
    with pytest.warns(ConvergenceWarning, match="variance 0: 0, 1;"), pytest.warns(UserWarning, match="rows"):
        estimator = small(2).fit(X)
    assert len(set(estimator.labels_)) == 2
    for method in (estimator.predict, estimator.score):
        with pytest.raises(ValueError, match="all clusters are degenerate"):
            method(X)
