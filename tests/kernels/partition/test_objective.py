"""The objective equals published numbers; `test_gains` compares it with the slow twins."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from solving.entries import plain_kernel
from solving.oracles import draw_case

from sweep_clustering.kernels.partition import statistics
from sweep_clustering.kernels.partition.blockmodel import largest_curvature
from sweep_clustering.kernels.partition.objective import objective_terms
from sweep_clustering.kernels.problem.data import CANNOT, MUST
from sweep_clustering.kernels.problem.problem import Layer, build_problem
from sweep_clustering.kernels.search.genetic import SearchSettings, run_restart


@pytest.mark.parametrize(
    ("model", "truth", "best"),
    [("likelihood", -7664.0184, -7429.1792), ("posterior", -7595.3676, -7373.1052),
     ("unsupervised", None, -5437.2074)],
)  # fmt: skip
def test_published_instance(shared_data: Path, model: str, truth: float | None, best: float) -> None:
    """The values of the classes and of the best known partition are those that were published."""
    folder, layers = shared_data / "reference-vertebral", []
    for name, kind in {"must": MUST, "cannot": CANNOT}.items():
        table = np.loadtxt(folder / f"vertebral-{name}.link", dtype=np.int64)
        weights = np.where(table[:, 0] == table[:, 1], 0.5, 1.0) * table[:, 2]
        layers.append(Layer(kind, table[:, :2] - 1, weights, 0.9))
    labels = np.loadtxt(folder / "vertebral.label", dtype=np.int64) - 1
    problem = build_problem(np.loadtxt(folder / "vertebral.data"), layers, n_clusters=3, model=model)
    if truth is not None:
        assert sum(objective_terms(problem, labels)) == pytest.approx(truth, abs=1e-4)
    objective = run_restart(problem, SearchSettings(10, 10, 50), np.random.default_rng(0)).objective
    assert objective >= best - 1e-3


def test_array_log() -> None:
    rng = np.random.default_rng(0)
    values = np.concatenate([np.exp(rng.normal(0, 20, 500)), 1 + rng.normal(0, 1e-6, 500), [0.5, 1.0, 2.0]])
    logs = np.empty_like(values)
    plain_kernel(statistics.array_log)(values, logs)
    np.testing.assert_array_max_ulp(logs, np.log(values), 3)
    assert logs[-2] == 0.0


def test_degenerate_clusters_add_nothing_unless_the_variance_has_a_prior() -> None:
    case = draw_case(0, model="unsupervised")
    data, bounded = case.problem().data, replace(case, kappa=0.5).problem().data
    least = 1e-10 * data.total_variance * data.X.shape[1]
    term, is_degenerate = plain_kernel(statistics.cluster_term), plain_kernel(statistics.is_degenerate)
    for size, error, degenerate in ((0, 0.0, True), (1, 5.0, True), (4, 3.99, True), (4, 4.01, False)):
        assert is_degenerate(data, size, error * least) == degenerate
        assert (term(data, size, error * least) == 0.0) == degenerate
    assert not is_degenerate(bounded, 1, 0.0)
    assert np.isfinite(term(bounded, 0, 0.0))


def test_curvature_is_bounded_between_two_shares() -> None:
    for low, high in ((0.0, 1.0), (0.1, 0.3), (0.6, 0.9), (0.3, 0.6), (0.5, 0.5)):
        shares, curvature = np.linspace(low, high, 101), plain_kernel(largest_curvature)(low, high)
        largest = 0.25 if low <= 0.5 <= high else max(low * (1 - low), high * (1 - high))
        assert (shares * (1.0 - shares)).max() - 1e-15 <= curvature <= largest + 1e-15
