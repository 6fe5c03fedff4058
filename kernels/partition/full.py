"""Shapes "full" and "tied": a covariance matrix for each cluster, or one for all (docs/model.md, section 7).

`State.scatter` holds A = S + ridge I and `State.inverse` its inverse, renewed from members at each pass and
updated by rank one in between: A' = A -+ c v v', and the log-determinant changes by log(1 -+ c v' A^-1 v).

`State.drift` bounds the error of both as any vector sees it: |v' (A^-1 - found) v| <= drift v' A^-1 v. A sum
of n products is off by about sqrt(n) roundings, each of them relative to the diagonal of A, and
sum_i A_ii (A^-1)_ii says how much less A is in some direction. A removal that leaves the share r of a
direction divides the drift by r. A gain that all this could move across the threshold is computed from
members.
"""

from __future__ import annotations

import math
from typing import cast

import numpy as np

from kernels.jit import jit_inner, jit_part
from kernels.partition.state import State
from kernels.partition.statistics import (
    EPSILON,
    add_outer,
    factorise,
    invert,
    multiply,
    quadratic_form,
    set_multiple_of_identity,
    shaped_term,
    solved_square,
)
from kernels.problem.data import FULL, TIED, Data, Floats

LARGEST_DRIFT = 1e-9
"""Beyond it scatter and inverse are renewed from members at once."""

ONLY, NOBODY = cast(int, np.int64(0)), cast(int, np.int64(-1))
"""Place of the one matrix of "tied", and no sample: of the type that other places and samples have."""

LEAST_SHARE = 1e-12
"""Of a determinant that a removal leaves: below it all digits may be lost."""


@jit_inner
def collect_scatter(data: Data, state: State) -> None:
    """Set scatter, inverse, log-determinants and drift, from members."""
    for place in range(len(state.scatter)):
        if state.stop[0] != 0:
            return
        renew(data, state, place)
    if data.shape == TIED:
        set_products(data, state)


@jit_inner
def renew(data: Data, state: State, place: int) -> None:
    """Set one scatter matrix, about the means as they are, and what follows from it."""
    n_dims = data.Z.shape[1]
    scatter = state.scatter[place]
    size = add_members(data, state, place, NOBODY)
    for i in range(n_dims):
        for j in range(i + 1):
            scatter[i, j] = state.matrix[i, j]
            scatter[j, i] = state.matrix[i, j]
    state.logdets[place] = factorise(state.matrix)
    invert(state.matrix, state.inverse[place])
    state.drift[place] = (math.sqrt(size) + n_dims) * grain(data, state, place)


@jit_inner
def grain(data: Data, state: State, place: int) -> float:
    """Drift that one update brings."""
    n_dims = data.Z.shape[1]
    steepness = 0.0
    for i in range(n_dims):
        steepness += state.scatter[place, i, i] * state.inverse[place, i, i]
    return float(4.0 * EPSILON * (n_dims * steepness + data.reach))


@jit_inner
def add_members(data: Data, state: State, place: int, without: int) -> int:
    """Set the lower triangle of the scratch matrix to the scatter of all members but one; their number."""
    n_samples, n_dims = data.Z.shape
    matrix = state.matrix
    vector = state.vectors[data.n_clusters]
    set_multiple_of_identity(matrix, data.ridge)
    size = 0
    for i in range(n_samples):
        if state.stop[0] != 0:
            break
        label = state.labels[i]
        if (data.shape == TIED or label == place) and i != without:
            size += 1
            for d in range(n_dims):
                vector[d] = data.Z[i, d] - state.means[d, label]
            for d in range(n_dims):
                step = vector[d]
                row = matrix[d]
                for e in range(d + 1):
                    row[e] += step * vector[e]
    return size


@jit_inner
def set_products(data: Data, state: State) -> None:
    """Set the inverse times each mean, for the shape "tied"."""
    n_dims = data.Z.shape[1]
    vector = state.vectors[data.n_clusters]
    for k in range(data.n_clusters):
        for d in range(n_dims):
            vector[d] = state.means[d, k]
        multiply(state.inverse[0], vector, state.vectors[k])


