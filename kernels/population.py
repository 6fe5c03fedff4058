"""The solutions a restart keeps, and which of them survive a generation (model.md section 3)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernels.data import Data, Floats
from kernels.jit import jit
from kernels.state import State

CLONE = 1e-7
"""Two solutions whose objectives differ by no more, in nats, and whose sorted sizes agree are clones."""


class Population(NamedTuple):
    """Solutions by place; `ranking` lists the places in use, best first after `select`."""

    labels: NDArray[np.int16]  # (capacity, n_samples)
    centroids: Floats  # (capacity, n_features, n_clusters)
    objectives: Floats  # (capacity,)
    sizes: NDArray[np.int64]  # (capacity, n_clusters), sorted
    ranking: NDArray[np.int64]  # (capacity,)


@jit
def new_population(data: Data, capacity: int) -> Population:
    """Memory for `capacity` solutions."""
    n_samples, n_features = data.X.shape
    return Population(
        np.zeros((capacity, n_samples), np.int16),
        np.zeros((capacity, n_features, data.n_clusters)),
        np.zeros(capacity),
        np.zeros((capacity, data.n_clusters), np.int64),
        np.arange(capacity),
    )


@jit
def store(population: Population, rank: int, state: State, objective: float) -> None:
    """Keep the partition in `state`, whose statistics stem from members, at `rank`."""
    place = population.ranking[rank]
    population.labels[place] = state.labels
    population.centroids[place] = state.means
    population.objectives[place] = objective
    population.sizes[place] = np.sort(state.sizes)


@jit
def are_clones(population: Population, first: int, second: int) -> bool:
    """Whether two places hold the same solution, as far as objective and sizes tell."""
    if abs(population.objectives[first] - population.objectives[second]) > CLONE:
        return False
    for k in range(population.sizes.shape[1]):
        if population.sizes[first, k] != population.sizes[second, k]:
            return False
    return True


@jit
def select(population: Population, count: int) -> None:
    """Rank the first `count` solutions by objective, clones of a better one last; the older first on ties."""
    ranking = population.ranking
    objectives = population.objectives
    for rank in range(1, count):
        place = ranking[rank]
        hole = rank
        while hole > 0 and objectives[ranking[hole - 1]] < objectives[place]:
            ranking[hole] = ranking[hole - 1]
            hole -= 1
        ranking[hole] = place
    by_objective = ranking[:count].copy()
    singles = 0
    clones = 0
    for place in by_objective:
        rank = 0
        while rank < singles and not are_clones(population, ranking[rank], place):
            rank += 1
        if rank == singles:
            ranking[singles] = place
            singles += 1
        else:
            by_objective[clones] = place
            clones += 1
    ranking[singles:count] = by_objective[:clones]
