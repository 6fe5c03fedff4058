"""Pairs to choose from."""

from __future__ import annotations

import numpy as np
import pytest
from beliefs import NO_ANSWERS, made_up, random_belief

from pipeline.asking import pool
from pipeline.asking.pool import all_pairs, distinct, draw_pool


def test_all_pairs_of_few_samples_each_once_in_random_order() -> None:
    belief = random_belief(0)
    pairs = draw_pool(belief, NO_ANSWERS, np.random.default_rng(0))
    assert sorted(map(tuple, pairs.tolist())) == [(i, j) for i in range(12) for j in range(i + 1, 12)]
    assert not np.array_equal(pairs, all_pairs(12))


def test_a_sample_of_many_pairs_has_doubtful_samples_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "LARGEST", 400)
    draws = np.zeros((20, 200), dtype=int)
    draws[:, 100:] = 1
    draws[:10, :5] = 1  # five samples that may be in either cluster
    answers = np.array([[7, 3, 0], [150, 199, 1]])
    pairs = draw_pool(made_up(draws), answers, np.random.default_rng(1))
    assert (pairs[:, 0] < pairs[:, 1]).all()
    assert len({tuple(pair) for pair in pairs.tolist()}) == len(pairs) <= 402
    assert {(3, 7), (150, 199)} <= {tuple(pair) for pair in pairs.tolist()}
    doubtful = (pairs < 5).any(axis=1).mean()
    assert doubtful > 0.3  # of all pairs it is one in twenty
    assert len(np.unique(pairs)) > 100  # and sure samples come too


def test_distinct_keeps_the_first_of_equal_pairs_and_no_self_pair() -> None:
    pairs = np.array([[4, 2], [1, 1], [2, 4], [0, 3]])
    np.testing.assert_array_equal(distinct(pairs), [[2, 4], [0, 3]])
    assert distinct(np.empty((0, 2), dtype=int)).shape == (0, 2)
