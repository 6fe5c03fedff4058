"""Seeding, k-means, crossover, mutation, repair."""

from __future__ import annotations

import numpy as np
import pytest
from solving.from_python import from_python

from kernels.partition.state import new_state
from kernels.problem.data import Data
from kernels.problem.problem import build_problem
from kernels.search.matching import new_matching
from kernels.search.operators import assign_closest, blend, cross, kmeans, mutate, repair, seed_centroids
from kernels.settings import ObjectiveSettings

assign_closest = from_python(assign_closest)
cross = from_python(cross)
kmeans = from_python(kmeans)
seed_centroids = from_python(seed_centroids)
blend = from_python(blend)
mutate = from_python(mutate)
repair = from_python(repair)


def blobs(seed: int, n_samples: int = 40, n_clusters: int = 4, min_size: int = 2) -> Data:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_samples, 3)) + 4 * rng.integers(0, 2, size=(n_samples, 3))
    return build_problem(
        X, n_clusters=n_clusters, model="unsupervised", settings=ObjectiveSettings(min_size)
    ).data


def test_seeding_takes_distinct_samples_far_apart() -> None:
    data = blobs(0, n_clusters=4)
    rng = np.random.default_rng(0)
    centroids, state = np.zeros((3, 4)), new_state(data)
    for _ in range(20):
        seed_centroids(data, state, rng, centroids)
        rows = [int(np.flatnonzero((centroids[:, k] == data.X).all(axis=1))[0]) for k in range(4)]
        assert len(set(rows)) == 4
        squares = ((data.X[:, None] - centroids.T[None]) ** 2).sum(axis=2).min(axis=1)
        np.testing.assert_allclose(state.own >= squares - 1e-12, True)


def test_seeding_follows_squared_distances() -> None:
    """From the sample at 0, those at 1 and 3 are drawn 1 : 9."""
    data = build_problem(np.array([[0.0], [0.0], [1.0], [3.0]]), n_clusters=2, model="unsupervised").data
    rng = np.random.default_rng(1)
    centroids, state = np.zeros((1, 2)), new_state(data)
    seconds = []
    for _ in range(4000):
        seed_centroids(data, state, rng, centroids)
        if np.isclose(centroids[0, 0], data.X[0, 0]):
            seconds.append(centroids[0, 1] - centroids[0, 0])
    assert np.mean(np.isclose(seconds, 3.0)) == pytest.approx(0.9, abs=0.03)


def lloyd(X: np.ndarray, centroids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    labels = None
    while True:
        closest = ((X[:, None] - centroids[None]) ** 2).sum(axis=2).argmin(axis=1)
        if labels is not None and (closest == labels).all():
            return labels, centroids
        labels = closest
        centroids = np.array(
            [
                X[labels == k].mean(axis=0) if (labels == k).any() else centroids[k]
                for k in range(len(centroids))
            ]
        )


def test_kmeans_agrees_with_oracle_and_keeps_empty_clusters() -> None:
    for seed in range(6):
        data = blobs(seed)
        state = new_state(data)
        centroids = data.X[:4].T.copy()
        if seed == 5:
            centroids[:, 3] = 1e3
        labels, wanted = lloyd(data.X, centroids.T.copy())
        kmeans(data, state, centroids)
        np.testing.assert_array_equal(state.labels, labels)
        np.testing.assert_allclose(centroids.T, wanted, atol=1e-12)
        np.testing.assert_array_equal(state.sizes, np.bincount(labels, minlength=4))
        assert (state.sizes[3] == 0) == (seed == 5)


def test_ties_go_to_the_lowest_cluster() -> None:
    data = blobs(0)
    state = new_state(data)
    state.labels[:] = -1
    assert assign_closest(data, state, np.ones((3, 4))) == 40
    assert not state.labels.any()


def slow_repair(X: np.ndarray, labels: np.ndarray, centroids: np.ndarray, min_size: int) -> None:
    K = len(centroids)
    while True:
        sizes = np.bincount(labels, minlength=K)
        if sizes.min() >= min_size:
            return
        k = int(np.flatnonzero(sizes < min_size)[0])
        squares = ((X - centroids[labels]) ** 2).sum(axis=1)
        squares[sizes[labels] <= min_size] = -1.0
        sample = int(squares.argmax())
        if sizes[k] == 0:
            centroids[k] = X[sample]
        labels[sample] = k


@pytest.mark.parametrize("min_size", [1, 2, 5])
def test_repair_agrees_with_oracle(min_size: int) -> None:
    for seed in range(8):
        data = blobs(seed, n_samples=30, n_clusters=5, min_size=min_size)
        state = new_state(data)
        centroids = np.random.default_rng(seed).normal(size=(3, 5)) * 8
        assign_closest(data, state, centroids)
        labels, wanted = state.labels.astype(int), centroids.T.copy()
        slow_repair(data.X, labels, wanted, min_size)
        repair(data, state, centroids)
        np.testing.assert_array_equal(state.labels, labels)
        np.testing.assert_array_equal(state.sizes, np.bincount(labels, minlength=5))
        np.testing.assert_allclose(centroids.T, wanted)
        assert state.sizes.min() >= min_size


def test_crossover_takes_one_of_each_matched_pair() -> None:
    rng = np.random.default_rng(0)
    first = rng.normal(size=(3, 5)) * 10
    order = rng.permutation(5)
    second = first[:, order] + 0.1
    child, matching = np.zeros_like(first), new_matching(5)
    from_first = np.zeros(5)
    for _ in range(400):
        cross(rng, first, second, child, matching)
        for k in range(5):
            own, other = (child[:, k] == first[:, k]).all(), np.allclose(child[:, k], first[:, k] + 0.1)
            assert own != other
            from_first[k] += own
    assert (np.abs(from_first / 400 - 0.5) < 0.1).all()


def test_blend_keeps_what_the_parents_share() -> None:
    data = blobs(0)
    state = new_state(data)
    rng = np.random.default_rng(0)
    first = rng.integers(0, 4, size=40).astype(np.int16)
    order = np.array([2, 0, 3, 1])
    shared = rng.random(40) < 0.5
    renamed = np.where(shared, first, (first + 1) % 4)
    second = order[renamed].astype(np.int16)
    matching = new_matching(4)
    matching.row_of[order] = np.arange(4)
    centroids = rng.normal(size=(3, 4))
    from_second = np.zeros(40)
    for _ in range(300):
        blend(data, state, rng, first, second, centroids, matching)
        assert ((state.labels == first) | (state.labels == renamed)).all()
        from_second += state.labels != first
    assert not from_second[shared].any()
    assert (np.abs(from_second[~shared] / 300 - 0.5) < 0.15).all()
    np.testing.assert_array_equal(state.sizes, np.bincount(state.labels, minlength=4))
    squares = ((data.X - centroids.T[state.labels]) ** 2).sum(axis=1)
    np.testing.assert_allclose(state.own, squares)


def test_mutation_moves_one_centroid_onto_a_sample() -> None:
    data = blobs(0)
    rng = np.random.default_rng(0)
    before = np.full((3, 4), 99.0)
    dropped, chosen = set(), set()
    for _ in range(500):
        centroids = before.copy()
        mutate(data, rng, centroids)
        (k,) = np.flatnonzero((centroids != before).any(axis=0))
        (sample,) = np.flatnonzero((centroids[:, k] == data.X).all(axis=1))
        dropped.add(int(k))
        chosen.add(int(sample))
    assert dropped == set(range(4))
    assert len(chosen) == 40
