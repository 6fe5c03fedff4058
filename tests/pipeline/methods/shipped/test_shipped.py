"""Shipped methods equal cases by hand, and their objectives equal their definitions."""

from collections import Counter
from contextlib import suppress
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist
from scipy.stats import multivariate_normal
from sklearn.cluster import AgglomerativeClustering, KMeans
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture

from sweep_clustering.pipeline.methods.contract import NoSolution, accept, merged_links
from sweep_clustering.pipeline.methods.loading import MethodCall, load
from sweep_clustering.pipeline.methods.shipped import links, spectral

RNG = np.random.default_rng(4)
TRUE = np.repeat([0, 1, 2], 20)
X = np.array([[0.0, 0.0], [6.0, 0.0], [0.0, 6.0]])[TRUE] + RNG.normal(size=(60, 2))
Annotations = list[tuple[int, int, int]]


def links_of(annotations: Annotations) -> Any:
    return merged_links(np.array(annotations, dtype=np.int64).reshape(-1, 3))


def call(name: str, annotations: Any = (), X: Any = X, k: int = 3, seed: int = 0, **options: Any) -> Any:
    must, cannot, weights = links_of(annotations)
    method = load(MethodCall(name, name, options=options))
    answer = method(X, k, must, cannot, weights=weights, accuracy=0.9, random_state=seed)
    return accept(answer, n_samples=len(X), n_features=X.shape[1], n_clusters=k)


def best_of(name: str, annotations: Any = (), **settings: Any) -> Any:
    solutions = (call(name, annotations, seed=seed, **settings) for seed in range(10))
    return max(solutions, key=lambda solution: solution.objective)


def inertia(labels: Any, X: Any = X) -> float:
    return float(sum(((X[labels == k] - X[labels == k].mean(axis=0)) ** 2).sum() for k in set(labels)))


def n_broken(labels: Any, annotations: Annotations) -> int:
    return sum((labels[i] == labels[j]) != (kind == 0) for i, j, kind in annotations if i != j)


def draw(count: int, accuracy: float = 1.0) -> Annotations:
    pairs = RNG.integers(60, size=(count, 2)).tolist()
    return [(i, j, int((TRUE[i] == TRUE[j]) != (RNG.random() < accuracy))) for i, j in pairs]


def test_objectives_without_links_are_minus_the_inertia() -> None:
    for name, share in (("k-means", 1), ("ward", 1), ("cop-kmeans", 1), ("pckmeans", 0.5)):
        solution = best_of(name)
        assert adjusted_rand_score(TRUE, solution.labels) > 0.9
        assert solution.objective == pytest.approx(-share * inertia(solution.labels))
        assert solution.centroids == pytest.approx(
            np.stack([X[solution.labels == k].mean(axis=0) for k in range(3)])
        )
        if name != "ward":
            inertia_of_theirs = KMeans(3, n_init=10, random_state=0).fit(X).inertia_
            assert solution.objective == pytest.approx(-share * inertia_of_theirs)


@pytest.mark.parametrize("shape", ["spherical", "diag", "tied", "full"])
def test_the_objective_of_a_mixture_is_its_log_likelihood(shape: str) -> None:
    solution = call(f"gaussian-mixture-{shape}")
    theirs = GaussianMixture(3, covariance_type=shape, random_state=0).fit(X)
    full = {"spherical": "k,ij->kij", "diag": "ki,ij->kij", "tied": "ij,k->kij", "full": "kij,k->kij"}[shape]
    ones = np.eye(2) if shape in ("spherical", "diag") else np.ones(3)
    matrices = np.einsum(full, theirs.covariances_, ones)
    densities = [
        theirs.weights_[k] * multivariate_normal.pdf(X, theirs.means_[k], matrices[k]) for k in range(3)
    ]
    assert solution.objective == pytest.approx(float(np.log(np.sum(densities, axis=0)).sum()))
    assert np.array_equal(solution.labels, np.asarray(solution.probabilities).argmax(axis=1))
    assert adjusted_rand_score(TRUE, solution.labels) > 0.9


