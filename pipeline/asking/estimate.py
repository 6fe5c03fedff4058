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


class Share(NamedTuple):
    """Share of the labels that are right: what is expected, and an interval of 90 %."""

    mean: float
    low: float
    high: float


def expected_share(belief: Belief) -> Share:
    """Share of the labels that are right, clusters matched to classes (docs/model.md, eq. (65)).

    Draws agree with the solution more than classes do, as no data set is a mixture of Gaussians: what they
    claim is corrected. Half a label is taken to be wrong in any case.
    """
    return share_at(claimed_wrong(belief), len(belief.labels))


def claimed_wrong(belief: Belief) -> float:
    """Share of the labels of the draws that differ from the solution."""
    return float((belief.draws != belief.labels).mean())


def share_at(claimed: float, n_samples: int) -> Share:
    """Share of the labels that are right, of the share that the draws claim is wrong."""
    wrong = (n_samples * claimed + 0.5) / (n_samples + 1.0)
    log_odds = math.log(wrong / (1.0 - wrong))
    mean, low, high = (_right(line, log_odds) for line in (MEAN, LEAST, MOST))
    return Share(mean, min(low, mean), max(high, mean))


def _right(line: tuple[float, float], log_odds: float) -> float:
    return 1.0 / (1.0 + math.exp(line[0] + line[1] * log_odds))
