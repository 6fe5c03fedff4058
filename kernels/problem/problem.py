"""A clustering problem, checked and laid out for the kernels, and covariances with a prior.

The scale of the prior is the covariance of all samples, so that the objective depends on units by a constant
alone. In coordinates where that covariance is the identity the scale is a multiple of the identity, and no
matrix is worse conditioned than the partition makes it.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sweep_clustering.kernels.problem import data as parts
from sweep_clustering.kernels.problem.data import MUST, Data, Floats, Layer, layers_from_annotations
from sweep_clustering.kernels.settings import DEFAULT, TERMS, ObjectiveSettings, spread_problem
from sweep_clustering.kernels.structure import AUTO, COVARIANCES

__all__ = ["MUST", "Layer", "Problem", "build_problem", "layers_from_annotations"]

# Shapes with one variance for all features.
SPHERES = ("spherical", "common")

# A feature is left out if the others explain all but this share of its variance.
COLLINEAR = 1e-10

# A deviation of at most this share of the largest value is rounding: the feature is constant.
ROUNDING = 1e-13

# Scale of the prior of a "diagonal" covariance, as a share of that of a "full" one.
DIAGONAL_SHARE = 0.1

# Degrees of freedom nu of a "diagonal" covariance; those of "full" and "tied" are the dimensions plus 2.
DIAGONAL_FREEDOM = 0.5


class Prior(NamedTuple):
    """Prior of covariances, to the power of its strength: inverse Wishart, or inverse gamma of each feature.

    Spheres have the variance prior: kappa pseudo-samples at the overall variance.
    """

    ridge: float  # scale, as a multiple of the covariance of all samples
    freedom: float  # addition to the size of a cluster, f_r = n_r + freedom
    kappa: float = 0.0
    total_variance: float = 0.0  # s²


class Coordinates(NamedTuple):
    """Samples in coordinates of unit covariance."""

    Z: Floats  # (n_samples, n_dims)
    dims: NDArray[np.int64]  # (n_dims,), rising: features that are neither constant nor given by others
    log_volume: float  # half the log-determinant of the covariance of these features


@dataclass(frozen=True)
class Problem:
    """Input of the search, as `build_problem` returns it.

    Parameters
    ----------
    data : Data
        Arrays and scalars for the kernels. The features are centred.
    means : ndarray of shape (n_features,)
        Column means that were subtracted.
    model : {"unsupervised", "likelihood", "posterior", "conditional"}
        Annotation term of the objective.
    covariance : str
        Shape of the covariances, one of `kernels.structure.COVARIANCES`.
    dims : ndarray of shape (n_dims,), int64
        Features on which the Gaussians have a density, those of `Coordinates`.
    """

    data: Data
    means: Floats
    model: str
    covariance: str
    dims: NDArray[np.int64]

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return int(self.data.X.shape[0])

    @property
    def n_clusters(self) -> int:
        """Number of clusters."""
        return self.data.n_clusters


def build_problem(
    X: ArrayLike,
    layers: Sequence[Layer] = (),
    *,
    n_clusters: int,
    model: str,
    covariance: str = "spherical",
    settings: ObjectiveSettings = DEFAULT,
) -> Problem:
    """Check a problem and lay it out for the kernels (docs/model.md, sections 1, 2 and 6).

    Parameters
    ----------
    X : array_like of shape (n_samples, n_features)
        Features as used.
    layers : sequence of Layer
        Annotation graphs. Those without annotations are skipped, and the model "unsupervised" skips all.
    n_clusters : int
        K.
    model : {"unsupervised", "likelihood", "posterior", "conditional"}
        Annotation term of the objective.
    covariance : {"spherical", "common", "diagonal", "tied", "full"}
        Shape of the covariances: one variance for each cluster, or one that all share; one for each cluster
        and feature; one matrix that all clusters share, or one for each.
    settings : ObjectiveSettings
        Least size of a cluster; variance prior for the first two shapes (kappa of docs/model.md, eq. (7));
        strength of the prior for the others (tau of eq. (46)); weight of the features (eta of eq. (42)), a
        number or "effective" for `effective_weight`; and proportions of the clusters (eq. (51)).

    Raises
    ------
    ValueError
        If the input has no valid solution; the text says what was found.
    """
    features = np.array(X, dtype=np.float64, order="C")
    _check(features, n_clusters, settings.min_cluster_size)
    means = _column_means(features)
    features -= means
    n_samples, n_features = features.shape
    kappa = float(settings.variance_prior)
    fields: dict[str, Any] = {"Z": features, "floors": np.empty(0)}
    fields |= {"ridge": 0.0, "freedom": 0.0, "ground": 0.0, "reach": 0.0}
    dims, log_volume = np.arange(n_features), 0.0
    if covariance not in SPHERES:
        Z, dims, log_volume = coordinates(X, covariance)
        prior = prior_of(covariance, len(dims), n_clusters, float(settings.covariance_prior))
        fields |= _shaped_fields(features, Z, dims, prior)
    weight = settings.feature_weight
    weight = effective_weight(fields["Z"]) if isinstance(weight, str) else float(weight)
    used_layers = [] if model == "unsupervised" else [layer for layer in layers if len(layer.pairs)]
    is_annotated = np.zeros(n_samples, dtype=np.bool_)
    for layer in used_layers:
        is_annotated[np.asarray(layer.pairs)] = True
    # The tables reach n_samples + 1, as gains look up the size of a cluster with one sample more.
    sizes = np.arange(n_samples + 2, dtype=np.float64)
    freedom = n_features * (sizes + kappa) if covariance in SPHERES else sizes + fields["freedom"]
    data = Data(
        X=features,
        n_clusters=int(n_clusters),
        model=TERMS.index(model),
        shape=COVARIANCES.index(covariance),
        min_size=int(settings.min_cluster_size),
        kappa=kappa,
        total_variance=float(np.mean(np.square(features))),
        feature_weight=weight,
        proportions=settings.proportions == "free",
        unit_term=-weight * n_samples * (log_volume if fields["ridge"] else 0.0),
        annotated=np.flatnonzero(is_annotated).astype(np.int32),
        unannotated=np.flatnonzero(~is_annotated).astype(np.int32),
        log_size=np.log(np.maximum(sizes, 1.0)),
        log_freedom=np.log(np.where(freedom > 0, freedom, 1.0)),
        **fields,
        **parts.adjacency(used_layers, n_samples, model),
    )
    return Problem(data, means, model, covariance, dims)


def _check(X: Floats, n_clusters: int, min_size: int) -> None:
    """Raise an error for features without a solution."""
    if problem := spread_problem(X):
        values, expected, hint = problem
        raise ValueError(f"X: found {values}, expected {expected}" + (f" ({hint})" if hint else ""))
    if len(X) < n_clusters * min_size:
        raise ValueError(
            f"{len(X)} samples are fewer than n_clusters × min_cluster_size = {n_clusters} × {min_size}"
        )
    # The first rows nearly always hold enough distinct ones; sorting all rows takes longer than the layout.
    if n_clusters > len(np.unique(X[: 8 * n_clusters], axis=0)):
        distinct = parts.count_distinct(X)
        if n_clusters > distinct:
            raise ValueError(f"n_clusters is {n_clusters}, but X has only {distinct} distinct rows")


def _column_means(X: Floats) -> Floats:
    """Return means to the last bits: the second step subtracts what rounding leaves of columns far from 0."""
    means = X.mean(axis=0)
    return np.asarray(means + (X - means).mean(axis=0))


def _shaped_fields(X: Floats, Z: Floats, dims: NDArray[np.int64], prior: Prior) -> dict[str, Any]:
    """Return the fields of `Data` for a shape with a prior, from features X and coordinates Z."""
    if prior.ridge == 0.0:
        # The units are those of X, on which the value 0 of a degenerate cluster depends.
        Z = np.ascontiguousarray(X[:, dims])
        return {"Z": Z, "floors": parts.DEGENERATE * np.mean(np.square(Z), axis=0)}
    logs = math.log(prior.ridge) - math.log(prior.freedom)
    return {
        "Z": Z,
        "ridge": prior.ridge,
        "freedom": prior.freedom,
        "ground": prior.freedom * len(dims) * (logs + 1.0),
        "reach": float(np.abs(Z).max()) / math.sqrt(prior.ridge),
    }


def effective_weight(X: ArrayLike) -> float:
    """Return the effective number of features as a share of their number (docs/model.md, eq. (43)).

    It is tr(C)² / (D tr(C²)), C the covariance of X: 1 for D uncorrelated features of one variance, 1 / D for
    D copies of one feature. X are the coordinates of the shape, uncorrelated for "tied" and "full".
    """
    features = np.asarray(X, dtype=np.float64)
    features = features - _column_means(features)
    features = features / np.abs(features).max()  # squares of squares would overflow
    # The last bits of a matrix product depend on the number of threads.
    covariance = np.einsum("ni,nj->ij", features, features)
    return float(np.trace(covariance) ** 2 / (len(covariance) * np.sum(np.square(covariance))))


# Shapes of covariance with a prior: coordinates, the prior, estimates (docs/model.md, section 7).


def unused_priors(covariances: Iterable[str]) -> tuple[str, ...]:
    """Return the settings of priors that none of these shapes has; "auto" may choose any shape."""
    shapes = set(covariances)
    if AUTO in shapes:
        return ()
    if shapes <= set(SPHERES):
        return ("covariance_prior",)
    return () if shapes & set(SPHERES) else ("variance_prior",)


def prior_of(covariance: str, n_dims: int, n_clusters: int, strength: float) -> Prior:
    """Return the prior of "diagonal", "tied" or "full" (docs/model.md, eq. (47)); strength 0 means none."""
    ridge = strength * float(n_clusters) ** (-2.0 / n_dims)
    if covariance == "diagonal":
        return Prior(DIAGONAL_SHARE * ridge, strength * (DIAGONAL_FREEDOM + 2.0))
    return Prior(ridge, strength * (2.0 * n_dims + 3.0))


def coordinates(X: ArrayLike, covariance: str) -> Coordinates:
    """Return coordinates of unit covariance: features scaled for "diagonal", else made uncorrelated.

    The method of Gram and Schmidt takes the feature next that the others explain least. It is elementwise, so
    that the bits depend on no library of linear algebra and no number of threads.
    """
    features = np.asarray(X, dtype=np.float64)
    residuals = features - features.mean(axis=0)
    residuals -= residuals.mean(axis=0)
    variances = np.mean(np.square(residuals), axis=0)
    varying = np.flatnonzero(np.sqrt(variances) > ROUNDING * np.abs(features).max(axis=0))
    if not len(varying):
        raise ValueError(
            f"X: found features that vary by no more than rounding, {ROUNDING:g} of their largest value,"
            " expected samples that differ (subtract what they have in common)"
        )
    deviations = np.sqrt(variances[varying])
    residuals = residuals[:, varying] / deviations
    if covariance == "diagonal":
        return Coordinates(np.ascontiguousarray(residuals), varying, float(np.log(deviations).sum()))
    columns: list[Floats] = []
    places: list[int] = []
    log_volume = 0.0
    unexplained = np.ones(len(varying))
    while len(places) < len(varying):
        place = int(np.argmax(unexplained))
        if unexplained[place] <= COLLINEAR:
            break
        deviation = float(np.sqrt(np.mean(np.square(residuals[:, place]))))
        column = residuals[:, place] / deviation
        log_volume += np.log(deviation) + 0.5 * np.log(variances[varying[place]])
        columns.append(column)
        places.append(place)
        residuals = residuals - column[:, None] * (np.einsum("n,nd->d", column, residuals) / len(column))
        unexplained = np.mean(np.square(residuals), axis=0)
        unexplained[places] = 0.0
    Z = np.ascontiguousarray(np.column_stack(columns))
    return Coordinates(Z, np.sort(varying[places]), float(log_volume))


def shaped_covariances(
    features: Floats,
    labels: NDArray[np.integer],
    sizes: NDArray[np.integer],
    means: Floats,
    covariance: str,
    dims: NDArray[np.int64],
    prior: Prior,
) -> Floats:
    """Estimate the covariances of clusters (docs/model.md, eqs. (5), (7), (34) and (49)).

    Parameters
    ----------
    features : ndarray of shape (n_samples, n_features)
        Centred features.
    labels : ndarray of shape (n_samples,)
        Cluster of every sample.
    sizes, means : ndarray of shape (n_clusters,) and (n_clusters, n_features)
        Sizes and means of the clusters.
    covariance : {"spherical", "common", "diagonal", "tied", "full"}
        Shape.
    dims : ndarray of shape (n_dims,)
        Features of the coordinates.
    prior : Prior
        Prior of the shape.

    Returns
    -------
    ndarray of shape (n_clusters,), (n_clusters, n_features) or (n_clusters, n_features, n_features)
        One variance for spheres, variances of the features for "diagonal", 0 for a degenerate cluster; else
        matrices, for "tied" the same for all clusters.
    """
    differences = features - means[labels]
    n_clusters, n_features = means.shape
    # Without samples and prior a cluster has no freedom, and is degenerate.
    if covariance in SPHERES:
        errors = np.bincount(labels, weights=np.square(differences).sum(axis=1), minlength=n_clusters)
        counts = sizes
        if covariance == "common":
            errors[:] = errors.sum()
            counts = np.full(n_clusters, len(labels))
        freedom = np.maximum(n_features * (counts + prior.kappa), 1e-300)
        variances = (errors + prior.kappa * n_features * prior.total_variance) / freedom
        if prior.kappa == 0.0:
            limits = parts.DEGENERATE * prior.total_variance * n_features * counts
            variances[(counts <= 1) | (errors <= limits)] = 0.0
        return np.asarray(variances)
    if covariance == "diagonal":
        overall = np.mean(np.square(features), axis=0)
        squares = np.zeros((n_clusters, n_features))
        np.add.at(squares, labels, np.square(differences))
        freedom = np.maximum(sizes + prior.freedom, 1e-300)
        variances = (squares + prior.ridge * overall) / freedom[:, None]
        if prior.ridge == 0.0:
            is_small = squares[:, dims] <= parts.DEGENERATE * overall[dims] * sizes[:, None]
            variances[(sizes <= 1) | is_small.any(axis=1)] = 0.0
        return np.asarray(variances)
    scale = prior.ridge * np.einsum("ni,nj->ij", features, features) / len(features)
    is_tied = covariance == "tied"
    groups = [differences] if is_tied else [differences[labels == k] for k in range(n_clusters)]
    matrices = [
        (np.einsum("ni,nj->ij", group, group) + scale) / max(len(group) + prior.freedom, 1e-300)
        for group in groups
    ]
    return np.stack(matrices * n_clusters if is_tied else matrices)
