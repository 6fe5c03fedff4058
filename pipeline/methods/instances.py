"""Small problems on which a method is tried."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.methods.contract import CANNOT, MUST, Links, Weights, merged_links

SAMPLES, FEATURES, CLUSTERS = 30, 2, 3


@dataclass(frozen=True, eq=False)
class Instance:
    """A table with links.

    Parameters
    ----------
    name : str
        What is special about it.
    X : ndarray of shape (n_samples, n_features)
        Features.
    n_clusters : int
        Clusters to ask for.
    must_link, cannot_link, weights
        Arguments of the contract.
    accuracy : float or None
        Of the annotations.
    """

    name: str
    X: NDArray[np.float64]
    n_clusters: int
    must_link: Links
    cannot_link: Links
    weights: Weights
    accuracy: float | None


def instances() -> list[Instance]:
    """Problems that a sweep may have: plain ones first.

    Three clusters of ten samples, far from each other, with annotations that are right, that contradict each
    other, that say everything is one cluster, with none; with one cluster, with more clusters than there
    seem to be, with repeated rows and a constant feature.

    Returns
    -------
    list of Instance
        Always the same ones.
    """
    rng = np.random.default_rng(20210405)
    labels = np.repeat(np.arange(CLUSTERS), SAMPLES // CLUSTERS)
    centers = np.array([[0.0, 0.0], [8.0, 0.0], [0.0, 8.0]])
    X = centers[labels] + rng.normal(size=(SAMPLES, FEATURES))
    pairs = rng.integers(SAMPLES, size=(40, 2))
    right = np.where(labels[pairs[:, 0]] == labels[pairs[:, 1]], MUST, CANNOT)
    consistent = np.column_stack([pairs, right])
    contradictory = np.concatenate([consistent, np.column_stack([pairs[:5], 1 - right[:5]])])
    joined = np.column_stack(
        [np.arange(SAMPLES - 1), np.arange(1, SAMPLES), np.zeros(SAMPLES - 1, dtype=int)]
    )
    none = np.empty((0, 3), dtype=np.int64)
    repeated = np.column_stack([np.abs(np.round(X[:, 0] / 4)), np.ones(SAMPLES)])
    return [
        _instance("consistent links", X, CLUSTERS, consistent, 1.0),
        _instance("contradictory links", X, CLUSTERS, contradictory, 0.8),
        _instance("must-links that join all samples", X, CLUSTERS, joined, 0.9),
        _instance("no links", X, CLUSTERS, none, 0.9),
        _instance("links and an accuracy that is not told", X, CLUSTERS, consistent, None),
        _instance("one cluster", X, 1, consistent, 0.9),
        _instance("12 clusters", X, 12, consistent, 0.9),
        _instance("one feature", X[:, :1], CLUSTERS, consistent, 0.9),
        _instance("repeated rows and a constant feature", repeated, CLUSTERS, consistent, 0.9),
    ]


def without_links(instance: Instance) -> Instance:
    """The same table as a method gets it that uses nothing."""
    none = np.empty((0, 3), dtype=np.int64)
    return _instance(instance.name, instance.X, instance.n_clusters, none, None)


def _instance(
    name: str, X: NDArray[np.float64], n_clusters: int, annotations: NDArray[np.int64], accuracy: float | None
) -> Instance:
    must_link, cannot_link, weights = merged_links(annotations)
    return Instance(name, X, n_clusters, must_link, cannot_link, weights, accuracy)
