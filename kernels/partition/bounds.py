"""Lower bounds on the distances of samples to centroids, which prove that a sample stays (docs/model.md).

There is a bound for each sample and cluster, which is weakened by the path that the centroid has gone since.
`has_no_gain` proves that no relocation of a sample gains, `has_no_cheaper_cluster` that no assignment does.
They compute only the distances that the bounds leave open, and answer no without a proof. The caller then
scans all clusters and stores the distances as new bounds. So every decision and bit is that of a scan.

Rounding is on the safe side. A sum of D squares is off by less than D + 4 roundings, so a stored distance is
shortened, and a path lengthened, by more. A gain must lie below the threshold by `SAFETY` times the sum of
its terms, a thousand times its possible rounding.
"""

import math

import numpy as np

from sweep_clustering.kernels.jit import jit_inner, jit_part
from sweep_clustering.kernels.partition import blockmodel, statistics
from sweep_clustering.kernels.partition.objective import error_after_removal
from sweep_clustering.kernels.partition.state import DISTANCES, FACTOR, HALF, LEVEL, SAFETY, SCALE, State
from sweep_clustering.kernels.partition.statistics import EPSILON, cluster_term
from sweep_clustering.kernels.problem import data as codes
from sweep_clustering.kernels.problem.data import Data

# A square below this may have lost its last bits.
TINY = 1e-290


@jit_part
def has_bounds(state: State) -> bool:
    """Return whether there are bounds: for few clusters they cost more than a scan."""
    return len(state.nearest) > 0


@jit_inner
def reset(state: State) -> None:
    """Discard all bounds for a new partition."""
    state.nearest[:] = -np.inf
    state.path[:] = 0.0


@jit_inner
def track_mean(data: Data, state: State, k: int) -> None:
    """Add the last move of a cluster's mean to its path."""
    n_dims = data.Z.shape[1]
    total = 0.0
    for d in range(n_dims):
        step = state.means[d, k] - state.anchors[d, k]
        total += step * step
        state.anchors[d, k] = state.means[d, k]
    if total > 0.0:
        step = math.sqrt(total + TINY) * (1.0 + (n_dims + 16.0) * EPSILON)
        state.path[k] = (state.path[k] + step) * (1.0 + 2.0 * EPSILON)


@jit_inner
def track_means(data: Data, state: State) -> None:
    """Track all means: statistics from members differ in the last bits from those of relocations."""
    for k in range(data.n_clusters):
        track_mean(data, state, k)


@jit_inner
def store(data: Data, state: State, sample: int) -> None:
    """Store the squared distances of a sample, which are set, as its bounds."""
    for k in range(data.n_clusters):
        store_bound(data, state, sample, k)


@jit_part
def store_bound(data: Data, state: State, sample: int, k: int) -> None:
    """Store one squared distance as a bound."""
    distance = math.sqrt(state.distances[k]) * shortening(data)
    state.nearest[sample, k] = (distance + state.path[k]) * (1.0 - 2.0 * EPSILON)


@jit_part
def shortening(data: Data) -> float:
    """Return a factor that makes a rounded distance, or its square, a lower bound."""
    return float(1.0 - (data.Z.shape[1] + 16.0) * EPSILON)


