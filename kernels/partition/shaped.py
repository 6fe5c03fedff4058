"""Shapes of covariance with a prior: "diagonal", "tied" and "full" (docs/model.md, section 7).

"diagonal" has a variance for each cluster and feature. A candidate costs one logarithm: a sample that joins a
cluster changes its log-determinant by the logarithm of a product over features of 1 + n / (n + 1) d² / (s +
ridge), with factors in `State.ratios`.

"full" and "tied" have a covariance matrix for each cluster, or one for all. `State.scatter` holds A = S +
ridge I and `State.inverse` its inverse, computed from members at each pass and updated by rank one in
between: A' = A -+ c v v', and the log-determinant changes by log(1 -+ c v' A^-1 v).

`State.drift` bounds the error of an inverse B for any vector: |v' (A^-1 - B) v| <= drift v' A^-1 v. A sum
of n products is off by about sqrt(n) roundings, each of them relative to the diagonal of A, and
sum_i A_ii (A^-1)_ii says how much less A is in some direction. A removal that leaves the share r of a
direction divides the drift by r. A gain that the drift could move across the threshold is computed from
members.
"""

import math
from typing import cast

import numpy as np

from sweep_clustering.kernels.jit import jit_inner, jit_part
from sweep_clustering.kernels.partition.statistics import (
    CANCELLATION,
    EPSILON,
    FACTOR,
    HALF,
    OFFSET,
    State,
    add_feature_error,
    shaped_term,
)
from sweep_clustering.kernels.problem.data import FULL, TIED, Data, Floats

# Place of the one matrix of "tied", or of a single column. It has the type of other places: for a literal
# a function would be compiled once more.
FIRST_PLACE = cast(int, np.int64(0))

# Stands for no sample, with the type of a sample.
NOBODY = cast(int, np.int64(-1))

# Largest product whose logarithm is postponed: it stays finite with up to eight more factors.
LARGE = 1e150

# Scatter and inverse that have drifted further are computed from members at once.
LARGEST_DRIFT = 1e-9

# A removal that leaves a smaller share of a determinant may have lost all digits.
LEAST_SHARE = 1e-12

# Shape "diagonal".


@jit_inner
def collect_squares(data: Data, state: State) -> None:
    """Set the squares about the means, from members."""
    n_samples, n_dims = data.Z.shape
    state.squares[:] = data.ridge
    for i in range(n_samples):
        label = state.labels[i]
        for d in range(n_dims):
            difference = data.Z[i, d] - state.means[d, label]
            state.squares[d, label] += difference * difference
    for k in range(data.n_clusters):
        state.drift[k] = EPSILON * (math.sqrt(state.sizes[k]) + 4.0) * (1.0 + data.reach)
        set_cluster(data, state, k)


@jit_inner
def set_cluster(data: Data, state: State, k: int) -> None:
    """Set the log-determinant of a cluster, infinite if it is degenerate, and its ratios."""
    size = state.sizes[k]
    state.logdets[k] = logdet_of(data, state.squares, size, k)
    for d in range(len(state.squares)):
        state.ratios[d, k] = size / ((size + 1.0) * state.squares[d, k]) if size > 0 else 0.0


@jit_inner
def logdet_of(data: Data, squares: Floats, size: int, column: int) -> float:
    """Return the sum of logarithms in one column; infinite for a degenerate cluster without a prior."""
    total = 0.0
    for d in range(len(squares)):
        # The squares of one sample, or none, are 0.
        if data.ridge == 0.0 and squares[d, column] <= data.floors[d] * size:
            return np.inf
        total += math.log(squares[d, column])
    return total


