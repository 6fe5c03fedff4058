"""What a fitted estimator says of samples without annotations."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from pipeline.fit.costs import assignment_costs
from pipeline.fit.estimating.inputs import check_same_features
from sweeps.errors import InputError, Problem

FARTHEST = 1e300
"""Nats: of larger costs neither differences nor sums are numbers."""


class Density:
    """Methods of `AnnotatedClustering` for new samples: `predict` and `score`."""

    def predict(self, X: ArrayLike) -> NDArray[np.int32]:
        """Cluster of the largest density (docs/model.md, eqs. (24) and (50)), the lowest on ties.

        A degenerate cluster receives nothing.

        Parameters
        ----------
        X : array_like of shape (n_samples, n_features)
            Features of samples without annotations.

        Returns
        -------
        ndarray of shape (n_samples,), int32
            Labels.

        Raises
        ------
        ValueError
            If X does not have the features of the fit, or all clusters are degenerate.
        """
        cheapest: NDArray[np.int32] = self._costs(X).argmin(axis=1).astype(np.int32)
        return cheapest

    def score(self, X: ArrayLike, y: object = None) -> float:
        """Mean log-density of samples with their clusters, in nats; the larger, the better.

        The mean over samples of max_r [log N(x; μ_r, Σ_r) + log π_r]: every sample belongs to the cluster
        that `predict` gives; π_r is 1 / K, or the share of the cluster if proportions are free, as in the
        model. It is a lower bound of the mean log-density of the mixture. Annotations play no part.

        Parameters
        ----------
        X : array_like of shape (n_samples, n_features)
            Features.
        y : object
            Not used.

        Returns
        -------
        float
            Nats per sample.

        Raises
        ------
        ValueError
            As of `predict`.
        """
        own: Any = self
        lowest = self._costs(X).min(axis=1)
        n_clusters, n_dims = len(own.cluster_centers_), len(own.features_used_)
        return float(-lowest.mean() - 0.5 * n_dims * np.log(2 * np.pi) - np.log(n_clusters))

    def _costs(self, X: ArrayLike) -> NDArray[np.float64]:
        """Minus log-density and log K π_r, but for a constant, of shape (n_samples, n_clusters)."""
        own: Any = self
        check_is_fitted(self)
        features = check_same_features(self, X)
        if not own.covariances_.any():
            raise ValueError("all clusters are degenerate: none can receive a sample (see variance_prior)")
        covariances = own.covariances_
        if own.covariance_ == "tied":
            covariances = np.broadcast_to(covariances, (len(own.cluster_centers_), *covariances.shape))
        with np.errstate(over="ignore", invalid="ignore"):
            costs = assignment_costs(features, own.cluster_centers_, covariances, own.features_used_)
        far = np.flatnonzero(~(costs.min(axis=1) < FARTHEST))
        if len(far):
            found = "values whose squares overflow"
            raise InputError([Problem(f"X, row {far[0]}", found, "smaller values", "use another unit")])
        if own.proportions == "free":
            costs -= np.log(own.sizes_ / own.sizes_.mean())
        return costs
