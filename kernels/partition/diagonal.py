"""Shape "diagonal": a variance for each cluster and feature (docs/model.md, section 7).

A candidate costs one logarithm: what joining a cluster does to its log-determinant is the logarithm of a
product over features of 1 + n / (n + 1) d² / (s + ridge), of factors kept in `State.ratios`.
"""

from __future__ import annotations

import math

import numpy as np

from kernels.jit import jit_inner
from kernels.partition.state import State
from kernels.partition.statistics import CANCELLATION, EPSILON, add_feature_error, shaped_term
from kernels.problem.data import Data, Floats

LARGE = 1e150
"""A product of up to eight factors more stays below the largest number; beyond it its logarithm is taken."""


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
    """Set the log-determinant of a cluster, infinite if it is degenerate, and what joining it multiplies."""
    size = state.sizes[k]
    state.logdets[k] = logdet_of(data, state.squares, size, k)
    for d in range(len(state.squares)):
        state.ratios[d, k] = size / ((size + 1.0) * state.squares[d, k]) if size > 0 else 0.0


@jit_inner
def logdet_of(data: Data, squares: Floats, size: int, column: int) -> float:
    """Sum of the logarithms in one column; infinite if the cluster adds nothing, as it has no prior."""
    total = 0.0
    if data.ridge == 0.0:
        if size <= 1:
            return np.inf
        for d in range(len(squares)):
            if squares[d, column] <= data.floors[d] * size:
                return np.inf
    for d in range(len(squares)):
        total += math.log(squares[d, column])
    return total


@jit_inner
def set_diagonal_gains(data: Data, state: State, sample: int, source: int) -> float:
    """Set the gains to their part in gmm; a bound on the error of what leaving the source gains, nats."""
    if data.ridge == 0.0:
        # Without a prior clusters may be degenerate, so each gain is that of its definition.
        for target in range(data.n_clusters):
            if target != source:
                state.gains[target] = exact_diagonal_gain(data, state, sample, source, target)
        return 0.0
    n_dims = len(state.squares)
    size = state.sizes[source]
    shrink = 0.0
    least = 1.0
    if size > 2:
        up = (size + 1.0) / (size - 1.0)
        product = 1.0
        for d in range(n_dims):
            difference = data.Z[sample, d] - state.means[d, source]
            factor = 1.0 - difference * difference * state.ratios[d, source] * up
            least = min(least, factor)
            product *= factor
            if product < 1.0 / LARGE:
                shrink += math.log(product)
                product = 1.0
        if least < CANCELLATION:
            removal = leaving_term(data, state, sample, source) - state.terms[source]
            least = 1.0
        else:
            shrink += math.log(product)
            removal = shaped_term(data, size - 1, state.logdets[source] + shrink) - state.terms[source]
    else:
        removal = shaped_term(data, size - 1, n_dims * math.log(data.ridge)) - state.terms[source]
    set_joins(data.Z[sample], state)
    for target in range(data.n_clusters):
        joining = state.gains[target] + math.log(state.distances[target])
        state.gains[target] = removal + (state.join[1, target] * joining + state.join[2, target])
    return float(state.doubt[source] / least)


@jit_inner
def set_joins(z: Floats, state: State) -> None:
    """Set gains and distances: the log-determinant rises by the first and the logarithm of the second.

    Four features at a time, as `squared_distances`.
    """
    means, ratios = state.means, state.ratios
    products, logs = state.distances, state.gains
    n_dims = len(z)
    n_clusters = len(products)
    products[:] = 1.0
    logs[:] = 0.0
    for block in range(n_dims // 4):
        d = 4 * block
        for k in range(n_clusters):
            first = z[d] - means[d, k]
            second = z[d + 1] - means[d + 1, k]
            third = z[d + 2] - means[d + 2, k]
            fourth = z[d + 3] - means[d + 3, k]
            two = (1.0 + first * first * ratios[d, k]) * (1.0 + second * second * ratios[d + 1, k])
            more = (1.0 + third * third * ratios[d + 2, k]) * (1.0 + fourth * fourth * ratios[d + 3, k])
            products[k] *= two * more
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
def set_diagonal_distances(z: Floats, state: State) -> None:
    """Set the squared distances to all means, each feature multiplied by its ratio."""
    state.distances[:] = 0.0
    for d in range(len(z)):
        for k in range(len(state.distances)):
            difference = z[d] - state.means[d, k]
            state.distances[k] += difference * difference * state.ratios[d, k]


@jit_inner
def leaving_term(data: Data, state: State, sample: int, source: int) -> float:
    """Part in gmm of the source without the sample."""
    size = state.sizes[source] - 1
    total = 0.0
    for d in range(len(state.squares)):
        square = square_after_removal(data, state, sample, source, d)
        if data.ridge == 0.0 and (size <= 1 or square <= data.floors[d] * size):
            return shaped_term(data, size, np.inf)
        total += math.log(square)
    return shaped_term(data, size, total)


@jit_inner
def square_after_removal(data: Data, state: State, sample: int, source: int, d: int) -> float:
    """Square of one feature of the source without the sample."""
    size = state.sizes[source]
    # One sample is left, or none: the ridge alone, where the subtraction would round.
    if size <= 2:
        return data.ridge
    difference = data.Z[sample, d] - state.means[d, source]
    left = state.squares[d, source] - size / (size - 1.0) * difference * difference
    if left < CANCELLATION * state.squares[d, source]:
        left = add_feature_error(data, state, sample, source, d, data.ridge)
    return float(left)


@jit_inner
def exact_diagonal_gain(data: Data, state: State, sample: int, source: int, target: int) -> float:
    """Change of gmm, feature by feature."""
    size = state.sizes[target]
    share = size / (size + 1.0)
    total = 0.0
    for d in range(len(state.squares)):
        difference = data.Z[sample, d] - state.means[d, target]
        square = state.squares[d, target] + share * difference * difference
        if data.ridge == 0.0 and (size == 0 or square <= data.floors[d] * (size + 1.0)):
            total = np.inf
        elif total < np.inf:
            total += math.log(square)
    joined = shaped_term(data, size + 1, total) - state.terms[target]
    return float(leaving_term(data, state, sample, source) - state.terms[source] + joined)


@jit_inner
def relocate_squares(data: Data, state: State, sample: int, source: int, target: int) -> None:
    """Move the sample, in the squares alone: means and sizes are still those before."""
    n_target = state.sizes[target]
    grain = 4.0 * EPSILON * (1.0 + data.reach)
    least = 1.0
    for d in range(len(state.squares)):
        left = square_after_removal(data, state, sample, source, d)
        least = min(least, max(left / state.squares[d, source], CANCELLATION))
        state.squares[d, source] = left
        difference = data.Z[sample, d] - state.means[d, target]
        state.squares[d, target] += n_target / (n_target + 1.0) * difference * difference
    state.drift[source] = (state.drift[source] + grain) / least
    state.drift[target] += grain
