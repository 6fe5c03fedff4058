"""Questions before there is any answer."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pipeline.asking.belief import Belief
from pipeline.asking.pool import Pairs, all_pairs, distinct
from pipeline.asking.scored import Scored, scored

CLIQUE = 3
"""Samples that are all asked against each other: of three answers, two check the third."""

TRIES = 10
"""Cliques drawn for each one needed, before any pairs are taken: few samples have few cliques."""


def cold_start(belief: Belief, count: int, rng: np.random.Generator) -> Scored:
    """Small cliques of samples that are far from each other, all pairs of each.

    The samples of a clique are drawn as k-means++ draws its centres: each by its squared distance to the
    nearest one before it. The draws of a model without annotations play no part: where the features mislead
    it, it is sure of what is wrong.

    Parameters
    ----------
    belief : Belief
        Of the features alone.
    count : int
        Pairs.
    rng : numpy.random.Generator
        Of all randomness.
    """
    size = min(CLIQUE, len(belief.X))
    within = all_pairs(size)
    pairs: Pairs = np.empty((0, 2), dtype=np.int64)
    for _ in range(TRIES * (count // len(within) + 1)):
        if len(pairs) >= count:
            break
        pairs = distinct(np.concatenate([pairs, draw_spread(belief.X, size, rng)[within]]))
    if len(pairs) < count:
        pairs = distinct(np.concatenate([pairs, rng.permutation(all_pairs(len(belief.X)))]))
    return scored(belief, pairs[:count])


def draw_spread(X: NDArray[np.float64], count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Samples far from each other: each is drawn by its squared distance to the nearest before it.

    Where all others lie on those drawn already, it is drawn uniformly from them.
    """
    chosen = [int(rng.integers(len(X)))]
    nearest = np.full(len(X), np.inf)
    while len(chosen) < count:
        nearest = np.minimum(nearest, np.square(X - X[chosen[-1]]).sum(axis=1))
        nearest[chosen] = 0.0
        weights = nearest if nearest.any() else (~np.isin(np.arange(len(X)), chosen)).astype(float)
        chosen.append(int(rng.choice(len(X), p=weights / weights.sum())))
    return np.array(chosen)
