"""What a worker does with a batch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import kernels.choice.held_out
import kernels.search.genetic
from kernels.choice.held_out import choose_covariance, held_out, list_annotations
from kernels.partition.objective import objective_terms
from kernels.problem.problem import build_problem, layers_from_annotations
from kernels.settings import CANDIDATES
from pipeline.work.records import Batch, Failure, Partial, Science, Work
from pipeline.work.tasks import run_batch
from sweeps.file.search import Search
from sweeps.inputs import RealSource, cell_annotations
from sweeps.plan import Cell
from sweeps.seeds import choice_seed
from sweeps.shapes import DIMS, SCORED
from sweeps.words import MODEL_CODES, split_model

SEARCH = Search(population=3, offspring=2, generations=2)
SCIENCE = Science(11, (SEARCH,), 3)
RNG = np.random.default_rng(3)
LABELS = np.repeat(np.arange(3, dtype=np.int16), 10)
SOURCE = RealSource(RNG.normal(size=(30, 2)) + 2.0 * LABELS[:, np.newaxis], LABELS)
CELLS = [
    Cell("blobs", None, None, None, None, "unsupervised"),
    Cell("blobs", None, 0.9, 40, 0, "likelihood"),
    Cell("blobs", None, 0.9, 40, 1, "posterior"),
]


def run(*work: Work, science: Science = SCIENCE) -> list[Partial]:
    results = run_batch(Batch(science, "blobs", work, 1.0), SOURCE)
    assert all(isinstance(result, Partial) for result in results)
    return [result for result in results if isinstance(result, Partial)]


def test_every_split_of_the_restarts_gives_the_same_bits() -> None:
    whole = run(*(Work(cell, 0, 4) for cell in CELLS))
    for cell, result in zip(CELLS, whole, strict=True):
        parts = run(Work(cell, 2, 4), Work(cell, 0, 1), Work(cell, 1, 2))
        objectives = np.concatenate([parts[1].objectives, parts[2].objectives, parts[0].objectives])
        assert np.array_equal(objectives, result.objectives)
        best = next(part for part in parts if part.best_restart == result.best_restart)
        for name in ("labels", "centroids", "covariances"):
            assert np.array_equal(getattr(best, name), getattr(result, name))


EVERY_MODEL = [
    Cell("blobs", None, *((None,) * 3 if model.startswith("unsupervised") else (0.9, 40, 0)), model)
    for model in MODEL_CODES
]


@pytest.mark.parametrize("cell", EVERY_MODEL, ids=lambda cell: cell.model)
def test_the_solution_has_the_objective_that_is_reported(cell: Cell) -> None:
    (result,) = run(Work(cell, 0, 3))
    annotations = cell_annotations(SCIENCE.seed, cell, LABELS, None)
    term, covariance = split_model(cell.model)
    assert (result.chosen is not None) == (covariance == "auto")
    covariance = result.shape
    layers = layers_from_annotations(annotations, cell.p)
    problem = build_problem(SOURCE.X, layers, n_clusters=3, model=term, covariance=covariance)
    assert result.covariances.shape == (3, *(SOURCE.X.shape[1] for _ in DIMS[covariance]))
    assert len(np.unique(result.covariances, axis=0)) == (1 if covariance in ("common", "tied") else 3)
    assert sum(objective_terms(problem, result.labels)) == result.objectives.max()
    assert result.objectives[result.best_restart] == result.objectives.max()
    assert result.seconds > 0


CHOOSING = Cell("blobs", None, 0.9, 40, 1, "posterior-auto")


def test_a_cell_chooses_its_shape_from_its_coordinates() -> None:
    (result,) = run(Work(CHOOSING, 0, 2))
    assert result.chosen is not None
    choice = choose_covariance(
        SOURCE.X,
        layers_from_annotations(cell_annotations(SCIENCE.seed, CHOOSING, LABELS, None), 0.9),
        n_clusters=3,
        model="posterior",
        settings=SEARCH,
        seed=choice_seed(
            SCIENCE.seed, "blobs", mixture=None, p=0.9, m=40, replicate=1, model="posterior-auto"
        ),
    )
    assert result.chosen.covariance == choice.covariance
    assert result.chosen.held_out == tuple(choice.candidates[shape].log_loss for shape in CANDIDATES)
    assert result.chosen.right == tuple(choice.candidates[shape].share_right for shape in CANDIDATES)
    assert 0 < result.choosing < result.seconds
    (again,) = run(Work(replace(CHOOSING, replicate=2), 0, 1))
    assert again.chosen is not None
    assert again.chosen.held_out != result.chosen.held_out


def test_a_cell_that_has_chosen_does_not_choose_again(monkeypatch: pytest.MonkeyPatch) -> None:
    (whole,) = run(Work(CHOOSING, 0, 4))
    (first,) = run(Work(CHOOSING, 0, 1))

    def refused(*args: object, **kwargs: object) -> None:
        raise AssertionError("chosen again")

    monkeypatch.setattr(kernels.choice.held_out, "choose_covariance", refused)
    (rest,) = run(Work(CHOOSING, 1, 4, chosen=first.chosen))
    assert np.array_equal(np.concatenate([first.objectives, rest.objectives]), whole.objectives)
    assert rest.chosen == first.chosen == whole.chosen
    assert rest.choosing == 0


def test_too_few_annotations_choose_the_simplest_shape_without_scores() -> None:
    (result,) = run(Work(replace(CHOOSING, m=10), 0, 1))
    assert result.chosen is not None
    assert result.shape == "spherical"
    assert np.isnan([result.chosen.held_out, result.chosen.right]).all()
    assert result.covariances.shape == (3,)


ASKED = replace(SCIENCE, searches=(replace(SEARCH, held_out=True),))


@pytest.mark.parametrize("cell", EVERY_MODEL, ids=lambda cell: cell.model)
def test_every_model_is_scored_on_annotations_that_it_has_not_seen(cell: Cell) -> None:
    (plain,) = run(Work(cell, 0, 2))
    (result,) = run(Work(cell, 0, 2), science=ASKED)
    for name in ("objectives", "labels", "centroids", "covariances"):
        assert np.array_equal(getattr(plain, name), getattr(result, name))
    if cell.p is None:
        assert result.chosen is None
        assert result.choosing == 0
        return
    assert result.chosen is not None
    term, covariance = split_model(cell.model)
    tried = CANDIDATES if covariance == "auto" else (covariance,)
    assert result.chosen.covariance == (plain.shape if covariance == "auto" else covariance)
    where = {"mixture": None, "p": 0.9, "m": 40, "replicate": 0, "model": cell.model}
    layers = layers_from_annotations(cell_annotations(SCIENCE.seed, cell, LABELS, None), 0.9)
    seed = choice_seed(SCIENCE.seed, "blobs", **where)  # type: ignore[arg-type]
    annotations = list_annotations(layers, seed)
    for shape, loss, share in zip(SCORED, result.chosen.held_out, result.chosen.right, strict=True):
        if shape not in tried:
            assert np.isnan([loss, share]).all()
            continue
        given = {"n_clusters": 3, "model": term, "covariance": shape, "settings": SEARCH, "seed": seed}
        found = held_out(SOURCE.X, layers, annotations, **given)  # type: ignore[arg-type]
        assert (loss, share) == (found.log_loss, found.share_right)
    if plain.chosen is not None:
        assert plain.chosen.held_out == result.chosen.held_out[: len(CANDIDATES)]
    assert 0 < result.choosing < result.seconds


def test_a_cell_with_too_few_annotations_has_no_scores() -> None:
    for m, is_scored in ((19, False), (200, True)):
        (result,) = run(Work(replace(CELLS[1], m=m), 0, 1), science=ASKED)
        assert result.chosen is not None
        assert result.chosen.covariance == result.shape == "spherical"
        scores = np.array([result.chosen.held_out, result.chosen.right])
        assert (~np.isnan(scores)).sum() == 2 * is_scored


def test_models_of_a_cell_see_the_same_annotations() -> None:
    one, other = (Cell("blobs", None, 0.9, 40, 0, model) for model in ("likelihood", "posterior"))
    assert np.array_equal(cell_annotations(1, one, LABELS, None), cell_annotations(1, other, LABELS, None))
    assert cell_annotations(1, CELLS[0], LABELS, None).shape == (0, 3)


def test_annotations_of_a_file_are_drawn_whatever_the_models_are_told() -> None:
    pool = np.column_stack([np.arange(60) % 30, np.arange(60) % 7, np.arange(60) % 2]).astype(np.int32)
    one, told, other = (
        Cell("blobs", None, p, 40, r, "likelihood") for p, r in ((0.9, 0), (0.6, 0), (0.9, 1))
    )
    drawn = cell_annotations(1, one, None, pool)
    assert len(np.unique(drawn, axis=0)) == len(drawn) == 40
    assert {*map(tuple, drawn.tolist())} <= {*map(tuple, pool.tolist())}
    assert np.array_equal(drawn, cell_annotations(1, told, LABELS, pool))
    assert not np.array_equal(drawn, cell_annotations(1, other, None, pool))
    assert cell_annotations(1, CELLS[0], None, pool).shape == (0, 3)


def test_models_and_methods_see_the_annotations_of_the_source() -> None:
    pool = np.array([(i, (i + 3) % 30, 0) for i in range(30)] * 2, dtype=np.int32)
    cell = Cell("blobs", None, 0.9, 50, 0, "posterior")
    without_labels = RealSource(SOURCE.X, None, pool)
    (result,) = run_batch(Batch(SCIENCE, "blobs", (Work(cell, 0, 2),), 0.0), without_labels)
    assert isinstance(result, Partial)
    layers = layers_from_annotations(cell_annotations(SCIENCE.seed, cell, None, pool), 0.9)
    problem = build_problem(SOURCE.X, layers, n_clusters=3, model="posterior", covariance="spherical")
    assert sum(objective_terms(problem, result.labels)) == result.objectives.max()


def test_a_cell_that_raises_costs_that_cell_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    solve = kernels.search.genetic.run_restart

    def picky(problem: object, settings: object, rng: np.random.Generator) -> object:
        if run_restart_calls.pop(0):
            raise RuntimeError("this kernel broke")
        return solve(problem, settings, rng)  # type: ignore[arg-type]

    run_restart_calls = [False, True, False]
    monkeypatch.setattr(kernels.search.genetic, "run_restart", picky)
    first, second, third = run_batch(
        Batch(SCIENCE, "blobs", tuple(Work(cell, 0, 1) for cell in CELLS), 1.0), SOURCE
    )
    assert isinstance(first, Partial)
    assert isinstance(third, Partial)
    assert isinstance(second, Failure)
    assert second.cause == "RuntimeError: this kernel broke"
    assert "picky" in second.traceback
    assert second.node