@jit_part
def set_distance(data: Data, state: State, sample: int, k: int) -> None:
    """Set one squared distance to the bits of `gains.squared_distances`."""
    n_dims = data.Z.shape[1]
    total = 0.0
    for block in range(n_dims // 4):
        d = 4 * block
        first = data.Z[sample, d] - state.means[d, k]
        second = data.Z[sample, d + 1] - state.means[d + 1, k]
        third = data.Z[sample, d + 2] - state.means[d + 2, k]
        fourth = data.Z[sample, d + 3] - state.means[d + 3, k]
        total += (first * first + second * second) + (third * third + fourth * fourth)
    for d in range(n_dims // 4 * 4, n_dims):
        difference = data.Z[sample, d] - state.means[d, k]
        total += difference * difference
    state.distances[k] = total
    state.counters[DISTANCES] += 1


@jit_part
def set_lower_bounds(data: Data, state: State, sample: int) -> None:
    """Set the squared distances of a sample to lower bounds on those of a scan."""
    nearest, path, squares = state.nearest[sample], state.path, state.distances
    for k in range(data.n_clusters):
        bound = max(nearest[k] - path[k], 0.0)
        squares[k] = max(bound * bound * shortening(data) - TINY, 0.0)


@jit_part
def pooled_bound(half: float, x: float) -> float:
    """Return an upper bound of half times log(1 + x), for a half below 0; infinite if there is none."""
    if x < -0.4:
        return np.inf
    return float(half * (x / (1.0 + x)))


@jit_inner
def has_no_gain(data: Data, state: State, sample: int, degree: float) -> bool:
    """Return whether it is proven that no relocation of a sample, whose links are set, gains.

    Under a block model this is tried only without annotations, which cost more than distances.
    """
    if state.nearest[sample, 0] == -np.inf or (data.model != codes.CONDITIONAL and degree != 0.0):
        return False
    n_clusters = data.n_clusters
    source = int(np.int64(state.labels[sample]))
    set_lower_bounds(data, state, sample)
    set_distance(data, state, sample, source)
    error = error_after_removal(data, state, sample, source)
    removal = 0.0
    whole = 0.0
    half = 0.0
    if data.shape == codes.SPHERICAL:
        removal = cluster_term(data, state.sizes[source] - 1, error) - state.terms[source]
        limit = codes.IMPROVEMENT - removal - SAFETY * abs(removal)
    else:
        # The same steps as in `gains.set_pooled_gains`.
        n_samples, n_features = data.X.shape
        prior = data.kappa * n_features * data.total_variance
        removal = error - state.errors[source]
        rest = error
        for k in range(n_clusters):
            if k != source:
                rest += state.errors[k]
        before = rest - removal
        if statistics.is_degenerate(data, n_samples, min(before, rest) * (1.0 - SAFETY)):
            return False
        whole = before + prior
        half = -0.5 * data.feature_weight * n_features * (n_samples + data.kappa)
        limit = codes.IMPROVEMENT - SAFETY * abs(half) * (1.0 + abs(removal) / whole)
    gains = state.gains
    gains[:] = 0.0
    if data.model == codes.CONDITIONAL:
        blockmodel.add_agreement_gains(data, state, source)
        for layer in range(data.totals.shape[0]):
            if state.n_touched[layer] > 0:
                widest = 0.0
                for k in range(n_clusters):
                    widest = max(widest, abs(state.links[layer, k]))
                limit -= SAFETY * 64.0 * widest
    base, slack = state.base[source], state.slack[0, source]
    for k in range(n_clusters):
        gains[k] += base[k] + slack[k] + SAFETY * (abs(base[k]) + abs(gains[k]))
    # The gains hold the part of annotations and sizes. Count the clusters that the bounds leave open.
    squares, level, factor = state.distances, state.join[LEVEL], state.join[HALF]
    scale, joining = state.join[SCALE], state.join[FACTOR]
    n_open = 0
    if data.shape == codes.SPHERICAL:
        for k in range(n_clusters):
            x = squares[k] * scale[k]
            state.work[k] = gains[k] + level[k] + factor[k] * (2.0 * x / (2.0 + x))
            n_open += not (state.work[k] <= limit)
    else:
        for k in range(n_clusters):
            state.work[k] = gains[k] + pooled_bound(half, (removal + joining[k] * squares[k]) / whole)
            n_open += not (state.work[k] <= limit)
    n_open -= not (state.work[source] <= limit)
    if n_open == 0:
        return True
    if 4 * n_open > n_clusters:
        return False
    for k in range(n_clusters):
        if k != source and not (state.work[k] <= limit):
            set_distance(data, state, sample, k)
            store_bound(data, state, sample, k)
            if data.shape == codes.SPHERICAL:
                # Here one logarithm is worth its time; the margin covers its rounding.
                log = math.log1p(squares[k] * scale[k])
                gain = gains[k] + level[k] + factor[k] * log
                gain += SAFETY * abs(factor[k]) * log
            else:
                gain = gains[k] + pooled_bound(half, (removal + joining[k] * squares[k]) / whole)
            if not (gain <= limit):
                return False
    return True


@jit_inner
def has_no_cheaper_cluster(data: Data, state: State, sample: int) -> bool:
    """Return whether it is proven that no assignment costs less than the present one of a sample.

    The costs are those of `local_search.assignment_pass`, with factors in `State.gains` and offsets in
    `State.work`. They do not fall as a distance grows, rounding included, so no margin is needed.
    """
    if state.nearest[sample, 0] == -np.inf:
        return False
    n_clusters = data.n_clusters
    source = int(np.int64(state.labels[sample]))
    set_lower_bounds(data, state, sample)
    set_distance(data, state, sample, source)
    squares, factor, offset = state.distances, state.gains, state.work
    limit = squares[source] * factor[source] + offset[source] - codes.IMPROVEMENT
    n_open = 0
    for k in range(n_clusters):
        n_open += not (squares[k] * factor[k] + offset[k] >= limit)
    if n_open == 0:
        return True
    if 4 * n_open > n_clusters:
        return False
    for k in range(n_clusters):
        if not (squares[k] * factor[k] + offset[k] >= limit):
            set_distance(data, state, sample, k)
            store_bound(data, state, sample, k)
            if not (squares[k] * factor[k] + offset[k] >= limit):
                return False
    return True
