"""Solvers keep one contract, whatever the clusters are made of."""

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.random import SeedSequence
from solving.answers import are_alike, layers_of

from sweep_clustering.kernels import structure
from sweep_clustering.kernels.choice import HeldOut
from sweep_clustering.kernels.fits import Gaussians
from sweep_clustering.kernels.settings import MODEL_ANY, settings_of
from sweep_clustering.kernels.solver.contract import Effort, Model, Solver
from sweep_clustering.kernels.solver.prepare import (
    DEPENDENCE,
    REFINED,
    SOLVERS,
    Unions,
    distinct_fits,
    prepare,
)
from sweep_clustering.kernels.structure import Structure
from sweep_clustering.kernels.unions import race
from sweep_clustering.kernels.unions import table as tables
from sweep_clustering.kernels.unions.race import Ranking, unsupervised
from sweep_clustering.sweeps.errors import present

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


@pytest.mark.parametrize(("n_fits", "n_restarts"), [(40, 0), (2000, 0), (2000, 2)])
def test_ctrl_c_in_a_large_table_gives_labels_of_all_rows(
    n_fits: int, n_restarts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "LARGE", 100)
    monkeypatch.setattr(structure, "PART", 100)
    finished_fits = list[tuple[Any, Any]]()

    def run(function: Any, arguments: Any) -> list[Any]:
        results = []
        for argument in arguments:
            is_last = isinstance(argument, SeedSequence) and argument is arguments[n_restarts]
            if len(finished_fits) == n_fits or is_last:
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
    trials = [result for _, result in finished_fits if isinstance(result, race.Trial)]
    count = sum(len(trial.predictions) for trial in trials)
    words = f"the best of {count} fits, most of which saw four fifths of the annotations"
    alarm = f"interrupted while structures were compared: {words}"
    assert choice.alarms == (() if n_restarts else (alarm,))
    assert len(choice.fits) == max(n_restarts, 1)
    assert {str(present(fit.gaussians).structure) for fit in choice.fits} == {choice.name}
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
    assert fit.covariances.shape == (3, 2)
    other = fit._replace(sizes=fit.sizes + np.array([1, -1, 0]))
    assert distinct_fits([fit, fit], 0) == [fit]
    assert distinct_fits([fit, other], 0) == [fit, other]
    near, far = (fit._replace(objective=fit.objective - gap) for gap in (9.9, 10.1))
    assert distinct_fits([far, near, fit], 2) == [fit, near]


@pytest.mark.parametrize(("predict", "counts"), [(False, [0, 4, 0]), (True, [1, 4, 1])])
def test_annotations_are_held_out_if_the_shape_is_open_or_predictions_are_asked_for(
    predict: bool, counts: list[int]
) -> None:
    names = ("one Gaussian", "chosen shape", "named structure")
    choices = [prepare_solver(name).choose(predict=predict) for name in names]
    assert [len(choice.candidates) for choice in choices] == counts
    for name, choice in zip(names, choices, strict=True):
        is_shown = predict or name == "chosen shape"
        assert (choice.predictions is not None) == is_shown
        by_shape = {"full": choice.candidates["2 full"]} if choice.name == "2 full" and predict else None
        assert choice.by_shape == (choice.candidates if by_shape is None else by_shape)


def test_a_named_structure_predicts_the_annotations_of_a_part() -> None:
    X, layers = blobs()
    rows = [replace(layer, pairs=layer.pairs[(layer.pairs < 45).all(axis=1)]) for layer in layers]
    choice = prepare_solver("named structure").choose(part=(X[:45], rows))
    assert list(choice.candidates) == ["2 full"]
    assert len(choice.candidates["2 full"].weights) == sum(
        int((layer.pairs[:, 0] != layer.pairs[:, 1]).sum()) for layer in rows
    )


def prepare_unions(
    monkeypatch: pytest.MonkeyPatch, candidates: dict[Structure, HeldOut], *structures: Structure
) -> Unions:
    """Return a solver whose ranking is known."""
    ranking = Ranking(structures, candidates, None)
    monkeypatch.setattr(race, "choose_structure", lambda *arguments, **options: ranking)
    solver = prepare_solver("chosen structure")
    assert isinstance(solver, Unions)
    solver.ranking = ranking
    return solver


BALL, TIED = (structure.Structure(structure.NONE, 1, shape) for shape in ("spherical", "tied"))