@jit_inner
def set_diagonal_gains(data: Data, state: State, sample: int, source: int) -> float:
    """Set the gains to the change of gmm; return a bound on the error of leaving the source, in nats."""
    if data.ridge == 0.0:
        # Without a prior clusters may be degenerate, so every gain is computed by definition.
        for target in range(data.n_clusters):
            if target != source:
                state.gains[target] = exact_diagonal_gain(data, state, sample, source, target)
        return 0.0
    n_dims = len(state.squares)
    size = state.sizes[source]
    logdet = n_dims * math.log(data.ridge)
    min_factor = 1.0
    if size > 2:
        ratio = (size + 1.0) / (size - 1.0)
        shrink = 0.0
        product = 1.0
        for d in range(n_dims):
            difference = data.Z[sample, d] - state.means[d, source]
            factor = 1.0 - difference * difference * state.ratios[d, source] * ratio
            min_factor = min(min_factor, factor)
            product *= factor
            if product < 1.0 / LARGE:
                shrink += math.log(product)
                product = 1.0
        if min_factor < CANCELLATION:
            logdet = logdet_after_removal(data, state, sample, source)
            min_factor = 1.0
        else:
            logdet = state.logdets[source] + (shrink + math.log(product))
    removal = shaped_term(data, size - 1, logdet) - state.terms[source]
    set_joins(data.Z[sample], state)
    for target in range(data.n_clusters):
        rise = state.gains[target] + math.log(state.distances[target])
        state.gains[target] = removal + (state.join[HALF, target] * rise + state.join[OFFSET, target])
    return float(state.doubt[source] / min_factor)


