"""The accuracy that held-out annotations speak for (docs/model.md, section 11)."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from kernels.choice.held_out import UNSURE, HeldOut
from kernels.problem.data import Floats

STEPS = 60
"""Halvings of the interval: to the last bits."""


class Accuracy(NamedTuple):
    """An accuracy, and its standard error: NaN at the ends of its interval."""

    value: float
    error: float


def estimated_accuracy(found: HeldOut) -> Accuracy | None:
    """Accuracy of the largest likelihood of annotations that the fit had not seen, eq. (71).

    Parameters
    ----------
    found : HeldOut
        With the probabilities that the partition has each pair as annotated.

    Returns
    -------
    Accuracy or None
        Between one half and 1 - 1e-3; None where no probability is known.
    """
    if found.agreeing is None or not len(found.agreeing):
        return None
    low, high = 0.5, 1.0 - UNSURE
    if _slope(found.agreeing, found.weights, low) <= 0.0:
        return Accuracy(low, math.nan)
    if _slope(found.agreeing, found.weights, high) >= 0.0:
        return Accuracy(high, math.nan)
    for _ in range(STEPS):
        middle = 0.5 * (low + high)
        if _slope(found.agreeing, found.weights, middle) > 0.0:
            low = middle
        else:
            high = middle
    scores = _scores(found.agreeing, low)
    return Accuracy(low, 1.0 / math.sqrt(float((found.weights * np.square(scores)).sum())))


def _scores(agreeing: Floats, p: float) -> Floats:
    """Derivative by p of the logarithm of p s + (1 - p) (1 - s), which is concave in p."""
    contrast = 2.0 * agreeing - 1.0
    derivatives: Floats = contrast / (p * agreeing + (1.0 - p) * (1.0 - agreeing))
    return derivatives


def _slope(agreeing: Floats, weights: Floats, p: float) -> float:
    return float((weights * _scores(agreeing, p)).sum())
