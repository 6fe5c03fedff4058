"""Hybrid genetic search: one restart (docs/model.md, section 3)."""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernels.jit import by_pointer, jit, jit_inner, jit_part
from kernels.partition.gains import squared_distances
from kernels.partition.objective import objective_terms
from kernels.partition.state import CAPS, EVALUATIONS, LOCAL_SEARCHES, RELOCATIONS, State, new_state
from kernels.problem.data import COMMON, Data, Floats
from kernels.problem.problem import CANNOT, MUST, Layer, Problem, build_problem
from kernels.problem.shapes import SPHERES, Prior, shaped_covariances, spherical_covariances
from kernels.rng import draw_below
from kernels.search.local_search import (
    MAX_RELOCATION_PASSES,
    Component,
    local_search,
    new_component,
    relocate_components,
)
from kernels.search.sampling import Matching, match, new_matching
from kernels.settings import SearchSettings, require

__all__ = ["Restart", "SearchSettings", "run_restart", "warm_up"]


# The settings as the compiled search takes them.

SIZES = ("population", "offspring", "generations")


@by_pointer
class Schedule(NamedTuple):
    """What the compiled search sees of the settings."""

    population: int
    offspring: int
    generations: int
    patience: int
    by_labels: bool
    mutation: float
    by_components: bool


def schedule_of(settings: SearchSettings) -> Schedule:
    """Settings with the types the search is compiled for."""
    return Schedule(
        int(settings.population),
        int(settings.offspring),
        int(settings.generations),
        int(settings.patience),
        settings.crossover == "labels",
        float(settings.mutation),
        settings.relocation == "components",
    )


def check_settings(settings: SearchSettings) -> None:
    """Raise ValueError if a setting is out of range; the text names all that are.

    The sizes may be smaller than a user can ask for: a population of 1 without offspring is one local search.
    """
    size, made = settings.population, settings.offspring * settings.generations
    if size < 1 or settings.offspring < 0 or settings.generations < 0 or (size == 1 and made > 0):
        raise ValueError(f"{settings}: expected a population of 2 or more, or of 1 without offspring")
    require(settings, SearchSettings, but=SIZES)


# Operators that make new partitions: seeding, k-means, crossover, mutation, repair.
#
# Equations (16) and (17) of docs/model.md.
#
# Centroids have shape (n_features, n_clusters) here, as in `State.means`.

MAX_KMEANS_ITERATIONS = 200


@jit_inner
def seed_centroids(data: Data, state: State, rng: np.random.Generator, centroids: Floats) -> None:
    """k-means++: each new centroid is a sample, drawn by its squared distance to the closest one so far."""
    n_samples, n_features = data.X.shape
    weights = state.own
    weights[:] = np.inf
    chosen = draw_below(rng, n_samples)
    for k in range(data.n_clusters):
        if state.stop[0] != 0:
            break
        if k > 0:
            chosen = draw_weighted(rng, weights)
        for d in range(n_features):
            centroids[d, k] = data.X[chosen, d]
        for i in range(n_samples):
            total = 0.0
            for d in range(n_features):
                difference = data.X[i, d] - data.X[chosen, d]
                total += difference * difference
            weights[i] = min(weights[i], total)


@jit_part
def draw_weighted(rng: np.random.Generator, weights: Floats) -> int:
    """Index drawn with probability proportional to its weight; one weight at least is above 0."""
    total = 0.0
    for weight in weights:
        total += weight
    threshold = rng.random() * total
    last = 0
    reached = 0.0
    for i in range(len(weights)):
        if weights[i] > 0.0:
            last = i
            reached += weights[i]
            if reached > threshold:
                return last
    # Rounding may leave the sum at the threshold: the last sample with a weight.
    return last


@jit_inner
def kmeans(data: Data, state: State, centroids: Floats) -> None:
    """Lloyd's iterations from `centroids` until no label changes; an empty cluster keeps its centroid."""
    state.labels[:] = -1
    for _ in range(MAX_KMEANS_ITERATIONS):
        if assign_closest(data, state, centroids) == 0 or state.stop[0] != 0:
            return
        update_centroids(data, state, centroids)
    state.counters[CAPS] += 1


@jit_inner
def assign_closest(data: Data, state: State, centroids: Floats) -> int:
    """Label every sample by its closest centroid, the lowest index on ties; number of changed labels.

    Sets `state.sizes` and `state.own`, the squared distances to the own centroids.
    """
    changed = 0
    state.sizes[:] = 0
    for i in range(data.X.shape[0]):
        if state.stop[0] != 0:
            break
        squared_distances(data.X[i], centroids, state.distances)
        closest = 0
        for k in range(1, data.n_clusters):
            if state.distances[k] < state.distances[closest]:
                closest = k
        if state.labels[i] != closest:
            state.labels[i] = closest
            changed += 1
        state.sizes[closest] += 1
        state.own[i] = state.distances[closest]
    return changed


