"""How good a solution is (model.md, eqs. (27) to (32)), as plain numpy: too little work for a compiler."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sweep_clustering.kernels.problem import shapes
from sweep_clustering.kernels.problem.data import CANNOT, DEGENERATE, MUST, Floats, check_labels


def divergences(solution: Sequence[Floats], truth: Sequence[Floats]) -> Floats:
    """KL(N_r || M_s) of every pair of Gaussians, in the directions in which the two mixtures have any spread.

    Others add nothing: features that are constant, or linear in others, change neither samples nor labels.

    Parameters
    ----------
    solution, truth : sequence of three ndarrays
        Weights of the components, above 0, of shape (n_clusters,); means, (n_clusters, n_features); and their
        covariances, a variance for all features, one for each, or a matrix: (n_clusters, ...) with no, one or
        two axes of n_features. The numbers of clusters may differ.

    Returns
    -------
    ndarray of shape (n_clusters, n_clusters_true)
        Nats; NaN throughout if a component has no spread in one of these directions.
    """
    (weights, means, covariances), (weights_true, means_true, covariances_true) = solution, truth
    n_features = means.shape[1]
    unknown = np.full((len(means), len(means_true)), np.nan)
    if not all(np.isfinite(values).all() for values in (means, covariances, means_true, covariances_true)):
        return unknown
    first, second = as_matrices(covariances, n_features), as_matrices(covariances_true, n_features)
    pooled = _scatter(weights, means, first) + _scatter(weights_true, means_true, second)
    basis = whitening(pooled, np.abs(means).max(axis=0))
    first, second = (basis.T @ matrices @ basis for matrices in (first, second))
    if min(np.linalg.eigvalsh(matrices).min(initial=np.inf) for matrices in (first, second)) <= DEGENERATE:
        return unknown
    between = (means[:, None, :] - means_true[None, :, :]) @ basis
    logs, logs_true = np.linalg.slogdet(first)[1], np.linalg.slogdet(second)[1]
    traces, squares = np.empty_like(unknown), np.empty_like(unknown)
    for s, matrix in enumerate(second):
        traces[:, s] = np.trace(np.linalg.solve(matrix, first), axis1=1, axis2=2)
        squares[:, s] = np.sum(between[:, s] * np.linalg.solve(matrix, between[:, s].T).T, axis=1)
    return np.asarray(0.5 * (traces - basis.shape[1] + logs_true[None, :] - logs[:, None] + squares))


def as_matrices(covariances: Floats, n_features: int) -> Floats:
    """Covariances of any shape as matrices, of shape (n_clusters, n_features, n_features)."""
    if covariances.ndim == 3:
        return covariances
    diagonals = covariances if covariances.ndim == 2 else covariances[:, None]
    return np.eye(n_features) * np.broadcast_to(diagonals, (len(covariances), n_features))[:, None, :]


def _scatter(weights: Floats, means: Floats, matrices: Floats) -> Floats:
    """Covariance of a mixture."""
    shares = weights / weights.sum()
    centred = means - shares @ means
    return np.asarray(np.einsum("r,rde->de", shares, matrices) + (shares[:, None] * centred).T @ centred)


def whitening(scatter: Floats, magnitudes: Floats) -> Floats:
    """Directions of spread as columns, scaled to a variance of 1: features may have any units.

    Parameters
    ----------
    scatter : ndarray of shape (n_features, n_features)
        A covariance matrix.
    magnitudes : ndarray of shape (n_features,)
        How large the values of each feature are.

    Returns
    -------
    ndarray of shape (n_features, n_directions)
        As many columns as the scatter has rank.
    """
    spreads = np.sqrt(np.maximum(np.diagonal(scatter), 0.0))
    varies = spreads > shapes.ROUNDING * magnitudes
    units = 1.0 / spreads[varies]
    values, vectors = np.linalg.eigh(scatter[np.ix_(varies, varies)] * units[:, None] * units[None, :])
    # Not by a smaller share: a full covariance has no spread where features count as given by others.
    kept = values > shapes.COLLINEAR * values.max(initial=0.0)
    basis = np.zeros((len(scatter), int(kept.sum())))
    basis[varies] = units[:, None] * vectors[:, kept] / np.sqrt(values[kept])
    return basis


# What the information is divided by, a mean of the two entropies, and where that is usual.
NORMALIZERS = {
    "min": "min-normalised, as in the paper",
    "geometric": "geometric-normalised",
    "arithmetic": "arithmetic-normalised, as in scikit-learn",
    "max": "max-normalised",
}


def nmi(labels_true: ArrayLike, labels: ArrayLike, normalizer: str = "min") -> float:
    """Normalised mutual information I / norm(H_true, H_pred), clipped to [0, 1].

    Parameters
    ----------
    labels_true, labels : array_like of shape (n_samples,)
        Integers; only equality matters.
    normalizer : {"min", "geometric", "arithmetic", "max"}
        Mean of the two entropies; only "min" compares with the paper's tables.

    Returns
    -------
    float
        0 if one entropy is 0, 1 if both are.

    Raises
    ------
    ValueError
        If the lengths differ or are 0.
    """
    joint = _contingency(labels_true, labels)
    rows, columns = joint.sum(axis=1), joint.sum(axis=0)
    h_true, h_pred = _entropy(rows), _entropy(columns)
    if h_true == 0.0 or h_pred == 0.0:
        return float(h_true == h_pred)
    # Dividing the counts first keeps a product of two sizes from mattering.
    i, j = np.nonzero(joint)
    share = joint[i, j] / joint.sum()
    information = float(np.sum(share * (np.log(joint[i, j] / rows[i]) - np.log(columns[j] / joint.sum()))))
    norms = {
        "min": min(h_true, h_pred),
        "geometric": float(np.sqrt(h_true * h_pred)),
        "arithmetic": 0.5 * (h_true + h_pred),
        "max": max(h_true, h_pred),
    }
    return min(max(information / norms[normalizer], 0.0), 1.0)


def adjusted_rand(labels_true: ArrayLike, labels: ArrayLike) -> float:
    """Rand index, adjusted for chance (Hubert and Arabie, J. Classification 2, 1985).

    Parameters
    ----------
    labels_true, labels : array_like of shape (n_samples,)
        Integers; which, does not matter.

    Returns
    -------
    float
        At most 1, for equal partitions; 0 is expected of chance, and below it is worse than chance.

    Raises
    ------
    ValueError
        If the lengths differ or are 0.
    """
    joint = _contingency(labels_true, labels)
    together, pairs = _pairs(joint), _pairs(joint.sum())
    of_true, of_found = _pairs(joint.sum(axis=1)), _pairs(joint.sum(axis=0))
    if of_true == of_found and of_true in (0.0, pairs):
        return 1.0  # both one class, or both all alone: the ratio would be 0 / 0
    expected = of_true * of_found / pairs
    return (together - expected) / (0.5 * (of_true + of_found) - expected)


def _pairs(counts: NDArray[np.int64] | np.int64) -> float:
    return float(np.sum(counts * (counts - 1)) / 2)


def _contingency(labels_true: ArrayLike, labels: ArrayLike) -> NDArray[np.int64]:
    first, second = np.asarray(labels_true), np.asarray(labels)
    if first.ndim != 1 or first.shape != second.shape or first.size == 0:
        raise ValueError(
            f"labels have shapes {first.shape} and {second.shape}, expected the same (n_samples,)"
        )
    rows, columns = (np.unique(each, return_inverse=True)[1] for each in (first, second))
    shape = (rows.max() + 1, columns.max() + 1)
    return np.bincount(rows * shape[1] + columns, minlength=shape[0] * shape[1]).reshape(shape)


def _entropy(counts: NDArray[np.int64]) -> float:
    """Nats; exactly 0 for one class."""
    if len(counts) == 1:
        return 0.0
    share = counts / counts.sum()
    return float(-np.sum(share * np.log(share)))


def total_variance(X: ArrayLike) -> float:
    """Variance s² per feature about the overall mean, ddof 0 (docs/model.md, eq. (1)).

    Parameters
    ----------
    X : array_like of shape (n_samples, n_features)
        Features.
    """
    features = np.asarray(X, dtype=np.float64)
    return float(np.mean(np.square(features - features.mean(axis=0))))


def cluster_gaussians(
    X: ArrayLike, labels: ArrayLike, n_clusters: int
) -> tuple[NDArray[np.int64], Floats, Floats]:
    """Spherical Gaussian of every cluster.

    Parameters
    ----------
    X : array_like of shape (n_samples, n_features)
        Features.
    labels : array_like of shape (n_samples,)
        Integers 0 to n_clusters - 1.
    n_clusters : int
        K.

    Returns
    -------
    sizes : ndarray of shape (n_clusters,), int64
        Samples per cluster.
    centroids : ndarray of shape (n_clusters, n_features)
        Means; NaN for an empty cluster.
    variances : ndarray of shape (n_clusters,)
        SSE_r / (D n_r); NaN for an empty cluster.

    Raises
    ------
    ValueError
        If the labels do not fit X or n_clusters.
    """
    features, given = np.asarray(X, dtype=np.float64), np.asarray(labels)
    check_labels(given, len(features), n_clusters)
    sizes = np.bincount(given, minlength=n_clusters)
    counted = np.where(sizes > 0, sizes, 1)
    # Sums of differences from the overall mean: columns far from 0 lose no digits.
    overall = features.mean(axis=0)
    sums = [np.bincount(given, column, n_clusters) for column in (features - overall).T]
    centroids = np.stack(sums, axis=1) / counted[:, None] + overall
    squares = np.square(features - centroids[given]).sum(axis=1)
    errors = np.bincount(given, weights=squares, minlength=n_clusters)
    variances = errors / (features.shape[1] * counted)
    centroids[sizes == 0] = variances[sizes == 0] = np.nan
    return sizes, centroids, variances


def cluster_covariances(
    X: ArrayLike, labels: ArrayLike, n_clusters: int, covariance: str, covariance_prior: float = 1.0
) -> Floats:
    """Covariance of every cluster of a partition, estimated as the solver does.

    Parameters
    ----------
    X, labels, n_clusters
        As for `cluster_gaussians`.
    covariance : {"spherical", "common", "diagonal", "tied", "full"}
        Shape. Spherical ones have no prior, and common ones are spherical ones.
    covariance_prior : float
        Strength of the prior of the other shapes, 0 for none, for diagonal ones alone (docs/model.md, section
        7).

    Returns
    -------
    ndarray of shape (n_clusters,), (n_clusters, n_features) or (n_clusters, n_features, n_features)
        By shape; a tied covariance is repeated. NaN for an empty cluster.

    Raises
    ------
    ValueError
        If the labels do not fit X or n_clusters.
    """
    features, given = np.asarray(X, dtype=np.float64), np.asarray(labels)
    sizes, centroids, variances = cluster_gaussians(features, given, n_clusters)
    if covariance in shapes.SPHERES:
        return variances
    overall = features.mean(axis=0)
    means = np.where(sizes[:, None] > 0, centroids - overall, 0.0)
    _, kept, _ = shapes.coordinates(features, covariance)
    prior = shapes.prior_of(covariance, len(kept), n_clusters, covariance_prior)
    found = shapes.shaped_covariances(features - overall, given, sizes, means, covariance, kept, prior)
    found[sizes == 0] = np.nan
    return found


def goldberger_kl(
    sizes: ArrayLike,
    centroids: ArrayLike,
    covariances: ArrayLike,
    sizes_true: ArrayLike,
    centroids_true: ArrayLike,
    covariances_true: ArrayLike,
    total_variance: float,
) -> float:
    """Matching approximation of the divergence of the solution's mixture from the truth's.

    sum_r pi_r min_s [KL(N_r || M_s) + log(pi_r / pi'_s)] over non-empty clusters. Directions in which no
    sample differs from any other are left out of matrices.

    Parameters
    ----------
    sizes, sizes_true : array_like of shape (n_clusters,)
        Samples per cluster.
    centroids, centroids_true : array_like of shape (n_clusters, n_features)
        Means.
    covariances, covariances_true : array_like of shape (n_clusters, ...)
        Variances of all features, of each feature, or matrices: no, one or two axes of n_features.
    total_variance : float
        s², the scale of the degenerate rule of spherical clusters.

    Returns
    -------
    float
        Nats; NaN if a degenerate cluster takes part.
    """
    solution = _components(sizes, centroids, covariances)
    truth = _components(sizes_true, centroids_true, covariances_true)
    for count, _, spreads in (solution, truth):
        if spreads.ndim == 1 and not np.all((count > 1) & (spreads > DEGENERATE * total_variance)):
            return float("nan")
    (n, mean, spread), (n_true, mean_true, spread_true) = solution, truth
    if not len(n) or not len(n_true):
        return float("nan")
    if spread.ndim == spread_true.ndim == 1:
        ratio = spread[:, None] / spread_true[None, :]
        squares = np.square(mean[:, None, :] - mean_true[None, :, :]).sum(axis=2)
        ratios = mean.shape[1] * (ratio - 1.0 - np.log(ratio))
        divergence = 0.5 * (ratios + squares / spread_true[None, :])
    else:
        divergence = divergences(solution, truth)
    weight, weight_true = n / n.sum(), n_true / n_true.sum()
    matched = divergence + np.log(weight[:, None] / weight_true[None, :])
    return float(np.sum(weight * matched.min(axis=1)))


def _components(*arrays: ArrayLike) -> list[Floats]:
    """Sizes, and what else there is, of the clusters that are not empty."""
    used = np.asarray(arrays[0]) > 0
    return [np.asarray(each, dtype=np.float64)[used] for each in arrays]


def centroid_index(centroids: ArrayLike, centroids_true: ArrayLike) -> int:
    """Number of centroids that are nearest to none of the others, the larger of the two directions.

    Parameters
    ----------
    centroids, centroids_true : array_like of shape (n_clusters, n_features)
        Means; the numbers of clusters may differ. The lowest index is nearest on ties.
    """
    first, second = np.asarray(centroids, np.float64), np.asarray(centroids_true, np.float64)
    squares = np.square(first[:, None, :] - second[None, :, :]).sum(axis=2)
    return max(int(squares.shape[axis]) - len(np.unique(squares.argmin(axis=axis))) for axis in (0, 1))


def annotation_agreement(annotations: ArrayLike, labels: ArrayLike) -> float:
    """Share of annotations that agree with the partition.

    Parameters
    ----------
    annotations : array_like of shape (n_annotations, 3)
        Columns i, j, kind; rows that hold -1 are padding.
    labels : array_like of shape (n_samples,)
        Cluster of every sample.

    Returns
    -------
    float
        NaN without annotations. A must-link of a sample with itself is right, a cannot-link wrong.
    """
    table = np.asarray(annotations).reshape(-1, 3)
    i, j, kind = table[(table >= 0).all(axis=1)].T
    if not len(kind):
        return float("nan")
    given = np.asarray(labels)
    together = given[i] == given[j]
    return float(np.mean(np.where(together, kind == MUST, kind == CANNOT)))
