"""Statistics from members, and the terms of one cluster, against sums written out."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from solving.entries import plain
from solving.oracles import adjacency, draw_case, draw_labels, rates

from kernels.partition import statistics
from kernels.partition.state import new_state
from kernels.partition.statistics import (
    cluster_term,
    collect_edges,
    collect_gaussians,
    error_without,
    is_degenerate,
    prior_rate,
    sum_of_squares,
)
from kernels.problem.problem import build_problem

# Logarithms of whole arrays, and x log x.


def test_array_log() -> None:
    from kernels.partition.statistics import array_log

    rng = np.random.default_rng(0)
    values = np.concatenate([np.exp(rng.normal(0, 20, 500)), 1 + rng.normal(0, 1e-6, 500), [0.5, 1.0, 2.0]])
    logs = np.empty_like(values)
    plain(array_log)(values, logs)
    np.testing.assert_array_max_ulp(logs, np.log(values), 3)
    assert logs[-2] == 0.0


# The small matrices against numpy.

factorise = plain(statistics.factorise)
invert = plain(statistics.invert)
solved_square = plain(statistics.solved_square)
quadratic_form = plain(statistics.quadratic_form)
multiply = plain(statistics.multiply)
add_outer = plain(statistics.add_outer)

SIZES = [1, 3, 4, 5, 11]


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


collect_edges = plain(collect_edges)
collect_gaussians = plain(collect_gaussians)
error_without = plain(error_without)
cluster_term = plain(cluster_term)
is_degenerate = plain(is_degenerate)
prior_rate = plain(prior_rate)
sum_of_squares = plain(sum_of_squares)


@pytest.mark.parametrize("far", [0.0, 1e3, -1e6])
@pytest.mark.parametrize(
    "labels", [[0] * 8, [0, 1, 1, 0, 1, 1, 1, 0], [0, 1, 2, 3, 3, 2, 1, 3], [3, 1, 1, 1, 2, 2, 2, 2]]
)
def test_sizes_means_and_errors_are_those_of_the_members(labels: list[int], far: float) -> None:
    X = np.random.default_rng(sum(labels)).normal(size=(8, 3))
    data = build_problem(X + far, n_clusters=4, model="unsupervised").data
    state = new_state(data)
    state.labels[:] = labels
    collect_gaussians(data, state)
    for r in range(4):
        members = data.X[state.labels == r]
        assert state.sizes[r] == len(members)
        mean = members.mean(axis=0) if len(members) else np.zeros(3)
        np.testing.assert_allclose(state.means[:, r], mean, atol=1e-12)
        assert state.errors[r] == pytest.approx(np.sum((members - mean) ** 2), abs=1e-9)
    for sample in range(8):
        own = labels[sample]
        others = data.X[(state.labels == own) & (np.arange(8) != sample)]
        wanted = np.sum((others - others.mean(axis=0)) ** 2) if len(others) else 0.0
        assert error_without(data, state, sample, own) == pytest.approx(wanted, abs=1e-9)


@pytest.mark.parametrize("model", ["likelihood", "posterior"])
def test_edge_counts_are_sums_over_ordered_pairs(model: str) -> None:
    for seed in range(2):
        case = draw_case(seed, model=model, n_clusters=4, m=40)
        data = case.problem().data
        state = new_state(data)
        state.labels[:] = draw_labels(case, seed)
        collect_edges(data, state)
        Z = np.eye(4)[state.labels]
        for counts, layer in zip(state.edge_counts, case.layers, strict=True):
            np.testing.assert_array_equal(counts, Z.T @ adjacency(layer, len(Z)) @ Z)
            assert counts.sum() == 2 * len(layer.pairs)


@pytest.mark.parametrize("accuracies", [(0.9, 0.6), (1.0, 1.0), (0.1, 0.5)])
def test_rate_of_the_prior_is_that_of_the_model(accuracies: tuple[float, float]) -> None:
    case = draw_case(0, accuracies=accuracies)
    data = case.problem().data
    for sizes in ([8, 8, 8], [1, 3, 20], [0, 0, 24]):
        squares = sum_of_squares(np.array(sizes))
        assert squares == sum(n * n for n in sizes)
        for number, layer in enumerate(case.layers):
            inner, outer = rates(layer, np.array(sizes), float(data.totals[number]))
            found = prior_rate(data, number, squares)
            assert found == pytest.approx(inner, rel=1e-12)
            assert found / data.spread[number] == pytest.approx(outer, rel=1e-12)


@pytest.mark.parametrize("kappa", [0.0, 1.5])
def test_a_cluster_adds_the_maximum_over_its_variance(kappa: float) -> None:
    """The term at the best variance, found by trying many."""
    case = replace(draw_case(0, model="unsupervised"), kappa=kappa)
    data = case.problem().data
    n, d, error = 7, data.X.shape[1], 11.0
    variances = np.exp(np.linspace(-6, 6, 400001))
    scatter = error + kappa * d * data.total_variance
    values = -0.5 * (n + kappa) * d * np.log(variances) - 0.5 * scatter / variances
    assert cluster_term(data, n, error) == pytest.approx(values.max(), abs=1e-6)
    everything = -0.5 * (24 + kappa) * d * np.log(variances) - 0.5 * scatter / variances
    assert cluster_term(data, 24, error) == pytest.approx(everything.max(), abs=1e-6)


def test_degenerate_clusters_add_nothing_unless_the_variance_has_a_prior() -> None:
    case = draw_case(0, model="unsupervised")
    data = case.problem().data
    least = 1e-10 * data.total_variance * data.X.shape[1]
    for size, error, degenerate in (
        (0, 0.0, True),
        (1, 5.0, True),
        (4, 0.0, True),
        (4, 3.99 * least, True),
        (4, 4.01 * least, False),
    ):
        assert is_degenerate(data, size, error) == degenerate
        assert (cluster_term(data, size, error) == 0.0) == degenerate
    bounded = replace(case, kappa=0.5).problem().data
    assert not is_degenerate(bounded, 1, 0.0)
    assert np.isfinite(cluster_term(bounded, 0, 0.0))
