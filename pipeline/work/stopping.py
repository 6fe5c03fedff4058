"""Whether a cell has had enough restarts, from the objectives of its restarts alone.

The restarts of a cell are independent, so its optima are like species and its restarts like animals caught:
how likely the next one is of an unknown species is a question with two classical answers. Both count every
unknown optimum, so they bound the probability that the next restart finds a better one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pipeline.common import SAME_OPTIMUM
from sweeps.file.spec import Stop


def optimum_counts(objectives: Sequence[float] | NDArray[np.float64]) -> list[int]:
    """How often each distinct optimum was found, best optimum first.

    Parameters
    ----------
    objectives : array-like of shape (n,)
        Objectives in nats, in any order. Those at most `SAME_OPTIMUM` below the largest of an optimum belong
        to it.

    Returns
    -------
    list of int
        Sums to n.
    """
    counts: list[int] = []
    top = np.inf
    for value in sorted(map(float, objectives), reverse=True):
        if not counts or value < top - SAME_OPTIMUM:
            counts.append(0)
            top = value
        counts[-1] += 1
    return counts


def unseen_mass(objectives: Sequence[float] | NDArray[np.float64], rule: str) -> float:
    """Estimate the probability that the next restart finds an optimum that none has found yet.

    Parameters
    ----------
    objectives : array-like of shape (n,)
        Objectives of the restarts so far, in nats, at least two.
    rule : str
        `"boender-rinnooy-kan"`: w(w+1)/(n(n-1)) for w distinct optima, a posterior mean under uniform priors
        (Boender and Rinnooy Kan, Bayesian stopping rules for multistart global optimization methods,
        Mathematical Programming 37, 1987). `"good-turing"`: the share f1/n of restarts whose optimum was
        found once (Good, The population frequencies of species and the estimation of population parameters,
        Biometrika 40, 1953).

    Returns
    -------
    float
        In [0, 1].
    """
    counts = optimum_counts(objectives)
    n, w = sum(counts), len(counts)
    if rule == "good-turing":
        return counts.count(1) / n
    return min(1.0, w * (w + 1) / (n * (n - 1)))


def is_enough(objectives: Sequence[float] | NDArray[np.float64], stop: Stop) -> bool:
    """Whether the rule is tested after these restarts, and ends the cell."""
    beyond = len(objectives) - stop.r_min
    return beyond >= 0 and beyond % stop.step == 0 and unseen_mass(objectives, stop.rule) < stop.risk


def restarts_enough(
    objectives: Sequence[float] | NDArray[np.float64], stop: Stop | None, restarts: int
) -> int | None:
    """Number of restarts after which a cell ends.

    Parameters
    ----------
    objectives : array-like of shape (n,)
        Objectives of restarts 0..n-1, in nats.
    stop : Stop or None
        None: all restarts are run.
    restarts : int
        The most a cell may have.

    Returns
    -------
    int or None
        At most n; None if the cell needs more than these.
    """
    if stop is not None:
        for n in range(stop.r_min, min(len(objectives), restarts - 1) + 1, stop.step):
            if is_enough(objectives[:n], stop):
                return n
    return restarts if len(objectives) >= restarts else None
