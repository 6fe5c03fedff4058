"""Partitions drawn with probability proportional to exp(objective) (docs/model.md, section 9).

The parameters are at their best for each partition, not integrated over: the gain of a sample is the one the
search goes by.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernels.bypointer import by_pointer
from kernels.jit import jit, jit_inner, jit_part
from kernels.partition.exact import exact_gain
from kernels.partition.gains import set_gains, set_links
from kernels.partition.objective import terms
from kernels.partition.relocation import collect, relocate
from kernels.partition.state import State, new_state
from kernels.problem.data import POSTERIOR, Data, Floats
from kernels.problem.problem import CANNOT, MUST, Layer, Problem, build_problem
from kernels.rng import shuffle
from kernels.search.flips import Flip, flip_linked, flip_pair, new_flip
from kernels.search.matching import Matching, match, new_matching

TOLERANCE = 0.01
"""Nats: a gain that may be off by more is computed term by term; odds of labels are thus right to 1 %."""

UNLIKELY = 30.0
"""Nats below the largest gain, at which a label is as good as never drawn."""

LINKED_SHARE = 8
"""One set of samples joined by annotations is tried for so many annotated samples and sweep."""


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

    labels: NDArray[np.int16]
    objectives: Floats


@jit
def _sample(
    data: Data,
    state: State,
    chain: Chain,
    order: NDArray[np.int32],
    reference: NDArray[np.int16],
    flip: Flip,
    matching: Matching,
    rng: np.random.Generator,
    length: Length,
) -> None:
    for draw in range(length.draws):
        sweeps = length.thin if draw > 0 else length.burn_in + length.thin
        for _ in range(sweeps):
            if state.stop[0] != 0:
                return
            sweep(data, state, order, flip, rng)
        collect(data, state)
        gmm, sbm, prior = terms(data, state)
        chain.objectives[draw] = gmm + sbm + prior
        keep(state.labels, reference, chain.labels[draw], matching)


@jit_part
def sweep(data: Data, state: State, order: NDArray[np.int32], flip: Flip, rng: np.random.Generator) -> None:
    """Draw the label of every sample anew, in random order, then try sets that annotations join."""
    if data.n_clusters == 1:
        return
    collect(data, state)
    shuffle(rng, order)
    for sample in order:
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
            flip_linked(data, state, rng, flip)


@jit_inner
def resample(data: Data, state: State, rng: np.random.Generator, sample: int) -> None:
    """Draw the label of `sample` given all others (docs/model.md, eq. (59))."""
    source = int(np.int64(state.labels[sample]))
    if state.sizes[source] <= data.min_size:
        return
    degree = set_links(data, state, sample)
    largest = set_gains(data, state, sample, degree)
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


@jit_inner
def keep(
    labels: NDArray[np.int16], reference: NDArray[np.int16], kept: NDArray[np.int16], matching: Matching
) -> None:
    """Write labels into `kept`, numbered to share as many as possible with `reference`."""
    cost = matching.cost
    cost[:] = 0.0
    for i in range(len(labels)):
        cost[labels[i], reference[i]] -= 1.0
    match(matching)
    for i in range(len(labels)):
        kept[i] = matching.column_of[labels[i]]


def run_chain(
    problem: Problem,
    labels: NDArray[np.int16],
    reference: NDArray[np.int16],
    length: Length,
    rng: np.random.Generator,
) -> Chain:
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

    Raises
    ------
    ValueError
        If a cluster of the start is smaller than allowed.
    """
    data = problem.data
    least = int(np.bincount(labels, minlength=data.n_clusters).min())
    if least < data.min_size:
        raise ValueError(f"a cluster of the start has {least} samples, expected {data.min_size} or more")
    _warm_up()
    return _run(data, labels, reference, length, rng)


def _run(
    data: Data,
    labels: NDArray[np.int16],
    reference: NDArray[np.int16],
    length: Length,
    rng: np.random.Generator,
) -> Chain:
    n_samples = len(labels)
    state = new_state(data)
    state.labels[:] = labels
    chain = Chain(np.zeros((length.draws, n_samples), np.int16), np.zeros(length.draws))
    order = np.arange(n_samples, dtype=np.int32)
    reference = np.ascontiguousarray(reference, dtype=np.int16)
    matching = new_matching(data.n_clusters, state.stop)
    _sample(data, state, chain, order, reference, new_flip(data), matching, rng, length)
    return chain


@functools.cache
def _warm_up() -> None:
    """Compile, or load from the cache, all that a chain needs."""
    # one model is enough, as for the search: the types are the same for all
    X = np.arange(12.0).reshape(6, 2)
    layers = [Layer(MUST, np.array([[0, 1]]), None, 0.9), Layer(CANNOT, np.array([[0, 5]]), None, 0.9)]
    data = build_problem(X, layers, n_clusters=2, model="posterior").data
    labels = np.array([0, 0, 0, 1, 1, 1], np.int16)
    _run(data, labels, labels, Length(0, 1, 1), np.random.default_rng(0))
