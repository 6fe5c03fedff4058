"""How many questions are left until a share of the labels is right: a simulation under the model."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.asking.belief import Belief
from pipeline.asking.estimate import claimed_wrong, share_at

RUNS = 20
"""Courses of answers that are simulated."""

SPREAD = 2.0
"""The figures reach from the short end of the courses, by this factor down, to the long end, by it up.

Samples that depend on each other need fewer questions, and a model that is wrong more than it thinks."""

LEAST_ANSWERS = 10
"""With fewer, what is said comes from the features alone, which do not tell how wrong the model is."""

LONGEST = 20
"""A course ends after so many questions for each sample."""

ROUNDS = 8
"""The most doubtful samples are asked about in one round: one of so many that are doubtful."""

LEAST_ROUND = 500
"""But of all samples at least one of so many: large tables take no longer for what is a guess."""

LEAST_ACCURACY = 0.55
"""Below it answers say next to nothing."""

WHAT = "simulated as if the model were right, widened by a factor of 2"
"""What the figures are, in words."""


class Outlook(NamedTuple):
    """Questions left.

    Parameters
    ----------
    low, high : int or None
        Between which they are likely to be; None if that cannot be said.
    reason : str
        Why it cannot be said, else empty.
    """

    low: int | None
    high: int | None
    reason: str = ""


def questions_left(belief: Belief, level: float, n_answers: int, seed: np.random.SeedSequence) -> Outlook:
    """Simulate answers until the expected share of right labels passes a level.

    The truth of each course is drawn from the memberships, each sample on its own. A question asks whether
    the most doubtful sample is in its likeliest cluster, an annotator of the belief's accuracy answers, and
    the memberships of that sample follow by Bayes' rule. The course ends when the doubt, the mean over
    samples of 1 less the largest membership, has fallen to the part of it that the level leaves. The figures
    are quantiles of `RUNS` courses at 0.05 and 0.95, widened by `SPREAD`.

    Parameters
    ----------
    belief : Belief
        Given all answers.
    level : float
        Share of the labels that is wanted, in (0, 1).
    n_answers : int
        Answers the belief stands on.
    seed : numpy.random.SeedSequence
        Of all randomness; it is not changed.
    """
    claimed, n_samples = claimed_wrong(belief), len(belief.X)
    if share_at(claimed, n_samples).mean >= level:
        return Outlook(0, 0)
    if share_at(0.0, n_samples).mean < level:
        return Outlook(None, None, f"{n_samples} rows never pass it: some doubt always stays")
    if n_answers < LEAST_ANSWERS:
        return Outlook(None, None, f"it cannot be said before {LEAST_ANSWERS} answers")
    if belief.accuracy < LEAST_ACCURACY:
        return Outlook(None, None, f"answers of accuracy {belief.accuracy:.2f} say next to nothing")
    rng = np.random.default_rng(seed)
    part = _doubt_at(level, claimed, n_samples) / claimed
    courses = [_course(belief, part, rng) for _ in range(RUNS)]
    if max(courses) >= LONGEST * len(belief.X):
        return Outlook(None, None, f"more than {LONGEST} for each row")
    low, high = np.quantile(courses, [0.05, 0.95])
    return Outlook(max(1, int(low / SPREAD)), max(1, int(np.ceil(high * SPREAD))))


def _doubt_at(level: float, claimed: float, n_samples: int) -> float:
    """The largest claim of wrong labels, below the one there is, at which the level is passed."""
    passed = 0.0
    for _ in range(40):
        middle = 0.5 * (passed + claimed)
        if share_at(middle, n_samples).mean >= level:
            passed = middle
        else:
            claimed = middle
    return passed


def _course(belief: Belief, part: float, rng: np.random.Generator) -> int:
    """Questions of one simulated course, until no more than a part of the doubt is left."""
    shares = _smoothed(belief)
    n_samples = len(shares)
    truth = (shares.cumsum(axis=1) > rng.random((n_samples, 1))).argmax(axis=1)
    enough = part * float((1.0 - shares.max(axis=1)).sum())
    asked = 0
    while asked < LONGEST * n_samples:
        doubt = 1.0 - shares.max(axis=1)
        if doubt.sum() <= enough:
            break
        count = max(1, n_samples // LEAST_ROUND, int((doubt > 0.5 * doubt.max()).sum()) // ROUNDS)
        samples = np.argpartition(-doubt, count - 1)[:count]
        _answer(shares, samples, truth[samples], belief.accuracy, rng)
        asked += count
    return asked


def _answer(
    shares: NDArray[np.float64],
    samples: NDArray[np.integer],
    truth: NDArray[np.integer],
    accuracy: float,
    rng: np.random.Generator,
) -> None:
    """Ask of each sample whether it is in its likeliest cluster, and change its shares by the answer."""
    likeliest = shares[samples].argmax(axis=1)
    yes = (likeliest == truth) == (rng.random(len(samples)) < accuracy)
    factors = np.where(yes, 1.0 - accuracy, accuracy)[:, None] * np.ones(shares.shape[1])
    factors[np.arange(len(samples)), likeliest] = np.where(yes, accuracy, 1.0 - accuracy)
    changed = shares[samples] * factors
    shares[samples] = changed / changed.sum(axis=1, keepdims=True)


def _smoothed(belief: Belief) -> NDArray[np.float64]:
    """Memberships of which none is quite 0, so that no answer is impossible."""
    n_draws, n_clusters = len(belief.draws), belief.n_clusters
    shares: NDArray[np.float64] = (belief.membership * n_draws + 0.5 / n_clusters) / (n_draws + 0.5)
    return shares
