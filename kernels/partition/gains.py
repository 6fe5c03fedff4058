"""Gain of moving one sample to each cluster, all parameters re-estimated (docs/model.md, eqs. (18) to (21)).

All targets are evaluated together. The source's part is computed once, and tables change with a relocation
only. For each candidate that leaves D multiplications, one logarithm, and a look-up of m log m for each layer
of a block model and cluster with an annotated partner: O(D + deg + K).
"""

import math

import numpy as np

from sweep_clustering.kernels.jit import jit_inner, jit_part
from sweep_clustering.kernels.lanes import LANES, are_all, choose, load, spread, store
from sweep_clustering.kernels.partition import blockmodel, shaped, statistics
from sweep_clustering.kernels.partition.objective import error_after_removal
from sweep_clustering.kernels.partition.statistics import (
    FACTOR,
    HALF,
    State,
    cluster_term,
    x_log_x,
    x_log_x_lanes,
)
from sweep_clustering.kernels.problem import data as codes
from sweep_clustering.kernels.problem.data import Data, Floats

# The gain of one relocation, term by term: the exact twin of the fast evaluation (docs/model.md, eq. (20)).


@jit_inner
def exact_gain(data: Data, state: State, sample: int, target: int) -> float:
    """Return the gain in nats of moving `sample`, whose distances and links are set, to a cluster: O(K²)."""
    source = int(np.int64(state.labels[sample]))
    if data.shape == codes.DIAGONAL:
        gain = shaped.exact_diagonal_gain(data, state, sample, source, target)
    elif data.shape > codes.DIAGONAL:
        gain = shaped.exact_full_gain(data, state, sample, source, target)
    else:
        gain = exact_spherical_gain(data, state, sample, source, target)
    gain += statistics.proportions_gain(data, state.sizes[source], state.sizes[target])
    for layer in range(data.totals.shape[0]):
        if data.model != codes.CONDITIONAL:
            gain += exact_layer_gain(data, state, layer, sample, source, target)
        elif state.n_touched[layer] > 0:
            agreement = state.agreements[layer]
            new_agreement = agreement + state.links[layer, target] - state.links[layer, source]
            value = blockmodel.agreement_value(data, layer, new_agreement)
            gain += value - blockmodel.agreement_value(data, layer, agreement)
    return gain


@jit_part
def exact_spherical_gain(data: Data, state: State, sample: int, source: int, target: int) -> float:
    """Return the change of gmm under one variance for each cluster, or one for all."""
    source_error = error_after_removal(data, state, sample, source)
    size = state.sizes[target]
    target_error = state.errors[target] + size / (size + 1.0) * state.distances[target]
    if data.shape == codes.COMMON:
        old_error = statistics.pooled_error(data, state)
        new_error = source_error + target_error
        for k in range(data.n_clusters):
            if k != source and k != target:
                new_error += state.errors[k]
        n_samples = data.X.shape[0]
        return cluster_term(data, n_samples, new_error) - cluster_term(data, n_samples, old_error)
    n_source = state.sizes[source]
    gain = cluster_term(data, n_source - 1, source_error) - cluster_term(data, n_source, state.errors[source])
    term = cluster_term(data, size, state.errors[target])
    return gain + (cluster_term(data, size + 1, target_error) - term)


@jit_part
def exact_layer_gain(data: Data, state: State, layer: int, sample: int, source: int, target: int) -> float:
    """Return the part of one layer, from all pairs of clusters before and after."""
    n_clusters = data.n_clusters
    sizes, counts, links = state.sizes, state.edge_counts[layer], state.links[layer]
    self_weight = data.self_weights[sample, layer]
    squares = statistics.sum_of_squares(sizes)
    old_rate = new_rate = gain = 0.0
    if data.model == codes.POSTERIOR:
        old_rate = statistics.prior_rate(data, layer, squares)
        squares += 2.0 * (float(sizes[target]) - float(sizes[source]) + 1.0)
        new_rate = statistics.prior_rate(data, layer, squares)
        gain = 0.5 * n_clusters * (n_clusters + 1) * math.log(new_rate / old_rate)
    for r in range(n_clusters):
        for c in range(r, n_clusters):
            weight = 0.5 if r == c else 1.0
            scale = 2.0 if r == c else 1.0 / data.spread[layer]
            at_r = 1.0 * (r == target) - 1.0 * (r == source)
            at_c = 1.0 * (c == target) - 1.0 * (c == source)
            old = counts[r, c]
            change = at_r * links[c] + at_c * links[r]
            new = old + (at_r * (2.0 * links[r] + self_weight) if r == c else change)
            if old > 0.0:
                gain -= weight * old * math.log(old / (float(sizes[r]) * float(sizes[c]) + scale * old_rate))
            if new > 0.0:
                exposure = (float(sizes[r]) + at_r) * (float(sizes[c]) + at_c)
                gain += weight * new * math.log(new / (exposure + scale * new_rate))
    return gain


