"""Scores against scikit-learn and hand cases."""

import itertools
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from solving import oracles

from sweep_clustering.kernels import scores
from sweep_clustering.kernels.problem.problem import CANNOT, MUST
from sweep_clustering.kernels.scores import cluster_covariances, cluster_gaussians, divergences, goldberger_kl


def test_divergences_of_any_shapes_agree_with_the_direct_formula() -> None:
    """That of the textbook, by inverse and determinant."""
    rng = np.random.default_rng(11)
    means, true_means, roots = rng.normal(size=(3, 4)), rng.normal(size=(2, 4)), rng.normal(size=(5, 4, 6))
    full, diagonal, spherical = roots @ roots.swapaxes(1, 2), rng.uniform(0.1, 2, (5, 4)), rng.random(5)
    for first, second in ((full[:3], full[3:]), (full[:3], diagonal[:2]), (diagonal[2:], spherical[:2])):
        found = divergences((np.ones(3), means, first), (np.array([4.0, 6.0]), true_means, second))
        for r, s in np.ndindex(3, 2):
            matrix, true = scores.as_matrices(first, 4)[r], scores.as_matrices(second, 4)[s]
            inverse, gap = np.linalg.inv(true), true_means[s] - means[r]
            wanted = np.trace(inverse @ matrix) + gap @ inverse @ gap - 4
            wanted += np.log(np.linalg.det(true) / np.linalg.det(matrix))
            assert found[r, s] == pytest.approx(0.5 * wanted, rel=1e-10)
    # Left out is what is without spread everywhere: a constant feature, and a sum of two others.
    more, offset = np.vstack([np.eye(4), np.zeros(4), [1, 1, 0, 0]]), np.array([0, 0, 0, 0, 1e3, 0])
    one, two = (np.ones(3), means, full[:3]), (np.ones(2), true_means, full[3:])
    wide = [(each[0], each[1] @ more.T + offset, more @ each[2] @ more.T) for each in (one, two)]
    np.testing.assert_allclose(divergences(*wide), divergences(one, two), rtol=1e-8)
    # A component without spread where others have some has no divergence.
    flat = full[:3].copy()
    flat[1] = np.diag([1.0, 1.0, 0.0, 1.0])
    for odd in (flat, np.zeros((3, 4)), np.nan * flat):
        assert np.isnan(divergences((*one[:2], odd), two)).all()
    assert np.isnan(divergences(one, (*two[:2], flat[:2]))).all()


@pytest.mark.parametrize("normalizer", scores.NORMALIZERS)
def test_nmi_and_adjusted_rand_agree_with_scikit_learn(normalizer: str) -> None:
    rng = np.random.default_rng(0)
    cases: list[Any] = [([0, 0, 1, 1], [7, 7, -3, -3]), ([0, 0, 1, 1], [0, 1, 0, 1]), ([0, 0, 0], [1, 1, 1])]
    cases += [([0, 0, 1], [1, 1, 1]), ([0, 0, 1, 1], [0, 1, 2, 3]), ([0, 1, 2], [2, 0, 1])]
    for _ in range(20):
        truth = rng.integers(0, rng.integers(2, 6), size=50)
        found = np.where(rng.random(50) < 0.6, truth, rng.integers(0, 7, size=50)).astype(np.int16)
        cases.append((truth, found))
    for truth, found in cases:
        wanted = normalized_mutual_info_score(truth, found, average_method=normalizer)
        assert scores.nmi(truth, found, normalizer) == pytest.approx(wanted, abs=1e-12)
        wanted = adjusted_rand_score(truth, found)
        assert scores.adjusted_rand(truth, found) == pytest.approx(wanted, abs=1e-12)
    for score in (scores.nmi, scores.adjusted_rand):
        with pytest.raises(ValueError, match="shapes"):
            score([0, 1], [0])


def test_cluster_gaussians() -> None:
    X = np.array([[0.0, 0.0], [2.0, 0.0], [10.0, 10.0], [10.0, 14.0], [5.0, 5.0]]) + 1e6
    sizes, centroids, variances = cluster_gaussians(X, np.array([0, 0, 2, 2, 3], dtype=np.int16), 4)
    assert sizes.tolist() == [2, 0, 2, 1]
    np.testing.assert_allclose(centroids - 1e6, [[1, 0], [np.nan, np.nan], [10, 12], [5, 5]])
    np.testing.assert_allclose(variances, [0.5, np.nan, 2.0, 0.0])
    with pytest.raises(ValueError, match="labels go from -1"):
        cluster_gaussians(X, np.full(5, -1), 4)


