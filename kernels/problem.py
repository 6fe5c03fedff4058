"""A clustering problem, checked and laid out for the kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernels.data import LIKELIHOOD, POSTERIOR, UNSUPERVISED, Data, Floats

MUST, CANNOT = 0, 1
"""Kinds of an annotation."""

MODELS = {"unsupervised": UNSUPERVISED, "likelihood": LIKELIHOOD, "posterior": POSTERIOR}

LARGEST_PRIOR_ACCURACY = 1 - 1e-6
LARGEST_TABLE = 1 << 22
LARGEST_INDEX = np.iinfo(np.int32).max


@dataclass(frozen=True)
class Layer:
    """One annotation graph.

    Parameters
    ----------
    kind : int
        `MUST` or `CANNOT`.
    pairs : ndarray of shape (n_pairs, 2)
        Sample indices; repeated pairs, in either order, add up; a sample may pair with itself.
    weights : ndarray of shape (n_pairs,), optional
        Annotations each pair stands for (a self pair of weight w counts A_ii = 2w); ones if not given.
    accuracy : float, optional
        Assumed share of correct annotations, in (0, 1]; needed by the model "posterior" only.
    """

    kind: int
    pairs: NDArray[np.integer]
    weights: Floats | None = None
    accuracy: float | None = None


@dataclass(frozen=True)
class Problem:
    """Input of the search; made by `build_problem`.

    Parameters
    ----------
    data : Data
        What the kernels see. The features are centred.
    means : ndarray of shape (n_features,)
        Column means that were taken off.
    model : str
        "unsupervised", "likelihood" or "posterior".
    """

    data: Data
    means: Floats
    model: str

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return int(self.data.X.shape[0])

    @property
    def n_clusters(self) -> int:
        """Number of clusters."""
        return self.data.n_clusters


def layers_from_annotations(annotations: NDArray[np.integer], accuracy: float | None) -> list[Layer]:
    """Must-link and cannot-link layer of a table of annotations.

    Parameters
    ----------
    annotations : ndarray of shape (n_annotations, 3)
        Columns i, j, kind.
    accuracy : float or None
        Assumed accuracy of both layers.
    """
    table = np.asarray(annotations).reshape(-1, 3)
    return [Layer(kind, table[table[:, 2] == kind, :2], None, accuracy) for kind in (MUST, CANNOT)]


def build_problem(
    X: ArrayLike,
    layers: Sequence[Layer] = (),
    *,
    n_clusters: int,
    model: str,
    min_cluster_size: int = 2,
    variance_prior: float = 0.0,
) -> Problem:
    """Check a problem and lay it out for the kernels (model.md sections 1 and 2).

    Parameters
    ----------
    X : array_like of shape (n_samples, n_features)
        Features as used.
    layers : sequence of Layer
        Annotation graphs; those without annotations are skipped, and all are in the model "unsupervised".
    n_clusters : int
        K.
    model : {"unsupervised", "likelihood", "posterior"}
        The objective.
    min_cluster_size : int
        Fewest samples of a cluster.
    variance_prior : float
        kappa of model.md section 2, pseudo-samples per cluster at the overall variance.

    Returns
    -------
    Problem

    Raises
    ------
    ValueError
        If the input admits no solution or has none that makes sense; the text says what was found.
    """
    features = np.array(X, dtype=np.float64, order="C")
    _check_settings(model, n_clusters, min_cluster_size, variance_prior)
    _check_features(features, n_clusters, min_cluster_size)
    means = _column_means(features)
    features -= means
    variance = float(np.mean(np.square(features)))
    used = [] if model == "unsupervised" else [layer for layer in layers if len(layer.pairs)]
    for number, layer in enumerate(used):
        _check_layer(layer, number, len(features), model)
    kappa = float(variance_prior)
    data = _layout(features, used, n_clusters, MODELS[model], min_cluster_size, kappa, variance)
    return Problem(data, means, model)


def _check_settings(model: str, n_clusters: int, min_cluster_size: int, variance_prior: float) -> None:
    if model not in MODELS:
        raise ValueError(f"model is {model!r}, expected one of {', '.join(MODELS)}")
    if not 1 <= n_clusters <= np.iinfo(np.int16).max:
        raise ValueError(f"n_clusters is {n_clusters}, expected 1 to {np.iinfo(np.int16).max}")
    if min_cluster_size < 1:
        raise ValueError(f"min_cluster_size is {min_cluster_size}, expected 1 or more")
    if not 0.0 <= variance_prior < np.inf:
        raise ValueError(f"variance_prior is {variance_prior}, expected a finite number, 0 or more")


def _check_features(X: Floats, n_clusters: int, min_cluster_size: int) -> None:
    if X.ndim != 2 or 0 in X.shape:
        raise ValueError(f"X has shape {X.shape}, expected (n_samples, n_features), neither of them 0")
    bad = np.argwhere(~np.isfinite(X))
    if len(bad):
        row, column = (int(index) for index in bad[0])
        raise ValueError(
            f"X holds {len(bad)} values that are not finite, the first in row {row}, column {column}"
        )
    if (X[0] == X).all():
        raise ValueError("all rows of X are equal: there is no variance to model")
    if len(X) < n_clusters * min_cluster_size:
        raise ValueError(
            f"{len(X)} samples are fewer than "
            f"n_clusters × min_cluster_size = {n_clusters} × {min_cluster_size}"
        )
    # A few rows settle it nearly always; sorting all takes longer than the rest of the layout.
    if n_clusters <= len(np.unique(X[: 8 * n_clusters], axis=0)):
        return
    distinct = len(np.unique(X, axis=0))
    if n_clusters > distinct:
        raise ValueError(f"n_clusters is {n_clusters}, but X has only {distinct} distinct rows")


def _check_layer(layer: Layer, number: int, n_samples: int, model: str) -> None:
    pairs = np.asarray(layer.pairs)
    where = f"annotation layer {number}"
    if layer.kind not in (MUST, CANNOT):
        raise ValueError(
            f"{where}: kind is {layer.kind}, expected {MUST} (must-link) or {CANNOT} (cannot-link)"
        )
    if pairs.ndim != 2 or pairs.shape[1] != 2 or not np.issubdtype(pairs.dtype, np.integer):
        raise ValueError(
            f"{where}: pairs are {pairs.dtype} of shape {pairs.shape}, expected integers (n_pairs, 2)"
        )
    if pairs.min() < 0 or pairs.max() >= n_samples:
        raise ValueError(
            f"{where}: indices go from {pairs.min()} to {pairs.max()}, expected 0 to {n_samples - 1}"
        )
    if layer.weights is not None:
        weights = np.asarray(layer.weights, dtype=np.float64)
        if weights.shape != (len(pairs),):
            raise ValueError(f"{where}: weights have shape {weights.shape}, expected ({len(pairs)},)")
        if not (np.isfinite(weights).all() and (weights > 0).all()):
            raise ValueError(f"{where}: weights must be finite and above 0")
    if model == "posterior" and (layer.accuracy is None or not 0.0 < layer.accuracy <= 1.0):
        raise ValueError(f"{where}: accuracy is {layer.accuracy}, expected a number in (0, 1]")


def _column_means(X: Floats) -> Floats:
    """Means to the last bits: the second step takes off what rounding left of columns far from 0."""
    means = X.mean(axis=0)
    return np.asarray(means + (X - means).mean(axis=0))


def _layout(
    X: Floats,
    layers: list[Layer],
    n_clusters: int,
    model: int,
    min_size: int,
    kappa: float,
    total_variance: float,
) -> Data:
    n_samples, n_features = X.shape
    row_start, partners, weights, self_weights = _adjacency(layers, n_samples)
    totals = (self_weights.sum(axis=0) + _row_sums(row_start, weights, n_samples, len(layers))) / 2.0
    annotated = (np.diff(row_start).reshape(n_samples, -1).sum(axis=1) + self_weights.sum(axis=1)) > 0
    sizes = np.arange(n_samples + 2, dtype=np.float64)
    freedom = n_features * (sizes + kappa)
    return Data(
        X=X,
        n_clusters=int(n_clusters),
        model=model,
        min_size=int(min_size),
        kappa=kappa,
        total_variance=total_variance,
        row_start=row_start,
        partners=partners,
        weights=weights,
        self_weights=self_weights,
        totals=totals,
        spread=np.array([_spread(layer) for layer in layers], dtype=np.float64),
        annotated=np.flatnonzero(annotated).astype(np.int32),
        unannotated=np.flatnonzero(~annotated).astype(np.int32),
        log_size=np.log(np.maximum(sizes, 1.0)),
        log_freedom=np.log(np.where(freedom > 0, freedom, 1.0)),
        x_log_x=_table(weights, self_weights, totals),
    )


def _adjacency(
    layers: list[Layer], n_samples: int
) -> tuple[NDArray[np.int32], NDArray[np.int32], Floats, Floats]:
    """Symmetric adjacency of all layers, rows ordered by sample, then layer; self pairs apart."""
    n_layers = len(layers)
    keys = [np.empty(0, dtype=np.int64)]
    values = [np.empty(0)]
    self_weights = np.zeros((n_samples, n_layers))
    for number, layer in enumerate(layers):
        pairs = np.asarray(layer.pairs, dtype=np.int64)
        weights = (
            np.ones(len(pairs)) if layer.weights is None else np.asarray(layer.weights, dtype=np.float64)
        )
        own = pairs[:, 0] == pairs[:, 1]
        np.add.at(self_weights[:, number], pairs[own, 0], 2.0 * weights[own])
        for first, second in (pairs[~own].T, pairs[~own, ::-1].T):
            keys.append((first * n_layers + number) * n_samples + second)
            values.append(weights[~own])
    entries, inverse = np.unique(np.concatenate(keys), return_inverse=True)
    if len(entries) > LARGEST_INDEX:
        raise ValueError(f"{len(entries) // 2} annotated pairs are more than {LARGEST_INDEX // 2}")
    rows = entries // n_samples
    row_start = np.searchsorted(rows, np.arange(n_samples * n_layers + 1)).astype(np.int32)
    summed = np.bincount(inverse, weights=np.concatenate(values), minlength=len(entries)).astype(np.float64)
    return row_start, (entries % n_samples).astype(np.int32), summed, self_weights


def _row_sums(row_start: NDArray[np.int32], weights: Floats, n_samples: int, n_layers: int) -> Floats:
    layer = np.repeat(np.arange(n_samples * n_layers), np.diff(row_start)) % max(n_layers, 1)
    return np.bincount(layer, weights=weights, minlength=n_layers).astype(np.float64)


def _spread(layer: Layer) -> float:
    """Factor of S_out in lambda_in: (1-p)/p of must-links, p/(1-p) of cannot-links; 1 without a prior."""
    if layer.accuracy is None or not 0.0 < layer.accuracy <= 1.0:
        return 1.0
    p = min(layer.accuracy, LARGEST_PRIOR_ACCURACY)
    return (1.0 - p) / p if layer.kind == MUST else p / (1.0 - p)


def _table(weights: Floats, self_weights: Floats, totals: Floats) -> Floats:
    """Table of x log x of every count, or nothing if weights are not whole or counts are very large.

    Entries of `edge_counts` are at most twice the layer's total, and the kernels add at most as much again.
    """
    if not len(totals) or np.mod(weights, 1.0).any() or np.mod(self_weights, 1.0).any():
        return np.empty(0)
    largest = 4.0 * float(totals.max()) + 1.0
    if largest > LARGEST_TABLE:
        return np.empty(0)
    counts = np.arange(largest + 1.0)
    return np.asarray(counts * np.log(np.maximum(counts, 1.0)))
