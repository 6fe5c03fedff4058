"""The first questions."""

from __future__ import annotations

import numpy as np
import pytest
from beliefs import made_up

from pipeline.asking.cold import cold_start, draw_spread


def test_questions_come_in_cliques_of_three() -> None:
    rng = np.random.default_rng(0)
    belief = made_up(np.zeros((3, 60), dtype=int), X=rng.normal(size=(60, 2)))
    pairs = cold_start(belief, 15, np.random.default_rng(1)).pairs
    assert len(pairs) == 15
    for start in range(0, 15, 3):
        assert len(np.unique(pairs[start : start + 3])) == 3


def test_samples_of_a_clique_are_far_from_each_other() -> None:
    X = np.repeat([[0.0], [10.0], [20.0]], 30, axis=0) + np.random.default_rng(0).normal(size=(90, 1)) * 0.1
    found = [len(set((draw_spread(X, 3, np.random.default_rng(seed)) // 30).tolist())) for seed in range(50)]
    assert np.mean(found) > 2.9


@pytest.mark.parametrize("n_samples", [2, 3, 4])
def test_few_samples_have_few_pairs(n_samples: int) -> None:
    belief = made_up(np.zeros((3, n_samples), dtype=int))
    pairs = cold_start(belief, 100, np.random.default_rng(0)).pairs
    assert len(pairs) == n_samples * (n_samples - 1) // 2


def test_equal_rows_are_drawn_once_each() -> None:
    drawn = draw_spread(np.zeros((5, 2)), 5, np.random.default_rng(0))
    assert sorted(drawn.tolist()) == [0, 1, 2, 3, 4]
