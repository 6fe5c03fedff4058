"""Hybrid genetic search: one restart (docs/model.md, section 3).

`run_restart` is the entry. `run_search` is the loop: a solution begins from k-means, or is bred from two
parents; then it is repaired, improved and stored. Each generation is ranked, and the loop ends after too many
generations without a gain. The functions of the loop follow it in that order.
"""

import functools
import math
from typing import Annotated, NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from sweep_clustering.kernels.fits import Fit
from sweep_clustering.kernels.jit import by_pointer, jit, jit_inner, jit_part
from sweep_clustering.kernels.partition.gains import squared_distances
from sweep_clustering.kernels.partition.objective import objective_terms
from sweep_clustering.kernels.partition.statistics import (
    CAPS,
    EVALUATIONS,
    LOCAL_SEARCHES,
    State,
    allocate,
    new_state,
    set_means,
    sizes_of,
)
from sweep_clustering.kernels.problem.data import CANNOT, COMMON, MUST, Data, Floats, Layer, check_labels
from sweep_clustering.kernels.problem.problem import Prior, Problem, build_problem, shaped_covariances
from sweep_clustering.kernels.search import local_search as local
from sweep_clustering.kernels.search.local_search import draw_below
from sweep_clustering.kernels.search.sampling import Labels, Matching, match, new_matching
from sweep_clustering.kernels.settings import SearchSettings

__all__ = ["SearchSettings", "run_restart", "warm_up"]


# Two solutions are clones if their sorted sizes agree and their objectives differ by at most this, in nats.
CLONE = 1e-7

MAX_KMEANS_ITERATIONS = 200

# The type of a flag that kernels hand over: with a literal True and False a kernel would be compiled twice.
YES = np.bool_(True)
NO = np.bool_(False)


def run_restart(
    problem: Problem, settings: SearchSettings, rng: Generator, start: Labels | None = None
) -> Fit:
    """Run the hybrid genetic search once (docs/model.md, section 3).

    Parameters
    ----------
    problem : Problem
        Data, annotations and model.
    settings : SearchSettings
        Sizes and method of the search. A population of 1 without offspring is one local search.
    rng : numpy.random.Generator
        The only source of randomness.
    start : ndarray of shape (n_samples,), int16, optional
        Partition that replaces k-means as the origin of the first solution. Clusters below the least size
        are filled, and the result is at least as good.

    Raises
    ------
    ValueError
        If the start is no partition of the samples into the clusters.
    """
    first = np.empty(0, np.int16)
    if start is not None:
        check_labels(start, problem.n_samples, problem.n_clusters, "start")
        first = np.ascontiguousarray(start, dtype=np.int16)
    warm_up()
    labels, counters = _best_partition(problem, settings, rng, first)
    work = [int(counters[place]) for place in (LOCAL_SEARCHES, EVALUATIONS, CAPS)]
    return fit_of(problem, labels, *work)


def fit_of(problem: Problem, labels: Labels, local_searches: int, evaluations: int, caps_reached: int) -> Fit:
    """Return the fit of a partition, and the work that it took."""
    data = problem.data
    sizes = np.bincount(labels, minlength=data.n_clusters)
    centroids = np.zeros((data.n_clusters, data.X.shape[1]))
    np.add.at(centroids, labels, data.X)
    centroids /= np.maximum(sizes, 1)[:, None]
    prior = Prior(data.ridge, data.freedom, data.kappa, data.total_variance)
    terms = objective_terms(problem, labels)
    covariances = shaped_covariances(
        data.X, labels, sizes, centroids, problem.covariance, problem.dims, prior
    )
    return Fit(
        labels,
        sum(terms),
        *terms,
        sizes=sizes,
        centroids=centroids + problem.means,
        covariances=covariances,
        local_searches=local_searches,
        evaluations=evaluations,
        caps_reached=caps_reached,
    )