def test_many_draws_come_from_structures_by_how_well_they_predict(monkeypatch: pytest.MonkeyPatch) -> None:
    full, weights = BALL._replace(covariance="full"), np.array([1.0, 5.0, 0.5])
    logs = {TIED: [-0.2, -0.5, -0.1], full: [-0.1, -0.8, -0.1], BALL: [-9.0, -9.0, -9.0]}
    scores = {
        candidate: HeldOut(np.array(values), np.ones(3, bool), weights, np.ones(3))
        for candidate, values in logs.items()
    }
    solver = prepare_unions(monkeypatch, scores, BALL, TIED)
    solver.layers = [replace(layer, weights=np.full(len(layer.pairs), 2.0)) for layer in solver.layers]
    structures, resampled = list[Structure](), list[float]()

    def solve(member: Structure, layers: Any, *rest: Any, **options: Any) -> Any:
        structures.append(member)
        resampled.extend(layers[0].weights)
        return SimpleNamespace(classes=np.tile([0.2, 0.5, 0.3], (N_SAMPLES, 1)))

    monkeypatch.setattr(solver.table, "solve", solve)
    draws = solver.draws([], 0, SeedSequence(1), Effort(1200, 0, 0, 400))
    assert draws.labels.shape == (1, 1200, N_SAMPLES)
    assert not draws.is_numbered
    frequencies = np.bincount(draws.labels.ravel(), minlength=3) / draws.labels.size
    np.testing.assert_allclose(frequencies, [0.2, 0.5, 0.3], atol=0.01)
    odds = {candidate: math.exp(weights @ logs[candidate] / DEPENDENCE) for candidate in (TIED, full)}
    for candidate, value in odds.items():  # a coin predicts better than balls
        assert structures.count(candidate) / 400 == pytest.approx(value / sum(odds.values()), abs=0.06)
    assert np.mean(resampled) == pytest.approx(2.0, rel=0.05)
    assert np.std(resampled) == pytest.approx(2.0, rel=0.05)
    # without predictions, all structures are as likely
    structures.clear()
    solver.ranking = Ranking((BALL, TIED), {}, None)
    solver.draws([], 0, SEED, Effort(400, 0, 0, 400))
    assert structures.count(BALL) / 400 == pytest.approx(0.5, abs=0.08)


def test_draws_of_a_soft_partition_have_its_shares() -> None:
    solver = prepare_solver("named structure")
    first, second = solver.solve(streams(2)).fits
    shares = np.random.default_rng(0).dirichlet(np.ones(3), size=N_SAMPLES)
    fits = [first, solver.relabel(second, np.arange(N_SAMPLES), shares)]
    draws = solver.draws(fits, 1, SEED, Effort(4000, 0, 0, 1))
    assert draws.membership is not None
    np.testing.assert_allclose(draws.membership, shares)
    frequencies = (draws.labels[0][:, :, None] == np.arange(3)).mean(axis=0)
    np.testing.assert_allclose(frequencies, shares, atol=0.05)
    assert solver.feature_weight == 1.0


@pytest.mark.parametrize("n_short", [0, 1, 2])
def test_a_structure_whose_fit_falls_short_gives_way_to_the_next(
    n_short: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    score = HeldOut(np.zeros(1), np.ones(1, bool), np.ones(1), np.ones(1))
    solver = prepare_unions(monkeypatch, {BALL: score, TIED: score}, BALL, TIED)
    taken = list[Structure]()

    def falls_short(fit: Gaussians, annotations: Any, expected: HeldOut) -> str:
        taken.append(fit.structure)
        return "is bad" if len(taken) <= n_short else ""

    monkeypatch.setattr(race, "falls_short", falls_short)
    choice = solver.choose(streams(2))
    expected = (BALL, TIED)[min(n_short, 1)]
    assert taken == [BALL, TIED][: n_short + 1]
    assert choice.structure == expected
    assert {present(fit.gaussians).structure for fit in choice.fits} == {expected}
    assert len(choice.notes) == n_short
    assert all(note.endswith("whose fit is bad") for note in choice.notes)
    assert [alarm.split(":")[0] for alarm in choice.alarms] == ["every structure fell short of its folds"] * (
        n_short == 2
    )


@pytest.mark.parametrize("is_large", [False, True])
def test_groups_are_merged_in_few_restarts_and_once_in_a_large_table(
    is_large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_large:
        monkeypatch.setattr(tables, "LARGE", 100)
        monkeypatch.setattr(structure, "PART", 20)
        monkeypatch.setattr(structure, "PART_OF_CLASS", 10)
    merged = structure.Structure(structure.NONE, 1, structure.WARD)
    solver = prepare_unions(monkeypatch, {}, merged)
    assert (solver.part is not None) == is_large
    choice = solver.choose(streams(5))
    assert len(choice.fits) == (1 if is_large else 3)
    assert not any("restarts" in note for note in choice.notes)
    # of other structures a large table has the best restarts, which are fitted to all rows
    choice = prepare_unions(monkeypatch, {}, BALL).choose(streams(5))
    assert len(choice.fits) == (REFINED if is_large else 5)
    assert any("the best 2 of 5 restarts" in note for note in choice.notes) == is_large


def test_a_structure_that_was_chosen_before_is_fitted_without_a_choice() -> None:
    model = replace(MODELS["chosen structure"], structure=TIED)
    fit = prepare(model, *blobs(), 3, SEED).restart(SEED)
    assert present(fit.gaussians).structure == TIED
