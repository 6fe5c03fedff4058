"""A partition under search: its statistics from members, and how a relocation changes them.

The workspace of the whole search is allocated here once; nothing below allocates while it runs.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernels.data import DEGENERATE, Data, Floats
from kernels.jit import jit, jit_core

EVALUATIONS, RELOCATIONS, LOCAL_SEARCHES, CAPS, STALE = 0, 1, 2, 3, 4
"""Places in `State.counters`; STALE is 1 while the statistics do not stem from members alone."""

CANCELLATION = 1e-6
"""A squared error that a removal leaves below this share is computed again from members."""


class State(NamedTuple):
    """Partition, statistics and scratch memory; clusters are the last axis."""

    labels: NDArray[np.int16]  # (n_samples,)
    sizes: NDArray[np.int64]  # (n_clusters,)
    means: Floats  # (n_features, n_clusters)
    errors: Floats  # (n_clusters,): SSE_r
    edge_counts: Floats  # (n_layers, n_clusters, n_clusters): m_rs
    terms: Floats  # (n_clusters,): part of a cluster in gmm
    rates: Floats  # (n_layers,): lambda_in
    logs: Floats  # (n_layers,): half the sum of m_rs log of the denominator of omega_rs
    degrees: Floats  # (n_layers, n_clusters): row sums of edge_counts
    links: Floats  # (n_layers, n_clusters): a_r of the sample under test
    touched: NDArray[np.int64]  # (n_layers, n_clusters): first the clusters with a_r > 0
    n_touched: NDArray[np.int64]  # (n_layers,)
    distances: Floats  # (n_clusters,): squared, of the sample under test
    gains: Floats  # (n_clusters,): nats, of the sample under test
    work: Floats  # (n_clusters,)
    order: NDArray[np.int32]  # (n_annotated,)
    cluster_order: NDArray[np.int64]  # (n_clusters,)
    best: NDArray[np.int16]  # (n_samples,)
    own: Floats  # (n_samples,): squared distance to the own centroid, or a sampling weight
    counters: NDArray[np.int64]


@jit
def new_state(data: Data) -> State:
    """Workspace for `data`; the partition is all zero and the statistics are not set."""
    n_samples, n_features = data.X.shape
    n_clusters = data.n_clusters
    n_layers = data.totals.shape[0]
    counters = np.zeros(5, np.int64)
    counters[STALE] = 1
    return State(
        np.zeros(n_samples, np.int16),
        np.zeros(n_clusters, np.int64),
        np.zeros((n_features, n_clusters)),
        np.zeros(n_clusters),
        np.zeros((n_layers, n_clusters, n_clusters)),
        np.zeros(n_clusters),
        np.zeros(n_layers),
        np.zeros(n_layers),
        np.zeros((n_layers, n_clusters)),
        np.zeros((n_layers, n_clusters)),
        np.zeros((n_layers, n_clusters), np.int64),
        np.zeros(n_layers, np.int64),
        np.zeros(n_clusters),
        np.zeros(n_clusters),
        np.zeros(n_clusters),
        data.annotated.copy(),
        np.arange(n_clusters),
        np.zeros(n_samples, np.int16),
        np.zeros(n_samples),
        counters,
    )


@jit_core
def x_log_x(data: Data, x: float) -> float:
    """x log x with 0 log 0 = 0, from the table where there is one."""
    if data.x_log_x.shape[0] > 0:
        return data.x_log_x[int(x)]
    return x * math.log(x) if x > 0.0 else 0.0


@jit_core
def is_degenerate(data: Data, size: int, error: float) -> bool:
    """Whether a cluster of `size` samples and squared error `error` adds nothing (model.md section 2)."""
    if data.kappa > 0.0:
        return False
    return size <= 1 or error <= DEGENERATE * data.total_variance * data.X.shape[1] * size


@jit_core
def cluster_term(data: Data, size: int, error: float) -> float:
    """Part of one cluster in gmm, nats."""
    if is_degenerate(data, size, error):
        return 0.0
    n_features = data.X.shape[1]
    scaled = error + data.kappa * n_features * data.total_variance
    freedom = n_features * (size + data.kappa)
    return -0.5 * freedom * (1.0 + math.log(scaled) - data.log_freedom[size])


@jit_core
def prior_rate(data: Data, layer: int, squares: float) -> float:
    """lambda_in of a layer where the squared sizes sum to `squares`."""
    n_samples = data.X.shape[0]
    inside = 0.5 * (squares + n_samples)
    outside = 0.5 * (float(n_samples) * n_samples - squares)
    return (inside + data.spread[layer] * outside) / data.totals[layer]


@jit_core
def sum_of_squares(sizes: NDArray[np.int64]) -> float:
    """Sum of the squared sizes."""
    total = 0.0
    for size in sizes:
        total += float(size) * float(size)
    return total


@jit_core
def collect(data: Data, state: State) -> None:
    """Set all statistics from members, unless they stem from members already."""
    if state.counters[STALE] == 0:
        return
    collect_gaussians(data, state)
    collect_edges(data, state)
    refresh(data, state)
    state.counters[STALE] = 0


@jit_core
def collect_gaussians(data: Data, state: State) -> None:
    """Sizes, means and squared errors from members; the mean of an empty cluster is 0."""
    n_samples, n_features = data.X.shape
    n_clusters = data.n_clusters
    means = state.means
    state.sizes[:] = 0
    means[:] = 0.0
    state.errors[:] = 0.0
    for i in range(n_samples):
        label = state.labels[i]
        state.sizes[label] += 1
        for d in range(n_features):
            means[d, label] += data.X[i, d]
    for k in range(n_clusters):
        if state.sizes[k] > 0:
            for d in range(n_features):
                means[d, k] /= state.sizes[k]
    for i in range(n_samples):
        label = state.labels[i]
        total = 0.0
        for d in range(n_features):
            difference = data.X[i, d] - means[d, label]
            total += difference * difference
        state.errors[label] += total


@jit_core
def collect_edges(data: Data, state: State) -> None:
    """Edge counts of all layers from members."""
    n_layers = data.totals.shape[0]
    labels = state.labels
    state.edge_counts[:] = 0.0
    for i in data.annotated:
        label = labels[i]
        for layer in range(n_layers):
            row = state.edge_counts[layer, label]
            row[label] += data.self_weights[i, layer]
            place = i * n_layers + layer
            for entry in range(data.row_start[place], data.row_start[place + 1]):
                row[labels[data.partners[entry]]] += data.weights[entry]


@jit_core
def refresh(data: Data, state: State) -> None:
    """Set what is derived from sizes, squared errors and edge counts."""
    for k in range(data.n_clusters):
        state.terms[k] = cluster_term(data, state.sizes[k], state.errors[k])
    squares = sum_of_squares(state.sizes)
    for layer in range(data.totals.shape[0]):
        for r in range(data.n_clusters):
            total = 0.0
            for c in range(data.n_clusters):
                total += state.edge_counts[layer, r, c]
            state.degrees[layer, r] = total
        state.rates[layer] = prior_rate(data, layer, squares)


@jit_core
def error_without(data: Data, state: State, sample: int, cluster: int) -> float:
    """Squared error of the members of `cluster` other than `sample`, from members."""
    n_samples, n_features = data.X.shape
    size = 0
    total = 0.0
    for d in range(n_features):
        mean = 0.0
        size = 0
        for i in range(n_samples):
            if state.labels[i] == cluster and i != sample:
                mean += data.X[i, d]
                size += 1
        mean /= max(size, 1)
        for i in range(n_samples):
            if state.labels[i] == cluster and i != sample:
                difference = data.X[i, d] - mean
                total += difference * difference
    return total


@jit_core
def error_after_removal(data: Data, state: State, sample: int, source: int) -> float:
    """Squared error of `source` without `sample`, whose squared distances are set."""
    size = state.sizes[source]
    if size <= 2:
        return 0.0
    left = state.errors[source] - size / (size - 1.0) * state.distances[source]
    if left < CANCELLATION * state.errors[source]:
        left = error_without(data, state, sample, source)
    return left


@jit_core
def relocate(data: Data, state: State, sample: int, target: int) -> None:
    """Move `sample`, whose distances and links are set, to `target`, and all statistics with it."""
    source = int(state.labels[sample])
    n_source = state.sizes[source]
    n_target = state.sizes[target]
    state.errors[source] = error_after_removal(data, state, sample, source)
    state.errors[target] += n_target / (n_target + 1.0) * state.distances[target]
    for d in range(data.X.shape[1]):
        x = data.X[sample, d]
        if n_source > 1:
            state.means[d, source] -= (x - state.means[d, source]) / (n_source - 1.0)
        state.means[d, target] += (x - state.means[d, target]) / (n_target + 1.0)
    state.sizes[source] -= 1
    state.sizes[target] += 1
    state.labels[sample] = target
    for layer in range(data.totals.shape[0]):
        relocate_edges(data, state, layer, sample, source, target)
    state.counters[STALE] = 1
    state.counters[RELOCATIONS] += 1
    refresh(data, state)


@jit_core
def relocate_edges(data: Data, state: State, layer: int, sample: int, source: int, target: int) -> None:
    """Edge counts of one layer after `sample` went from `source` to `target`."""
    counts = state.edge_counts[layer]
    links = state.links[layer]
    own = data.self_weights[sample, layer]
    for place in range(state.n_touched[layer]):
        r = state.touched[layer, place]
        if r != source and r != target:
            counts[source, r] -= links[r]
            counts[r, source] -= links[r]
            counts[target, r] += links[r]
            counts[r, target] += links[r]
    between = links[source] - links[target]
    counts[source, target] += between
    counts[target, source] += between
    counts[source, source] -= 2.0 * links[source] + own
    counts[target, target] += 2.0 * links[target] + own