@jit_inner
def update_centroids(data: Data, state: State, centroids: Floats) -> None:
    """Put the centroid of every cluster that has samples at their mean."""
    n_features = data.X.shape[1]
    for k in range(data.n_clusters):
        if state.sizes[k] > 0:
            for d in range(n_features):
                centroids[d, k] = 0.0
    for i in range(data.X.shape[0]):
        label = state.labels[i]
        for d in range(n_features):
            centroids[d, label] += data.X[i, d]
    for k in range(data.n_clusters):
        if state.sizes[k] > 0:
            for d in range(n_features):
                centroids[d, k] /= state.sizes[k]


@jit_part
def adopt(data: Data, state: State, labels: NDArray[np.int16], centroids: Floats) -> None:
    """Take a partition as it is, its centroids at the means.

    Sets `state.sizes` and `state.own` as `assign_closest` does.
    """
    state.sizes[:] = 0
    for i in range(len(labels)):
        state.labels[i] = labels[i]
        state.sizes[labels[i]] += 1
    update_centroids(data, state, centroids)
    for i in range(len(labels)):
        squared_distances(data.X[i], centroids, state.distances)
        state.own[i] = state.distances[labels[i]]


@jit_part
def repair(data: Data, state: State, centroids: Floats) -> None:
    """Fill clusters below the least size, lowest index first, with the sample farthest from its own centroid.

    Takes from clusters above the least size only; an empty cluster's centroid moves onto the sample. Needs
    `state.sizes` and `state.own` of these centroids.
    """
    n_samples, n_features = data.X.shape
    for k in range(data.n_clusters):
        while state.sizes[k] < data.min_size and state.stop[0] == 0:
            farthest = -1
            for i in range(n_samples):
                if state.sizes[state.labels[i]] > data.min_size and (
                    farthest < 0 or state.own[i] > state.own[farthest]
                ):
                    farthest = i
            total = 0.0
            for d in range(n_features):
                if state.sizes[k] == 0:
                    centroids[d, k] = data.X[farthest, d]
                difference = data.X[farthest, d] - centroids[d, k]
                total += difference * difference
            state.sizes[state.labels[farthest]] -= 1
            state.sizes[k] += 1
            state.labels[farthest] = k
            state.own[farthest] = total


@jit_inner
def cross(rng: np.random.Generator, first: Floats, second: Floats, child: Floats, matching: Matching) -> None:
    """Match the parents' centroids, take either of each pair with probability one half."""
    n_features, n_clusters = first.shape
    cost = matching.cost
    cost[:] = 0.0
    for d in range(n_features):
        if matching.stop[0] != 0:
            break
        for r in range(n_clusters):
            for c in range(n_clusters):
                difference = first[d, r] - second[d, c]
                cost[r, c] += difference * difference
    match(matching)
    for k in range(n_clusters):
        from_first = rng.random() < 0.5
        for d in range(n_features):
            child[d, k] = first[d, k] if from_first else second[d, matching.column_of[k]]


@jit_part
def blend(
    data: Data,
    state: State,
    rng: np.random.Generator,
    first: NDArray[np.int16],
    second: NDArray[np.int16],
    centroids: Floats,
    matching: Matching,
) -> None:
    """Label every sample as either parent does, with probability one half where they disagree.

    Clusters of the second parent go by the numbers they are matched to. Sets `state.sizes` and `state.own` as
    `assign_closest` does.
    """
    state.sizes[:] = 0
    for i in range(len(first)):
        label = int(first[i])
        other = int(matching.row_of[second[i]])
        if label != other and rng.random() < 0.5:
            label = other
        state.labels[i] = label
        state.sizes[label] += 1
        total = 0.0
        for d in range(data.X.shape[1]):
            difference = data.X[i, d] - centroids[d, label]
            total += difference * difference
        state.own[i] = total


@jit_part
def mutate(data: Data, rng: np.random.Generator, centroids: Floats) -> None:
    """Put one centroid, drawn uniformly, on a sample drawn uniformly."""
    dropped = draw_below(rng, data.n_clusters)
    sample = draw_below(rng, data.X.shape[0])
    for d in range(data.X.shape[1]):
        centroids[d, dropped] = data.X[sample, d]


# The solutions a restart keeps, and which of them survive a generation (docs/model.md, section 3).

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
