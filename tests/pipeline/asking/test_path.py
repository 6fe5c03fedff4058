"""Paths of questions."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.asking.path import next_answers
from pipeline.asking.strategies import STRATEGIES


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_batch_has_every_pair_once_and_the_same_bits_again(strategy: str) -> None:
    rng = np.random.default_rng(0)
    labels_true = np.repeat([0, 1], 12).astype(np.int16)
    X = rng.normal(size=(24, 2)) + 2.0 * labels_true[:, None]
    path = np.array([[0, 1, 0], [2, 20, 1]], dtype=np.int32)

    def batch() -> np.ndarray:
        seed = np.random.SeedSequence(3, spawn_key=(1, 2))
        return next_answers(X, labels_true, path, n_clusters=2, p=0.9, strategy=strategy, count=10, seed=seed)

    found = batch()
    assert found.shape == (10, 3)
    assert found.dtype == np.int32
    assert len({tuple(pair) for pair in found[:, :2].tolist()}) == 10
    assert (found[:, 0] < found[:, 1]).all()
    np.testing.assert_array_equal(found, batch())
