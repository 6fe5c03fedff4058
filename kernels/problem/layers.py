"""Annotation layers as they are given, and how they agree with a partition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernels.problem.data import LARGEST_ACCURACY, Floats
from kernels.settings import LARGEST_WEIGHT, LEAST_WEIGHT, WEIGHTS

MUST, CANNOT = 0, 1
"""Kinds of an annotation."""

SMALLEST_ACCURACY = 1e-6
"""Given accuracies of the model "conditional" are held within this and LARGEST_ACCURACY."""


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
        Assumed share of correct annotations: in (0, 1] and needed by the model "posterior"; in [0, 1] in the
        model "conditional", where it is unknown if not given.
    accuracies : ndarray of shape (n_pairs,), optional
        Assumed accuracy of each annotation, in [0, 1], before that of the layer; NaN leaves it to the layer.
        The model "conditional" alone reads it.
    annotator : int
        Who annotated: layers of one annotator share one unknown accuracy in the model "conditional".
    """

    kind: int
    pairs: NDArray[np.integer]
    weights: Floats | None = None
    accuracy: float | None = None
    accuracies: Floats | None = None
    annotator: int = 0


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


def layer_weights(layer: Layer) -> Floats:
    """Weight of each pair, shape (n_pairs,)."""
    if layer.weights is None:
        return np.ones(len(layer.pairs))
    return np.asarray(layer.weights, dtype=np.float64)


def pair_accuracies(layer: Layer) -> Floats:
    """Accuracy of each pair as the model "conditional" uses it, shape (n_pairs,); NaN where it is unknown."""
    of_layer = np.nan if layer.accuracy is None else layer.accuracy
    given = np.full(len(layer.pairs), of_layer, dtype=np.float64)
    if layer.accuracies is not None:
        own = np.asarray(layer.accuracies, dtype=np.float64)
        given = np.where(np.isnan(own), given, own)
    # clip keeps NaN.
    return np.asarray(np.clip(given, SMALLEST_ACCURACY, LARGEST_ACCURACY))


def inferred_accuracies(layers: Sequence[Layer], labels: ArrayLike) -> dict[int, float]:
    """Share of each annotator's annotations that agree with a partition.

    Parameters
    ----------
    layers : sequence of Layer
        Annotation graphs; those of one annotator are taken together.
    labels : array_like of shape (n_samples,)
        Cluster of every sample.

    Returns
    -------
    dict of int to float
        By annotator, in ascending order. Weighted; self pairs are left out; NaN where no other pair is left.
    """
    clusters = np.asarray(labels)
    agreed: dict[int, float] = {}
    total: dict[int, float] = {}
    for layer in layers:
        pairs = np.asarray(layer.pairs, dtype=np.int64).reshape(-1, 2)
        weights = np.where(pairs[:, 0] == pairs[:, 1], 0.0, layer_weights(layer))
        together = clusters[pairs[:, 0]] == clusters[pairs[:, 1]]
        right = float(weights[together == (layer.kind == MUST)].sum())
        agreed[layer.annotator] = agreed.get(layer.annotator, 0.0) + right
        total[layer.annotator] = total.get(layer.annotator, 0.0) + float(weights.sum())
    return {who: agreed[who] / total[who] if total[who] > 0.0 else float("nan") for who in sorted(total)}


def check_layer(layer: Layer, number: int, n_samples: int, model: str) -> None:
    """Raise an error for a layer with annotations that the model cannot use.

    Raises
    ------
    ValueError
        With the number of the layer and what was found.
    """
    where = f"annotation layer {number}"
    _check_pairs(layer, where, n_samples)
    if layer.weights is not None:
        weights = np.asarray(layer.weights, dtype=np.float64)
        if weights.shape != (len(layer.pairs),):
            raise ValueError(f"{where}: weights have shape {weights.shape}, expected ({len(layer.pairs)},)")
        if not ((weights >= LEAST_WEIGHT) & (weights <= LARGEST_WEIGHT)).all():
            found = f"{weights.min()} to {weights.max()}"
            raise ValueError(f"{where}: weights go from {found}, expected each {WEIGHTS}")
    if model == "posterior" and (layer.accuracy is None or not 0.0 < layer.accuracy <= 1.0):
        raise ValueError(f"{where}: accuracy is {layer.accuracy}, expected a number in (0, 1]")
    if model == "conditional":
        _check_accuracies(layer, where)


def _check_pairs(layer: Layer, where: str, n_samples: int) -> None:
    pairs = np.asarray(layer.pairs)
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


def _check_accuracies(layer: Layer, where: str) -> None:
    if layer.accuracy is not None and not 0.0 <= layer.accuracy <= 1.0:
        raise ValueError(f"{where}: accuracy is {layer.accuracy}, expected a number in [0, 1] or none")
    if layer.accuracies is None:
        return
    given = np.asarray(layer.accuracies, dtype=np.float64)
    if given.shape != (len(layer.pairs),):
        raise ValueError(f"{where}: accuracies have shape {given.shape}, expected ({len(layer.pairs)},)")
    if (~np.isnan(given) & ~((given >= 0.0) & (given <= 1.0))).any():
        raise ValueError(f"{where}: accuracies must be in [0, 1], or NaN where they are not given")
