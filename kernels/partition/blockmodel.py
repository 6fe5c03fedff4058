"""The part of annotations in a gain: tables of the block models, and the model "conditional".

`refresh_size_terms` sets, after each relocation, the part of a block model's gain that depends on source and
target alone. `kernels.partition.gains` adds the rest.
"""

import math

import numpy as np

from sweep_clustering.kernels.jit import jit_part
from sweep_clustering.kernels.lanes import LANES, Vector, choose, load, store
from sweep_clustering.kernels.partition import statistics
from sweep_clustering.kernels.partition.statistics import State
from sweep_clustering.kernels.problem.data import LARGEST_ACCURACY, LIKELIHOOD, POSTERIOR, Data, Floats

# Block models (equations (22) and (23) of docs/model.md).
#
# A relocation of a sample with annotations a_r changes the sizes of two clusters, and with them the
# denominators n_r n_s + (1 + delta_rs) lambda_rs of all rates. The table `State.base[source, target]` holds
# the effect on the present counts, and is recomputed after each relocation (one in about a hundred
# candidates). The few counts that the sample carries along are added for each candidate, from `State.logs`.
#
# The prior's lambda depends on all sizes: lambda' = lambda e^u, the same u for both rates of a layer. As a
# function of u, log(n n + lambda e^u) has the first derivative q = lambda / (n n + lambda) and the second q
# (1 - q), which grows by at most the factor e^|u|. The tables hold the logarithms at lambda, `base` adds the
# first order for the present counts, and `slack` bounds the rest: u² e^|u| / 2 · m · max q (1 - q) for the
# second order, and |u| max q for each annotation carried along. A candidate whose gain lies within that bound
# of the threshold is evaluated term by term, so every decision is that of the exact objective.

# First index of `State.logs[layer]`, for the pair of clusters r and c. The first four hold the logarithms of
# the denominators at these exposures, and the last holds u for a move from r to c.
STAY = 0  # n_r n_c; on the diagonal n_r²
JOIN = 1  # n_r (n_c + 1); on the diagonal (n_r + 1)²
LEAVE = 2  # (n_r - 1) n_c; on the diagonal (n_r - 1)²
SWAP = 3  # (n_r - 1) (n_c + 1); nothing on the diagonal
RATE = 4


@jit_part
def refresh_size_terms(data: Data, state: State) -> None:
    """Set `base`, `slack` and `logs` for the current sizes and edge counts."""
    state.slack[:] = 0.0
    n_clusters = float(data.n_clusters)
    for s in range(data.n_clusters):
        state.amounts[s] = state.sizes[s]
        source = float(s)
        for k in range(0, len(state.lanes), LANES):
            lanes = load(state.lanes, k)
            offsets = choose(lanes == source, -np.inf, 0.0)
            store(state.base[s], k, choose(lanes < n_clusters, offsets, -np.inf))
        for t in range(data.n_clusters if data.proportions else 0):
            state.base[s, t] += statistics.proportions_gain(data, state.sizes[s], state.sizes[t])
    for layer in range(data.totals.shape[0]):
        if data.model == LIKELIHOOD:
            add_likelihood_base(data, state, layer)
        elif data.model == POSTERIOR:
            rate = statistics.prior_rate(data, layer, statistics.sum_of_squares(state.sizes))
            set_logs(data, state, layer, rate)
            add_posterior_base(data, state, layer, rate)


@jit_part
def add_likelihood_base(data: Data, state: State, layer: int) -> None:
    """Add minus the change of the sum of d_r log n_r, d_r the degree of a cluster."""
    log_size = data.log_size
    counts = state.edge_counts[layer]
    degrees = state.work
    for r in range(data.n_clusters):
        state.next_logs[r] = log_size[state.sizes[r] + 1]
        degrees[r] = 0.0
        for c in range(data.n_clusters):
            degrees[r] += counts[r, c]
    joins = state.sides[0]
    for t in range(data.n_clusters):
        joins[t] = degrees[t] * (log_size[state.sizes[t]] - state.next_logs[t])
    for s in range(data.n_clusters):
        size = state.sizes[s]
        # An empty cluster is no source, but its index must be valid.
        leave = degrees[s] * (log_size[size] - log_size[max(size - 1, 0)])
        for k in range(0, len(joins), LANES):
            store(state.base[s], k, load(state.base[s], k) + (leave + load(joins, k)))


