"""A clustering problem refuses bad input, leaves good input alone, and gives kernels its annotations."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import xlogy
from scipy.stats import invwishart, multivariate_normal
from solving import oracles

from sweep_clustering.kernels.partition.objective import objective_terms
from sweep_clustering.kernels.problem import data
from sweep_clustering.kernels.problem import problem as module
from sweep_clustering.kernels.scores import cluster_covariances
from sweep_clustering.kernels.settings import ObjectiveSettings
from sweep_clustering.kernels.structure import COVARIANCES

GOOD = np.arange(12.0).reshape(6, 2)


def test_features_without_a_solution_are_refused() -> None:
    for words, arguments in {
        "rows without any variance": {"X": np.ones((6, 2))},
        "6 samples are fewer": {"n_clusters": 4},
        "only 2 distinct rows": {"X": np.repeat([[0.0], [1.0]], 5, axis=0), "n_clusters": 3},
    }.items():
        with pytest.raises(ValueError, match=words):
            module.build_problem(**{"X": GOOD, "n_clusters": 2, "model": "posterior"} | arguments)  # type: ignore[operator]


def test_distinct_rows_are_looked_for_in_the_whole_table() -> None:
    X = np.repeat([[0.0, 5.0], [1.0, 6.0], [2.0, 7.0]], [30, 20, 2], axis=0)
    assert module.build_problem(X, n_clusters=3, model="unsupervised").n_clusters == 3
    with pytest.raises(ValueError, match="n_clusters is 4, but X has only 3 distinct rows"):
        module.build_problem(X, n_clusters=4, model="unsupervised")


def test_input_is_left_alone() -> None:
    X = np.asfortranarray(GOOD + 5)
    X.flags.writeable = False
    problem = module.build_problem(X, n_clusters=2, model="unsupervised")
    np.testing.assert_allclose(problem.data.X + problem.means, X)
    np.testing.assert_allclose(problem.means, X.mean(axis=0))


def test_the_weight_of_features_knows_no_units() -> None:
    X = np.random.default_rng(0).normal(size=(300, 6))
    assert module.effective_weight(1e200 * X) == pytest.approx(oracles.effective_weight(X), rel=1e-12)
    assert module.effective_weight(X[:, :1] + 1e6) == pytest.approx(1.0)


def test_inferred_accuracies() -> None:
    layers = [
        data.Layer(data.MUST, np.array([[0, 1], [0, 2], [3, 3]]), np.array([2.0, 1.0, 5.0]), annotator=2),
        data.Layer(data.CANNOT, np.array([[0, 3], [0, 1]]), np.array([1.0, 4.0]), annotator=2),
        data.Layer(data.CANNOT, np.array([[1, 1]]), annotator=1),
        data.Layer(data.CANNOT, np.empty((0, 2), dtype=np.int64), annotator=5),
    ]
    accuracies = data.inferred_accuracies(layers, [0, 0, 1, 1])
    assert accuracies == pytest.approx({1: np.nan, 2: 3 / 8, 5: np.nan}, nan_ok=True)


def test_the_table_of_logarithms_reaches_every_count_or_is_left_out() -> None:
    def table(*weights: float) -> np.ndarray:
        pairs = np.repeat([[0, 1], [1, 2]], len(weights) // 2, axis=0)
        return np.array(
            data.adjacency([data.Layer(data.MUST, pairs, np.array(weights))], 7, "likelihood")["x_log_x"]
        )

    whole = table(2.0, 3.0)
    assert len(whole) > 4 * 5
    np.testing.assert_array_equal(whole, xlogy(np.arange(len(whole)), np.arange(len(whole))))
    assert table(2.0, 0.5).size == table(2.0, 1e7).size == 0
    # Half weights that add up to whole ones per pair are counts.
    assert table(0.5, 0.5, 0.5, 0.5).size > 0


# Coordinates of unit covariance, the prior, and the covariances that maximise the objective.


def test_constant_and_collinear_features_are_left_out() -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 3)) @ (rng.normal(size=(3, 3)) * [1e-3, 1, 1e3]) + 10.0
    wide = np.column_stack([np.full(60, 1e6), X, X[:, 0] + X[:, 2], 1e6 + 1e-9 * X[:, 1]])
    assert module.coordinates(wide, "diagonal")[1].tolist() == [1, 2, 3, 4]
    Z, dims, _ = module.coordinates(wide, "full")
    assert len(dims) == 3
    assert set(dims) < {1, 2, 3, 4}
    np.testing.assert_allclose(np.cov(Z, rowvar=False, ddof=0), np.eye(3), atol=1e-7)
    assert module.coordinates(rng.normal(size=(5, 9)), "full")[0].shape == (5, 4)


def test_the_objective_is_the_maximum_of_likelihood_and_prior() -> None:
    """The sum of scipy's densities at the covariances of the solution is gmm, up to constants."""
    rng, strength = np.random.default_rng(1), 0.25
    X, labels = rng.normal(size=(40, 3)) @ rng.normal(size=(3, 3)), np.arange(40) % 2
    labels[30:] = 0
    settings = ObjectiveSettings(covariance_prior=strength)
    problem = module.build_problem(
        X, n_clusters=2, model="unsupervised", covariance="full", settings=settings
    )
    scale, nu = np.cov(X, rowvar=False, ddof=0) / 2 ** (2 / 3), 5.0

    def value(covariances: np.ndarray) -> float:
        total = strength * invwishart(nu, scale).logpdf(np.moveaxis(covariances, 0, 2)).sum()
        for k in (0, 1):
            members = X[labels == k]
            total += multivariate_normal(members.mean(axis=0), covariances[k]).logpdf(members).sum()
        return float(total)

    estimates = cluster_covariances(X, labels, 2, "full", strength)
    best = value(estimates)
    root = np.linalg.cholesky(estimates)
    for _ in range(10):
        noise = np.eye(3) + 1e-3 * rng.normal(size=(3, 3))
        assert value(root @ noise @ noise.T @ np.swapaxes(root, 1, 2)) < best
    # An empty cluster adds nothing, so the prior at its mode is subtracted once for each cluster.
    empty = strength * invwishart(nu, scale).logpdf(scale / (nu + 4))
    constant = 0.5 * 40 * 3 * np.log(2 * np.pi)
    assert objective_terms(problem, labels)[0] == pytest.approx(best - 2 * empty + constant)


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_a_prior_that_is_not_used_changes_nothing(covariance: str) -> None:
    case = oracles.draw_case(8, model="unsupervised", covariance=covariance)
    for field, name in (("kappa", "variance_prior"), ("covariance_prior", "covariance_prior")):
        problems = (replace(case, **{field: strength}).problem() for strength in (1.0, 3.0))
        first, second = (objective_terms(problem, oracles.draw_labels(case, 0)) for problem in problems)
        assert (first == second) == (name in module.unused_priors([covariance]))
    assert module.unused_priors([covariance, "auto"]) == ()
    assert module.unused_priors(["spherical", "full"]) == ()
    assert module.unused_priors(["common", "spherical"]) == ("covariance_prior",)
    assert module.unused_priors(["tied", "full"]) == ("variance_prior",)


