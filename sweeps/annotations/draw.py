"""Drawing of annotation graphs from true labels."""

from collections.abc import Sequence

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.integer]

# Array of shape (m, 3) with columns i, j and kind.
Annotations = NDArray[np.int32]

# Shares of all annotators, and accuracies that they do not exceed.
Quantiles = Sequence[tuple[float, float]]

# Kinds of an annotation.
MUST = 0
CANNOT = 1
# Only the annotators of a crowd are unsure.
UNSURE = 2

# Most annotations of a file that cells draw from. Each takes 12 bytes in cube and workers, and a line may
# stand for many.
MOST_ANNOTATIONS = 10**7

# How many times as often as others a biased design draws the samples of the first third of an order.
OFTEN = 5.0

# Number of nearest neighbours of a sample that the near design draws from.
N_NEIGHBOURS = 20

# Numbers that the differences between samples and their neighbours may take in memory at once.
MOST_NUMBERS = 2**22


def draw_annotations(rng: Generator, labels_true: Integers, *, p: float, m: int) -> Annotations:
    """Draw `m` annotations of accuracy `p` in (0, 1] (docs/model.md, eq. (26)).

    Both ends of a pair are independent and uniform over the samples, so that a self pair has probability 1/N
    and the N² ordered pairs of the objective are exact. A pair whose true labels agree, a self pair included,
    becomes a must-link with probability `p`; one whose labels differ with probability `1 - p`. With p = 1 no
    annotation is wrong.

    Returns
    -------
    ndarray of shape (m, 3), int32
        Columns i, j and kind (`MUST` or `CANNOT`).
    """
    return answer_pairs(rng, labels_true, any_pairs(rng, len(labels_true), m), p=p)