@jit_part
def set_logs(data: Data, state: State, layer: int, rate: float) -> None:
    """Set the logarithms of a layer at the current rate; its `denominators` end as the shares q, and e^u."""
    n_clusters = data.n_clusters
    inner = 2.0 * rate
    outer = rate / data.spread[layer]
    # A relocation adds 2 (n_t - n_s + 1) to the sum of squares, of which lambda_in is a linear function.
    slope = (1.0 - data.spread[layer]) / (data.totals[layer] * rate)
    values = state.denominators
    n_lanes = len(state.gains)
    for r in range(n_clusters):
        n_r = float(state.sizes[r])
        for k in range(0, n_lanes, LANES):
            n_c = load(state.amounts, k)
            store(values[STAY, r], k, n_r * n_c + outer)
            store(values[JOIN, r], k, n_r * n_c + n_r + outer)
            store(values[LEAVE, r], k, n_r * n_c - n_c + outer)
            store(values[SWAP, r], k, (n_r - 1.0) * (n_c + 1.0) + outer)
            store(values[RATE, r], k, 1.0 + (n_c - n_r + 1.0) * slope)
        # On the diagonal (1 + delta) lambda is 2 lambda_in. No sample moves from r to r: 1, with logarithm 0.
        values[STAY, r, r] = n_r * n_r + inner
        values[JOIN, r, r] = (n_r + 1.0) * (n_r + 1.0) + inner
        values[LEAVE, r, r] = (n_r - 1.0) * (n_r - 1.0) + inner
        values[SWAP, r, r] = 1.0
        values[RATE, r, r] = 1.0
    statistics.array_log(values.reshape(values.size), state.logs[layer].reshape(values.size))
    for table in range(RATE):
        for r in range(n_clusters):
            for k in range(0, n_lanes, LANES):
                store(values[table, r], k, outer / load(values[table, r], k))
            if table != SWAP:
                values[table, r, r] *= inner / outer


@jit_part
def add_posterior_base(data: Data, state: State, layer: int, rate: float) -> None:
    """Add minus the change of half the sum of m_rs log of the denominators, and that of the prior's rates."""
    n_clusters = data.n_clusters
    counts = state.edge_counts[layer]
    logs = state.logs[layer]
    shares = state.denominators
    sides = state.sides
    side_changes(counts, logs, sides[0], sides[1])
    total_share = side_changes(counts, shares, sides[2], sides[3])
    largest, curvature = share_bounds(data, state, layer, rate)
    curvature *= 0.5 * data.totals[layer]
    pairs = 0.5 * n_clusters * (n_clusters + 1)
    for s in range(n_clusters):
        base, remainder, steepness = state.base[s], state.slack[0, s], state.slack[1, s]
        for k in range(0, len(base), LANES):
            u = load(logs[RATE, s], k)
            change = sides[0, s] + load(sides[1], k) + corner_changes(counts, logs, s, k)
            share = total_share + sides[2, s] + load(sides[3], k) + corner_changes(counts, shares, s, k)
            store(base, k, load(base, k) + (pairs * u - change - u * share))
            size = choose(u < 0.0, 0.0 - u, u)
            # 1 + x + x² is above e^x up to 1.79. Beyond it there is no bound: the gain is computed exactly.
            growth = choose(size < 1.7, 1.0 + size + size * size, np.inf)
            store(remainder, k, load(remainder, k) + u * u * growth * curvature)
            # The annotations carried along are counted over all layers: the largest factor bounds them.
            bound = load(steepness, k)
            store(steepness, k, choose(bound < size * largest, size * largest, bound))


