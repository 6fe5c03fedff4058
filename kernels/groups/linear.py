"""Classes that linear functions of the features tell apart, fitted to answers (docs/model.md, section 13).

A partition gives the functions to begin with. Answers then move them, so that few classes are found along
directions that distances do not show.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from sweep_clustering.kernels.groups.metric import Answers, minimise
from sweep_clustering.kernels.groups.refinement import normalised

Floats = NDArray[np.float64]

# Share of the scatter within classes that is spread equally over all directions.
SPREAD = 0.5

# Weight of the squared deviation of the functions from those of the first partition, in nats.
STIFFNESS = 0.3

# Factors of the first functions, the best of which by the likelihood of the partition is taken.
FACTORS = 2.0 ** np.arange(-6.0, 3.25, 0.5)

# Least size of a class, and least probability of an answer.
LEAST = 1e-3
UNLIKELY = 1e-12


class Functions(NamedTuple):
    """Linear functions, one for each class, whose exponentials are in the ratio of the shares of a row."""

    slopes: Floats  # (n_dims, n_classes)
    intercepts: Floats  # (n_classes,)
    deviation: float  # prior on the deviation from the first functions, nats

    def of(self, Z: Floats) -> Floats:
        """Return the logarithm of the share of each class in each row, nats."""
        logs = Z @ self.slopes + self.intercepts
        logs -= logs.max(axis=1, keepdims=True)
        return np.asarray(logs - np.log(np.exp(logs).sum(axis=1, keepdims=True)))


def discriminant(Z: Floats, labels: NDArray[np.integer], n_classes: int) -> Functions:
    """Return the functions of Gaussians with one matrix, as sure of a partition as its likelihood asks."""
    members = np.eye(n_classes)[labels]
    sizes = members.sum(axis=0)
    means = members.T @ Z / np.maximum(sizes, 1.0)[:, None]
    within = (Z.T @ Z - (means * sizes[:, None]).T @ means) / len(Z)
    spread = max(float(np.trace(within)) / len(within), np.finfo(float).tiny)
    slopes = np.linalg.solve((1.0 - SPREAD) * within + SPREAD * spread * np.eye(len(within)), means.T)
    shares = np.log(np.maximum(sizes, LEAST) / len(Z))
    first = Functions(slopes, shares - 0.5 * (means * slopes.T).sum(axis=1), 0.0)
    scaled = [Functions(factor * slopes, factor * first.intercepts, 0.0) for factor in FACTORS.tolist()]
    return max(scaled, key=lambda functions: float(functions.of(Z)[np.arange(len(Z)), labels].sum()))


def linear_classes(Z: Floats, labels: NDArray[np.integer], answers: Answers, n_classes: int) -> Functions:
    """Return functions that predict the answers best, near those of a partition.

    Parameters
    ----------
    Z : ndarray of shape (n_samples, n_dims)
        Coordinates, whose means are 0.
    labels : ndarray of shape (n_samples,)
        Partition to start from.
    answers : Answers
        Answers about pairs of rows.
    n_classes : int
        Number of classes.
    """
    unit = np.sqrt(max(float(Z.var(axis=0).sum()), np.finfo(float).tiny))
    rows = np.column_stack([Z / unit, np.ones(len(Z))])
    first = discriminant(rows[:, :-1], labels, n_classes)
    start = np.vstack([first.slopes, first.intercepts])
    i, j = answers.pairs.T
    sure = 2.0 * answers.accuracies - 1.0

    def loss(x: Floats) -> tuple[float, Floats]:
        shares, excess = normalised(rows @ x.reshape(start.shape)), x - start.ravel()
        together = (shares[i] * shares[j]).sum(axis=1)
        agreeing = np.where(answers.signs > 0.0, together, 1.0 - together)
        likelihoods = np.maximum(1.0 - answers.accuracies + sure * agreeing, UNLIKELY)
        slopes = csr_array(
            (-answers.weights * answers.signs * sure / likelihoods, (i, j)), shape=(len(Z), len(Z))
        )
        by_share = slopes @ shares + slopes.T @ shares
        by_log = shares * (by_share - (by_share * shares).sum(axis=1, keepdims=True))
        value = STIFFNESS * float(excess @ excess) - float(answers.weights @ np.log(likelihoods))
        return value, (rows.T @ by_log).ravel() + 2.0 * STIFFNESS * excess

    x = minimise(loss, start.ravel())
    deviation = float(np.square(x - start.ravel()).sum())
    slopes, intercepts = np.split(x.reshape(start.shape), [-1])
    return Functions(slopes / unit, intercepts[0], -STIFFNESS * deviation)
