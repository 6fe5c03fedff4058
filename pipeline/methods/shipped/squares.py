"""Squared distances to centroids, and where centroids begin."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def squared_distances(X: NDArray[np.float64], centroids: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of all samples to all centroids, of shape (n_samples, n_clusters)."""
    # One centroid at a time: exact where samples lie close together, and no array of three dimensions.
    return np.stack([((X - center) ** 2).sum(axis=1) for center in centroids], axis=1)


def centroids_of(
    X: NDArray[np.float64], labels: NDArray[np.int64], before: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Means of clusters; an empty one stays where it was.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Samples.
    labels : ndarray of shape (n_samples,)
        Their clusters.
    before : ndarray of shape (n_clusters, n_features)
        Centroids so far.

    Returns
    -------
    ndarray of shape (n_clusters, n_features)
        Centroids.
    """
    sizes = np.bincount(labels, minlength=len(before))
    sums = np.stack([np.bincount(labels, weights=feature, minlength=len(before)) for feature in X.T], axis=1)
    means: NDArray[np.float64] = np.where(sizes[:, None] > 0, sums / np.maximum(sizes, 1)[:, None], before)
    return means


def spread_out(
    candidates: NDArray[np.float64],
    weights: NDArray[np.float64],
    centers: NDArray[np.float64],
    n_centers: int,
    rng: np.random.Generator,
) -> NDArray[np.float64]:
    """More centres, drawn far from those there are: k-means++ (Arthur and Vassilvitskii 2007).

    Parameters
    ----------
    candidates : ndarray of shape (n_candidates, n_features)
        What may become a centre, once each as long as there are others.
    weights : ndarray of shape (n_candidates,)
        The probability of a candidate is its weight times its squared distance to the nearest centre.
    centers : ndarray of shape (n_given, n_features)
        Centres there are.
    n_centers : int
        How many there shall be. There may be fewer candidates: then all of them are taken.
    rng : numpy.random.Generator
        Draws.

    Returns
    -------
    ndarray of shape (min(n_centers, n_given + n_candidates), n_features)
        Those given first.
    """
    taken = np.zeros(len(candidates), dtype=bool)
    distances = (
        squared_distances(candidates, centers).min(axis=1) if len(centers) else np.ones(len(candidates))
    )
    chosen = list(centers)
    while len(chosen) < n_centers and not taken.all():
        chances = np.where(taken, 0.0, weights * distances)
        if chances.sum() <= 0:  # all lie on centres
            chances = np.where(taken, 0.0, weights)
        place = int(rng.choice(len(candidates), p=chances / chances.sum()))
        first = not chosen
        chosen.append(candidates[place])
        taken[place] = True
        new = ((candidates - candidates[place]) ** 2).sum(axis=1)
        distances = new if first else np.minimum(distances, new)
    return np.array(chosen).reshape(-1, candidates.shape[1])


def padded(centroids: NDArray[np.float64], n_clusters: int) -> NDArray[np.float64]:
    """Centroids of all clusters, NaN for those beyond the number of samples."""
    missing = np.full((n_clusters - len(centroids), centroids.shape[1]), np.nan)
    return np.concatenate([centroids, missing])