def _best_partition(
    problem: Problem, settings: SearchSettings, rng: Generator, start: Labels
) -> tuple[Labels, NDArray[np.int64]]:
    """Return the labels of the best solution, and the counters of the workspace."""
    data = problem.data
    if settings.relocation != "annotated":
        samples = np.arange(problem.n_samples, dtype=np.int32)
        data = data._replace(annotated=samples, unannotated=samples[:0])
    has_prior = (data.kappa if data.shape <= COMMON else data.ridge) > 0.0
    if has_prior:
        # Under a variance prior the solution does not depend on the units of X, but the last bits of the
        # objective do, and they would decide between two solutions that are equally good. So X is divided by
        # a power of two near the standard deviation, which rounds nothing.
        unit = 2.0 ** (math.frexp(data.total_variance)[1] // 2)
        X = data.X / unit
        Z = X if data.shape <= COMMON else data.Z
        data = data._replace(X=X, Z=Z, total_variance=data.total_variance / unit**2, unit_term=0.0)
    state = new_state(data)
    population = new_population(data, settings.population + settings.offspring)
    matching, component = new_matching(data.n_clusters, state.stop), local.new_component(data, state)
    lengths = (settings.population, settings.offspring, settings.generations, settings.patience)
    methods = (settings.crossover == "labels", float(settings.mutation), settings.relocation == "components")
    search = Search(data, state, population, matching, component, state.stop, *lengths, *methods)
    labels = population.labels[run_search(search, rng, start)].copy()
    if has_prior:
        # Clusters are numbered by their first samples: one order, and so one objective, in all units.
        _, first_rows, inverse = np.unique(labels, return_index=True, return_inverse=True)
        labels = np.argsort(np.argsort(first_rows))[inverse].astype(np.int16)
    return labels, state.counters


@functools.cache
def warm_up() -> None:
    """Compile all kernels of a restart, or load them from the cache."""
    # One model is enough: the types of Data, and so the machine code, are the same for all models.
    X = np.arange(12.0).reshape(6, 2)
    layers = [Layer(MUST, np.array([[0, 1]]), None, 0.9), Layer(CANNOT, np.array([[0, 5]]), None, 0.9)]
    problem = build_problem(X, layers, n_clusters=2, model="posterior")
    settings = SearchSettings(2, 1, 1)
    labels, _ = _best_partition(problem, settings, np.random.default_rng(0), np.empty(0, np.int16))
    objective_terms(problem, labels)


@by_pointer
class Population(NamedTuple):
    """Solutions by place; `ranking` lists the places in use, best first after `select`."""

    labels: Annotated[Labels, "capacity samples"]
    centroids: Annotated[Floats, "capacity features lanes"]
    objectives: Annotated[Floats, "capacity"]
    sizes: Annotated[NDArray[np.int64], "capacity clusters"]  # sorted
    ranking: NDArray[np.int64]  # (capacity,)
    child: Annotated[Floats, "features lanes"]  # centroids of the next solution


def new_population(data: Data, capacity: int) -> Population:
    """Return memory for `capacity` solutions."""
    ranking = np.arange(capacity, dtype=np.int64)
    return allocate(Population, sizes_of(data) | {"capacity": capacity}, ranking=ranking)


@by_pointer
class Search(NamedTuple):
    """Input, workspace and settings of a compiled search."""

    data: Data
    state: State
    population: Population
    matching: Matching
    component: local.Component
    stop: NDArray[np.int64]  # flag in `state`, by which `kernels.interrupt` ends the search
    survivors: int
    offspring: int
    generations: int
    patience: int
    is_label_crossover: bool
    mutation: float
    is_component_relocation: bool


@jit
def run_search(search: Search, rng: Generator, start: Labels) -> int:
    """Return the place of the best solution; the first one comes from `start`, unless that is empty."""
    data, state, population = search.data, search.state, search.population
    survivors = int(np.int64(0))  # a literal would have every function that takes ranks compiled twice
    best, idle = -np.inf, 0  # the best objective of a generation, and generations since it rose
    for generation in range(search.generations + 1):
        births = search.offspring if generation > 0 else search.survivors
        for rank in range(survivors, survivors + births):
            if state.stop[0] != 0:
                return 0
            if generation > 0:
                breed(search, rng, rank)
            else:
                begin(search, rng, rank, start)
            repair(data, state, population.child)
            objective = improve(search, rng, rank)
            store(data, population, rank, state, objective)
        select(population, survivors + births)
        objective = population.objectives[population.ranking[0]]
        idle = 0 if objective > best + CLONE else idle + 1
        best = max(best, objective)
        if idle == search.patience and idle > 0:
            break
        survivors = search.survivors
    return int(population.ranking[0])


# The first generation: k-means++ and k-means (eq. (16) of docs/model.md), or the partition of the caller.


@jit_part
def begin(search: Search, rng: Generator, rank: int, start: Labels) -> None:
    """Set labels and the child's centroids, with the sizes and distances that `assign_closest` sets."""
    data, state, centroids = search.data, search.state, search.population.child
    if rank > 0 or len(start) == 0:
        seed_centroids(data, state, rng, centroids, 1)
        kmeans(data, state, centroids, MAX_KMEANS_ITERATIONS)
        return
    state.sizes[:] = 0
    for i in range(len(start)):
        state.labels[i] = start[i]
        state.sizes[start[i]] += 1
    set_means(data.X, state, centroids)
    for i in range(len(start)):
        squared_distances(data.X[i], centroids, state.distances)
        state.own_distances[i] = state.distances[start[i]]


@jit_inner
def seed_centroids(data: Data, state: State, rng: Generator, centroids: Floats, trials: int) -> None:
    """Draw samples as centroids by k-means++, each by its squared distance to the closest centroid before.

    Several draws may be tried for a centroid: the one with the least sum of these distances is taken.
    """
    n_samples, n_features = data.X.shape
    weights, sums = state.own_distances, state.sums
    weights[:] = np.inf
    best = draw_below(rng, n_samples)
    for k in range(data.n_clusters):
        if state.stop[0] != 0:
            break
        total, min_potential = 0.0, np.inf
        for i in range(n_samples):
            total += weights[i]
            sums[i] = total
        candidate = best
        for _ in range(trials if k > 0 else 0):
            threshold, potential = rng.random() * total, 0.0
            if total > 0.0:
                candidate = drawn_place(sums, threshold)
            if trials > 1:
                potential = lower_weights(data.X, candidate, weights, NO)
            if potential < min_potential:
                best, min_potential = candidate, potential
        for d in range(n_features):
            centroids[d, k] = data.X[best, d]
        lower_weights(data.X, best, weights, YES)


@jit_part
def drawn_place(sums: Floats, threshold: float) -> int:
    """Return the first place whose cumulated sum is above a threshold, which is at most the last sum.

    Rounding may leave the last sum at the threshold: then the last place with a weight is drawn.
    """
    threshold = min(threshold, np.nextafter(sums[-1], 0.0))
    low, high = 0, len(sums) - 1
    while low < high:
        middle = (low + high) // 2
        if sums[middle] > threshold:
            high = middle
        else:
            low = middle + 1
    return low


@jit_part
def lower_weights(X: Floats, center: int, weights: Floats, is_stored: np.bool_) -> float:
    """Return the sum of the weights, each lowered to its sample's squared distance to a center.

    The lower weights are stored on demand. Four samples are summed at a time, because each sum waits for the
    one before it; the bits are those of `squared_distance`.
    """
    n_samples, n_features = X.shape
    total = 0.0
    for i in range(0, n_samples, 4):
        # The last sample stands in where fewer than four remain.
        i1, i2, i3 = min(i + 1, n_samples - 1), min(i + 2, n_samples - 1), min(i + 3, n_samples - 1)
        s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
        for d in range(n_features):
            c = X[center, d]
            d0, d1, d2, d3 = X[i, d] - c, X[i1, d] - c, X[i2, d] - c, X[i3, d] - c
            s0, s1, s2, s3 = s0 + d0 * d0, s1 + d1 * d1, s2 + d2 * d2, s3 + d3 * d3
        for j, s in ((i, s0), (i + 1, s1), (i + 2, s2), (i + 3, s3)):
            if j < n_samples:
                weight = min(weights[j], s)
                total += weight
                if is_stored:
                    weights[j] = weight
    return total


@jit_part
def squared_distance(x: Floats, centroids: Floats, k: int) -> float:
    """Return the squared distance of one sample to one centroid."""
    total = 0.0
    for d in range(len(x)):
        difference = x[d] - centroids[d, k]
        total += difference * difference
    return total


@jit_inner
def kmeans(data: Data, state: State, centroids: Floats, iterations: int) -> None:
    """Iterate by Lloyd until no label changes; an empty cluster keeps its centroid."""
    state.labels[:] = -1
    for _ in range(iterations):
        if assign_closest(data, state, centroids) == 0 or state.stop[0] != 0:
            return
        set_means(data.X, state, centroids)
    state.counters[CAPS] += 1


@jit_inner
def assign_closest(data: Data, state: State, centroids: Floats) -> int:
    """Label every sample by its closest centroid, the lowest index on ties; return the number of changes.

    Sets `state.sizes` and `state.own_distances` too.
    """
    n_changes = 0
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
            n_changes += 1
        state.sizes[closest] += 1
        state.own_distances[i] = state.distances[closest]
    return n_changes


# Later generations: a child of two parents (eq. (17) of docs/model.md).


@jit_part
def breed(search: Search, rng: Generator, count: int) -> None:
    """Set the child's centroids, and labels, from two distinct solutions of the first `count`."""
    data, state, population = search.data, search.state, search.population
    first = draw_below(rng, count)
    second = draw_below(rng, count - 1)
    if second >= first:  # uniform over all but the first
        second += 1
    mother = population.ranking[first]
    father = population.ranking[second]
    child = population.child
    cross(rng, population.centroids[mother], population.centroids[father], child, search.matching)
    is_mutated = search.mutation >= 1.0 or rng.random() < search.mutation
    if is_mutated:
        # One centroid, drawn uniformly, moves to a sample drawn uniformly.
        cluster = draw_below(rng, data.n_clusters)
        sample = draw_below(rng, data.X.shape[0])
        for d in range(data.X.shape[1]):
            child[d, cluster] = data.X[sample, d]
    if is_mutated or not search.is_label_crossover:
        state.labels[:] = -1
        assign_closest(data, state, child)
    else:
        blend(search, rng, population.labels[mother], population.labels[father])


@jit_inner
def cross(rng: Generator, first: Floats, second: Floats, child: Floats, matching: Matching) -> None:
    """Match the parents' centroids, and take either one of each pair with probability one half."""
    cost = matching.cost
    n_features, n_clusters = len(first), len(cost)
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
        is_first = rng.random() < 0.5
        for d in range(n_features):
            child[d, k] = first[d, k] if is_first else second[d, matching.column_of[k]]


@jit_part
def blend(search: Search, rng: Generator, first: Labels, second: Labels) -> None:
    """Label every sample as one parent does, drawn where they disagree; clusters of the second are matched.

    Sets `state.sizes` and `state.own_distances` as `assign_closest` does.
    """
    data, state = search.data, search.state
    state.sizes[:] = 0
    for i in range(len(first)):
        label = int(first[i])
        second_label = int(search.matching.row_of[second[i]])
        if label != second_label and rng.random() < 0.5:
            label = second_label
        state.labels[i] = label
        state.sizes[label] += 1
        state.own_distances[i] = squared_distance(data.X[i], search.population.child, label)


# Both generations: repair, improve and store.


@jit_part
def repair(data: Data, state: State, centroids: Floats) -> None:
    """Fill clusters below the least size, lowest index first, with the sample farthest from its centroid.

    Samples come from clusters above the least size; an empty cluster's centroid moves onto the sample.
    `state.sizes` and `state.own_distances` must be those of the centroids.
    """
    n_samples, n_features = data.X.shape
    for k in range(data.n_clusters):
        while state.sizes[k] < data.min_size and state.stop[0] == 0:
            farthest = -1
            for i in range(n_samples):
                if state.sizes[state.labels[i]] > data.min_size and (
                    farthest < 0 or state.own_distances[i] > state.own_distances[farthest]
                ):
                    farthest = i
            if state.sizes[k] == 0:
                for d in range(n_features):
                    centroids[d, k] = data.X[farthest, d]
            state.sizes[state.labels[farthest]] -= 1
            state.sizes[k] += 1
            state.labels[farthest] = k
            state.own_distances[farthest] = squared_distance(data.X[farthest], centroids, k)


@jit_inner
def improve(search: Search, rng: Generator, count: int) -> float:
    """Search locally, move components as long as that gains, and return the objective in nats.

    Moves of components cost time, so they are tried only for new solutions that would survive.
    """
    data, state, population = search.data, search.state, search.population
    objective = local.local_search(data, state, rng)
    if not search.is_component_relocation:
        return objective
    # The objective to beat is the lowest among survivors; the first generation survives as a whole.
    worst = -np.inf
    if count >= search.survivors:
        worst = population.objectives[population.ranking[search.survivors - 1]]
    for _ in range(local.MAX_RELOCATION_PASSES):
        if objective <= worst or not is_new(population, count, objective):
            return objective
        if local.relocate_components(data, state, rng, search.component) == 0:
            return objective
        objective = local.local_search(data, state, rng)
    state.counters[CAPS] += 1
    return objective


@jit_part
def is_new(population: Population, count: int, objective: float) -> bool:
    """Return whether none of the first `count` solutions has this objective."""
    for rank in range(count):
        if abs(population.objectives[population.ranking[rank]] - objective) <= CLONE:
            return False
    return True


@jit_inner
def store(data: Data, population: Population, rank: int, state: State, objective: float) -> None:
    """Store the partition in `state`, whose statistics stem from members, at `rank`."""
    place = population.ranking[rank]
    local.copy_labels(state.labels, population.labels[place])
    set_means(data.X, state, population.centroids[place])
    population.objectives[place] = objective
    sizes = population.sizes[place]
    for k in range(data.n_clusters):
        hole = k
        while hole > 0 and sizes[hole - 1] > state.sizes[k]:
            sizes[hole] = sizes[hole - 1]
            hole -= 1
        sizes[hole] = state.sizes[k]


# The ranking of a generation.


@jit_inner
def select(population: Population, count: int) -> None:
    """Rank the first `count` solutions by objective, clones of a better one last; the older first on ties."""
    ranking, objectives = population.ranking, population.objectives
    # A solution goes up past those that are worse: on ties the older one stays first.
    for rank in range(1, count):
        higher = rank
        while higher > 0 and objectives[ranking[higher - 1]] < objectives[ranking[rank]]:
            higher -= 1
        move_up(ranking, rank, higher)
    # Then it goes past the clones so far, unless it is one itself.
    n_distinct = int(np.int64(0))  # no literal, as in `run_search`
    for rank in range(count):
        place = 0
        while place < n_distinct and not is_clone(population, ranking[place], ranking[rank]):
            place += 1
        if place == n_distinct:
            move_up(ranking, rank, n_distinct)
            n_distinct += 1


@jit_part
def move_up(ranking: NDArray[np.int64], rank: int, higher: int) -> None:
    """Move the solution at `rank` up to a higher rank; those on the way go down by one."""
    place = ranking[rank]
    for lower in range(rank, higher, -1):
        ranking[lower] = ranking[lower - 1]
    ranking[higher] = place


@jit_part
def is_clone(population: Population, first: int, second: int) -> bool:
    """Return whether the solutions at two places have the same objective and the same sizes."""
    if abs(population.objectives[first] - population.objectives[second]) > CLONE:
        return False
    for k in range(population.sizes.shape[1]):
        if population.sizes[first, k] != population.sizes[second, k]:
            return False
    return True