# The fast evaluation of all targets.


@jit_part
def squared_distances(x: Floats, centroids: Floats, distances: Floats) -> None:
    """Set the squared distances of one sample to all centroids (n_features, n_lanes)."""
    n_features = len(x)
    for k in range(0, len(distances), LANES):
        total = spread(0.0)
        for block in range(n_features // 4):
            d = 4 * block
            first = x[d] - load(centroids[d], k)
            second = x[d + 1] - load(centroids[d + 1], k)
            third = x[d + 2] - load(centroids[d + 2], k)
            fourth = x[d + 3] - load(centroids[d + 3], k)
            total += (first * first + second * second) + (third * third + fourth * fourth)
        for d in range(n_features // 4 * 4, n_features):
            difference = x[d] - load(centroids[d], k)
            total += difference * difference
        store(distances, k, total)


@jit_part
def set_distances(data: Data, state: State, sample: int) -> None:
    """Set the squared distances of a sample to all means; "diagonal" weights them by `State.ratios`."""
    if data.shape <= codes.COMMON:
        squared_distances(data.Z[sample], state.means, state.distances)
    elif data.shape == codes.DIAGONAL:
        state.distances[:] = 0.0
        for d in range(data.Z.shape[1]):
            for k in range(data.n_clusters):
                difference = data.Z[sample, d] - state.means[d, k]
                state.distances[k] += difference * difference * state.ratios[d, k]
    elif data.shape == codes.TIED:
        shaped.set_tied_distances(data, state, sample)
    else:
        shaped.set_full_distances(data, state, sample)


@jit_part
def set_links(data: Data, state: State, sample: int) -> float:
    """Set the annotations of `sample` with each cluster; return their number, self pairs included.

    They do not depend on the sample's label. In the model "conditional" they are sums of weights.
    """
    n_layers = data.totals.shape[0]
    degree = 0.0
    for layer in range(n_layers):
        links = state.links[layer]
        touched = state.touched[layer]
        row = sample * n_layers + layer
        start, stop = np.uint32(data.row_start[row]), np.uint32(data.row_start[row + 1])
        count = 0
        for k in range(0, len(links), LANES):
            store(links, k, 0.0)
        for entry in range(start, stop):
            # A place without a sign needs no look whether it counts from the end.
            label = np.uint16(state.labels[np.uint32(data.partners[entry])])
            weight = data.weights[entry]
            # Weights of block layers are above 0, so 0 marks a cluster without an entry; those of
            # "conditional" may cancel, and its clusters are not listed. The label is always written and
            # counted if new: a branch, which cannot be predicted, would cost more.
            if data.model != codes.CONDITIONAL:
                touched[count] = label
                count += links[label] == 0.0
            links[label] += weight
            degree += weight
        if data.model == codes.CONDITIONAL:
            count = int(np.int64(stop - start))
        state.n_touched[layer] = count
        degree += data.self_weights[sample, layer]
    return degree


@jit_part
def set_gains(data: Data, state: State, sample: int, degree: float, floor: float) -> float:
    """Set the gains in nats of moving `sample`, whose links are set, to every cluster; return the largest.

    If all gains are known to lie below the floor, 0 is returned.

    A gain may be off by the slack of blockmodel, unless this could move it across the threshold. A gain of at
    most `floor` may be replaced by an upper bound of at most `floor`; -inf rules that out.
    """
    source = int(np.int64(np.uint16(state.labels[sample])))
    doubt = common_gain = 0.0
    if data.shape != codes.DIAGONAL:
        set_distances(data, state, sample)
    if data.shape == codes.SPHERICAL:
        set_gaussian_gains(data, state, sample, source, floor)
    elif data.shape == codes.COMMON:
        set_pooled_gains(data, state, sample, source)
    elif data.shape == codes.DIAGONAL:
        doubt = shaped.set_diagonal_gains(data, state, sample, source)
    elif data.shape == codes.TIED:
        doubt = shaped.set_tied_gains(data, state, sample, source)
    else:
        doubt = shaped.set_full_gains(data, state, sample, source)
    if data.model == codes.CONDITIONAL:
        blockmodel.add_agreement_gains(data, state, source)
    else:
        if data.model == codes.LIKELIHOOD:
            # The change of minus the sum of d_r log n_r, d_r the degree of a cluster, by the annotations.
            common = degree * data.log_size[state.sizes[source] - 1]
            for k in range(0, len(state.gains), LANES):
                change = common - degree * load(state.next_logs, k)
                store(state.gains, k, load(state.gains, k) + change)
        for layer in range(data.totals.shape[0]):
            common_gain += add_count_gains(data, state, layer, sample, source)
    gains, slacks, are_settled = state.gains, state.work, True
    base, slack_base, slack_rate = state.base[source], state.slack[0, source], state.slack[1, source]
    for k in range(0, len(gains), LANES):
        gain = load(gains, k) + load(base, k) + common_gain
        slack = load(slack_base, k) + degree * load(slack_rate, k)
        slack += doubt + load(state.doubt, k)
        store(gains, k, gain)
        store(slacks, k, slack)
        are_settled &= are_all(gain + slack < floor)
    largest = 0.0
    if not are_settled:
        largest = settle_gains(data, state, sample, source, floor)
    gains[source] = 0.0
    return largest


@jit_inner
def settle_gains(data: Data, state: State, sample: int, source: int, floor: float) -> float:
    """Set the gains that the bounds of `set_gains` do not settle, and return the largest, or 0."""
    largest = 0.0
    for target in range(data.n_clusters):
        if target != source:
            gain, slack = state.gains[target], state.work[target]
            if data.shape == codes.SPHERICAL and floor > -np.inf and not (gain + slack <= floor):
                gain -= excess(data, state, sample, source, target)
            if abs(gain - codes.IMPROVEMENT) <= slack:
                gain = exact_gain(data, state, sample, target)
            state.gains[target] = gain
            largest = max(largest, gain)
    return largest


@jit_part
def set_gaussian_gains(data: Data, state: State, sample: int, source: int, floor: float) -> None:
    """Set the gains to upper bounds on the change of gmm; without a floor, to the change."""
    removal = leaving_bound(data, state, source) if floor > -np.inf else np.inf
    if removal == np.inf:
        removal = leaving_gain(data, state, sample, source)
    has_bounds = floor > -np.inf
    for k in range(0, len(state.gains), LANES):
        x = load(state.join[statistics.SCALE], k) * load(state.distances, k)
        addition = load(state.join[statistics.LEVEL], k) + load(state.join[HALF], k) * (2.0 * x / (2.0 + x))
        gain = removal + addition
        store(state.gains, k, gain)
        has_bounds &= are_all(gain < np.inf)
    if not has_bounds:
        for target in range(data.n_clusters):
            if state.gains[target] == np.inf or floor == -np.inf:
                state.gains[target] = removal + joining_gain(data, state, target)


@jit_part
def joining_bound(state: State, target: int) -> float:
    """Return an upper bound of `joining_gain` by log(1 + x) >= 2 x / (2 + x); infinite if there is none."""
    x = state.join[statistics.SCALE, target] * state.distances[target]
    return float(state.join[statistics.LEVEL, target] + state.join[HALF, target] * (2.0 * x / (2.0 + x)))


@jit_part
def leaving_bound(data: Data, state: State, source: int) -> float:
    """Return an upper bound of `leaving_gain` by log(1 - x) >= -x (2 - x) / (2 (1 - x)), or infinity."""
    x = state.join[statistics.LEAVING_SCALE, source] * state.distances[source]
    if x > 0.5:
        return np.inf  # the cluster may be degenerate without the sample
    half = state.join[HALF, source] + data.feature_weight * data.X.shape[1]
    return float(state.join[statistics.LEAVING_LEVEL, source] - half * (x * (2.0 - x) / (2.0 - 2.0 * x)))


@jit_part
def leaving_gain(data: Data, state: State, sample: int, source: int) -> float:
    """Return the change of gmm as a cluster loses a sample whose distances are set."""
    error = error_after_removal(data, state, sample, source)
    return float(cluster_term(data, state.sizes[source] - 1, error) - state.terms[source])


@jit_part
def joining_gain(data: Data, state: State, target: int) -> float:
    """Return the change of gmm as a cluster receives a sample whose distances are set."""
    join = state.join
    prior = data.kappa * data.X.shape[1] * data.total_variance
    error = state.errors[target] + join[FACTOR, target] * state.distances[target]
    if error + prior <= join[statistics.LIMIT, target]:
        return float(-state.terms[target])
    return float(join[HALF, target] * math.log(error + prior) + join[statistics.OFFSET, target])


@jit_inner
def excess(data: Data, state: State, sample: int, source: int, target: int) -> float:
    """Return by how much the bound of `set_gaussian_gains` exceeds the change of gmm."""
    surplus = 0.0
    bound = leaving_bound(data, state, source)
    if bound < np.inf:
        surplus += bound - leaving_gain(data, state, sample, source)
    bound = joining_bound(state, target)
    if bound < np.inf:
        surplus += bound - joining_gain(data, state, target)
    return surplus


@jit_part
def set_pooled_gains(data: Data, state: State, sample: int, source: int) -> None:
    """Set the gains to the change of gmm under a common variance.

    The change of the error is used, as its values before and after round as sums over all samples.
    """
    n_samples, n_features = data.X.shape
    prior = data.kappa * n_features * data.total_variance
    half = -0.5 * data.feature_weight * n_features * (n_samples + data.kappa)
    error = error_after_removal(data, state, sample, source)
    removal = error - state.errors[source]
    total = error
    for k in range(data.n_clusters):
        if k != source:
            total += state.errors[k]
    old_error = total - removal
    for target in range(data.n_clusters):
        addition = state.join[FACTOR, target] * state.distances[target]
        ratio = (removal + addition) / (old_error + prior)
        # Near -1, 1 + ratio has lost the digits that the remaining error still has.
        if ratio < -0.5 or statistics.is_degenerate(data, n_samples, min(old_error, total + addition)):
            state.gains[target] = cluster_term(data, n_samples, total + addition) - state.terms[0]
        else:
            state.gains[target] = half * math.log1p(ratio)


@jit_part
def add_count_gains(data: Data, state: State, layer: int, sample: int, source: int) -> float:
    """Add the change of half the sum of m_rs log m_rs, less the logarithms that annotations carry along.

    Without a prior on the rates these are 0, as `set_gains` adds those of all layers together. Only counts
    that change are read. The part that all targets have in common is returned.
    """
    n_clusters = data.n_clusters
    table, gains = data.x_log_x, state.gains
    counts, old_terms = state.edge_counts[layer], state.count_terms[layer]
    links, touched, logs = state.links[layer], state.touched[layer], state.logs[layer]
    self_weight = data.self_weights[sample, layer]
    source_links = links[source]
    count = counts[source, source] - 2.0 * source_links - self_weight
    common = 0.5 * (x_log_x(table, count) - old_terms[source, source])
    common += (source_links + 0.5 * self_weight) * logs[blockmodel.LEAVE, source, source]
    for place in range(state.n_touched[layer]):
        r = int(np.int64(touched[place]))
        if r != source:
            link = links[r]
            removal = x_log_x(table, counts[source, r] - link) - old_terms[source, r]
            common += removal + link * logs[blockmodel.LEAVE, source, r]
            # The pair of source and r, and r with itself, change differently if r is the target.
            outer = x_log_x(table, counts[source, r] + source_links - link) - old_terms[source, r]
            outer -= (source_links - link) * logs[blockmodel.SWAP, source, r]
            inner = x_log_x(table, counts[r, r] + 2.0 * link + self_weight) - old_terms[r, r]
            inner = 0.5 * inner - (link + 0.5 * self_weight) * logs[blockmodel.JOIN, r, r]
            gain = gains[r] - (removal + link * logs[blockmodel.LEAVE, source, r]) + (outer + inner)
            row = float(r)
            for k in range(0, len(gains), LANES):
                change = x_log_x_lanes(table, load(counts[r], k) + link, state.work) - load(old_terms[r], k)
                change = load(gains, k) + (change - link * load(logs[blockmodel.JOIN, r], k))
                store(gains, k, choose(load(state.lanes, k) == row, gain, change))
    if source_links > 0.0:
        for k in range(0, len(gains), LANES):
            outer = x_log_x_lanes(table, load(counts[source], k) + source_links, state.work)
            outer -= load(old_terms[source], k)
            outer -= source_links * load(logs[blockmodel.SWAP, source], k)
            old_gains = load(gains, k)
            store(gains, k, choose(load(links, k) == 0.0, old_gains + outer, old_gains))
    if self_weight > 0.0:
        for t in range(n_clusters):
            if links[t] == 0.0:
                inner = x_log_x(table, counts[t, t] + self_weight) - old_terms[t, t]
                gains[t] += 0.5 * inner - 0.5 * self_weight * logs[blockmodel.JOIN, t, t]
    return float(common)
