"""Local search: relocation of annotated samples, then assignment of the others.

Equations (18) to (24) of docs/model.md.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from kernels.jit import jit_inner, jit_part
from kernels.partition.gains import set_distances, set_gains, set_links
from kernels.partition.objective import terms
from kernels.partition.relocation import collect, relocate
from kernels.partition.state import CAPS, EVALUATIONS, LOCAL_SEARCHES, STALE, State
from kernels.partition.statistics import is_degenerate, pooled_error
from kernels.problem.data import COMMON, DEGENERATE, DIAGONAL, IMPROVEMENT, TIED, Data, Floats
from kernels.rng import shuffle

MAX_ROUNDS, MAX_RELOCATION_PASSES, MAX_ASSIGNMENT_PASSES = 100, 1000, 200


@jit_inner
def local_search(data: Data, state: State, rng: np.random.Generator) -> float:
    """Improve `state.labels`; leave the best round end there, its statistics from members.

    A round that would change nothing is skipped: when phase 2 moved no sample, phase 1 is still at its end,
    and without annotated samples phase 2 is.

    Returns
    -------
    float
        Objective of the partition, from scratch, nats.
    """
    state.counters[LOCAL_SEARCHES] += 1
    state.counters[STALE] = 1
    best = -np.inf
    value = -np.inf
    unsettled = True
    rounds = 0
    while unsettled and rounds < MAX_ROUNDS and state.stop[0] == 0:
        caps = state.counters[CAPS]
        relocated = relocate_annotated(data, state, rng)
        moved = assign_unannotated(data, state)
        unsettled = (moved > 0 and len(state.order) > 0) or (
            state.counters[CAPS] > caps and relocated + moved > 0
        )
        collect(data, state)
        gmm, sbm, prior = terms(data, state)
        value = gmm + sbm + prior
        if value > best:
            best = value
            copy_labels(state.labels, state.best)
        rounds += 1
    if unsettled:
        state.counters[CAPS] += 1
    # A later round may end lower: phase 2 does not see sbm and prior.
    if value < best:
        copy_labels(state.best, state.labels)
        state.counters[STALE] = 1
        collect(data, state)
    return best


@jit_part
def copy_labels(source: NDArray[np.int16], target: NDArray[np.int16]) -> None:
    """Write `source` over `target`."""
    for i in range(len(source)):
        target[i] = source[i]


@jit_part
def relocate_annotated(data: Data, state: State, rng: np.random.Generator) -> int:
    """Phase 1: passes over the annotated samples until one relocates nothing; never lowers the objective."""
    total = 0
    if data.n_clusters == 1 or len(state.order) == 0:
        return total
    for _ in range(MAX_RELOCATION_PASSES):
        collect(data, state)
        moved = relocation_pass(data, state, rng)
        total += moved
        if moved == 0 or state.stop[0] != 0:
            return total
    state.counters[CAPS] += 1
    return total


@jit_inner
def relocation_pass(data: Data, state: State, rng: np.random.Generator) -> int:
    """Try all clusters for each sample, in random order, each from where the sample then is.

    The order of clusters is drawn only if some cluster gains: otherwise it does not matter. Not inlined:
    inlined in its caller, it ran a fifth longer and took twice as long to compile.
    """
    shuffle(rng, state.order)
    total = 0
    for sample in state.order:
        if state.stop[0] != 0:
            break
        source = int(np.int64(state.labels[sample]))
        if state.sizes[source] <= data.min_size:
            continue
        degree = set_links(data, state, sample)
        moved = 0
        place = 0
        while place < data.n_clusters:
            if set_gains(data, state, sample, degree) <= IMPROVEMENT and moved == 0:
                state.counters[EVALUATIONS] += data.n_clusters - 1
                break
            if moved == 0:
                shuffle(rng, state.cluster_order)
            found = -1
            while place < data.n_clusters and found < 0:
                target = state.cluster_order[place]
                place += 1
                if target != source:
                    state.counters[EVALUATIONS] += 1
                    if state.gains[target] > IMPROVEMENT:
                        found = target
            if found >= 0:
                relocate(data, state, sample, found)
                source = found
                moved += 1
        total += moved
    return total


@jit_part
def assign_unannotated(data: Data, state: State) -> int:
    """Phase 2: passes that move each other sample to its cheapest cluster until one moves nothing."""
    total = 0
    if data.n_clusters == 1 or len(data.unannotated) == 0:
        return total
    for _ in range(MAX_ASSIGNMENT_PASSES):
        collect(data, state)
        moved = assignment_pass(data, state)
        total += moved
        if moved == 0 or state.stop[0] != 0:
            return total
        state.counters[STALE] = 1
    state.counters[CAPS] += 1
    return total


@jit_inner
def assignment_pass(data: Data, state: State) -> int:
    """One pass with means and covariances fixed; sizes follow the moves.

    A degenerate cluster neither gives nor receives samples. Under a common variance the closest centroid is
    the cheapest, and all clusters take part.
    """
    precision = state.gains
    offset = state.work
    if data.shape <= COMMON:
        set_spherical_costs(data, state, precision, offset)
    else:
        set_shaped_costs(data, state, precision, offset)
    if data.proportions:
        for k in range(data.n_clusters):
            offset[k] -= data.log_size[state.sizes[k]]
    moved = 0
    for sample in data.unannotated:
        if state.stop[0] != 0:
            break
        source = int(np.int64(state.labels[sample]))
        if state.sizes[source] <= data.min_size or offset[source] == np.inf:
            continue
        set_distances(data, state, sample)
        cheapest = 0
        lowest = np.inf
        for k in range(data.n_clusters):
            cost = state.distances[k] * precision[k] + offset[k]
            if cost < lowest:
                lowest = cost
                cheapest = k
        state.counters[EVALUATIONS] += data.n_clusters - 1
        if lowest < state.distances[source] * precision[source] + offset[source] - IMPROVEMENT:
            state.labels[sample] = cheapest
            state.sizes[source] -= 1
            state.sizes[cheapest] += 1
            moved += 1
    return moved


@jit_inner
def set_spherical_costs(data: Data, state: State, precision: Floats, offset: Floats) -> None:
    """Set the factor of a squared distance, and what is added to it; infinite for a degenerate cluster."""
    n_features = data.X.shape[1]
    prior = data.kappa * n_features * data.total_variance
    common = 0.0
    if data.shape == COMMON:
        freedom = n_features * (data.X.shape[0] + data.kappa)
        # The floor keeps 1 / variance finite where all clusters are degenerate.
        common = max((pooled_error(data, state) + prior) / freedom, DEGENERATE * data.total_variance)
    for k in range(data.n_clusters):
        if data.shape == COMMON:
            precision[k] = 0.5 / common
            offset[k] = 0.0
        elif is_degenerate(data, state.sizes[k], state.errors[k]):
            precision[k] = 0.0
            offset[k] = np.inf
        else:
            variance = (state.errors[k] + prior) / (n_features * (state.sizes[k] + data.kappa))
            precision[k] = 0.5 / variance
            offset[k] = 0.5 * n_features * math.log(variance)


@jit_inner
def set_shaped_costs(data: Data, state: State, precision: Floats, offset: Floats) -> None:
    """As `set_spherical_costs`; distances are by the inverse of the scatter, or by the ratios."""
    n_samples, n_dims = data.Z.shape
    for k in range(data.n_clusters):
        size = state.sizes[k]
        logdet = state.logdets[k]
        if data.shape == TIED:
            precision[k] = 0.5 * (n_samples + data.freedom)
            offset[k] = 0.0
        elif logdet == np.inf:
            precision[k] = 0.0
            offset[k] = np.inf
        else:
            precision[k] = 0.5 * (size + data.freedom)
            if data.shape == DIAGONAL:
                precision[k] *= (size + 1.0) / size  # the ratios hold n / (n + 1)
            offset[k] = 0.5 * (logdet - n_dims * data.log_freedom[size])
