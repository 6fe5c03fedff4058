"""The small matrices against numpy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from solving.from_python import from_python

from kernels.partition import matrices

factorise = from_python(matrices.factorise)
invert = from_python(matrices.invert)
solved_square = from_python(matrices.solved_square)
quadratic_form = from_python(matrices.quadratic_form)
multiply = from_python(matrices.multiply)
add_outer = from_python(matrices.add_outer)

SIZES = [1, 2, 3, 4, 5, 8, 11, 30]


def draw(size: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(size)
    root = rng.normal(size=(size, size + 2)) * np.logspace(-2, 2, size)[:, None]
    return root @ root.T, rng.normal(size=size)


@pytest.mark.parametrize("size", SIZES)
def test_factor_determinant_and_inverse(size: int) -> None:
    matrix, vector = draw(size)
    factor = matrix.copy()
    assert factorise(factor) == pytest.approx(np.linalg.slogdet(matrix)[1], rel=1e-10)
    np.testing.assert_allclose(np.tril(factor), np.linalg.cholesky(matrix), rtol=1e-7)
    inverse = np.full((size, size), np.nan)
    invert(factor, inverse)
    np.testing.assert_array_equal(inverse, inverse.T)
    np.testing.assert_allclose(inverse, np.linalg.inv(matrix), rtol=1e-6)
    wanted = vector @ np.linalg.solve(matrix, vector)
    assert quadratic_form(inverse, vector) == pytest.approx(wanted, rel=1e-7)
    assert solved_square(factor, vector.copy()) == pytest.approx(wanted, rel=1e-7)


@pytest.mark.parametrize("size", SIZES)
def test_products(size: int) -> None:
    matrix, vector = draw(size)
    product = np.full(size, np.nan)
    multiply(matrix, vector, product)
    np.testing.assert_allclose(product, matrix @ vector)
    changed = matrix.copy()
    add_outer(changed, vector, -0.5)
    np.testing.assert_allclose(changed, matrix - 0.5 * np.outer(vector, vector))


def test_no_factor_of_what_is_not_positive_definite() -> None:
    for matrix in (np.array([[1.0, 2.0], [2.0, 1.0]]), np.zeros((1, 1)), -np.eye(3)):
        assert math.isnan(factorise(matrix))
