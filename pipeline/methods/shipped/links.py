"""Methods that honour links: `cop_kmeans` keeps all of them, `pckmeans` and `correlation_clustering` pay for
those that they break.
"""

import numpy as np
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components

from sweep_clustering.pipeline.methods.contract import Floats, Links, NoSolution, Solution, Weights, Whole

# What links say of each other: samples that must-links join, and cannot-links between such sets.


def must_components(n_samples: int, must_link: Links) -> Whole:
    """Number of the set of each sample: those that a chain of must-links joins.

    Parameters
    ----------
    n_samples : int
        Of all samples; one without must-links is a set of its own.
    must_link : ndarray of shape (n_pairs, 2)
        Pairs.

    Returns
    -------
    ndarray of shape (n_samples,)
        From 0.
    """
    ones = np.ones(len(must_link), dtype=np.int8)
    joined = coo_array((ones, (must_link[:, 0], must_link[:, 1])), shape=(n_samples, n_samples))
    return np.asarray(connected_components(joined, directed=False)[1], dtype=np.int64)


# Local moves of single samples, where a link adds to or takes from what a move gains.

# Gains below this share of the largest are rounding, and no move.
TIES = 1e-12


def signed_graph(n_samples: int, must_link: Links, cannot_link: Links, weights: Weights) -> csr_array:
    """The annotation graph, a pair of samples each once in either row.

    Returns
    -------
    csr_array of shape (n_samples, n_samples)
        Weight of the must-link less that of the cannot-link: pairs that contradict themselves evenly are
        left out. A row has the samples after its own first: draws and sums follow this order.
    """
    pairs = np.concatenate([must_link, cannot_link])
    signed = np.concatenate([weights[0], -weights[1]])
    pairs, places = np.unique(pairs, axis=0, return_inverse=True)
    totals = np.bincount(places.ravel(), weights=signed, minlength=len(pairs))
    pairs, totals = pairs[totals != 0], totals[totals != 0]
    ends = np.concatenate([pairs[:, 0], pairs[:, 1]])
    others = np.concatenate([pairs[:, 1], pairs[:, 0]])
    order = np.argsort(ends, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(ends, minlength=n_samples))])
    values = np.concatenate([totals, totals])[order]
    return csr_array((values, others[order], starts), shape=(n_samples, n_samples))


def neighbours_of(graph: csr_array, sample: int) -> tuple[Whole, Floats]:
    """Samples that one is linked with, and the weights of the links to them."""
    row = slice(graph.indptr[sample], graph.indptr[sample + 1])
    return graph.indices[row], graph.data[row]


def settle(labels: Whole, pull: Floats, graph: csr_array, rng: np.random.Generator) -> Whole:
    r"""Move samples one at a time until no move gains anything.

    What is maximised is

    .. math:: \sum_i g_{i l_i} + \sum_{i<j} s_{ij} [l_i = l_j]

    with the pull g of the clusters and the links s of the graph. Each move increases it, so that it ends.
    Samples that would gain are visited in random order, and looked at again when it is their turn.

    Parameters
    ----------
    labels : ndarray of shape (n_samples,)
        Where to begin; not changed.
    pull : ndarray of shape (n_samples, n_clusters)
        What each cluster is worth to each sample by itself.
    graph : csr_array
        Links, as `signed_graph` has them.
    rng : numpy.random.Generator
        Order of visits.

    Returns
    -------
    ndarray of shape (n_samples,)
        Labels from which no single move gains.
    """
    labels = labels.copy()
    worth = pull.copy()
    linked = graph.tocoo()
    np.add.at(worth, (linked.row, labels[linked.col]), linked.data)
    least = TIES * max(1.0, float(np.abs(worth).max(initial=0.0)))
    rows = np.arange(len(labels))
    while True:
        waiting = np.flatnonzero(worth.max(axis=1) - worth[rows, labels] > least)
        if not len(waiting):
            return labels
        for sample in rng.permutation(waiting).tolist():
            best = int(worth[sample].argmax())
            now = int(labels[sample])
            if worth[sample, best] - worth[sample, now] > least:
                neighbours, weights = neighbours_of(graph, sample)
                worth[neighbours, now] -= weights
                worth[neighbours, best] += weights
                labels[sample] = best


# Squared distances to centroids, and where centroids begin.


