"""Drawing of annotation graphs from true labels."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

MUST, CANNOT = 0, 1
"""Kinds of an annotation."""

MOST_ANNOTATIONS = 10**7
"""Of a file that cells draw from. Each takes 12 bytes in cube and workers; a line may stand for many."""


def draw_annotations(
    rng: np.random.Generator, labels_true: NDArray[np.integer], *, p: float, m: int
) -> NDArray[np.int32]:
    """Draw `m` annotations of accuracy `p` (docs/model.md, eq. (26)).

    Both ends of a pair are independent and uniform over the samples, so that a self pair has probability 1/N
    and the N² ordered pairs of the objective are exact. A pair whose true labels agree, a self pair included,
    becomes a must-link with probability `p`; one whose labels differ with probability `1 - p`.

    Parameters
    ----------
    rng : numpy.random.Generator
        Stream of this annotation graph.
    labels_true : ndarray of shape (n_samples,)
        True labels.
    p : float
        Accuracy in (0, 1], exact: p = 1 draws no error.
    m : int
        Number of annotations, self pairs counted.

    Returns
    -------
    ndarray of shape (m, 3), int32
        Columns i, j and kind (`MUST` or `CANNOT`).
    """
    n_samples = len(labels_true)
    i = rng.integers(0, n_samples, size=m)
    j = rng.integers(0, n_samples, size=m)
    return answer_pairs(rng, labels_true, np.column_stack([i, j]), p=p)


def answer_pairs(
    rng: np.random.Generator,
    labels_true: NDArray[np.integer],
    pairs: NDArray[np.integer],
    *,
    p: float,
) -> NDArray[np.int32]:
    """Annotate given pairs with accuracy `p`.

    Parameters
    ----------
    rng : numpy.random.Generator
        Stream of the answers.
    labels_true : ndarray of shape (n_samples,)
        True labels.
    pairs : ndarray of shape (n_pairs, 2)
        Samples from 0.
    p : float
        Accuracy in (0, 1].

    Returns
    -------
    ndarray of shape (n_pairs, 3), int32
        Columns i, j and kind (`MUST` or `CANNOT`).
    """
    right = rng.random(len(pairs)) < p
    agrees = labels_true[pairs[:, 0]] == labels_true[pairs[:, 1]]
    kind = np.where(agrees == right, MUST, CANNOT)
    return np.column_stack([pairs, kind]).astype(np.int32)
