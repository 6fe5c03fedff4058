"""Exchange of two labels within a set of samples: the moves of a chain that one sample alone cannot make.

Equation (60) of docs/model.md.

Samples that annotations hold together, or apart, are stuck one by one: each of them alone would break its
links by leaving. A set is drawn without a look at the labels, and two labels are exchanged within it; the
same exchange leads back, so that the move is accepted by the ratio of the densities alone.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernels.bypointer import by_pointer
from kernels.jit import jit_inner
from kernels.partition.gains import set_distances, set_links
from kernels.partition.objective import terms
from kernels.partition.relocation import relocate
from kernels.partition.state import State
from kernels.problem.data import Data
from kernels.rng import draw_below

LARGEST_SET = 24
"""Samples of a set: an exchange in a larger one is hardly ever accepted."""


@by_pointer
class Flip(NamedTuple):
    """A set of samples, and which ones it has met."""

    members: NDArray[np.int32]  # (LARGEST_SET,): the first ones
    met: NDArray[np.int64]  # (n_samples,): number of the last set that a sample was in
    made: NDArray[np.int64]  # (1,): sets drawn so far


def new_flip(data: Data) -> Flip:
    """Memory for the sets of one chain."""
    n_samples = data.Z.shape[0]
    return Flip(np.zeros(LARGEST_SET, np.int32), np.zeros(n_samples, np.int64), np.zeros(1, np.int64))


@jit_inner
def flip_linked(data: Data, state: State, rng: np.random.Generator, flip: Flip) -> None:
    """Draw a set that annotations join, and two labels, one of which it has; exchange them or not."""
    seed = data.annotated[draw_below(rng, len(data.annotated))]
    size = grow(data, rng, flip, seed)
    # One label is that of a member: the number of members with either of the two stays what it is.
    first = int(state.labels[flip.members[draw_below(rng, size)]])
    second = draw_below(rng, data.n_clusters - 1)
    if second >= first:
        second += 1
    exchange(data, state, rng, flip, size, first, second)


@jit_inner
def grow(data: Data, rng: np.random.Generator, flip: Flip, seed: int) -> int:
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
def flip_pair(data: Data, state: State, rng: np.random.Generator, flip: Flip, sample: int) -> None:
    """Exchange the labels of `sample` and another one, or not, if a cluster of theirs is of the least size.

    No sample may leave such a cluster, and without exchanges N = K min_size samples could not move at all.
    """
    other = draw_below(rng, len(state.labels))
    first, second = int(np.int64(state.labels[sample])), int(state.labels[other])
    if first != second and min(state.sizes[first], state.sizes[second]) <= data.min_size:
        flip.members[0] = sample
        flip.members[1] = other
        exchange(data, state, rng, flip, 2, first, second)


@jit_inner
def exchange(
    data: Data, state: State, rng: np.random.Generator, flip: Flip, size: int, first: int, second: int
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
    gmm, sbm, prior = terms(data, state)
    before = gmm + sbm + prior
    relabel(data, state, flip, size, first, second)
    gmm, sbm, prior = terms(data, state)
    gain = gmm + sbm + prior - before
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
