"""Exact gain of moving one sample to each other cluster, all parameters re-estimated."""

from __future__ import annotations

import math

from kernels.data import LIKELIHOOD, POSTERIOR, Data, Floats
from kernels.jit import jit_core
from kernels.state import State, cluster_term, error_after_removal, prior_rate, sum_of_squares, x_log_x


@jit_core
def squared_distances(x: Floats, centroids: Floats, distances: Floats) -> None:
    """Squared distances of one sample to all centroids, of shape (n_features, n_clusters)."""
    distances[:] = 0.0
    for d in range(len(x)):
        value = x[d]
        row = centroids[d]
        for k in range(len(row)):
            difference = value - row[k]
            distances[k] += difference * difference


@jit_core
def set_links(data: Data, state: State, sample: int) -> None:
    """Annotations of `sample` with each cluster, itself left out; they do not depend on its own label."""
    n_layers = data.totals.shape[0]
    for layer in range(n_layers):
        links = state.links[layer]
        touched = state.touched[layer]
        for place in range(state.n_touched[layer]):
            links[touched[place]] = 0.0
        count = 0
        row = sample * n_layers + layer
        for entry in range(data.row_start[row], data.row_start[row + 1]):
            label = state.labels[data.partners[entry]]
            if links[label] == 0.0:
                touched[count] = label
                count += 1
            links[label] += data.weights[entry]
        state.n_touched[layer] = count


@jit_core
def set_gains(data: Data, state: State, sample: int) -> None:
    """Gain in nats of moving `sample`, whose links are set, to every cluster; 0 for its own."""
    source = int(state.labels[sample])
    squared_distances(data.X[sample], state.means, state.distances)
    add_gaussian_gains(data, state, sample, source)
    for layer in range(data.totals.shape[0]):
        add_count_gains(data, state, layer, sample, source)
        if data.model == LIKELIHOOD:
            add_size_gains(data, state, layer, sample, source)
        elif data.model == POSTERIOR:
            for target in range(data.n_clusters):
                if target != source:
                    state.gains[target] += prior_gain(data, state, layer, sample, source, target)
    state.gains[source] = 0.0


@jit_core
def add_gaussian_gains(data: Data, state: State, sample: int, source: int) -> None:
    """Set the gains to their part in gmm."""
    error = error_after_removal(data, state, sample, source)
    removal = cluster_term(data, state.sizes[source] - 1, error) - state.terms[source]
    for target in range(data.n_clusters):
        size = state.sizes[target]
        error = state.errors[target] + size / (size + 1.0) * state.distances[target]
        state.gains[target] = removal + cluster_term(data, size + 1, error) - state.terms[target]


@jit_core
def add_count_gains(data: Data, state: State, layer: int, sample: int, source: int) -> None:
    """Add the change of half the sum of m_rs log m_rs."""
    n_clusters = data.n_clusters
    counts = state.edge_counts[layer]
    links = state.links[layer]
    touched = state.touched[layer]
    own = data.self_weights[sample, layer]
    gains = state.gains
    here = links[source]
    common = 0.5 * (
        x_log_x(data, counts[source, source] - 2.0 * here - own) - x_log_x(data, counts[source, source])
    )
    for place in range(state.n_touched[layer]):
        r = touched[place]
        if r != source:
            link = links[r]
            change = x_log_x(data, counts[source, r] - link) - x_log_x(data, counts[source, r])
            common += change
            kept = gains[r] - change
            for target in range(n_clusters):
                gains[target] += x_log_x(data, counts[r, target] + link) - x_log_x(data, counts[r, target])
            gains[r] = kept
    for target in range(n_clusters):
        there = links[target]
        between = counts[source, target]
        within = counts[target, target]
        gains[target] += (
            common
            + x_log_x(data, between + here - there)
            - x_log_x(data, between)
            + 0.5 * (x_log_x(data, within + 2.0 * there + own) - x_log_x(data, within))
        )


@jit_core
def add_size_gains(data: Data, state: State, layer: int, sample: int, source: int) -> None:
    """Add the change of minus half the sum of m_rs log(n_r n_s)."""
    degrees = state.degrees[layer]
    log_size = data.log_size
    degree = data.self_weights[sample, layer]
    for place in range(state.n_touched[layer]):
        degree += state.links[layer, state.touched[layer, place]]
    size = state.sizes[source]
    common = degrees[source] * log_size[size] - (degrees[source] - degree) * log_size[size - 1]
    for target in range(data.n_clusters):
        size = state.sizes[target]
        state.gains[target] += (
            common + degrees[target] * log_size[size] - (degrees[target] + degree) * log_size[size + 1]
        )


@jit_core
def prior_gain(data: Data, state: State, layer: int, sample: int, source: int, target: int) -> float:
    """Change of the logarithms of the denominators of omega and of the priors' rates, term by term.

    All sizes enter the prior's rate, so every pair of clusters changes: O(K²).
    """
    n_clusters = data.n_clusters
    sizes = state.sizes
    counts = state.edge_counts[layer]
    links = state.links[layer]
    before = state.rates[layer]
    squares = sum_of_squares(sizes) + 2.0 * (float(sizes[target]) - float(sizes[source]) + 1.0)
    after = prior_rate(data, layer, squares)
    own = data.self_weights[sample, layer]
    gain = 0.5 * n_clusters * (n_clusters + 1) * math.log(after / before)
    for r in range(n_clusters):
        for c in range(r, n_clusters):
            weight = 0.5 if r == c else 1.0
            scale = 2.0 if r == c else 1.0 / data.spread[layer]
            old = counts[r, c]
            new = old + count_change(links, own, r, c, source, target)
            if old > 0.0:
                gain += weight * old * math.log(float(sizes[r]) * float(sizes[c]) + scale * before)
            if new > 0.0:
                size_r = float(sizes[r]) + (r == target) - (r == source)
                size_c = float(sizes[c]) + (c == target) - (c == source)
                gain -= weight * new * math.log(size_r * size_c + scale * after)
    return gain


@jit_core
def count_change(links: Floats, own: float, r: int, c: int, source: int, target: int) -> float:
    """Change of m_rc when the sample goes from `source` to `target`."""
    if r == c:
        return 2.0 * links[r] * ((r == target) - (r == source)) + own * ((r == target) - (r == source))
    change = 0.0
    if r == source:
        change -= links[c]
    if c == source:
        change -= links[r]
    if r == target:
        change += links[c]
    if c == target:
        change += links[r]
    return change
