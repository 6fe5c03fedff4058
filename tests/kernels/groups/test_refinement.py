"""Soft partitions of merged groups equal sums over all groups and rows."""

import itertools
import math

import numpy as np
import pytest
from numpy.typing import NDArray

from sweep_clustering.kernels.groups import refinement
from sweep_clustering.kernels.groups.metric import Answers
from sweep_clustering.kernels.groups.refinement import (
    class_logs,
    nearest_in_class,
    refine,
    scatter_of,
    settle_shares,
)

Floats = NDArray[np.float64]
NONE = Answers(np.empty((0, 2), np.int64), np.empty(0), np.empty(0), np.empty(0))


@pytest.mark.parametrize("spread", [0.5, 100.0])
def test_class_logs_are_sums_over_groups(spread: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refinement, "AT_ONCE", 3)  # rows in several blocks
    rng = np.random.default_rng(0)
    Z, centers, class_of = (
        rng.normal(size=(7, 2)),
        spread * rng.normal(size=(5, 2)),
        np.array([1, 0, 1, 2, 0]),
    )
    logs = class_logs(Z, centers, class_of, 0.3)
    for row, c in itertools.product(range(7), range(3)):
        exponents = [-0.5 * np.square(Z[row] - centers[g]).sum() / 0.3 for g in np.flatnonzero(class_of == c)]
        slow = np.logaddexp.reduce(exponents) - math.log(5.0)
        assert logs[row, c] == pytest.approx(slow, rel=1e-9, abs=1e-3 if slow > -700.0 else math.log(2.0))


def test_rows_go_to_the_nearest_group_of_their_class() -> None:
    rng = np.random.default_rng(1)
    Z, centers, class_of = rng.normal(size=(30, 2)), rng.normal(size=(6, 2)), np.array([0, 1, 0, 1, 0, 1])
    classes = rng.integers(2, size=30)
    groups = nearest_in_class(Z, centers, class_of, classes)
    for row in range(30):
        class_groups = np.flatnonzero(class_of == classes[row])
        assert groups[row] == min(class_groups, key=lambda g: np.square(Z[row] - centers[g]).sum())


def test_without_answers_shares_are_those_of_the_features() -> None:
    Z = np.array([[0.0], [0.1], [4.0], [4.1]])
    merged = refine(Z, np.array([0, 0, 1, 1]), np.array([0, 1]), NONE, 1.0)
    logs = class_logs(Z, np.array([[0.05], [4.05]]), np.array([0, 1]), 1.0)
    assert merged.classes == pytest.approx(np.exp(logs) / np.exp(logs).sum(axis=1, keepdims=True))
    assert merged.annotations == 0.0
    density = np.exp(logs).sum(axis=1) / math.sqrt(2.0 * math.pi)
    assert merged.features == pytest.approx(np.log(density).sum())


def test_answers_move_a_row_between_two_classes() -> None:
    Z = np.array([[0.0], [0.2], [2.0], [2.2], [1.0]])
    groups, class_of = np.array([0, 0, 1, 1, 0]), np.array([0, 1])
    for sign, expected in ((1.0, 1), (-1.0, 0)):
        pairs = np.array([[4, 2], [3, 4]])
        answers = Answers(pairs, np.full(2, sign), np.ones(2), np.full(2, 0.95))
        assert refine(Z, groups, class_of, answers, 0.5).classes[4].argmax() == expected


def test_answers_are_judged_by_shares() -> None:
    Z = np.array([[0.0], [0.1], [50.0], [50.1]])
    pairs, signs = np.array([[0, 1], [0, 2], [0, 3], [2, 3]]), np.array([1.0, 1.0, -1.0, -1.0])
    answers = Answers(pairs, signs, np.array([1.0, 2.0, 3.0, 4.0]), np.array([0.8, 0.8, 0.7, 0.6]))
    merged = refine(Z, np.array([0, 0, 1, 1]), np.array([0, 1]), answers, 0.5)
    logs = np.log([0.8, 0.2, 0.7, 0.4])
    assert merged.annotations == pytest.approx(answers.weights @ logs)


def test_scatter_is_the_mean_squared_distance() -> None:
    assert scatter_of(np.array([[0.0, 0.0], [2.0, 2.0], [7.0, 1.0]]), np.array([0, 0, 1])) == pytest.approx(
        4.0 / 3.0
    )


def test_a_group_that_loses_its_rows_stays_where_it_was() -> None:
    Z = np.array([[5.0], [5.4], [5.2], [9.0], [9.2]])
    merged = refine(Z, np.array([0, 0, 1, 2, 2]), np.array([0, 0, 1]), NONE, 1.0)
    assert merged.centers[:, 0] == pytest.approx([5.2, 5.2, 9.1])


def test_rows_with_answers_settle_one_after_the_other() -> None:
    rng = np.random.default_rng(0)
    logs, shares = rng.normal(size=(8, 3)), rng.dirichlet(np.ones(3), size=8)
    pairs, signs = np.array([[0, 1], [1, 2], [5, 3]]), np.array([1.0, -1.0, 1.0])
    answers = Answers(pairs, signs, np.array([1.0, 2.0, 1.5]), np.array([0.6, 0.7, 0.6]))
    expected, odds = shares.copy(), answers.weights * signs * np.log([1.5, 7.0 / 3.0, 1.5])
    for _, row in itertools.product(range(5), [0, 1, 2, 3, 5]):
        pulls = [
            odds[p] * expected[pair[1 - pair.index(row)]]
            for p, pair in enumerate(pairs.tolist())
            if row in pair
        ]
        values = np.exp(logs[row] + sum(pulls))
        expected[row] = values / values.sum()
    settle_shares(logs, answers, shares)
    np.testing.assert_allclose(shares, expected)


def test_rows_that_settle_on_the_wrong_side_of_their_links_change_together() -> None:
    pairs, logs = np.array([[row, row + 1] for row in range(9)]), np.zeros((10, 2))
    logs[0, 0] = 3.0  # the first row alone knows its class, and all have the other one
    shares = np.full((10, 2), [0.01, 0.99])
    settle_shares(logs, Answers(pairs, np.ones(9), np.ones(9), np.full(9, 0.999)), shares)
    assert shares.argmax(axis=1).tolist() == [0] * 10
