"""Local search in docs/model.md.

`local_search` relocates annotated samples and assigns the others until no sample gains (eqs. (18) to (24)).
`relocate_components` moves sets of samples where no single sample can move (eqs. (40) and (41)).
"""

import math
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from sweep_clustering.kernels.jit import by_pointer, jit_inner, jit_part
from sweep_clustering.kernels.partition import statistics
from sweep_clustering.kernels.partition.gains import set_distances, set_gains, set_links, squared_distances
from sweep_clustering.kernels.partition.objective import collect, move_edges, objective_of, relocate
from sweep_clustering.kernels.partition.shaped import FIRST_PLACE, factorise, logdet_of
from sweep_clustering.kernels.partition.statistics import State
from sweep_clustering.kernels.problem import data as codes
from sweep_clustering.kernels.problem.data import Data, Floats

# Phases of a round.
RELOCATION = 1
ASSIGNMENT = 2

MAX_ROUNDS = 100
MAX_RELOCATION_PASSES = 1000
MAX_ASSIGNMENT_PASSES = 200


@jit_inner
def local_search(data: Data, state: State, rng: Generator) -> float:
    """Improve the partition and return its objective in nats; statistics are then computed from members.

    The result is the best end of a round. A round that would change nothing is skipped: when phase 2 moved no
    sample, phase 1 is still at its end, and without annotated samples phase 2 is.
    """
    state.counters[statistics.LOCAL_SEARCHES] += 1
    state.counters[statistics.STALE] = statistics.REPLACEMENT
    best = -np.inf
    value = -np.inf
    is_settled = False
    for _ in range(MAX_ROUNDS):
        if is_settled or state.stop[0] != 0:
            break
        caps = state.counters[statistics.CAPS]
        n_moves = 0
        total = 0
        for phase in range(RELOCATION, ASSIGNMENT + 1):  # a literal phase would compile `run_phase` again
            n_moves = run_phase(data, state, rng, phase)
            total += n_moves
        has_cap = state.counters[statistics.CAPS] > caps
        is_settled = (n_moves == 0 or len(state.order) == 0) and not (has_cap and total > 0)
        collect(data, state)
        value = objective_of(data, state)
        if value > best:
            best = value
            copy_labels(state.labels, state.best)
    if not is_settled:
        state.counters[statistics.CAPS] += 1
    # A later round may end lower, as phase 2 does not see the annotation term and the prior.
    if value < best:
        copy_labels(state.best, state.labels)
        state.counters[statistics.STALE] = statistics.REPLACEMENT
        collect(data, state)
    return best


@jit_inner
def run_phase(data: Data, state: State, rng: Generator, phase: int) -> int:
    """Run passes of a phase until one moves nothing; return the number of moves."""
    total = 0
    is_relocation = phase == RELOCATION
    samples = len(state.order) if is_relocation else len(data.unannotated)
    if data.n_clusters == 1 or samples == 0:
        return total
    for _ in range(MAX_RELOCATION_PASSES if is_relocation else MAX_ASSIGNMENT_PASSES):
        collect(data, state)
        n_moves = relocation_pass(data, state, rng) if is_relocation else assignment_pass(data, state)
        total += n_moves
        if n_moves == 0 or state.stop[0] != 0:
            return total
        state.counters[statistics.STALE] = statistics.SINGLE_MOVES
    state.counters[statistics.CAPS] += 1
    return total


@jit_part
def copy_labels(source: NDArray[np.int16], target: NDArray[np.int16]) -> None:
    """Copy labels: slices would allocate memory."""
    for i in range(len(source)):
        target[i] = source[i]


