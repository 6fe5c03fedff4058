"""Hard links are grouped and coloured, or a small set of them that contradicts itself is named."""

from itertools import product

import numpy as np
import pytest

from sweep_clustering.kernels.problem.data import CANNOT, MUST, Layer
from sweep_clustering.kernels.problem.hard import Contradiction, Groups, group_samples


def layers_of(must: np.ndarray, cannot: np.ndarray) -> list[Layer]:
    return [Layer(kind, pairs, is_hard=True) for kind, pairs in ((MUST, must), (CANNOT, cannot))]


def obeys_links(labels: np.ndarray, must: np.ndarray, cannot: np.ndarray) -> bool:
    joined, parted = (labels[pairs[:, 0]] == labels[pairs[:, 1]] for pairs in (must, cannot))
    return bool(joined.all() and not parted.any())


def is_possible(n_samples: int, n_clusters: int, must: np.ndarray, cannot: np.ndarray) -> bool:
    """Try every partition and return whether one obeys the links."""
    partitions = np.array(list(product(range(n_clusters), repeat=n_samples)))
    joined = (partitions[:, must[:, 0]] == partitions[:, must[:, 1]]).all(axis=1)
    return bool((joined & (partitions[:, cannot[:, 0]] != partitions[:, cannot[:, 1]]).all(axis=1)).any())


