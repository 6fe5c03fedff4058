"""Trees of merges and parts of clusters in questions equal means that are computed anew."""

from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.cluster.hierarchy import fcluster, linkage

from sweep_clustering.kernels.groups import merging
from sweep_clustering.kernels.groups.fit import tree_of
from sweep_clustering.kernels.groups.metric import Answers, Logistic, logistic
from sweep_clustering.kernels.scores import adjusted_rand
from sweep_clustering.kernels.structure import AVERAGE, GENIE, WARD

Floats = NDArray[np.float64]


def slow_merges(
    features: Floats, answers: Floats, sizes: list[float], linkage_name: str
) -> list[list[set[int]]]:
    """Return the partition after each merge; all odds come from those of the groups at the start."""
    parts = [{group} for group in range(len(sizes))]
    partitions = []
    loss = {(s, t): features[s, t] for s in range(len(sizes)) for t in range(len(sizes)) if s != t}

    def odds(one: set[int], other: set[int]) -> float:
        total = sum(answers[s, t] for s in one for t in other)
        weights = {(s, t): sizes[s] * sizes[t] for s in one for t in other}
        if linkage_name in GENIE:
            return total + max(features[s, t] for s in one for t in other)
        if linkage_name == WARD:
            # Ward's loss is twice the mean of half squared distances, less those within either part
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
        rows = [sum(sizes[s] for s in part) for part in parts]
        gini = sum(abs(a - b) for a, b in combinations(rows, 2)) / ((len(rows) - 1) * sum(rows))
        largest = min(rows) if gini > GENIE.get(linkage_name, 1.0) else max(rows)
        _, a, b = max(
            (odds(parts[a], parts[b]), -a, -b)
            for a in range(len(parts))
            for b in range(a)
            if min(rows[a], rows[b]) <= largest
        )
        parts = [part for place, part in enumerate(parts) if place not in (-a, -b)] + [parts[-a] | parts[-b]]
        partitions.append([set(part) for part in parts])
    return partitions


def as_sets(classes: NDArray[np.int64]) -> set[frozenset[int]]:
    return {frozenset(np.flatnonzero(classes == c).tolist()) for c in np.unique(classes)}


