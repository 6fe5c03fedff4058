"""A partition's statistics, its objective from them (docs/model.md, eqs. (4) to (12)), and one relocation.

Python calls `objective_terms`. Kernels `collect` the statistics from members, compute the objective from
them, and `relocate` one sample together with all statistics (eqs. (18) and (19)).
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from sweep_clustering.kernels.jit import jit, jit_inner, jit_part
from sweep_clustering.kernels.lanes import LANES, load, store
from sweep_clustering.kernels.partition import blockmodel, shaped, statistics
from sweep_clustering.kernels.partition.statistics import FACTOR, HALF, OFFSET, STALE, State, new_state
from sweep_clustering.kernels.problem import data as codes
from sweep_clustering.kernels.problem.data import Data, Floats
from sweep_clustering.kernels.problem.problem import Problem


class Terms(NamedTuple):
    """Terms of the objective in nats (docs/model.md, eq. (4)); 0 if the model lacks one."""

    gmm: float
    sbm: float  # term of the block models, or ann of docs/model.md, eq. (36), for "conditional"
    prior: float


@jit
def evaluate(data: Data, state: State) -> Terms:
    collect(data, state)
    return terms(data, state)


def objective_terms(problem: Problem, labels: ArrayLike) -> Terms:
    """Return the terms of the objective of a partition, computed from scratch."""
    state = new_state(problem.data)
    state.labels[:] = labels
    return Terms(*map(float, evaluate(problem.data, state)))


# The statistics, from members, and the values that are derived from them.


@jit_inner
def collect(data: Data, state: State) -> None:
    """Set all statistics from members, unless they are up to date."""
    if state.counters[STALE] != 0:
        statistics.collect_gaussians(data, state)
        if data.shape == codes.DIAGONAL:
            shaped.collect_squares(data, state)
        elif data.shape > codes.DIAGONAL:
            shaped.collect_scatter(data, state)
        # Sums of whole weights are exact, and phase 2 moves no sample with annotations.
        if state.counters[STALE] == statistics.REPLACEMENT or len(data.x_log_x) == 0:
            statistics.collect_annotations(data, state)
        refresh(data, state)
        state.counters[STALE] = 0


@jit_inner
def refresh(data: Data, state: State) -> None:
    """Set the values that are derived from sizes, squared errors and edge counts."""
    if data.shape <= codes.COMMON:
        refresh_gaussians(data, state)
    else:
        refresh_shaped(data, state)
    refresh_counts(data, state)
    blockmodel.refresh_size_terms(data, state)


@jit_inner
def refresh_counts(data: Data, state: State) -> None:
    """Set the terms of the edge counts."""
    for layer in range(len(state.edge_counts)):
        for r in range(data.n_clusters):
            for k in range(0, len(state.gains), LANES):
                counts = load(state.edge_counts[layer, r], k)
                terms = statistics.x_log_x_lanes(data.x_log_x, counts, state.work)
                store(state.count_terms[layer, r], k, terms)


@jit_part
def refresh_gaussians(data: Data, state: State) -> None:
    """Set the terms, and the coefficients `join` of the gain by joining a cluster."""
    # The squared error becomes error + join[FACTOR] d² + prior. Up to join[LIMIT] the cluster is degenerate,
    # and beyond it gains join[HALF] log(that error) + join[OFFSET]. The other rows bound this gain, and that
    # by leaving, without a logarithm: see `gains.joining_bound`. A common variance uses the first row alone.
    for k in range(data.n_clusters):
        refresh_gaussian(data, state, k)
    refresh_pooled(data, state)


@jit_inner
def refresh_gaussian(data: Data, state: State, k: int) -> None:
    """Set the term and `join` of one cluster."""
    n_features = data.X.shape[1]
    size = state.sizes[k]
    join = state.join
    term = statistics.cluster_term(data, size, state.errors[k])
    half = -0.5 * data.feature_weight * n_features * (size + 1.0 + data.kappa)
    offset = half * (1.0 - data.log_freedom[size + 1]) - term
    limit = codes.DEGENERATE * data.total_variance * n_features * (size + 1.0)
    if data.kappa > 0.0:
        limit = 0.0  # no cluster is degenerate under a variance prior
    elif size == 0:
        limit = 1e300  # one sample is degenerate, whatever its distance
    state.terms[k] = term
    join[FACTOR, k] = size / (size + 1.0)
    join[HALF, k] = half
    join[OFFSET, k] = offset
    join[statistics.LIMIT, k] = limit
    join[statistics.SCALE, k] = join[statistics.LEAVING_SCALE, k] = 0.0
    join[statistics.LEVEL, k] = join[statistics.LEAVING_LEVEL, k] = np.inf  # no bound if it may be degenerate
    error = state.errors[k] + data.kappa * n_features * data.total_variance
    if data.shape == codes.SPHERICAL and error > 2.0 * limit:
        log = math.log(error)
        margin = statistics.SAFETY * (abs(half) * (abs(log) + 2.0) + abs(offset) + abs(term))
        join[statistics.SCALE, k] = join[FACTOR, k] / error
        join[statistics.LEVEL, k] = half * log + offset + margin
        if size > 2:
            leave_half = half + data.feature_weight * n_features
            join[statistics.LEAVING_SCALE, k] = size / (size - 1.0) / error
            join[statistics.LEAVING_LEVEL, k] = (
                leave_half * (1.0 + log - data.log_freedom[size - 1]) - term + margin
            )


@jit_inner
def refresh_pooled(data: Data, state: State) -> None:
    """Set the terms if all clusters share a variance: the first holds the sum."""
    if data.shape == codes.COMMON:
        state.terms[:] = 0.0
        state.terms[0] = statistics.cluster_term(data, data.X.shape[0], statistics.pooled_error(data, state))


@jit_inner
def refresh_moved(data: Data, state: State, source: int, target: int) -> None:
    """Refresh after a relocation, in O(K) where the values of two clusters alone have changed."""
    if data.shape > codes.COMMON:
        refresh_shaped(data, state)
    else:
        refresh_gaussian(data, state, source)
        refresh_gaussian(data, state, target)
        refresh_pooled(data, state)
    if len(state.edge_counts) > 0:
        refresh_counts(data, state)
        blockmodel.refresh_size_terms(data, state)
    elif data.proportions:
        for k in range(data.n_clusters):
            for r in (source, target):
                if r == k:
                    continue
                state.base[r, k] = statistics.proportions_gain(data, state.sizes[r], state.sizes[k])
                state.base[k, r] = statistics.proportions_gain(data, state.sizes[k], state.sizes[r])


@jit_inner
def refresh_shaped(data: Data, state: State) -> None:
    """Set the terms, `join` and `doubt`; joining gains join[HALF] rise of log-determinant + join[OFFSET]."""
    n_samples, n_dims = data.Z.shape
    is_tied = data.shape == codes.TIED
    state.terms[:] = 0.0
    for k in range(data.n_clusters):
        size = n_samples if is_tied else state.sizes[k]
        place = 0 if is_tied else k
        logdet = state.logdets[place]
        freedom = size + data.freedom
        state.join[FACTOR, k] = state.sizes[k] / (state.sizes[k] + 1.0)
        if not is_tied:
            half = -0.5 * data.feature_weight * (freedom + 1.0)
            state.terms[k] = statistics.shaped_term(data, size, logdet)
            state.join[HALF, k] = half
            offset = half * (logdet - n_dims * (data.log_freedom[size + 1] - 1.0)) - state.terms[k]
            state.join[OFFSET, k] = offset + 0.5 * data.feature_weight * data.ground
        share = n_dims if data.shape == codes.DIAGONAL else 1
        rounding = abs(logdet) + n_dims * (1.0 + abs(data.log_freedom[size]))
        rounding *= 8.0 * statistics.EPSILON * freedom
        # The drift of scatter and inverse, and the rounding of a difference of such terms.
        state.doubt[k] = 0.5 * (freedom + 1.0 + n_dims) * share * state.drift[place] + rounding
    if is_tied:
        state.terms[0] = statistics.shaped_term(data, n_samples, state.logdets[0])


# The objective, from the statistics.


@jit_inner
def terms(data: Data, state: State) -> Terms:
    """Return the terms of a partition whose statistics are set."""
    gmm = data.unit_term
    if data.shape == codes.COMMON:
        gmm = statistics.cluster_term(data, data.X.shape[0], statistics.pooled_error(data, state))
    elif data.shape == codes.TIED:
        gmm += statistics.shaped_term(data, data.Z.shape[0], state.logdets[0])
    else:
        for k in range(data.n_clusters):
            if data.shape > codes.COMMON:
                gmm += statistics.shaped_term(data, state.sizes[k], state.logdets[k])
            else:
                gmm += statistics.cluster_term(data, state.sizes[k], state.errors[k])
    if data.proportions:
        # The log-probability of the labels (docs/model.md, eq. (51)).
        total = -len(state.labels) * data.log_size[len(state.labels)]
        for k in range(data.n_clusters):
            total += state.sizes[k] * data.log_size[state.sizes[k]]
        gmm += total
    sbm = prior = 0.0
    for layer in range(data.totals.shape[0]):
        if data.model == codes.CONDITIONAL:
            sbm += blockmodel.agreement_value(data, layer, state.agreements[layer])
        else:
            block, density = layer_terms(data, state, layer)
            sbm += block
            prior += density
    return Terms(gmm, sbm, prior)


@jit_part
def objective_of(data: Data, state: State) -> float:
    """Return the objective of a partition whose statistics are set, in nats."""
    gmm, sbm, prior = terms(data, state)
    return gmm + sbm + prior


@jit_part
def layer_terms(data: Data, state: State, layer: int) -> tuple[float, float]:
    """Return the parts of one layer in sbm and prior, in nats."""
    counts = state.edge_counts[layer]
    inner = statistics.prior_rate(data, layer, statistics.sum_of_squares(state.sizes))
    outer = inner / data.spread[layer]
    sbm = prior = 0.0
    for r in range(data.n_clusters):
        for c in range(r, data.n_clusters):
            exposure = float(state.sizes[r]) * float(state.sizes[c])
            rate = inner if r == c else outer
            # Half of a sum over ordered pairs: off the diagonal a pair stands for two.
            weight = 0.5 if r == c else 1.0
            denominator = exposure
            if data.model == codes.POSTERIOR:
                denominator += rate / weight  # (1 + delta_rs) lambda_rs
            omega = 0.0
            if counts[r, c] > 0.0:
                omega = counts[r, c] / denominator
                sbm += weight * counts[r, c] * math.log(omega)
            sbm -= weight * exposure * omega
            if data.model == codes.POSTERIOR:
                prior += math.log(rate) - rate * omega
    return sbm, prior


# One relocation.


@jit_part
def error_after_removal(data: Data, state: State, sample: int, source: int) -> float:
    """Return the squared error of `source` without `sample`, whose squared distances are set."""
    size = state.sizes[source]
    # At most one sample remains: its error is exactly 0, where the subtraction would round.
    if size <= 2:
        return 0.0
    error = state.errors[source] - size / (size - 1.0) * state.distances[source]
    if error < statistics.CANCELLATION * state.errors[source]:
        error = 0.0
        # Feature by feature, as a kernel cannot allocate an array for the means.
        for d in range(data.Z.shape[1]):
            error = statistics.add_feature_error(data, state, sample, source, d, error)
    return float(error)


@jit_inner
def relocate(data: Data, state: State, sample: int, target: int) -> None:
    """Move `sample`, whose distances and links are set, to `target`, and all statistics with it."""
    source = int(np.int64(state.labels[sample]))
    n_source = state.sizes[source]
    n_target = state.sizes[target]
    # Errors, squares and scatter come before means and sizes, because they follow from the old ones.
    if data.shape <= codes.COMMON:
        state.errors[source] = error_after_removal(data, state, sample, source)
        state.errors[target] += n_target / (n_target + 1.0) * state.distances[target]
    elif data.shape == codes.DIAGONAL:
        shaped.relocate_squares(data, state, sample, source, target)
    else:
        shaped.relocate_scatter(data, state, sample, source, target)
    for d in range(data.Z.shape[1]):
        x = data.Z[sample, d]
        if n_source > 1:
            state.means[d, source] -= (x - state.means[d, source]) / (n_source - 1.0)
        state.means[d, target] += (x - state.means[d, target]) / (n_target + 1.0)
    state.sizes[source] -= 1
    state.sizes[target] += 1
    state.labels[sample] = target
    if data.shape == codes.DIAGONAL:
        shaped.set_cluster(data, state, source)
        shaped.set_cluster(data, state, target)
    elif data.shape > codes.DIAGONAL:
        shaped.renew_drifted(data, state, source, target)
    for layer in range(data.totals.shape[0]):
        links = state.links[layer]
        if data.model != codes.CONDITIONAL:
            self_weight = data.self_weights[sample, layer]
            move_edges(state.edge_counts[layer], links, links[source], self_weight, source, target)
        elif state.n_touched[layer] > 0:
            state.agreements[layer] += links[target] - links[source]
    state.counters[STALE] = max(state.counters[STALE], statistics.SINGLE_MOVES)
    state.counters[statistics.RELOCATIONS] += 1
    refresh_moved(data, state, source, target)


@jit_part
def move_edges(
    counts: Floats, links: Floats, source_links: float, inner_links: float, source: int, target: int
) -> None:
    """Change the edge counts of one layer as samples go from `source` to `target`.

    `links` are their annotations with each cluster, `source_links` those with samples that stay in the
    source, and `inner_links` twice those among themselves, and self pairs.
    """
    for r in range(len(counts)):
        if r != source and r != target:
            counts[source, r] -= links[r]
            counts[r, source] -= links[r]
            counts[target, r] += links[r]
            counts[r, target] += links[r]
    change = source_links - links[target]
    counts[source, target] += change
    counts[target, source] += change
    counts[source, source] -= 2.0 * source_links + inner_links
    counts[target, target] += 2.0 * links[target] + inner_links
