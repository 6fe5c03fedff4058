"""Pairs of rows whose answers say where clusters are to be merged or split (docs/model.md, section 10).

`cut_clusters` cuts clusters into parts, and `unsure_pairs` asks about rows of two parts that may or may not
be of one class.
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from sweep_clustering.kernels.groups.merging import answer_odds, means_of, split, squared_distances
from sweep_clustering.kernels.groups.metric import Answers, logistic
from sweep_clustering.kernels.problem.data import Floats

# Parts of a cluster at most, rows of a part at least on average, and parts of all clusters at most.
PARTS = 6
PART_ROWS = 2
MOST_PARTS = 1_800

# Log odds from their level on, in nats, that count as this many: a larger number overflows.
FARTHEST = 700.0


def cut_clusters(Z: Floats, labels: NDArray[np.integer], rng: Generator) -> NDArray[np.int64]:
    """Return the part of each row by k-means within each cluster; no part is empty."""
    _, clusters, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    most = min(PARTS, max(MOST_PARTS // len(sizes), 1))
    return split(Z, clusters, np.minimum(most, -(-sizes // PART_ROWS)), rng)


def part_odds(Z: Floats, parts: NDArray[np.int64], answers: Answers) -> Floats:
    """Return the log odds that the rows of each two parts are of one class, by distances and answers.

    The odds of the distance are the mean over pairs of rows.
    """
    sizes = np.bincount(parts)
    centers = means_of(Z, parts, len(sizes))
    scatters = np.bincount(parts, np.square(Z - centers[parts]).sum(axis=1)) / sizes
    squares = squared_distances(centers) + scatters[:, None] + scatters
    relation = logistic(np.square(Z[answers.pairs[:, 0]] - Z[answers.pairs[:, 1]]).sum(axis=1), answers)
    odds = relation.intercept - relation.slope * squares
    return np.asarray(odds + answer_odds(parts, len(sizes), answers))


def unsure_pairs(
    Z: Floats, labels: NDArray[np.integer], answers: Answers, count: int, rng: Generator
) -> NDArray[np.int64]:
    """Choose pairs of parts of clusters that may be merged or split, best first, by a random row of either.

    Parameters
    ----------
    Z : ndarray of shape (n_samples, n_dims)
        Rows in the space in which distances predict answers.
    labels : ndarray of shape (n_samples,)
        Cluster of each row.
    answers, count, rng
        Answers so far, largest number of pairs, and the only source of randomness.

    Returns
    -------
    ndarray of shape (n_pairs, 2)
    """
    parts = cut_clusters(Z, labels, rng)
    sizes, cluster_of = np.bincount(parts), np.empty(int(parts.max()) + 1, np.int64)
    cluster_of[parts] = labels
    first, second = np.triu_indices(len(sizes), 1)
    odds = part_odds(Z, parts, answers)[first, second]
    # Answers were not about random parts, so that the level of their odds means nothing. The partition gives
    # the level: as many pairs of parts lie above it as there are of one cluster.
    n_within = int((cluster_of[first] == cluster_of[second]).sum())
    level = np.sort(odds)[-max(n_within, 1) :][:1]
    distance = np.minimum(np.abs(odds - level), FARTHEST)
    worth = np.minimum(sizes[first], sizes[second]) / np.cosh(0.5 * distance) ** 2
    best = np.argsort(-worth, kind="stable")[:count]
    rows, starts = np.argsort(parts, kind="stable"), np.append(0, np.cumsum(sizes))
    ends = [rows[starts[part] + rng.integers(sizes[part])] for part in (first[best], second[best])]
    return np.stack(ends, axis=1)
