"""Scores of many cells at once, and bands, against one cell after the other."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from kernels.scores import nmi
from pipeline.live.means import Means, nmi_of_many


@pytest.mark.parametrize("seed", range(20))
def test_nmi_of_many_is_that_of_each(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(1, 60)), int(rng.integers(1, 6))
    truth = rng.integers(0, k, n).astype(np.int16)
    labels = rng.integers(0, k + 2, (7, n)).astype(np.int16)
    labels[0], labels[1], labels[2] = truth, 0, (truth + 1) % k
    expected = [nmi(truth, each) for each in labels]
    assert nmi_of_many(truth, labels) == pytest.approx(expected, abs=1e-12)


def test_one_class_and_one_cluster() -> None:
    one, two = np.zeros(4, np.int16), np.array([0, 0, 1, 1], np.int16)
    assert nmi_of_many(one, np.stack([one, two])).tolist() == [1.0, 0.0]
    assert nmi_of_many(two, np.stack([one, two])).tolist() == [0.0, 1.0]


def test_the_unit_counts_and_not_the_cell() -> None:
    rng = np.random.default_rng(1)
    scores = pd.DataFrame({"unit": rng.integers(0, 4, 30), "value": rng.random(30)})
    means = Means()
    for unit, value in scores.itertuples(index=False):
        means.add(unit, value)
    units = scores.groupby("unit")["value"].mean()
    assert means.summary() == pytest.approx((units.mean(), units.sem(), 4))


def test_one_unit_has_no_error() -> None:
    means = Means()
    means.add(3, 0.25)
    means.add(3, 0.75)
    assert means.summary() == (0.5, None, 1)