@jit_inner
def relocation_pass(data: Data, state: State, rng: Generator) -> int:
    """Move each sample, in random order, to each cluster that then gains; return the number of moves.

    The order of clusters is drawn only if some cluster gains, as otherwise it does not matter. Inlined in its
    caller the pass ran a fifth longer and took twice as long to compile.
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
        n_moves = 0
        place = 0
        while place < data.n_clusters:
            largest = set_gains(data, state, sample, degree, codes.IMPROVEMENT)
            if largest <= codes.IMPROVEMENT and n_moves == 0:
                state.counters[statistics.EVALUATIONS] += data.n_clusters - 1
                break
            if n_moves == 0:
                shuffle(rng, state.cluster_order)
            destination = -1
            while place < data.n_clusters and destination < 0:
                target = state.cluster_order[place]
                place += 1
                if target != source:
                    state.counters[statistics.EVALUATIONS] += 1
                    if state.gains[target] > codes.IMPROVEMENT:
                        destination = target
            if destination >= 0:
                relocate(data, state, sample, destination)
                source = destination
                n_moves += 1
        total += n_moves
    return total


@jit_inner
def assignment_pass(data: Data, state: State) -> int:
    """Move samples to their cheapest cluster at fixed means and covariances; return the number of moves.

    Sizes follow the moves. A degenerate cluster neither gives nor receives samples. Under a common variance
    the closest centroid is the cheapest, and all clusters take part.
    """
    precision = state.gains
    offset = state.work
    set_costs(data, state, precision, offset)
    if data.proportions:
        for k in range(data.n_clusters):
            offset[k] -= data.log_size[state.sizes[k]]
    n_moves = 0
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
        state.counters[statistics.EVALUATIONS] += data.n_clusters - 1
        if lowest < state.distances[source] * precision[source] + offset[source] - codes.IMPROVEMENT:
            state.labels[sample] = cheapest
            state.sizes[source] -= 1
            state.sizes[cheapest] += 1
            n_moves += 1
    return n_moves


@jit_inner
def set_costs(data: Data, state: State, precision: Floats, offset: Floats) -> None:
    """Set the factor of a squared distance of `set_distances`, and an offset, infinite if degenerate."""
    n_samples, n_dims = data.Z.shape
    prior = data.kappa * n_dims * data.total_variance
    common = 0.0
    if data.shape == codes.COMMON:
        freedom = n_dims * (n_samples + data.kappa)
        # The floor keeps 1 / variance finite where all clusters are degenerate.
        floor = codes.DEGENERATE * data.total_variance
        common = max((statistics.pooled_error(data, state) + prior) / freedom, floor)
    for k in range(data.n_clusters):
        size = state.sizes[k]
        precision[k] = 0.0
        offset[k] = 0.0
        if data.shape == codes.COMMON:
            precision[k] = 0.5 / common
        elif data.shape == codes.TIED:
            precision[k] = 0.5 * (n_samples + data.freedom)
        elif data.shape == codes.SPHERICAL:
            if statistics.is_degenerate(data, size, state.errors[k]):
                offset[k] = np.inf
            else:
                variance = (state.errors[k] + prior) / (n_dims * (size + data.kappa))
                precision[k] = 0.5 / variance
                offset[k] = 0.5 * n_dims * math.log(variance)
        elif state.logdets[k] == np.inf:
            offset[k] = np.inf
        else:
            precision[k] = 0.5 * (size + data.freedom)
            if data.shape == codes.DIAGONAL:
                precision[k] *= (size + 1.0) / size  # the ratios hold n / (n + 1)
            offset[k] = 0.5 * (state.logdets[k] - n_dims * data.log_freedom[size])


# Relocation of must-link components, once no relocation of a single sample gains (model.md, eqs. (40), (41)).
#
# Samples that must-links hold together may be stuck: each of them alone would lose its links by leaving. A
# component is a maximal set of samples of one cluster that must-links connect. A move is judged by the
# objective of the partition after it, computed from its statistics in O(K²) for each layer and target.


@by_pointer
class Component(NamedTuple):
    """A set of samples of one cluster, and the statistics of the partition with it elsewhere."""

    members: Annotated[NDArray[np.int32], "samples"]  # the first ones
    root: Annotated[NDArray[np.int32], "samples"]  # the sample that names the set of a sample, or -1
    mean: Annotated[Floats, "dims"]
    scatter: Annotated[Floats, "dims width"]  # scatter about the mean; the squares alone without matrices
    links: Annotated[Floats, "layers clusters"]  # annotations with each cluster, those within the set twice
    inner_weights: Annotated[Floats, "layers"]  # annotations within the set, twice, self pairs apart
    selves: Annotated[Floats, "layers"]  # sum of A_ii
    trial: State  # shares all arrays but sizes, errors, log-determinants, edge counts and agreement


def new_component(data: Data, state: State) -> Component:
    """Return memory for the components of one search."""
    names = ("sizes", "errors", "logdets", "edge_counts", "agreements")
    trial = state._replace(**{name: getattr(state, name).copy() for name in names})
    return statistics.allocate(
        Component, statistics.sizes_of(data) | {"width": max(1, state.matrix.shape[1])}, trial=trial
    )


@jit_inner
def relocate_components(data: Data, state: State, rng: Generator, component: Component) -> int:
    """Move each component to the cluster where the objective is highest; return the number of moves."""
    collect(data, state)
    shuffle(rng, state.order)
    component.root[:] = -1
    n_moves = 0
    for sample in state.order:
        if state.stop[0] != 0:
            break
        if component.root[sample] < 0:
            size = list_component(data, state, component, sample)
            if 1 < size <= state.sizes[state.labels[sample]] - data.min_size:
                n_moves += relocate_component(data, state, component, size)
    return n_moves


@jit_inner
def list_component(data: Data, state: State, component: Component, sample: int) -> int:
    """List the component of `sample`, which is in none yet, and return its size."""
    n_layers = data.totals.shape[0]
    members, root = component.members, component.root
    members[0] = sample
    root[sample] = sample
    size = 1
    place = 0
    while place < size:
        row = members[place] * n_layers
        place += 1
        for layer in range(n_layers):
            if data.attracts[layer]:
                for entry in range(data.row_start[row + layer], data.row_start[row + layer + 1]):
                    partner = data.partners[entry]
                    is_together = state.labels[partner] == state.labels[sample]
                    if data.weights[entry] > 0.0 and is_together and root[partner] < 0:
                        root[partner] = sample
                        members[size] = partner
                        size += 1
    return size


@jit_part
def relocate_component(data: Data, state: State, component: Component, size: int) -> int:
    """Move the first `size` members to the best cluster; return 1, or 0 if that is their present one."""
    source = int(np.int64(state.labels[component.members[0]]))
    n_source = state.sizes[source]
    error = set_members(data, state, component, size)
    value = 0.0  # error or log-determinant of the samples that remain in the source
    if data.shape <= codes.COMMON:
        squared_distances(component.mean, state.means, state.distances)
        # As `error_after_removal`, but not recomputed where digits cancel: the component then stays.
        value = state.errors[source] - error - size * n_source / (n_source - size) * state.distances[source]
        if value < statistics.CANCELLATION * state.errors[source]:
            return 0
    elif data.shape != codes.TIED:
        value = logdet_after(data, state, component, source, -size)
        if math.isnan(value):
            return 0
    for target in range(data.n_clusters):
        if target == source:
            state.gains[target] = objective_of(data, state)
            continue
        set_trial(data, state, component, size, source, target)
        n_target = state.sizes[target]
        join_factor = size * n_target / (n_target + size)
        if data.shape <= codes.COMMON:
            component.trial.errors[source] = value
            component.trial.errors[target] += error + join_factor * state.distances[target]
        elif data.shape == codes.TIED:
            leave_factor = -size * n_source / (n_source - size)
            set_matrix(data, state, component, source, 0.0, leave_factor)
            add_difference(data, state, component, target, join_factor)
            component.trial.logdets[0] = factorise(state.matrix)
        else:
            component.trial.logdets[source] = value
            component.trial.logdets[target] = logdet_after(data, state, component, target, size)
        state.gains[target] = objective_of(data, component.trial)
    state.counters[statistics.EVALUATIONS] += data.n_clusters - 1
    best = int(np.int64(source))  # has the type of `target`, or `relocate` would be compiled twice
    for target in range(data.n_clusters):
        if state.gains[target] > state.gains[best]:
            best = target
    if state.gains[best] <= state.gains[source] + codes.IMPROVEMENT:
        return 0
    for place in range(size):
        member = component.members[place]
        set_distances(data, state, member)
        set_links(data, state, member)
        relocate(data, state, member, best)
    return 1


@jit_inner
def set_members(data: Data, state: State, component: Component, size: int) -> float:
    """Set mean, scatter and annotations of the members, and return their squared error about the mean."""
    n_dims, width = component.scatter.shape
    n_layers = data.totals.shape[0]
    mean, scatter = component.mean, component.scatter
    mean[:] = 0.0
    scatter[:] = 0.0
    component.links[:] = 0.0
    component.inner_weights[:] = 0.0
    component.selves[:] = 0.0
    for place in range(size):
        member = component.members[place]
        for d in range(n_dims):
            mean[d] += data.Z[member, d]
        for layer in range(n_layers):
            component.selves[layer] += data.self_weights[member, layer]
            row = member * n_layers + layer
            for entry in range(data.row_start[row], data.row_start[row + 1]):
                partner = data.partners[entry]
                component.links[layer, state.labels[partner]] += data.weights[entry]
                if component.root[partner] == component.root[member]:
                    component.inner_weights[layer] += data.weights[entry]
    for d in range(n_dims):
        mean[d] /= size
    error = 0.0
    for place in range(size):
        z = data.Z[component.members[place]]
        for d in range(n_dims):
            difference = z[d] - mean[d]
            error += difference * difference
            for e in range(min(d + 1, width)):
                # For shapes without matrices the width is 1, and the scatter has the squares alone.
                factor = difference if width == 1 else z[e] - mean[e]
                scatter[d, e] += difference * factor
    return error


@jit_inner
def logdet_after(data: Data, state: State, component: Component, cluster: int, change: int) -> float:
    """Return the log-determinant of a cluster that members join, or leave if `change` is below 0.

    It is NaN where digits cancel.
    """
    size = state.sizes[cluster]
    sign = 1.0 if change > 0 else -1.0
    factor = change * size / (size + change)
    if data.shape == codes.FULL:
        set_matrix(data, state, component, cluster, sign, factor)
        return factorise(state.matrix)
    for d in range(data.Z.shape[1]):
        difference = component.mean[d] - state.means[d, cluster]
        square = state.squares[d, cluster] + sign * component.scatter[d, 0]
        square += factor * difference * difference
        if square < statistics.CANCELLATION * state.squares[d, cluster]:
            return np.nan
        state.column[d, 0] = square
    return logdet_of(data, state.column, size + change, FIRST_PLACE)


@jit_inner
def set_matrix(
    data: Data, state: State, component: Component, cluster: int, sign: float, factor: float
) -> None:
    """Set the scratch matrix to the scatter of a cluster, plus that of the members and that of the means."""
    place = FIRST_PLACE if data.shape == codes.TIED else cluster
    for d in range(data.Z.shape[1]):
        for e in range(d + 1):
            state.matrix[d, e] = state.scatter[place, d, e] + sign * component.scatter[d, e]
    add_difference(data, state, component, cluster, factor)


@jit_inner
def add_difference(data: Data, state: State, component: Component, cluster: int, scale: float) -> None:
    """Add c v v' to the scratch matrix, v from a cluster's mean to the members' mean."""
    for d in range(data.Z.shape[1]):
        step = scale * (component.mean[d] - state.means[d, cluster])
        for e in range(d + 1):
            state.matrix[d, e] += step * (component.mean[e] - state.means[e, cluster])


