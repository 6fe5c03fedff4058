"""Gain of one relocation, term by term: the fallback of the fast evaluation, and its reference in tests.

Equation (20) of docs/model.md.
"""

from __future__ import annotations

import math

import numpy as np

from kernels.jit import jit_inner, jit_part
from kernels.partition.conditional import exact_agreement_gain
from kernels.partition.diagonal import exact_diagonal_gain
from kernels.partition.full import exact_full_gain
from kernels.partition.relocation import error_after_removal
from kernels.partition.state import State
from kernels.partition.statistics import (
    cluster_term,
    pooled_error,
    pooled_term,
    prior_rate,
    proportions_gain,
    sum_of_squares,
)
from kernels.problem.data import COMMON, CONDITIONAL, DIAGONAL, POSTERIOR, UNSUPERVISED, Data, Floats


@jit_inner
def exact_gain(data: Data, state: State, sample: int, target: int) -> float:
    """Gain in nats of moving `sample`, whose distances and links are set, to another cluster: O(K²)."""
    source = int(np.int64(state.labels[sample]))
    if data.shape == DIAGONAL:
        gain = exact_diagonal_gain(data, state, sample, source, target)
    elif data.shape > DIAGONAL:
        gain = exact_full_gain(data, state, sample, source, target)
    else:
        gain = exact_spherical_gain(data, state, sample, source, target)
    gain += proportions_gain(data, state.sizes[source], state.sizes[target])
    if data.model == CONDITIONAL:
        for layer in range(data.totals.shape[0]):
            gain += exact_agreement_gain(data, state, layer, source, target)
    elif data.model != UNSUPERVISED:
        for layer in range(data.totals.shape[0]):
            gain += exact_layer_gain(data, state, layer, sample, source, target)
    return gain


@jit_part
def exact_spherical_gain(data: Data, state: State, sample: int, source: int, target: int) -> float:
    """Change of gmm under one variance for each cluster, or one for all."""
    left = error_after_removal(data, state, sample, source)
    size = state.sizes[target]
    joined = state.errors[target] + size / (size + 1.0) * state.distances[target]
    if data.shape == COMMON:
        before = pooled_error(data, state)
        after = left + joined
        for k in range(data.n_clusters):
            if k != source and k != target:
                after += state.errors[k]
        return pooled_term(data, after) - pooled_term(data, before)
    gain = cluster_term(data, state.sizes[source] - 1, left) - cluster_term(
        data, state.sizes[source], state.errors[source]
    )
    return gain + (cluster_term(data, size + 1, joined) - cluster_term(data, size, state.errors[target]))


@jit_part
def exact_layer_gain(data: Data, state: State, layer: int, sample: int, source: int, target: int) -> float:
    """Part of one layer: all pairs of clusters before and after."""
    n_clusters = data.n_clusters
    sizes = state.sizes
    counts = state.edge_counts[layer]
    own = data.self_weights[sample, layer]
    squares = sum_of_squares(sizes)
    before = 0.0
    after = 0.0
    gain = 0.0
    if data.model == POSTERIOR:
        before = prior_rate(data, layer, squares)
        squares += 2.0 * (float(sizes[target]) - float(sizes[source]) + 1.0)
        after = prior_rate(data, layer, squares)
        gain = 0.5 * n_clusters * (n_clusters + 1) * math.log(after / before)
    for r in range(n_clusters):
        for c in range(r, n_clusters):
            weight = 0.5 if r == c else 1.0
            scale = 2.0 if r == c else 1.0 / data.spread[layer]
            old = counts[r, c]
            new = old + count_change(state.links[layer], own, r, c, source, target)
            if old > 0.0:
                gain -= weight * old * math.log(old / (float(sizes[r]) * float(sizes[c]) + scale * before))
            if new > 0.0:
                size_r = float(sizes[r]) + (r == target) - (r == source)
                size_c = float(sizes[c]) + (c == target) - (c == source)
                gain += weight * new * math.log(new / (size_r * size_c + scale * after))
    return gain


@jit_part
def count_change(links: Floats, own: float, r: int, c: int, source: int, target: int) -> float:
    """Change of m_rc when the sample goes from `source` to `target`."""
    at_r = 1.0 * (r == target) - 1.0 * (r == source)
    at_c = 1.0 * (c == target) - 1.0 * (c == source)
    if r == c:
        return float(at_r * (2.0 * links[r] + own))
    return float(at_r * links[c] + at_c * links[r])
