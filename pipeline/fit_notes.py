"""What to know of features and solution before trusting a fit."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from kernels.data import DEGENERATE
from kernels.scores import cluster_gaussians, total_variance

NEARLY_DEGENERATE = 1e-6
"""Variance of a cluster over that of all samples, below which nearly equal rows outweigh everything else."""

CONSTANT = 1e-9
"""Standard deviation of a feature over that of all, below which it tells no samples apart."""

BOUND = "a variance prior (--variance-prior) bounds it"


def solution_notes(
    X: NDArray[np.float64], labels: NDArray[np.integer], n_clusters: int, variance_prior: float
) -> Iterator[str]:
    """Say where the likelihood is unbounded or features carry nothing (model.md section 2).

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Features as used.
    labels : ndarray of shape (n_samples,)
        The solution.
    n_clusters : int
        K.
    variance_prior : float
        kappa; above 0 the likelihood is bounded.

    Yields
    ------
    str
        A sentence; none for most data.
    """
    overall = total_variance(X)
    yield from _constant_notes(X, overall)
    distinct = len(np.unique(X, axis=0))
    if n_clusters == distinct:
        rows = "rows" if distinct == len(X) else f"distinct rows ({len(X)} in all)"
        yield f"as many clusters as {rows}: each may be a cluster of its own, and there is nothing to learn"
    sizes, _, variances = cluster_gaussians(X, labels, n_clusters)
    yield from _variance_notes(sizes, variances / overall, len(X) - distinct, variance_prior)


def _constant_notes(X: NDArray[np.float64], overall: float) -> Iterator[str]:
    # an exact test beside that of the deviation, which rounding keeps from 0 in columns far from it
    still = (np.ptp(X, axis=0) == 0) | (X.std(axis=0) <= CONSTANT * np.sqrt(overall))
    count = int(still.sum())
    if count:
        features = _counted(count, "feature is constant", "features are constant")
        yield f"{features}, of {X.shape[1]}: no sample differs in them, but they count as dimensions"


def _variance_notes(
    sizes: NDArray[np.integer], ratios: NDArray[np.float64], repeats: int, variance_prior: float
) -> Iterator[str]:
    is_degenerate = (sizes <= 1) | (ratios <= DEGENERATE)
    degenerate, near = int(is_degenerate.sum()), int(((ratios < NEARLY_DEGENERATE) & ~is_degenerate).sum())
    rows = f"; {repeats} of {int(sizes.sum())} rows repeat another one" if repeats else ""
    if variance_prior > 0:
        if degenerate:
            clusters = _counted(degenerate, "cluster holds", "clusters hold")
            yield f"{clusters} nothing but (nearly) equal rows: the variance comes from the prior alone{rows}"
        return
    if degenerate:
        clusters = _counted(degenerate, "cluster is degenerate", "clusters are degenerate")
        effect = "the variance is 0 and adds nothing to the objective, whose best then depends on units"
        yield f"{clusters}, a single row or (nearly) equal ones: {effect}; {BOUND}{rows}"
    if near:
        clusters = _counted(near, "cluster has", "clusters have")
        yield (
            f"{clusters} a variance below {NEARLY_DEGENERATE:g} of the overall one: nearly equal rows, which"
            f" outweigh the rest of the objective; {BOUND}"
        )


def _counted(count: int, one: str, more: str) -> str:
    return f"{count} {one if count == 1 else more}"
