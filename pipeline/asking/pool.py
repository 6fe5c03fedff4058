"""Pairs to choose from: all of them, or where there are too many a sample of those that may matter."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pipeline.asking.belief import Belief

Pairs = NDArray[np.integer]
"""Of shape (n_pairs, 2): samples from 0."""

LARGEST = 40_000
"""All pairs of 283 samples. More than that are sampled: 200 draws of so many pairs are 8 MB."""

LEAST_DOUBT = 1e-3
"""Every sample may come, also one that is in the same cluster in all draws."""


def draw_pool(belief: Belief, answers: Pairs, rng: np.random.Generator) -> Pairs:
    """Pairs to choose from, in random order, so that ties are broken at random.

    Parameters
    ----------
    belief : Belief
        What is known.
    answers : ndarray of shape (n_answers, 3)
        Annotations so far: pairs that were asked may be asked again.
    rng : numpy.random.Generator
        Of all randomness.

    Returns
    -------
    ndarray of shape (n_pairs, 2)
        Each pair once, the lower sample first: all pairs if there are at most `LARGEST`. Else a sample of
        about that many: a half joins a sample drawn by its doubt with another one drawn so, a quarter with
        any other, a quarter joins any two; and the pairs that were asked.
    """
    n_samples = len(belief.X)
    if n_samples * (n_samples - 1) // 2 <= LARGEST:
        pairs = all_pairs(n_samples)
    else:
        doubt = 1.0 - belief.membership.max(axis=1) + LEAST_DOUBT
        doubtful = rng.choice(n_samples, size=(3, LARGEST // 2), p=doubt / doubt.sum())
        anyone = rng.integers(0, n_samples, size=(3, LARGEST // 4))
        sampled = [
            np.column_stack([doubtful[0], doubtful[1]]),
            np.column_stack([doubtful[2, : LARGEST // 4], anyone[0]]),
            np.column_stack([anyone[1], anyone[2]]),
        ]
        pairs = distinct(np.concatenate([answers[-LARGEST:, :2], *sampled]))
    return pairs[rng.permutation(len(pairs))]


def all_pairs(n_samples: int) -> Pairs:
    """Every pair of two samples, the lower one first."""
    first, second = np.triu_indices(n_samples, 1)
    return np.column_stack([first, second])


def distinct(pairs: Pairs) -> Pairs:
    """Each pair of two samples once, where it comes first, the lower sample first."""
    ordered = np.sort(np.asarray(pairs, dtype=np.int64).reshape(-1, 2), axis=1)
    ordered = ordered[ordered[:, 0] < ordered[:, 1]]
    _, first = np.unique(ordered, axis=0, return_index=True)
    return ordered[np.sort(first)]