def test_average_linkage_is_that_of_scipy() -> None:
    labels = fcluster(linkage(X, "average"), 3, "maxclust")
    solution = call("average")
    assert adjusted_rand_score(labels, solution.labels) == 1.0
    assert solution.objective is None


def test_fewer_samples_than_clusters() -> None:
    names = (
        "k-means",
        "ward",
        "average",
        "genie",
        "cop-kmeans",
        "pckmeans",
        "correlation-clustering",
        "spectral-links",
    )
    for name in names:
        solution = call(name, [(0, 1, 1)], X=X[:2])
        assert len(set(solution.labels)) == 2
        assert solution.centroids is None or np.isnan(np.asarray(solution.centroids)[2]).all()
    with pytest.raises(NoSolution, match="2 samples for 3 Gaussians"):
        call("gaussian-mixture-full", X=X[:2])
    with pytest.raises(NoSolution, match="singular"):
        call("gaussian-mixture-full", X=np.column_stack([X[:, 0], np.zeros(60)]), reg_covar=0.0)


def test_genie_keeps_sizes_even_unless_its_threshold_is_1() -> None:
    solution = call("genie")
    assert solution.objective is None
    assert solution.centroids is None
    assert adjusted_rand_score(TRUE, solution.labels) > 0.9
    assert np.array_equal(solution.labels, call("genie", draw(50), seed=7).labels), "one answer for a table"
    outlier = np.concatenate([X, [[30.0, 30.0]]])
    single = AgglomerativeClustering(3, linkage="single").fit(outlier).labels_
    assert adjusted_rand_score(single, call("genie", X=outlier, gini_threshold=1.0).labels) == 1
    assert min(np.bincount(single)) == 1 < min(np.bincount(call("genie", X=outlier).labels))
    with pytest.raises(ValueError, match="gini_threshold"):
        call("genie", gini_threshold=2.0)


# Local moves of single samples, and where centroids begin.

N = 7
SIGNED = st.lists(st.tuples(st.integers(0, N - 1), st.integers(0, N - 1), st.integers(0, 1)), max_size=30)


@settings(max_examples=40)
@given(SIGNED, st.integers(0, 2**32 - 1))
def test_no_single_move_gains_once_settled(annotations: Annotations, seed: int) -> None:
    rng = np.random.default_rng(seed)
    pull, before = rng.normal(size=(N, 3)), rng.integers(3, size=N)
    graph, begun = links.signed_graph(N, *links_of(annotations)), before.copy()

    def worth_of(labels: NDArray[np.integer]) -> float:
        signs = [1 - 2 * kind for i, j, kind in annotations if i != j and labels[i] == labels[j]]
        return sum(signs) + float(pull[np.arange(N), labels].sum())

    labels_settled = links.settle(before, pull, graph, rng)
    assert np.array_equal(before, begun)
    assert worth_of(labels_settled) >= worth_of(before) - 1e-9
    for sample, cluster in product(range(N), range(3)):
        moved = labels_settled.copy()
        moved[sample] = cluster
        assert worth_of(moved) <= worth_of(labels_settled) + 1e-9


def test_distances_and_centroids_are_those_of_the_definition() -> None:
    assert links.squared_distances(X, X[:4]) == pytest.approx(cdist(X, X[:4], "sqeuclidean"))
    centroids = links.centroids_of(X, np.repeat([0, 2], 30), np.full((3, 2), 7.0))
    assert centroids == pytest.approx(np.stack([X[:30].mean(axis=0), [7.0, 7.0], X[30:].mean(axis=0)]))


