"""Methods in which a link that is broken costs something."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from sklearn.cluster import KMeans

from pipeline.methods.contract import NoSolution, Solution, checked, merged_links
from pipeline.methods.shipped.links import (
    SignedGraph,
    centroids_of,
    cop_kmeans,
    correlation_clustering,
    padded,
    pckmeans,
    settle,
    spread_out,
    squared_distances,
)

# Local moves of single samples.

N = 7


def graph_of(annotations: list[tuple[int, int, int]]) -> SignedGraph:
    must, cannot, weights = merged_links(np.array(annotations, dtype=np.int64).reshape(-1, 3))
    return SignedGraph.of(N, must, cannot, weights)


def agreement(annotations: list[tuple[int, int, int]], labels: NDArray[np.integer]) -> float:
    """From the annotations themselves: pairs within clusters, must-links less cannot-links."""
    signs = [1 - 2 * kind for i, j, kind in annotations if i != j and labels[i] == labels[j]]
    return float(sum(signs))


SIGNED = st.lists(st.tuples(st.integers(0, N - 1), st.integers(0, N - 1), st.integers(0, 1)), max_size=30)


def test_a_graph_of_a_hand_case() -> None:
    graph = graph_of([(0, 1, 0), (1, 0, 0), (1, 2, 1), (3, 4, 0), (3, 4, 1), (5, 5, 0)])
    assert graph.degrees.tolist() == [1, 2, 1, 0, 0, 0, 0]
    neighbours, weights = graph.around(1)
    assert dict(zip(neighbours.tolist(), weights.tolist(), strict=True)) == {0: 2.0, 2: -1.0}
    assert graph.agreement(np.array([0, 0, 0, 0, 0, 0, 0])) == 1.0
    assert graph.agreement(np.array([0, 0, 1, 0, 0, 0, 0])) == 2.0


@given(SIGNED, st.lists(st.integers(0, 2), min_size=N, max_size=N))
def test_agreement_is_that_of_the_annotations(
    annotations: list[tuple[int, int, int]], labels: list[int]
) -> None:
    assert graph_of(annotations).agreement(np.array(labels)) == agreement(annotations, np.array(labels))


@settings(max_examples=40)
@given(SIGNED, st.integers(0, 2**32 - 1))
def test_no_single_move_gains_once_settled(annotations: list[tuple[int, int, int]], seed: int) -> None:
    rng = np.random.default_rng(seed)
    pull = rng.normal(size=(N, 3))
    before = rng.integers(3, size=N)

    def worth(labels: NDArray[np.integer]) -> float:
        return agreement(annotations, labels) + float(pull[np.arange(N), labels].sum())

    found = settle(before, pull, graph_of(annotations), rng)
    assert worth(found) >= worth(before) - 1e-9
    for sample in range(N):
        for cluster in range(3):
            other = found.copy()
            other[sample] = cluster
            assert worth(other) <= worth(found) + 1e-9


def test_where_it_begins_is_not_changed() -> None:
    before = np.zeros(N, dtype=np.int64)
    pull = np.tile([0.0, 1.0], (N, 1))
    found = settle(before, pull, graph_of([]), np.random.default_rng(0))
    assert not before.any()
    assert found.all()


def test_the_seed_decides_between_equal_ends() -> None:
    # either end of a cannot-link may leave the cluster
    graph = graph_of([(0, 1, 1)])
    pull = np.zeros((N, 2))
    ends = {
        tuple(settle(np.zeros(N, dtype=np.int64), pull, graph, np.random.default_rng(seed))[:2].tolist())
        for seed in range(10)
    }
    assert ends == {(0, 1), (1, 0)}
    same = [settle(np.zeros(N, dtype=np.int64), pull, graph, np.random.default_rng(3)) for _ in range(2)]
    assert np.array_equal(*same)


@pytest.mark.parametrize("n_clusters", [1, 3])
def test_nothing_to_gain_is_an_end(n_clusters: int) -> None:
    labels = np.arange(N) % n_clusters
    assert np.array_equal(
        settle(labels, np.zeros((N, n_clusters)), graph_of([]), np.random.default_rng(0)), labels
    )


# Squared distances to centroids, and where centroids begin.

RNG_OF_SQUARES = np.random.default_rng(5)
X_OF_SQUARES = RNG_OF_SQUARES.normal(size=(30, 3))
NONE = np.empty((0, 3))


def test_distances_are_those_of_scipy() -> None:
    assert squared_distances(X_OF_SQUARES, X_OF_SQUARES[:4]) == pytest.approx(
        cdist(X_OF_SQUARES, X_OF_SQUARES[:4], "sqeuclidean")
    )


def test_centroids_are_means_and_empty_ones_stay() -> None:
    labels = np.repeat([0, 2], 15)
    before = np.full((3, 3), 7.0)
    found = centroids_of(X_OF_SQUARES, labels, before)
    assert found[0] == pytest.approx(X_OF_SQUARES[:15].mean(axis=0))
    assert found[1].tolist() == [7.0, 7.0, 7.0]
    assert found[2] == pytest.approx(X_OF_SQUARES[15:].mean(axis=0))


def test_centres_are_drawn_by_weight_and_squared_distance() -> None:
    candidates = np.array([[1.0], [2.0], [0.0]])
    given = np.array([[0.0]])
    drawn = [
        float(spread_out(candidates, np.array([4.0, 1.0, 9.0]), given, 2, np.random.default_rng(seed))[1, 0])
        for seed in range(2000)
    ]
    # 4 · 1, 1 · 4 and 9 · 0
    assert np.mean(np.array(drawn) == 1.0) == pytest.approx(0.5, abs=0.05)
    assert set(drawn) == {1.0, 2.0}


def test_the_first_one_goes_by_weight_alone() -> None:
    firsts = [
        float(spread_out(np.array([[1.0], [5.0]]), np.array([3.0, 1.0]), np.empty((0, 1)), 1, rng)[0, 0])
        for rng in map(np.random.default_rng, range(2000))
    ]
    assert np.mean(np.array(firsts) == 1.0) == pytest.approx(0.75, abs=0.05)


def test_each_candidate_is_taken_once() -> None:
    found = spread_out(X_OF_SQUARES[:5], np.ones(5), NONE, 9, np.random.default_rng(0))
    assert sorted(map(tuple, found.tolist())) == sorted(map(tuple, X_OF_SQUARES[:5].tolist()))
    same = spread_out(np.zeros((4, 3)), np.ones(4), NONE, 3, np.random.default_rng(0))
    assert same.shape == (3, 3)
    assert (
        spread_out(X_OF_SQUARES, np.ones(30), X_OF_SQUARES[:2], 2, np.random.default_rng(0)).tolist()
        == X_OF_SQUARES[:2].tolist()
    )


def test_missing_centroids_are_nan() -> None:
    found = padded(X_OF_SQUARES[:2], 4)
    assert found.shape == (4, 3)
    assert np.isnan(found[2:]).all()
    assert np.array_equal(found[:2], X_OF_SQUARES[:2])


# k-means that breaks no link.

RNG_OF_COPKMEANS = np.random.default_rng(4)
TRUE = np.repeat([0, 1, 2], 20)
X_OF_COPKMEANS = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0]])[TRUE] + RNG_OF_COPKMEANS.normal(size=(60, 2))


def call_of_copkmeans(
    annotations: Any, X: Any = X_OF_COPKMEANS, n_clusters: int = 3, seed: int = 0, **options: Any
) -> Solution:
    must, cannot, weights = merged_links(np.array(annotations, dtype=np.int64).reshape(-1, 3))
    answer = cop_kmeans(
        X, n_clusters, must, cannot, weights=weights, accuracy=None, random_state=seed, **options
    )
    return checked(answer, n_samples=len(X), n_features=X.shape[1], n_clusters=n_clusters)


def test_no_link_is_broken() -> None:
    pairs = RNG_OF_COPKMEANS.integers(60, size=(50, 2)).tolist()
    annotations = [(i, j, int(TRUE[i] != TRUE[j])) for i, j in pairs]
    for seed in range(5):
        labels = np.asarray(call_of_copkmeans(annotations, seed=seed).labels)
        assert all((labels[i] == labels[j]) == (kind == 0) for i, j, kind in annotations)


def test_links_are_closed_under_transitivity() -> None:
    # 0 and 1 must be together, 1 and 20 not: so 0 and 20 not, who come first or last
    for seed in range(5):
        labels = np.asarray(
            call_of_copkmeans([(0, 1, 0), (1, 20, 1), (20, 21, 0)], n_clusters=2, seed=seed).labels
        )
        assert labels[0] == labels[1] != labels[20] == labels[21]


def test_the_objective_is_minus_the_inertia_of_the_labels() -> None:
    found = call_of_copkmeans([(0, 20, 0), (0, 40, 0), (1, 2, 1)])
    labels = np.asarray(found.labels)
    squares = sum(
        ((X_OF_COPKMEANS[labels == k] - X_OF_COPKMEANS[labels == k].mean(axis=0)) ** 2).sum()
        for k in range(3)
    )
    assert found.objective == pytest.approx(-squares)


def test_it_is_k_means_without_links() -> None:
    theirs = KMeans(3, n_init=10, random_state=0).fit(X_OF_COPKMEANS)
    best = max(call_of_copkmeans([], seed=seed).objective or 0.0 for seed in range(10))
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
        call_of_copkmeans(annotations, n_clusters=2)


def test_another_order_gets_further() -> None:
    # a path whose ends are placed first, both nearest to one cluster: whoever is between has two neighbours
    line = np.array([[0.0], [4.9], [10.0], [5.1], [0.1], [10.1]])
    path = [(0, 1, 1), (1, 2, 1), (2, 3, 1), (3, 4, 1)]
    found = [_solved(path, line, seed, orders=1) for seed in range(30)]
    assert 0 < sum(found) < 30
    assert all(_solved(path, line, seed, orders=50) for seed in range(30))


def _solved(annotations: Any, X: Any, seed: int, *, orders: int) -> bool:
    try:
        call_of_copkmeans(annotations, X=X, n_clusters=2, seed=seed, orders=orders)
    except NoSolution:
        return False
    return True


def test_as_many_clusters_as_samples() -> None:
    few = X_OF_COPKMEANS[:2]
    found = call_of_copkmeans([(0, 1, 1)], X=few)
    assert len(set(np.asarray(found.labels))) == 2
    assert np.isnan(np.asarray(found.centroids)[2]).all()


RNG = np.random.default_rng(11)
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
