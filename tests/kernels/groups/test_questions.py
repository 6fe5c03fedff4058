"""Parts of clusters and the pairs that are asked about them, against means over all pairs of rows."""

from itertools import combinations

import numpy as np
import pytest

from sweep_clustering.kernels.groups.merging import PURITY
from sweep_clustering.kernels.groups.metric import Answers, logistic
from sweep_clustering.kernels.groups.questions import (
    MOST_PARTS,
    PARTS,
    cut_clusters,
    part_odds,
    unsure_pairs,
)


def answers_about(pairs: np.ndarray, together: np.ndarray, accuracy: float = 0.9) -> Answers:
    """Answers of one accuracy."""
    signs = np.where(together, 1.0, -1.0)
    return Answers(pairs, signs, np.ones(len(pairs)), np.full(len(pairs), accuracy))


def test_odds_of_parts_are_means_over_rows_and_sums_over_answers() -> None:
    rng = np.random.default_rng(0)
    Z, parts = rng.normal(size=(30, 3)), rng.permutation(np.arange(30) % 5)
    pairs = rng.integers(0, 30, size=(40, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    answers = answers_about(pairs, rng.random(len(pairs)) < 0.5)
    relation = logistic(np.square(Z[pairs[:, 0]] - Z[pairs[:, 1]]).sum(axis=1), answers)
    expected = np.zeros((5, 5))
    for s in range(5):
        for t in range(5):
            squares = [
                np.square(Z[i] - Z[j]).sum()
                for i in np.flatnonzero(parts == s)
                for j in np.flatnonzero(parts == t)
            ]
            expected[s, t] = np.mean([relation.intercept - relation.slope * square for square in squares])
            for (i, j), odds in zip(pairs, answers.odds, strict=True):
                if s != t and {parts[i], parts[j]} == {s, t}:
                    expected[s, t] += PURITY * odds
    different = ~np.eye(5, dtype=bool)
    np.testing.assert_allclose(part_odds(Z, parts, answers)[different], expected[different])


@pytest.mark.parametrize(("n_clusters", "most"), [(3, PARTS), (500, MOST_PARTS // 500), (2000, 1)])
def test_a_part_lies_in_one_cluster_and_none_is_empty(n_clusters: int, most: int) -> None:
    rng = np.random.default_rng(1)
    Z, labels = rng.normal(size=(4000, 2)), rng.integers(0, n_clusters, size=4000)
    parts = cut_clusters(Z, labels, rng)
    of_part = np.unique(np.column_stack([parts, labels]), axis=0)
    assert len(of_part) == parts.max() + 1
    assert np.bincount(parts).min() > 0
    assert (
        np.bincount(np.unique(labels, return_inverse=True)[1][np.unique(parts, return_index=True)[1]]).max()
        <= most
    )


def test_pairs_are_of_the_parts_of_the_largest_worth() -> None:
    rng = np.random.default_rng(2)
    classes = np.repeat(np.arange(6), 20)
    Z = 2.0 * rng.normal(size=(6, 3))[classes] + rng.normal(size=(120, 3))
    pairs = rng.integers(0, 120, size=(200, 2))
    answers = answers_about(pairs, classes[pairs[:, 0]] == classes[pairs[:, 1]])
    asked = unsure_pairs(Z, classes, answers, 15, np.random.default_rng(7))
    parts = cut_clusters(Z, classes, np.random.default_rng(7))
    odds, sizes = part_odds(Z, parts, answers), np.bincount(parts)
    both = list(combinations(range(len(sizes)), 2))
    cluster_of = [int(classes[parts == part][0]) for part in range(len(sizes))]
    n_within = sum(cluster_of[s] == cluster_of[t] for s, t in both)
    level = sorted((odds[s, t] for s, t in both), reverse=True)[n_within - 1]
    assert sum(odds[s, t] >= level for s, t in both) == n_within

    def worth(s: int, t: int) -> float:
        share = 1.0 / (1.0 + np.exp(level - odds[s, t]))
        return float(min(sizes[s], sizes[t]) * share * (1.0 - share))

    best = sorted(both, key=lambda two: -worth(*two))[:15]
    assert [tuple(sorted(two)) for two in parts[asked].tolist()] == best
    kinds = {cluster_of[s] == cluster_of[t] for s, t in best}
    assert kinds == {True, False}  # merges and splits


@pytest.mark.parametrize("labels", [np.zeros(9, np.int64), np.arange(9)], ids=["one cluster", "single rows"])
def test_odd_partitions_have_questions(labels: np.ndarray) -> None:
    Z = np.random.default_rng(3).normal(size=(9, 2))
    answers = answers_about(np.array([[0, 1]]), np.array([True]))
    pairs = unsure_pairs(Z, labels, answers, 100, np.random.default_rng(0))
    assert len(pairs) > 3
    assert (pairs[:, 0] != pairs[:, 1]).all()


def test_the_seed_is_all_that_counts() -> None:
    rng = np.random.default_rng(4)
    Z, labels, pairs = (
        rng.normal(size=(300, 20)),
        rng.integers(0, 20, size=300),
        rng.integers(0, 300, size=(90, 2)),
    )
    answers = answers_about(pairs, labels[pairs[:, 0]] == labels[pairs[:, 1]])
    first, again, other = (
        unsure_pairs(Z, labels, answers, 50, np.random.default_rng(seed)) for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
