"""Measure the speed of the kernels: `pytest benchmarks`.

A candidate is a relocation that the search evaluates. The mixtures are those of the table in the documents.
"""

from collections.abc import Callable

import numpy as np
import pytest
from candidates import sweep_candidates
from solving.entries import collect, local_search
from speed import COUNTS, MODELS, mixture

from sweep_clustering.kernels.partition.statistics import new_state
from sweep_clustering.kernels.scores import (
    centroid_index,
    cluster_gaussians,
    goldberger_kl,
    nmi,
    total_variance,
)
from sweep_clustering.kernels.search.genetic import SearchSettings, run_restart
from sweep_clustering.kernels.settings import settings_of

Benchmark = Callable[..., object]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("m", COUNTS)
def test_candidates(benchmark: Benchmark, model: str, m: int) -> None:
    """About 1,000 candidates at a good solution of K = 6."""
    problem, _ = mixture(6, m, model)
    state = new_state(problem.data)
    state.labels[:] = run_restart(problem, SearchSettings(3, 3, 1), np.random.default_rng(0)).labels
    collect(problem.data, state)
    benchmark.extra_info["candidates"] = 5 * len(problem.data.annotated)  # type: ignore[attr-defined]
    benchmark(sweep_candidates, problem.data, state, 1)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("n_clusters", [2, 4, 6])
def test_local_search(benchmark: Benchmark, model: str, n_clusters: int) -> None:
    """From random labels, which takes longer than from an offspring."""
    problem, _ = mixture(n_clusters, 400, model)
    state = new_state(problem.data)
    labels = np.random.default_rng(0).integers(0, n_clusters, 200)

    def search() -> float:
        state.labels[:] = labels
        return local_search(problem.data, state, np.random.default_rng(1))

    benchmark(search)


@pytest.mark.parametrize("model", ["unsupervised", *MODELS])
@pytest.mark.parametrize("n_clusters", [2, 4, 6])
def test_restart(benchmark: Benchmark, model: str, n_clusters: int) -> None:
    """Ten generations: 110 local searches."""
    problem, _ = mixture(n_clusters, 400, model)
    settings = settings_of({"method": "published"})
    benchmark(lambda: run_restart(problem, settings, np.random.default_rng(0)))


def test_problem(benchmark: Benchmark) -> None:
    benchmark(mixture, 6, 400, "posterior")


def test_nmi(benchmark: Benchmark) -> None:
    _, labels = mixture(6, 400, "posterior")
    benchmark(nmi, labels, np.roll(labels, 3))


def test_goldberger_kl(benchmark: Benchmark) -> None:
    problem, labels = mixture(6, 400, "posterior")
    X = problem.data.X
    truth = cluster_gaussians(X, labels, 6)
    gaussians = cluster_gaussians(X, np.roll(labels, 3), 6)
    benchmark(goldberger_kl, *gaussians, *truth, total_variance(X))


def test_centroid_index(benchmark: Benchmark) -> None:
    problem, labels = mixture(6, 400, "posterior")
    _, truth, _ = cluster_gaussians(problem.data.X, labels, 6)
    benchmark(centroid_index, truth[::-1] + 0.1, truth)


def test_cluster_gaussians(benchmark: Benchmark) -> None:
    problem, labels = mixture(6, 400, "posterior")
    benchmark(cluster_gaussians, problem.data.X, labels, 6)
