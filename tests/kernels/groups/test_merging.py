"""Trees of merges, against merging that computes everything anew."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.cluster.hierarchy import fcluster, linkage

from sweep_clustering.kernels.groups.merging import (
    PURITY,
    answer_odds,
    average_odds,
    cut,
    divided,
    means_of,
    merge,
    shares_together,
    small_groups,
    ward_odds,
)
from sweep_clustering.kernels.groups.metric import Answers, Logistic
from sweep_clustering.kernels.scores import adjusted_rand

Floats = NDArray[np.float64]


def slow_merges(features: Floats, answers: Floats, sizes: list[float], is_ward: bool) -> list[list[set[int]]]:
    """Partitions after each merge, with all odds from those of the groups at the start."""
    parts = [{group} for group in range(len(sizes))]
    partitions = []
    loss = {(s, t): features[s, t] for s in range(len(sizes)) for t in range(len(sizes)) if s != t}

    def odds(one: set[int], other: set[int]) -> float:
        total = sum(answers[s, t] for s in one for t in other)
        weights = {(s, t): sizes[s] * sizes[t] for s in one for t in other}
        if is_ward:
            # Ward's loss: twice the mean of half squared distances, less those within either part
            def mean(a: set[int], b: set[int]) -> float:
                pairs = {(s, t): sizes[s] * sizes[t] for s in a for t in b}
                return sum(
                    w * (0.0 if s == t else loss[s, t] * (sizes[s] + sizes[t]) / (sizes[s] * sizes[t]))
                    for (s, t), w in pairs.items()
                ) / sum(pairs.values())

            n, m = sum(sizes[s] for s in one), sum(sizes[t] for t in other)
            between = mean(one, other) - 0.5 * mean(one, one) - 0.5 * mean(other, other)
            return total + n * m / (n + m) * between
        return total + sum(w * features[s, t] for (s, t), w in weights.items()) / sum(weights.values())

    while len(parts) > 1:
        _, a, b = max((odds(parts[a], parts[b]), -a, -b) for a in range(len(parts)) for b in range(a))
        parts = [part for place, part in enumerate(parts) if place not in (-a, -b)] + [parts[-a] | parts[-b]]
        partitions.append([set(part) for part in parts])
    return partitions


def as_sets(classes: NDArray[np.int64]) -> set[frozenset[int]]:
    return {frozenset(np.flatnonzero(classes == c).tolist()) for c in np.unique(classes)}


@pytest.mark.parametrize("is_ward", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_each_cut_is_that_of_merging_anew(is_ward: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    centers, sizes = rng.normal(size=(9, 3)), rng.integers(1, 6, size=9)
    features = ward_odds(centers, sizes, 2.0) if is_ward else average_odds(centers, Logistic(1.0, 0.7))
    answers = np.triu(rng.normal(size=(9, 9)), 1)
    answers += answers.T
    merges = merge(features.copy(), answers.copy(), sizes, is_ward)
    partitions = slow_merges(features, answers, sizes.astype(float).tolist(), is_ward)
    for n_classes, partition in zip(range(8, 0, -1), partitions, strict=True):
        assert as_sets(cut(merges, n_classes)) == {frozenset(part) for part in partition}


@pytest.mark.parametrize("method", ["average", "ward"])
def test_without_answers_it_is_plain_linkage(method: str) -> None:
    rng = np.random.default_rng(5)
    centers, sizes = rng.normal(size=(40, 4)), np.ones(40, np.int64)
    if method == "ward":
        features = ward_odds(centers, sizes, 1.0)
        tree = linkage(centers, "ward")
    else:
        features = average_odds(centers, Logistic(0.0, 1.0))
        tree = linkage(centers, "average", metric="sqeuclidean")
    merges = merge(features, np.zeros((40, 40)), sizes, method == "ward")
    for n_classes in (2, 5, 17):
        assert adjusted_rand(cut(merges, n_classes), fcluster(tree, n_classes, "maxclust") - 1) == 1.0


def test_answers_between_groups_add_up() -> None:
    pairs = np.array([[0, 2], [3, 1], [0, 1], [2, 0]])
    answers = Answers(pairs, np.array([1.0, -1.0, 1.0, 1.0]), np.array([1.0, 2.0, 1.0, 1.0]), np.full(4, 0.9))
    odds = answer_odds(np.array([0, 0, 1, 2]), 3, answers)
    one = PURITY * np.log(9.0)
    assert odds == pytest.approx(one * np.array([[0, 2, -2], [2, 0, 0], [-2, 0, 0]]))


def test_must_links_join_and_cannot_links_part() -> None:
    centers = np.array([[0.0], [1.0], [5.0]])
    features = average_odds(centers, Logistic(1.0, 1.0))
    answers = np.array([[0.0, -30.0, 30.0], [-30.0, 0.0, 0.0], [30.0, 0.0, 0.0]])
    sizes = np.ones(3, np.int64)
    assert as_sets(cut(merge(features.copy(), np.zeros((3, 3)), sizes, False), 2)) == {
        frozenset({0, 1}),
        frozenset({2}),
    }
    assert as_sets(cut(merge(features, answers, sizes, False), 2)) == {frozenset({0, 2}), frozenset({1})}


def test_small_groups_are_near_and_none_is_empty() -> None:
    Z = np.repeat(np.arange(8.0), 5)[:, None] + 1e-3 * np.arange(40)[:, None]
    groups = small_groups(Z, 12, np.random.default_rng(0))
    sizes = np.bincount(groups)
    assert sizes.min() > 0
    means = means_of(Z, groups, len(sizes))
    assert means == pytest.approx(np.stack([Z[groups == g].mean(axis=0) for g in range(len(sizes))]))


def test_a_group_without_rows_has_the_mean_0() -> None:
    assert means_of(np.ones((2, 1)), np.array([0, 2]), 3).ravel().tolist() == [1.0, 0.0, 1.0]


def test_parts_lie_in_one_class_and_are_at_most_so_many() -> None:
    rng = np.random.default_rng(4)
    Z, labels = rng.normal(size=(90, 3)), np.repeat(np.arange(4), [60, 25, 4, 1])
    for most in (4, 20, 90):
        parts = divided(Z, labels, most, np.random.default_rng(5))
        numbers = np.unique(parts)
        assert numbers.tolist() == list(range(len(numbers)))
        assert 4 <= len(numbers) <= most
        assert all(len(set(labels[parts == part])) == 1 for part in numbers)
        assert len(numbers) > most // 2


def test_partitions_say_how_often_rows_of_two_groups_are_together() -> None:
    rng = np.random.default_rng(7)
    groups = np.append(np.arange(4), rng.integers(4, size=16))
    partitions, weights = [rng.integers(3, size=20) for _ in range(3)], [1.0, 0.5, 0.25]
    shares = shares_together(groups, list(zip(partitions, weights, strict=True)))
    for first in range(4):
        for second in range(4):
            together = [
                (labels[groups == first][:, None] == labels[groups == second]).mean() for labels in partitions
            ]
            assert shares[first, second] == pytest.approx(np.average(together, weights=weights))