def test_centres_are_drawn_by_weight_and_squared_distance() -> None:
    def last_centers(
        candidates: list[float], weights: list[float], centers: list[float]
    ) -> NDArray[np.float64]:
        arrays = np.array([candidates]).T, np.array(weights), np.array(centers).reshape(-1, 1)
        rngs = map(np.random.default_rng, range(2000))
        return np.array([links.spread_out(*arrays, len(centers) + 1, rng)[-1, 0] for rng in rngs])

    drawn = last_centers([1.0, 2.0, 0.0], [4.0, 1.0, 9.0], [0.0])  # 4 · 1, 1 · 4 and 9 · 0
    assert np.mean(drawn == 1.0) == pytest.approx(0.5, abs=0.05)
    assert set(drawn) == {1.0, 2.0}
    firsts = last_centers([1.0, 5.0], [3.0, 1.0], [])
    assert np.mean(firsts == 1.0) == pytest.approx(0.75, abs=0.05)  # the first by weight alone

    none, rng = np.empty((0, 2)), np.random.default_rng(0)
    assert links.spread_out(np.zeros((4, 2)), np.ones(4), none, 3, rng).shape == (3, 2)
    assert links.spread_out(X, np.ones(60), X[:2], 2, rng).tolist() == X[:2].tolist()


# k-means that breaks no link, or pays for it.


def test_cop_kmeans_breaks_no_link() -> None:
    annotations = draw(50)
    for seed in range(5):
        solution = call("cop-kmeans", annotations, seed=seed)
        assert n_broken(solution.labels, annotations) == 0
        assert solution.objective == pytest.approx(-inertia(solution.labels))
        # 0 and 1 must be together, 1 and 20 not: so 0 and 20 not, who come first or last
        labels = call("cop-kmeans", [(0, 1, 0), (1, 20, 1), (20, 21, 0)], k=2, seed=seed).labels
        assert labels[0] == labels[1] != labels[20] == labels[21]
    labels = call("cop-kmeans", [(0, 20, 0)]).labels  # nothing but a must-link, of samples far apart
    assert labels[0] == labels[20]


def test_pckmeans_begins_at_means_of_samples_that_must_be_together() -> None:
    means = links._first_centroids(X, 2, np.array([[0, 1], [30, 50]]), np.random.default_rng(0))
    assert sorted(means.tolist()) == sorted([X[:2].mean(axis=0).tolist(), X[[30, 50]].mean(axis=0).tolist()])


def test_links_that_nothing_keeps_have_no_solution() -> None:
    for pairs, reason in (
        ([(0, 1, 0), (0, 1, 1)], "1 cannot-links between samples that must-links join, such as 0 and 1"),
        ([(0, 1, 0), (1, 2, 0), (0, 2, 1)], "such as 0 and 2"),
        ([(0, 1, 1), (1, 2, 1), (0, 2, 1)], "stuck in each of 10 orders"),  # three that need three of two
    ):
        with pytest.raises(NoSolution, match=reason):
            call("cop-kmeans", pairs, k=2)


def test_another_order_gets_further() -> None:
    # a path whose ends are placed first, both nearest to one cluster: whoever is between has two neighbours
    line = np.array([[0.0], [4.9], [10.0], [5.1], [0.1], [10.1]])
    path = [(0, 1, 1), (1, 2, 1), (2, 3, 1), (3, 4, 1)]

    solved = Counter[int]()
    for orders, seed in product((1, 50), range(30)):
        with suppress(NoSolution):
            call("cop-kmeans", path, X=line, k=2, seed=seed, orders=orders)
            solved[orders] += 1
    assert 0 < solved[1] < solved[50] == 30


@pytest.mark.parametrize("penalty", [0.0, 0.3, 20.0, None])
def test_the_objective_of_pckmeans_is_minus_its_cost(penalty: float | None) -> None:
    annotations = draw(80, accuracy=0.7)
    solution = call("pckmeans", annotations, penalty=penalty)
    labels = solution.labels
    cost = 0.5 * float(X.var(axis=0).sum()) if penalty is None else penalty
    assert solution.objective == pytest.approx(-0.5 * inertia(labels) - cost * n_broken(labels, annotations))
    if penalty is None:  # units do not matter then
        assert np.array_equal(labels, call("pckmeans", annotations, X=1000 * X).labels)


