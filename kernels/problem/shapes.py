"""Shapes of covariance with a prior: coordinates, the prior, estimates (docs/model.md, section 7).

The prior's scale is the covariance of all samples, so the objective depends on units by a constant alone. In
coordinates where that covariance is the identity the scale is a multiple of the identity, and no matrix is
worse conditioned than the partition makes it.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sweep_clustering.kernels.problem.data import DEGENERATE, Floats
from sweep_clustering.kernels.structure import AUTO

# Shapes with one variance for all features.
SPHERES = ("spherical", "common")

# A feature of which the others explain all but this share of the variance is left out.
COLLINEAR = 1e-10

# A deviation of no more than this share of the largest value is rounding: the feature is constant.
ROUNDING = 1e-13

# Of a "diagonal" covariance: the scale of its prior over that of a "full" one, and its degrees of freedom nu;
# those of "full" and "tied" are the number of dimensions plus 2.
DIAGONAL_SHARE, DIAGONAL_FREEDOM = 0.1, 0.5


class Prior(NamedTuple):
    """An inverse Wishart prior, or an inverse gamma prior of each feature, to the power of its strength.

    Of spheres the variance prior: so many pseudo-samples at the overall variance.

    Parameters
    ----------
    ridge : float
        Its scale, as a multiple of the covariance of all samples.
    freedom : float
        What it adds to the size of a cluster, f_r = n_r + freedom.
    kappa, total_variance : float
        Of spheres alone: pseudo-samples, and s².
    """

    ridge: float
    freedom: float
    kappa: float = 0.0
    total_variance: float = 0.0


def unused_priors(covariances: Iterable[str]) -> tuple[str, ...]:
    """Settings of priors that none of some shapes has.

    Parameters
    ----------
    covariances : iterable of str
        Shapes; "auto" may come to any.
    """
    shapes = set(covariances)
    if AUTO in shapes:
        return ()
    if shapes <= set(SPHERES):
        return ("covariance_prior",)
    return () if shapes & set(SPHERES) else ("variance_prior",)


def prior_of(covariance: str, n_dims: int, n_clusters: int, strength: float) -> Prior:
    """The prior of a shape (docs/model.md, eq. (47)).

    Parameters
    ----------
    covariance : {"diagonal", "tied", "full"}
        Shape.
    n_dims : int
        Features that are not constant, nor, for "tied" and "full", given by the others.
    n_clusters : int
        K.
    strength : float
        Power of the prior's density; 0 for none.
    """
    ridge = strength * float(n_clusters) ** (-2.0 / n_dims)
    if covariance == "diagonal":
        return Prior(DIAGONAL_SHARE * ridge, strength * (DIAGONAL_FREEDOM + 2.0))
    return Prior(ridge, strength * (2.0 * n_dims + 3.0))


def coordinates(X: ArrayLike, covariance: str) -> tuple[Floats, NDArray[np.int64], float]:
    """Coordinates of unit covariance for a shape: each feature scaled, or all made uncorrelated.

    By Gram and Schmidt, the feature that is least explained by those before it next: elementwise, so that the
    bits depend on no library of linear algebra and no number of threads.

    Parameters
    ----------
    X : array_like of shape (n_samples, n_features)
        Features as used; not all rows are equal.
    covariance : {"diagonal", "tied", "full"}
        Shape.

    Returns
    -------
    Z : ndarray of shape (n_samples, n_dims)
        The samples.
    kept : ndarray of shape (n_dims,), int64
        Features that the coordinates are made of, rising: those that are not constant, nor, but for
        "diagonal", given by the others.
    log_volume : float
        Half the log-determinant of the covariance of the kept features.
    """
    given = np.asarray(X, dtype=np.float64)
    rest = given - given.mean(axis=0)
    rest -= rest.mean(axis=0)
    variances = np.mean(np.square(rest), axis=0)
    left = np.flatnonzero(np.sqrt(variances) > ROUNDING * np.abs(given).max(axis=0))
    if not len(left):
        raise ValueError(
            f"X: found features that vary by no more than rounding, {ROUNDING:g} of their largest value,"
            " expected samples that differ (subtract what they have in common)"
        )
    if covariance == "diagonal":
        deviations = np.sqrt(variances[left])
        Z = np.ascontiguousarray(rest[:, left] / deviations)
        return Z, left, float(np.log(deviations).sum())
    rest = rest[:, left] / np.sqrt(variances[left])
    columns: list[Floats] = []
    chosen: list[int] = []
    log_volume = 0.0
    unexplained = np.ones(len(left))
    while len(chosen) < len(left):
        place = int(np.argmax(unexplained))
        if unexplained[place] <= COLLINEAR:
            break
        deviation = float(np.sqrt(np.mean(np.square(rest[:, place]))))
        column = rest[:, place] / deviation
        log_volume += np.log(deviation) + 0.5 * np.log(variances[left[place]])
        columns.append(column)
        chosen.append(place)
        rest = rest - column[:, None] * (np.einsum("n,nd->d", column, rest) / len(column))
        unexplained = np.mean(np.square(rest), axis=0)
        unexplained[chosen] = 0.0
    kept = np.sort(left[chosen])
    return np.ascontiguousarray(np.column_stack(columns)), kept, float(log_volume)


def shaped_covariances(
    features: Floats,
    labels: NDArray[np.integer],
    sizes: NDArray[np.integer],
    means: Floats,
    covariance: str,
    kept: NDArray[np.int64],
    prior: Prior,
) -> Floats:
    """Covariances of clusters, from centred features (docs/model.md, eqs. (5), (7), (34) and (49)).

    Parameters
    ----------
    features : ndarray of shape (n_samples, n_features)
        Centred.
    labels : ndarray of shape (n_samples,)
        Cluster of every sample.
    sizes, means : ndarray of shape (n_clusters,) and (n_clusters, n_features)
        Of the clusters.
    covariance : str
        Shape.
    kept : ndarray of shape (n_dims,)
        As of `coordinates`.
    prior : Prior
        As of `prior_of`, or the variance prior.

    Returns
    -------
    ndarray of shape (n_clusters,), (n_clusters, n_features) or (n_clusters, n_features, n_features)
        One variance for spheres, those of the features for "diagonal", 0 for a degenerate cluster; else
        matrices, for "tied" the same for all clusters.
    """
    differences = features - means[labels]
    n_clusters, n_features = means.shape
    if covariance in SPHERES:
        errors = np.bincount(labels, weights=np.square(differences).sum(axis=1), minlength=n_clusters)
        counts = sizes
        if covariance == "common":
            errors[:] = errors.sum()
            counts = np.full(n_clusters, len(labels))
        # Without samples and prior a cluster has no variance: degenerate.
        freedom = np.maximum(n_features * (counts + prior.kappa), 1e-300)
        found = (errors + prior.kappa * n_features * prior.total_variance) / freedom
        if prior.kappa == 0.0:
            least = DEGENERATE * prior.total_variance * n_features * counts
            found[(counts <= 1) | (errors <= least)] = 0.0
        return np.asarray(found)
    if covariance == "diagonal":
        overall = np.mean(np.square(features), axis=0)
        squares = np.zeros((n_clusters, n_features))
        np.add.at(squares, labels, np.square(differences))
        freedom = np.maximum(sizes + prior.freedom, 1e-300)
        found = (squares + prior.ridge * overall) / freedom[:, None]
        if prior.ridge == 0.0:
            small = squares[:, kept] <= DEGENERATE * overall[kept] * sizes[:, None]
            found[(sizes <= 1) | small.any(axis=1)] = 0.0
        return np.asarray(found)
    scale = prior.ridge * np.einsum("ni,nj->ij", features, features) / len(features)
    tied = covariance == "tied"
    groups = [differences] if tied else [differences[labels == k] for k in range(n_clusters)]
    found = np.stack(
        [
            (np.einsum("ni,nj->ij", group, group) + scale) / max(len(group) + prior.freedom, 1e-300)
            for group in groups
        ]
    )
    return np.repeat(found, n_clusters, axis=0) if tied else found
