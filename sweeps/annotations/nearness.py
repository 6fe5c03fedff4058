"""Choice between two numberings of rows by the answers on pairs.

Under the right numbering must-linked rows are nearer to each other than cannot-linked rows. How much the
distances explain the answers is a log-likelihood: that of the best curve by which the share of must-links
falls, or stays, as rows are farther apart, less that of a share that is the same everywhere. Its signed root
is compared with what chance gives. Chance is measured where all rows that the answers name are moved along
the table by other steps: what pairs have in common, such as rows that come often, or a sorted table, stays.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Pairs = NDArray[np.int64]

# Most answers that are used: more decide no better, and take time.
MOST_ANSWERS = 8000

# Fewest answers that decide.
FEWEST_ANSWERS = 10

# Steps along the table that show what chance gives.
STEPS = 64

# With fewer of them, chance is not known well enough.
FEWEST_STEPS = 16

# Random pairs, by whose distances those of answers are ranked.
REFERENCES = 4096

# Ranks between which the share of must-links is the same: finer where pairs are near, for many clusters.
EDGES = np.array([1 / 512, 1 / 256, 1 / 128, 1 / 64, 1 / 32, 1 / 16, *np.arange(1, 10) / 10])

# Random pairs for each answer, which stand for the kind that no file has.
TIMES_AS_MANY = 4

# Features that distances are taken in; of more, as many principal components.
MOST_FEATURES = 32

# Numbers of the rows that show principal components, and the most of these rows.
MOST_SHOWN = 2**23
MOST_ROWS = 1000

# Standard deviations of chance by which the numbering that is taken has to be above it.
BAR = 5.0

# Up to so many of them the other numbering is like chance, and so many below the one that is taken.
LIKE_CHANCE = 2.5
DISTANCE = 4.0

# Standard errors of the mean difference of an answer, where both numberings are above chance.
BAR_OF_PAIRS = 4.5

# Seed of all that is drawn here: the same files are always read in the same way.
SEED = 20_210_405


@dataclass(frozen=True)
class Verdict:
    """Verdict of answers on two numberings.

    Parameters
    ----------
    first_row : int or None
        The number of the first row that they speak for, 0 or 1; None if it is not clear.
    above_chance : tuple of float, or None
        Standard deviations of chance by which distances say more of the answers than chance gives, under a
        first row of 0 and of 1; None where that was not looked at.
    """

    first_row: int | None
    above_chance: tuple[float, float] | None = None


UNCLEAR = Verdict(None)


def verdict(
    X: Floats,
    from_0: Pairs,
    from_1: Pairs,
    is_must: NDArray[np.bool_],
    n_rows: int | None = None,
    selection: NDArray[np.intp] | None = None,
    usual: int | None = None,
) -> Verdict:
    """Say which numbering of rows the answers speak for.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        Features of the samples, scaled as they are fitted.
    from_0, from_1 : array of shape (n_answers, 2)
        Rows of the table that answers are about, from 0, if the files count from 0 and if they count from 1.
        A row that is named otherwise is the same in both.
    is_must : array of shape (n_answers,)
        Whether an answer says that its rows belong together.
    n_rows : int, optional
        Rows of the table; as many as samples where it is not given.
    selection : array of shape (n_samples,), optional
        Rows that are samples; all where it is not given.
    usual : int, optional
        Number that is taken unless the answers speak against it; they need not speak for it.
    """
    n_rows = len(X) if n_rows is None else n_rows
    rng = np.random.default_rng(SEED)
    moves = (from_0 != from_1).astype(np.int64)
    undecided = np.flatnonzero(moves.any(axis=1) & (from_0[:, 0] != from_0[:, 1]))
    if len(undecided) > MOST_ANSWERS:
        undecided = np.sort(rng.choice(undecided, MOST_ANSWERS, replace=False))
    from_0, moves, is_must = from_0[undecided], moves[undecided], is_must[undecided]
    # no step of a numbering, or next to one
    steps = rng.permutation(np.arange(3, n_rows - 3))[:STEPS]
    if len(undecided) < FEWEST_ANSWERS or len(steps) < FEWEST_STEPS or len(X) < FEWEST_STEPS:
        return UNCLEAR
    ranks = _Ranks(X, rng)
    place = np.full(n_rows, -1)
    place[np.arange(n_rows) if selection is None else selection] = np.arange(len(X))

    def curve(step: int) -> _Curve:
        return _curve_of(ranks.of(place[(from_0 - step * moves) % n_rows]), is_must)

    curves = curve(0), curve(1)
    rivals = curves if usual is None else (curves[1 - usual],)
    is_usual = usual is not None and curves[usual].root >= rivals[0].root
    if is_usual or max(rival.root for rival in rivals) < BAR * LEAST_DEVIATION:
        return UNCLEAR  # most of the files that say nothing end here
    pairs = [(curve(step), curve(step + 1)) for step in steps.tolist()]
    chance = np.array([root for first, second in pairs for root in (first.root, second.root)])
    deviation = max(float(chance.std()), LEAST_DEVIATION)
    above = [float((side.root - chance.mean()) / deviation) for side in curves]
    best, other = (1, 0) if above[1] > above[0] else (0, 1)
    is_clear = above[best] >= BAR
    if above[other] > LIKE_CHANCE or above[best] - above[other] < DISTANCE:
        by_chance = np.array([_difference(first, second) for first, second in pairs])
        width = max(1.0, float(np.sqrt(np.mean(by_chance**2))))
        is_clear &= abs(_difference(*curves)) >= BAR_OF_PAIRS * width
    return Verdict(best if is_clear else None, (above[0], above[1]))


# Deviation of the root where answers are independent; a smaller one is one of too few steps.
LEAST_DEVIATION = 0.6


class _Ranks:
    """Ranks of the distances of pairs among those of random pairs, see `EDGES`."""

    def __init__(self, X: Floats, rng: np.random.Generator) -> None:
        self._X = _in_few_features(X, rng)
        first = rng.integers(len(X), size=REFERENCES)
        second = (first + rng.integers(1, len(X), size=REFERENCES)) % len(X)
        distances = np.sort(self._distances(np.column_stack([first, second])))
        self._edges = distances[np.floor(EDGES * REFERENCES).astype(np.int64)]

    def of(self, pairs: Pairs) -> NDArray[np.int64]:
        """Return the interval of each pair; -1 where one of its places is -1, or both are the same."""
        distances = self._distances(pairs)
        intervals = np.searchsorted(self._edges, distances, "left")
        is_none = (pairs < 0).any(axis=1) | (pairs[:, 0] == pairs[:, 1]) | np.isnan(distances)
        return np.where(is_none, -1, intervals)

    def _distances(self, pairs: Pairs) -> Floats:
        with np.errstate(over="ignore", invalid="ignore"):
            difference = self._X[pairs[:, 0]] - self._X[pairs[:, 1]]
            return np.asarray(np.einsum("ij,ij->i", difference, difference))


def _in_few_features(X: Floats, rng: np.random.Generator) -> Floats:
    """Return the features, or principal components of some rows where there are many."""
    if X.shape[1] <= MOST_FEATURES:
        return X
    n_shown = min(len(X), MOST_ROWS, max(2 * MOST_FEATURES, MOST_SHOWN // X.shape[1]))
    some = X[np.sort(rng.choice(len(X), n_shown, replace=False))]
    some = some - some.mean(axis=0)
    some /= float(np.abs(some).max()) or 1.0
    values, vectors = np.linalg.eigh(some @ some.T)
    axes = some.T @ vectors[:, -MOST_FEATURES:] / np.sqrt(np.maximum(values[-MOST_FEATURES:], 1e-300))
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(X @ axes)


@dataclass(frozen=True)
class _Curve:
    """Root of twice the gain in log-likelihood (nats) by distances, and the gain of each answer."""

    root: float
    gains: Floats


def _curve_of(intervals: NDArray[np.int64], is_must: NDArray[np.bool_]) -> _Curve:
    from scipy.optimize import isotonic_regression

    n_intervals, is_there = len(EDGES) + 1, intervals >= 0
    counts: list[Floats] = [
        np.bincount(intervals[is_there & kind], minlength=n_intervals).astype(np.float64)
        for kind in (is_must, ~is_must)
    ]
    must, cannot = counts
    if not must.sum() or not cannot.sum():  # random pairs stand for the kind that is not there
        random: Floats = np.diff(np.concatenate([[0.0], EDGES, [1.0]])) * TIMES_AS_MANY * is_there.sum()
        must, cannot = (count if count.sum() else random for count in counts)
    both = must + cannot
    has_answers = both > 0
    if not is_there.any():
        return _Curve(0.0, np.zeros(len(intervals)))
    overall = must.sum() / both.sum()
    shares = np.full(n_intervals, overall)
    # half an answer of the overall share keeps each share off 0 and 1
    weights = both[has_answers] + 0.5
    shares[has_answers] = isotonic_regression(
        (must[has_answers] + 0.5 * overall) / weights, weights=weights, increasing=False
    ).x
    of_must, of_cannot = np.log(shares / overall), np.log((1.0 - shares) / (1.0 - overall))
    gain = float(must @ of_must + cannot @ of_cannot)
    gains = np.where(is_must, of_must[intervals], of_cannot[intervals])
    return _Curve(float(np.sqrt(max(2.0 * gain, 0.0))), np.where(is_there, gains, 0.0))


def _difference(first: _Curve, second: _Curve) -> float:
    """Return the mean difference of the answers under two numberings, in standard errors."""
    differences = first.gains - second.gains
    error = float(differences.std()) * np.sqrt(len(differences))
    return float(differences.sum()) / error if error > 0 else 0.0
