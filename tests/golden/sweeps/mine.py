"""Two methods of a user: one finds no solution at times, and one fails."""

import numpy as np

from pipeline import NoSolution, Solution


def nearest(X, n_clusters, must_link, cannot_link, *, weights, accuracy, random_state, pull=0.0):
    if {*map(tuple, must_link.tolist())} & {*map(tuple, cannot_link.tolist())}:
        raise NoSolution("a pair is annotated both ways")
    rng = np.random.default_rng(random_state)
    centers = X[rng.choice(len(X), n_clusters, replace=False)]
    distances = ((X[:, None] - centers) ** 2).sum(axis=2) - pull * accuracy
    return Solution(distances.argmin(axis=1), objective=-distances.min(axis=1).sum())


def broken(X, n_clusters, must_link, cannot_link, **more):
    if len(X) == 30 and X[0, 0] > 0.0:
        raise ArithmeticError("no labels for these 30 samples")
    return np.arange(len(X)) % n_clusters
