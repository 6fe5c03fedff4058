"""k-means that breaks no link."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.cluster import KMeans

from pipeline.methods.contract import NoSolution, Solution, checked, merged_links
from pipeline.methods.shipped.copkmeans import cop_kmeans

RNG = np.random.default_rng(4)
TRUE = np.repeat([0, 1, 2], 20)
X = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0]])[TRUE] + RNG.normal(size=(60, 2))


def call(annotations: Any, X: Any = X, n_clusters: int = 3, seed: int = 0, **options: Any) -> Solution:
    must, cannot, weights = merged_links(np.array(annotations, dtype=np.int64).reshape(-1, 3))
    answer = cop_kmeans(
        X, n_clusters, must, cannot, weights=weights, accuracy=None, random_state=seed, **options
    )
    return checked(answer, n_samples=len(X), n_features=X.shape[1], n_clusters=n_clusters)


def test_no_link_is_broken() -> None:
    pairs = RNG.integers(60, size=(50, 2)).tolist()
    annotations = [(i, j, int(TRUE[i] != TRUE[j])) for i, j in pairs]
    for seed in range(5):
        labels = np.asarray(call(annotations, seed=seed).labels)
        assert all((labels[i] == labels[j]) == (kind == 0) for i, j, kind in annotations)


def test_links_are_closed_under_transitivity() -> None:
    # 0 and 1 must be together, 1 and 20 not: so 0 and 20 not, who come first or last
    for seed in range(5):
        labels = np.asarray(call([(0, 1, 0), (1, 20, 1), (20, 21, 0)], n_clusters=2, seed=seed).labels)
        assert labels[0] == labels[1] != labels[20] == labels[21]


def test_the_objective_is_minus_the_inertia_of_the_labels() -> None:
    found = call([(0, 20, 0), (0, 40, 0), (1, 2, 1)])
    labels = np.asarray(found.labels)
    squares = sum(((X[labels == k] - X[labels == k].mean(axis=0)) ** 2).sum() for k in range(3))
    assert found.objective == pytest.approx(-squares)


def test_it_is_k_means_without_links() -> None:
    theirs = KMeans(3, n_init=10, random_state=0).fit(X)
    best = max(call([], seed=seed).objective or 0.0 for seed in range(10))
    assert best == pytest.approx(-theirs.inertia_)


@pytest.mark.parametrize(
    ("annotations", "reason"),
    [
        ([(0, 1, 0), (0, 1, 1)], "1 cannot-links between samples that must-links join, such as 0 and 1"),
        ([(0, 1, 0), (1, 2, 0), (0, 2, 1)], "such as 0 and 2"),
        ([(0, 1, 1), (1, 2, 1), (0, 2, 1)], "stuck in each of 10 orders"),  # three that need three of two
    ],
)
def test_links_that_nothing_keeps_have_no_solution(annotations: Any, reason: str) -> None:
    with pytest.raises(NoSolution, match=reason):
        call(annotations, n_clusters=2)


def test_another_order_gets_further() -> None:
    # a path whose ends are placed first, both nearest to one cluster: whoever is between has two neighbours
    line = np.array([[0.0], [4.9], [10.0], [5.1], [0.1], [10.1]])
    path = [(0, 1, 1), (1, 2, 1), (2, 3, 1), (3, 4, 1)]
    found = [_solved(path, line, seed, orders=1) for seed in range(30)]
    assert 0 < sum(found) < 30
    assert all(_solved(path, line, seed, orders=50) for seed in range(30))


def _solved(annotations: Any, X: Any, seed: int, *, orders: int) -> bool:
    try:
        call(annotations, X=X, n_clusters=2, seed=seed, orders=orders)
    except NoSolution:
        return False
    return True


def test_as_many_clusters_as_samples() -> None:
    few = X[:2]
    found = call([(0, 1, 1)], X=few)
    assert len(set(np.asarray(found.labels))) == 2
    assert np.isnan(np.asarray(found.centroids)[2]).all()