@jit_inner
def set_trial(data: Data, state: State, component: Component, size: int, source: int, target: int) -> None:
    """Set the statistics in `trial`, except squared errors and log-determinants of the two clusters."""
    trial = component.trial
    for k in range(data.n_clusters):
        trial.sizes[k] = state.sizes[k]
        trial.errors[k] = state.errors[k]
        trial.logdets[k] = state.logdets[k]
    trial.sizes[source] -= size
    trial.sizes[target] += size
    for layer in range(data.totals.shape[0]):
        links = component.links[layer]
        source_links = links[source] - component.inner_weights[layer]
        if data.model == codes.CONDITIONAL:
            trial.agreements[layer] = state.agreements[layer] + (links[target] - source_links)
            continue
        for r in range(data.n_clusters):
            for c in range(data.n_clusters):
                trial.edge_counts[layer, r, c] = state.edge_counts[layer, r, c]
        inner_links = component.inner_weights[layer] + component.selves[layer]
        move_edges(trial.edge_counts[layer], links, source_links, inner_links, source, target)


# Draws that give the same numbers compiled and in plain Python.


@jit_part
def draw_below(rng: Generator, n: int) -> int:
    """Draw a whole number, uniform on 0 to n - 1."""
    return min(int(rng.random() * n), n - 1)


@jit_part
def shuffle(rng: Generator, items: NDArray[Any]) -> None:
    """Put `items` in random order, in place."""
    for last in range(len(items) - 1, 0, -1):
        place = draw_below(rng, last + 1)
        items[last], items[place] = items[place], items[last]
