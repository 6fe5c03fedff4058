"""A clustering problem, checked and laid out for the kernels."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sweep_clustering.kernels.problem import data as parts
from sweep_clustering.kernels.problem.data import CANNOT, MUST, Data, Floats, Layer, layers_from_annotations
from sweep_clustering.kernels.problem.shapes import SPHERES, coordinates, prior_of
from sweep_clustering.kernels.settings import DEFAULT, TERMS, ObjectiveSettings, spread_problem
from sweep_clustering.kernels.structure import COVARIANCES

__all__ = ["CANNOT", "MUST", "Layer", "Problem", "build_problem", "layers_from_annotations"]


@dataclass(frozen=True)
class Problem:
    """Input of the search; made by `build_problem`.

    Parameters
    ----------
    data : Data
        What the kernels see. The features are centred.
    means : ndarray of shape (n_features,)
        Column means that were subtracted.
    model : str
        "unsupervised", "likelihood", "posterior" or "conditional".
    covariance : str
        Shape of the covariances, one of `kernels.structure.COVARIANCES`.
    kept : ndarray of shape (n_dims,), int64
        Features on which the Gaussians have a density: all but those that are constant, or given by others.
    """

    data: Data
    means: Floats
    model: str
    covariance: str
    kept: NDArray[np.int64]

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
        Annotation graphs; those without annotations are skipped, and all are in the model "unsupervised".
    n_clusters : int
        K.
    model : {"unsupervised", "likelihood", "posterior", "conditional"}
        The annotation term of the objective.
    covariance : {"spherical", "common", "diagonal", "tied", "full"}
        Shape of the covariances: one variance for each cluster, or one that all share; one for each cluster
        and feature; one matrix that all clusters share, or one for each.
    settings : ObjectiveSettings
        Least size of a cluster; the variance prior, kappa of docs/model.md, eq. (7), of the first two shapes;
        the strength of the prior of the others, tau of eq. (46); the weight of the features, eta of eq. (42):
        a number, or "effective" for `effective_weight` of X; and the proportions of the clusters, eq. (51).

    Returns
    -------
    Problem

    Raises
    ------
    ValueError
        If the input has no valid solution; the text says what was found.
    """
    features = np.array(X, dtype=np.float64, order="C")
    _check(features, n_clusters, settings.min_cluster_size)
    means = _column_means(features)
    features -= means
    strength, kappa = float(settings.covariance_prior), float(settings.variance_prior)
    given = np.asarray(X, dtype=np.float64)
    fields, kept, log_volume = _gaussians(features, given, n_clusters, covariance, strength)
    weight = settings.feature_weight
    weight = effective_weight(fields["Z"]) if isinstance(weight, str) else float(weight)
    used = [] if model == "unsupervised" else [layer for layer in layers if len(layer.pairs)]
    n_samples, n_features = features.shape
    annotated = np.zeros(n_samples, dtype=np.bool_)
    for layer in used:
        annotated[np.asarray(layer.pairs)] = True
    # The tables reach n_samples + 1: gains look up the size of a cluster with one sample more.
    sizes = np.arange(n_samples + 2, dtype=np.float64)
    freedom = n_features * (sizes + kappa) if covariance in SPHERES else sizes + fields["freedom"]
    data = Data(
        X=features,
        n_clusters=int(n_clusters),
        model=TERMS.index(model),
        min_size=int(settings.min_cluster_size),
        kappa=kappa,
        total_variance=float(np.mean(np.square(features))),
        feature_weight=weight,
        proportions=settings.proportions == "free",
        unit_term=-weight * n_samples * log_volume,
        annotated=np.flatnonzero(annotated).astype(np.int32),
        unannotated=np.flatnonzero(~annotated).astype(np.int32),
        log_size=np.log(np.maximum(sizes, 1.0)),
        log_freedom=np.log(np.where(freedom > 0, freedom, 1.0)),
        **fields,
        **parts.adjacency(used, n_samples, model),
    )
    return Problem(data, means, model, covariance, kept)


def _check(X: Floats, n_clusters: int, least: int) -> None:
    """Raise an error for features without a solution: the rest was checked where it was given."""
    if wrong := spread_problem(X):
        found, expected, hint = wrong
        raise ValueError(f"X: found {found}, expected {expected}" + (f" ({hint})" if hint else ""))
    if len(X) < n_clusters * least:
        raise ValueError(
            f"{len(X)} samples are fewer than n_clusters × min_cluster_size = {n_clusters} × {least}"
        )
    # The first rows nearly always hold enough distinct ones; sorting all rows takes longer than the layout.
    if n_clusters > len(np.unique(X[: 8 * n_clusters], axis=0)):
        distinct = len(np.unique(X, axis=0))
        if n_clusters > distinct:
            raise ValueError(f"n_clusters is {n_clusters}, but X has only {distinct} distinct rows")


def _column_means(X: Floats) -> Floats:
    """Means to the last bits: the second step subtracts what rounding left of columns far from 0."""
    means = X.mean(axis=0)
    return np.asarray(means + (X - means).mean(axis=0))


def effective_weight(X: ArrayLike) -> float:
    """Effective number of features as a share of their number (docs/model.md, eq. (43)).

    Parameters
    ----------
    X : array_like of shape (n_samples, n_features)
        Features as the Gaussians see them: as used, of unit variance for "diagonal", uncorrelated for "tied"
        and "full", which know the correlations and have the weight 1.

    Returns
    -------
    float
        tr(C)² / (D tr(C²)), C their covariance: 1 for D uncorrelated features of one variance,
        1 / D for D copies of one feature.
    """
    features = np.asarray(X, dtype=np.float64)
    features = features - _column_means(features)
    features = features / np.abs(features).max()  # squares of squares would overflow
    # Not by a matrix product: its last bits depend on the number of threads.
    covariance = np.einsum("ni,nj->ij", features, features)
    return float(np.trace(covariance) ** 2 / (len(covariance) * np.sum(np.square(covariance))))


def _gaussians(
    X: Floats, given: Floats, n_clusters: int, covariance: str, strength: float
) -> tuple[dict[str, Any], NDArray[np.int64], float]:
    """Fields of `Data` that a shape of covariance has, the features it keeps, and their `log_volume`.

    `X` are the features as given, centred.
    """
    fields = {"shape": COVARIANCES.index(covariance), "Z": X, "floors": np.empty(0)}
    fields |= {"ridge": 0.0, "freedom": 0.0, "ground": 0.0, "reach": 0.0}
    if covariance in SPHERES:
        return fields, np.arange(X.shape[1]), 0.0
    Z, kept, log_volume = coordinates(given, covariance)
    n_dims = len(kept)
    ridge, freedom, *_ = prior_of(covariance, n_dims, n_clusters, strength)
    if ridge == 0.0:
        # In the units of X, which decide what the 0 of a degenerate cluster is worth.
        Z = np.ascontiguousarray(X[:, kept])
        return fields | {"Z": Z, "floors": parts.DEGENERATE * np.mean(np.square(Z), axis=0)}, kept, 0.0
    ground = freedom * n_dims * (math.log(ridge) - math.log(freedom) + 1.0)
    reach = float(np.abs(Z).max()) / math.sqrt(ridge)
    fields |= {"Z": Z, "ridge": ridge, "freedom": freedom, "ground": ground, "reach": reach}
    return fields, kept, log_volume
