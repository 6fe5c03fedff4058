"""Methods that use links: `cop_kmeans` keeps all of them, `pckmeans` and `correlation_clustering` pay for
broken ones.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components

from sweep_clustering.pipeline.methods.contract import Floats, Integers, Links, NoSolution, Solution, Weights


def must_components(n_samples: int, must_link: NDArray[np.integer]) -> Integers:
    """Return the number of the set of each sample, from 0; chains of must-links join samples of a set."""
    entries = np.ones(len(must_link), dtype=np.int8)
    link_matrix = coo_array((entries, (must_link[:, 0], must_link[:, 1])), shape=(n_samples, n_samples))
    return np.asarray(connected_components(link_matrix, directed=False)[1], dtype=np.int64)


# Gains below this share of the largest come from rounding, and cause no move.
TIES = 1e-12


def signed_graph(n_samples: int, must_link: Links, cannot_link: Links, weights: Weights) -> csr_array:
    """Return the annotation graph as a matrix (n_samples, n_samples), with each pair in both rows.

    The weight is that of the must-link less that of the cannot-link; pairs that contradict themselves evenly
    are left out. A row has the samples after its own first: draws and sums follow this order.
    """
    pairs = np.concatenate([must_link, cannot_link])
    signed = np.concatenate([weights[0], -weights[1]])
    pairs, places = np.unique(pairs, axis=0, return_inverse=True)
    totals = np.bincount(places.ravel(), weights=signed, minlength=len(pairs))
    pairs, totals = pairs[totals != 0], totals[totals != 0]
    ends = np.concatenate([pairs[:, 0], pairs[:, 1]])
    neighbours = np.concatenate([pairs[:, 1], pairs[:, 0]])
    order = np.argsort(ends, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(ends, minlength=n_samples))])
    values = np.concatenate([totals, totals])[order]
    return csr_array((values, neighbours[order], starts), shape=(n_samples, n_samples))


def neighbours_of(graph: csr_array, sample: int) -> tuple[Integers, Floats]:
    """Return the samples that one is linked with, and the weights of the links."""
    row = slice(graph.indptr[sample], graph.indptr[sample + 1])
    return graph.indices[row], graph.data[row]


def settle(labels: Integers, pull: Floats, graph: csr_array, rng: np.random.Generator) -> Integers:
    r"""Return labels from which no move of a single sample gains, after moves of one sample at a time.

    They increase

    .. math:: \sum_i g_{i l_i} + \sum_{i<j} s_{ij} [l_i = l_j]

    with the pull g (n_samples, n_clusters) of the clusters and the links s of the graph. Samples that would
    gain are visited in random order, and judged again when it is their turn.
    """
    labels = labels.copy()
    gains = pull.copy()
    links = graph.tocoo()
    np.add.at(gains, (links.row, labels[links.col]), links.data)
    tolerance = TIES * max(1.0, float(np.abs(gains).max(initial=0.0)))
    rows = np.arange(len(labels))
    while True:
        movable_samples = np.flatnonzero(gains.max(axis=1) - gains[rows, labels] > tolerance)
        if not len(movable_samples):
            return labels
        for sample in rng.permutation(movable_samples).tolist():
            best = int(gains[sample].argmax())
            current = int(labels[sample])
            if gains[sample, best] - gains[sample, current] > tolerance:
                neighbours, weights = neighbours_of(graph, sample)
                gains[neighbours, current] -= weights
                gains[neighbours, best] += weights
                labels[sample] = best


def squared_distances(X: Floats, centroids: Floats) -> Floats:
    """Return the squared distances (n_samples, n_clusters) of samples to centroids."""
    # One centroid at a time: exact where samples lie close together, and no array of three dimensions.
    return np.stack([((X - center) ** 2).sum(axis=1) for center in centroids], axis=1)


def centroids_of(X: Floats, labels: Integers, centers: Floats) -> Floats:
    """Return the means of clusters; an empty one stays where it was before."""
    sizes = np.bincount(labels, minlength=len(centers))
    sums = np.stack([np.bincount(labels, weights=feature, minlength=len(centers)) for feature in X.T], axis=1)
    return np.asarray(np.where(sizes[:, None] > 0, sums / np.maximum(sizes, 1)[:, None], centers))


def spread_out(
    candidates: Floats, weights: Floats, centers: Floats, n_centers: int, rng: np.random.Generator
) -> Floats:
    """Add centres, drawn from candidates far from the present ones: k-means++ (Arthur and Vassilvitskii
    2007).

    The probability of a candidate is its weight times its squared distance to the nearest centre. Each is
    drawn once; if there are fewer than needed, all of them are taken. Present centres (n_present, n_features)
    come first.
    """
    is_taken = np.zeros(len(candidates), dtype=bool)
    distances = (
        squared_distances(candidates, centers).min(axis=1) if len(centers) else np.ones(len(candidates))
    )
    all_centers = list(centers)
    while len(all_centers) < n_centers and not is_taken.all():
        probabilities = np.where(is_taken, 0.0, weights * distances)
        if probabilities.sum() <= 0:  # all candidates lie on centres
            probabilities = np.where(is_taken, 0.0, weights)
        place = int(rng.choice(len(candidates), p=probabilities / probabilities.sum()))
        is_first = not all_centers
        all_centers.append(candidates[place])
        is_taken[place] = True
        new_distances = ((candidates - candidates[place]) ** 2).sum(axis=1)
        distances = new_distances if is_first else np.minimum(distances, new_distances)
    return np.array(all_centers).reshape(-1, candidates.shape[1])


def padded(centroids: Floats, n_clusters: int) -> Floats:
    """Return the centroids of all clusters, NaN for those beyond the number of samples."""
    padding = np.full((n_clusters - len(centroids), centroids.shape[1]), np.nan)
    return np.concatenate([centroids, padding])


def cop_kmeans(
    X: Floats,
    n_clusters: int,
    must_link: Links,
    cannot_link: Links,
    *,
    random_state: int,
    orders: int = 10,
    max_iter: int = 100,
) -> Solution:
    r"""Cluster by k-means that breaks no link, COP-KMeans (Wagstaff, Cardie, Rogers and Schroedl 2001).

    Links are closed under transitivity: samples that must-links join are one set, and a cannot-link between
    two of them is one between their sets. Samples come one after the other, each with its set, to the nearest
    centroid of a cluster that none of its cannot-links forbids. Centroids follow, and so on until nothing
    changes. The search is greedy: it may get stuck with a sample that every cluster forbids, though there are
    clusters that keep all links. Then it tries another of `orders` random orders of samples. Greedy steps may
    also increase the inertia; the best clusters of at most `max_iter` updates are returned. The objective is
    minus the inertia, in squared units of the features,

    .. math:: -\sum_i \lVert x_i - \mu_{l_i} \rVert^2 .

    Centroids start as in k-means++, where the publication draws samples. There is no solution if links
    contradict each other, or the search got stuck in every order.
    """
    components = must_components(len(X), must_link)
    # no clusters keep a cannot-link within a set that must-links join
    contradictions = cannot_link[components[cannot_link[:, 0]] == components[cannot_link[:, 1]]]
    if len(contradictions):
        pair = f"{contradictions[0, 0]} and {contradictions[0, 1]}"
        raise NoSolution(
            f"{len(contradictions)} cannot-links between samples that must-links join, such as {pair}"
        )
    forbidden: dict[int, set[int]] = {}
    for first, second in components[cannot_link].tolist():
        forbidden.setdefault(first, set()).add(second)
        forbidden.setdefault(second, set()).add(first)
    is_bound = np.bincount(components) > 1
    is_bound[list(forbidden)] = True
    # the order of samples in a set of several, or with a cannot-link, matters
    bound_samples = np.flatnonzero(is_bound[components])
    rng = np.random.default_rng(random_state)
    centroids = spread_out(X, np.ones(len(X)), np.empty((0, X.shape[1])), n_clusters, rng)
    best: Solution | None = None
    labels = np.full(len(X), -1)
    for _ in range(max_iter):
        distances = squared_distances(X, centroids)
        clusters = _place_sets(
            distances[bound_samples], components[bound_samples].tolist(), forbidden, rng, orders
        )
        if clusters is None:
            break
        new_labels = distances.argmin(axis=1)
        new_labels[bound_samples] = [clusters[part] for part in components[bound_samples].tolist()]
        centroids = centroids_of(X, new_labels, centroids)
        objective = -float(((X - centroids[new_labels]) ** 2).sum())
        if best is None or best.objective is None or objective > best.objective:
            best = Solution(new_labels, objective, padded(centroids, n_clusters))
        if np.array_equal(new_labels, labels):
            break
        labels = new_labels
    if best is None:
        raise NoSolution(f"stuck in each of {orders} orders of the samples")
    return best


def _place_sets(
    distances: Floats, sets: list[int], forbidden: dict[int, set[int]], rng: np.random.Generator, orders: int
) -> dict[int, int] | None:
    """Return the cluster of each set, chosen by the first of its samples; None if every order gets stuck.

    Distances (n_samples, n_clusters) and sets belong to the samples whose order matters.
    """
    nearest = np.argsort(distances, axis=1, kind="stable").tolist()
    for _ in range(orders):
        clusters: dict[int, int] = {}
        for sample in rng.permutation(len(sets)).tolist():
            part = sets[sample]
            if part in clusters:
                continue
            excluded_clusters = {clusters[other] for other in forbidden.get(part, ()) if other in clusters}
            free = next((cluster for cluster in nearest[sample] if cluster not in excluded_clusters), None)
            if free is None:
                break
            clusters[part] = free
        else:
            return clusters
    return None


def pckmeans(
    X: Floats,
    n_clusters: int,
    must_link: Links,
    cannot_link: Links,
    *,
    weights: Weights,
    random_state: int,
    penalty: float | None = None,
    max_iter: int = 100,
) -> Solution:
    r"""Cluster by k-means with a cost for each broken link, PCKMeans (Basu, Banerjee and Mooney 2004).

    The objective is minus the cost

    .. math::

        \frac{1}{2} \sum_i \lVert x_i - \mu_{l_i} \rVert^2
        + \lambda \sum_{(i,j) \in M} w_{ij} [l_i \ne l_j] + \lambda \sum_{(i,j) \in C} w_{ij} [l_i = l_j]

    with w how often a pair was annotated. Samples move one at a time, in random order, until none gains; then
    centroids follow; and so on, until nothing changes or `max_iter` updates are done. As published, the first
    centroids are those of neighbourhoods, sets of two samples or more that must-links join. They are drawn,
    each next one by its size times its squared distance to the present ones, so that restarts differ, where
    the publication takes the largest ones. If there are too few neighbourhoods, samples are drawn in the same
    way (k-means++).

    The penalty :math:`\lambda` is in squared units of the features. Its default
    :math:`\frac{1}{2N} \sum_i \lVert x_i - \bar x \rVert^2`, the mean cost of a sample in a single cluster,
    makes the result independent of these units; the publication has 1.
    """
    if penalty is None:
        penalty = 0.5 * float(((X - X.mean(axis=0)) ** 2).sum(axis=1).mean())
    if penalty < 0:
        raise ValueError(f"penalty: found {penalty}, expected 0 or more")
    rng = np.random.default_rng(random_state)
    costs = (penalty * weights[0], penalty * weights[1])
    graph = signed_graph(len(X), must_link, cannot_link, costs)
    centroids = _first_centroids(X, n_clusters, must_link, rng)
    labels = squared_distances(X, centroids).argmin(axis=1)
    for _ in range(max_iter):
        new_labels = settle(labels, -0.5 * squared_distances(X, centroids), graph, rng)
        new_centroids = centroids_of(X, new_labels, centroids)
        if np.array_equal(new_labels, labels) and np.array_equal(new_centroids, centroids):
            break
        labels, centroids = new_labels, new_centroids
    inertia = float(((X - centroids[labels]) ** 2).sum())
    is_apart = labels[must_link[:, 0]] != labels[must_link[:, 1]]
    is_together = labels[cannot_link[:, 0]] == labels[cannot_link[:, 1]]
    cost_of_links = float(costs[0][is_apart].sum() + costs[1][is_together].sum())
    return Solution(labels, -(0.5 * inertia + cost_of_links), padded(centroids, n_clusters))


def _first_centroids(X: Floats, n_clusters: int, must_link: Links, rng: np.random.Generator) -> Floats:
    components = must_components(len(X), must_link)
    sizes = np.bincount(components)
    means = centroids_of(X, components, np.zeros((len(sizes), X.shape[1])))
    is_neighbourhood, no_centers = sizes > 1, np.empty((0, X.shape[1]))
    centers = spread_out(
        means[is_neighbourhood], sizes[is_neighbourhood].astype(np.float64), no_centers, n_clusters, rng
    )
    return spread_out(X, np.ones(len(X)), centers, n_clusters, rng)


def correlation_clustering(
    X: Floats, n_clusters: int, must_link: Links, cannot_link: Links, *, weights: Weights, random_state: int
) -> Solution:
    r"""Cluster for most agreement with the annotations, whatever the features (Bansal, Blum and Chawla 2004).

    With at most K clusters, the objective is

    .. math:: \sum_{(i,j) \in M} w_{ij} [l_i = l_j] + \sum_{(i,j) \in C} w_{ij} [l_i \ne l_j] ,

    the number of annotations that are kept. A call is one start: samples come along the links, from a
    random one of each part of the annotation graph, each to the cluster it agrees with most (ties at random);
    then single samples move until none gains. Parts of the graph that no link
    joins are labelled independently, because no annotation tells which clusters belong together; samples
    without links go to the largest cluster of the others, or all to the first one if there are no links.
    """
    rng = np.random.default_rng(random_state)
    graph = signed_graph(len(X), must_link, cannot_link, weights)
    labels = _labels_along_links(graph, n_clusters, rng)
    labels = settle(labels, np.zeros((len(X), n_clusters)), graph, rng)
    has_links = np.diff(graph.indptr) > 0
    if has_links.any():
        labels[~has_links] = np.bincount(labels[has_links], minlength=n_clusters).argmax()
    # all cannot-links, and the weights of pairs within clusters, each of which is there twice
    pairs = graph.tocoo()
    weight_within = float(pairs.data[labels[pairs.row] == labels[pairs.col]].sum() / 2)
    return Solution(labels, float(weights[1].sum()) + weight_within)


def _labels_along_links(graph: csr_array, n_clusters: int, rng: np.random.Generator) -> Integers:
    """Return labels of samples that come one after the other, each to the best cluster so far."""
    n_samples = graph.shape[0]
    labels = np.zeros(n_samples, dtype=np.int64)
    gains = np.zeros((n_samples, n_clusters))
    is_queued = np.diff(graph.indptr) == 0  # samples without links have no place in the order
    for first in rng.permutation(np.flatnonzero(~is_queued)).tolist():
        queue = [] if is_queued[first] else [first]
        is_queued[first] = True
        for sample in queue:
            best = np.flatnonzero(gains[sample] == gains[sample].max())
            labels[sample] = rng.choice(best)
            neighbours, weights = neighbours_of(graph, sample)
            gains[neighbours, labels[sample]] += weights
            new = rng.permutation(neighbours[~is_queued[neighbours]])
            is_queued[new] = True
            queue.extend(new.tolist())
    return labels
