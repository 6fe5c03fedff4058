"""Strategies of others."""

from __future__ import annotations

import numpy as np
from beliefs import NO_ANSWERS, made_up

from pipeline.asking.baselines import committee, farthest_first


def test_the_farthest_sample_is_asked_against_its_nearest_of_each_group() -> None:
    X = np.array([[0.0], [1.0], [10.0], [11.0], [30.0], [5.0]])
    answers = np.array([[0, 1, 0], [2, 3, 0], [1, 2, 1]])
    belief = made_up(np.tile([0, 0, 1, 1, 1, 0], (3, 1)), X=X)
    found = farthest_first(belief, answers, 3, np.random.default_rng(0))
    # 30 is the farthest: against 11 of one group, against 1 of the other; then 5, which is 4 away from 1
    np.testing.assert_array_equal(found.pairs, [[3, 4], [1, 4], [1, 5]])


def test_without_answers_the_first_sample_is_drawn() -> None:
    X = np.array([[0.0], [1.0], [10.0], [11.0]])
    belief = made_up(np.tile([0, 0, 1, 1], (3, 1)), X=X)
    found = farthest_first(belief, NO_ANSWERS, 2, np.random.default_rng(0))
    assert abs(X[found.pairs[0, 0], 0] - X[found.pairs[0, 1], 0]) >= 9.0


def test_a_committee_asks_where_resampled_answers_divide_it() -> None:
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(-6.0, 0.5, (20, 1)), rng.normal(6.0, 0.5, (20, 1)), [[0.0]]])
    belief = made_up(np.tile([0] * 20 + [1] * 21, (3, 1)), X=X)
    # the sample in the middle is said to be with either side once
    answers = np.array([[40, 1, 0], [40, 30, 0], [0, 1, 0], [20, 21, 0]])
    found = committee(belief, answers, 10, np.random.default_rng(3))
    assert (found.pairs == 40).any(axis=1).all()