@pytest.mark.parametrize("linkage_name", [AVERAGE, WARD, *GENIE])
@pytest.mark.parametrize("seed", range(4))
def test_each_cut_is_that_of_merging_anew(linkage_name: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    centers, sizes = rng.normal(size=(9, 3)), rng.integers(1, 6, size=9)
    features = (
        merging.ward_odds(centers, sizes, 2.0)
        if linkage_name == WARD
        else merging.average_odds(centers, Logistic(1.0, 0.7))
    )
    answers = np.triu(rng.normal(size=(9, 9)) * (rng.random((9, 9)) < 0.5), 1)
    answers += answers.T
    merges = merging.merge(features.copy(), answers.copy(), sizes, linkage_name)
    partitions = slow_merges(features, answers, sizes.astype(float).tolist(), linkage_name)
    for n_classes, partition in zip(range(8, 0, -1), partitions, strict=True):
        assert as_sets(merging.cut(merges, n_classes)) == {frozenset(part) for part in partition}


@pytest.mark.parametrize("linkage_name", [AVERAGE, WARD])
def test_without_answers_it_is_plain_linkage(linkage_name: str) -> None:
    rng = np.random.default_rng(5)
    centers, sizes = rng.normal(size=(40, 4)), np.ones(40, np.int64)
    if linkage_name == WARD:
        features = merging.ward_odds(centers, sizes, 1.0)
        tree = linkage(centers, "ward")
    else:
        features = merging.average_odds(centers, Logistic(0.0, 1.0))
        tree = linkage(centers, "average", metric="sqeuclidean")
    merges = merging.merge(features, np.zeros((40, 40)), sizes, linkage_name)
    for n_classes in (2, 5, 17):
        assert adjusted_rand(merging.cut(merges, n_classes), fcluster(tree, n_classes, "maxclust") - 1) == 1.0


@pytest.mark.parametrize("linkage_name", list(GENIE))
def test_without_answers_genie_is_that_of_its_package(linkage_name: str) -> None:
    genieclust = pytest.importorskip("genieclust", reason="genieclust is not installed")
    rng, no_answers = np.random.default_rng(8), Answers(np.empty((0, 2), np.int64), *3 * [np.empty(0)])
    X = np.concatenate(
        [rng.normal(place, 1.0, size=(count, 3)) for place, count in ((0, 150), (2, 60), (5, 9))]
    )
    merges = tree_of(X, np.arange(len(X)), no_answers, linkage_name)
    for n_classes in (2, 5, 17):
        model = genieclust.Genie(n_classes, gini_threshold=GENIE[linkage_name])
        assert adjusted_rand(merging.cut(merges, n_classes), model.fit_predict(X).astype(np.int64)) == 1.0


@pytest.mark.parametrize("n_rows", [2, 128])
def test_odds_of_groups_are_those_of_each_two(n_rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "MATRIX_ROWS", n_rows)
    rng = np.random.default_rng(6)
    centers, sizes = rng.normal(size=(7, 3)), rng.integers(1, 6, size=7)
    average = merging.average_odds(centers, Logistic(1.5, 0.7))
    ward = merging.ward_odds(centers, sizes, 2.0)
    for s, t in combinations(range(7), 2):
        square = np.square(centers[s] - centers[t]).sum()
        assert average[s, t] == average[t, s] == pytest.approx(1.5 - 0.7 * square)
        lost = 0.5 * sizes[s] * sizes[t] / (sizes[s] + sizes[t]) * square / 2.0
        assert ward[s, t] == ward[t, s] == pytest.approx(-lost)
    labels, pairs = np.append(np.arange(7), rng.integers(7, size=20)), rng.integers(27, size=(30, 2))
    answers = Answers(pairs, rng.choice([-1.0, 1.0], 30), rng.uniform(1, 3, 30), rng.uniform(0.6, 0.9, 30))
    expected = np.zeros((7, 7))
    for (i, j), odds in zip(labels[pairs], answers.odds, strict=True):
        if i != j:
            expected[[i, j], [j, i]] += merging.PURITY * odds
    np.testing.assert_allclose(merging.answer_odds(labels, 7, answers), expected, atol=1e-12)


def test_answers_between_groups_add_up() -> None:
    pairs = np.array([[0, 2], [3, 1], [0, 1], [2, 0]])
    answers = Answers(pairs, np.array([1.0, -1.0, 1.0, 1.0]), np.array([1.0, 2.0, 1.0, 1.0]), np.full(4, 0.9))
    odds = merging.answer_odds(np.array([0, 0, 1, 2]), 3, answers)
    odds_of_one = merging.PURITY * np.log(9.0)
    assert odds == pytest.approx(odds_of_one * np.array([[0, 2, -2], [2, 0, 0], [-2, 0, 0]]))


def test_must_links_join_and_cannot_links_part() -> None:
    centers = np.array([[0.0], [1.0], [5.0]])
    features = merging.average_odds(centers, Logistic(1.0, 1.0))
    answers = np.array([[0.0, -30.0, 30.0], [-30.0, 0.0, 0.0], [30.0, 0.0, 0.0]])
    sizes = np.ones(3, np.int64)
    assert as_sets(merging.cut(merging.merge(features.copy(), np.zeros((3, 3)), sizes), 2)) == {
        frozenset({0, 1}),
        frozenset({2}),
    }
    assert as_sets(merging.cut(merging.merge(features, answers, sizes), 2)) == {
        frozenset({0, 2}),
        frozenset({1}),
    }


def test_small_groups_are_near_and_none_is_empty() -> None:
    Z = np.repeat(np.arange(8.0), 5)[:, None] + 1e-3 * np.arange(40)[:, None]
    groups = merging.small_groups(Z, 12, np.random.default_rng(0))
    sizes = np.bincount(groups)
    assert sizes.min() > 0
    means = merging.means_of(Z, groups, len(sizes))
    assert means == pytest.approx(np.stack([Z[groups == g].mean(axis=0) for g in range(len(sizes))]))


@pytest.mark.parametrize("most_rows", [50, 150])
def test_small_groups_are_those_of_slow_k_means(most_rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "MOST_ROWS", most_rows)
    monkeypatch.setattr(merging, "AT_ONCE", 7)  # rows in several blocks
    Z = np.random.default_rng(1).normal(size=(60, 2))[np.arange(100) % 60]  # some rows are equal
    groups, rng = merging.small_groups(Z, 9, np.random.default_rng(2)), np.random.default_rng(2)
    sample = Z if most_rows > 100 else Z[np.sort(rng.choice(100, most_rows, replace=False))]

    def nearest(rows: Floats) -> list[int]:
        return [min(range(len(centers)), key=lambda g: np.square(row - centers[g]).sum()) for row in rows]

    distinct = np.unique(merging.row_numbers(sample), return_index=True)[1]
    centers = sample[np.sort(rng.permutation(distinct)[:9])]
    for _ in range(merging.LLOYD):
        labels = np.array(nearest(sample))
        centers = np.stack([sample[labels == g].mean(axis=0) for g in np.unique(labels)])
    expected = np.unique(nearest(Z), return_inverse=True)[1]
    assert groups.tolist() == expected.tolist()
    assert merging.small_groups(Z, 100, rng).tolist() == list(range(100))


def test_a_group_without_rows_has_the_mean_0() -> None:
    assert merging.means_of(np.ones((2, 1)), np.array([0, 2]), 4).ravel().tolist() == [1.0, 0.0, 1.0, 0.0]


def test_parts_lie_in_one_class_and_are_at_most_so_many() -> None:
    rng = np.random.default_rng(4)
    Z, labels = rng.normal(size=(90, 3)), np.repeat(np.arange(4), [60, 25, 4, 1])
    for most in (4, 20, 90):
        parts = merging.divide_classes(Z, labels, most, np.random.default_rng(5))
        numbers = np.unique(parts)
        assert numbers.tolist() == list(range(len(numbers)))
        assert 4 <= len(numbers) <= most
        assert all(len(set(labels[parts == part])) == 1 for part in numbers)
        assert len(numbers) > most // 2
        counts = [len(np.unique(parts[labels == c])) for c in range(4)]
        caps = [1 + size * (most - 4) // 90 for size in (60, 25, 4, 1)]
        assert all(count <= cap for count, cap in zip(counts, caps, strict=True))


def test_partitions_say_how_often_rows_of_two_groups_are_together() -> None:
    rng = np.random.default_rng(7)
    groups = np.append(np.arange(4), rng.integers(4, size=16))
    partitions, weights = [rng.integers(3, size=20) for _ in range(3)], [1.0, 0.5, 0.25]
    shares = merging.shares_together(groups, list(zip(partitions, weights, strict=True)))
    for first in range(4):
        for second in range(4):
            together = [
                (labels[groups == first][:, None] == labels[groups == second]).mean() for labels in partitions
            ]
            assert shares[first, second] == pytest.approx(np.average(together, weights=weights))


def answers_about(pairs: np.ndarray, together: np.ndarray, accuracy: float = 0.9) -> Answers:
    """Return answers of one accuracy."""
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
                    expected[s, t] += merging.PURITY * odds
    different = ~np.eye(5, dtype=bool)
    np.testing.assert_allclose(merging.part_odds(Z, parts, answers)[different], expected[different])


@pytest.mark.parametrize(
    ("n_clusters", "most"), [(3, merging.PARTS), (500, merging.MOST_PARTS // 500), (2000, 1)]
)
def test_a_part_lies_in_one_cluster_and_none_is_empty(n_clusters: int, most: int) -> None:
    rng = np.random.default_rng(1)
    Z, labels = rng.normal(size=(4000, 2)), rng.integers(0, n_clusters, size=4000)
    parts = merging.cut_clusters(Z, labels, rng)
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
    questions = merging.unsure_pairs(Z, classes, answers, 15, np.random.default_rng(7))
    parts = merging.cut_clusters(Z, classes, np.random.default_rng(7))
    odds, sizes = merging.part_odds(Z, parts, answers), np.bincount(parts)
    part_pairs = list(combinations(range(len(sizes)), 2))
    cluster_of = [int(classes[parts == part][0]) for part in range(len(sizes))]
    n_within = sum(cluster_of[s] == cluster_of[t] for s, t in part_pairs)
    level = sorted((odds[s, t] for s, t in part_pairs), reverse=True)[n_within - 1]
    assert sum(odds[s, t] >= level for s, t in part_pairs) == n_within

    def worth_of(s: int, t: int) -> float:
        share = 1.0 / (1.0 + np.exp(level - odds[s, t]))
        return float(min(sizes[s], sizes[t]) * share * (1.0 - share))

    best = sorted(part_pairs, key=lambda two: -worth_of(*two))[:15]
    assert [tuple(sorted(two)) for two in parts[questions].tolist()] == best
    kinds = {cluster_of[s] == cluster_of[t] for s, t in best}
    assert kinds == {True, False}  # merges and splits


@pytest.mark.parametrize("labels", [np.zeros(9, np.int64), np.arange(9)], ids=["one cluster", "single rows"])
def test_odd_partitions_have_questions(labels: np.ndarray) -> None:
    Z = np.random.default_rng(3).normal(size=(9, 2))
    answers = answers_about(np.array([[0, 1]]), np.array([True]))
    pairs = merging.unsure_pairs(Z, labels, answers, 100, np.random.default_rng(0))
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
        merging.unsure_pairs(Z, labels, answers, 50, np.random.default_rng(seed)) for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_classes_of_partitions_vote_for_the_classes_of_their_rows() -> None:
    rng = np.random.default_rng(8)
    labels = np.append(np.arange(3), rng.integers(3, size=17))
    partitions, weights = [rng.integers(4, size=20) for _ in range(3)], [1.0, 0.5, 0.25]
    votes = merging.votes(labels, list(zip(partitions, weights, strict=True)))
    for row in range(20):
        shares = [[(labels[others == others[row]] == c).mean() for c in range(3)] for others in partitions]
        assert votes[row] == pytest.approx(np.average(shares, axis=0, weights=weights))