def test_variances_without_a_prior_have_a_floor() -> None:
    settings, X = ObjectiveSettings(covariance_prior=0.0), GOOD * [1.0, 100.0]
    problem = module.build_problem(
        X, n_clusters=2, model="unsupervised", covariance="diagonal", settings=settings
    )
    assert problem.data.floors == pytest.approx(1e-10 * X.var(axis=0))
    np.testing.assert_array_equal(problem.data.Z, problem.data.X)
    assert problem.data.log_freedom.tolist() == [0.0, *np.log(np.arange(1, 8))]
    assert problem.data.log_size.tolist() == problem.data.log_freedom.tolist()
    assert problem.data.unit_term == 0.0
    spheres = module.build_problem(
        X, n_clusters=2, model="unsupervised", settings=ObjectiveSettings(variance_prior=0.7)
    )
    assert spheres.data.log_freedom == pytest.approx(np.log(2 * (np.arange(8) + 0.7)))


@pytest.mark.parametrize("shape", ["spherical", "common", "diagonal"])
def test_a_cluster_is_degenerate_up_to_a_share_of_all_scatter(shape: str) -> None:
    overall = np.array([4.0, 9.0])
    prior = module.Prior(0.0, 0.0, total_variance=float(overall.mean()))
    scale = np.sqrt(overall if shape == "diagonal" else overall.mean())
    for factor in (0.9, 1.1):
        near = np.sqrt(1e-10 * factor) * scale * np.array([[1.0, 1.0], [-1.0, -1.0]])
        far = near if shape == "common" else np.sqrt(2.0 * overall) * np.array([[1.0, 1.0], [-1.0, -1.0]])
        features, labels = np.vstack([near, far]), np.array([0, 0, 1, 1])
        arguments = features, labels, np.array([2, 2]), np.zeros((2, 2))
        variances = module.shaped_covariances(*arguments, shape, np.arange(2), prior)
        assert (variances[0] > 0.0).all() == (factor > 1.0)
        assert (variances[1] > 0.0).all() == (factor > 1.0 or shape != "common")


@pytest.mark.parametrize("shape", COVARIANCES)
def test_covariances_have_a_share_of_the_prior(shape: str) -> None:
    rng, labels = np.random.default_rng(5), np.repeat([0, 1], [5, 7])
    features = rng.normal(size=(12, 3)) @ rng.normal(size=(3, 3))
    features -= features.mean(axis=0)
    means = np.array([features[labels == 0].mean(axis=0), features[labels == 1].mean(axis=0), np.zeros(3)])
    prior = module.Prior(0.3, 1.5, kappa=0.7, total_variance=2.0)
    sizes = np.array([5, 7, 0])  # the last cluster is empty
    scatters = [
        np.zeros((3, 3)) + sum(np.outer(x, x) for x in features[labels == k] - means[k]) for k in range(3)
    ]
    if shape in ("common", "tied"):
        scatters, counts = [sum(scatters, np.zeros((3, 3)))] * 3, [12] * 3
    else:
        counts = sizes.tolist()
    expected: list[np.ndarray] = []
    for scatter, count in zip(scatters, counts, strict=True):
        matrix = (scatter + 0.3 * features.T @ features / 12) / (count + 1.5)
        variance = np.asarray((np.trace(scatter) + 0.7 * 3 * 2.0) / (3 * (count + 0.7)))
        values = {"spherical": variance, "common": variance, "diagonal": np.diag(matrix)}
        expected.append(values.get(shape, matrix))
    result = module.shaped_covariances(features, labels, sizes, means, shape, np.arange(3), prior)
    np.testing.assert_allclose(result, np.stack(expected))


def test_a_prior_is_as_strong_as_its_strength() -> None:
    ridge = 0.5 * 4.0 ** (-2.0 / 3.0)
    for shape, expected in (
        ("full", (ridge, 4.5)),
        ("tied", (ridge, 4.5)),
        ("diagonal", (0.1 * ridge, 1.25)),
    ):
        prior = module.prior_of(shape, n_dims=3, n_clusters=4, strength=0.5)
        assert prior == pytest.approx((*expected, 0.0, 0.0))
        assert module.prior_of(shape, 3, 4, 0.0) == (0.0, 0.0, 0.0, 0.0)