def squared_distances(X: Floats, centroids: Floats) -> Floats:
    """Of all samples to all centroids, of shape (n_samples, n_clusters)."""
    # One centroid at a time: exact where samples lie close together, and no array of three dimensions.
    return np.stack([((X - center) ** 2).sum(axis=1) for center in centroids], axis=1)


def centroids_of(X: Floats, labels: Whole, before: Floats) -> Floats:
    """Means of clusters; an empty one stays where it was.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Samples.
    labels : ndarray of shape (n_samples,)
        Their clusters.
    before : ndarray of shape (n_clusters, n_features)
        Centroids so far.

    Returns
    -------
    ndarray of shape (n_clusters, n_features)
        Centroids.
    """
    sizes = np.bincount(labels, minlength=len(before))
    sums = np.stack([np.bincount(labels, weights=feature, minlength=len(before)) for feature in X.T], axis=1)
    means: Floats = np.where(sizes[:, None] > 0, sums / np.maximum(sizes, 1)[:, None], before)
    return means


def spread_out(
    candidates: Floats, weights: Floats, centers: Floats, n_centers: int, rng: np.random.Generator
) -> Floats:
    """More centres, drawn far from those there are: k-means++ (Arthur and Vassilvitskii 2007).

    Parameters
    ----------
    candidates : ndarray of shape (n_candidates, n_features)
        What may become a centre, once each as long as there are others.
    weights : ndarray of shape (n_candidates,)
        The probability of a candidate is its weight times its squared distance to the nearest centre.
    centers : ndarray of shape (n_given, n_features)
        Centres there are.
    n_centers : int
        How many there shall be. There may be fewer candidates: then all of them are taken.
    rng : numpy.random.Generator
        Draws.

    Returns
    -------
    ndarray of shape (min(n_centers, n_given + n_candidates), n_features)
        Those given first.
    """
    taken = np.zeros(len(candidates), dtype=bool)
    distances = (
        squared_distances(candidates, centers).min(axis=1) if len(centers) else np.ones(len(candidates))
    )
    chosen = list(centers)
    while len(chosen) < n_centers and not taken.all():
        chances = np.where(taken, 0.0, weights * distances)
        if chances.sum() <= 0:  # all lie on centres
            chances = np.where(taken, 0.0, weights)
        place = int(rng.choice(len(candidates), p=chances / chances.sum()))
        first = not chosen
        chosen.append(candidates[place])
        taken[place] = True
        new = ((candidates - candidates[place]) ** 2).sum(axis=1)
        distances = new if first else np.minimum(distances, new)
    return np.array(chosen).reshape(-1, candidates.shape[1])


def padded(centroids: Floats, n_clusters: int) -> Floats:
    """Centroids of all clusters, NaN for those beyond the number of samples."""
    missing = np.full((n_clusters - len(centroids), centroids.shape[1]), np.nan)
    return np.concatenate([centroids, missing])


# k-means that breaks no link.


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
    X, n_clusters, must_link, cannot_link, random_state
        See `pipeline.methods.contract.Method`.
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
    # no clusters keep a cannot-link within a set that must-links join
    wrong = cannot_link[components[cannot_link[:, 0]] == components[cannot_link[:, 1]]]
    if len(wrong):
        pair = f"{wrong[0, 0]} and {wrong[0, 1]}"
        raise NoSolution(f"{len(wrong)} cannot-links between samples that must-links join, such as {pair}")
    apart: dict[int, set[int]] = {}
    for one, other in components[cannot_link].tolist():
        apart.setdefault(one, set()).add(other)
        apart.setdefault(other, set()).add(one)
    bound = np.bincount(components) > 1
    bound[list(apart)] = True
    # samples whose order matters: of a set of several, or with a cannot-link
    ordered = np.flatnonzero(bound[components])
    rng = np.random.default_rng(random_state)
    centroids = spread_out(X, np.ones(len(X)), np.empty((0, X.shape[1])), n_clusters, rng)
    best: Solution | None = None
    labels = np.full(len(X), -1)
    for _ in range(max_iter):
        distances = squared_distances(X, centroids)
        placed = _placed(distances[ordered], components[ordered].tolist(), apart, rng, orders)
        if placed is None:
            break
        moved = distances.argmin(axis=1)
        moved[ordered] = [placed[name] for name in components[ordered].tolist()]
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


