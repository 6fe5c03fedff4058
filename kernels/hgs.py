"""Hybrid genetic search: one restart (model.md section 3)."""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernels.data import DEGENERATE, Data, Floats
from kernels.jit import compile_lock, jit
from kernels.local_search import local_search
from kernels.objective import objective_terms
from kernels.operators import assign_closest, cross, kmeans, mutate, repair, seed_centroids
from kernels.population import Population, new_population, select, store
from kernels.problem import CANNOT, MUST, Layer, Problem, build_problem
from kernels.rng import draw_below
from kernels.state import CAPS, EVALUATIONS, LOCAL_SEARCHES, RELOCATIONS, State, new_state


class SearchSettings(NamedTuple):
    """Size of a restart.

    Parameters
    ----------
    population : int
        Solutions that survive a generation.
    offspring : int
        Solutions made in a generation.
    generations : int
        Generations of a restart.
    """

    population: int = 10
    offspring: int = 10
    generations: int = 10


class Restart(NamedTuple):
    """Best solution of one restart, and what it took.

    Parameters
    ----------
    labels : ndarray of shape (n_samples,), int16
        Cluster of every sample.
    objective, gmm, sbm, prior : float
        Nats, from scratch; the first is the sum of the others.
    sizes : ndarray of shape (n_clusters,), int64
        Samples per cluster; none is empty.
    centroids : ndarray of shape (n_clusters, n_features)
        Means of the features as given.
    variances : ndarray of shape (n_clusters,)
        SSE_r / (D n_r), or the MAP estimate under a variance prior; 0 for a degenerate cluster.
    local_searches, evaluations, relocations, caps_reached : int
        Local searches made, candidate relocations tried in both phases, relocations of phase 1, and how often
        a limit on rounds, passes or k-means iterations ended a loop.
    """

    labels: NDArray[np.int16]
    objective: float
    gmm: float
    sbm: float
    prior: float
    sizes: NDArray[np.int64]
    centroids: Floats
    variances: Floats
    local_searches: int
    evaluations: int
    relocations: int
    caps_reached: int


@jit
def _search(
    data: Data, rng: np.random.Generator, size: int, offspring: int, generations: int
) -> tuple[NDArray[np.int16], NDArray[np.int64]]:
    """Labels of the best solution found, and the counters."""
    state = new_state(data)
    population = new_population(data, size + offspring)
    child = np.zeros((data.X.shape[1], data.n_clusters))
    for rank in range(size):
        seed_centroids(data, rng, child, state.own)
        kmeans(data, state, child)
        _finish(data, state, rng, population, rank, child)
    select(population, size)
    for _ in range(generations):
        for rank in range(size, size + offspring):
            _breed(data, rng, population, rank, child)
            state.labels[:] = -1
            assign_closest(data, state, child)
            _finish(data, state, rng, population, rank, child)
        select(population, size + offspring)
    return population.labels[population.ranking[0]].copy(), state.counters


@jit
def _finish(
    data: Data, state: State, rng: np.random.Generator, population: Population, rank: int, centroids: Floats
) -> None:
    """Repair, improve and keep the partition in `state`."""
    repair(data, state, centroids)
    objective = local_search(data, state, rng)
    store(population, rank, state, objective)


@jit
def _breed(data: Data, rng: np.random.Generator, population: Population, count: int, child: Floats) -> None:
    """Centroids from two distinct solutions of the first `count`."""
    first = draw_below(rng, count)
    second = draw_below(rng, count - 1)
    if second >= first:
        second += 1
    ranking = population.ranking
    cross(rng, population.centroids[ranking[first]], population.centroids[ranking[second]], child)
    mutate(data, rng, child)


def run_restart(problem: Problem, settings: SearchSettings, rng: np.random.Generator) -> Restart:
    """Run the hybrid genetic search once (model.md section 3).

    Parameters
    ----------
    problem : Problem
        Data, annotations and model.
    settings : SearchSettings
        Population, offspring, generations.
    rng : numpy.random.Generator
        The only source of randomness.

    Returns
    -------
    Restart

    Raises
    ------
    ValueError
        If the settings leave no two parents to choose from.
    """
    size, offspring, generations = settings
    if size < 1 or offspring < 0 or generations < 0 or (size == 1 and offspring * generations > 0):
        raise ValueError(f"{settings}: expected a population of 2 or more, or of 1 without offspring")
    warm_up()
    labels, counters = _search(problem.data, rng, size, offspring, generations)
    gmm, sbm, prior = objective_terms(problem, labels)
    sizes, centroids, variances = _clusters(problem, labels)
    return Restart(
        labels,
        gmm + sbm + prior,
        gmm,
        sbm,
        prior,
        sizes,
        centroids,
        variances,
        int(counters[LOCAL_SEARCHES]),
        int(counters[EVALUATIONS]),
        int(counters[RELOCATIONS]),
        int(counters[CAPS]),
    )


def _clusters(problem: Problem, labels: NDArray[np.int16]) -> tuple[NDArray[np.int64], Floats, Floats]:
    data = problem.data
    n_features = data.X.shape[1]
    sizes = np.bincount(labels, minlength=data.n_clusters)
    centroids = np.zeros((data.n_clusters, n_features))
    np.add.at(centroids, labels, data.X)
    centroids /= sizes[:, None]
    squares = np.square(data.X - centroids[labels]).sum(axis=1)
    errors = np.bincount(labels, weights=squares, minlength=data.n_clusters)
    prior = data.kappa * n_features * data.total_variance
    variances = (errors + prior) / (n_features * (sizes + data.kappa))
    if data.kappa == 0.0:
        variances[(sizes <= 1) | (errors <= DEGENERATE * data.total_variance * n_features * sizes)] = 0.0
    return sizes, centroids + problem.means, variances


@functools.cache
def warm_up() -> None:
    """Compile, or load from the cache, all that a restart needs; one process at a time compiles."""
    X = np.arange(12.0).reshape(6, 2)
    layers = [Layer(MUST, np.array([[0, 1]]), None, 0.9), Layer(CANNOT, np.array([[0, 5]]), None, 0.9)]
    problem = build_problem(X, layers, n_clusters=2, model="posterior")
    with compile_lock():
        labels, _ = _search(problem.data, np.random.default_rng(0), 2, 1, 1)
        objective_terms(problem, labels)