def draw(seed: int) -> tuple[int, int, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    n_samples, n_clusters = int(rng.integers(3, 8)), int(rng.integers(2, 4))
    must, cannot = (rng.integers(n_samples, size=(int(rng.integers(limit)), 2)) for limit in (5, 14))
    return (
        n_samples,
        n_clusters,
        must,
        cannot[(cannot[:, 0] != cannot[:, 1]) | (rng.random(len(cannot)) < 0.1)],
    )


def labels_of(groups: Groups, n_samples: int, evidence: np.ndarray) -> np.ndarray:
    labels = np.zeros(n_samples, np.int64)
    labels[groups.samples] = groups.assign(evidence)
    return labels


@pytest.mark.parametrize("part", range(4))
def test_links_are_refused_if_and_only_if_no_partition_obeys_them(part: int) -> None:
    for seed in range(part * 100, part * 100 + 100):
        n_samples, n_clusters, must, cannot = draw(seed)
        try:
            groups = group_samples(layers_of(must, cannot), n_clusters)
        except Contradiction as contradiction:
            assert not is_possible(n_samples, n_clusters, must, cannot)
            links = contradiction.links
            for left_out in (None, *links):
                rest = links[links != left_out]
                few = must[rest[rest < len(must)]], cannot[rest[rest >= len(must)] - len(must)]
                assert is_possible(n_samples, n_clusters, *few) == (left_out is not None)
        else:
            evidence = np.random.default_rng(seed).normal(size=(len(groups.neighbours), n_clusters))
            assert obeys_links(labels_of(groups, n_samples, evidence), must, cannot)


def test_assignments_are_nearly_the_best() -> None:
    shortfalls = []
    for seed in range(400):
        n_samples, n_clusters, must, cannot = draw(seed)
        if not is_possible(n_samples, n_clusters, must, cannot):
            continue
        groups = group_samples(layers_of(must, cannot), n_clusters)
        n_groups = len(groups.neighbours)
        evidence = np.random.default_rng(seed).normal(size=(n_groups, n_clusters))
        partitions = np.array(list(product(range(n_clusters), repeat=n_groups)), dtype=np.int64)
        pairs = np.array([(a, b) for a, others in enumerate(groups.neighbours) for b in others])
        first, second = pairs.reshape(-1, 2).astype(np.int64).T
        obeying = partitions[(partitions[:, first] != partitions[:, second]).all(axis=1)]
        values = evidence[np.arange(n_groups), obeying].sum(axis=1)
        labels = np.zeros(n_groups, np.int64)
        labels[groups.group_of] = groups.assign(evidence)
        shortfalls.append(values.max() - evidence[np.arange(n_groups), labels].sum())
    assert np.mean(np.array(shortfalls) < 1e-9) > 0.9
    assert min(shortfalls) > -1e-9


def test_the_shortest_path_of_must_links_contradicts_a_cannot_link() -> None:
    must = np.array([[0, 1], [1, 2], [2, 3], [3, 4], [4, 0], [7, 8]])
    with pytest.raises(Contradiction) as refusal:
        group_samples(layers_of(must, np.array([[7, 9], [3, 0]])), 5)
    assert refusal.value.links.tolist() == [4, 3, 7] or refusal.value.links.tolist() == [3, 4, 7]


def test_a_clique_is_named_within_many_links() -> None:
    rng = np.random.default_rng(0)
    classes = rng.integers(4, size=3000)
    pairs = rng.integers(3000, size=(20_000, 2))
    is_must = classes[pairs[:, 0]] == classes[pairs[:, 1]]
    # there is one must-link in two hundred, so that groups stay small
    must, cannot = pairs[is_must][::200], pairs[~is_must][:6000]
    group_samples(layers_of(must, cannot), 4)
    clique = np.array([(a, b) for a in range(5) for b in range(a)]) + 1000
    cannot = np.concatenate([cannot, clique])
    with pytest.raises(Contradiction) as refusal:
        group_samples(layers_of(must, cannot), 4)
    named = cannot[refusal.value.links - len(must)]
    assert {*map(tuple, np.sort(named).tolist())} == {*map(tuple, np.sort(clique).tolist())}


def test_an_odd_ring_cannot_be_in_two_clusters() -> None:
    ring = np.stack([np.arange(101), (np.arange(101) + 1) % 101], axis=1)
    with pytest.raises(Contradiction) as refusal:
        group_samples(layers_of(np.empty((0, 2), int), ring), 2)
    assert sorted(refusal.value.links.tolist()) == list(range(101))


def test_groups_are_swapped_apart_if_a_third_cluster_alone_joins_them() -> None:
    cannot = np.array([[0, 1], [0, 2], [1, 2], [2, 3], [1, 4]])
    evidence = np.array([[4.0, 3, 2], [1, 1, 0], [0, 0, 0], [4, 3, 4], [2, 3, 4]])
    groups = group_samples(layers_of(np.empty((0, 2), int), cannot), 3)
    labels = labels_of(groups, 5, evidence)
    assert obeys_links(labels, np.empty((0, 2), int), cannot)
    assert evidence[np.arange(5), labels].sum() == 13.0  # the most of all partitions that obey


def test_groups_stay_in_their_clusters_where_a_swap_gains_nothing() -> None:
    groups = group_samples(layers_of(np.empty((0, 2), int), np.array([[0, 1]])), 2)
    evidence = np.ones((2, 2))
    assert groups.assign(evidence, 1).tolist() == groups.assign(evidence, 0).tolist()


def test_a_partition_gets_the_clusters_of_the_most_evidence_where_one_group_after_the_other_fails() -> None:
    rng = np.random.default_rng(10)
    cannot = rng.integers(30, size=(80, 2))
    cannot = cannot[cannot[:, 0] % 3 != cannot[:, 1] % 3]
    groups = group_samples(layers_of(np.empty((0, 2), int), cannot), 3)
    best = (groups.colours + 1) % 3
    evidence = np.eye(3)[best] + 4.0 * rng.random((len(best), 3))
    assert groups.assign(evidence, 0).tolist() == best.tolist()


def test_groups_take_clusters_one_after_the_other_and_further_rounds_of_swaps_gain() -> None:
    n_raised = n_complete = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        cannot = rng.integers(20, size=(30, 2))
        cannot = cannot[cannot[:, 0] != cannot[:, 1]]
        groups = group_samples(layers_of(np.array([[0, 1]]), cannot[(cannot > 1).all(axis=1)]), 4)
        evidence = rng.normal(size=(len(groups.neighbours), 4))
        expected = evidence.argmax(axis=1)
        expected[groups.order] = -1
        for group in groups.order:
            used_clusters = {int(expected[other]) for other in groups.neighbours[group]}
            ranks = np.argsort(-evidence[group]).tolist()
            expected[group] = next((cluster for cluster in ranks if cluster not in used_clusters), -1)
        labels = [groups.assign(evidence, rounds) for rounds in (0, 1, 5)]
        if (expected >= 0).all():
            n_complete += 1
            assert labels[0].tolist() == expected[groups.group_of].tolist()
        _, members = np.unique(groups.group_of, return_index=True)
        totals = [evidence[np.arange(len(members)), part[members]].sum() for part in labels]
        assert totals[0] <= totals[1] + 1e-9
        assert totals[1] <= totals[2] + 1e-9
        n_raised += totals[2] > totals[1] + 1e-9
    assert n_raised > 0
    assert n_complete > 50
