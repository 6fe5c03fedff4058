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


def draw(n_samples: int = 60, n_features: int = 4) -> np.ndarray:
    rng = np.random.default_rng(n_features)
    mixing = rng.normal(size=(n_features, n_features)) * np.logspace(-3, 3, n_features)
    return rng.normal(size=(n_samples, n_features)) @ mixing + 10.0


@pytest.mark.parametrize("covariance", ["diagonal", "tied", "full"])
def test_coordinates_have_unit_covariance(covariance: str) -> None:
    X = draw()
    found = coordinates(X, covariance)
    np.testing.assert_allclose(found.Z.mean(axis=0), 0.0, atol=1e-9)
    overall = np.cov(found.Z, rowvar=False, ddof=0)
    if covariance == "diagonal":
        overall = np.diag(np.diag(overall))
    np.testing.assert_allclose(overall, np.eye(4), atol=1e-7)
    wanted = np.cov(X, rowvar=False, ddof=0)
    wanted = np.diag(np.diag(wanted)) if covariance == "diagonal" else wanted
    assert found.log_volume == pytest.approx(0.5 * np.linalg.slogdet(wanted)[1])
    assert found.kept.tolist() == [0, 1, 2, 3]
    # linear in X: distances by the covariance are the squared distances
    if covariance != "diagonal":
        differences = X[:1] - X
        squares = np.einsum("nd,nd->n", differences, np.linalg.solve(wanted, differences.T).T)
        np.testing.assert_allclose(np.square(found.Z[:1] - found.Z).sum(axis=1), squares, rtol=1e-6)


def test_constant_and_collinear_features_are_left_out() -> None:
    X = draw(n_features=3)
    wide = np.column_stack([np.full(60, 1e6), X, X[:, 0] + X[:, 2], 1e6 + 1e-9 * X[:, 1]])
    assert coordinates(wide, "diagonal").kept.tolist() == [1, 2, 3, 4]
    kept = coordinates(wide, "full").kept
    assert len(kept) == 3
    assert set(kept) < {1, 2, 3, 4}
    few = np.random.default_rng(0).normal(size=(5, 9))
    assert coordinates(few, "full").Z.shape == (5, 4)


@pytest.mark.parametrize("strength", [1.0, 0.25])
def test_the_objective_is_the_maximum_of_likelihood_and_prior(strength: float) -> None:
    """Densities of scipy at the covariances of the solution: their sum, up to constants, is gmm."""
    rng = np.random.default_rng(1)
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
    for step in (1e-3, 1e-2):
        for _ in range(10):
            noise = step * rng.normal(size=(3, 3))
            root = np.linalg.cholesky(found)
            moved = root @ (np.eye(3) + noise) @ (np.eye(3) + noise).T @ np.swapaxes(root, 1, 2)
            assert value(moved) < best
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
