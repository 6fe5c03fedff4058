"""Linear algebra on the small symmetric matrices of the shapes "tied" and "full", in memory that is given."""

from __future__ import annotations

import math

import numpy as np

from kernels.jit import jit_inner, jit_part
from kernels.problem.data import Floats


@jit_inner
def factorise(matrix: Floats) -> float:
    """Put the Cholesky factor of a positive definite matrix into its lower triangle; log-determinant.

    NaN if rounding leaves no positive number on the diagonal.
    """
    total = 0.0
    for i in range(len(matrix)):
        row = matrix[i]
        for j in range(i):
            row[j] = (row[j] - dot(row, matrix[j], j)) / matrix[j, j]
        left = row[i] - dot(row, row, i)
        if left <= 0.0:
            return np.nan
        row[i] = math.sqrt(left)
        total += math.log(row[i])
    return 2.0 * total


@jit_inner
def invert(factor: Floats, inverse: Floats) -> None:
    """Set the inverse of a matrix from its Cholesky factor, both triangles."""
    size = len(factor)
    # Row j is the solution for the unit vector j, forwards, then backwards; by symmetry it is column j too.
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
    """V' A^-1 v from the Cholesky factor of A; overwrites v."""
    total = 0.0
    for i in range(len(vector)):
        value = (vector[i] - dot(factor[i], vector, i)) / factor[i, i]
        vector[i] = value
        total += value * value
    return total


@jit_part
def dot(first: Floats, second: Floats, size: int) -> float:
    """Sum of the first `size` products, four at a time: one sum would wait for itself."""
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
    """V' M v, from the lower triangle of M."""
    total = 0.0
    for i in range(len(vector)):
        row = matrix[i]
        total += vector[i] * (2.0 * dot(row, vector, i) + row[i] * vector[i])
    return total


@jit_inner
def multiply(matrix: Floats, vector: Floats, product: Floats) -> None:
    """Set M v of a symmetric matrix."""
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
    """Set c I."""
    matrix[:] = 0.0
    for i in range(len(matrix)):
        matrix[i, i] = value
