"""Scores against scikit-learn and hand cases."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from solving import oracles

from kernels.problem.problem import CANNOT, MUST
from kernels.scores import (
    NORMALIZERS,
    adjusted_rand,
    annotation_agreement,
    as_matrices,
    centroid_index,
    cluster_covariances,
    cluster_gaussians,
    divergences,
    goldberger_kl,
    nmi,
)

# Divergences of Gaussians against direct formulas, and what is left out of them.

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
    return divergences((WEIGHTS, MEANS, covariances), (WEIGHTS_TRUE, MEANS_TRUE, covariances_true))


def test_any_shapes_agree_with_the_direct_formula() -> None:
    full, diagonal, spherical = matrices(5), RNG.uniform(0.1, 2, (5, 4)), RNG.random(5)
    for first, second in ((full[:3], full[3:]), (full[:3], diagonal[:2]), (diagonal[2:], spherical[:2])):
        values = found(first, second)
        for r, s in np.ndindex(3, 2):
            pair = as_matrices(first, 4)[r], as_matrices(second, 4)[s]
            wanted = direct(MEANS[r], pair[0], MEANS_TRUE[s], pair[1])
            assert values[r, s] == pytest.approx(wanted, rel=1e-10)


def test_directions_without_spread_are_left_out() -> None:
    first, second = matrices(3), matrices(2)
    # a constant feature, and one that is the sum of two others
    more = np.vstack([np.eye(4), np.zeros(4), [1, 1, 0, 0]])
    offset = np.array([0, 0, 0, 0, 1e3, 0])
    wider = divergences(
        (WEIGHTS, MEANS @ more.T + offset, more @ first @ more.T),
        (WEIGHTS_TRUE, MEANS_TRUE @ more.T + offset, more @ second @ more.T),
    )
    np.testing.assert_allclose(wider, found(first, second), rtol=1e-8)


def test_a_component_without_spread_where_others_have_some_has_no_divergence() -> None:
    first, second = matrices(3), matrices(2)
    flat = first.copy()
    flat[1] = np.diag([1.0, 1.0, 0.0, 1.0])
    for pair in ((flat, second), (second, flat[:2]), (np.zeros((3, 4)), second), (np.nan * first, second)):
        mixtures = [(np.ones(len(one)), RNG.normal(size=(len(one), 4)), one) for one in pair]
        assert np.isnan(divergences(*mixtures)).all()


@pytest.mark.parametrize("normalizer", NORMALIZERS)
def test_nmi_and_adjusted_rand_agree_with_scikit_learn(normalizer: str) -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        truth = rng.integers(0, rng.integers(2, 6), size=50)
        found = np.where(rng.random(50) < 0.6, truth, rng.integers(0, 7, size=50)).astype(np.int16)
        wanted = normalized_mutual_info_score(truth, found, average_method=normalizer)
        assert nmi(truth, found, normalizer) == pytest.approx(wanted, abs=1e-12)
        assert adjusted_rand(truth, found) == pytest.approx(adjusted_rand_score(truth, found), abs=1e-12)


@pytest.mark.parametrize(
    ("truth", "labels", "information", "rand"),
    [
        ([0, 0, 1, 1], [7, 7, -3, -3], 1.0, 1.0),
        ([0, 0, 1, 1], [0, 1, 0, 1], 0.0, -0.5),
        ([0, 0, 0], [1, 1, 1], 1.0, 1.0),
        ([0, 0, 1], [1, 1, 1], 0.0, 0.0),
        ([0, 0, 1, 1], [0, 1, 2, 3], 1.0, 0.0),
        ([0, 1, 2], [2, 0, 1], 1.0, 1.0),
    ],
)
def test_nmi_and_adjusted_rand_by_hand(
    truth: list[int], labels: list[int], information: float, rand: float
) -> None:
    assert nmi(truth, labels) == pytest.approx(information, abs=1e-15)
    assert adjusted_rand(truth, labels) == pytest.approx(rand)
    for wrong in (nmi, adjusted_rand):
        with pytest.raises(ValueError, match="shapes"):
            wrong([0, 1], [0])


def test_cluster_gaussians() -> None:
    X = np.array([[0.0, 0.0], [2.0, 0.0], [10.0, 10.0], [10.0, 14.0], [5.0, 5.0]]) + 1e6
    sizes, centroids, variances = cluster_gaussians(X, np.array([0, 0, 2, 2, 3], dtype=np.int16), 4)
    assert sizes.tolist() == [2, 0, 2, 1]
    np.testing.assert_allclose(centroids - 1e6, [[1, 0], [np.nan, np.nan], [10, 12], [5, 5]])
    np.testing.assert_allclose(variances, [0.5, np.nan, 2.0, 0.0])
    with pytest.raises(ValueError, match="labels go from -1"):
        cluster_gaussians(X, np.full(5, -1), 4)
    with pytest.raises(ValueError, match="expected 5 integers"):
        cluster_gaussians(X, np.zeros(4, dtype=int), 4)


def test_goldberger_hand_cases() -> None:
    sizes, means, variances = np.array([3, 5]), np.array([[0.0], [9.0]]), np.array([1.0, 2.0])
    same = (sizes, means, variances)
    assert goldberger_kl(*same, *same, 1.0) == 0.0
    # An empty cluster takes no part; a single sample or a vanishing variance does, on either side.
    padded = (np.array([3, 0, 5]), np.array([[0.0], [np.nan], [9.0]]), np.array([1.0, np.nan, 2.0]))
    assert goldberger_kl(*padded, *same, 1.0) == 0.0
    for bad in ((np.array([1, 5]), means, variances), (sizes, means, np.array([1e-10, 2.0]))):
        assert np.isnan(goldberger_kl(*bad, *same, 1.0))
        assert np.isnan(goldberger_kl(*same, *bad, 1.0))
    assert np.isfinite(goldberger_kl(sizes, means, np.array([1e-10, 2.0]), *same, 0.1))
    # each of two halves is matched to the heavier of two that lie there
    there = (np.zeros((2, 1)), np.ones(2))
    found = goldberger_kl(np.array([4, 4]), *there, np.array([6, 2]), *there, 1.0)
    assert found == pytest.approx(np.log(0.5 / 0.75))
    one = (np.array([4]), np.array([[1.0, 1.0]]), np.array([2.0]))
    other = (np.array([4]), np.array([[1.0, 3.0]]), np.array([1.0]))
    assert goldberger_kl(*one, *other, 1.0) == pytest.approx(0.5 * (4 + 4 - 2 - 2 * np.log(2)))


def test_goldberger_of_wide_forms_is_that_of_narrow_ones() -> None:
    rng = np.random.default_rng(4)
    one = (rng.integers(2, 30, 3), rng.normal(size=(3, 4)), rng.uniform(0.1, 2, 3))
    other = (rng.integers(2, 30, 5), rng.normal(size=(5, 4)), rng.uniform(0.1, 2, 5))
    expected = pytest.approx(goldberger_kl(*one, *other, 1.0), rel=1e-10)
    for widen in (lambda v: np.outer(v, np.ones(4)), lambda v: v[:, None, None] * np.eye(4)):
        first, second = (*one[:2], widen(one[2])), (*other[:2], widen(other[2]))
        for pair in ((first, other), (one, second), (first, second)):
            assert goldberger_kl(*pair[0], *pair[1], 1.0) == expected
    # an empty cluster takes no part; a degenerate one does
    empty, wide = np.full((1, 4), np.nan), np.outer(one[2], np.ones(4))
    padded = (np.append(one[0], 0), np.vstack([one[1], empty]), np.vstack([wide, empty]))
    assert goldberger_kl(*padded, *other, 1.0) == expected
    padded[2][1] = 0.0
    assert np.isnan(goldberger_kl(*padded, *other, 1.0))


def test_covariances_agree_with_an_oracle() -> None:
    rng = np.random.default_rng(2)
    X, labels = rng.normal(size=(60, 3)) @ rng.normal(size=(3, 3)) + 50, np.repeat([0, 2, 4], 20)
    for shape in ("spherical", "common"):
        variances = cluster_covariances(X, labels, 5, shape)
        np.testing.assert_array_equal(variances, cluster_gaussians(X, labels, 5)[2])
    for shape, strength in itertools.product(oracles.SHAPED, (0.0, 1.0, 2.5)):
        case = oracles.Case(X, [], 5, "", covariance=shape, covariance_prior=strength)
        scale, more = oracles.prior(case, X)
        wanted = [(scatter + scale) / max(n + more, 1) for n, scatter in oracles.scatters_of(case, X, labels)]
        wanted = np.array([np.diag(each) if shape == "diagonal" else each for each in wanted])
        wanted[[1, 3]] = np.nan  # empty clusters
        found = cluster_covariances(X, labels, 5, shape, strength)
        np.testing.assert_allclose(found, wanted, rtol=1e-9)


def test_centroid_index() -> None:
    truth = np.array([[0.0], [10.0], [20.0]])
    assert centroid_index(truth + 0.1, truth) == 0
    assert centroid_index([[0.0], [0.1], [15.5]], truth) == 1
    assert centroid_index([[0.0], [0.1], [0.2]], truth) == 2
    assert centroid_index([[0.0]], truth) == 2
    assert centroid_index(truth, [[0.0]]) == 2


def test_annotation_agreement() -> None:
    labels = np.array([0, 0, 1], dtype=np.int16)
    rows = [(0, 1, MUST), (0, 2, MUST), (0, 2, CANNOT), (1, 1, MUST), (2, 2, CANNOT), (-1, -1, -1)]
    assert annotation_agreement(np.array(rows, dtype=np.int32), labels) == pytest.approx(3 / 5)
    assert annotation_agreement([(0, 1, CANNOT)], labels) == 0.0
    assert np.isnan(annotation_agreement(np.full((4, 3), -1), labels))
    assert np.isnan(annotation_agreement(np.empty((0, 3), dtype=int), labels))
