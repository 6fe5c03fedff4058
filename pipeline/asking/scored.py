"""Pairs with what their answers would tell."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.asking.belief import Belief
from pipeline.asking.pool import Pairs

Floats = NDArray[np.float64]


class Scored(NamedTuple):
    """Pairs to ask, best first, and what each is worth.

    Parameters
    ----------
    pairs : ndarray of shape (n_pairs, 2)
        Samples from 0, the first one lower; no pair twice.
    scores : ndarray of shape (n_pairs,)
        Information of each answer on who belongs together, in nats; for "information" beyond what the
        answers to the pairs before it tell.
    """

    pairs: Pairs
    scores: Floats


def answer_information(variance: Floats, accuracy: float) -> Floats:
    """Mutual information of an answer and of what is asked, nats: H(answer) - H(answer | together).

    Parameters
    ----------
    variance : ndarray
        s (1 - s) for a pair that belongs together with probability s.
    accuracy : float
        Probability that the answer is right.
    """
    less_likely = 0.5 * (1.0 - np.sqrt(np.maximum(1.0 - 4.0 * variance, 0.0)))
    yes = accuracy * less_likely + (1.0 - accuracy) * (1.0 - less_likely)
    found: Floats = np.maximum(entropy(yes) - entropy(np.array(accuracy)), 0.0)
    return found


def entropy(p: Floats) -> Floats:
    """Of a yes or no, nats."""
    p = np.clip(p, 1e-15, 1.0 - 1e-15)
    found: Floats = -(p * np.log(p) + (1.0 - p) * np.log1p(-p))
    return found


def scored(belief: Belief, pairs: Pairs) -> Scored:
    """Pairs with what each answer tells, taken alone."""
    shares = belief.together(pairs)
    return Scored(pairs, answer_information(shares * (1.0 - shares), belief.accuracy))
