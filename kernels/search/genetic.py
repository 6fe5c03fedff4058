"""Hybrid genetic search: one restart (docs/model.md, section 3).

`run_restart` is the way in. `_search` is the loop, which knows roles alone: a solution is begun, or bred from
two parents, repaired, improved and stored; a generation is ranked, until too many of them gained nothing. The
roles stand below it, in that order.
"""

import functools
import math
from typing import Annotated, NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from sweep_clustering.kernels.jit import by_pointer, jit, jit_inner, jit_part
from sweep_clustering.kernels.partition import state as places
from sweep_clustering.kernels.partition.gains import squared_distances
from sweep_clustering.kernels.partition.objective import objective_terms
from sweep_clustering.kernels.partition.state import CAPS, State, allocate, new_state, sizes_of
from sweep_clustering.kernels.partition.statistics import set_means
from sweep_clustering.kernels.problem.data import COMMON, Data, Floats, check_labels
from sweep_clustering.kernels.problem.problem import CANNOT, MUST, Layer, Problem, build_problem
from sweep_clustering.kernels.problem.shapes import Prior, shaped_covariances
from sweep_clustering.kernels.search import local_search as local
from sweep_clustering.kernels.search.local_search import draw_below
from sweep_clustering.kernels.search.sampling import Matching, match, new_matching
from sweep_clustering.kernels.settings import SearchSettings

__all__ = ["Restart", "SearchSettings", "run_restart", "warm_up"]

Labels = NDArray[np.int16]

# Two solutions whose objectives differ by no more, in nats, and whose sorted sizes agree are clones.
CLONE = 1e-7

