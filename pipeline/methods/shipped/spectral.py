"""Spectral clustering, with and without links written into the affinity."""

import numpy as np
from scipy.linalg import eigh
from scipy.sparse import csr_array, diags_array
from scipy.sparse.linalg import eigsh
from sklearn.cluster import KMeans
from sklearn.neighbors import NearestNeighbors

from sweep_clustering.pipeline.methods.contract import Floats, Links, Solution, Weights
from sweep_clustering.pipeline.methods.shipped.links import signed_graph

# Largest number of samples for a full matrix, which then has 32 MB.
LARGEST_DENSE = 2000

# Distance of the shift of the sparse solver below 0, the least eigenvalue of D - A, as a share of the
# largest row.
_SHIFT_SHARE = 1e-3


def spectral(
    X: Floats,
    n_clusters: int,
    *,
    random_state: int,
    sigma: float | None = None,
    neighbours: int = 20,
    n_init: int = 10,
) -> Solution:
    """Cluster a nearest-neighbour graph (Shi and Malik 2000): `spectral_links` without links."""
    no_links = np.empty((0, 2), np.int64)
    return spectral_links(
        X,
        n_clusters,
        no_links,
        no_links,
        weights=(np.empty(0), np.empty(0)),
        random_state=random_state,
        sigma=sigma,
        neighbours=neighbours,
        n_init=n_init,
    )


def spectral_links(
    X: Floats,
    n_clusters: int,
    must_link: Links,
    cannot_link: Links,
    *,
    weights: Weights,
    random_state: int,
    sigma: float | None = None,
    neighbours: int = 20,
    n_init: int = 10,
) -> Solution:
    r"""Cluster by the eigenvectors of an affinity that holds the links (Kamvar, Klein and Manning 2003).

    The affinity of two samples is :math:`A_{ij} = \exp(-\lVert x_i - x_j \rVert^2 / 2 \sigma^2)` if one is
    among the nearest `neighbours` of the other, else 0. Links replace it: 1 for a must-link and 0 for a
    cannot-link; for a pair that was annotated both ways the majority counts, and neither if there is none.
    With D the diagonal matrix of the sums of its rows and d the largest of them, the rows of the K leading
    eigenvectors of

    .. math:: (A + d I - D) / d ,

    scaled to length 1, are clustered by k-means, the best of `n_init` starts. The objective is minus the
    inertia of these rows; it has no unit. The width `sigma` is in the unit of the features; by default it is
    the root of the mean squared distance of two samples, :math:`\sigma^2 = \frac{2}{N} \sum_i \lVert x_i -
    \bar x \rVert^2`.

    Up to 2,000 samples the eigenvectors are those of a full matrix; beyond, the sparse one gives them by
    Lanczos iteration with shift and inversion, in memory that is proportional to the number of neighbours and
    links.
    """
    if (sigma is not None and sigma <= 0) or neighbours <= 0:
        raise ValueError(f"found sigma {sigma} and {neighbours} neighbours, expected both above 0")
    k = min(n_clusters, len(X))
    if len(X) <= k:
        return Solution(np.arange(len(X)), 0.0)
    nearest = _affinity(X, sigma, min(neighbours, len(X) - 1))
    affinity = _with_links(nearest, signed_graph(len(X), must_link, cannot_link, weights))
    rows = _leading_vectors(affinity, k)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    rows = rows / np.where(lengths > 0, lengths, 1.0)
    model = KMeans(k, n_init=n_init, random_state=random_state).fit(rows)
    return Solution(model.labels_, -float(model.inertia_))


def _affinity(X: Floats, sigma: float | None, neighbours: int) -> csr_array:
    """Return the affinity of near samples, 0 of a sample with itself."""
    squared = 2 * float(((X - X.mean(axis=0)) ** 2).sum(axis=1).mean()) if sigma is None else sigma**2
    graph = NearestNeighbors(n_neighbors=neighbours).fit(X).kneighbors_graph(mode="distance").tocoo()
    values = np.exp(-(graph.data**2) / (2 * squared)) if squared > 0 else np.ones_like(graph.data)
    one_way = csr_array((values, (graph.row, graph.col)), shape=graph.shape)
    return one_way.maximum(one_way.T)


def _with_links(affinity: csr_array, graph: csr_array) -> csr_array:
    """Return the affinity with 1 for must-links and 0 for cannot-links."""
    signs = graph.sorted_indices().sign()
    replaced = affinity - affinity.multiply(abs(signs)) + signs.maximum(0)
    replaced.eliminate_zeros()
    return replaced.tocsr()


def _leading_vectors(affinity: csr_array, count: int) -> Floats:
    """Return the eigenvectors of the smallest eigenvalues of D - A, the leading ones of (A + d I - D) / d."""
    n_samples = affinity.shape[0]
    sums = np.asarray(affinity.sum(axis=1)).ravel()
    laplacian = diags_array(sums) - affinity
    if n_samples <= LARGEST_DENSE or count >= n_samples - 1:
        return np.asarray(eigh(laplacian.toarray(), subset_by_index=[0, count - 1])[1])
    # the default start of the solver differs from call to call
    start = np.random.default_rng(0).normal(size=n_samples)
    shift = -_SHIFT_SHARE * max(float(sums.max()), 1.0)
    return np.asarray(eigsh(laplacian.tocsc(), k=count, sigma=shift, which="LM", v0=start)[1])
