"""Strategies: from a belief and the answers so far to the pairs to ask next, best first."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.asking.belief import Belief

Pairs = NDArray[np.integer]
Floats = NDArray[np.float64]

LARGEST_POOL = 40_000
LEAST_NOISE = 1e-3


class Scored(NamedTuple):
    """Pairs to ask, best first, and what each is worth.

    Parameters
    ----------
    pairs : ndarray of shape (n_pairs, 2)
        Samples from 0, the first one lower; no pair twice.
    scores : ndarray of shape (n_pairs,)
        By the measure of the strategy.
    """

    pairs: Pairs
    scores: Floats


Strategy = Callable[[Belief, Pairs, int, np.random.Generator], Scored]
"""From a belief, the annotations so far (columns i, j, kind), how many pairs, and a random stream."""


def candidates(belief: Belief, rng: np.random.Generator) -> Pairs:
    """Pairs to choose from: all of them, or a sample in which doubtful samples come often."""
    n_samples = len(belief.X)
    if n_samples * (n_samples - 1) // 2 <= LARGEST_POOL:
        return np.column_stack(np.triu_indices(n_samples, 1))
    doubt = 1.0 - belief.membership.max(axis=1) + 1e-3
    first = rng.choice(n_samples, size=LARGEST_POOL // 2, p=doubt / doubt.sum())
    other = rng.integers(0, n_samples, size=LARGEST_POOL // 2)
    both = rng.integers(0, n_samples, size=(LARGEST_POOL // 2, 2))
    return distinct(np.concatenate([np.column_stack([first, other]), both]))


def distinct(pairs: Pairs) -> Pairs:
    """Each pair of two samples once, the lower sample first."""
    ordered = np.sort(pairs, axis=1)
    ordered = ordered[ordered[:, 0] < ordered[:, 1]]
    _, first = np.unique(ordered[:, 0] * (ordered.max() + 1) + ordered[:, 1], return_index=True)
    return ordered[np.sort(first)]


def uniform(belief: Belief, answers: Pairs, count: int, rng: np.random.Generator) -> Scored:
    """Any pairs."""
    pairs = distinct(rng.integers(0, len(belief.X), size=(4 * count + 20, 2)))[:count]
    return Scored(pairs, np.zeros(len(pairs)))


def answer_entropy(shares: Floats, accuracy: float) -> Floats:
    """Nats: entropy of the answer, given that an annotator of the accuracy is asked."""
    yes = np.clip(accuracy * shares + (1.0 - accuracy) * (1.0 - shares), 1e-12, 1 - 1e-12)
    return -(yes * np.log(yes) + (1.0 - yes) * np.log(1.0 - yes))


def uncertain(belief: Belief, answers: Pairs, count: int, rng: np.random.Generator) -> Scored:
    """Pairs whose answers are hardest to predict."""
    pairs = candidates(belief, rng)
    pairs = pairs[rng.permutation(len(pairs))]
    scores = answer_entropy(belief.together(pairs), belief.accuracy)
    best = np.argsort(-scores, kind="stable")[:count]
    return Scored(pairs[best], scores[best])


def information(belief: Belief, answers: Pairs, count: int, rng: np.random.Generator) -> Scored:
    """Pairs whose answers together say the most of which samples belong together."""
    pairs = candidates(belief, rng)
    pairs = pairs[rng.permutation(len(pairs))]
    noise = max(belief.accuracy * (1 - belief.accuracy) / (2 * belief.accuracy - 1) ** 2, 1e-2)
    phi = belief.joined(pairs).astype(np.float32)
    phi -= phi.mean(axis=0)
    phi /= np.sqrt(len(phi))
    variance = (phi**2).sum(axis=0) + 1e-9
    chosen, scores = [], []
    inverse = np.eye(len(phi), dtype=np.float64)
    left = np.ones(len(pairs), dtype=bool)
    for _ in range(min(count, len(pairs))):
        best = int(np.argmax(np.where(left, variance, -1)))
        chosen.append(best)
        scores.append(0.5 * np.log1p(variance[best] / noise))
        left[best] = False
        u = inverse @ phi[:, best]
        v = float(phi[:, best] @ u)
        inverse -= np.outer(u, u) / (noise + v)
        variance -= (u.astype(np.float32) @ phi) ** 2 / (noise + v)
    return Scored(pairs[chosen], np.array(scores))


STRATEGIES: dict[str, Strategy] = {"information": information, "uncertain": uncertain, "uniform": uniform}
"""All strategies by name."""