# Most agreement with the annotations alone.


def test_correlation_clustering_finds_the_best_there_is() -> None:
    for seed in range(8):
        rng = np.random.default_rng(seed)
        annotations = [(*rng.integers(6, size=2).tolist(), int(rng.integers(2))) for _ in range(14)]
        solution = best_of("correlation-clustering", annotations, X=np.zeros((6, 1)))
        fewest = min(n_broken(labels, annotations) for labels in product(range(3), repeat=6))
        assert n_broken(solution.labels, annotations) == fewest
        assert solution.objective == sum(i != j for i, j, _ in annotations) - fewest
    pairs = [(i, j, int(TRUE[i] != TRUE[j])) for i in range(60) for j in range(i) if RNG.random() < 0.3]
    assert (
        adjusted_rand_score(TRUE, best_of("correlation-clustering", pairs, X=np.zeros((60, 1))).labels) == 1
    )
    # samples without links join the largest cluster
    labels = call("correlation-clustering", [(0, 1, 0), (1, 2, 0), (2, 3, 1)]).labels
    assert set(labels[4:]) == {labels[0]} == set(labels[:3])
    assert labels[3] != labels[0]
    nothing = call("correlation-clustering")
    assert not nothing.labels.any()
    assert nothing.objective == 0.0


# Links written into the affinity.


def matrix(annotations: Annotations, sigma: float, neighbours: int) -> NDArray[np.float64]:
    """Return the affinity by the definition, pair by pair."""
    distances = np.linalg.norm(X[:, None] - X[None], axis=2)
    near = np.argsort(distances, axis=1)[:, 1 : neighbours + 1]
    affinity = np.zeros((60, 60))
    for i in range(60):
        for j in near[i]:
            affinity[i, j] = affinity[j, i] = np.exp(-(distances[i, j] ** 2) / (2 * sigma**2))
    signs = np.zeros((60, 60))
    for i, j, kind in annotations:
        signs[[i, j], [j, i]] += 1 - 2 * kind
    affinity[signs != 0] = signs[signs != 0] > 0
    return affinity


def test_the_affinity_is_as_defined_and_units_do_not_matter() -> None:
    annotations = [(0, 30, 0), (0, 1, 1), (2, 3, 0), (2, 3, 1), (5, 50, 0), (5, 50, 0), (5, 50, 1)]
    graph = links.signed_graph(60, *links_of(annotations))
    affinity = spectral._with_links(spectral._affinity(X, 1.5, 8), graph).toarray()
    assert affinity == pytest.approx(matrix(annotations, 1.5, 8))
    assert np.array_equal(call("spectral-links").labels, call("spectral-links", X=1000 * X).labels)
    call("spectral-links", X=np.zeros((10, 2)))
    for name, options in (
        ("spectral-links", {"sigma": 0.0}),
        ("spectral-links", {"neighbours": 0}),
        ("pckmeans", {"penalty": -1}),
    ):
        with pytest.raises(ValueError, match=r"expected (both above 0|0 or more)"):
            call(name, **options)


def test_vectors_are_the_leading_ones_of_the_published_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    affinity = matrix([(0, 30, 0), (20, 50, 0)], 1.5, 8)
    sums = affinity.sum(axis=1)
    values, vectors = np.linalg.eigh((affinity + np.diag(sums.max() - sums)) / sums.max())
    assert values[-3] - values[-4] > 1e-3
    theirs = vectors[:, -3:] @ vectors[:, -3:].T
    for largest in (60, 59):  # the matrix has all pairs, or is sparse
        monkeypatch.setattr(spectral, "LARGEST_DENSE", largest)
        leading = spectral._leading_vectors(csr_array(affinity), 3)
        assert leading @ leading.T == pytest.approx(theirs, abs=1e-6)
        assert adjusted_rand_score(TRUE, call("spectral-links").labels) > 0.9