def _placed(
    distances: Floats, names: list[int], apart: dict[int, set[int]], rng: np.random.Generator, orders: int
) -> dict[int, int] | None:
    """Cluster of each set, where the first of its samples that comes in decides; None if all get stuck.

    Parameters
    ----------
    distances : ndarray of shape (n_ordered, n_clusters)
        Of samples whose order matters.
    names : list of int
        Sets that they are in.
    apart : dict of int to set of int
        Sets that cannot be together.
    rng, orders
        As of `cop_kmeans`.
    """
    nearest = np.argsort(distances, axis=1, kind="stable").tolist()
    for _ in range(orders):
        placed: dict[int, int] = {}
        for place in rng.permutation(len(names)).tolist():
            name = names[place]
            if name in placed:
                continue
            forbidden = {placed[other] for other in apart.get(name, ()) if other in placed}
            free = next((cluster for cluster in nearest[place] if cluster not in forbidden), None)
            if free is None:
                break
            placed[name] = free
        else:
            return placed
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
    X, n_clusters, must_link, cannot_link, weights, random_state
        See `pipeline.methods.contract.Method`.
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
    graph = signed_graph(len(X), must_link, cannot_link, costs)
    centroids = _first_centroids(X, n_clusters, must_link, rng)
    labels = squared_distances(X, centroids).argmin(axis=1)
    for _ in range(max_iter):
        moved = settle(labels, -0.5 * squared_distances(X, centroids), graph, rng)
        settled = centroids_of(X, moved, centroids)
        if np.array_equal(moved, labels) and np.array_equal(settled, centroids):
            break
        labels, centroids = moved, settled
    inertia = float(((X - centroids[labels]) ** 2).sum())
    apart = labels[must_link[:, 0]] != labels[must_link[:, 1]]
    together = labels[cannot_link[:, 0]] == labels[cannot_link[:, 1]]
    broken = float(costs[0][apart].sum() + costs[1][together].sum())
    return Solution(labels, -(0.5 * inertia + broken), padded(centroids, n_clusters))


def _first_centroids(X: Floats, n_clusters: int, must_link: Links, rng: np.random.Generator) -> Floats:
    components = must_components(len(X), must_link)
    sizes = np.bincount(components)
    means = centroids_of(X, components, np.zeros((len(sizes), X.shape[1])))
    shared, none = sizes > 1, np.empty((0, X.shape[1]))
    centers = spread_out(means[shared], sizes[shared].astype(np.float64), none, n_clusters, rng)
    return spread_out(X, np.ones(len(X)), centers, n_clusters, rng)


def correlation_clustering(
    X: Floats,
    n_clusters: int,
    must_link: Links,
    cannot_link: Links,
    *,
    weights: Weights,
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
    X, n_clusters, must_link, cannot_link, weights, random_state
        See `pipeline.methods.contract.Method`; of the features only the number of samples is used.

    Returns
    -------
    Solution
        With the objective, a number of annotations.
    """
    rng = np.random.default_rng(random_state)
    graph = signed_graph(len(X), must_link, cannot_link, weights)
    labels = _along_links(graph, n_clusters, rng)
    labels = settle(labels, np.zeros((len(X), n_clusters)), graph, rng)
    linked = np.diff(graph.indptr) > 0
    if linked.any():
        labels[~linked] = np.bincount(labels[linked], minlength=n_clusters).argmax()
    # kept = all the cannot-links + what pairs within clusters, each there twice, add to that
    pairs = graph.tocoo()
    within = float(pairs.data[labels[pairs.row] == labels[pairs.col]].sum() / 2)
    return Solution(labels, float(weights[1].sum()) + within)


def _along_links(graph: csr_array, n_clusters: int, rng: np.random.Generator) -> Whole:
    """Labels of samples that come in one after the other, each to the best cluster so far."""
    n_samples = graph.shape[0]
    labels = np.zeros(n_samples, dtype=np.int64)
    worth = np.zeros((n_samples, n_clusters))
    seen = np.diff(graph.indptr) == 0  # nothing is known of those without links
    for first in rng.permutation(np.flatnonzero(~seen)).tolist():
        queue = [] if seen[first] else [first]
        seen[first] = True
        for sample in queue:
            best = np.flatnonzero(worth[sample] == worth[sample].max())
            labels[sample] = rng.choice(best)
            neighbours, weights = neighbours_of(graph, sample)
            worth[neighbours, labels[sample]] += weights
            fresh = rng.permutation(neighbours[~seen[neighbours]])
            seen[fresh] = True
            queue.extend(fresh.tolist())
    return labels
