"""Questions of a strategy, without those that were asked before."""

from __future__ import annotations

import numpy as np
import pytest
from beliefs import NO_ANSWERS, random_belief

from pipeline.asking.belief import Belief
from pipeline.asking.pool import Pairs
from pipeline.asking.scored import Scored
from pipeline.asking.strategies import STRATEGIES
from pipeline.asking.unasked import choose

SEED = np.random.SeedSequence(0)


def test_more_are_asked_for_until_enough_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = np.array([(0, j) for j in range(1, 40)])
    wanted: list[int] = []

    def in_order(belief: Belief, answers: Pairs, count: int, rng: np.random.Generator) -> Scored:
        wanted.append(count)
        return Scored(pairs[:count], -np.arange(len(pairs[:count]), dtype=float))

    monkeypatch.setitem(STRATEGIES, "in order", in_order)
    answers = np.array([(j, 0, 1) for j in range(1, 10)])
    left_out = {(0, j) for j in range(10, 20)}
    found = choose(random_belief(0), answers, strategy="in order", count=5, seed=SEED, left_out=left_out)
    assert found.pairs[:, 1].tolist() == [20, 21, 22, 23, 24]
    assert found.scores.tolist() == [-19, -20, -21, -22, -23]
    assert wanted == [5, 15, 35]
    few = {(0, j) for j in range(10, 38)}
    assert (
        len(choose(random_belief(0), answers, strategy="in order", count=5, seed=SEED, left_out=few).pairs)
        == 2
    )


def test_again_may_ask_again() -> None:
    belief = random_belief(0)
    answers = np.array([(1, 0, 1), (2, 3, 0)])
    again = choose(belief, answers, strategy="again", count=66, seed=SEED)
    others = choose(belief, answers, strategy="uncertain", count=66, seed=SEED)
    assert {(0, 1), (2, 3)} <= {tuple(pair) for pair in again.pairs.tolist()}
    assert len(others.pairs) == 66 - 2


def test_the_same_seed_chooses_the_same() -> None:
    first, second = (
        choose(random_belief(1), NO_ANSWERS, strategy="uniform", count=9, seed=SEED) for _ in range(2)
    )
    assert first.pairs.tolist() == second.pairs.tolist()
