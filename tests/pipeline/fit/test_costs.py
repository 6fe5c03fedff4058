"""Costs of samples are those of scipy's normal densities."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from pipeline.fit.costs import assignment_costs

RNG = np.random.default_rng(5)
CENTERS = RNG.normal(size=(3, 4))
ROOTS = RNG.normal(size=(3, 4, 6)) * np.array([0.05, 1.0, 2.0, 30.0])[:, None]
FULL = ROOTS @ np.swapaxes(ROOTS, 1, 2)
DIAGONAL = FULL.diagonal(axis1=1, axis2=2).copy()
X = RNG.normal(size=(20, 4)) * np.array([0.05, 1.0, 2.0, 30.0])
ALL = np.arange(4)


@pytest.mark.parametrize("covariances", [DIAGONAL.mean(axis=1), DIAGONAL, FULL])
def test_costs_are_minus_log_densities(covariances: np.ndarray) -> None:
    found = assignment_costs(X, CENTERS, covariances, ALL)
    for k, covariance in enumerate(covariances):
        matrix = covariance * np.eye(4) if covariance.ndim < 2 else covariance
        density = multivariate_normal(CENTERS[k], matrix)
        wanted = -density.logpdf(X) - 2 * np.log(2 * np.pi)
        np.testing.assert_allclose(found[:, k], wanted, rtol=1e-8)
    alone = np.concatenate([assignment_costs(x[None], CENTERS, covariances, ALL) for x in X])
    np.testing.assert_array_equal(found, alone)


def test_features_left_out_play_no_part() -> None:
    kept = np.array([1, 3])
    for covariances, part in ((DIAGONAL, DIAGONAL[:, kept]), (FULL, FULL[:, kept][:, :, kept])):
        found = assignment_costs(X, CENTERS, covariances, kept)
        wanted = assignment_costs(X[:, kept], CENTERS[:, kept], part, np.arange(2))
        np.testing.assert_array_equal(found, wanted)


def test_degenerate_clusters_cost_everything() -> None:
    for covariances in (DIAGONAL.mean(axis=1), DIAGONAL, FULL):
        some = covariances.copy()
        some[1] = 0.0
        found = assignment_costs(X, CENTERS, some, ALL)
        assert np.isinf(found[:, 1]).all()
        assert np.isfinite(found[:, [0, 2]]).all()
