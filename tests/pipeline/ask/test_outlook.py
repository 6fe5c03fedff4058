"""How many questions are left."""

from __future__ import annotations

import numpy as np
import pytest
from beliefs import made_up, random_belief

from pipeline.ask.outlook import LEAST_ANSWERS, SPREAD, questions_left
from pipeline.asking.belief import Belief
from pipeline.asking.estimate import claimed_wrong, share_at

SEED = np.random.SeedSequence(0)


def doubtful(n_samples: int, accuracy: float) -> Belief:
    """Every sample is in either of two clusters with probability 1/2, but for two that are sure."""
    rng = np.random.default_rng(0)
    draws = rng.integers(0, 2, size=(200, n_samples))
    draws[:, :2] = 0, 1
    return made_up(draws, accuracy=accuracy)


def test_a_level_that_is_passed_needs_none() -> None:
    assert questions_left(made_up([[0, 1, 1]] * 9), 0.6, 0, SEED) == (0, 0, "")


def test_what_cannot_be_said_has_a_reason() -> None:
    belief = random_belief(0)
    few = questions_left(belief, 0.85, LEAST_ANSWERS - 1, SEED)
    assert (few.low, few.high) == (None, None)
    assert "before 10 answers" in few.reason
    guessing = questions_left(random_belief(0, accuracy=0.5), 0.85, 50, SEED)
    assert "accuracy 0.50" in guessing.reason
    assert "12 rows never pass it" in questions_left(belief, 0.999, 50, SEED).reason
    lowest = share_at(0.0, 12).mean - 1e-6
    never = questions_left(random_belief(0, accuracy=0.56), lowest, 50, SEED)
    assert "for each row" in never.reason


def test_a_right_answer_for_each_doubtful_sample_is_what_it_takes() -> None:
    # p = 1 and two clusters: one answer settles one sample, whichever it is
    level = share_at(1e-4, 42).mean
    found = questions_left(doubtful(42, 1.0), level, 50, SEED)
    assert found.low == pytest.approx(40 / SPREAD, abs=1)
    assert found.high == pytest.approx(40 * SPREAD, abs=2)


def test_the_course_ends_where_the_level_is() -> None:
    # half of the doubt may stay: half of the samples are asked about
    belief = doubtful(42, 1.0)
    level = share_at(0.5 * claimed_wrong(belief), 42).mean
    found = questions_left(belief, level, 50, SEED)
    assert found.low == pytest.approx(20 / SPREAD, abs=2)
    assert found.high == pytest.approx(20 * SPREAD, abs=4)


def test_more_errors_and_a_higher_level_take_more() -> None:
    highs = [
        questions_left(doubtful(42, p), level, 50, SEED).high
        for p, level in ((1.0, 0.8), (0.9, 0.8), (0.9, 0.9), (0.75, 0.9))
    ]
    found = [high for high in highs if high is not None]
    assert len(found) == 4
    assert found == sorted(set(found))


def test_the_same_seed_says_the_same() -> None:
    belief = random_belief(3, n_samples=30)
    assert questions_left(belief, 0.95, 20, SEED) == questions_left(belief, 0.95, 20, SEED)
