"""Drawing synthetic data: mixtures of spherical Gaussians."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def draw_mixture(
    rng: np.random.Generator,
    *,
    n_clusters: int,
    n_samples: int = 200,
    n_features: int = 10,
    center_range: tuple[float, float] = (-1.0, 1.0),
    variance_range: tuple[float, float] = (0.0, 5.0),
) -> tuple[NDArray[np.float64], NDArray[np.int16]]:
    """Draw a mixture and samples from it (docs/model.md, eq. (25)).

    The order of the draws is fixed: centres, variances, labels, noise. A cluster may stay empty.

    Parameters
    ----------
    rng : numpy.random.Generator
        The only source of randomness.
    n_clusters, n_samples, n_features : int
        Sizes.
    center_range : (low, high)
        Interval every coordinate of every centre is uniform on.
    variance_range : (low, high)
        Interval every cluster's variance is uniform on.

    Returns
    -------
    X : array of shape (n_samples, n_features)
        Samples x ~ N(μ_r, σ²_r I).
    labels_true : array of shape (n_samples,)
        Clusters, uniform on 0 .. n_clusters - 1.
    """
    centers = rng.uniform(*center_range, size=(n_clusters, n_features))
    variances = rng.uniform(*variance_range, size=n_clusters)
    labels = rng.integers(n_clusters, size=n_samples)
    noise = rng.standard_normal((n_samples, n_features))
    X: NDArray[np.float64] = centers[labels] + np.sqrt(variances[labels])[:, np.newaxis] * noise
    return X, labels.astype(np.int16)