@jit_inner
def set_full_distances(data: Data, state: State, sample: int) -> None:
    """Set the squared distances of a sample to all means, each by the inverse of its cluster."""
    n_dims = data.Z.shape[1]
    vector = state.vectors[data.n_clusters]
    z = data.Z[sample]
    for k in range(data.n_clusters):
        for d in range(n_dims):
            vector[d] = z[d] - state.means[d, k]
        state.distances[k] = quadratic_form(state.inverse[k], vector)


@jit_inner
def set_tied_distances(data: Data, state: State, sample: int) -> None:
    """As `set_full_distances`, by the one inverse; its product with the sample stays in the last vector.

    Differences are taken before products: a difference of squares would lose digits.
    """
    n_dims = data.Z.shape[1]
    z = data.Z[sample]
    product = state.vectors[data.n_clusters + 1]
    multiply(state.inverse[0], z, product)
    for k in range(data.n_clusters):
        total = 0.0
        for d in range(n_dims):
            total += (product[d] - state.vectors[k, d]) * (z[d] - state.means[d, k])
        state.distances[k] = total


@jit_inner
def set_full_gains(data: Data, state: State, sample: int, source: int) -> float:
    """Set the gains to their part in gmm; a bound on the error of what leaving the source gains, nats."""
    size = state.sizes[source]
    least = 1.0
    if size > 2:
        least = 1.0 - size / (size - 1.0) * state.distances[source]
        if least < LEAST_SHARE:
            least = LEAST_SHARE
        logdet = state.logdets[source] + math.log(least)
    else:
        logdet = data.Z.shape[1] * math.log(data.ridge)
    removal = shaped_term(data, size - 1, logdet) - state.terms[source]
    for target in range(data.n_clusters):
        rise = math.log(1.0 + state.join[0, target] * state.distances[target])
        state.gains[target] = removal + (state.join[1, target] * rise + state.join[2, target])
    return float(state.doubt[source] / least)


@jit_inner
def set_tied_gains(data: Data, state: State, sample: int, source: int) -> float:
    """As `set_full_gains`, for one matrix."""
    size = state.sizes[source]
    half = -0.5 * data.feature_weight * (data.Z.shape[0] + data.freedom)
    share = size / (size - 1.0) if size > 1 else 0.0
    left = 1.0 - share * state.distances[source]
    product = state.vectors[data.n_clusters + 1]
    least = 1.0
    for target in range(data.n_clusters):
        joining = state.join[0, target]
        cross = 0.0  # a' A^-1 b of the differences to the two means
        for d in range(data.Z.shape[1]):
            cross += (product[d] - state.vectors[source, d]) * (data.Z[sample, d] - state.means[d, target])
        ratio = left * (1.0 + joining * state.distances[target]) + share * joining * cross * cross
        ratio = max(ratio, LEAST_SHARE)
        least = min(least, ratio)
        state.gains[target] = half * math.log(ratio)
    return float(state.doubt[source] / min(least, max(left, LEAST_SHARE)))


@jit_inner
def exact_full_gain(data: Data, state: State, sample: int, source: int, target: int) -> float:
    """Change of gmm, from members: of two scatters, or of that of all but the sample, which joins either."""
    size = state.sizes[target]
    if data.shape == TIED:
        _, before = factorise_without(data, state, sample, source, ONLY)
        vector = state.vectors[data.n_clusters]
        for d in range(data.Z.shape[1]):
            vector[d] = data.Z[sample, d] - state.means[d, target]
        after = math.log1p(size / (size + 1.0) * solved_square(state.matrix, vector))
        return float(0.5 * data.feature_weight * (data.Z.shape[0] + data.freedom) * (before - after))
    n_source = state.sizes[source]
    logdet, rise = factorise_without(data, state, sample, source, source)
    gain = shaped_term(data, n_source - 1, logdet) - shaped_term(data, n_source, logdet + rise)
    logdet, rise = factorise_without(data, state, sample, target, target)
    return gain + shaped_term(data, size + 1, logdet + rise) - shaped_term(data, size, logdet)


