"""A table says which structures it allows, and makes fits with the sizes, means and criteria of sums."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.random import SeedSequence
from numpy.typing import NDArray

from sweep_clustering.kernels import structure
from sweep_clustering.kernels.fits import Gaussians
from sweep_clustering.kernels.problem.data import MUST, Layer
from sweep_clustering.kernels.structure import (
    AVERAGE,
    DISCRIMINATIVE,
    KMEANS,
    NONE,
    Structure,
    most_supported,
)
from sweep_clustering.kernels.unions import table as module
from sweep_clustering.kernels.unions.table import Table

Floats = NDArray[np.float64]

X = np.random.default_rng(1).normal(5.0, 1.0, size=(120, 4)) * [4.0, 3.0, 2.0, 1.0]


def table_of(n_classes: int = 3) -> Table:
    return Table(X, n_classes, SeedSequence(0))


@pytest.mark.parametrize(
    ("covariance", "components", "operations"),
    [
        ("full", 2, 2 * 120 * 3 * 4 * 4),
        ("tied", 1, 120 * 3 * 4 * 4),
        ("spherical", 2, 2 * 120 * 3 * 4 * structure.SCATTERED),
        ("diagonal", 1, 120 * 3 * min(4 * structure.SCATTERED, 4 + structure.STEP_OVERHEAD)),
    ],
)
def test_a_structure_is_left_out_for_its_cost_from_one_operation_too_many(
    covariance: str, components: int, operations: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    candidate = Structure(NONE, components, covariance)
    monkeypatch.setattr(module, "DEAREST", operations)
    table = table_of()
    assert table.allows(candidate)
    assert not table.too_costly
    monkeypatch.setattr(module, "DEAREST", operations - 1)
    assert not table.allows(candidate)
    seconds = operations * module.SECONDS * module.FOLD_STEPS * 5 * 3  # five folds, three starts
    assert table.too_costly == {candidate: pytest.approx(seconds)}


def test_a_structure_of_more_components_than_rows_support_is_not_allowed() -> None:
    for covariance in ("full", "spherical"):
        most = most_supported(covariance, 120, 3)
        assert most == 10
        assert table_of().allows(Structure(NONE, most, covariance))
        assert not table_of().allows(Structure(NONE, most + 1, covariance))
    assert not table_of().allows(Structure(NONE, 2, "tied"))


def test_notes_name_the_costs_of_what_is_left_out() -> None:
    table, single, double = table_of(), Structure(NONE, 1, "full"), Structure(NONE, 2, "full")
    assert list(table.cost_notes()) == []
    table.too_costly = {single: 90.0}
    assert list(table.cost_notes()) == ["left out for their cost (about 1.5 min of a core): 1 full"]
    table.too_costly |= {double: 240.0}
    words = "left out for their cost (about 1.5 to 4 min each of a core): 2 structures, as 2 full"
    assert list(table.cost_notes()) == [words]


def soft_fit(covariance: str, components: int, proportions: str = "free") -> Gaussians:
    """Return Gaussians of two classes with random parameters and shares."""
    rng, n = np.random.default_rng(3), 2 * components
    variances = rng.uniform(0.5, 3.0, size=(n, 4))
    matrices = np.array([np.diag(row) for row in variances])
    return Gaussians(
        structure=Structure(NONE, components, covariance, proportions),
        class_of=np.arange(n) % 2,
        weights=rng.dirichlet(np.ones(n)),
        means=3.0 * rng.normal(size=(n, 4)),
        covariances={"tied": matrices[:1], "full": matrices}.get(covariance, variances),
        center=X.mean(axis=0),
        classes=rng.dirichlet(np.ones(2), size=120),
        terms=(-3.0, -2.0, -1.0),
        steps=7,
    )


@pytest.mark.parametrize(
    ("covariance", "components", "proportions", "of_shape", "of_shares"),
    [
        ("spherical", 2, "free", 4, 3),
        ("diagonal", 2, "free", 16, 3),
        ("tied", 1, "free", 10, 1),
        ("full", 2, "free", 40, 3),
        ("full", 1, "equal", 20, 0),
        (KMEANS, 1, "free", 1, 0),
        (AVERAGE, 3, "equal", 1, 0),
    ],
)
def test_criteria_are_sums_over_rows_and_classes(
    covariance: str, components: int, proportions: str, of_shape: int, of_shares: int
) -> None:
    fit, table = soft_fit(covariance, components, proportions), table_of(2)
    criteria = table.criteria(fit)
    assert criteria.parameters == 2 * components * 4 + of_shape + of_shares
    assert criteria.penalty == pytest.approx(0.5 * criteria.parameters * math.log(120))
    Z, matrices = X - X.mean(axis=0), np.broadcast_to(fit.matrices, (2 * components, 4, 4))
    densities, entropy, log_sum = np.zeros((120, 2)), 0.0, 0.0
    for g, mean in enumerate(fit.means):
        inverse, determinant = np.linalg.inv(matrices[g]), np.linalg.det(2.0 * math.pi * matrices[g])
        for row, z in enumerate(Z):
            power = -0.5 * (z - mean) @ inverse @ (z - mean)
            densities[row, fit.class_of[g]] += fit.weights[g] * math.exp(power) / math.sqrt(determinant)
    for row, density in enumerate(densities):
        shares = density / density.sum()
        entropy -= sum(share * math.log(share) for share in shares if share > 0.0)
        log_sum += math.log(density[fit.labels[row]])
    assert criteria.classification == pytest.approx(log_sum)
    assert criteria.surprise == pytest.approx(np.log(densities.sum(axis=1)).sum() - log_sum)
    assert criteria.entropy == pytest.approx(entropy)


@pytest.mark.parametrize(("steps", "n_caps"), [(module.STEPS - 1, 0), (module.STEPS, 1)])
def test_a_soft_fit_has_the_means_and_variances_of_its_shares(steps: int, n_caps: int) -> None:
    gaussians = replace(soft_fit("full", 1), steps=steps)
    fit = module.as_fit(X - X.mean(axis=0), gaussians)
    assert fit.sizes.tolist() == np.bincount(gaussians.labels, minlength=2).tolist()
    for c, shares in enumerate(gaussians.classes.T):
        mean = np.average(X, axis=0, weights=shares)
        np.testing.assert_allclose(fit.centroids[c], mean)
        squares = np.square(X - mean).mean(axis=1)
        assert fit.covariances[c] == pytest.approx(np.average(squares, weights=shares))
    assert (fit.gmm, fit.sbm, fit.prior) == gaussians.terms
    assert fit.objective == -6.0
    assert fit.evaluations == steps
    assert fit.caps_reached == n_caps
    lopsided = replace(gaussians, classes=np.tile([0.9, 0.1], (120, 1)))
    assert module.as_fit(X - X.mean(axis=0), lopsided).sizes.tolist() == [120, 0]


def test_k_means_has_the_mean_of_each_class_and_the_variance_within_them() -> None:
    labels = np.arange(120) % 3
    fit = module.hard_classes(X, labels, 3)
    means = np.array([X[labels == c].mean(axis=0) for c in range(3)])
    squares = np.square(X - means[labels])
    assert fit.structure == Structure(NONE, 1, KMEANS)
    np.testing.assert_allclose(fit.means, means)
    np.testing.assert_allclose(fit.covariances, squares.mean())
    np.testing.assert_array_equal(fit.classes, np.eye(3)[labels])
    assert fit.bound == pytest.approx(-squares.sum())
    assert module.hard_classes(X, np.arange(120), 120).covariances.min() > 0.0


def test_shares_that_count_are_kept_in_little_memory() -> None:
    shares = np.array([[1.0 - module.NEGLIGIBLE, module.NEGLIGIBLE], [1.0, 0.9 * module.NEGLIGIBLE]])
    compact = module.CompactGaussians.from_gaussians(replace(soft_fit("full", 1), classes=shares))
    assert compact.places.tolist() == [0, 1, 2]
    np.testing.assert_allclose(compact.to_gaussians().classes, [shares[0], [1.0, 0.0]], rtol=1e-6)


def test_directions_of_soft_classes_are_those_of_their_weighted_means() -> None:
    Z, shares = X - X.mean(axis=0), np.random.default_rng(0).dirichlet([0.2, 0.3, 0.5], size=120)
    sizes = shares.sum(axis=0)
    means = np.array([np.average(Z, axis=0, weights=column) for column in shares.T])
    between = sum(size * np.outer(mean, mean) for size, mean in zip(sizes, means, strict=True))
    within = Z.T @ Z - between
    within = 0.9 * within + 0.1 * np.trace(within) / 4.0 * np.eye(4)
    values, vectors = np.linalg.eig(np.linalg.solve(within, between))
    axes = module.discriminative(Z, shares)
    assert axes.shape == (4, 2)
    for axis, place in zip(axes.T, np.argsort(-values.real), strict=False):
        expected = vectors.real[:, place] / (Z @ vectors.real[:, place]).std()
        np.testing.assert_allclose(axis * np.sign(axis @ expected), expected, rtol=0.02, atol=1e-3)
    np.testing.assert_allclose((Z @ axes).std(axis=0), 1.0)


def test_the_best_fit_to_the_features_is_that_of_the_largest_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    table, bounds, calls = table_of(), [1.0, 3.0, 2.0], list[Any]()

    def solve(plain: Structure, layers: Any, rng: Any, *, labels: Any, **options: Any) -> Gaussians:
        calls.append((plain, layers, labels.tolist(), options))
        return replace(soft_fit("full", 1), terms=(bounds[len(calls) - 1], 0.0, 0.0))

    monkeypatch.setattr(table, "solve", solve)
    candidate = Structure(2, 2, "full")
    assert table.fit_features(candidate).bound == 3.0
    assert table.fit_features(candidate).bound == 3.0  # which is kept
    options = {"steps": module.FOLD_STEPS, "rise": module.FOLD_RISE}
    starts = [table.start(2, 6, number).tolist() for number in range(3)]
    assert calls == [(candidate._replace(annotated=False), (), start, options) for start in starts]


def test_annotations_that_are_laid_out_are_those_of_their_layers_alone() -> None:
    layers, others = list[Any](), list[Any]()
    table = table_of()
    table.lay_out(layers)
    assert table.links(layers) is table.links(layers)
    links = table.links(others)
    assert links is not table.links(layers)
    assert table.links(links) is links


@pytest.mark.parametrize(("steps", "expected"), [(40, [40, 15, 15, 40]), (9, [9, 9, 9, 9])])
def test_directions_and_classes_are_found_in_three_turns(
    steps: int, expected: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    table, finish, calls, fits = table_of(), Table.finish, list[Any](), list[Gaussians]()

    def note_call(self: Table, candidate: Structure, *rest: Any, **options: Any) -> Gaussians:
        calls.append((candidate, rest[3:], options.get("axes")))
        fits.append(finish(self, candidate, *rest, **options))
        return fits[-1]

    monkeypatch.setattr(Table, "finish", note_call)
    first = Structure(NONE, 1, "spherical")
    along = Structure(DISCRIMINATIVE, 1, "full", first=first)
    fit = table.solve(along, (), np.random.default_rng(0), steps=steps, rise=0.001)
    assert fit is fits[-1]
    assert [candidate for candidate, _, _ in calls] == [first, along, along, along]
    assert [rest for _, rest, _ in calls] == [(count, 0.001) for count in expected]
    for (_, _, axes), before in zip(calls[1:], fits, strict=False):
        np.testing.assert_array_equal(axes, module.discriminative(table.centered_X, before.classes))


def test_a_structure_without_annotations_does_not_see_them() -> None:
    layers = [Layer(MUST, np.random.default_rng(0).integers(120, size=(80, 2)), accuracy=0.9)]
    for is_annotated in (False, True):
        candidate = Structure(NONE, 1, "spherical", annotated=is_annotated)
        bounds = [table_of().solve(candidate, some, np.random.default_rng(0)).bound for some in (layers, ())]
        assert (bounds[0] == bounds[1]) != is_annotated


def test_a_fit_starts_from_as_many_components_as_its_structure_has(monkeypatch: pytest.MonkeyPatch) -> None:
    counts, first_labels = list[int](), module.first_labels

    def note_count(Z: Floats, n_components: int, *rest: Any) -> NDArray[np.int64]:
        counts.append(n_components)
        return first_labels(Z, n_components, *rest)

    monkeypatch.setattr(module, "first_labels", note_count)
    table_of().solve(Structure(NONE, 4, "spherical"), (), np.random.default_rng(0))
    assert counts == [12]
