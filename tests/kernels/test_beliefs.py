"""Classes of annotated rows equal sums over all partitions."""

import itertools
import math

import numpy as np
import pytest
from numpy.typing import NDArray

from sweep_clustering.kernels import beliefs
from sweep_clustering.kernels.problem.data import both_ways

Floats = NDArray[np.float64]


def marginals(logs: Floats, pairs: NDArray[np.int64], odds: Floats) -> Floats:
    """Return the share of each class in each row by a sum over all partitions."""
    n, k = logs.shape
    shares = np.zeros((n, k))
    for labels in itertools.product(range(k), repeat=n):
        is_alike = np.array([labels[i] == labels[j] for i, j in pairs])
        weight = math.exp(logs[range(n), labels].sum() + odds[is_alike].sum())
        shares[range(n), labels] += weight
    return shares / shares.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("seed", range(5))
def test_beliefs_are_exact_where_pairs_form_no_cycle(seed: int) -> None:
    rng = np.random.default_rng(seed)
    pairs = np.array([[0, 1], [1, 2], [3, 1], [4, 5], [6, 3]])
    logs, odds = 2.0 * rng.normal(size=(8, 3)), 3.0 * rng.normal(size=len(pairs))
    classes = beliefs.propagate(logs, both_ways(pairs, 8), odds)
    assert classes == pytest.approx(marginals(logs, pairs, odds), abs=5e-3)


def test_beliefs_with_many_sure_answers_a_row_stay_finite() -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(2, size=60)
    pairs = np.array(list(itertools.combinations(range(60), 2)))
    odds = np.where(truth[pairs[:, 0]] == truth[pairs[:, 1]], 1e3, -1e3)
    logs = 800.0 * rng.normal(size=(60, 1)) + 0.1 * rng.normal(size=(60, 2))
    logs[0, 0] += 2000.0
    classes = beliefs.propagate(logs, both_ways(pairs, 60), odds)
    assert classes.sum(axis=1) == pytest.approx(np.ones(60))
    assert (classes.argmax(axis=1) == (truth != truth[0])).all()


def test_more_answers_about_a_row_than_a_product_can_hold_stay_finite() -> None:
    pairs = np.column_stack([np.zeros(1200, np.int64), np.arange(1, 1201)])
    logs = np.tile([9.0, 0.0], (1201, 1))
    classes = beliefs.propagate(logs, both_ways(pairs, 1201), np.full(1200, 50.0))
    np.testing.assert_allclose(classes[0], [1.0, 0.0], atol=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_the_bound_of_rows_is_that_of_a_double_sum(seed: int) -> None:
    rng = np.random.default_rng(seed)
    pairs = np.array([[0, 1], [2, 1], [0, 2], [3, 4]])
    logs, odds, classes = rng.normal(size=(6, 3)), rng.normal(size=4), rng.dirichlet(np.ones(3), size=6)
    classes[0] = [0.0, 1.0, 0.0]
    slow = sum(odds[p] * float(classes[i] @ classes[j]) for p, (i, j) in enumerate(pairs))
    for row, c in itertools.product(range(5), range(3)):
        if classes[row, c] > 0.0:
            slow += classes[row, c] * (logs[row, c] - math.log(classes[row, c]))
    assert beliefs.bound_of_rows(logs, both_ways(pairs, 6), odds, classes) == pytest.approx(slow)


def test_rows_on_the_wrong_side_of_their_links_change_together() -> None:
    """Each half of a chain is tied within, and its ends alone know their class."""
    n = 20
    pairs = np.array([[i, i + 1] for i in range(n - 1)])
    odds = np.where(np.arange(n - 1) == n // 2 - 1, -6.0, 6.0)
    logs = np.zeros((n + 3, 2))
    logs[0, 0], logs[n - 1, 1] = 4.0, 4.0
    classes = np.full((n + 3, 2), [0.01, 0.99])  # the first half is wrong
    ways = both_ways(pairs, n + 3)
    beliefs.settle(logs, ways, odds, classes)
    assert classes[:n].argmax(axis=1).tolist() != [0] * 10 + [1] * 10  # single rows do not get there
    before = beliefs.bound_of_rows(logs, ways, odds, classes)
    gain = beliefs.escape(logs, ways, odds, classes)
    assert classes[:n].argmax(axis=1).tolist() == [0] * 10 + [1] * 10
    assert classes[n:].tolist() == [[0.01, 0.99]] * 3  # rows without links stay as they are
    assert gain == pytest.approx(beliefs.bound_of_rows(logs, ways, odds, classes) - before)
    assert gain > 1.0


@pytest.mark.parametrize("seed", range(5))
def test_an_escape_never_lowers_the_bound_and_leaves_other_rows(seed: int) -> None:
    rng = np.random.default_rng(seed)
    pairs = rng.integers(30, size=(40, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    logs, odds = rng.normal(size=(40, 3)), 4.0 * rng.normal(size=len(pairs))
    ways, classes = both_ways(pairs, 40), rng.dirichlet(np.ones(3), size=40)
    beliefs.settle(logs, ways, odds, classes)
    before, without_links = beliefs.bound_of_rows(logs, ways, odds, classes), classes[30:].copy()
    gain = beliefs.escape(logs, ways, odds, classes)
    after = beliefs.bound_of_rows(logs, ways, odds, classes)
    assert after == pytest.approx(before + gain)
    assert gain >= 0.0
    assert (classes[30:] == without_links).all()


def test_too_many_messages_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beliefs, "MOST_MESSAGES", 3)
    classes = np.full((2, 2), 0.5)
    ways = both_ways(np.array([[0, 1]]), 2)
    assert beliefs.escape(np.eye(2), ways, np.array([5.0]), classes) == 0.0
    assert (classes == 0.5).all()


def test_answers_reach_far_if_they_are_sure_and_classes_are_few() -> None:
    """With two classes, 2 p - 1 is left of an answer of accuracy p, whichever it is."""
    for p in (0.8, 0.9):
        odds = math.log(p / (1.0 - p)) * np.array([1.0, -1.0, 1.0])
        assert beliefs.reach(odds, 2, 3) == pytest.approx(2.0 * (2.0 * p - 1.0) ** 2)
    assert beliefs.reach(np.array([-100.0]), 20, 2) == pytest.approx(1.0 / 19.0**2)
    ways = both_ways(np.array([[0, 1]]), 2)
    assert beliefs.escape(np.eye(2), ways, np.array([0.5]), np.full((2, 2), 0.5)) == 0.0