@jit_inner
def factorise_without(data: Data, state: State, sample: int, cluster: int, place: int) -> tuple[float, float]:
    """Set the scratch matrix to a factor of the scatter at `place` without the sample.

    Its log-determinant, and by how much that rises as the sample joins the others of its cluster.
    """
    mean = state.vectors[data.n_clusters + 1]
    size = set_mean_without(data, state, sample, cluster)
    swap_mean(state, mean, cluster)
    add_members(data, state, place, int(np.int64(sample)))
    swap_mean(state, mean, cluster)
    logdet = factorise(state.matrix)
    vector = state.vectors[data.n_clusters]
    for d in range(data.Z.shape[1]):
        vector[d] = data.Z[sample, d] - mean[d]
    rise = math.log1p(size / (size + 1.0) * solved_square(state.matrix, vector))
    return logdet, rise


@jit_inner
def set_mean_without(data: Data, state: State, sample: int, cluster: int) -> int:
    """Set the last vector to the mean of all members of a cluster but the sample; their number."""
    n_samples, n_dims = data.Z.shape
    mean = state.vectors[data.n_clusters + 1]
    mean[:] = 0.0
    size = 0
    for i in range(n_samples):
        if state.labels[i] == cluster and i != sample:
            size += 1
            for d in range(n_dims):
                mean[d] += data.Z[i, d]
    for d in range(n_dims):
        mean[d] /= max(size, 1)
    return size


@jit_part
def swap_mean(state: State, mean: Floats, cluster: int) -> None:
    """Exchange the mean of a cluster with a vector."""
    for d in range(len(mean)):
        kept = state.means[d, cluster]
        state.means[d, cluster] = mean[d]
        mean[d] = kept


@jit_inner
def relocate_scatter(data: Data, state: State, sample: int, source: int, target: int) -> None:
    """Move the sample, in scatter and inverse alone: means and sizes are still those before."""
    size = state.sizes[source]
    if data.shape == FULL and size <= 2:
        set_multiple_of_identity(state.scatter[source], data.ridge)
        set_multiple_of_identity(state.inverse[source], 1.0 / data.ridge)
        state.logdets[source] = data.Z.shape[1] * math.log(data.ridge)
        state.drift[source] = grain(data, state, source)
    elif size > 1:
        update(data, state, sample, source, -size / (size - 1.0))
    size = state.sizes[target]
    update(data, state, sample, target, size / (size + 1.0))


@jit_inner
def update(data: Data, state: State, sample: int, cluster: int, scale: float) -> None:
    """Add c v v' to a scatter matrix, v the difference to the mean of a cluster."""
    n_dims = data.Z.shape[1]
    place = 0 if data.shape == TIED else cluster
    vector = state.vectors[data.n_clusters]
    product = state.vectors[data.n_clusters + 1]
    for d in range(n_dims):
        vector[d] = data.Z[sample, d] - state.means[d, cluster]
    multiply(state.inverse[place], vector, product)
    square = 0.0
    for d in range(n_dims):
        square += vector[d] * product[d]
    ratio = 1.0 + scale * square
    add_outer(state.scatter[place], vector, scale)
    if ratio < LEAST_SHARE:
        state.drift[place] = np.inf
        return
    add_outer(state.inverse[place], product, -scale / ratio)
    state.logdets[place] += math.log(ratio)
    state.drift[place] = (state.drift[place] + grain(data, state, place)) / min(ratio, 1.0)


@jit_inner
def settle_scatter(data: Data, state: State, source: int, target: int) -> None:
    """Renew what has drifted too far; means and sizes are those after a relocation."""
    if data.shape == TIED:
        settle(data, state, ONLY)
        set_products(data, state)
    else:
        settle(data, state, source)
        settle(data, state, target)


@jit_inner
def settle(data: Data, state: State, place: int) -> None:
    """Renew one scatter matrix if it has drifted too far."""
    if state.drift[place] > LARGEST_DRIFT:
        renew(data, state, place)
