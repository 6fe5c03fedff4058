"""Partitions drawn with probability proportional to exp(objective) (docs/model.md, section 9).

The parameters are at their best for each partition, not integrated over: the gain of a sample is the one the
search goes by.
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
from sweep_clustering.kernels.partition.state import State, allocate, new_state, sizes_of
from sweep_clustering.kernels.problem.data import POSTERIOR, Data, Floats
from sweep_clustering.kernels.problem.problem import Problem
from sweep_clustering.kernels.search.local_search import draw_below, shuffle

Labels = NDArray[np.int16]

# Nats: a gain that may be off by more is computed term by term; odds of labels are thus right to 1 %.
TOLERANCE = 0.01

# Nats below the largest gain, at which a label is as good as never drawn.
UNLIKELY = 30.0

# One set of samples joined by annotations is tried for so many annotated samples and sweep.
LINKED_SHARE = 8

# Samples of a set: an exchange in a larger one is hardly ever accepted.
LARGEST_SET = 24


@by_pointer
class Length(NamedTuple):
    """Sweeps of a chain: those before the first draw, draws kept, and sweeps from one draw to the next."""

    burn_in: int
    draws: int
    thin: int


@by_pointer
class Chain(NamedTuple):
    """Draws of one chain.

    Parameters
    ----------
    labels : ndarray of shape (n_draws, n_samples), int16
        Cluster of every sample, numbered to share as many labels as possible with the reference.
    objectives : ndarray of shape (n_draws,)
        Nats, from statistics of members.
    """

    labels: Labels
    objectives: Floats


def run_chain(problem: Problem, labels: Labels, reference: Labels, length: Length, rng: Generator) -> Chain:
    """Draw partitions with probability proportional to exp(objective), from a Markov chain.

    Parameters
    ----------
    problem : Problem
        Data, annotations and model.
    labels : ndarray of shape (n_samples,), int16
        Where the chain starts; no cluster is below the least size.
    reference : ndarray of shape (n_samples,), int16
        What the clusters of draws are numbered by.
    length : Length
        Sweeps.
    rng : numpy.random.Generator
        The only source of randomness.

    Returns
    -------
    Chain
    """
    data = problem.data
    state = new_state(data)
    state.labels[:] = labels
    chain = Chain(np.zeros((length.draws, len(labels)), np.int16), np.zeros(length.draws))
    _sample(data, state, chain, new_flip(data, state, reference), rng, length)
    return chain


@jit
def _sample(data: Data, state: State, chain: Chain, flip: Flip, rng: Generator, length: Length) -> None:
    for draw in range(length.draws):
        for _ in range(length.thin + (length.burn_in if draw == 0 else 0)):
            if state.stop[0] != 0:
                return
            sweep(data, state, flip, rng)
        collect(data, state)
        chain.objectives[draw] = objective_of(data, state)
        # Numbered to share as many labels as possible with the reference.
        cost = flip.matching.cost
        cost[:] = 0.0
        for i in range(len(state.labels)):
            cost[state.labels[i], flip.reference[i]] -= 1.0
        match(flip.matching)
        for i in range(len(state.labels)):
            chain.labels[draw, i] = flip.matching.column_of[state.labels[i]]


@jit_part
def sweep(data: Data, state: State, flip: Flip, rng: Generator) -> None:
    """Draw the label of every sample anew, in random order, then try sets that annotations join."""
    if data.n_clusters == 1:
        return
    collect(data, state)
    shuffle(rng, flip.order)
    for sample in flip.order:
        if state.stop[0] != 0:
            return
        resample(data, state, rng, sample)
        for k in range(data.n_clusters):
            if state.sizes[k] <= data.min_size:
                flip_pair(data, state, rng, flip, sample)
                break
    if len(data.partners) > 0:
        collect(data, state)
        for _ in range(len(data.annotated) // LINKED_SHARE + 1):
            if state.stop[0] != 0:
                return
            # A set that annotations join, and two labels, one of which it has: the number of members with
            # either of the two stays what it is.
            size = grow(data, rng, flip, data.annotated[draw_below(rng, len(data.annotated))])
            first = int(state.labels[flip.members[draw_below(rng, size)]])
            second = draw_below(rng, data.n_clusters - 1)
            exchange(data, state, rng, flip, size, first, second + (second >= first))


@jit_inner
def resample(data: Data, state: State, rng: Generator, sample: int) -> None:
    """Draw the label of `sample` given all others (docs/model.md, eq. (59))."""
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
    left = rng.random() * total
    chosen = int(np.int64(source))  # the type that a target has: another would compile `relocate` twice
    for k in range(data.n_clusters):
        if left >= 0.0 and state.work[k] > 0.0:
            chosen = k
            left -= state.work[k]
    if chosen != source:
        relocate(data, state, sample, chosen)


# Matching of two sets of centroids at the least total squared distance.


@by_pointer
class Matching(NamedTuple):
    """Costs, the columns matched to the rows, and scratch memory."""

    cost: Annotated[Floats, "clusters clusters"]  # (rows, columns), finite
    column_of: Annotated[NDArray[np.int64], "clusters"]  # result: column of each row
    row_of: Annotated[NDArray[np.int64], "clusters"]
    row_price: Annotated[Floats, "clusters"]
    column_price: Annotated[Floats, "clusters"]
    reach: Annotated[Floats, "clusters"]
    via: Annotated[NDArray[np.int64], "clusters"]
    done: Annotated[NDArray[np.bool_], "clusters"]
    stop: NDArray[np.int64]  # (1,): as of `State`


def new_matching(n_clusters: int, stop: NDArray[np.int64]) -> Matching:
    """Memory for matchings of `n_clusters` rows and columns."""
    return allocate(Matching, {"clusters": n_clusters}, stop=stop)


@jit_inner
def match(matching: Matching) -> None:
    """Set `column_of` to the assignment of least cost: shortest augmenting paths, dual prices, O(K³)."""
    cost, column_of, row_of = matching.cost, matching.column_of, matching.row_of
    row_price, column_price = matching.row_price, matching.column_price
    reach, via, done = matching.reach, matching.via, matching.done
    size = cost.shape[0]
    row_price[:] = 0.0
    column_price[:] = 0.0
    row_of[:] = -1
    column_of[:] = -1
    for start in range(size):
        if matching.stop[0] != 0:
            break
        reach[:] = np.inf
        via[:] = start  # for costs that are no numbers, too, the way back ends here
        done[:] = False
        row = start
        length = 0.0
        end = -1
        while end < 0:
            nearest = -1
            for column in range(size):
                if not done[column]:
                    through = length + cost[row, column] - row_price[row] - column_price[column]
                    if through < reach[column]:
                        reach[column] = through
                        via[column] = row
                    if nearest < 0 or reach[column] < reach[nearest]:
                        nearest = column
            # Prices keep all reduced costs at 0 or more: no later path to this column is shorter.
            done[nearest] = True
            length = reach[nearest]
            if row_of[nearest] < 0:
                end = nearest
            else:
                row = row_of[nearest]
        row_price[start] += length
        for column in range(size):
            if done[column] and column != end:
                row_price[row_of[column]] += length - reach[column]
                column_price[column] -= length - reach[column]
        column = end
        while column >= 0:
            row = via[column]
            previous = column_of[row]
            row_of[column] = row
            column_of[row] = column
            column = previous if row != start else -1


# Exchange of two labels within a set of samples: the moves of a chain that one sample alone cannot make.
#
# Equation (60) of docs/model.md.
#
# Samples that annotations hold together, or apart, are stuck one by one: each of them alone would break its
# links by leaving. A set is drawn without a look at the labels, and two labels are exchanged within it; the
# same exchange leads back, so that the move is accepted by the ratio of the densities alone.


@by_pointer
class Flip(NamedTuple):
    """A set of samples, and which ones it has met; and what sweeps of a chain go by."""

    members: Annotated[NDArray[np.int32], "members"]  # the first ones
    met: Annotated[NDArray[np.int64], "samples"]  # number of the last set that a sample was in
    made: Annotated[NDArray[np.int64], "1"]  # sets drawn so far
    order: NDArray[np.int32]  # (n_samples,), in which their labels are drawn
    reference: Labels  # that draws are numbered by
    matching: Matching  # of their clusters with those of the reference


def new_flip(data: Data, state: State, reference: Labels) -> Flip:
    """Memory for the sets of one chain."""
    return allocate(
        Flip,
        sizes_of(data) | {"members": LARGEST_SET},
        order=np.arange(len(reference), dtype=np.int32),
        reference=reference.astype(np.int16),
        matching=new_matching(data.n_clusters, state.stop),
    )


@jit_inner
def grow(data: Data, rng: Generator, flip: Flip, seed: int) -> int:
    """List samples that annotations join to `seed`, each annotated pair with the same chance; their number.

    The chance is drawn anew for each set, so that sets of all sizes are met. Labels play no part.
    """
    n_layers = data.totals.shape[0]
    chance = rng.random()
    flip.made[0] += 1
    number = flip.made[0]
    flip.members[0] = seed
    flip.met[seed] = number
    size = 1
    reached = 0
    while reached < size:
        member = flip.members[reached]
        reached += 1
        for row in range(member * n_layers, (member + 1) * n_layers):
            for entry in range(data.row_start[row], data.row_start[row + 1]):
                partner = data.partners[entry]
                is_free = flip.met[partner] != number and size < LARGEST_SET
                if is_free and rng.random() < chance:
                    flip.met[partner] = number
                    flip.members[size] = partner
                    size += 1
    return size


@jit_inner
def flip_pair(data: Data, state: State, rng: Generator, flip: Flip, sample: int) -> None:
    """Exchange the labels of `sample` and another one, or not, if a cluster of theirs is of the least size.

    No sample may leave such a cluster, and without exchanges N = K min_size samples could not move at all.
    """
    other = draw_below(rng, len(state.labels))
    first, second = int(np.int64(state.labels[sample])), int(state.labels[other])
    if first != second and min(state.sizes[first], state.sizes[second]) <= data.min_size:
        flip.members[0] = sample
        flip.members[1] = other
        exchange(data, state, rng, flip, int(np.int64(2)), first, second)  # no literal: see ONLY of shaped


@jit_inner
def exchange(
    data: Data, state: State, rng: Generator, flip: Flip, size: int, first: int, second: int
) -> None:
    """Exchange two labels within the first `size` members, with the Metropolis probability."""
    firsts = 0
    seconds = 0
    for place in range(size):
        label = state.labels[flip.members[place]]
        firsts += label == first
        seconds += label == second
    # A sample of each cluster stays outside: none is ever empty on the way, from either side.
    if state.sizes[first] <= firsts or state.sizes[second] <= seconds:
        return
    change = seconds - firsts
    if min(state.sizes[first] + change, state.sizes[second] - change) < data.min_size:
        return
    before = objective_of(data, state)
    relabel(data, state, flip, size, first, second)
    gain = objective_of(data, state) - before
    if gain < 0.0 and rng.random() >= math.exp(gain):
        relabel(data, state, flip, size, first, second)


@jit_inner
def relabel(data: Data, state: State, flip: Flip, size: int, first: int, second: int) -> None:
    """Exchange two labels within the first `size` members, in all statistics."""
    for place in range(size):
        member = flip.members[place]
        label = int(state.labels[member])
        if label != first and label != second:
            continue
        set_distances(data, state, member)
        set_links(data, state, member)
        relocate(data, state, member, first + second - label)