MAX_KMEANS_ITERATIONS = 200


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
    local_searches, evaluations, caps_reached : int
        Local searches made, candidate relocations tried in both phases, and how often a limit on rounds,
        passes or k-means iterations ended a loop.
    """

    labels: Labels
    objective: float
    gmm: float
    sbm: float
    prior: float
    sizes: NDArray[np.int64]
    centroids: Floats
    covariances: Floats
    local_searches: int
    evaluations: int
    caps_reached: int


def run_restart(
    problem: Problem, settings: SearchSettings, rng: Generator, start: Labels | None = None
) -> Restart:
    """Run the hybrid genetic search once (docs/model.md, section 3).

    Parameters
    ----------
    problem : Problem
        Data, annotations and model.
    settings : SearchSettings
        Size and method, checked where they were given. The sizes may be smaller than a user can ask for: a
        population of 1 without offspring is one local search.
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
        If the start is no partition of the samples into the clusters.
    """
    first = np.empty(0, np.int16)
    if start is not None:
        check_labels(start, problem.n_samples, problem.n_clusters, "start")
        first = np.ascontiguousarray(start, dtype=np.int16)
    warm_up()
    labels, counters = _best(problem, settings, rng, first)
    data = problem.data
    sizes = np.bincount(labels, minlength=data.n_clusters)
    centroids = np.zeros((data.n_clusters, data.X.shape[1]))
    np.add.at(centroids, labels, data.X)
    centroids /= sizes[:, None]
    prior = Prior(data.ridge, data.freedom, data.kappa, data.total_variance)
    shape = (problem.covariance, problem.kept, prior)
    covariances = shaped_covariances(data.X, labels, sizes, centroids, *shape)
    terms = objective_terms(problem, labels)
    clusters = (sizes, centroids + problem.means, covariances)
    work = (places.LOCAL_SEARCHES, places.EVALUATIONS, CAPS)
    return Restart(labels, sum(terms), *terms, *clusters, *(int(counters[each]) for each in work))


def _best(
    problem: Problem, settings: SearchSettings, rng: Generator, start: Labels
) -> tuple[Labels, NDArray[np.int64]]:
    """Labels of the best solution found, and the counters."""
    data = problem.data
    if settings.relocation != "annotated":
        every = np.arange(problem.n_samples, dtype=np.int32)
        data = data._replace(annotated=every, unannotated=every[:0])
    is_bounded = (data.kappa if data.shape <= COMMON else data.ridge) > 0.0
    if is_bounded:
        # Under a variance prior the solution does not depend on the units of X, but the last bits of the
        # objective do, and they would decide between two solutions that are equally good. So in units near
        # the standard deviation, a power of two: that rounds nothing.
        unit = 2.0 ** (math.frexp(data.total_variance)[1] // 2)
        X = data.X / unit
        Z = X if data.shape <= COMMON else data.Z
        data = data._replace(X=X, Z=Z, total_variance=data.total_variance / unit**2, unit_term=0.0)
    state = new_state(data)
    population = new_population(data, settings.population + settings.offspring)
    matching, component = new_matching(data.n_clusters, state.stop), local.new_component(data, state)
    length = (settings.population, settings.offspring, settings.generations, settings.patience)
    ways = (settings.crossover == "labels", float(settings.mutation), settings.relocation == "components")
    search = Search(data, state, population, matching, component, state.stop, *length, *ways)
    labels = population.labels[_search(search, rng, start)].copy()
    if is_bounded:
        # Numbered by their first samples: one order, and so one objective, in all units.
        _, firsts, inverse = np.unique(labels, return_index=True, return_inverse=True)
        labels = np.argsort(np.argsort(firsts))[inverse].astype(np.int16)
    return labels, state.counters


@functools.cache
def warm_up() -> None:
    """Compile, or load from the cache, all that a restart needs."""
    # One model is enough: the types of Data, and so the machine code, are the same for all.
    X = np.arange(12.0).reshape(6, 2)
    layers = [Layer(MUST, np.array([[0, 1]]), None, 0.9), Layer(CANNOT, np.array([[0, 5]]), None, 0.9)]
    problem = build_problem(X, layers, n_clusters=2, model="posterior")
    labels, _ = _best(problem, SearchSettings(2, 1, 1), np.random.default_rng(0), np.empty(0, np.int16))
    objective_terms(problem, labels)


@by_pointer
class Population(NamedTuple):
    """Solutions by place; `ranking` lists the places in use, best first after `select`.

    Centroids have shape (n_features, n_clusters), as in `State.means`.
    """

    labels: Annotated[Labels, "capacity samples"]
    centroids: Annotated[Floats, "capacity features clusters"]
    objectives: Annotated[Floats, "capacity"]
    sizes: Annotated[NDArray[np.int64], "capacity clusters"]  # sorted
    ranking: NDArray[np.int64]  # (capacity,)
    child: Annotated[Floats, "features clusters"]  # centroids of the next solution


def new_population(data: Data, capacity: int) -> Population:
    """Memory for `capacity` solutions."""
    ranking = np.arange(capacity, dtype=np.int64)
    return allocate(Population, sizes_of(data) | {"capacity": capacity}, ranking=ranking)


@by_pointer
class Search(NamedTuple):
    """All that a restart works on, and what the compiled search sees of the settings."""

    data: Data
    state: State
    population: Population
    matching: Matching
    component: local.Component
    stop: NDArray[np.int64]  # of the state: the flag that ends it, see `kernels.interrupt`
    survivors: int
    offspring: int
    generations: int
    patience: int
    by_labels: bool
    mutation: float
    by_components: bool


@jit
def _search(search: Search, rng: Generator, start: Labels) -> int:
    """Place of the best solution found; the first one comes from `start`, unless that is empty."""
    data, state, population = search.data, search.state, search.population
    survivors = int(np.int64(0))  # no literal: what takes ranks would be compiled for that too
    best, idle = -np.inf, 0  # the best objective of a generation, and generations since it rose
    for generation in range(search.generations + 1):
        born = search.offspring if generation > 0 else search.survivors
        for rank in range(survivors, survivors + born):
            if state.stop[0] != 0:
                return 0
            if generation > 0:
                breed(search, rng, rank)
            else:
                begin(search, rng, rank, start)
            repair(data, state, population.child)
            objective = improve(search, rng, rank)
            store(data, population, rank, state, objective)
        select(population, survivors + born)
        leading = population.objectives[population.ranking[0]]
        idle = 0 if leading > best + CLONE else idle + 1
        best = max(best, leading)
        if idle == search.patience and idle > 0:
            break
        survivors = search.survivors
    return int(population.ranking[0])


# Begun: by k-means++ and k-means (eq. (16) of docs/model.md), or from a partition that is given.


@jit_part
def begin(search: Search, rng: Generator, rank: int, start: Labels) -> None:
    """Set labels and the child's centroids, with `state.sizes` and `state.own` as `assign_closest` does."""
    data, state, centroids = search.data, search.state, search.population.child
    if rank > 0 or len(start) == 0:
        seed_centroids(data, state, rng, centroids, 1)
        kmeans(data, state, centroids)
        return
    state.sizes[:] = 0
    for i in range(len(start)):
        state.labels[i] = start[i]
        state.sizes[start[i]] += 1
    set_means(data.X, state, centroids)
    for i in range(len(start)):
        squared_distances(data.X[i], centroids, state.distances)
        state.own[i] = state.distances[start[i]]


