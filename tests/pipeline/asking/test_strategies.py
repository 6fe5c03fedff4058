"""Strategies against slow ones, and what all of them keep."""

from __future__ import annotations

import numpy as np
import pytest
from beliefs import NO_ANSWERS, made_up, random_belief
from numpy.typing import NDArray

from pipeline.asking.belief import Belief
from pipeline.asking.pool import all_pairs
from pipeline.asking.scored import answer_information
from pipeline.asking.strategies import STRATEGIES, answer_noise, information

ANSWERS = np.array([[0, 1, 0], [2, 5, 1], [5, 2, 0], [3, 3, 0], [1, 4, 0]])


ONE = np.array([[0, 1, 0]])
"""One answer, so that it is no cold start."""


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("answers", [NO_ANSWERS, ANSWERS], ids=["cold", "answers"])
@pytest.mark.parametrize("count", [1, 20, 66, 100])
def test_pairs_come_once_and_are_as_many_as_asked(
    strategy: str, answers: NDArray[np.int_], count: int
) -> None:
    belief = random_belief(2)
    found = STRATEGIES[strategy](belief, answers, count, np.random.default_rng(0))
    assert len(found.pairs) == len(found.scores) == min(count, 66)  # 12 samples have 66 pairs
    assert (found.pairs[:, 0] < found.pairs[:, 1]).all()
    assert len({tuple(pair) for pair in found.pairs.tolist()}) == len(found.pairs)
    assert (found.scores >= 0).all()
    again = STRATEGIES[strategy](belief, answers, count, np.random.default_rng(0))
    np.testing.assert_array_equal(found.pairs, again.pairs)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_belief_without_doubt_still_has_questions(strategy: str) -> None:
    belief = made_up(np.tile([0, 0, 0, 1, 1, 1], (9, 1)))
    found = STRATEGIES[strategy](belief, NO_ANSWERS, 5, np.random.default_rng(0))
    assert len(found.pairs) == 5


@pytest.mark.parametrize("accuracy", [0.7, 0.9, 1.0])
@pytest.mark.parametrize("seed", range(4))
def test_information_is_the_greedy_choice_by_remaining_variance(seed: int, accuracy: float) -> None:
    belief = random_belief(seed, accuracy=accuracy)
    count, noise = 8, answer_noise(accuracy)
    found = information(belief, ONE, count, np.random.default_rng(0))
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


def test_information_does_not_ask_the_same_thing_twice() -> None:
    # samples 0 to 4 change cluster together: one answer settles all of them; sample 9 changes alone
    draws = np.repeat([[0, 0, 0, 0, 0, 0, 1, 1, 1, 1]], 20, axis=0)
    draws[:10, :5] = 1
    draws[::2, 9] = 0
    found = information(made_up(draws), ONE, 2, np.random.default_rng(0))
    asked = [set(pair) for pair in found.pairs.tolist()]
    assert sum(9 in pair for pair in asked) == 1
    uncertain = STRATEGIES["uncertain"](made_up(draws), NO_ANSWERS, 25, np.random.default_rng(0))
    assert len(uncertain.pairs) == 25


def test_anchors_put_doubtful_samples_against_sure_ones() -> None:
    draws = np.repeat([[0, 0, 0, 1, 1, 1]], 10, axis=0)
    draws[:4, 2] = 1
    found = STRATEGIES["anchors"](made_up(draws), NO_ANSWERS, 2, np.random.default_rng(0))
    assert 2 in found.pairs[0]
    other = int(found.pairs[0].sum()) - 2
    assert other in (0, 1)  # of the cluster it is most likely in


def test_again_asks_doubtful_answers_first() -> None:
    draws = np.repeat([[0, 0, 0, 1, 1, 1]], 10, axis=0)
    draws[:4, 2] = 1
    answers = np.array([[0, 1, 0], [4, 2, 1], [3, 4, 0]])
    found = STRATEGIES["again"](made_up(draws), answers, 3, np.random.default_rng(0))
    assert found.pairs[0].tolist() == [2, 4]


def test_an_accuracy_of_one_half_asks_anything() -> None:
    belief: Belief = random_belief(1, accuracy=0.5)
    assert answer_noise(0.5) == np.inf
    found = information(belief, ONE, 10, np.random.default_rng(0))
    assert len(found.pairs) == 10
    assert (found.scores == 0).all()
