"""Divergences of Gaussians against direct formulas, and what is left out of them."""

from __future__ import annotations

import numpy as np
import pytest

from kernels.divergence import as_matrices, divergences, spherical_divergences, whitening

RNG = np.random.default_rng(11)
WEIGHTS, WEIGHTS_TRUE = np.array([3.0, 5.0, 2.0]), np.array([4.0, 6.0])
MEANS, MEANS_TRUE = RNG.normal(size=(3, 4)), RNG.normal(size=(2, 4))


def matrices(count: int, n_features: int = 4) -> np.ndarray:
    roots = RNG.normal(size=(count, n_features, n_features + 2))
    return roots @ roots.swapaxes(1, 2)


def direct(mean: np.ndarray, matrix: np.ndarray, mean_true: np.ndarray, matrix_true: np.ndarray) -> float:
    """The textbook formula, by inverse and determinant."""
    inverse, gap = np.linalg.inv(matrix_true), mean_true - mean
    ratio = np.linalg.det(matrix_true) / np.linalg.det(matrix)
    return float(0.5 * (np.trace(inverse @ matrix) + gap @ inverse @ gap - len(mean) + np.log(ratio)))


def found(covariances: np.ndarray, covariances_true: np.ndarray) -> np.ndarray:
    return divergences(WEIGHTS, MEANS, covariances, WEIGHTS_TRUE, MEANS_TRUE, covariances_true)


@pytest.mark.parametrize("shapes", [("full", "full"), ("full", "diagonal"), ("diagonal", "spherical")])
def test_any_shapes_agree_with_the_direct_formula(shapes: tuple[str, str]) -> None:
    drawn = {"full": matrices, "diagonal": lambda n: RNG.uniform(0.1, 2, (n, 4)), "spherical": RNG.random}
    first, second = drawn[shapes[0]](3), drawn[shapes[1]](2)
    values = found(first, second)
    for r, s in np.ndindex(3, 2):
        pair = as_matrices(first, 4)[r], as_matrices(second, 4)[s]
        assert values[r, s] == pytest.approx(direct(MEANS[r], pair[0], MEANS_TRUE[s], pair[1]), rel=1e-10)


def test_wide_and_narrow_forms_give_the_same() -> None:
    first, second = RNG.uniform(0.1, 2, 3), RNG.uniform(0.1, 2, 2)
    expected = spherical_divergences(MEANS, first, MEANS_TRUE, second)
    for wide in (first[:, None] + np.zeros(4), as_matrices(first, 4)):
        for wide_true in (second, second[:, None] + np.zeros(4), as_matrices(second, 4)):
            np.testing.assert_allclose(found(wide, wide_true), expected, rtol=1e-10)


def test_units_of_the_features_do_not_matter() -> None:
    first, second = matrices(3), matrices(2)
    units = np.diag([1e-7, 1.0, 1e5, 30.0])
    scaled = divergences(
        WEIGHTS,
        MEANS @ units,
        units @ first @ units,
        WEIGHTS_TRUE,
        MEANS_TRUE @ units,
        units @ second @ units,
    )
    np.testing.assert_allclose(scaled, found(first, second), rtol=1e-8)


def test_directions_without_spread_are_left_out() -> None:
    first, second = matrices(3), matrices(2)
    # a constant feature, and one that is the sum of two others
    more = np.vstack([np.eye(4), np.zeros(4), [1, 1, 0, 0]])
    offset = np.array([0, 0, 0, 0, 1e3, 0])
    wider = divergences(
        WEIGHTS,
        MEANS @ more.T + offset,
        more @ first @ more.T,
        WEIGHTS_TRUE,
        MEANS_TRUE @ more.T + offset,
        more @ second @ more.T,
    )
    np.testing.assert_allclose(wider, found(first, second), rtol=1e-8)


def test_a_component_without_spread_where_others_have_some_has_no_divergence() -> None:
    first, second = matrices(3), matrices(2)
    flat = first.copy()
    flat[1] = np.diag([1.0, 1.0, 0.0, 1.0])
    for pair in ((flat, second), (second, flat[:2]), (np.zeros((3, 4)), second), (np.nan * first, second)):
        weights = [np.ones(len(one)) for one in pair]
        means = [RNG.normal(size=(len(one), 4)) for one in pair]
        values = divergences(weights[0], means[0], pair[0], weights[1], means[1], pair[1])
        assert np.isnan(values).all()


def test_whitening_makes_a_unit_matrix_of_as_many_directions_as_there_are() -> None:
    scatter = matrices(1)[0]
    scatter[2] = scatter[:, 2] = 0.0
    basis = whitening(scatter, np.ones(4))
    np.testing.assert_allclose(basis.T @ scatter @ basis, np.eye(3), atol=1e-12)
    assert not basis[2].any()
    # spread that is rounding of large values
    scatter[2, 2] = 1e-16
    assert whitening(scatter, np.array([1, 1, 1e6, 1])).shape == (4, 3)
    assert whitening(np.zeros((2, 2)), np.ones(2)).shape == (2, 0)