@jit_inner
def seed_centroids(data: Data, state: State, rng: Generator, centroids: Floats, trials: int) -> None:
    """k-means++: each new centroid is a sample, drawn by its squared distance to the closest one so far.

    Of several draws the one is taken that leaves the least sum of these distances.
    """
    n_samples, n_features = data.X.shape
    weights = state.own
    weights[:] = np.inf
    best = draw_below(rng, n_samples)
    for k in range(data.n_clusters):
        if state.stop[0] != 0:
            break
        total, least = 0.0, np.inf
        for weight in weights:
            total += weight
        chosen = best
        for _ in range(trials if k > 0 else 0):
            threshold = rng.random() * total
            reached, left = 0.0, 0.0
            for i in range(n_samples):
                # Rounding may leave the sum at the threshold: then the last sample with a weight.
                if weights[i] > 0.0 and reached <= threshold:
                    chosen = i
                    reached += weights[i]
            if trials > 1:
                left = less_by(data.X, chosen, weights, False)
            if left < least:
                best, least = chosen, left
        for d in range(n_features):
            centroids[d, k] = data.X[best, d]
        less_by(data.X, best, weights, True)


@jit_part
def less_by(X: Floats, center: int, weights: Floats, is_kept: bool) -> float:
    """Sum of the weights, none above the squared distance of its sample to another one; they may be kept.

    Four samples at a time: each sum waits for the one before it. The bits are those of `squared_distance`.
    """
    n_samples, n_features = X.shape
    total = 0.0
    for i in range(0, n_samples, 4):
        # the last samples again, where fewer than four are left
        i1, i2, i3 = min(i + 1, n_samples - 1), min(i + 2, n_samples - 1), min(i + 3, n_samples - 1)
        s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
        for d in range(n_features):
            c = X[center, d]
            d0, d1, d2, d3 = X[i, d] - c, X[i1, d] - c, X[i2, d] - c, X[i3, d] - c
            s0, s1, s2, s3 = s0 + d0 * d0, s1 + d1 * d1, s2 + d2 * d2, s3 + d3 * d3
        for j, s in ((i, s0), (i + 1, s1), (i + 2, s2), (i + 3, s3)):
            if j < n_samples:
                less = min(weights[j], s)
                total += less
                if is_kept:
                    weights[j] = less
    return total


@jit_part
def squared_distance(x: Floats, centroids: Floats, k: int) -> float:
    """Squared distance of one sample to one centroid."""
    total = 0.0
    for d in range(len(x)):
        difference = x[d] - centroids[d, k]
        total += difference * difference
    return total


@jit_inner
def kmeans(data: Data, state: State, centroids: Floats) -> None:
    """Lloyd's iterations from `centroids` until no label changes; an empty cluster keeps its centroid."""
    state.labels[:] = -1
    for _ in range(MAX_KMEANS_ITERATIONS):
        if assign_closest(data, state, centroids) == 0 or state.stop[0] != 0:
            return
        set_means(data.X, state, centroids)
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


# Bred: from two parents (eq. (17) of docs/model.md).


