"""Hybrid genetic search: one restart (docs/model.md, section 3)."""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernels.jit import jit, jit_part
from kernels.partition.objective import objective_terms
from kernels.partition.state import CAPS, EVALUATIONS, LOCAL_SEARCHES, RELOCATIONS, State, new_state
from kernels.problem.data import COMMON, Data, Floats
from kernels.problem.problem import CANNOT, MUST, Layer, Problem, build_problem
from kernels.problem.shapes import SPHERES, Prior, shaped_covariances, spherical_covariances
from kernels.rng import draw_below
from kernels.search.components import Component, new_component, relocate_components
from kernels.search.local_search import MAX_RELOCATION_PASSES, local_search
from kernels.search.matching import Matching, new_matching
from kernels.search.operators import (
    adopt,
    assign_closest,
    blend,
    cross,
    kmeans,
    mutate,
    repair,
    seed_centroids,
)
from kernels.search.population import CLONE, Population, is_new, new_population, select, store
from kernels.search.schedule import Schedule, check_settings, schedule_of
from kernels.settings import SearchSettings

__all__ = ["Restart", "SearchSettings", "run_restart", "warm_up"]


class Restart(NamedTuple):
    """Best solution of one restart, and the work it took.

    Parameters
    ----------
    labels : ndarray of shape (n_samples,), int16
        Cluster of every sample.
    objective, gmm, sbm, prior : float
        Nats, from scratch; the first is the sum of the others. `sbm` is the annotation term: ann of
        docs/model.md, eq. (36), for "conditional".
    sizes : ndarray of shape (n_clusters,), int64
        Samples per cluster; none is empty.
    centroids : ndarray of shape (n_clusters, n_features)
        Means of the features as given.
    covariances : ndarray of shape (n_clusters,) and, as the shape has it, n_features once or twice
        As of `kernels.scores.cluster_covariances`, with the variance prior if there is one; 0 for a
        degenerate cluster.
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
    covariances: Floats
    local_searches: int
    evaluations: int
    relocations: int
    caps_reached: int


@jit
def _search(
    data: Data,
    state: State,
    population: Population,
    matching: Matching,
    component: Component,
    rng: np.random.Generator,
    schedule: Schedule,
    start: NDArray[np.int16],
) -> int:
    """Place of the best solution found; the first one comes from `start`, unless that is empty."""
    size, offspring = schedule.population, schedule.offspring
    count = int(np.int64(0))  # no literal: `store` would be compiled for that too
    best = -np.inf
    idle = 0
    for made in range(size + offspring * schedule.generations):
        if state.stop[0] != 0:
            break
        if made == 0 and len(start) > 0:
            adopt(data, state, start, population.child)
        elif made < size:
            seed_centroids(data, state, rng, population.child)
            kmeans(data, state, population.child)
        else:
            breed(data, state, rng, population, matching, count, schedule)
        repair(data, state, population.child)
        objective = local_search(data, state, rng)
        # Moves of components cost time: they are tried for solutions that would survive, and are new.
        worst = population.objectives[population.ranking[size - 1]] if made >= size else -np.inf
        for _ in range(MAX_RELOCATION_PASSES):
            if not (
                schedule.by_components
                and objective > worst
                and is_new(population, count, objective)
                and relocate_components(data, state, rng, component) > 0
            ):
                break
            objective = local_search(data, state, rng)
        else:
            state.counters[CAPS] += 1
        store(data, population, count, state, objective)
        count += 1
        if count == size + offspring or made + 1 == size:
            select(population, count)
            count = size
            leading = population.objectives[population.ranking[0]]
            idle = 0 if leading > best + CLONE else idle + 1
            best = max(best, leading)
            # idle > 0: a patience of 0 never stops the search.
            if idle == schedule.patience and idle > 0:
                break
    return int(population.ranking[0])


@jit_part
def breed(
    data: Data,
    state: State,
    rng: np.random.Generator,
    population: Population,
    matching: Matching,
    count: int,
    schedule: Schedule,
) -> None:
    """Set the child's centroids, and labels, from two distinct solutions of the first `count`."""
    first = draw_below(rng, count)
    second = draw_below(rng, count - 1)
    if second >= first:  # uniform over the others
        second += 1
    mother = population.ranking[first]
    father = population.ranking[second]
    cross(rng, population.centroids[mother], population.centroids[father], population.child, matching)
    mutated = schedule.mutation >= 1.0 or rng.random() < schedule.mutation
    if mutated:
        mutate(data, rng, population.child)
    if mutated or not schedule.by_labels:
        state.labels[:] = -1
        assign_closest(data, state, population.child)
    else:
        blend(
            data, state, rng, population.labels[mother], population.labels[father], population.child, matching
        )


