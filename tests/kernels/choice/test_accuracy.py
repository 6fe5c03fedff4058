"""The accuracy that held-out annotations speak for."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from kernels.choice.accuracy import Accuracy, estimated_accuracy
from kernels.choice.held_out import HeldOut


def predicted(agreeing: list[float], weights: list[float] | None = None) -> HeldOut:
    given = np.array(agreeing)
    found = np.ones(len(given)) if weights is None else np.array(weights)
    return HeldOut(np.zeros(len(given)), given > 0.5, found, given)


def test_of_certain_pairs_it_is_the_share_that_agrees() -> None:
    found = estimated_accuracy(predicted([1.0] * 8 + [0.0] * 2))
    assert found is not None
    assert found.value == pytest.approx(0.8)
    assert found.error == pytest.approx(math.sqrt(0.8 * 0.2 / 10))
    assert estimated_accuracy(predicted([1.0, 0.0], [8.0, 2.0])) == pytest.approx(found)


def test_it_is_the_largest_likelihood() -> None:
    shares = np.random.default_rng(3).uniform(0.2, 1.0, size=50)
    found = estimated_accuracy(predicted(shares.tolist()))
    best = minimize_scalar(
        lambda p: -np.log(p * shares + (1 - p) * (1 - shares)).sum(),
        bounds=(0.5, 0.999),
        method="bounded",
        options={"xatol": 1e-9},
    )
    assert found is not None
    assert found.value == pytest.approx(best.x, abs=1e-5)


@pytest.mark.parametrize(("share", "end"), [(0.999, 0.999), (0.001, 0.5), (0.5, 0.5)])
def test_it_ends_at_the_ends(share: float, end: float) -> None:
    found = estimated_accuracy(predicted([share] * 5))
    assert found is not None
    assert found.value == end
    assert math.isnan(found.error)


def test_drawn_answers_give_the_accuracy_back() -> None:
    rng = np.random.default_rng(8)
    together = rng.uniform(0.01, 0.99, size=20_000)
    says = np.where(rng.random(20_000) < 0.85, rng.random(20_000) < together, rng.random(20_000) > together)
    found = estimated_accuracy(predicted(np.where(says, together, 1 - together).tolist()))
    assert isinstance(found, Accuracy)
    assert abs(found.value - 0.85) < 4 * found.error < 0.1


def test_without_probabilities_nothing_is_estimated() -> None:
    none = HeldOut(np.zeros(2), np.ones(2, dtype=bool), np.ones(2))
    assert estimated_accuracy(none) is None
    assert estimated_accuracy(predicted([])) is None