@jit_part
def share_bounds(data: Data, state: State, layer: int, rate: float) -> tuple[float, float]:
    """Return bounds on the shares q and on q (1 - q) in all tables, from the extreme sizes."""
    smallest = np.inf
    second = np.inf
    largest = 0.0
    for k in range(data.n_clusters):
        size = float(state.sizes[k])
        second = min(second, max(size, smallest))
        smallest = min(smallest, size)
        largest = max(largest, size)
    inner = 2.0 * rate
    outer = 0.5 * inner / data.spread[layer]
    upper = (largest + 1.0) * (largest + 1.0)
    inner_high = inner / ((smallest - 1.0) * (smallest - 1.0) + inner)
    outer_high = outer / ((smallest - 1.0) * second + outer)
    curvature = max(
        largest_curvature(inner / (upper + inner), inner_high),
        largest_curvature(outer / (upper + outer), outer_high),
    )
    return max(inner_high, outer_high), curvature


@jit_part
def largest_curvature(low: float, high: float) -> float:
    """Return the largest q (1 - q) between two shares."""
    if high < 0.5:
        return high * (1.0 - high)
    if low > 0.5:
        return low * (1.0 - low)
    return 0.25


@jit_part
def side_changes(counts: Floats, table: Floats, leave_changes: Floats, join_changes: Floats) -> float:
    """Set the change of half the sum of m_rs times a table when a sample leaves r, and when one joins r.

    Returns the sum before the change. `corner_changes` corrects it for the pair of source and target.
    """
    n_clusters = len(counts)
    total = 0.0
    join_changes[:] = 0.0
    for r in range(n_clusters):
        old_sum = 0.0
        new_sum = 0.0
        for c in range(n_clusters):
            count = counts[r, c] if c != r else 0.5 * counts[r, r]
            old_sum += count * table[STAY, r, c]
            new_sum += count * table[LEAVE, r, c]
            join_changes[c] += count * table[JOIN, r, c]
        leave_changes[r] = new_sum - old_sum
        join_changes[r] -= old_sum
        total += 0.5 * (old_sum + 0.5 * counts[r, r] * table[STAY, r, r])
    return total


@jit_part
def corner_changes(counts: Floats, table: Floats, s: int, k: int) -> Vector:
    """Return what the two one-sided changes lack for the pair of clusters whose sizes both change."""
    change = load(table[SWAP, s], k) - load(table[JOIN, s], k) - load(table[LEAVE, s], k)
    return load(counts[s], k) * (change + load(table[STAY, s], k))


# The model "conditional": each annotated pair is right with its accuracy (equations (36) to (38)).
#
# Only the pairs that share a cluster matter. `State.agreements` holds the value in nats of the layer of known
# accuracy, and the agreeing weight of each layer of unknown accuracy; a pair that comes to share a cluster
# adds its weight. A candidate costs O(1) for each layer once the links are set.


@jit_part
def fitted_accuracy(data: Data, layer: int, agreement: float) -> float:
    """Return the most likely accuracy of a layer of unknown accuracy, at least one half."""
    return float(min(max(agreement / data.totals[layer], 0.5), LARGEST_ACCURACY))


@jit_part
def agreement_value(data: Data, layer: int, agreement: float) -> float:
    """Return the value of a layer in nats."""
    if layer < data.n_known:
        return agreement
    p = fitted_accuracy(data, layer, agreement)
    return float(agreement * math.log(p) + (data.totals[layer] - agreement) * math.log(1.0 - p))


@jit_part
def add_agreement_gains(data: Data, state: State, source: int) -> None:
    """Add the change of all layers to the gains.

    If an unknown accuracy changes from p to q, and the agreeing weight to a, the gain is a log(q/p) + (total
    - a) log((1-q)/(1-p)) + change log(p/(1-p)). It rounds less than a difference of the two values would.
    """
    for layer in range(data.totals.shape[0]):
        if state.n_touched[layer] == 0:
            continue
        links = state.links[layer]
        source_links = links[source]
        if layer < data.n_known:
            for target in range(data.n_clusters):
                state.gains[target] += links[target] - source_links
            continue
        total = data.totals[layer]
        agreement = state.agreements[layer]
        p = fitted_accuracy(data, layer, agreement)
        odds = math.log(p / (1.0 - p))
        for target in range(data.n_clusters):
            change = links[target] - source_links
            if change != 0.0:
                a = agreement + change
                rise = fitted_accuracy(data, layer, a) - p
                gain = a * math.log1p(rise / p) + (total - a) * math.log1p(-rise / (1.0 - p))
                state.gains[target] += gain + change * odds
