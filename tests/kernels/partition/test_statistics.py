"""Logarithms of whole arrays, and what is degenerate."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from solving.entries import plain
from solving.oracles import draw_case

from kernels.partition import statistics
from kernels.partition.blockmodel import largest_curvature


def test_array_log() -> None:
    rng = np.random.default_rng(0)
    values = np.concatenate([np.exp(rng.normal(0, 20, 500)), 1 + rng.normal(0, 1e-6, 500), [0.5, 1.0, 2.0]])
    logs = np.empty_like(values)
    plain(statistics.array_log)(values, logs)
    np.testing.assert_array_max_ulp(logs, np.log(values), 3)
    assert logs[-2] == 0.0


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


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (0.1, 0.3), (0.6, 0.9), (0.3, 0.6), (0.5, 0.5)])
def test_curvature_is_bounded_between_two_shares(low: float, high: float) -> None:
    shares = np.linspace(low, high, 101)
    largest = (shares * (1.0 - shares)).max()
    found = plain(largest_curvature)(low, high)
    assert largest <= found + 1e-15
    assert found <= max(low * (1 - low), high * (1 - high), 0.25 * (low <= 0.5 <= high)) + 1e-15
