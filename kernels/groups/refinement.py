"""Merged groups as the components of their classes: rows move by distance and by answers.

`refine` gives the soft partition whose groups are where rows draw them (docs/model.md, section 13).
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sweep_clustering.kernels.beliefs import escape, settle
from sweep_clustering.kernels.fits import Floats, squared_norms
from sweep_clustering.kernels.groups.merging import AT_ONCE, means_of
from sweep_clustering.kernels.groups.metric import Answers
from sweep_clustering.kernels.problem.data import both_ways

# Rounds of classes and means.
ROUNDS = 2


class SoftPartition(NamedTuple):
    """A soft partition whose classes are unions of groups of one variance."""

    centers: Floats  # (n_groups, n_dims)
    classes: Floats  # (n_samples, n_classes): shares
    features: float  # log-likelihood and entropy, nats
    annotations: float  # log-likelihood of the answers, nats


def scatter_of(Z: Floats, labels: NDArray[np.int64]) -> float:
    """Return the mean squared distance of rows to the mean of their cluster."""
    means = means_of(Z, labels, int(labels.max()) + 1)[labels]
    differences = np.subtract(Z, means, out=means)
    return max(float(squared_norms(differences).mean()), np.finfo(float).tiny)


def class_logs(Z: Floats, centers: Floats, class_of: NDArray[np.int64], variance: float) -> Floats:
    """Return the log of the mean over all groups of exp(-d² / 2 variance), summed within each class."""
    order = np.argsort(class_of, kind="stable")
    starts = np.searchsorted(class_of[order], np.arange(int(class_of.max()) + 1))
    scaled_centers, logs = centers[order] / variance, np.empty((len(Z), len(starts)))
    offsets = 0.5 * (centers[order] * scaled_centers).sum(axis=1)
    for start in range(0, len(Z), AT_ONCE):
        rows = Z[start : start + AT_ONCE]
        exponents = rows @ scaled_centers.T
        exponents -= offsets
        largest = np.maximum.reduceat(exponents, starts, axis=1)
        top = largest.max(axis=1, keepdims=True)
        exponents -= top
        shares = np.add.reduceat(np.exp(exponents, out=exponents), starts, axis=1)
        # a class whose groups are all far has the share of its nearest group
        sums = np.where(
            shares > np.finfo(float).tiny, np.log(np.maximum(shares, np.finfo(float).tiny)) + top, largest
        )
        logs[start : start + AT_ONCE] = sums - 0.5 * squared_norms(rows)[:, None] / variance
    return logs - math.log(len(centers))


def nearest_in_class(
    Z: Floats, centers: Floats, class_of: NDArray[np.int64], classes: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the nearest group of each row among those of its class."""
    groups = np.empty(len(Z), np.int64)
    for c in np.unique(classes).tolist():
        members, rows = np.flatnonzero(class_of == c), np.flatnonzero(classes == c)
        squares = 0.5 * np.square(centers[members]).sum(axis=1) - Z[rows] @ centers[members].T
        groups[rows] = members[squares.argmin(axis=1)]
    return groups


def refine(
    Z: Floats, groups: NDArray[np.int64], class_of: NDArray[np.int64], answers: Answers, variance: float
) -> SoftPartition:
    """Move rows between classes until distances and answers agree, and groups to their rows."""
    answered_rows = np.unique(answers.pairs)
    centers, classes = means_of(Z, groups, len(class_of)), class_of[groups]
    n_classes = int(class_of.max()) + 1
    for _ in range(ROUNDS):
        logs = class_logs(Z, centers, class_of, variance)
        shares = normalised(logs)
        shares[answered_rows] = np.eye(n_classes)[classes[answered_rows]]
        settle_shares(logs, answers, shares)
        classes = shares.argmax(axis=1)
        groups = nearest_in_class(Z, centers, class_of, classes)
        empty = np.bincount(groups, minlength=len(class_of)) == 0
        centers = np.where(empty[:, None], centers, means_of(Z, groups, len(class_of)))
    constant = 0.5 * Z.shape[1] * math.log(2.0 * math.pi * variance)
    features, annotations = bound_of(logs, answers, shares)
    return SoftPartition(centers, shares, features - constant * len(Z), annotations)


def bound_of(logs: Floats, answers: Answers, shares: Floats) -> tuple[float, float]:
    """Return the bound of a soft partition, nats: of features with the entropy, and of answers."""
    entropy = -float((shares * np.log(np.maximum(shares, np.finfo(float).tiny))).sum())
    joint_shares = (shares[answers.pairs[:, 0]] * shares[answers.pairs[:, 1]]).sum(axis=1)
    agreements = np.where(answers.signs > 0.0, joint_shares, 1.0 - joint_shares)
    likelihoods = agreements * np.log(answers.accuracies) + (1.0 - agreements) * np.log1p(-answers.accuracies)
    return float((shares * logs).sum()) + entropy, float(answers.weights @ likelihoods)


def normalised(logs: Floats) -> Floats:
    """Return shares whose logarithms are these, up to a constant for each row."""
    shares = np.exp(logs - logs.max(axis=1, keepdims=True))
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


def settle_shares(logs: Floats, answers: Answers, shares: Floats) -> None:
    """Change the shares of rows with answers until they agree with the features and with each other."""
    ways, odds = both_ways(answers.pairs, len(logs)), answers.odds
    settle(logs, ways, odds, shares)
    escape(logs, ways, odds, shares)