def _best(
    problem: Problem, settings: SearchSettings, rng: np.random.Generator, start: NDArray[np.int16]
) -> tuple[NDArray[np.int16], NDArray[np.int64]]:
    """Labels of the best solution found, and the counters."""
    schedule = schedule_of(settings)
    data = problem.data if settings.relocation == "annotated" else _relocating_all(problem.data)
    is_bounded = (data.kappa if data.shape <= COMMON else data.ridge) > 0.0
    if is_bounded:
        data = _in_own_units(data)
    state = new_state(data)
    population = new_population(data, schedule.population + schedule.offspring)
    matching, component = new_matching(data.n_clusters, state.stop), new_component(data, state)
    place = _search(data, state, population, matching, component, rng, schedule, start)
    labels = population.labels[place].copy()
    return _by_first_appearance(labels) if is_bounded else labels, state.counters


def _relocating_all(data: Data) -> Data:
    """The same problem with all samples in phase 1."""
    every = np.arange(data.X.shape[0], dtype=np.int32)
    return data._replace(annotated=every, unannotated=every[:0])


def _in_own_units(data: Data) -> Data:
    """The same problem in units near the standard deviation, a power of two: that rounds nothing.

    Under a variance prior the solution does not depend on the units of X, but the last bits of the objective
    do, and they would decide between two solutions that are equally good.
    """
    unit = 2.0 ** (math.frexp(data.total_variance)[1] // 2)
    X = data.X / unit
    Z = X if data.shape <= COMMON else data.Z
    return data._replace(X=X, Z=Z, total_variance=data.total_variance / unit**2, unit_term=0.0)


def _by_first_appearance(labels: NDArray[np.int16]) -> NDArray[np.int16]:
    """The same clusters, numbered by their first samples: one order, and so one objective, in all units."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse].astype(np.int16)


NO_START = np.empty(0, dtype=np.int16)


def run_restart(
    problem: Problem,
    settings: SearchSettings,
    rng: np.random.Generator,
    start: NDArray[np.int16] | None = None,
) -> Restart:
    """Run the hybrid genetic search once (docs/model.md, section 3).

    Parameters
    ----------
    problem : Problem
        Data, annotations and model.
    settings : SearchSettings
        Size and method.
    rng : numpy.random.Generator
        The only source of randomness.
    start : ndarray of shape (n_samples,), int16, optional
        A partition that the first solution comes from in place of k-means; clusters below the least size are
        filled. The result is no worse.

    Returns
    -------
    Restart

    Raises
    ------
    ValueError
        If the settings leave no two parents to choose from, or one of them is out of range, or if the start
        is no partition of the samples into the clusters.
    """
    check_settings(settings)
    if start is not None:
        _check_start(start, problem)
    warm_up()
    start = NO_START if start is None else np.ascontiguousarray(start, dtype=np.int16)
    labels, counters = _best(problem, settings, rng, start)
    gmm, sbm, prior = objective_terms(problem, labels)
    sizes, centroids, covariances = _clusters(problem, labels)
    return Restart(
        labels,
        gmm + sbm + prior,
        gmm,
        sbm,
        prior,
        sizes,
        centroids,
        covariances,
        int(counters[LOCAL_SEARCHES]),
        int(counters[EVALUATIONS]),
        int(counters[RELOCATIONS]),
        int(counters[CAPS]),
    )


def _check_start(start: NDArray[np.int16], problem: Problem) -> None:
    n_samples = len(problem.data.X)
    if start.shape != (n_samples,) or start.min() < 0 or start.max() >= problem.n_clusters:
        raise ValueError(
            f"start has shape {start.shape} and labels {start.min(initial=0)} to {start.max(initial=0)},"
            f" expected ({n_samples},) and 0 to {problem.n_clusters - 1}"
        )


def _clusters(problem: Problem, labels: NDArray[np.int16]) -> tuple[NDArray[np.int64], Floats, Floats]:
    data = problem.data
    n_features = data.X.shape[1]
    sizes = np.bincount(labels, minlength=data.n_clusters)
    centroids = np.zeros((data.n_clusters, n_features))
    np.add.at(centroids, labels, data.X)
    centroids /= sizes[:, None]
    if problem.covariance in SPHERES:
        common = problem.covariance == "common"
        covariances = spherical_covariances(
            data.X, labels, sizes, centroids, common, data.kappa, data.total_variance
        )
    else:
        prior = Prior(data.ridge, data.freedom)
        covariances = shaped_covariances(
            data.X, labels, sizes, centroids, problem.covariance, problem.kept, prior
        )
    return sizes, centroids + problem.means, covariances


@functools.cache
def warm_up() -> None:
    """Compile, or load from the cache, all that a restart needs."""
    # One model is enough: the types of Data, and so the machine code, are the same for all.
    X = np.arange(12.0).reshape(6, 2)
    layers = [Layer(MUST, np.array([[0, 1]]), None, 0.9), Layer(CANNOT, np.array([[0, 5]]), None, 0.9)]
    problem = build_problem(X, layers, n_clusters=2, model="posterior")
    labels, _ = _best(problem, SearchSettings(2, 1, 1), np.random.default_rng(0), NO_START)
    objective_terms(problem, labels)
