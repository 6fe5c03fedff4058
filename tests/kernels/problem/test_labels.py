"""Labels of rows become pairs that equal slow twins."""

import itertools
import time

import numpy as np
import pytest
from numpy.typing import NDArray

from sweep_clustering.kernels.problem import data
from sweep_clustering.kernels.settings import UNLABELLED

# Objectives of small problems that are compared.
CASES = 60


def drawn_labels(n_rows: int, n_names: int, seed: int = 0) -> NDArray[np.int64]:
    """Draw a label for about three rows in four."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, n_names, n_rows)
    return np.where(rng.random(n_rows) < 0.75, labels, UNLABELLED)


def agreement(layers: list[data.Layer], labels: NDArray[np.int64], odds: float) -> float:
    """Return the annotation term of a partition up to a constant, pair by pair."""
    total = 0.0
    for layer in layers:
        sign = 1.0 if layer.kind == data.MUST else -1.0
        for (i, j), weight in zip(layer.pairs.tolist(), data.layer_weights(layer).tolist(), strict=True):
            total += sign * weight * odds * (labels[i] == labels[j])
    return total


@pytest.mark.parametrize("n_names", [2, 3, 10, 100])
@pytest.mark.parametrize("q", [0.6, 0.8, 0.9, 0.99])
def test_pairs_of_a_row_weigh_as_much_as_its_label(q: float, n_names: int) -> None:
    evidence, n_others = data.evidence_of(q, n_names), n_names - 1
    odds = np.log(evidence.accuracy / (1.0 - evidence.accuracy))
    # all must-links of the row are lost, and the cannot-links with one of the other names are broken
    lost = evidence.weight * odds * (1.0 + 1.0 / n_others)
    assert lost == pytest.approx(np.log(q * n_others / (1.0 - q)))


def test_accuracy_of_pairs_is_that_of_drawn_labels() -> None:
    q, n_names, n_rows = 0.8, 4, 1_000_000
    rng = np.random.default_rng(1)
    classes = rng.integers(0, n_names, (2, n_rows))
    wrong_names = (classes + rng.integers(1, n_names, classes.shape)) % n_names
    names = np.where(rng.random(classes.shape) < q, classes, wrong_names)
    together, agree = classes[0] == classes[1], names[0] == names[1]
    right = 0.5 * (together[agree].mean() + (~together)[~agree].mean())
    assert data.evidence_of(q, n_names).accuracy == pytest.approx(right, abs=0.002)


@pytest.mark.parametrize("n_names", [2, 3, 7])
def test_pairs_agree_with_the_labels_and_have_their_weight(n_names: int) -> None:
    labels = drawn_labels(200, n_names)
    must, cannot = data.label_layers(labels, 0.9, 0)
    rows, weight = np.flatnonzero(labels != UNLABELLED), data.evidence_of(0.9, n_names).weight
    assert (labels[must.pairs[:, 0]] == labels[must.pairs[:, 1]]).all()
    assert (labels[cannot.pairs[:, 0]] != labels[cannot.pairs[:, 1]]).all()
    assert (must.pairs[:, 0] != must.pairs[:, 1]).all()
    assert not np.isin(np.flatnonzero(labels == UNLABELLED), [*must.pairs, *cannot.pairs]).any()
    of_rows = np.bincount(must.pairs.ravel(), np.repeat(data.layer_weights(must), 2), len(labels))
    assert of_rows[rows] == pytest.approx(weight)
    assert data.layer_weights(cannot).sum() == pytest.approx(0.5 * weight * len(rows))


def test_move_of_a_row_costs_the_log_odds_of_its_label() -> None:
    labels, q = np.repeat(np.arange(5), 60), 0.9
    layers = data.label_layers(labels, q, 3)
    p = data.evidence_of(q, 5).accuracy
    odds, costs = float(np.log(p / (1.0 - p))), []
    whole = agreement(layers, labels, odds)
    for row in range(0, 300, 10):
        moved = labels.copy()
        moved[row] = (labels[row] + 1) % 5
        costs.append(whole - agreement(layers, moved, odds))
    assert np.mean(costs) == pytest.approx(np.log(q * 4 / (1.0 - q)), rel=0.1)
    assert min(costs) > 0.6 * np.log(q * 4 / (1.0 - q))


def test_best_partition_is_that_of_the_label_field() -> None:
    """The likelihoods of single labels and of pairs choose the same of all partitions of eight rows."""
    q, partitions = 0.8, np.array(list(itertools.product((0, 1), repeat=8)))
    p = data.evidence_of(q, 2).accuracy
    odds, field_odds = float(np.log(p / (1.0 - p))), float(np.log(q / (1.0 - q)))
    n_same, right = 0, np.zeros((CASES, 2))
    for seed in range(CASES):
        rng = np.random.default_rng(seed)
        truth = np.repeat([0, 1], 4)
        x = rng.normal(2.0 * truth, 1.0)
        labels = np.where(rng.random(8) < q, truth, 1 - truth)
        labels[rng.choice(8, 2, replace=False)] = UNLABELLED
        features = -0.5 * np.square(x - 2.0 * partitions).sum(axis=1)  # two known Gaussians
        field = ((partitions == labels) & (labels != UNLABELLED)).sum(axis=1) * field_odds
        layers = data.label_layers(labels, q, seed)
        pairs = np.array([agreement(layers, partition, odds) for partition in partitions])
        by_field, by_pairs = (partitions[np.argmax(features + term)] for term in (field, pairs))
        n_same += (by_field == by_pairs).sum() >= 7
        right[seed] = (by_field == truth).sum(), (by_pairs == truth).sum()
    assert n_same >= 0.8 * CASES
    assert right[:, 1].mean() >= right[:, 0].mean() - 0.2


def test_many_labels_make_few_pairs_in_little_time() -> None:
    labels = np.random.default_rng(0).integers(0, 10, 100_000)
    began = time.perf_counter()
    layers = data.label_layers(labels, 0.9, 0)
    assert time.perf_counter() - began < 10.0
    assert sum(len(layer.pairs) for layer in layers) <= 3 * max(data.MOST_PAIRS, 2 * len(labels))


def test_names_of_one_row_have_cannot_links_alone() -> None:
    layers = data.label_layers(np.array([0, UNLABELLED, 1, 2]), 0.9, 0)
    assert [layer.kind for layer in layers] == [data.CANNOT]


def test_one_name_has_must_links_alone() -> None:
    layers = data.label_layers(np.array([0, UNLABELLED, 0, 0]), 0.9, 0)
    assert [layer.kind for layer in layers] == [data.MUST]


def test_no_labels_make_no_layers() -> None:
    assert data.label_layers(np.full(5, UNLABELLED), 0.9, 0) == []


def test_names_are_matched_one_to_one() -> None:
    labels = np.array([0, 0, 0, 1, 1, UNLABELLED, 1])
    clusters = np.array([2, 2, 0, 2, 0, 1, 0])
    assert data.matched_names(labels, clusters, 4).tolist() == [1, UNLABELLED, 0, UNLABELLED]
