"""Operators that make new partitions: seeding, k-means, crossover, mutation, repair.

Equations (16) and (17) of docs/model.md.

Centroids have shape (n_features, n_clusters) here, as in `State.means`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kernels.jit import jit_inner, jit_part
from kernels.partition.gains import squared_distances
from kernels.partition.state import CAPS, State
from kernels.problem.data import Data, Floats
from kernels.rng import draw_below
from kernels.search.matching import Matching, match

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
