"""Scores equal those of scikit-learn, and cases by hand."""

import itertools
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from solving import oracles

from sweep_clustering.kernels import scores
from sweep_clustering.kernels.problem.data import CANNOT, MUST
from sweep_clustering.kernels.scores import cluster_covariances, cluster_gaussians, divergences, goldberger_kl


def test_divergences_of_any_shapes_agree_with_the_direct_formula() -> None:
    """The formula of the textbook needs an inverse and a determinant."""
    rng = np.random.default_rng(11)
    means, true_means, roots = rng.normal(size=(3, 4)), rng.normal(size=(2, 4)), rng.normal(size=(5, 4, 6))
    full, diagonal, spherical = roots @ roots.swapaxes(1, 2), rng.uniform(0.1, 2, (5, 4)), rng.random(5)
    for first, second in ((full[:3], full[3:]), (full[:3], diagonal[:2]), (diagonal[2:], spherical[:2])):
        values = divergences((np.ones(3), means, first), (np.array([4.0, 6.0]), true_means, second))
        for r, s in np.ndindex(3, 2):
            matrix, true = scores.as_matrices(first, 4)[r], scores.as_matrices(second, 4)[s]
            inverse, gap = np.linalg.inv(true), true_means[s] - means[r]
            expected = np.trace(inverse @ matrix) + gap @ inverse @ gap - 4
            expected += np.log(np.linalg.det(true) / np.linalg.det(matrix))
            assert values[r, s] == pytest.approx(0.5 * expected, rel=1e-10)
    # A direction without spread everywhere is left out: a constant feature, and a sum of two others.
    more, offset = np.vstack([np.eye(4), np.zeros(4), [1, 1, 0, 0]]), np.array([0, 0, 0, 0, 1e3, 0])
    estimate, truth = (np.ones(3), means, full[:3]), (np.ones(2), true_means, full[3:])
    wide = [(form[0], form[1] @ more.T + offset, more @ form[2] @ more.T) for form in (estimate, truth)]
    np.testing.assert_allclose(divergences(*wide), divergences(estimate, truth), rtol=1e-8)
    # A component without spread where others have some has no divergence.
    flat = full[:3].copy()
    flat[1] = np.diag([1.0, 1.0, 0.0, 1.0])
    for odd in (flat, np.zeros((3, 4)), np.nan * flat):
        assert np.isnan(divergences((*estimate[:2], odd), truth)).all()
    assert np.isnan(divergences(estimate, (*truth[:2], flat[:2]))).all()


@pytest.mark.parametrize("normalizer", scores.NORMALIZERS)
def test_nmi_and_adjusted_rand_agree_with_scikit_learn(normalizer: str) -> None:
    rng = np.random.default_rng(0)
    cases: list[Any] = [([0, 0, 1, 1], [7, 7, -3, -3]), ([0, 0, 1, 1], [0, 1, 0, 1]), ([0, 0, 0], [1, 1, 1])]
    cases += [([0, 0, 1], [1, 1, 1]), ([0, 0, 1, 1], [0, 1, 2, 3]), ([0, 1, 2], [2, 0, 1])]
    for _ in range(20):
        truth = rng.integers(0, rng.integers(2, 6), size=50)
        labels = np.where(rng.random(50) < 0.6, truth, rng.integers(0, 7, size=50)).astype(np.int16)
        cases.append((truth, labels))
    for truth, labels in cases:
        expected = normalized_mutual_info_score(truth, labels, average_method=normalizer)
        assert scores.nmi(truth, labels, normalizer) == pytest.approx(expected, abs=1e-12)
        expected = adjusted_rand_score(truth, labels)
        assert scores.adjusted_rand(truth, labels) == pytest.approx(expected, abs=1e-12)
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
    divergence = goldberger_kl(np.array([4, 4]), *there, np.array([6, 2]), *there, 1.0)
    assert divergence == pytest.approx(np.log(0.5 / 0.75))
    first, second = (tuple(map(np.array, x)) for x in (([4], [[1, 1]], [2.0]), ([4], [[1, 3]], [1.0])))
    assert goldberger_kl(*first, *second, 1.0) == pytest.approx(0.5 * (4 + 4 - 2 - 2 * np.log(2)))


def test_goldberger_of_wide_forms_is_that_of_narrow_ones() -> None:
    rng = np.random.default_rng(4)
    fit, true = ((rng.integers(2, 30, k), rng.normal(size=(k, 4)), rng.uniform(0.1, 2, k)) for k in (3, 5))
    expected = pytest.approx(goldberger_kl(*fit, *true, 1.0), rel=1e-10)
    for widen in (lambda v: np.outer(v, np.ones(4)), lambda v: v[:, None, None] * np.eye(4)):
        first, second = (*fit[:2], widen(fit[2])), (*true[:2], widen(true[2]))
        for pair in ((first, true), (fit, second), (first, second)):
            assert goldberger_kl(*pair[0], *pair[1], 1.0) == expected
    # an empty cluster takes no part; a degenerate one does
    padded = [np.concatenate([array, 0 * array[:1]]) for array in (*fit[:2], np.outer(fit[2], np.ones(4)))]
    padded[1][3] = np.nan
    assert goldberger_kl(*padded, *true, 1.0) == expected
    padded[2][1] = 0.0
    assert np.isnan(goldberger_kl(*padded, *true, 1.0))


def test_covariances_agree_with_an_oracle() -> None:
    rng = np.random.default_rng(2)
    X, labels = rng.normal(size=(60, 3)) @ rng.normal(size=(3, 3)) + 50, np.repeat([0, 2, 4], 20)
    for shape, strength in itertools.product(oracles.COVARIANCES, (0.0, 1.0, 2.5)):
        form = shape.replace("common", "spherical")  # each cluster has its covariance, however it is fitted
        case = oracles.Case(X, [], 5, "", covariance=form, covariance_prior=strength)
        expected = [covariance for _, covariance in oracles.covariances_of(case, X, labels)]
        covariances = cluster_covariances(X, labels, 5, shape, strength)
        np.testing.assert_allclose(scores.as_matrices(covariances, 3)[::2], expected[::2], rtol=1e-9)
        assert np.isnan(covariances[[1, 3]]).all()


def test_centroid_index() -> None:
    truth = np.array([[0.0], [10.0], [20.0]])
    for means, index in ((truth + 0.1, 0), ([[0], [0.1], [15.5]], 1), ([[0], [0.1], [0.2]], 2), ([[0]], 2)):
        assert scores.centroid_index(means, truth) == scores.centroid_index(truth, means) == index


def test_annotation_agreement() -> None:
    labels = np.array([0, 0, 1], dtype=np.int16)
    rows = [(0, 1, MUST), (0, 2, MUST), (0, 2, CANNOT), (1, 1, MUST), (2, 2, CANNOT), (-1, -1, -1)]
    assert scores.annotation_agreement(np.array(rows, dtype=np.int32), labels) == pytest.approx(3 / 5)
    assert scores.annotation_agreement([(0, 1, CANNOT)], labels) == 0.0
    assert np.isnan(scores.annotation_agreement(np.full((4, 3), -1), labels))
    assert np.isnan(scores.annotation_agreement(np.empty((0, 3), dtype=int), labels))
