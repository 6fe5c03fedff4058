"""Methods in which a link that is broken costs something, and none has to be kept."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pipeline.methods.contract import Links, Solution, Weights
from pipeline.methods.shipped.components import must_components
from pipeline.methods.shipped.moves import SignedGraph, settle
from pipeline.methods.shipped.squares import centroids_of, padded, spread_out, squared_distances


def pckmeans(
    X: NDArray[np.float64],
    n_clusters: int,
    must_link: Links,
    cannot_link: Links,
    *,
    weights: Weights,
    accuracy: float | None,
    random_state: int,
    penalty: float | None = None,
    max_iter: int = 100,
) -> Solution:
    r"""k-means with a cost for each broken link, PCKMeans (Basu, Banerjee and Mooney 2004).

    What is minimised, and minus which is the objective, is

    .. math::

        \frac{1}{2} \sum_i \lVert x_i - \mu_{l_i} \rVert^2
        + \lambda \sum_{(i,j) \in M} w_{ij} [l_i \ne l_j] + \lambda \sum_{(i,j) \in C} w_{ij} [l_i = l_j]

    with w how often a pair was annotated. Samples move one at a time, in random order, until none gains; then
    centroids follow; and again, until nothing changes. As published, the first centroids are those of
    neighbourhoods, sets of two samples or more that must-links join. Which of them is drawn, each next one by
    its size times its squared distance to those there are, where the publication takes the largest ones: so
    restarts differ. Where there are too few neighbourhoods, samples are drawn in the same way (k-means++).

    Parameters
    ----------
    X, n_clusters, must_link, cannot_link, weights, accuracy, random_state
        See `pipeline.methods.contract.Method`; the accuracy is not used.
    penalty : float, optional
        :math:`\lambda`, in squared units of the features. By default
        :math:`\frac{1}{2N} \sum_i \lVert x_i - \bar x \rVert^2`, what an average sample costs in one cluster
        of all, which makes the result independent of these units; the publication has 1.
    max_iter : int
        Most updates of the centroids.

    Returns
    -------
    Solution
        With objective and centroids.

    Raises
    ------
    ValueError
        If `penalty` is negative.
    """
    if penalty is None:
        penalty = 0.5 * float(((X - X.mean(axis=0)) ** 2).sum(axis=1).mean())
    if penalty < 0:
        raise ValueError(f"penalty: found {penalty}, expected 0 or more")
    rng = np.random.default_rng(random_state)
    costs = (penalty * weights[0], penalty * weights[1])
    graph = SignedGraph.of(len(X), must_link, cannot_link, costs)
    centroids = _first_centroids(X, n_clusters, must_link, rng)
    labels = squared_distances(X, centroids).argmin(axis=1)
    for _ in range(max_iter):
        moved = settle(labels, -0.5 * squared_distances(X, centroids), graph, rng)
        settled = centroids_of(X, moved, centroids)
        if np.array_equal(moved, labels) and np.array_equal(settled, centroids):
            break
        labels, centroids = moved, settled
    inertia = float(((X - centroids[labels]) ** 2).sum())
    cost = 0.5 * inertia + _broken(labels, must_link, cannot_link, costs)
    return Solution(labels, -cost, padded(centroids, n_clusters))


def _first_centroids(
    X: NDArray[np.float64], n_clusters: int, must_link: Links, rng: np.random.Generator
) -> NDArray[np.float64]:
    components = must_components(len(X), must_link)
    sizes = np.bincount(components)
    shared = np.flatnonzero(sizes > 1)
    centers = np.empty((0, X.shape[1]))
    if len(shared):
        sums = np.stack([np.bincount(components, weights=feature) for feature in X.T], axis=1)
        neighbourhoods = sums[shared] / sizes[shared, None]
        centers = spread_out(neighbourhoods, sizes[shared].astype(np.float64), centers, n_clusters, rng)
    return spread_out(X, np.ones(len(X)), centers, n_clusters, rng)


def _broken(labels: NDArray[np.int64], must_link: Links, cannot_link: Links, costs: Weights) -> float:
    apart = labels[must_link[:, 0]] != labels[must_link[:, 1]]
    together = labels[cannot_link[:, 0]] == labels[cannot_link[:, 1]]
    return float(costs[0][apart].sum() + costs[1][together].sum())


def correlation_clustering(
    X: NDArray[np.float64],
    n_clusters: int,
    must_link: Links,
    cannot_link: Links,
    *,
    weights: Weights,
    accuracy: float | None,
    random_state: int,
) -> Solution:
    r"""Most agreement with the annotations, whatever the features (Bansal, Blum and Chawla 2004).

    With at most K clusters, the objective is

    .. math:: \sum_{(i,j) \in M} w_{ij} [l_i = l_j] + \sum_{(i,j) \in C} w_{ij} [l_i \ne l_j] ,

    the number of annotations that are kept. A call is one start: samples come in along the links, from a
    random one of each part of the annotation graph, each to the cluster it agrees with most (ties at random);
    then single samples move until none gains. Restarts are other starts. Parts of the graph that no link
    joins are labelled independently of each other, as nothing says which clusters belong together; samples
    without links go to the largest cluster of the others, or all to the first one where there are no links.

    Parameters
    ----------
    X, n_clusters, must_link, cannot_link, weights, accuracy, random_state
        See `pipeline.methods.contract.Method`; of the features only the number of samples is used.

    Returns
    -------
    Solution
        With the objective, a number of annotations.
    """
    rng = np.random.default_rng(random_state)
    graph = SignedGraph.of(len(X), must_link, cannot_link, weights)
    labels = _along_links(graph, n_clusters, rng)
    labels = settle(labels, np.zeros((len(X), n_clusters)), graph, rng)
    linked = graph.degrees > 0
    if linked.any():
        labels[~linked] = np.bincount(labels[linked], minlength=n_clusters).argmax()
    # kept = all the cannot-links + what pairs within clusters add to that
    return Solution(labels, float(weights[1].sum()) + graph.agreement(labels))


def _along_links(graph: SignedGraph, n_clusters: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Labels of samples that come in one after the other, each to the best cluster so far."""
    n_samples = len(graph.starts) - 1
    labels = np.zeros(n_samples, dtype=np.int64)
    worth = np.zeros((n_samples, n_clusters))
    seen = graph.degrees == 0  # nothing is known of those without links
    for first in rng.permutation(np.flatnonzero(~seen)).tolist():
        queue = [] if seen[first] else [first]
        seen[first] = True
        for sample in queue:
            best = np.flatnonzero(worth[sample] == worth[sample].max())
            labels[sample] = rng.choice(best)
            neighbours, weights = graph.around(sample)
            worth[neighbours, labels[sample]] += weights
            fresh = rng.permutation(neighbours[~seen[neighbours]])
            seen[fresh] = True
            queue.extend(fresh.tolist())
    return labels
