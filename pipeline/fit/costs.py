"""Cost of a sample in each cluster: minus its log-density, but for a constant (model.md, eqs. (24), (50))."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def assignment_costs(X: Floats, centers: Floats, covariances: Floats, kept: NDArray[np.int64]) -> Floats:
    """Half the squared distance by the covariance, plus half its log-determinant.

    Sums go over features one by one, so that the cost of a sample does not depend on the other rows.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Samples.
    centers : ndarray of shape (n_clusters, n_features)
        Means.
    covariances : ndarray of shape (n_clusters,) and, as the shape has it, n_features once or twice
        All 0 for a degenerate cluster.
    kept : ndarray of shape (n_dims,)
        Features on which the Gaussians have a density; the others are left out.

    Returns
    -------
    ndarray of shape (n_samples, n_clusters)
        Nats; infinite for a degenerate cluster.
    """
    costs = np.full((len(X), len(centers)), np.inf)
    # One cluster at a time: no temporary of all distances.
    for cluster, covariance in enumerate(covariances):
        if not covariance.any():
            continue
        differences = X - centers[cluster]
        if covariance.ndim == 0:
            distances = np.square(differences).sum(axis=1)
            costs[:, cluster] = distances * (0.5 / covariance) + 0.5 * X.shape[1] * np.log(covariance)
        elif covariance.ndim == 1:
            variances = covariance[kept]
            distances = (np.square(differences[:, kept]) / variances).sum(axis=1)
            costs[:, cluster] = 0.5 * (distances + np.log(variances).sum())
        else:
            costs[:, cluster] = _matrix_costs(differences[:, kept], covariance[np.ix_(kept, kept)])
    return costs


def _matrix_costs(differences: Floats, covariance: Floats) -> Floats:
    # Scaled to a diagonal of ones: units of features may differ by any factor.
    deviations = np.sqrt(np.diag(covariance))
    factor = np.linalg.cholesky(covariance / np.outer(deviations, deviations))
    solved = np.zeros_like(differences)
    for d in range(len(factor)):
        left = differences[:, d] / deviations[d]
        for e in range(d):
            left = left - factor[d, e] * solved[:, e]
        solved[:, d] = left / factor[d, d]
    logs = np.log(np.diag(factor)).sum() + np.log(deviations).sum()
    return np.asarray(0.5 * np.square(solved).sum(axis=1) + logs)
