"""Divergence between Gaussians of any covariance, as plain numpy."""

from __future__ import annotations

import numpy as np

from kernels.problem.data import DEGENERATE, Floats
from kernels.problem.shapes import COLLINEAR, ROUNDING


def spherical_divergences(
    means: Floats, variances: Floats, means_true: Floats, variances_true: Floats
) -> Floats:
    """KL(N_r || M_s) of every pair of spherical Gaussians.

    Parameters
    ----------
    means, means_true : ndarray of shape (n_clusters, n_features)
        Their numbers may differ.
    variances, variances_true : ndarray of shape (n_clusters,)
        Variances per feature.

    Returns
    -------
    ndarray of shape (n_clusters, n_clusters_true)
        Nats.
    """
    n_features = means.shape[1]
    ratio = variances[:, None] / variances_true[None, :]
    squares = np.square(means[:, None, :] - means_true[None, :, :]).sum(axis=2)
    divergences: Floats = 0.5 * (
        n_features * (ratio - 1.0 - np.log(ratio)) + squares / variances_true[None, :]
    )
    return divergences


def divergences(
    weights: Floats,
    means: Floats,
    covariances: Floats,
    weights_true: Floats,
    means_true: Floats,
    covariances_true: Floats,
) -> Floats:
    """KL(N_r || M_s) of every pair of Gaussians, in the directions in which the two mixtures have any spread.

    Others add nothing: features that are constant, or linear in others, change neither samples nor labels.

    Parameters
    ----------
    weights, weights_true : ndarray of shape (n_clusters,)
        Of the components, above 0.
    means, means_true : ndarray of shape (n_clusters, n_features)
        Their numbers may differ.
    covariances, covariances_true : ndarray of shape (n_clusters, ...)
        A variance for all features, one for each, or a matrix: no, one or two axes of n_features.

    Returns
    -------
    ndarray of shape (n_clusters, n_clusters_true)
        Nats; NaN throughout if a component has no spread in one of these directions.
    """
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
    found: Floats = 0.5 * (traces - basis.shape[1] + logs_true[None, :] - logs[:, None] + squares)
    return found


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
    scatter: Floats = np.einsum("r,rde->de", shares, matrices) + (shares[:, None] * centred).T @ centred
    return scatter


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
    varies = spreads > ROUNDING * magnitudes
    units = 1.0 / spreads[varies]
    values, vectors = np.linalg.eigh(scatter[np.ix_(varies, varies)] * units[:, None] * units[None, :])
    # Not by a smaller share: a full covariance has no spread where features count as given by others.
    kept = values > COLLINEAR * values.max(initial=0.0)
    basis = np.zeros((len(scatter), int(kept.sum())))
    basis[varies] = units[:, None] * vectors[:, kept] / np.sqrt(values[kept])
    return basis
