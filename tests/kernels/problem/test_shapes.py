"""Coordinates of unit covariance, the prior, and the covariances that maximise the objective."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import invwishart, multivariate_normal

from kernels.partition.objective import objective_terms
from kernels.problem.problem import build_problem
from kernels.problem.shapes import coordinates, unused_priors
from kernels.scores import cluster_covariances
from kernels.settings import COVARIANCES, ObjectiveSettings


def test_constant_and_collinear_features_are_left_out() -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 3)) @ (rng.normal(size=(3, 3)) * [1e-3, 1, 1e3]) + 10.0
    wide = np.column_stack([np.full(60, 1e6), X, X[:, 0] + X[:, 2], 1e6 + 1e-9 * X[:, 1]])
    assert coordinates(wide, "diagonal").kept.tolist() == [1, 2, 3, 4]
    found = coordinates(wide, "full")
    assert len(found.kept) == 3
    assert set(found.kept) < {1, 2, 3, 4}
    np.testing.assert_allclose(np.cov(found.Z, rowvar=False, ddof=0), np.eye(3), atol=1e-7)
    assert coordinates(rng.normal(size=(5, 9)), "full").Z.shape == (5, 4)


def test_the_objective_is_the_maximum_of_likelihood_and_prior() -> None:
    """Densities of scipy at the covariances of the solution: their sum, up to constants, is gmm."""
    rng, strength = np.random.default_rng(1), 0.25
    X, labels = rng.normal(size=(40, 3)) @ rng.normal(size=(3, 3)), np.arange(40) % 2
    labels[30:] = 0
    overall = np.cov(X, rowvar=False, ddof=0)
    settings = ObjectiveSettings(covariance_prior=strength)
    problem = build_problem(X, n_clusters=2, model="unsupervised", covariance="full", settings=settings)
    scale, nu = overall / 2 ** (2 / 3), 5.0

    def value(covariances: np.ndarray) -> float:
        total = 0.0
        for k in (0, 1):
            members = X[labels == k]
            density = multivariate_normal(members.mean(axis=0), covariances[k])
            total += density.logpdf(members).sum()
            total += strength * invwishart(nu, scale).logpdf(covariances[k])
        return float(total)

    found = cluster_covariances(X, labels, 2, "full", strength)
    best = value(found)
    root = np.linalg.cholesky(found)
    for _ in range(10):
        noise = np.eye(3) + 1e-3 * rng.normal(size=(3, 3))
        assert value(root @ noise @ noise.T @ np.swapaxes(root, 1, 2)) < best
    # An empty cluster adds nothing: less the prior at its own mode, once for each cluster.
    mode = scale / (nu + 4)
    empty = strength * invwishart(nu, scale).logpdf(mode)
    gmm = objective_terms(problem, labels)[0]
    constant = 0.5 * 40 * 3 * np.log(2 * np.pi)
    assert gmm == pytest.approx(best - 2 * empty + constant)


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_a_prior_that_is_not_used_changes_nothing(covariance: str) -> None:
    X = np.random.default_rng(8).normal(size=(20, 3))
    labels = np.arange(20) % 2
    for name in ("variance_prior", "covariance_prior"):
        values = [
            sum(objective_terms(build_problem(X, n_clusters=2, model="unsupervised", covariance=covariance,
                                              settings=ObjectiveSettings(**{name: strength})), labels))
            for strength in (1.0, 3.0)
        ]  # fmt: skip
        assert (values[0] == values[1]) == (name in unused_priors([covariance]))
    assert unused_priors([covariance, "auto"]) == ()
    assert unused_priors(["spherical", "full"]) == ()
