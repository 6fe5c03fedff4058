"""The annotation part of `Data`: layers as sorted rows of partners."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernels.problem.data import LARGEST_ACCURACY, Floats
from kernels.problem.layers import MUST, Layer, layer_weights, pair_accuracies

LARGEST_TABLE = 1 << 22
"""Longest table of x log x, 32 MiB; for larger counts the kernels compute the logarithm."""

LARGEST_INDEX = np.iinfo(np.int32).max
"""Largest value that `row_start` can hold."""


class Graph(NamedTuple):
    """One layer as the kernels see it: pairs in either order; weights of repeated pairs add up."""

    pairs: NDArray[np.int64]  # (n_pairs, 2)
    weights: Floats  # (n_pairs,)
    spread: float = 1.0
    attracts: bool = True
    total: float = 0.0
    apart: float = 0.0


class Adjacency(NamedTuple):
    """Fields of `Data` of the same names."""

    row_start: NDArray[np.int32]
    partners: NDArray[np.int32]
    weights: Floats
    self_weights: Floats
    totals: Floats
    spread: Floats
    attracts: NDArray[np.bool_]
    n_known: int
    apart: Floats
    x_log_x: Floats


def block_adjacency(layers: Sequence[Layer], n_samples: int) -> Adjacency:
    """Adjacency of the block models: the layers as they are, with counts as weights."""
    graphs = [
        Graph(
            np.asarray(layer.pairs, dtype=np.int64), layer_weights(layer), _spread(layer), layer.kind == MUST
        )
        for layer in layers
    ]
    row_start, partners, weights, self_weights = _symmetric(graphs, n_samples)
    totals = (self_weights.sum(axis=0) + _row_sums(row_start, weights, n_samples, len(graphs))) / 2.0
    spread = np.array([graph.spread for graph in graphs], dtype=np.float64)
    return Adjacency(
        row_start,
        partners,
        weights,
        self_weights,
        totals,
        spread,
        np.array([graph.attracts for graph in graphs], dtype=np.bool_),
        0,
        np.zeros(len(graphs)),
        _table(weights, self_weights, totals),
    )


def conditional_adjacency(layers: Sequence[Layer], n_samples: int) -> Adjacency:
    """Adjacency of the model "conditional" (model.md, eq. (36)): what a pair adds when it shares a cluster.

    Annotations of known accuracy p are one layer with the weights ± w log(p / (1 - p)), in nats. Those of
    unknown accuracy are a layer for each annotator with the weights ± w. Self pairs are left out.
    """
    known = _known_graph(layers)
    unknown = [_unknown_graph(layers, who) for who in sorted({layer.annotator for layer in layers})]
    n_known = int(len(known.pairs) > 0)
    graphs = [known] * n_known + [graph for graph in unknown if len(graph.pairs)]
    row_start, partners, weights, self_weights = _symmetric(graphs, n_samples)
    totals = np.array([graph.total for graph in graphs], dtype=np.float64)
    apart = np.array([graph.apart for graph in graphs], dtype=np.float64)
    return Adjacency(
        row_start,
        partners,
        weights,
        self_weights,
        totals,
        np.ones(len(graphs)),
        np.ones(len(graphs), dtype=np.bool_),
        n_known,
        apart,
        np.empty(0),
    )


def annotated_samples(layers: Sequence[Layer], n_samples: int) -> NDArray[np.bool_]:
    """Which samples have an annotation, self pairs included; shape (n_samples,)."""
    annotated = np.zeros(n_samples, dtype=np.bool_)
    for layer in layers:
        annotated[np.asarray(layer.pairs)] = True
    return annotated


def _known_graph(layers: Sequence[Layer]) -> Graph:
    pairs = [np.empty((0, 2), dtype=np.int64)]
    weights = [np.empty(0)]
    apart = 0.0
    for layer in layers:
        ends, counts, p = _others(layer)
        known = ~np.isnan(p)
        right, wrong = np.log(p[known]), np.log1p(-p[known])
        together, parted = (right, wrong) if layer.kind == MUST else (wrong, right)
        pairs.append(ends[known])
        weights.append(counts[known] * (together - parted))
        apart += float(np.sum(counts[known] * parted))
    return Graph(np.concatenate(pairs), np.concatenate(weights), apart=apart)


def _unknown_graph(layers: Sequence[Layer], annotator: int) -> Graph:
    pairs = [np.empty((0, 2), dtype=np.int64)]
    weights = [np.empty(0)]
    total = apart = 0.0
    for layer in layers:
        if layer.annotator == annotator:
            ends, counts, p = _others(layer)
            unknown = np.isnan(p)
            pairs.append(ends[unknown])
            weights.append(counts[unknown] if layer.kind == MUST else -counts[unknown])
            total += float(counts[unknown].sum())
            apart += 0.0 if layer.kind == MUST else float(counts[unknown].sum())
    return Graph(np.concatenate(pairs), np.concatenate(weights), total=total, apart=apart)


def _others(layer: Layer) -> tuple[NDArray[np.int64], Floats, Floats]:
    """Pairs, weights and accuracies of a layer without its self pairs."""
    pairs = np.asarray(layer.pairs, dtype=np.int64)
    other = pairs[:, 0] != pairs[:, 1]
    return pairs[other], layer_weights(layer)[other], pair_accuracies(layer)[other]


def _symmetric(
    graphs: Sequence[Graph], n_samples: int
) -> tuple[NDArray[np.int32], NDArray[np.int32], Floats, Floats]:
    """Symmetric adjacency of all layers, rows ordered by sample, then layer; self pairs apart."""
    n_layers = len(graphs)
    keys = [np.empty(0, dtype=np.int64)]
    values = [np.empty(0)]
    self_weights = np.zeros((n_samples, n_layers))
    for number, (pairs, weights, *_) in enumerate(graphs):
        own = pairs[:, 0] == pairs[:, 1]
        # add.at: += would count a repeated index once.
        np.add.at(self_weights[:, number], pairs[own, 0], 2.0 * weights[own])
        for first, second in (pairs[~own].T, pairs[~own, ::-1].T):
            # One key sorts by sample, layer and partner, and is the same for repeated pairs.
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
    # The likelihood has no prior, and its accuracies are not checked.
    if layer.accuracy is None or not 0.0 < layer.accuracy <= 1.0:
        return 1.0
    p = min(layer.accuracy, LARGEST_ACCURACY)
    return (1.0 - p) / p if layer.kind == MUST else p / (1.0 - p)


def _table(weights: Floats, self_weights: Floats, totals: Floats) -> Floats:
    """Table of x log x of every count; empty if weights are not whole or counts are very large.

    Entries of `edge_counts` are at most twice the layer's total, and the kernels add at most as much again.
    """
    if not len(totals) or np.mod(weights, 1.0).any() or np.mod(self_weights, 1.0).any():
        return np.empty(0)
    largest = 4.0 * float(totals.max()) + 1.0
    if largest > LARGEST_TABLE:
        return np.empty(0)
    counts = np.arange(largest + 1.0)
    return np.asarray(counts * np.log(np.maximum(counts, 1.0)))
