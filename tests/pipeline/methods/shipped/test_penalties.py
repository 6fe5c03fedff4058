"""Methods in which a link that is broken costs something."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.cluster import KMeans

from pipeline.methods.contract import Solution, checked, merged_links
from pipeline.methods.shipped.penalties import correlation_clustering, pckmeans

RNG = np.random.default_rng(11)
TRUE = np.repeat([0, 1, 2], 20)
X = np.array([[0.0, 0.0], [6.0, 0.0], [0.0, 6.0]])[TRUE] + RNG.normal(size=(60, 2))


def call(
    method: Any, annotations: Any, X: Any = X, n_clusters: int = 3, seed: int = 0, **options: Any
) -> Solution:
    must, cannot, weights = merged_links(np.array(annotations, dtype=np.int64).reshape(-1, 3))
    answer = method(X, n_clusters, must, cannot, weights=weights, accuracy=0.9, random_state=seed, **options)
    return checked(answer, n_samples=len(X), n_features=X.shape[1], n_clusters=n_clusters)


def best(method: Any, annotations: Any, **settings: Any) -> Solution:
    found = [call(method, annotations, seed=seed, **settings) for seed in range(10)]
    return max(found, key=lambda solution: solution.objective or 0.0)


def labels_of(solution: Solution) -> NDArray[np.integer]:
    return np.asarray(solution.labels)


def cost(X: Any, labels: Any, annotations: Any, penalty: float) -> float:
    """Of the definition, annotation by annotation."""
    squares = sum(
        0.5 * ((X[labels == each] - X[labels == each].mean(axis=0)) ** 2).sum() for each in set(labels)
    )
    broken = sum((labels[i] == labels[j]) != (kind == 0) for i, j, kind in annotations if i != j)
    return float(squares + penalty * broken)


def drawn(count: int, accuracy: float = 1.0) -> list[tuple[int, int, int]]:
    pairs = RNG.integers(60, size=(count, 2)).tolist()
    right = (RNG.random(count) < accuracy).tolist()
    return [(i, j, int((TRUE[i] == TRUE[j]) != ok)) for (i, j), ok in zip(pairs, right, strict=True)]


def test_pckmeans_of_a_hand_case() -> None:
    line = np.array([[0.0], [1.0], [10.0], [11.0]])
    # {0, 1}, {10, 11} costs ½ (0.5 + 0.5) and the link; {0, 1, 10}, {11} ½ · 60.67: it pays only if dear
    annotations = [(1, 2, 0)]
    cheap = best(pckmeans, annotations, X=line, n_clusters=2, penalty=1.0)
    assert labels_of(cheap)[0] == labels_of(cheap)[1] != labels_of(cheap)[2]
    assert cheap.objective == pytest.approx(-1.5)
    dear = best(pckmeans, annotations, X=line, n_clusters=2, penalty=100.0)
    assert labels_of(dear)[1] == labels_of(dear)[2]
    assert dear.objective == pytest.approx(-0.5 * (0 + 1 + 100 - 121 / 3))


@pytest.mark.parametrize("penalty", [0.0, 0.3, 20.0])
def test_the_objective_of_pckmeans_is_minus_its_cost(penalty: float) -> None:
    annotations = drawn(80, accuracy=0.7)
    found = call(pckmeans, annotations, penalty=penalty)
    assert found.objective == pytest.approx(-cost(X, labels_of(found), annotations, penalty))


def test_the_default_penalty_is_half_the_variance() -> None:
    annotations = drawn(80, accuracy=0.7)
    half = 0.5 * float(X.var(axis=0).sum())
    given, default = (call(pckmeans, annotations, penalty=each) for each in (half, None))
    assert np.array_equal(labels_of(given), labels_of(default))
    assert given.objective == pytest.approx(default.objective)


def test_with_the_default_penalty_units_do_not_matter() -> None:
    annotations = drawn(80, accuracy=0.7)
    small, large = call(pckmeans, annotations), call(pckmeans, annotations, X=1000 * X)
    assert np.array_equal(labels_of(small), labels_of(large))


def test_pckmeans_is_k_means_without_links() -> None:
    theirs = KMeans(3, n_init=10, random_state=0).fit(X)
    assert best(pckmeans, []).objective == pytest.approx(-0.5 * theirs.inertia_)


def test_pckmeans_follows_links_that_the_features_do_not_know() -> None:
    hidden = np.arange(60) % 2
    annotations = [(i, j, int(hidden[i] != hidden[j])) for i, j in RNG.integers(60, size=(600, 2)).tolist()]
    labels = labels_of(best(pckmeans, annotations, n_clusters=2, penalty=50.0))
    assert np.array_equal(labels, hidden) or np.array_equal(labels, 1 - hidden)


def test_a_negative_penalty_is_refused() -> None:
    with pytest.raises(ValueError, match="penalty: found -1"):
        call(pckmeans, [], penalty=-1)


def test_fewer_samples_than_clusters() -> None:
    found = call(pckmeans, [(0, 1, 1)], X=X[:2])
    assert np.isnan(np.asarray(found.centroids)[2]).all()
    assert len(set(labels_of(call(correlation_clustering, [(0, 1, 1)], X=X[:2])))) == 2


def kept(labels: Any, annotations: Any) -> int:
    return sum((labels[i] == labels[j]) == (kind == 0) for i, j, kind in annotations if i != j)


def test_correlation_clustering_finds_the_best_there_is() -> None:
    few = np.zeros((6, 1))
    for seed in range(8):
        rng = np.random.default_rng(seed)
        annotations = [(*rng.integers(6, size=2).tolist(), int(rng.integers(2))) for _ in range(14)]
        most = max(kept(labels, annotations) for labels in product(range(3), repeat=6))
        found = best(correlation_clustering, annotations, X=few)
        assert found.objective == most
        assert kept(labels_of(found), annotations) == most


def test_correlation_clustering_recovers_clusters_from_links_alone() -> None:
    annotations = [(i, j, int(TRUE[i] != TRUE[j])) for i in range(60) for j in range(i) if RNG.random() < 0.3]
    labels = labels_of(best(correlation_clustering, annotations, X=np.zeros((60, 1))))
    assert len({*zip(labels.tolist(), TRUE.tolist(), strict=True)}) == 3


def test_samples_without_links_join_the_largest_cluster() -> None:
    annotations = [(0, 1, 0), (1, 2, 0), (2, 3, 1)]
    labels = labels_of(call(correlation_clustering, annotations))
    assert set(labels[4:]) == {labels[0]}
    assert labels[0] == labels[1] == labels[2] != labels[3]
    nothing = call(correlation_clustering, [])
    assert not labels_of(nothing).any()
    assert nothing.objective == 0.0


def test_a_contradiction_keeps_one_of_its_annotations() -> None:
    assert call(correlation_clustering, [(0, 1, 0), (0, 1, 1), (0, 1, 1)]).objective == 2.0
    assert call(correlation_clustering, [(0, 1, 0), (0, 1, 1)]).objective == 1.0
