"""The solutions a restart keeps, and which of them survive a generation (docs/model.md, section 3)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernels.bypointer import by_pointer
from kernels.jit import jit_inner, jit_part
from kernels.partition.state import State
from kernels.problem.data import COMMON, Data, Floats
from kernels.search.operators import update_centroids

CLONE = 1e-7
"""Two solutions whose objectives differ by no more, in nats, and whose sorted sizes agree are clones."""


@by_pointer
class Population(NamedTuple):
    """Solutions by place; `ranking` lists the places in use, best first after `select`."""

    labels: NDArray[np.int16]  # (capacity, n_samples)
    centroids: Floats  # (capacity, n_features, n_clusters)
    objectives: Floats  # (capacity,)
    sizes: NDArray[np.int64]  # (capacity, n_clusters), sorted
    ranking: NDArray[np.int64]  # (capacity,)
    clones: NDArray[np.int64]  # (capacity,): scratch
    child: Floats  # (n_features, n_clusters): centroids of the next solution


def new_population(data: Data, capacity: int) -> Population:
    """Memory for `capacity` solutions."""
    n_samples, n_features = data.X.shape
    return Population(
        labels=np.zeros((capacity, n_samples), dtype=np.int16),
        centroids=np.zeros((capacity, n_features, data.n_clusters)),
        objectives=np.zeros(capacity),
        sizes=np.zeros((capacity, data.n_clusters), dtype=np.int64),
        ranking=np.arange(capacity, dtype=np.int64),
        clones=np.zeros(capacity, dtype=np.int64),
        child=np.zeros((n_features, data.n_clusters)),
    )


@jit_inner
def store(data: Data, population: Population, rank: int, state: State, objective: float) -> None:
    """Keep the partition in `state`, whose statistics stem from members, at `rank`."""
    place = population.ranking[rank]
    n_clusters = data.n_clusters
    for i in range(len(state.labels)):
        population.labels[place, i] = state.labels[i]
    if data.shape > COMMON:
        update_centroids(data, state, population.centroids[place])
    else:
        for d in range(len(state.means)):
            for k in range(n_clusters):
                population.centroids[place, d, k] = state.means[d, k]
    population.objectives[place] = objective
    sizes = population.sizes[place]
    for k in range(n_clusters):
        hole = k
        while hole > 0 and sizes[hole - 1] > state.sizes[k]:
            sizes[hole] = sizes[hole - 1]
            hole -= 1
        sizes[hole] = state.sizes[k]


@jit_part
def are_clones(population: Population, first: int, second: int) -> bool:
    """Whether two places hold the same solution, as far as objective and sizes tell."""
    if abs(population.objectives[first] - population.objectives[second]) > CLONE:
        return False
    for k in range(population.sizes.shape[1]):
        if population.sizes[first, k] != population.sizes[second, k]:
            return False
    return True


@jit_part
def is_new(population: Population, count: int, objective: float) -> bool:
    """Whether none of the first `count` solutions has this objective."""
    for rank in range(count):
        if abs(population.objectives[population.ranking[rank]] - objective) <= CLONE:
            return False
    return True


@jit_inner
def select(population: Population, count: int) -> None:
    """Rank the first `count` solutions by objective, clones of a better one last; the older first on ties."""
    ranking, clones = population.ranking, population.clones
    objectives = population.objectives
    # Insertion is stable: on ties the older solution stays first.
    for rank in range(1, count):
        place = ranking[rank]
        hole = rank
        while hole > 0 and objectives[ranking[hole - 1]] < objectives[place]:
            ranking[hole] = ranking[hole - 1]
            hole -= 1
        ranking[hole] = place
    n_singles = 0
    n_clones = 0
    for reading in range(count):
        place = ranking[reading]
        rank = 0
        while rank < n_singles and not are_clones(population, ranking[rank], place):
            rank += 1
        if rank == n_singles:
            ranking[n_singles] = place
            n_singles += 1
        else:
            clones[n_clones] = place
            n_clones += 1
    for rank in range(n_clones):
        ranking[n_singles + rank] = clones[rank]
