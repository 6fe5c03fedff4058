"""Slow, obvious twins of the shapes of covariance with a prior, by determinants, in the units of X."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from solving.oracles import Case

SHAPED = ("diagonal", "tied", "full")


def features_with_a_density(case: Case) -> NDArray[np.float64]:
    """Columns that are not constant nor given by the others: which of those, changes a constant alone."""
    X = case.X[:, np.ptp(case.X, axis=0) > 0]
    if case.covariance == "diagonal":
        return X
    X = case.X[:, case.problem().kept]
    scaled = (case.X - case.X.mean(axis=0)) / np.maximum(case.X.std(axis=0), 1e-12 * np.abs(case.X).max())
    assert X.shape[1] == np.linalg.matrix_rank(scaled, tol=1e-6)
    return X


def prior(case: Case, X: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """Scale matrix, and what is added to the sizes."""
    n_dims = X.shape[1]
    scale = case.covariance_prior * np.cov(X, rowvar=False, ddof=0).reshape(n_dims, n_dims)
    scale = scale / case.n_clusters ** (2 / n_dims)
    if case.covariance == "diagonal":
        return np.diag(np.diag(scale)) / 10, case.covariance_prior * 2.5
    return scale, case.covariance_prior * (n_dims + 2 + n_dims + 1)


def shaped_gmm(case: Case, labels: NDArray[np.integer]) -> float:
    """Shapes diagonal, tied and full, by determinants."""
    X = features_with_a_density(case)
    n_dims = X.shape[1]
    scale, more = prior(case, X)
    scatters = []
    for r in range(case.n_clusters):
        members = X[labels == r]
        differences = members - members.mean(axis=0) if len(members) else members
        scatter = differences.T @ differences
        scatters.append(
            (len(members), np.diag(np.diag(scatter)) if case.covariance == "diagonal" else scatter)
        )
    if case.covariance == "tied":
        scatters = [(len(labels), sum(scatter for _, scatter in scatters))]
    total = 0.0
    for n, scatter in scatters:
        if n == 0 or (more == 0.0 and is_degenerate(n, scatter, X)):
            continue
        total -= 0.5 * (n + more) * (log_det(scatter + scale) - n_dims * np.log(n + more) + n_dims)
        if more > 0.0:
            total += 0.5 * more * (log_det(scale) - n_dims * np.log(more) + n_dims)
    return float(total)


def is_degenerate(n: int, scatter: NDArray[np.float64], X: NDArray[np.float64]) -> bool:
    return bool(n <= 1 or (np.diag(scatter) <= 1e-10 * n * X.var(axis=0)).any())


def log_det(matrix: NDArray[np.float64]) -> float:
    root = np.sqrt(np.diag(matrix))
    return float(np.linalg.slogdet(matrix / np.outer(root, root))[1] + 2 * np.log(root).sum())


def shaped_costs(case: Case, labels: NDArray[np.integer]) -> NDArray[np.float64]:
    """Minus the log-density of each sample in each cluster, but for a constant."""
    X = features_with_a_density(case)
    scale, more = prior(case, X)
    cost = np.full((len(labels), case.n_clusters), np.inf)
    scatters = []
    for r in range(case.n_clusters):
        members = X[labels == r]
        differences = members - members.mean(axis=0)
        scatters.append(differences.T @ differences)
    for r in range(case.n_clusters):
        n = int(np.sum(labels == r))
        scatter = scatters[r]
        if case.covariance == "tied":
            n, scatter = len(labels), sum(scatters)
        if case.covariance == "diagonal":
            scatter = np.diag(np.diag(scatter))
        if more == 0.0 and is_degenerate(n, scatter, X):
            continue
        covariance = (scatter + scale) / (n + more)
        differences = X - X[labels == r].mean(axis=0)
        squares = np.einsum("nd,nd->n", differences, np.linalg.solve(covariance, differences.T).T)
        cost[:, r] = 0.5 * squares + 0.5 * log_det(covariance)
    return cost
