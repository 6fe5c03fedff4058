"""k-means that breaks no link."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pipeline.methods.contract import Links, NoSolution, Solution, Weights
from pipeline.methods.shipped.components import contradicted, must_components
from pipeline.methods.shipped.squares import centroids_of, padded, spread_out, squared_distances


def cop_kmeans(
    X: NDArray[np.float64],
    n_clusters: int,
    must_link: Links,
    cannot_link: Links,
    *,
    weights: Weights,
    accuracy: float | None,
    random_state: int,
    orders: int = 10,
    max_iter: int = 100,
) -> Solution:
    r"""k-means that breaks no link, COP-KMeans (Wagstaff, Cardie, Rogers and Schroedl 2001).

    Links are closed under transitivity: samples that must-links join are one set, and a cannot-link between
    two of them is one between their sets. Samples come in one after the other, each to the nearest centroid
    of a cluster that none of its cannot-links forbids; it takes its set with it. Centroids follow, and again,
    until nothing changes. The search is greedy: it may get stuck with a sample that every cluster forbids,
    though there are clusters that keep all links. Then it tries another order of samples. Greedy steps may
    also increase the inertia; the best clusters of the way are returned. The objective is minus the inertia,

    .. math:: -\sum_i \lVert x_i - \mu_{l_i} \rVert^2 .

    Centroids start as k-means++ has them, where the publication draws samples.

    Parameters
    ----------
    X, n_clusters, must_link, cannot_link, weights, accuracy, random_state
        See `pipeline.methods.contract.Method`; neither weights nor accuracy are used.
    orders : int
        Random orders of samples to try before giving up.
    max_iter : int
        Most updates of the centroids.

    Returns
    -------
    Solution
        With objective, in squared units of the features, and centroids.

    Raises
    ------
    NoSolution
        If links contradict each other, or the search got stuck in every order.
    """
    components = must_components(len(X), must_link)
    wrong = contradicted(components, cannot_link)
    if len(wrong):
        pair = f"{wrong[0, 0]} and {wrong[0, 1]}"
        raise NoSolution(f"{len(wrong)} cannot-links between samples that must-links join, such as {pair}")
    rng = np.random.default_rng(random_state)
    sets = _Sets(components, cannot_link)
    centroids = spread_out(X, np.ones(len(X)), np.empty((0, X.shape[1])), n_clusters, rng)
    best: Solution | None = None
    labels = np.full(len(X), -1)
    for _ in range(max_iter):
        moved = _assigned(squared_distances(X, centroids), sets, rng, orders)
        if moved is None:
            break
        centroids = centroids_of(X, moved, centroids)
        objective = -float(((X - centroids[moved]) ** 2).sum())
        if best is None or best.objective is None or objective > best.objective:
            best = Solution(moved, objective, padded(centroids, n_clusters))
        if np.array_equal(moved, labels):
            break
        labels = moved
    if best is None:
        raise NoSolution(f"stuck in each of {orders} orders of the samples")
    return best


class _Sets:
    """Sets of samples that must-links join, and which of them cannot be together."""

    def __init__(self, components: NDArray[np.int64], cannot_link: Links) -> None:
        self.components = components
        self.apart: dict[int, set[int]] = {}
        for one, other in components[cannot_link].tolist():
            self.apart.setdefault(one, set()).add(other)
            self.apart.setdefault(other, set()).add(one)
        sizes = np.bincount(components)
        bound = sizes > 1
        bound[list(self.apart)] = True
        self.bound = np.flatnonzero(bound[components])
        """Samples whose order matters."""


def _assigned(
    distances: NDArray[np.float64], sets: _Sets, rng: np.random.Generator, orders: int
) -> NDArray[np.int64] | None:
    """Nearest clusters that keep all links; None if every order gets stuck."""
    labels: NDArray[np.int64] = distances.argmin(axis=1)
    nearest = np.argsort(distances[sets.bound], axis=1, kind="stable").tolist()
    names = sets.components[sets.bound].tolist()
    for _ in range(orders):
        found = _placed(rng.permutation(len(names)).tolist(), names, nearest, sets.apart)
        if found is not None:
            labels[sets.bound] = [found[name] for name in names]
            return labels
    return None


def _placed(
    order: list[int], names: list[int], nearest: list[list[int]], apart: dict[int, set[int]]
) -> dict[int, int] | None:
    """Cluster of each set, where the first of its samples that comes in decides."""
    placed: dict[int, int] = {}
    for place in order:
        name = names[place]
        if name in placed:
            continue
        forbidden = {placed[other] for other in apart.get(name, ()) if other in placed}
        free = next((cluster for cluster in nearest[place] if cluster not in forbidden), None)
        if free is None:
            return None
        placed[name] = free
    return placed
