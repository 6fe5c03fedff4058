"""Strategies against slow ones, and what all of them keep."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from beliefs import NO_ANSWERS, made_up, random_belief
from numpy.typing import NDArray

from pipeline.asking import strategies
from pipeline.asking.belief import Belief
from pipeline.asking.strategies import LEAST_NOISE, STRATEGIES, Pairs, Scored, all_pairs, answer_information

# Pairs to choose from.


def test_a_sample_of_many_pairs_has_doubtful_samples_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strategies, "LARGEST", 400)
    draws = np.zeros((20, 200), dtype=int)
    draws[:, 100:] = 1
    draws[:10, :5] = 1  # five samples that may be in either cluster
    answers = np.array([[7, 3, 0], [150, 199, 1]])
    pairs = strategies.draw_pool(made_up(draws), answers, np.random.default_rng(1))
    assert (pairs[:, 0] < pairs[:, 1]).all()
    assert len({tuple(pair) for pair in pairs.tolist()}) == len(pairs) <= 402
    assert {(3, 7), (150, 199)} <= {tuple(pair) for pair in pairs.tolist()}
    doubtful = (pairs < 5).any(axis=1).mean()
    assert doubtful > 0.3  # of all pairs it is one in twenty
    assert len(np.unique(pairs)) > 100  # and sure samples come too


# What answers tell.


@pytest.mark.parametrize(("together", "p"), [(0.01, 0.6), (0.3, 0.8), (0.5, 1.0), (0.9, 0.8)])
def test_information_is_that_of_the_joint_table(together: float, p: float) -> None:
    joint = np.array([[together * p, together * (1 - p)], [(1 - together) * (1 - p), (1 - together) * p]])
    apart = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0)
    expected = float((joint[joint > 0] * np.log(joint[joint > 0] / apart[joint > 0])).sum())
    found = answer_information(np.array([together * (1 - together)]), p)
    assert found[0] == pytest.approx(expected, abs=1e-12)


# The first questions.


def test_questions_come_in_cliques_of_three_samples_far_from_each_other() -> None:
    rng = np.random.default_rng(0)
    X = np.repeat([[0.0], [10.0], [20.0]], 30, axis=0) + rng.normal(size=(90, 1)) * 0.1
    pairs = strategies.cold_start(made_up(np.zeros((3, 90), dtype=int), X=X), 30, rng).pairs
    cliques = [np.unique(pairs[start : start + 3]) for start in range(0, 30, 3)]
    assert [len(clique) for clique in cliques] == [3] * 10
    assert np.mean([len(set(clique // 30)) for clique in cliques]) > 2.9


# Strategies of others.


def test_the_farthest_sample_is_asked_against_its_nearest_of_each_group() -> None:
    X = np.array([[0.0], [1.0], [10.0], [11.0], [30.0], [5.0]])
    answers = np.array([[0, 1, 0], [2, 3, 0], [1, 2, 1]])
    belief = made_up(np.tile([0, 0, 1, 1, 1, 0], (3, 1)), X=X)
    found = strategies.farthest_first(belief, answers, 3, np.random.default_rng(0))
    # 30 is the farthest: against 11 of one group, against 1 of the other; then 5, which is 4 away from 1
    np.testing.assert_array_equal(found.pairs, [[3, 4], [1, 4], [1, 5]])


def test_a_committee_asks_where_resampled_answers_divide_it() -> None:
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(-6.0, 0.5, (20, 1)), rng.normal(6.0, 0.5, (20, 1)), [[0.0]]])
    belief = made_up(np.tile([0] * 20 + [1] * 21, (3, 1)), X=X)
    # the sample in the middle is said to be with either side once
    answers = np.array([[40, 1, 0], [40, 30, 0], [0, 1, 0], [20, 21, 0]])
    found = strategies.committee(belief, answers, 10, np.random.default_rng(3))
    assert (found.pairs == 40).any(axis=1).all()


# Questions of a strategy, without those that were asked before.

SEED = np.random.SeedSequence(0)


def test_more_are_asked_for_until_enough_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = np.array([(0, j) for j in range(1, 40)])
    wanted: list[int] = []

    def in_order(belief: Belief, answers: Pairs, count: int, rng: np.random.Generator) -> Scored:
        wanted.append(count)
        return Scored(pairs[:count], -np.arange(len(pairs[:count]), dtype=float))

    monkeypatch.setitem(STRATEGIES, "in order", in_order)
    answers = np.array([(j, 0, 1) for j in range(1, 10)])
    how: Any = {"strategy": "in order", "count": 5, "seed": SEED}
    for last, expected in ((20, [20, 21, 22, 23, 24]), (38, [38, 39])):
        left_out = {(0, j) for j in range(10, last)}
        found = strategies.choose(random_belief(0), answers, left_out=left_out, **how)
        assert found.pairs[:, 1].tolist() == expected
        assert found.scores.tolist() == [1 - place for place in expected]
    assert wanted[:3] == [5, 15, 35]


ANSWERS = np.array([[0, 1, 0], [2, 5, 1], [5, 2, 0], [3, 3, 0], [1, 4, 0]])
ONE = np.array([[0, 1, 0]])
"""One answer, so that it is no cold start."""


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("answers", [NO_ANSWERS, ANSWERS], ids=["cold", "answers"])
def test_pairs_come_once_and_are_as_many_as_asked(strategy: str, answers: NDArray[np.int_]) -> None:
    for count in (1, 20, 100):
        found = STRATEGIES[strategy](random_belief(2), answers, count, np.random.default_rng(0))
        assert len(found.pairs) == len(found.scores) == min(count, 66)  # 12 samples have 66 pairs
        assert (found.pairs[:, 0] < found.pairs[:, 1]).all()
        assert len({tuple(pair) for pair in found.pairs.tolist()}) == len(found.pairs)
        assert (found.scores >= 0).all()


@pytest.mark.parametrize(("seed", "accuracy"), [(0, 0.7), (1, 0.9), (2, 1.0)])
def test_information_is_the_greedy_choice_by_remaining_variance(
    seed: int, accuracy: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    belief = random_belief(seed, accuracy=accuracy)
    count, noise = 8, max(accuracy * (1 - accuracy) / (2 * accuracy - 1) ** 2, LEAST_NOISE)
    found = strategies.information(belief, ONE, count, np.random.default_rng(0))
    every = all_pairs(12)
    together = np.array([[draw[i] == draw[j] for i, j in every] for draw in belief.draws], dtype=float)
    covariance = np.cov(together, rowvar=False, bias=True)
    place = {tuple(pair): number for number, pair in enumerate(every.tolist())}
    before: list[int] = []
    for pair, score in zip(found.pairs.tolist(), found.scores, strict=True):
        inner = covariance[np.ix_(before, before)] + noise * np.eye(len(before))
        known = covariance[:, before] @ np.linalg.solve(inner, covariance[before])
        remaining = np.diag(covariance - known).copy()
        remaining[before] = -1.0
        at = place[tuple(pair)]
        assert remaining[at] == pytest.approx(remaining.max(), abs=1e-9)
        assert score == pytest.approx(answer_information(remaining[[at]], accuracy)[0], abs=1e-9)
        before.append(at)
    monkeypatch.setattr(strategies, "WIDEST", 1)  # of pairs of the largest variance alone
    widest = strategies.information(belief, ONE, 1, np.random.default_rng(0)).pairs[0]
    assert covariance[place[tuple(widest)], place[tuple(widest)]] == pytest.approx(np.diag(covariance).max())


def test_doubtful_samples_come_against_sure_ones_and_doubtful_answers_again() -> None:
    draws = np.repeat([[0, 0, 0, 1, 1, 1]], 10, axis=0)
    draws[:4, 2] = 1
    found = STRATEGIES["anchors"](made_up(draws), NO_ANSWERS, 2, np.random.default_rng(0))
    assert found.pairs[0].tolist() in ([0, 2], [1, 2])  # of the cluster that 2 is most likely in
    answers = np.array([[0, 1, 0], [4, 2, 1], [3, 4, 0]])
    found = STRATEGIES["again"](made_up(draws), answers, 3, np.random.default_rng(0))
    assert found.pairs[0].tolist() == [2, 4]


@pytest.mark.parametrize("strategy", ["information", "committee"])
def test_a_batch_of_a_path_has_every_pair_once_and_the_same_bits_again(strategy: str) -> None:
    labels_true = np.repeat([0, 1], 12).astype(np.int16)
    X = np.random.default_rng(0).normal(size=(24, 2)) + 2.0 * labels_true[:, None]
    path = np.array([[0, 1, 0], [2, 20, 1]], dtype=np.int32)
    how: Any = {"strategy": strategy, "count": 10, "seed": SEED, "covariance": "full"}
    first, again = (
        strategies.next_answers(X, labels_true, path, n_clusters=2, p=0.9, **how) for _ in range(2)
    )
    assert (first.shape, first.dtype) == ((10, 3), np.int32)
    assert len({tuple(pair) for pair in first[:, :2].tolist()}) == 10
    np.testing.assert_array_equal(first, again)