@jit_part
def breed(search: Search, rng: Generator, count: int) -> None:
    """Set the child's centroids, and labels, from two distinct solutions of the first `count`."""
    data, state, population = search.data, search.state, search.population
    first = draw_below(rng, count)
    second = draw_below(rng, count - 1)
    if second >= first:  # uniform over the others
        second += 1
    mother = population.ranking[first]
    father = population.ranking[second]
    child = population.child
    cross(rng, population.centroids[mother], population.centroids[father], child, search.matching)
    mutated = search.mutation >= 1.0 or rng.random() < search.mutation
    if mutated:
        # One centroid, drawn uniformly, goes to a sample drawn uniformly.
        dropped = draw_below(rng, data.n_clusters)
        sample = draw_below(rng, data.X.shape[0])
        for d in range(data.X.shape[1]):
            child[d, dropped] = data.X[sample, d]
    if mutated or not search.by_labels:
        state.labels[:] = -1
        assign_closest(data, state, child)
    else:
        blend(search, rng, population.labels[mother], population.labels[father])


@jit_inner
def cross(rng: Generator, first: Floats, second: Floats, child: Floats, matching: Matching) -> None:
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
def blend(search: Search, rng: Generator, first: Labels, second: Labels) -> None:
    """Label every sample as either parent does, with probability one half where they disagree.

    Clusters of the second parent go by the numbers they are matched to. Sets `state.sizes` and `state.own` as
    `assign_closest` does.
    """
    data, state = search.data, search.state
    state.sizes[:] = 0
    for i in range(len(first)):
        label = int(first[i])
        other = int(search.matching.row_of[second[i]])
        if label != other and rng.random() < 0.5:
            label = other
        state.labels[i] = label
        state.sizes[label] += 1
        state.own[i] = squared_distance(data.X[i], search.population.child, label)


# Repaired, improved and stored.


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
            if state.sizes[k] == 0:
                for d in range(n_features):
                    centroids[d, k] = data.X[farthest, d]
            state.sizes[state.labels[farthest]] -= 1
            state.sizes[k] += 1
            state.labels[farthest] = k
            state.own[farthest] = squared_distance(data.X[farthest], centroids, k)


@jit_inner
def improve(search: Search, rng: Generator, count: int) -> float:
    """Search locally, and move components as long as that gains; the objective, nats.

    Moves of components cost time: they are tried for solutions that would survive, and are new.
    """
    data, state, population = search.data, search.state, search.population
    objective = local.local_search(data, state, rng)
    if not search.by_components:
        return objective
    # Of those that survived the last generation; the first generation survives as a whole.
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
    """Whether none of the first `count` solutions has this objective."""
    for rank in range(count):
        if abs(population.objectives[population.ranking[rank]] - objective) <= CLONE:
            return False
    return True


@jit_inner
def store(data: Data, population: Population, rank: int, state: State, objective: float) -> None:
    """Keep the partition in `state`, whose statistics stem from members, at `rank`."""
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


# Ranked.


@jit_inner
def select(population: Population, count: int) -> None:
    """Rank the first `count` solutions by objective, clones of a better one last; the older first on ties."""
    ranking, objectives = population.ranking, population.objectives
    # Each goes up past those that are worse: on ties the older solution stays first.
    for rank in range(1, count):
        higher = rank
        while higher > 0 and objectives[ranking[higher - 1]] < objectives[ranking[rank]]:
            higher -= 1
        move_up(ranking, rank, higher)
    # Then past the clones so far, unless it is one.
    n_singles = int(np.int64(0))  # no literal, as in `_search`
    for rank in range(count):
        other = 0
        while other < n_singles and not are_clones(population, ranking[other], ranking[rank]):
            other += 1
        if other == n_singles:
            move_up(ranking, rank, n_singles)
            n_singles += 1


@jit_part
def move_up(ranking: NDArray[np.int64], rank: int, higher: int) -> None:
    """Put what is at `rank` to a higher one; those on the way go down by one."""
    place = ranking[rank]
    for each in range(rank, higher, -1):
        ranking[each] = ranking[each - 1]
    ranking[higher] = place


@jit_part
def are_clones(population: Population, first: int, second: int) -> bool:
    """Whether two places hold the same solution, as far as objective and sizes tell."""
    if abs(population.objectives[first] - population.objectives[second]) > CLONE:
        return False
    for k in range(population.sizes.shape[1]):
        if population.sizes[first, k] != population.sizes[second, k]:
            return False
    return True
