"""Solvers keep one contract, whatever the clusters are made of."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.random import SeedSequence
from solving.answers import are_alike, layers_of

from sweep_clustering.kernels import structure
from sweep_clustering.kernels.settings import MODEL_ANY, settings_of
from sweep_clustering.kernels.solver.contract import Effort, Model, Solver
from sweep_clustering.kernels.solver.prepare import SOLVERS, distinct_fits, prepare
from sweep_clustering.kernels.unions import table as tables
from sweep_clustering.kernels.unions.race import unsupervised

N_SAMPLES = 60
SEED = SeedSequence(4)

MODELS = {
    "one Gaussian": Model("conditional", "diagonal", settings_of({})),
    "chosen shape": Model("conditional", "auto", settings_of({})),
    "named structure": Model("conditional", "full", settings_of({"components": 2})),
    "chosen structure": Model("conditional", "any", settings_of({})),
}


def blobs(n_samples: int = N_SAMPLES) -> tuple[Any, Any]:
    """Return samples of three classes, and annotations of pairs."""
    rng = np.random.default_rng(0)
    classes = np.arange(n_samples) % 3
    pairs = rng.integers(n_samples, size=(2 * n_samples, 2))
    layers = layers_of(pairs, are_alike(classes, pairs), accuracy=0.9)
    return rng.normal(size=(n_samples, 2)) + 4.0 * np.eye(3, 2)[classes], layers


def prepare_solver(name: str, run: Any = map) -> Solver:
    return prepare(MODELS[name], *blobs(), 3, SEED, run)


def streams(count: int) -> list[SeedSequence]:
    return [SeedSequence(4, spawn_key=(number,)) for number in range(count)]


def test_each_kind_of_clusters_has_a_solver() -> None:
    assert list(SOLVERS) == [kind.name for kind in reversed(structure.KINDS)]


@pytest.mark.parametrize("name", MODELS)
def test_a_choice_is_what_later_restarts_fit(name: str) -> None:
    solver = prepare_solver(name)
    choice = solver.solve(streams(2), predict=True)
    assert choice.name in choice.candidates
    assert choice.predictions is choice.candidates[choice.name]
    assert len(choice.fits) == 2
    for stream, fit in zip(streams(2), choice.fits, strict=True):
        again = solver.restart(stream)
        assert again.labels.tolist() == fit.labels.tolist()
        assert again.objective == fit.objective
    assert fit.objective == pytest.approx(fit.gmm + fit.sbm + fit.prior)
    assert fit.centroids.shape == (3, 2)
    assert np.isfinite(solver.criteria(fit).bic)


@pytest.mark.parametrize("members", [1, 4])
@pytest.mark.parametrize("name", MODELS)
def test_draws_are_partitions(name: str, members: int) -> None:
    solver = prepare_solver(name)
    fits = solver.solve(streams(2)).fits
    draws = solver.draws(fits, 0, SEED, Effort(8, 2, 1, members))
    partitions = np.concatenate(draws.labels)
    assert partitions.shape == (8, N_SAMPLES)
    assert set(np.unique(partitions)) <= {0, 1, 2}
    if draws.membership is not None:
        np.testing.assert_allclose(draws.membership.sum(axis=1), 1.0)


@pytest.mark.parametrize(
    ("name", "covariance", "term", "model_name"),
    [
        (MODEL_ANY, "any", "conditional", MODEL_ANY),
        ("conditional", "any", "conditional", MODEL_ANY),
        ("unsupervised", "any", "unsupervised", "unsupervised"),
        ("posterior", "tied", "posterior", "posterior"),
    ],
)
def test_models_have_names(name: str, covariance: str, term: str, model_name: str) -> None:
    model = Model.from_name(name, covariance, settings_of({}))
    assert model.term == term
    assert model.name == model_name


@pytest.mark.parametrize("n_fits", [40, 2000])
def test_ctrl_c_in_a_large_table_gives_labels_of_all_rows(
    n_fits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "LARGE", 100)
    monkeypatch.setattr(structure, "PART", 100)
    finished_fits = list[tuple[Any, Any]]()

    def run(function: Any, arguments: Any) -> list[Any]:
        results = []
        for argument in arguments:
            is_restart = isinstance(argument, SeedSequence) and len(finished_fits) > 1
            if len(finished_fits) == n_fits or (is_restart and finished_fits[-1][0] is not arguments[0]):
                raise KeyboardInterrupt
            results.append(function(argument))
            finished_fits.append((argument, results[-1]))
        return results

    X, layers = blobs(300)
    solver = prepare(MODELS["chosen structure"], X, layers, 3, SEED, run)
    with pytest.raises(KeyboardInterrupt):
        solver.solve(streams(4))
    choice = solver.salvage(finished_fits)
    assert choice is not None
    assert choice.is_interrupted
    assert choice.fits[0].labels.shape == (300,)
    assert np.isfinite(choice.fits[0].objective)
    assert solver.salvage([]) is None


@pytest.mark.parametrize("n_clusters", [2, 3])
def test_fits_to_the_features_alone_compare_numbers_of_clusters(n_clusters: int) -> None:
    X, layers = blobs()
    few = [replace(layer, pairs=layer.pairs[:20]) for layer in layers]
    solver = prepare(MODELS["chosen structure"], X, few, n_clusters, SEED)
    choice = solver.solve(streams(1), predict=True)
    assert any("without annotations" in name for name in choice.candidates)
    table = tables.Table(X, n_clusters, SEED)
    fits = map(table.fit_features, unsupervised(table, structure.CANDIDATES))
    icl = [tables.union_criteria(fit, table.place(fit.axes)).icl for fit in fits]
    assert solver.criteria(choice.fits[0]).icl_of_features == max(icl)


def test_features_that_say_less_than_annotations_do_not_compare() -> None:
    X, _ = blobs()
    halves = X[:, 0] * X[:, 1] > np.median(X[:, 0] * X[:, 1])
    pairs = np.random.default_rng(1).integers(N_SAMPLES, size=(300, 2))
    layers = layers_of(pairs, are_alike(halves, pairs))
    solver = prepare(MODELS["chosen structure"], X, layers, 2, SEED)
    choice = solver.solve(streams(1), predict=True)
    assert not any("without" in structure for structure in choice.candidates)
    assert solver.criteria(choice.fits[0]).icl_of_features is None


def test_fits_of_one_objective_and_other_sizes_are_distinct() -> None:
    fit = prepare_solver("one Gaussian").restart(SEED)
    other = fit._replace(sizes=fit.sizes + np.array([1, -1, 0]))
    assert distinct_fits([fit, fit], 0) == [fit]
    assert distinct_fits([fit, other], 0) == [fit, other]
