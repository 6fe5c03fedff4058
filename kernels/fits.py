"""The record of a fit by any solver, `Fit`, and its `Gaussians` if clusters are unions of several.

`assignment_costs` are what samples cost in its clusters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sweep_clustering.kernels.structure import Structure

Floats = NDArray[np.float64]

# Applies a function to each argument, as `map` does; calls may run at once, and results come in order.
Runner = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]

# Numbers that are computed together, few enough for the cache of a processor.
CACHED = 2**16


class Fit(NamedTuple):
    """Best solution of one restart, and the work it took.

    Parameters
    ----------
    labels : ndarray of shape (n_samples,), int16
        Cluster of every sample.
    objective : float
        Objective in nats, from scratch: the sum of the next three.
    gmm : float
        Term of the features, nats.
    sbm : float
        Term of the annotations, nats: ann of docs/model.md, eq. (36), for "conditional".
    prior : float
        Term of the priors, nats.
    sizes : ndarray of shape (n_clusters,), int64
        Samples of each cluster; the genetic search leaves no cluster empty.
    centroids : ndarray of shape (n_clusters, n_features)
        Means of the features.
    covariances : ndarray of shape (n_clusters,), with axes of n_features for some shapes
        Covariances as `kernels.scores.cluster_covariances` returns them, with the variance prior if there is
        one; 0 for a degenerate cluster. They are spherical if there are Gaussians.
    local_searches : int
        Local searches made; 1 for a soft fit.
    evaluations : int
        Relocations tried in both phases; steps of a soft fit.
    caps_reached : int
        How often a limit on rounds, passes, k-means iterations or the steps of a soft fit ended a loop.
    gaussians : Gaussians or None
        Gaussians that the clusters are unions of.
    """

    labels: NDArray[np.int16]
    objective: float
    gmm: float
    sbm: float
    prior: float
    sizes: NDArray[np.int64]
    centroids: Floats
    covariances: Floats
    local_searches: int
    evaluations: int
    caps_reached: int
    gaussians: Gaussians | None = None

    @property
    def bare(self) -> Fit:
        """The same fit without the shares of its classes, which take memory for every sample."""
        return self if self.gaussians is None else self._replace(gaussians=self.gaussians.bare)


@dataclass(frozen=True, slots=True, eq=False)
class Gaussians:
    """Gaussians in some coordinates, whose unions are the classes: a soft partition.

    Parameters
    ----------
    structure : Structure
        Structure of the classes.
    class_of : ndarray of shape (n_components,)
        Class of each component; no class is without one.
    weights : ndarray of shape (n_components,)
        Proportions of the components.
    means : ndarray of shape (n_components, n_dims)
        Means in the units of the coordinates.
    covariances : ndarray of shape (n_components, n_dims) or (n_components, n_dims, n_dims)
        Variances or matrices; a single matrix if they are tied.
    center : ndarray of shape (n_features,)
        Means of the features.
    axes : ndarray of shape (n_features, n_dims), or None
        Directions of the coordinates; None if the features are the coordinates.
    classes : ndarray of shape (n_samples, n_classes)
        Share of each class in each sample of the fit, which are the memberships; empty in a cube.
    accuracies : mapping of int to two floats
        Estimated accuracies of annotators by number, on pairs that belong together and on others.
    terms : tuple of float
        Terms of features with entropy, annotations, and the prior on the components, nats.
    steps : int
        Number of steps of the fit.
    """

    structure: Structure
    class_of: NDArray[np.integer]
    weights: Floats
    means: Floats
    covariances: Floats
    center: Floats
    axes: Floats | None = None
    classes: Floats = field(default_factory=lambda: np.empty((0, 0)))
    accuracies: Mapping[int, tuple[float, ...]] = field(default_factory=dict)
    terms: tuple[float, float, float] = (math.nan, math.nan, math.nan)
    steps: int = 0

    @property
    def bare(self) -> Gaussians:
        """The Gaussians without samples, as cubes and journals keep them."""
        return replace(
            self,
            class_of=self.class_of.astype(np.int16),
            classes=np.empty((0, 0)),
            accuracies={},
            terms=(math.nan, math.nan, math.nan),
            steps=0,
        )

    @property
    def union(self) -> Gaussians:
        """The same record, because `solution_` of the estimator had the Gaussians under this name."""
        return self

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return int(self.class_of.max()) + 1

    @property
    def bound(self) -> float:
        """Lower bound of the log-likelihood, nats."""
        return sum(self.terms)

    @property
    def labels(self) -> NDArray[np.int16]:
        """Largest class of each sample, the lowest on ties."""
        return np.asarray(self.classes.argmax(axis=1), np.int16)

    @property
    def matrices(self) -> Floats:
        """Covariances as matrices, an array of shape (n_components, n_dims, n_dims)."""
        if self.covariances.ndim == 2:
            return self.covariances[:, :, None] * np.eye(self.means.shape[1])
        return np.array(np.broadcast_to(self.covariances, (len(self.means), *self.covariances.shape[1:])))

    def place(self, X: Floats) -> Floats:
        """Return the coordinates of samples, an array of shape (n_samples, n_dims)."""
        return place(X, self.center, self.axes)

    def log_densities(self, Z: Floats) -> Floats:
        """Return the logarithm of the density of each sample in each component times its proportion, nats.

        Each row is summed by itself, so that no bit of it depends on the other rows.

        Parameters
        ----------
        Z : ndarray of shape (n_rows, n_dims)
            Coordinates of samples, which may be those of the fit.

        Returns
        -------
        ndarray of shape (n_rows, n_components)
        """
        logs = np.empty((len(Z), len(self.means)))
        # linear functions may leave a class so little that its proportion is 0 in floating point
        weights = np.maximum(self.weights, np.finfo(float).tiny)
        constants = np.log(weights) - 0.5 * Z.shape[1] * math.log(2.0 * math.pi)
        is_matrix = self.covariances.ndim == 3
        spreads = np.linalg.cholesky(self.covariances) if is_matrix else np.sqrt(self.covariances)
        logdets = [np.log(spread.diagonal() if is_matrix else spread).sum() for spread in spreads]
        inverses = np.linalg.inv(spreads) if is_matrix else spreads
        for rows in _blocks(Z):
            for g, mean in enumerate(self.means):
                shape = min(g, len(spreads) - 1)  # a single one if tied
                shifts = Z[rows] - mean
                white = (
                    np.einsum("nd,ed->ne", shifts, inverses[shape]) if is_matrix else shifts / spreads[shape]
                )
                logs[rows, g] = constants[g] - 0.5 * np.square(white).sum(axis=1) - logdets[shape]
        return logs

    def class_densities(self, Z: Floats) -> Floats:
        """Return the logarithm of the density of each sample in each class times its proportion, nats."""
        logs, classes = self.log_densities(Z), np.full((len(Z), self.n_classes), -np.inf)
        for g, c in enumerate(self.class_of.tolist()):
            classes[:, c] = np.logaddexp(classes[:, c], logs[:, g])
        return classes

    def predict(self, Z: Floats) -> Floats:
        """Return the probability of each class for samples without annotations, (n_rows, n_classes)."""
        logs = self.class_densities(Z)
        shares = np.exp(logs - logs.max(axis=1, keepdims=True))
        return np.asarray(shares / shares.sum(axis=1, keepdims=True))

    def predict_for(self, X: Floats) -> Gaussians:
        """Return the same Gaussians with the shares of other samples, without annotations."""
        return replace(self, classes=self.predict(self.place(X)))


def place(X: Floats, center: Floats, axes: Floats | None) -> Floats:
    """Return the coordinates of samples along axes; no bit of a row depends on the other rows."""
    return project(X - center, axes)


def project(centered_X: Floats, axes: Floats | None) -> Floats:
    """Return the coordinates along axes of samples from their center."""
    if axes is None:
        return centered_X
    if axes.shape[0] == axes.shape[1] and np.array_equal(axes, np.diag(axes.diagonal())):
        return centered_X * axes.diagonal()  # the same bits, sooner
    return np.asarray(np.einsum("nf,fd->nd", centered_X, axes))


def squared_norms(Z: Floats) -> Floats:
    """Return the squared norm of each row, without a copy of the table."""
    return np.concatenate([np.square(Z[rows]).sum(axis=1) for rows in _blocks(Z)])


def variances_of(Z: Floats) -> Floats:
    """Return the variance of each column, adding rows in the order in which `Z.var` does, without a copy."""
    means, total = Z.mean(axis=0), np.zeros(Z.shape[1])
    for rows in _blocks(Z):
        squares = np.square(Z[rows] - means)
        squares[0] += total
        total = squares.sum(axis=0)
    return np.asarray(total / len(Z))


def _blocks(Z: Floats) -> list[slice]:
    """Return the places of blocks of rows, which the cache of a processor holds."""
    size = max(CACHED // max(Z.shape[1], 1), 1)
    return [slice(start, start + size) for start in range(0, len(Z), size)]


def assignment_costs(X: Floats, centers: Floats, covariances: Floats, dims: NDArray[np.int64]) -> Floats:
    """Return minus the log-density of samples in each cluster, up to a constant (model.md, eqs. (24), (50)).

    This is half the squared distance by the covariance plus half its log-determinant, in nats, and infinite
    in a degenerate cluster, whose covariance is 0. Only features on which the Gaussians have a density are
    used. No bit of the cost of a sample depends on the other rows.
    """
    costs = np.full((len(X), len(centers)), np.inf)
    # One cluster at a time, so that no array has all distances.
    for cluster, covariance in enumerate(covariances):
        if not covariance.any():
            continue
        is_matrix = covariance.ndim == 2
        variances = np.broadcast_to(covariance.diagonal() if is_matrix else covariance, X.shape[1])[dims]
        deviations = np.sqrt(variances)
        logs = np.log(deviations).sum()
        whites = np.ascontiguousarray((X - centers[cluster])[:, dims] / deviations)
        if is_matrix:
            # It is scaled to a diagonal of ones, because units of features may differ by any factor.
            factor = np.linalg.cholesky(covariance[np.ix_(dims, dims)] / np.outer(deviations, deviations))
            logs += np.log(factor.diagonal()).sum()
            # There is no product of matrices, because its last bits depend on the other rows.
            whites = np.column_stack([(whites * row).sum(axis=1) for row in np.linalg.inv(factor)])
        costs[:, cluster] = 0.5 * np.square(whites).sum(axis=1) + logs
    return costs