@jit_inner
def set_joins(z: Floats, state: State) -> None:
    """Set gains and distances: the log-determinant rises by the first plus the logarithm of the second."""
    means, ratios = state.means, state.ratios
    products, logs = state.distances, state.gains
    n_dims, n_clusters = ratios.shape
    products[:] = 1.0
    logs[:] = 0.0
    for block in range(n_dims // 4):
        d = 4 * block
        for k in range(n_clusters):
            first = z[d] - means[d, k]
            second = z[d + 1] - means[d + 1, k]
            third = z[d + 2] - means[d + 2, k]
            fourth = z[d + 3] - means[d + 3, k]
            front = (1.0 + first * first * ratios[d, k]) * (1.0 + second * second * ratios[d + 1, k])
            back = (1.0 + third * third * ratios[d + 2, k]) * (1.0 + fourth * fourth * ratios[d + 3, k])
            products[k] *= front * back
        if block % 2 == 1:
            for k in range(n_clusters):
                if products[k] > LARGE:
                    logs[k] += math.log(products[k])
                    products[k] = 1.0
    for d in range(n_dims // 4 * 4, n_dims):
        for k in range(n_clusters):
            difference = z[d] - means[d, k]
            products[k] *= 1.0 + difference * difference * ratios[d, k]


@jit_inner
def logdet_after_removal(data: Data, state: State, sample: int, source: int) -> float:
    """Return the log-determinant of the source without the sample."""
    for d in range(len(state.squares)):
        state.column[d, 0] = square_after_removal(data, state, sample, source, d)
    return logdet_of(data, state.column, state.sizes[source] - 1, FIRST_PLACE)


@jit_inner
def square_after_removal(data: Data, state: State, sample: int, source: int, d: int) -> float:
    """Return the square of one feature of the source without the sample."""
    size = state.sizes[source]
    # At most one sample remains: the square is the ridge, where the subtraction would round.
    if size <= 2:
        return data.ridge
    difference = data.Z[sample, d] - state.means[d, source]
    square = state.squares[d, source] - size / (size - 1.0) * difference * difference
    if square < CANCELLATION * state.squares[d, source]:
        square = add_feature_error(data, state, sample, source, d, data.ridge)
    return float(square)


@jit_inner
def exact_diagonal_gain(data: Data, state: State, sample: int, source: int, target: int) -> float:
    """Return the change of gmm, feature by feature."""
    logdet = logdet_after_removal(data, state, sample, source)
    removal = shaped_term(data, state.sizes[source] - 1, logdet) - state.terms[source]
    size = state.sizes[target]
    share = size / (size + 1.0)
    for d in range(len(state.squares)):
        difference = data.Z[sample, d] - state.means[d, target]
        state.column[d, 0] = state.squares[d, target] + share * difference * difference
    term = shaped_term(data, size + 1, logdet_of(data, state.column, size + 1, FIRST_PLACE))
    return float(removal + (term - state.terms[target]))


@jit_inner
def relocate_squares(data: Data, state: State, sample: int, source: int, target: int) -> None:
    """Move the sample in the squares alone; means and sizes are those before."""
    n_target = state.sizes[target]
    grain = 4.0 * EPSILON * (1.0 + data.reach)
    min_share = 1.0
    for d in range(len(state.squares)):
        square = square_after_removal(data, state, sample, source, d)
        min_share = min(min_share, max(square / state.squares[d, source], CANCELLATION))
        state.squares[d, source] = square
        difference = data.Z[sample, d] - state.means[d, target]
        state.squares[d, target] += n_target / (n_target + 1.0) * difference * difference
    state.drift[source] = (state.drift[source] + grain) / min_share
    state.drift[target] += grain


# Shapes "full" and "tied".


@jit_inner
def collect_scatter(data: Data, state: State) -> None:
    """Set scatter, inverse, log-determinants and drift, from members."""
    for place in range(len(state.scatter)):
        if state.stop[0] != 0:
            return
        collect_matrix(data, state, place)
    if data.shape == TIED:
        set_products(data, state)


@jit_inner
def collect_matrix(data: Data, state: State, place: int) -> None:
    """Set one scatter matrix about the present means, its inverse, log-determinant and drift."""
    n_dims = data.Z.shape[1]
    scatter = state.scatter[place]
    size = add_members(data, state, place, NOBODY)
    for i in range(n_dims):
        for j in range(i + 1):
            scatter[i, j] = state.matrix[i, j]
            scatter[j, i] = state.matrix[i, j]
    state.logdets[place] = factorise(state.matrix)
    invert(state.matrix, state.inverse[place])
    state.drift[place] = (math.sqrt(size) + n_dims) * update_drift(data, state, place)


@jit_inner
def update_drift(data: Data, state: State, place: int) -> float:
    """Return the drift by one update."""
    n_dims = data.Z.shape[1]
    steepness = 0.0
    for i in range(n_dims):
        steepness += state.scatter[place, i, i] * state.inverse[place, i, i]
    return float(4.0 * EPSILON * (n_dims * steepness + data.reach))


@jit_inner
def add_members(data: Data, state: State, place: int, outsider: int) -> int:
    """Set the scratch matrix to the scatter of all members but one, below; return their number."""
    n_samples, n_dims = data.Z.shape
    matrix = state.matrix
    vector = state.vectors[data.n_clusters]
    set_multiple_of_identity(matrix, data.ridge)
    size = 0
    for i in range(n_samples):
        if state.stop[0] != 0:
            break
        label = state.labels[i]
        if (data.shape == TIED or label == place) and i != outsider:
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
    """Set the products of the inverse and the means for "tied"."""
    n_dims = data.Z.shape[1]
    vector = state.vectors[data.n_clusters]
    for k in range(data.n_clusters):
        for d in range(n_dims):
            vector[d] = state.means[d, k]
        multiply(state.inverse[0], vector, state.vectors[k])


@jit_inner
def set_full_distances(data: Data, state: State, sample: int) -> None:
    """Set the squared distances of a sample to all means by the inverses of the clusters."""
    n_dims = data.Z.shape[1]
    vector = state.vectors[data.n_clusters]
    z = data.Z[sample]
    for k in range(data.n_clusters):
        for d in range(n_dims):
            vector[d] = z[d] - state.means[d, k]
        state.distances[k] = quadratic_form(state.inverse[k], vector)


@jit_inner
def set_tied_distances(data: Data, state: State, sample: int) -> None:
    """Set the squared distances by the one inverse; its product with the sample stays in the last vector.

    Differences come before products, as a difference of squares would lose digits.
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
    """Set the gains to the change of gmm; return a bound on the error of leaving the source, in nats."""
    size = state.sizes[source]
    share = 1.0
    logdet = data.Z.shape[1] * math.log(data.ridge)
    if size > 2:
        share = max(1.0 - size / (size - 1.0) * state.distances[source], LEAST_SHARE)
        logdet = state.logdets[source] + math.log(share)
    removal = shaped_term(data, size - 1, logdet) - state.terms[source]
    for target in range(data.n_clusters):
        rise = math.log(1.0 + state.join[FACTOR, target] * state.distances[target])
        state.gains[target] = removal + (state.join[HALF, target] * rise + state.join[OFFSET, target])
    return float(state.doubt[source] / share)


@jit_inner
def set_tied_gains(data: Data, state: State, sample: int, source: int) -> float:
    """Set the gains for one matrix, and return a bound as `set_full_gains` does."""
    size = state.sizes[source]
    half = -0.5 * data.feature_weight * (data.Z.shape[0] + data.freedom)
    share = size / (size - 1.0) if size > 1 else 0.0
    drop = 1.0 - share * state.distances[source]
    product = state.vectors[data.n_clusters + 1]
    min_ratio = 1.0
    for target in range(data.n_clusters):
        factor = state.join[FACTOR, target]
        cross = 0.0  # a' A^-1 b of the differences to the two means
        for d in range(data.Z.shape[1]):
            cross += (product[d] - state.vectors[source, d]) * (data.Z[sample, d] - state.means[d, target])
        ratio = drop * (1.0 + factor * state.distances[target]) + share * factor * cross * cross
        ratio = max(ratio, LEAST_SHARE)
        min_ratio = min(min_ratio, ratio)
        state.gains[target] = half * math.log(ratio)
    return float(state.doubt[source] / min(min_ratio, max(drop, LEAST_SHARE)))


@jit_inner
def exact_full_gain(data: Data, state: State, sample: int, source: int, target: int) -> float:
    """Return the change of gmm from members: of two scatters, or of one that the sample joins in two ways."""
    size = state.sizes[target]
    if data.shape == TIED:
        _, old_rise = factorise_without(data, state, sample, source, FIRST_PLACE)
        vector = state.vectors[data.n_clusters]
        for d in range(data.Z.shape[1]):
            vector[d] = data.Z[sample, d] - state.means[d, target]
        new_rise = math.log1p(size / (size + 1.0) * solved_square(state.matrix, vector))
        return float(0.5 * data.feature_weight * (data.Z.shape[0] + data.freedom) * (old_rise - new_rise))
    n_source = state.sizes[source]
    logdet, rise = factorise_without(data, state, sample, source, source)
    gain = shaped_term(data, n_source - 1, logdet) - shaped_term(data, n_source, logdet + rise)
    logdet, rise = factorise_without(data, state, sample, target, target)
    return gain + shaped_term(data, size + 1, logdet + rise) - shaped_term(data, size, logdet)


@jit_inner
def factorise_without(data: Data, state: State, sample: int, cluster: int, place: int) -> tuple[float, float]:
    """Set the scratch matrix to a Cholesky factor of the scatter at `place` without the sample.

    Returns its log-determinant, and the rise of it as the sample joins the others of its cluster.
    """
    n_samples, n_dims = data.Z.shape
    vector, mean = state.vectors[data.n_clusters], state.vectors[data.n_clusters + 1]
    mean[:] = 0.0
    size = 0
    for i in range(n_samples):
        if state.labels[i] == cluster and i != sample:
            size += 1
            for d in range(n_dims):
                mean[d] += data.Z[i, d]
    for d in range(n_dims):
        old_mean = state.means[d, cluster]
        state.means[d, cluster] = mean[d] / max(size, 1)
        mean[d] = old_mean
    add_members(data, state, place, int(np.int64(sample)))
    logdet = factorise(state.matrix)
    for d in range(n_dims):
        vector[d] = data.Z[sample, d] - state.means[d, cluster]
        state.means[d, cluster] = mean[d]
    return logdet, math.log1p(size / (size + 1.0) * solved_square(state.matrix, vector))


@jit_inner
def relocate_scatter(data: Data, state: State, sample: int, source: int, target: int) -> None:
    """Move the sample in scatter and inverse alone; means and sizes are those before."""
    size = state.sizes[source]
    if data.shape == FULL and size <= 2:
        set_multiple_of_identity(state.scatter[source], data.ridge)
        set_multiple_of_identity(state.inverse[source], 1.0 / data.ridge)
        state.logdets[source] = data.Z.shape[1] * math.log(data.ridge)
        state.drift[source] = update_drift(data, state, source)
    elif size > 1:
        update(data, state, sample, source, -size / (size - 1.0))
    size = state.sizes[target]
    update(data, state, sample, target, size / (size + 1.0))


@jit_inner
def update(data: Data, state: State, sample: int, cluster: int, scale: float) -> None:
    """Add c v v' to a scatter matrix, v the difference from the mean of a cluster to the sample."""
    n_dims = data.Z.shape[1]
    place = FIRST_PLACE if data.shape == TIED else cluster
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
    state.drift[place] = (state.drift[place] + update_drift(data, state, place)) / min(ratio, 1.0)


@jit_inner
def renew_drifted(data: Data, state: State, source: int, target: int) -> None:
    """Compute matrices that have drifted too far from members, after a relocation."""
    for cluster in (source, target):
        place = FIRST_PLACE if data.shape == TIED else cluster
        if state.drift[place] > LARGEST_DRIFT:
            collect_matrix(data, state, place)
    if data.shape == TIED:
        set_products(data, state)


# Linear algebra on small symmetric matrices, in memory of the caller.


@jit_inner
def factorise(matrix: Floats) -> float:
    """Put the Cholesky factor of a matrix into its lower triangle; return the log-determinant.

    It is NaN if rounding leaves no positive number on the diagonal.
    """
    total = 0.0
    for i in range(len(matrix)):
        row = matrix[i]
        for j in range(i):
            row[j] = (row[j] - dot(row, matrix[j], j)) / matrix[j, j]
        pivot = row[i] - dot(row, row, i)
        if pivot <= 0.0:
            return np.nan
        row[i] = math.sqrt(pivot)
        total += math.log(row[i])
    return 2.0 * total


@jit_inner
def invert(factor: Floats, inverse: Floats) -> None:
    """Set both triangles of the inverse of a matrix from its Cholesky factor."""
    size = len(factor)
    # Row j solves for the unit vector j, forwards, then backwards; by symmetry it is column j too.
    for j in range(size):
        row = inverse[j]
        row[:j] = 0.0
        row[j] = 1.0 / factor[j, j]
        for i in range(j + 1, size):
            total = 0.0
            for k in range(j, i):
                total += factor[i, k] * row[k]
            row[i] = -total / factor[i, i]
        for place in range(size):
            i = size - 1 - place
            row[i] /= factor[i, i]
            for k in range(i):
                row[k] -= factor[i, k] * row[i]
    for i in range(size):
        for j in range(i):
            mean = 0.5 * (inverse[i, j] + inverse[j, i])
            inverse[i, j] = mean
            inverse[j, i] = mean


@jit_inner
def solved_square(factor: Floats, vector: Floats) -> float:
    """Return v' A^-1 v by the Cholesky factor of A; v is overwritten."""
    total = 0.0
    for i in range(len(vector)):
        value = (vector[i] - dot(factor[i], vector, i)) / factor[i, i]
        vector[i] = value
        total += value * value
    return total


@jit_part
def dot(first: Floats, second: Floats, size: int) -> float:
    """Return the sum of the first `size` products, by four sums: a single one would wait for itself."""
    a = b = c = d = 0.0
    for block in range(size // 4):
        i = 4 * block
        a += first[i] * second[i]
        b += first[i + 1] * second[i + 1]
        c += first[i + 2] * second[i + 2]
        d += first[i + 3] * second[i + 3]
    for i in range(size // 4 * 4, size):
        a += first[i] * second[i]
    return float((a + b) + (c + d))


@jit_inner
def quadratic_form(matrix: Floats, vector: Floats) -> float:
    """Return v' M v by the lower triangle of M."""
    total = 0.0
    for i in range(len(vector)):
        row = matrix[i]
        total += vector[i] * (2.0 * dot(row, vector, i) + row[i] * vector[i])
    return total


@jit_inner
def multiply(matrix: Floats, vector: Floats, product: Floats) -> None:
    """Set the product M v."""
    size = len(vector)
    for i in range(size):
        product[i] = dot(matrix[i], vector, size)


@jit_inner
def add_outer(matrix: Floats, vector: Floats, scale: float) -> None:
    """Add c v v' to a matrix."""
    size = len(vector)
    for i in range(size):
        step = scale * vector[i]
        row = matrix[i]
        for j in range(size):
            row[j] += step * vector[j]


@jit_inner
def set_multiple_of_identity(matrix: Floats, value: float) -> None:
    """Set a matrix to c I."""
    matrix[:] = 0.0
    for i in range(len(matrix)):
        matrix[i, i] = value
