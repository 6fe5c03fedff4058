"""Drawing of annotation graphs from true labels."""

import numpy as np
from numpy.typing import NDArray

# Kinds of an annotation.
MUST, CANNOT = 0, 1

# Of a file that cells draw from. Each takes 12 bytes in cube and workers; a line may stand for many.
MOST_ANNOTATIONS = 10**7

# How many times as often as others a biased design draws the samples of the first third of an order.
OFTEN = 5.0


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


def draw_biased(
    rng: np.random.Generator,
    labels_true: NDArray[np.integer],
    order: NDArray[np.integer],
    *,
    p: float,
    m: int,
) -> NDArray[np.int32]:
    """Draw `m` annotations of accuracy `p`, some samples more often than others.

    Both ends of a pair are independent. The samples of the first third of `order` have `OFTEN` times the
    probability of the others. Pairs are annotated as those of `draw_annotations` are.

    Parameters
    ----------
    rng, labels_true, p, m
        As for `draw_annotations`.
    order : ndarray of shape (n_samples,)
        All samples, from 0.

    Returns
    -------
    ndarray of shape (m, 3), int32
        Columns i, j and kind.
    """
    n_samples = len(labels_true)
    weights = np.ones(n_samples)
    weights[order[: n_samples // 3]] = OFTEN
    pairs = rng.choice(n_samples, size=(m, 2), p=weights / weights.sum())
    return answer_pairs(rng, labels_true, pairs, p=p)


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
