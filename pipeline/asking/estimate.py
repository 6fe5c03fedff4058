"""How many labels are right: what the model claims, corrected by what such claims were worth."""

from __future__ import annotations

import math
from typing import NamedTuple

from pipeline.asking.belief import Belief

MEAN = (0.47, 0.76)
LEAST = (1.25, 0.63)
MOST = (-0.49, 1.06)
"""Intercept and slope of the log-odds that a label is wrong, on the log-odds that the draws claim: for the
mean, and for the ends of an interval that held the share in nine cases of ten. Measured on 624 beliefs along
48 paths of questions, on six real data sets and mixtures, which no reported figure uses."""


ROUNDING = 1e-9


class Share(NamedTuple):
    """Share of the labels that are right: what is expected, and an interval of 90 %."""

    mean: float
    low: float
    high: float


def expected_share(belief: Belief) -> Share:
    """Share of the labels that are right, clusters matched to classes (docs/model.md, eq. (65)).

    Draws agree with the solution more than classes do, as no data set is a mixture of Gaussians: what they
    claim is corrected. The ends of the interval are whole numbers of labels.
    """
    return share_at(claimed_wrong(belief), len(belief.labels))


def claimed_wrong(belief: Belief) -> float:
    """Share of the labels of the draws that differ from the solution."""
    return float((belief.draws != belief.labels).mean())


def share_at(claimed: float, n_samples: int) -> Share:
    """Share of the labels that are right, of the share that the draws claim is wrong."""
    wrong = (n_samples * claimed + 0.5) / (n_samples + 1.0)
    log_odds = math.log(wrong / (1.0 - wrong))
    mean, low, high = (_right(line, log_odds, n_samples) for line in (MEAN, LEAST, MOST))
    least = math.floor(n_samples * min(low, mean) + ROUNDING) / n_samples
    most = math.ceil(n_samples * max(high, mean) - ROUNDING) / n_samples
    return Share(mean, least, most)


def _right(line: tuple[float, float], log_odds: float, n_samples: int) -> float:
    """Share that is right, on a line; the half label that was added is taken away again."""
    wrong = 1.0 / (1.0 + math.exp(-line[0] - line[1] * log_odds))
    return min(max(1.0 - (wrong * (n_samples + 1.0) - 0.5) / n_samples, 0.0), 1.0)