def test_goldberger_hand_cases() -> None:
    sizes, means, variances = np.array([3, 5]), np.array([[0.0], [9.0]]), np.array([1.0, 2.0])
    same, flat = (sizes, means, variances), (sizes, means, np.array([1e-10, 2.0]))
    assert goldberger_kl(*same, *same, 1.0) == 0.0
    # A single sample or a vanishing variance takes part, on either side.
    for bad in ((np.array([1, 5]), means, variances), flat):
        assert np.isnan([goldberger_kl(*bad, *same, 1.0), goldberger_kl(*same, *bad, 1.0)]).all()
    assert np.isfinite(goldberger_kl(*flat, *same, 0.1))
    # each of two halves is matched to the heavier of two that lie there
    there = (np.zeros((2, 1)), np.ones(2))
    found = goldberger_kl(np.array([4, 4]), *there, np.array([6, 2]), *there, 1.0)
    assert found == pytest.approx(np.log(0.5 / 0.75))
    one, other = (tuple(map(np.array, each)) for each in (([4], [[1, 1]], [2.0]), ([4], [[1, 3]], [1.0])))
    assert goldberger_kl(*one, *other, 1.0) == pytest.approx(0.5 * (4 + 4 - 2 - 2 * np.log(2)))


def test_goldberger_of_wide_forms_is_that_of_narrow_ones() -> None:
    rng = np.random.default_rng(4)
    one, other = ((rng.integers(2, 30, k), rng.normal(size=(k, 4)), rng.uniform(0.1, 2, k)) for k in (3, 5))
    expected = pytest.approx(goldberger_kl(*one, *other, 1.0), rel=1e-10)
    for widen in (lambda v: np.outer(v, np.ones(4)), lambda v: v[:, None, None] * np.eye(4)):
        first, second = (*one[:2], widen(one[2])), (*other[:2], widen(other[2]))
        for pair in ((first, other), (one, second), (first, second)):
            assert goldberger_kl(*pair[0], *pair[1], 1.0) == expected
    # an empty cluster takes no part; a degenerate one does
    padded = [np.concatenate([each, 0 * each[:1]]) for each in (*one[:2], np.outer(one[2], np.ones(4)))]
    padded[1][3] = np.nan
    assert goldberger_kl(*padded, *other, 1.0) == expected
    padded[2][1] = 0.0
    assert np.isnan(goldberger_kl(*padded, *other, 1.0))


def test_covariances_agree_with_an_oracle() -> None:
    rng = np.random.default_rng(2)
    X, labels = rng.normal(size=(60, 3)) @ rng.normal(size=(3, 3)) + 50, np.repeat([0, 2, 4], 20)
    for shape, strength in itertools.product(oracles.COVARIANCES, (0.0, 1.0, 2.5)):
        own = shape.replace("common", "spherical")  # each cluster by itself is told, however it is fitted
        case = oracles.Case(X, [], 5, "", covariance=own, covariance_prior=strength)
        wanted = [covariance for _, covariance in oracles.covariances_of(case, X, labels)]
        found = cluster_covariances(X, labels, 5, shape, strength)
        np.testing.assert_allclose(scores.as_matrices(found, 3)[::2], wanted[::2], rtol=1e-9)
        assert np.isnan(found[[1, 3]]).all()


def test_centroid_index() -> None:
    truth = np.array([[0.0], [10.0], [20.0]])
    for found, wanted in ((truth + 0.1, 0), ([[0], [0.1], [15.5]], 1), ([[0], [0.1], [0.2]], 2), ([[0]], 2)):
        assert scores.centroid_index(found, truth) == scores.centroid_index(truth, found) == wanted


def test_annotation_agreement() -> None:
    labels = np.array([0, 0, 1], dtype=np.int16)
    rows = [(0, 1, MUST), (0, 2, MUST), (0, 2, CANNOT), (1, 1, MUST), (2, 2, CANNOT), (-1, -1, -1)]
    assert scores.annotation_agreement(np.array(rows, dtype=np.int32), labels) == pytest.approx(3 / 5)
    assert scores.annotation_agreement([(0, 1, CANNOT)], labels) == 0.0
    assert np.isnan(scores.annotation_agreement(np.full((4, 3), -1), labels))
    assert np.isnan(scores.annotation_agreement(np.empty((0, 3), dtype=int), labels))
