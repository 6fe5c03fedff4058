"""Lower bounds on the distances of samples to centroids, which prove that a sample stays (docs/model.md).

A bound is kept for each sample and cluster, and weakened by the path that the centroid has gone since.
`stays` asks whether a relocation would gain for some cluster, `keeps` whether an assignment would. Each
computes only those distances that the bounds leave open, and answers no where it has no proof. What is not
proven is evaluated by the full scan, whose distances `renew` the bounds. So every decision, and every bit,
is that of the full scan.

Rounding is on the safe side. A sum of D squares is off by less than D + 4 roundings, so that a distance kept
is shortened, and a path lengthened, by more; a gain is to lie below the threshold by `SAFETY` times all that
it is made of, a thousand times what its rounding can be.
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

# A square below it may have lost its last bits.
TINY = 1e-290


@jit_part
def in_use(state: State) -> bool:
    """Whether there are bounds: for few clusters the scan costs less than they would."""
    return len(state.nearest) > 0


@jit_inner
def forget(state: State) -> None:
    """Begin without bounds, as a partition does that has nothing to do with the one before it."""
    state.nearest[:] = -np.inf
    state.path[:] = 0.0


@jit_inner
def follow(data: Data, state: State, k: int) -> None:
    """Add to the path of a cluster how far its mean is from where it was."""
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
def follow_all(data: Data, state: State) -> None:
    """As `follow`, for all clusters: statistics from members are not to the bit those that were kept up."""
    for k in range(data.n_clusters):
        follow(data, state, k)


@jit_inner
def renew(data: Data, state: State, sample: int) -> None:
    """Take the squared distances of a sample, which are set, as its bounds."""
    shortened = 1.0 - (data.Z.shape[1] + 16.0) * EPSILON
    nearest = state.nearest[sample]
    for k in range(data.n_clusters):
        distance = math.sqrt(state.distances[k]) * shortened
        nearest[k] = (distance + state.path[k]) * (1.0 - 2.0 * EPSILON)


@jit_part
def set_distance(data: Data, state: State, sample: int, k: int) -> None:
    """Set one squared distance, to the bits of `gains.squared_distances`."""
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
def set_squares(data: Data, state: State, sample: int) -> None:
    """Set the squared distances to lower bounds, not above what the scan would compute."""
    shortened = 1.0 - (data.Z.shape[1] + 16.0) * EPSILON
    nearest, path, squares = state.nearest[sample], state.path, state.distances
    for k in range(data.n_clusters):
        bound = max(nearest[k] - path[k], 0.0)
        squares[k] = max(bound * bound * shortened - TINY, 0.0)


@jit_inner
def stays(data: Data, state: State, sample: int, degree: float) -> bool:
    """Whether no relocation of a sample, whose links are set, gains; no says nothing.

    Of a block model for samples without annotations alone: those of others cost more than their distances.
    """
    if state.nearest[sample, 0] == -np.inf or (data.model != codes.CONDITIONAL and degree != 0.0):
        return False
    n_clusters = data.n_clusters
    source = int(np.int64(state.labels[sample]))
    set_squares(data, state, sample)
    set_distance(data, state, sample, source)
    left = error_after_removal(data, state, sample, source)
    removal = 0.0
    whole = 0.0
    half = 0.0
    if data.shape == codes.SPHERICAL:
        removal = cluster_term(data, state.sizes[source] - 1, left) - state.terms[source]
        limit = codes.IMPROVEMENT - removal - SAFETY * abs(removal)
    else:
        # As `gains.set_pooled_gains`.
        n_samples, n_features = data.X.shape
        prior = data.kappa * n_features * data.total_variance
        removal = left - state.errors[source]
        rest = left
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
    # What the annotations and sizes add is in the gains; now all clusters that the bounds leave open.
    squares, level, factor = state.distances, state.join[LEVEL], state.join[HALF]
    scale, joining = state.join[SCALE], state.join[FACTOR]
    n_open = 0
    if data.shape == codes.SPHERICAL:
        for k in range(n_clusters):
            x = squares[k] * scale[k]
            gain = gains[k] + level[k] + factor[k] * (2.0 * x / (2.0 + x))
            state.work[k] = gain
            n_open += not (gain <= limit)
    else:
        for k in range(n_clusters):
            x = (removal + joining[k] * squares[k]) / whole
            gain = gains[k] + half * (x / (1.0 + x))
            if x < -0.4:
                gain = np.inf
            state.work[k] = gain
            n_open += not (gain <= limit)
    n_open -= not (state.work[source] <= limit)
    if n_open == 0:
        return True
    if 4 * n_open > n_clusters:
        return False
    shortened = 1.0 - (data.Z.shape[1] + 16.0) * EPSILON
    for k in range(n_clusters):
        if k != source and not (state.work[k] <= limit):
            set_distance(data, state, sample, k)
            distance = math.sqrt(state.distances[k]) * shortened
            state.nearest[sample, k] = (distance + state.path[k]) * (1.0 - 2.0 * EPSILON)
            if data.shape == codes.SPHERICAL:
                x = state.distances[k] * scale[k]
                # Here one logarithm is worth it; the margin covers its rounding.
                gain = gains[k] + level[k] + factor[k] * math.log1p(x)
                gain += SAFETY * abs(factor[k]) * math.log1p(x)
            else:
                x = (removal + joining[k] * state.distances[k]) / whole
                gain = gains[k] + half * (x / (1.0 + x))
                if x < -0.4:
                    gain = np.inf
            if not (gain <= limit):
                return False
    return True


@jit_inner
def keeps(data: Data, state: State, sample: int) -> bool:
    """Whether no cluster costs less for a sample than its own, in an assignment; no says nothing.

    The costs are those of `local_search.assignment_pass`, factors in `State.gains` and offsets in
    `State.work`. They do not fall as a distance grows, rounding included, so this takes no margin.
    """
    if state.nearest[sample, 0] == -np.inf:
        return False
    n_clusters = data.n_clusters
    source = int(np.int64(state.labels[sample]))
    set_squares(data, state, sample)
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
    shortened = 1.0 - (data.Z.shape[1] + 16.0) * EPSILON
    for k in range(n_clusters):
        if not (squares[k] * factor[k] + offset[k] >= limit):
            set_distance(data, state, sample, k)
            distance = math.sqrt(squares[k]) * shortened
            state.nearest[sample, k] = (distance + state.path[k]) * (1.0 - 2.0 * EPSILON)
            if not (squares[k] * factor[k] + offset[k] >= limit):
                return False
    return True
