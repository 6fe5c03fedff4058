"""Draw partitions with probability proportional to exp(objective) (docs/model.md, section 9).

The parameters are at their best for each partition, not integrated over: the gains are those of the search.
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from sweep_clustering.kernels.jit import by_pointer, jit, jit_inner, jit_part
from sweep_clustering.kernels.partition.gains import exact_gain, set_distances, set_gains, set_links
from sweep_clustering.kernels.partition.objective import collect, objective_of, relocate
from sweep_clustering.kernels.partition.statistics import State, allocate, new_state, sizes_of
from sweep_clustering.kernels.problem.data import POSTERIOR, Data, Floats
from sweep_clustering.kernels.problem.problem import Problem
from sweep_clustering.kernels.search.local_search import draw_below, shuffle

Labels = NDArray[np.int16]

# A gain that may be off by more, in nats, is computed term by term, so that odds of labels are right to 1 %.
TOLERANCE = 0.01

# A label whose gain is so many nats below the largest is practically never drawn.
UNLIKELY = 30.0

# A sweep tries one set of linked samples for so many annotated samples.
LINKED_SHARE = 8

# Most samples of a set: an exchange in a larger one is hardly ever accepted.
LARGEST_SET = 24


@by_pointer
class Length(NamedTuple):
    """Length of a chain."""

    burn_in: int  # sweeps before the first draw
    draws: int
    thin: int  # sweeps from one draw to the next


@by_pointer
class Chain(NamedTuple):
    """Draws of one chain."""

    labels: Labels  # (n_draws, n_samples), numbered to share as many labels as possible with the reference
    objectives: Floats  # (n_draws,), nats


def run_chain(problem: Problem, labels: Labels, reference: Labels, length: Length, rng: Generator) -> Chain:
    """Draw partitions with probability proportional to exp(objective), from a Markov chain.

    Parameters
    ----------
    problem : Problem
        Data, annotations and model.
    labels : ndarray of shape (n_samples,), int16
        Start of the chain; no cluster is below the least size.
    reference : ndarray of shape (n_samples,), int16
        Partition that the clusters of draws are numbered by.
    length : Length
        Numbers of draws and of sweeps.
    rng : numpy.random.Generator
        The only source of randomness.
    """
    data = problem.data
    state = new_state(data)
    state.labels[:] = labels
    chain = Chain(np.zeros((length.draws, len(labels)), np.int16), np.zeros(length.draws))
    _sample(data, state, chain, new_scratch(data, state, reference), rng, length)
    return chain


@jit
def _sample(data: Data, state: State, chain: Chain, scratch: Scratch, rng: Generator, length: Length) -> None:
    for draw in range(length.draws):
        for _ in range(length.thin + (length.burn_in if draw == 0 else 0)):
            if state.stop[0] != 0:
                return
            sweep(data, state, scratch, rng)
        collect(data, state)
        chain.objectives[draw] = objective_of(data, state)
        cost = scratch.matching.cost
        cost[:] = 0.0
        for i in range(len(state.labels)):
            cost[state.labels[i], scratch.reference[i]] -= 1.0
        match(scratch.matching)
        for i in range(len(state.labels)):
            chain.labels[draw, i] = scratch.matching.column_of[state.labels[i]]


@jit_part
def sweep(data: Data, state: State, scratch: Scratch, rng: Generator) -> None:
    """Draw the label of every sample again, in random order, then try sets of linked samples."""
    if data.n_clusters == 1:
        return
    collect(data, state)
    shuffle(rng, scratch.order)
    for sample in scratch.order:
        if state.stop[0] != 0:
            return
        resample(data, state, rng, sample)
        for k in range(data.n_clusters):
            if state.sizes[k] <= data.min_size:
                exchange_pair(data, state, rng, scratch, sample)
                break
    if len(data.partners) > 0:
        collect(data, state)
        for _ in range(len(data.annotated) // LINKED_SHARE + 1):
            if state.stop[0] != 0:
                return
            # One of the two labels occurs in the set. The exchange keeps the number of members that have
            # either, so it can be drawn as often in return.
            size = draw_set(data, rng, scratch, data.annotated[draw_below(rng, len(data.annotated))])
            first = int(state.labels[scratch.members[draw_below(rng, size)]])
            second = draw_below(rng, data.n_clusters - 1)
            exchange(data, state, rng, scratch, size, first, second + (second >= first))


@jit_inner
def resample(data: Data, state: State, rng: Generator, sample: int) -> None:
    """Draw the label of `sample` with all other labels fixed (docs/model.md, eq. (59))."""
    source = int(np.int64(state.labels[sample]))
    if state.sizes[source] <= data.min_size:
        return
    degree = set_links(data, state, sample)
    largest = set_gains(data, state, sample, degree, -np.inf)
    gains = state.gains
    if data.model == POSTERIOR:
        for target in range(data.n_clusters):
            slack = state.slack[0, source, target] + degree * state.slack[1, source, target]
            if target != source and slack > TOLERANCE and gains[target] > largest - UNLIKELY - slack:
                gains[target] = exact_gain(data, state, sample, target)
        for target in range(data.n_clusters):
            largest = max(largest, gains[target])
    total = 0.0
    for k in range(data.n_clusters):
        state.work[k] = math.exp(gains[k] - largest)
        total += state.work[k]
    threshold = rng.random() * total
    label = int(np.int64(source))  # has the type of k, or `relocate` would be compiled twice
    for k in range(data.n_clusters):
        if threshold >= 0.0 and state.work[k] > 0.0:
            label = k
            threshold -= state.work[k]
    if label != source:
        relocate(data, state, sample, label)


# Matching of two sets of clusters at the least total cost.


@by_pointer
class Matching(NamedTuple):
    """Costs, the columns that are matched to the rows, and scratch memory."""

    cost: Annotated[Floats, "clusters clusters"]  # (rows, columns), finite
    column_of: Annotated[NDArray[np.int64], "clusters"]  # result: column of each row
    row_of: Annotated[NDArray[np.int64], "clusters"]
    row_price: Annotated[Floats, "clusters"]
    column_price: Annotated[Floats, "clusters"]
    reach: Annotated[Floats, "clusters"]
    via: Annotated[NDArray[np.int64], "clusters"]
    is_final: Annotated[NDArray[np.bool_], "clusters"]
    stop: NDArray[np.int64]  # (1,): as of `State`


def new_matching(n_clusters: int, stop: NDArray[np.int64]) -> Matching:
    """Return memory for matchings of `n_clusters` rows and columns."""
    return allocate(Matching, {"clusters": n_clusters}, stop=stop)


@jit_inner
def match(matching: Matching) -> None:
    """Set `column_of` to the assignment of least cost by shortest augmenting paths, in O(K³)."""
    cost, column_of, row_of = matching.cost, matching.column_of, matching.row_of
    row_price, column_price = matching.row_price, matching.column_price
    reach, via, is_final = matching.reach, matching.via, matching.is_final
    size = cost.shape[0]
    row_price[:] = 0.0
    column_price[:] = 0.0
    row_of[:] = -1
    column_of[:] = -1
    for start in range(size):
        if matching.stop[0] != 0:
            break
        reach[:] = np.inf
        via[:] = start  # so that the way back ends here even if costs are NaN
        is_final[:] = False
        row = start
        length = 0.0
        end = -1
        while end < 0:
            nearest = -1
            for column in range(size):
                if not is_final[column]:
                    through = length + cost[row, column] - row_price[row] - column_price[column]
                    if through < reach[column]:
                        reach[column] = through
                        via[column] = row
                    if nearest < 0 or reach[column] < reach[nearest]:
                        nearest = column
            # Prices keep all reduced costs at 0 or more, so no later path to this column is shorter.
            is_final[nearest] = True
            length = reach[nearest]
            if row_of[nearest] < 0:
                end = nearest
            else:
                row = row_of[nearest]
        row_price[start] += length
        for column in range(size):
            if is_final[column] and column != end:
                row_price[row_of[column]] += length - reach[column]
                column_price[column] -= length - reach[column]
        column = end
        while column >= 0:
            row = via[column]
            previous = column_of[row]
            row_of[column] = row
            column_of[row] = column
            column = previous if row != start else -1


# Exchange of two labels within a set of samples (docs/model.md, eq. (60)).
#
# Samples that annotations hold together, or apart, are stuck one by one: each of them alone would break its
# links by leaving. A set is drawn without regard to labels, and two labels are exchanged within it. The same
# exchange leads back, so the move is accepted by the ratio of the densities alone.


@by_pointer
class Scratch(NamedTuple):
    """Scratch memory of a chain."""

    members: Annotated[NDArray[np.int32], "members"]  # the set, at the first places
    set_of: Annotated[NDArray[np.int64], "samples"]  # number of the last set that has a sample
    n_sets: Annotated[NDArray[np.int64], "1"]  # sets drawn so far
    order: NDArray[np.int32]  # (n_samples,): the order in which labels are drawn
    reference: Labels
    matching: Matching  # between the clusters of a draw and those of the reference


def new_scratch(data: Data, state: State, reference: Labels) -> Scratch:
    """Return the scratch memory of one chain."""
    return allocate(
        Scratch,
        sizes_of(data) | {"members": LARGEST_SET},
        order=np.arange(len(reference), dtype=np.int32),
        reference=reference.astype(np.int16),
        matching=new_matching(data.n_clusters, state.stop),
    )


@jit_inner
def draw_set(data: Data, rng: Generator, scratch: Scratch, seed: int) -> int:
    """List samples that annotations join to `seed`, each pair with the same chance; return their number.

    The chance is drawn for each set, so that sets have all sizes. Labels play no part.
    """
    n_layers = data.totals.shape[0]
    chance = rng.random()
    scratch.n_sets[0] += 1
    number = scratch.n_sets[0]
    scratch.members[0] = seed
    scratch.set_of[seed] = number
    size = 1
    place = 0
    while place < size:
        member = scratch.members[place]
        place += 1
        for row in range(member * n_layers, (member + 1) * n_layers):
            for entry in range(data.row_start[row], data.row_start[row + 1]):
                partner = data.partners[entry]
                is_free = scratch.set_of[partner] != number and size < LARGEST_SET
                if is_free and rng.random() < chance:
                    scratch.set_of[partner] = number
                    scratch.members[size] = partner
                    size += 1
    return size


@jit_inner
def exchange_pair(data: Data, state: State, rng: Generator, scratch: Scratch, sample: int) -> None:
    """Try to exchange the labels of `sample` and a second one if a cluster of theirs has the least size.

    No sample may leave such a cluster: without exchanges N = K min_size samples could not move at all.
    """
    partner = draw_below(rng, len(state.labels))
    first, second = int(np.int64(state.labels[sample])), int(state.labels[partner])
    if first != second and min(state.sizes[first], state.sizes[second]) <= data.min_size:
        scratch.members[0] = sample
        scratch.members[1] = partner
        # 2 is no literal: see `shaped.FIRST_PLACE`
        exchange(data, state, rng, scratch, int(np.int64(2)), first, second)


@jit_inner
def exchange(
    data: Data, state: State, rng: Generator, scratch: Scratch, size: int, first: int, second: int
) -> None:
    """Exchange two labels within the first `size` members, with the Metropolis probability."""
    n_first = 0
    n_second = 0
    for place in range(size):
        label = state.labels[scratch.members[place]]
        n_first += label == first
        n_second += label == second
    # A sample of each cluster stays outside, so that none is empty on the way there or back.
    if state.sizes[first] <= n_first or state.sizes[second] <= n_second:
        return
    change = n_second - n_first
    if min(state.sizes[first] + change, state.sizes[second] - change) < data.min_size:
        return
    old_objective = objective_of(data, state)
    relabel(data, state, scratch, size, first, second)
    gain = objective_of(data, state) - old_objective
    if gain < 0.0 and rng.random() >= math.exp(gain):
        relabel(data, state, scratch, size, first, second)


@jit_inner
def relabel(data: Data, state: State, scratch: Scratch, size: int, first: int, second: int) -> None:
    """Exchange two labels within the first `size` members, in all statistics."""
    for place in range(size):
        member = scratch.members[place]
        label = int(state.labels[member])
        if label != first and label != second:
            continue
        set_distances(data, state, member)
        set_links(data, state, member)
        relocate(data, state, member, first + second - label)
