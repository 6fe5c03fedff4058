"""Problems so small that all partitions can be tried."""

from __future__ import annotations

import numpy as np
from solving.oracles import (
    Case,
)

from kernels.problem.problem import Layer
from kernels.search.genetic import Restart

MODELS = ["unsupervised", "likelihood", "posterior", "conditional"]


COVARIANCES = ["spherical", "common", "diagonal", "tied", "full"]


def tiny_case(seed: int, n_clusters: int, model: str, n_samples: int) -> Case:
    """Samples in groups, all annotated, one annotation in five wrong; "unknown" is conditional without p."""
    rng = np.random.default_rng(seed)
    truth = np.arange(n_samples) % n_clusters
    X = rng.normal(size=(n_samples, 2)) + 5.0 * np.column_stack([truth == 1, truth == 2])
    i, j = np.arange(n_samples), rng.integers(0, n_samples, size=n_samples)
    kinds = (truth[i] != truth[j]) ^ (rng.random(n_samples) < 0.2)
    pairs = np.column_stack([i, j])
    accuracy = None if model == "unknown" else 0.8
    layers = [Layer(kind, pairs[kinds == kind], None, accuracy) for kind in (0, 1)]
    return Case(X, layers, n_clusters, "conditional" if model == "unknown" else model)


def same(first: Restart, second: Restart) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))
