"""Parts of the objective and of its increments, against sums written out."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from solving.entries import collected, plain
from solving.oracles import Case, adjacency, draw_case, draw_labels, objective_parts, rates

from kernels.partition import shaped, statistics
from kernels.partition.blockmodel import JOIN, LEAVE, NOW, RATE, SWAP, largest_curvature

# Logarithms of whole arrays, and the small matrices, against numpy.


def test_array_log() -> None:
    rng = np.random.default_rng(0)
    values = np.concatenate([np.exp(rng.normal(0, 20, 500)), 1 + rng.normal(0, 1e-6, 500), [0.5, 1.0, 2.0]])
    logs = np.empty_like(values)
    plain(statistics.array_log)(values, logs)
    np.testing.assert_array_max_ulp(logs, np.log(values), 3)
    assert logs[-2] == 0.0


@pytest.mark.parametrize("size", [1, 3, 4, 5, 11])
def test_small_matrices(size: int) -> None:
    rng = np.random.default_rng(size)
    root = rng.normal(size=(size, size + 2)) * np.logspace(-2, 2, size)[:, None]
    matrix, vector = root @ root.T, rng.normal(size=size)
    factor, inverse, product = matrix.copy(), np.full((size, size), np.nan), np.full(size, np.nan)
    assert plain(shaped.factorise)(factor) == pytest.approx(np.linalg.slogdet(matrix)[1], rel=1e-10)
    np.testing.assert_allclose(np.tril(factor), np.linalg.cholesky(matrix), rtol=1e-7)
    plain(shaped.invert)(factor, inverse)
    np.testing.assert_array_equal(inverse, inverse.T)
    np.testing.assert_allclose(inverse, np.linalg.inv(matrix), rtol=1e-6)
    wanted = vector @ np.linalg.solve(matrix, vector)
    assert plain(shaped.quadratic_form)(inverse, vector) == pytest.approx(wanted, rel=1e-7)
    assert plain(shaped.solved_square)(factor, vector.copy()) == pytest.approx(wanted, rel=1e-7)
    plain(shaped.multiply)(matrix, vector, product)
    np.testing.assert_allclose(product, matrix @ vector)
    changed = matrix.copy()
    plain(shaped.add_outer)(changed, vector, -0.5)
    np.testing.assert_allclose(changed, matrix - 0.5 * np.outer(vector, vector))


def test_no_factor_of_what_is_not_positive_definite() -> None:
    for matrix in (np.array([[1.0, 2.0], [2.0, 1.0]]), np.zeros((1, 1)), -np.eye(3)):
        assert math.isnan(plain(shaped.factorise)(matrix))


# Terms of one cluster.


@pytest.mark.parametrize("kappa", [0.0, 1.5])
def test_a_cluster_adds_the_maximum_over_its_variance(kappa: float) -> None:
    """The term at the best variance, found by trying many."""
    data = replace(draw_case(0, model="unsupervised"), kappa=kappa).problem().data
    d, error = data.X.shape[1], 11.0
    variances = np.exp(np.linspace(-6, 6, 400001))
    scatter = error + kappa * d * data.total_variance
    for n in (7, 24):
        values = -0.5 * (n + kappa) * d * np.log(variances) - 0.5 * scatter / variances
        assert plain(statistics.cluster_term)(data, n, error) == pytest.approx(values.max(), abs=1e-6)


def test_degenerate_clusters_add_nothing_unless_the_variance_has_a_prior() -> None:
    case = draw_case(0, model="unsupervised")
    data, bounded = case.problem().data, replace(case, kappa=0.5).problem().data
    least = 1e-10 * data.total_variance * data.X.shape[1]
    term, is_degenerate = plain(statistics.cluster_term), plain(statistics.is_degenerate)
    cases = {(0, 0.0): True, (1, 5.0): True, (4, 0.0): True, (4, 3.99): True, (4, 4.01): False}
    for (size, error), degenerate in cases.items():
        assert is_degenerate(data, size, error * least) == degenerate
        assert (term(data, size, error * least) == 0.0) == degenerate
    assert not is_degenerate(bounded, 1, 0.0)
    assert np.isfinite(term(bounded, 0, 0.0))


# What a relocation does to the counts as they are: tables, and the bound on what the series leaves out.


@pytest.mark.parametrize("accuracies", [(0.9, 0.9), (1.0, 0.6), (0.2, 1.0)])
@pytest.mark.parametrize("model", ["likelihood", "posterior"])
def test_base_is_the_gain_of_sizes_alone_within_the_slack(
    model: str, accuracies: tuple[float, float]
) -> None:
    """The last sample, 23, is in no pair: moving it changes sizes alone."""
    case = draw_case(0, model=model, n_clusters=4, m=40, accuracies=accuracies)
    assert all((layer.pairs < 23).all() for layer in case.layers)
    inexact = 0
    for source in range(4):
        labels = draw_labels(case, 0)
        labels[23] = source
        state = collected(case.problem().data, labels)
        before = sum(objective_parts(case, labels)[1:])
        for target in set(range(4)) - {source}:
            moved = labels.copy()
            moved[23] = target
            slack = state.slack[0, source, target]
            wanted = sum(objective_parts(case, moved)[1:]) - before
            assert abs(state.base[source, target] - wanted) <= slack + 1e-9
            inexact += slack > 0.0
    # The likelihood has no prior rates, and its table is the exact change.
    assert (inexact > 0) == (model == "posterior")


def test_logarithms_of_the_four_pairs_of_sizes() -> None:
    case: Case = draw_case(2, n_clusters=3)
    labels = draw_labels(case, 2)
    state = collected(case.problem().data, labels)
    sizes = np.bincount(labels, minlength=3)
    for number, layer in enumerate(case.layers):
        m = float(adjacency(layer, 24).sum() / 2)
        inner, outer = rates(layer, sizes, m)
        for r, c in np.ndindex(3, 3):
            n, k = float(sizes[r]), float(sizes[c])
            pairs, rate = {NOW: n * k, JOIN: n * (k + 1), LEAVE: (n - 1) * k, SWAP: (n - 1) * (k + 1)}, outer
            if r == c:
                pairs, rate = {NOW: n**2, JOIN: (n + 1) ** 2, LEAVE: (n - 1) ** 2}, 2 * inner
            for table, exposure in pairs.items():
                wanted = np.log(exposure + rate)
                assert state.logs[number, table, r, c] == pytest.approx(wanted, rel=1e-12)
            if r != c:
                changed, _ = rates(layer, sizes + np.eye(3, dtype=int)[c] - np.eye(3, dtype=int)[r], m)
                assert state.logs[number, RATE, r, c] == pytest.approx(np.log(changed / inner), abs=1e-12)


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (0.1, 0.3), (0.6, 0.9), (0.3, 0.6), (0.5, 0.5)])
def test_curvature_is_bounded_between_two_shares(low: float, high: float) -> None:
    shares = np.linspace(low, high, 101)
    largest = (shares * (1.0 - shares)).max()
    found = plain(largest_curvature)(low, high)
    assert largest <= found + 1e-15
    assert found <= max(low * (1 - low), high * (1 - high), 0.25 * (low <= 0.5 <= high)) + 1e-15
