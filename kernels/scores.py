"""Scores of solutions (docs/model.md, eqs. (27) to (32)), in numpy alone: there is little to compute."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sweep_clustering.kernels.problem import problem as shapes
from sweep_clustering.kernels.problem.data import CANNOT, DEGENERATE, MUST, Floats, check_labels


def divergences(solution: Sequence[Floats], truth: Sequence[Floats]) -> Floats:
    """Return KL(N_r || M_s) of every pair of Gaussians, in the directions in which the mixtures have spread.

    Features that are constant, or linear in others, change neither samples nor labels and add nothing.

    Parameters
    ----------
    solution, truth : sequence of three ndarrays
        Weights of the components (n_clusters,), above 0; means (n_clusters, n_features); and covariances
        (n_clusters, ...), a variance for all features, one for each, or a matrix, with no, one or two axes of
        n_features. The numbers of clusters may differ.

    Returns
    -------
    ndarray of shape (n_clusters, n_clusters_true)
        Nats; NaN throughout if a component has no spread in one of these directions.
    """
    (weights, means, covariances), (weights_true, means_true, covariances_true) = solution, truth
    n_features = means.shape[1]
    nans = np.full((len(means), len(means_true)), np.nan)
    if not all(np.isfinite(values).all() for values in (means, covariances, means_true, covariances_true)):
        return nans
    first, second = as_matrices(covariances, n_features), as_matrices(covariances_true, n_features)
    pooled = _scatter(weights, means, first) + _scatter(weights_true, means_true, second)
    basis = whitening(pooled, np.abs(means).max(axis=0))
    first, second = (basis.T @ matrices @ basis for matrices in (first, second))
    if min(np.linalg.eigvalsh(matrices).min(initial=np.inf) for matrices in (first, second)) <= DEGENERATE:
        return nans
    differences = (means[:, None, :] - means_true[None, :, :]) @ basis
    logs, logs_true = np.linalg.slogdet(first)[1], np.linalg.slogdet(second)[1]
    traces, squares = np.empty_like(nans), np.empty_like(nans)
    for s, matrix in enumerate(second):
        traces[:, s] = np.trace(np.linalg.solve(matrix, first), axis1=1, axis2=2)
        squares[:, s] = np.sum(differences[:, s] * np.linalg.solve(matrix, differences[:, s].T).T, axis=1)
    return np.asarray(0.5 * (traces - basis.shape[1] + logs_true[None, :] - logs[:, None] + squares))


def as_matrices(covariances: Floats, n_features: int) -> Floats:
    """Return covariances of any shape as matrices (n_clusters, n_features, n_features)."""
    if covariances.ndim == 3:
        return covariances
    diagonals = covariances if covariances.ndim == 2 else covariances[:, None]
    return np.eye(n_features) * np.broadcast_to(diagonals, (len(covariances), n_features))[:, None, :]


def _scatter(weights: Floats, means: Floats, matrices: Floats) -> Floats:
    """Return the covariance of a mixture."""
    shares = weights / weights.sum()
    centred = means - shares @ means
    return np.asarray(np.einsum("r,rde->de", shares, matrices) + (shares[:, None] * centred).T @ centred)


def whitening(scatter: Floats, magnitudes: Floats) -> Floats:
    """Return the directions of spread of a covariance matrix as columns, scaled to a variance of 1.

    There are as many columns as the matrix has rank. `magnitudes` are the largest values of the features,
    which may have any units.
    """
    spreads = np.sqrt(np.maximum(np.diagonal(scatter), 0.0))
    is_varying = spreads > shapes.ROUNDING * magnitudes
    units = 1.0 / spreads[is_varying]
    values, vectors = np.linalg.eigh(
        scatter[np.ix_(is_varying, is_varying)] * units[:, None] * units[None, :]
    )
    # The share is that by which features count as given by others: there a full covariance has no spread.
    is_used = values > shapes.COLLINEAR * values.max(initial=0.0)
    basis = np.zeros((len(scatter), int(is_used.sum())))
    basis[is_varying] = units[:, None] * vectors[:, is_used] / np.sqrt(values[is_used])
    return basis


# Means of the two entropies that normalise the information, and where each is usual.
NORMALIZERS = {
    "min": "min-normalised, as in the paper",
    "geometric": "geometric-normalised",
    "arithmetic": "arithmetic-normalised, as in scikit-learn",
    "max": "max-normalised",
}


def nmi(labels_true: ArrayLike, labels: ArrayLike, normalizer: str = "min") -> float:
    """Return the normalised mutual information I / norm(H_true, H_pred), clipped to [0, 1].

    It is 0 if one entropy is 0, and 1 if both are.

    Parameters
    ----------
    labels_true, labels : array_like of shape (n_samples,)
        Integers; only equality matters.
    normalizer : {"min", "geometric", "arithmetic", "max"}
        Mean of the two entropies; only "min" compares with the paper's tables.
    """
    joint = _contingency(labels_true, labels)
    rows, columns = joint.sum(axis=1), joint.sum(axis=0)
    h_true, h_pred = _entropy(rows), _entropy(columns)
    if h_true == 0.0 or h_pred == 0.0:
        return float(h_true == h_pred)
    # Counts are divided first, so that no product of two sizes occurs.
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
    """Return the Rand index, adjusted for chance."""
    return float(adjusted_rand_of(_contingency(labels_true, labels)))


def adjusted_rand_of(joint: NDArray[np.int64]) -> Floats:
    """Return the adjusted Rand index of tables of counts (..., n_classes, n_clusters), as an array (...).

    It is 1 for equal partitions, 0 is expected by chance, and a value below 0 is worse than chance (Hubert
    and Arabie, J. Classification 2, 1985).
    """
    n_true, n_pred = (_pairs(joint.sum(axis=axis)).sum(axis=-1) for axis in (-1, -2))
    n_joint, n_pairs = _pairs(joint).sum(axis=(-2, -1)), _pairs(joint.sum(axis=(-2, -1)))
    expected = n_true * n_pred / np.maximum(n_pairs, 1.0)
    # If both are one class, or both have single samples alone, the ratio would be 0 / 0.
    is_alike = (n_true == n_pred) & ((n_true == 0.0) | (n_true == n_pairs))
    maximum = np.where(is_alike, 1.0, 0.5 * (n_true + n_pred) - expected)
    return np.where(is_alike, 1.0, (n_joint - expected) / maximum)


def _pairs(counts: NDArray[np.int64]) -> Floats:
    return np.asarray(counts * (counts - 1) / 2)


def _contingency(labels_true: ArrayLike, labels: ArrayLike) -> NDArray[np.int64]:
    first, second = np.asarray(labels_true), np.asarray(labels)
    if first.ndim != 1 or first.shape != second.shape or first.size == 0:
        raise ValueError(
            f"labels have shapes {first.shape} and {second.shape}, expected the same (n_samples,)"
        )
    rows, columns = (np.unique(labels, return_inverse=True)[1] for labels in (first, second))
    shape = (rows.max() + 1, columns.max() + 1)
    return np.bincount(rows * shape[1] + columns, minlength=shape[0] * shape[1]).reshape(shape)


def _entropy(counts: NDArray[np.int64]) -> float:
    """Return the entropy in nats, exactly 0 for one class."""
    if len(counts) == 1:
        return 0.0
    share = counts / counts.sum()
    return float(-np.sum(share * np.log(share)))


def total_variance(X: ArrayLike) -> float:
    """Return the variance s² per feature about the overall mean, ddof 0 (docs/model.md, eq. (1))."""
    features = np.asarray(X, dtype=np.float64)
    return float(np.mean(np.square(features - features.mean(axis=0))))


class Spheres(NamedTuple):
    """Spherical Gaussians of clusters."""

    sizes: NDArray[np.int64]  # (n_clusters,)
    centroids: Floats  # (n_clusters, n_features); NaN for an empty cluster
    variances: Floats  # (n_clusters,): SSE_r / (D n_r); NaN for an empty cluster


def cluster_gaussians(X: ArrayLike, labels: ArrayLike, n_clusters: int) -> Spheres:
    """Return the spherical Gaussian of every cluster; labels outside 0 to n_clusters - 1 are a ValueError."""
    features, codes = np.asarray(X, dtype=np.float64), np.asarray(labels)
    check_labels(codes, len(features), n_clusters)
    sizes = np.bincount(codes, minlength=n_clusters)
    divisors = np.where(sizes > 0, sizes, 1)
    # Sums of differences from the overall mean lose no digits of columns far from 0.
    overall = features.mean(axis=0)
    sums = [np.bincount(codes, column, n_clusters) for column in (features - overall).T]
    centroids = np.stack(sums, axis=1) / divisors[:, None] + overall
    squares = np.square(features - centroids[codes]).sum(axis=1)
    errors = np.bincount(codes, weights=squares, minlength=n_clusters)
    variances = errors / (features.shape[1] * divisors)
    centroids[sizes == 0] = variances[sizes == 0] = np.nan
    return Spheres(sizes, centroids, variances)


def cluster_covariances(
    X: ArrayLike, labels: ArrayLike, n_clusters: int, covariance: str, covariance_prior: float = 1.0
) -> Floats:
    """Return the covariance of every cluster of a partition, as the solver estimates it.

    Parameters
    ----------
    X : array_like of shape (n_samples, n_features)
        Features.
    labels : array_like of shape (n_samples,)
        Integers 0 to n_clusters - 1.
    n_clusters : int
        K.
    covariance : {"spherical", "common", "diagonal", "tied", "full"}
        Shape. "spherical" has no prior here, and "common" is taken as "spherical".
    covariance_prior : float
        Strength of the prior of the other shapes; "diagonal" can do without (docs/model.md, section 7).

    Returns
    -------
    ndarray of shape (n_clusters,), (n_clusters, n_features) or (n_clusters, n_features, n_features)
        Covariances by shape; a tied one is repeated. NaN for an empty cluster.
    """
    features, codes = np.asarray(X, dtype=np.float64), np.asarray(labels)
    sizes, centroids, variances = cluster_gaussians(features, codes, n_clusters)
    if covariance in shapes.SPHERES:
        return variances
    overall = features.mean(axis=0)
    means = np.where(sizes[:, None] > 0, centroids - overall, 0.0)
    dims = shapes.coordinates(features, covariance).dims
    prior = shapes.prior_of(covariance, len(dims), n_clusters, covariance_prior)
    covariances = shapes.shaped_covariances(features - overall, codes, sizes, means, covariance, dims, prior)
    covariances[sizes == 0] = np.nan
    return covariances


def goldberger_kl(
    sizes: ArrayLike,
    centroids: ArrayLike,
    covariances: ArrayLike,
    sizes_true: ArrayLike,
    centroids_true: ArrayLike,
    covariances_true: ArrayLike,
    total_variance: float,
) -> float:
    """Return the matching approximation of the divergence of the solution's mixture from the truth's, nats.

    It is sum_r pi_r min_s [KL(N_r || M_s) + log(pi_r / pi'_s)] over non-empty clusters, and NaN with a
    degenerate one. Directions in which no sample differs from any other are left out of matrices.

    Parameters
    ----------
    sizes, sizes_true : array_like of shape (n_clusters,)
        Samples per cluster.
    centroids, centroids_true : array_like of shape (n_clusters, n_features)
        Means.
    covariances, covariances_true : array_like of shape (n_clusters, ...)
        Variances for all features, variances for each feature, or matrices: no, one or two axes of
        n_features.
    total_variance : float
        s², the scale of the degenerate rule of spherical clusters.
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
    costs = divergence + np.log(weight[:, None] / weight_true[None, :])
    return float(np.sum(weight * costs.min(axis=1)))


def _components(*arrays: ArrayLike) -> list[Floats]:
    """Return sizes and further arrays without the empty clusters."""
    is_used = np.asarray(arrays[0]) > 0
    return [np.asarray(array, dtype=np.float64)[is_used] for array in arrays]


def centroid_index(centroids: ArrayLike, centroids_true: ArrayLike) -> int:
    """Return how many centroids of one kind are nearest to none of the other, the larger of the two numbers.

    Arrays are of shape (n_clusters, n_features), and may differ in n_clusters. The lowest index wins ties.
    """
    first, second = np.asarray(centroids, np.float64), np.asarray(centroids_true, np.float64)
    squares = np.square(first[:, None, :] - second[None, :, :]).sum(axis=2)
    return max(int(squares.shape[axis]) - len(np.unique(squares.argmin(axis=axis))) for axis in (0, 1))


def annotation_agreement(annotations: ArrayLike, labels: ArrayLike) -> float:
    """Return the share of annotations that agree with the partition; NaN without annotations.

    Annotations have the columns i, j, kind. Rows of other kinds, unsure ones and -1 as padding, are left out.
    A must-link of a sample with itself agrees.
    """
    table = np.asarray(annotations).reshape(-1, 3)
    i, j, kind = table[np.isin(table[:, 2], (MUST, CANNOT))].T
    if not len(kind):
        return float("nan")
    codes = np.asarray(labels)
    return float(np.mean(np.where(codes[i] == codes[j], kind == MUST, kind == CANNOT)))