def draw_biased(rng: Generator, labels_true: Integers, order: Integers, *, p: float, m: int) -> Annotations:
    """Draw `m` annotations of accuracy `p` as `draw_annotations` does, some samples more often than others.

    The samples of the first third of `order`, which has all of them, have `OFTEN` times the probability of
    the others.
    """
    n_samples = len(labels_true)
    weights = np.ones(n_samples)
    weights[order[: n_samples // 3]] = OFTEN
    pairs = rng.choice(n_samples, size=(m, 2), p=weights / weights.sum())
    return answer_pairs(rng, labels_true, pairs, p=p)


def draw_near(rng: Generator, labels_true: Integers, X: Floats, *, p: float, m: int) -> Annotations:
    """Draw `m` annotations of accuracy `p`, each of a sample and one of its nearest neighbours.

    The first sample of a pair is uniform over all samples, the second one over the `N_NEIGHBOURS` other
    samples that are nearest to it in the scaled features `X`. Pairs are annotated as those of
    `draw_annotations` are.
    """
    first = rng.integers(0, len(X), size=m)
    place = rng.random(m)
    samples, row = np.unique(first, return_inverse=True)
    neighbours = nearest_neighbours(X, samples, min(N_NEIGHBOURS, len(X) - 1))
    second = neighbours[row, (place * neighbours.shape[1]).astype(np.int64)]
    return answer_pairs(rng, labels_true, np.column_stack([first, second]), p=p)


def nearest_neighbours(X: Floats, samples: Integers, n_neighbours: int) -> NDArray[np.int64]:
    """Return the nearest other samples of each of some samples, nearest first, as rows."""
    # Loaded here, because commands that only plan or read draw nothing.
    from sklearn.neighbors import NearestNeighbors

    # Distances by matrix products differ in last bits between processors. So a few more candidates are taken,
    # and ordered by differences of features, rounded. Samples that are equally far come in their order.
    n_candidates = min(n_neighbours + 11, len(X))
    search = NearestNeighbors(n_neighbors=n_candidates, algorithm="brute").fit(X)
    nearest = np.empty((len(samples), n_neighbours), dtype=np.int64)
    n_rows = max(1, MOST_NUMBERS // (n_candidates * X.shape[1]))
    for start in range(0, len(samples), n_rows):
        part = samples[start : start + n_rows]
        candidates = np.sort(search.kneighbors(X[part], return_distance=False), axis=1)
        distances = ((X[candidates] - X[part, np.newaxis]) ** 2).sum(axis=2)
        distances[candidates == part[:, np.newaxis]] = np.inf  # no sample is its own neighbour
        order = np.argsort(distances.astype(np.float32), axis=1, kind="stable")[:, :n_neighbours]
        nearest[start : start + n_rows] = np.take_along_axis(candidates, order, axis=1)
    return nearest


def draw_accuracies(
    rng: Generator, count: int, *, quantiles: Quantiles, leaning: tuple[float, float], p: float
) -> Floats:
    """Draw the two accuracies of each annotator of a crowd: on pairs that belong together, and on others.

    Shares of all annotators and the accuracies that they do not exceed are the `quantiles`, whose log odds
    are shifted so that `p` is the median. Mean and deviation of `leaning` are log odds (docs/model.md,
    section 4). The annotators of a smaller crowd are the first of a larger one.
    """
    from scipy.special import expit, ndtr  # a status needs no scipy

    draws = rng.standard_normal((count, 2))
    if p >= 1.0:
        return np.ones((count, 2))
    shares, values = np.array(quantiles).T
    accuracies = around_median(np.interp(ndtr(draws[:, 0]), shares, values), quantiles, p)
    tilt = leaning[0] + leaning[1] * draws[:, 1]
    # The log odds s of both kinds of pairs without the tilt: the root of a quadratic equation in exp(s).
    excess = 2.0 * accuracies - 1.0
    middle = excess * np.cosh(tilt)
    level = np.log((middle + np.sqrt(middle**2 + 1.0 - excess**2)) / (1.0 - excess))
    return np.asarray(expit(np.column_stack([level + tilt, level - tilt])))


def around_median(accuracies: Floats, quantiles: Quantiles, p: float) -> Floats:
    """Return accuracies with their log odds shifted as those of quantiles whose median becomes `p`."""
    from scipy.special import expit, logit

    shift = logit(p) - logit(np.interp(0.5, *np.array(quantiles).T))
    return np.asarray(expit(logit(accuracies) + shift))


def draw_crowd(
    rng: Generator, labels_true: Integers, accuracies: Floats, *, answers: int, unsure: float, m: int
) -> Annotations:
    """Draw `m` annotations by a crowd with `accuracies` (n_annotators, 2), a share of the kind `UNSURE`.

    The `answers` of an annotator follow each other. The pairs, and the numbers that decide which answers are
    right, are those of `draw_annotations`.
    """
    pairs = any_pairs(rng, len(labels_true), m)
    is_apart = labels_true[pairs[:, 0]] != labels_true[pairs[:, 1]]
    p = accuracies[np.arange(m) // answers, is_apart.astype(np.int64)]
    annotations = answer_pairs(rng, labels_true, pairs, p=p)
    annotations[rng.random(m) < unsure, 2] = UNSURE
    return annotations


def any_pairs(rng: Generator, n_samples: int, m: int) -> NDArray[np.int64]:
    """Draw pairs of samples, both ends of each on their own: all the first ones, and then the second ones."""
    return np.column_stack([rng.integers(0, n_samples, size=m) for _ in range(2)])


def answer_pairs(rng: Generator, labels_true: Integers, pairs: Integers, *, p: float | Floats) -> Annotations:
    """Annotate pairs of shape (n_pairs, 2) with accuracy `p`, or one for each pair: columns i, j and kind."""
    is_right = rng.random(len(pairs)) < p
    is_same_class = labels_true[pairs[:, 0]] == labels_true[pairs[:, 1]]
    kind = np.where(is_same_class == is_right, MUST, CANNOT)
    return np.column_stack([pairs, kind]).astype(np.int32)
