"""Drawing of annotations: the law of docs/model.md, eq. (26)."""

from __future__ import annotations

import numpy as np
import pytest

from sweeps.annotations.draw import CANNOT, MUST, OFTEN, draw_annotations, draw_biased

LABELS = np.repeat(np.arange(3, dtype=np.int16), [50, 30, 20])


def draw(p: float, m: int, seed: int = 0) -> np.ndarray:
    return draw_annotations(np.random.default_rng(seed), LABELS, p=p, m=m)


def test_shape_and_range() -> None:
    annotations = draw(0.9, 1000)
    assert annotations.shape == (1000, 3)
    assert annotations.dtype == np.int32
    assert annotations[:, :2].min() >= 0
    assert annotations[:, :2].max() < 100
    assert set(annotations[:, 2].tolist()) == {MUST, CANNOT}


def test_an_exact_accuracy_draws_no_error() -> None:
    i, j, kind = draw(1.0, 20_000).T
    assert np.array_equal(kind == MUST, LABELS[i] == LABELS[j])


@pytest.mark.parametrize("p", [0.6, 0.8, 0.9])
def test_the_share_of_right_annotations_is_the_accuracy(p: float) -> None:
    i, j, kind = draw(p, 200_000).T
    agrees = LABELS[i] == LABELS[j]
    right = (kind == MUST) == agrees
    for part in (agrees, ~agrees, i == j):
        n = int(part.sum())
        assert abs(right[part].mean() - p) < 5 * np.sqrt(p * (1 - p) / n)


def test_pairs_are_independent_and_uniform_self_pairs_included() -> None:
    i, j, _ = draw(0.9, 400_000).T
    n = 400_000
    assert abs((i == j).mean() - 0.01) < 5 * np.sqrt(0.01 * 0.99 / n)
    for ends in (i, j):
        counts = np.bincount(ends, minlength=100)
        assert abs(counts - n / 100).max() < 5.5 * np.sqrt(n / 100)


def test_same_stream_same_annotations() -> None:
    assert np.array_equal(draw(0.8, 50, seed=3), draw(0.8, 50, seed=3))
    assert not np.array_equal(draw(0.8, 50, seed=3), draw(0.8, 50, seed=4))


def test_a_biased_design_draws_the_first_third_of_an_order_more_often() -> None:
    m, order = 200_000, np.random.default_rng(1).permutation(100)
    i, j, kind = draw_biased(np.random.default_rng(2), LABELS, order, p=1.0, m=m).T
    assert np.array_equal(kind == MUST, LABELS[i] == LABELS[j])
    often = np.zeros(100, dtype=bool)
    often[order[:33]] = True
    share = OFTEN * 33 / (OFTEN * 33 + 67)
    for ends in (i, j):
        assert abs(often[ends].mean() - share) < 5 * np.sqrt(share * (1 - share) / m)
    both = (often[i] & often[j]).mean()
    assert abs(both - share**2) < 5 * np.sqrt(share**2 * (1 - share**2) / m)
