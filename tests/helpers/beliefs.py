"""Beliefs are made up of draws here, without a search."""

import numpy as np
from numpy.typing import ArrayLike

from sweep_clustering.pipeline.asking.belief import Belief

NO_ANSWERS = np.empty((0, 3), dtype=np.int32)


def made_up(draws: ArrayLike, *, accuracy: float = 0.9, X: ArrayLike | None = None) -> Belief:
    """Return the belief of some draws; its solution is the first of them."""
    labels = np.asarray(draws, dtype=np.int16)
    features = np.arange(labels.shape[1], dtype=float)[:, None] if X is None else np.asarray(X, dtype=float)
    return Belief(features, labels[0], labels, int(labels.max()) + 1, accuracy, "spherical")


def random_belief(seed: int, *, accuracy: float = 0.9) -> Belief:
    """Return thirty draws that differ from one partition of twelve samples in a few labels each."""
    rng = np.random.default_rng(seed)
    base = rng.integers(0, 3, size=12)
    draws = np.where(rng.random((30, 12)) < 0.25, rng.integers(0, 3, size=12), base)
    return made_up(draws, accuracy=accuracy, X=rng.normal(size=(12, 2)))
