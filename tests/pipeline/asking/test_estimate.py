"""Shares of right labels."""

from __future__ import annotations

import math

import numpy as np
import pytest
from beliefs import made_up

from pipeline.asking.estimate import LEAST, MEAN, MOST, expected_share


def test_a_hand_case() -> None:
    # 9 of 10 draws agree everywhere, one differs in 5 of 10 labels: 0.05 of the labels claimed wrong
    draws = np.zeros((10, 10), dtype=int)
    draws[:, 0] = 1
    draws[9, 5:] = 1
    found = expected_share(made_up(draws))
    wrong = (10 * 0.05 + 0.5) / 11
    mean, low, high = (
        1 - (11 * odds / (1 + odds) - 0.5) / 10
        for intercept, slope in (MEAN, LEAST, MOST)
        for odds in [math.exp(intercept) * (wrong / (1 - wrong)) ** slope]
    )
    assert found.mean == pytest.approx(mean)
    assert found.low == math.floor(10 * low) / 10
    assert found.high == math.ceil(10 * high) / 10
    assert found.low < found.mean < found.high


@pytest.mark.parametrize("share", [0.0, 0.01, 0.2, 0.5, 0.9])
def test_the_interval_holds_the_mean_and_falls_with_doubt(share: float) -> None:
    draws = np.zeros((100, 100), dtype=int)
    draws[:, : int(100 * share)] = np.arange(100)[:, None] % 2
    draws[:, -1] = 1
    found = expected_share(made_up(draws))
    assert 0 <= found.low <= found.mean <= found.high <= 1
    surer = draws.copy()
    surer[:, : int(50 * share)] = 0
    if share > 0.01:
        assert expected_share(made_up(surer)).mean > found.mean
