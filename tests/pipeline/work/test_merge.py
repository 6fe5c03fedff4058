"""Merging of partial results."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from cubes.small import make_plan

from pipeline.common import best_of
from pipeline.work.merge import BlockResult, CellResult, Mismatch, from_record, to_record
from pipeline.work.records import Chosen, Partial, Work
from pipeline.work.tasks import missing_ranges
from storage.cube.schema import DONE, FAILED, NO_SOLUTION, PENDING
from sweeps.plan import Block, Cell

CELL = Cell("iris", None, 0.9, 75, 1, "posterior")
OBJECTIVES = np.array([-3.0, -1.0, -2.0, -1.0, -5.0])


def block_of(replicates: range, *models: str) -> Block:
    plan = make_plan(
        "iris", m=(75,), replicates=replicates.stop, replicate_chunk=len(replicates), models=models
    )
    return plan.block_of(Cell("iris", None, 0.9, 75, replicates.start, models[0]))


def partial(start: int, stop: int, objectives: np.ndarray = OBJECTIVES, cell: Cell = CELL) -> Partial:
    """A result whose solution tells which restart it comes from."""
    part = objectives[start:stop]
    best = start + best_of(part)
    return Partial(
        Work(cell, start, stop),
        part.copy(),
        best,
        np.full(4, best, np.int16),
        np.full((2, 3), float(best)),
        np.full(2, float(best)),
        0.5 * (stop - start),
        0.25 * (stop - start),
    )


NAN = float("nan")
CHOSEN = Chosen("diagonal", (0.5, 0.4, 0.39, 0.41), (0.7, 0.8, 0.8, 0.8))
CHOOSING = replace(CELL, model="posterior-auto")


def chosen(start: int, stop: int, choice: Chosen = CHOSEN, **changes: int) -> Partial:
    """A result of a cell that chose its shape."""
    found = partial(start, stop, cell=replace(CHOOSING, **changes))
    form = {"spherical": (2,), "diagonal": (2, 3), "full": (2, 3, 3)}[choice.covariance]
    return replace(found, covariances=np.full(form, 2.0), chosen=choice)


FIXED = Chosen("spherical", (0.6, NAN, NAN, NAN, NAN), (0.7, NAN, NAN, NAN, NAN))
EVERY = replace(CHOSEN, held_out=(*CHOSEN.held_out, NAN), right=(*CHOSEN.right, NAN))


METHOD = replace(CELL, model="mine")


def called(start: int, *objectives: float | None) -> Partial:
    """Calls of a method: NaN for a solution without an objective, None for no solution."""
    values = np.array([NAN if value is None else value for value in objectives])
    solved = [place for place, value in enumerate(objectives) if value is not None]
    best = max(
        solved, key=lambda place: (-np.inf if np.isnan(values[place]) else values[place], -place), default=-1
    )
    found = (
        partial(0, 1, values[:1], METHOD)
        if solved and not np.isnan(values[0])
        else partial(0, 1, cell=METHOD)
    )
    restart = start + best if solved else -1
    return replace(
        found,
        work=Work(METHOD, start, start + len(objectives)),
        objectives=values,
        best_restart=restart,
        labels=np.full(4, restart, np.int16),
    )


RECORDS = {
    "restarts": [partial(0, 2), partial(2, 5, cell=Cell("mix", 3, None, None, None, "unsupervised"))],
    "several shapes": [
        replace(partial(0, 2, cell=replace(CELL, model=model)), covariances=np.full(shape, 0.5))
        for model, shape in (
            ("posterior", (2,)),
            ("posterior-diagonal", (2, 3)),
            ("posterior-full", (2, 3, 3)),
        )
    ],
    "choices": [
        chosen(0, 2),
        partial(0, 2),
        chosen(1, 3, Chosen("spherical", (NAN,) * 4, (NAN,) * 4), replicate=2),
    ],
    "scores of every model": [
        chosen(0, 5, EVERY),
        replace(partial(0, 5), chosen=FIXED),
        partial(0, 5, cell=Cell("iris", None, None, None, None, "unsupervised")),
    ],
    "calls": [called(0, None), called(1, NAN, -2.0)],
}


@pytest.mark.parametrize("what", RECORDS)
def test_a_journal_record_gives_back_what_went_in(what: str) -> None:
    header, arrays = to_record(RECORDS[what])
    for before, after in zip(RECORDS[what], from_record(header, arrays), strict=True):
        for name in ("work", "best_restart", "solved", "seconds", "shape"):
            assert getattr(before, name) == getattr(after, name)
        assert (before.chosen is None) == (after.chosen is None)
        assert before.chosen is None or after.chosen is None or before.chosen.is_same(after.chosen)
        for name in ("objectives", "labels", "centroids", "covariances"):
            one, other = getattr(before, name), getattr(after, name)
            assert np.array_equal(one, other, equal_nan=one.dtype.kind == "f")
            assert one.dtype == other.dtype


def test_a_journal_record_has_as_many_arrays_for_a_thousand_cells_as_for_one() -> None:
    assert len(to_record([partial(0, 2)] * 1000)[1]) == len(to_record([partial(0, 2)])[1])
    assert to_record(RECORDS["several shapes"])[1]["covariances"].shape == (3, 2, 3, 3)
    assert to_record(RECORDS["choices"])[1]["covariance_shape"].tolist() == [2, 0]
    assert to_record(RECORDS["scores of every model"])[1]["held_out"].shape == (2, 5)


def test_any_order_of_any_split_gives_the_same_cell() -> None:
    for cuts in [(0, 5), (0, 2, 5), (0, 1, 3, 5), (0, 1, 2, 3, 4, 5)]:
        parts = [partial(a, b) for a, b in itertools.pairwise(cuts)]
        for order in itertools.permutations(parts):
            result = CellResult(CELL, 5)
            for position, part in enumerate(order):
                assert result.status == (PENDING if position < len(parts) else DONE)
                result.add(part)
            assert result.status == DONE
            assert result.best is not None
            assert result.best.best_restart == 1  # restart 3 is as good: the lowest wins
            assert np.array_equal(result.objectives, OBJECTIVES)
            assert result.seconds == pytest.approx(2.5)


def test_what_is_missing_is_asked_for_again() -> None:
    result = CellResult(CELL, 5)
    result.add(partial(1, 2))
    result.add(partial(4, 5))
    assert [(work.start, work.stop) for work in result.missing()] == [(0, 1), (2, 4)]
    assert missing_ranges(3, []) == [(0, 3)]
    assert missing_ranges(3, [0, 1, 2]) == []


def test_a_restart_computed_twice_must_give_the_same_bits() -> None:
    result = CellResult(CELL, 5)
    result.add(partial(0, 3))
    result.add(partial(2, 5))
    assert result.status == DONE
    other = OBJECTIVES.copy()
    other[2] = np.nextafter(other[2], 0)
    with pytest.raises(Mismatch, match=r"iris/p=0.9/m=75/replicate=1/posterior, restart 2"):
        result.add(partial(1, 4, other))


def test_an_objective_that_is_not_finite_is_no_result() -> None:
    with pytest.raises(ArithmeticError):
        best_of([1.0, float("nan")])


def test_what_is_missing_of_a_cell_that_has_chosen_knows_it() -> None:
    result = CellResult(CHOOSING, 5)
    assert list(result.missing()) == [Work(CHOOSING, 0, 5)]
    result.add(chosen(0, 1))
    assert list(result.missing()) == [Work(CHOOSING, 1, 5, chosen=CHOSEN)]


@pytest.mark.parametrize(
    "other", [replace(CHOSEN, covariance="full"), replace(CHOSEN, held_out=(0.5, 0.4, 0.39, NAN))]
)
def test_a_cell_must_choose_the_same_wherever_it_runs(other: Chosen) -> None:
    result = CellResult(CHOOSING, 5)
    result.add(chosen(0, 1))
    with pytest.raises(Mismatch, match=r"posterior-auto: Chosen.*now, Chosen.*before"):
        result.add(chosen(1, 2, other))


def test_a_choice_is_laid_into_its_block() -> None:
    block = block_of(range(1, 2), "posterior", "posterior-auto")
    results = {cell: CellResult(cell, 5) for cell in block.cells()}
    results[CELL].add(partial(0, 5))
    results[CHOOSING].add(chosen(0, 5))
    shapes = {"labels": (4,), "centroids": (2, 3), "covariances": (2, 3, 3), "log_likelihood": (5,)}
    names = ("best_restart", "restarts_done", "seconds", "cpu_seconds", "status")
    arrays = {name: np.zeros((2, *shapes.get(name, ()))) for name in (*names, *shapes)}
    arrays |= {"covariance_shape": np.full(2, -1, np.int8)}
    arrays |= {name: np.full((2, 4), NAN) for name in ("held_out", "held_out_right")}
    BlockResult(block, results).into(arrays)
    assert arrays["covariance_shape"].tolist() == [-1, 2]
    assert np.isnan(arrays["held_out"][0]).all()
    assert arrays["held_out"][1].tolist() == list(CHOSEN.held_out)
    assert arrays["held_out_right"][1].tolist() == list(CHOSEN.right)
    assert arrays["covariances"][1].tolist() == [np.diag([2.0] * 3).tolist()] * 2


def test_scores_of_every_model_pass_through_journal_and_block() -> None:
    found = from_record(*to_record(RECORDS["scores of every model"]))
    block = block_of(range(1, 2), "posterior", "posterior-auto")
    results = {cell: CellResult(cell, 5) for cell in block.cells()}
    for after in found[:2]:
        results[after.work.cell].add(after)
    shapes = {"labels": (4,), "centroids": (2, 3), "covariances": (2, 3, 3), "log_likelihood": (5,)}
    names = ("best_restart", "restarts_done", "seconds", "cpu_seconds", "status")
    arrays = {name: np.zeros((2, *shapes.get(name, ()))) for name in (*names, *shapes)}
    arrays |= {name: np.full((2, 5), NAN) for name in ("held_out", "held_out_right")}
    with_shapes = {name: values.copy() for name, values in arrays.items()}
    with_shapes["covariance_shape"] = np.full(2, -1, np.int8)
    BlockResult(block, results).into(with_shapes)
    # the shape of a model that has its own is not chosen
    assert with_shapes["covariance_shape"].tolist() == [-1, 2]
    np.testing.assert_array_equal(with_shapes["held_out"], [FIXED.held_out, EVERY.held_out])
    np.testing.assert_array_equal(with_shapes["held_out_right"], [FIXED.right, EVERY.right])
    # a block without a model that chooses has no such array
    alone = block_of(range(1, 2), "posterior")
    narrow = {name: values[:1] for name, values in arrays.items()}
    BlockResult(alone, {CELL: results[CELL]}).into(narrow)
    np.testing.assert_array_equal(narrow["held_out"], [FIXED.held_out])


@pytest.mark.parametrize(("shape", "wide"), [((2,), (3, 3)), ((2, 3), (3, 3)), ((2,), (3,)), ((2, 3), (3,))])
def test_covariances_are_laid_into_the_form_of_the_node(
    shape: tuple[int, ...], wide: tuple[int, ...]
) -> None:
    cell = replace(CELL, model="posterior" if len(shape) == 1 else "posterior-diagonal")
    block = block_of(range(1, 2), cell.model)
    values = np.random.default_rng(3).random(shape)
    result = CellResult(cell, 5)
    result.add(replace(partial(0, 5, cell=cell), covariances=values))
    names = ("labels", "centroids", "best_restart", "restarts_done", "seconds", "cpu_seconds", "status")
    arrays = {name: np.zeros((1, *each)) for name, each in zip(names, [(4,), (2, 3), *[()] * 5], strict=True)}
    arrays |= {"log_likelihood": np.zeros((1, 5)), "covariances": np.full((1, 2, *wide), np.nan)}
    laid = BlockResult(block, {cell: result}).into(arrays)["covariances"][0]
    for cluster in range(2):
        variances = np.broadcast_to(values[cluster], 3)
        expected = variances if len(wide) == 1 else np.diag(variances)
        np.testing.assert_array_equal(laid[cluster], expected)


def test_finished_cells_are_laid_over_what_the_cube_holds() -> None:
    block = block_of(range(3), "posterior")
    cells = list(block.cells())
    done, failed = CellResult(cells[1], 5), CellResult(cells[2], 5)
    result = BlockResult(block, {cells[1]: done, cells[2]: failed})
    assert not result.complete
    done.add(partial(0, 5, cell=cells[1]))
    failed.failed = True
    assert result.complete
    arrays = {
        "log_likelihood": np.full((3, 5), np.nan),
        "labels": np.full((3, 4), -1, np.int16),
        "centroids": np.full((3, 2, 3), np.nan),
        "covariances": np.full((3, 2), np.nan),
        "best_restart": np.full(3, -1, np.int32),
        "restarts_done": np.zeros(3, np.int32),
        "seconds": np.full(3, np.nan),
        "cpu_seconds": np.full(3, np.nan),
        "status": np.array([DONE, PENDING, PENDING], np.int8),
    }
    result.into(arrays)
    assert arrays["status"].tolist() == [DONE, DONE, FAILED]
    assert arrays["restarts_done"].tolist() == [0, 5, 0]
    assert arrays["best_restart"].tolist() == [-1, 1, -1]
    assert (arrays["seconds"][1], arrays["cpu_seconds"][1]) == (2.5, 1.25)
    assert arrays["labels"].tolist() == [[-1] * 4, [1] * 4, [-1] * 4]
    assert np.array_equal(arrays["log_likelihood"][1], OBJECTIVES)


def test_a_large_block_is_looked_at_once_however_many_batches_it_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    block = block_of(range(300), "posterior")
    cells = {cell: CellResult(cell, 1) for cell in block.cells()}
    looks = []
    status = CellResult.status.fget
    monkeypatch.setattr(CellResult, "status", property(lambda self: looks.append(self) or status(self)))
    result = BlockResult(block, cells)
    for cell in cells:
        assert not result.complete
        cells[cell].add(partial(0, 1, cell=cell))
    assert result.complete
    assert len(looks) < 3 * len(cells)


@pytest.mark.parametrize(
    ("calls", "status", "best"),
    [
        (([-3.0], [-1.0, -2.0]), DONE, 1),
        (([None], [None, None]), NO_SOLUTION, -1),
        (([None], [None, -2.0]), DONE, 2),
        (([NAN], [NAN, NAN]), DONE, 0),
        (([None], [NAN, NAN]), DONE, 1),
        (([NAN], [NAN, -5.0]), DONE, 2),
    ],
)
def test_the_best_call_of_a_method_in_any_order(
    calls: tuple[list[float | None], ...], status: int, best: int
) -> None:
    starts = np.cumsum([0, *(len(each) for each in calls)]).tolist()
    parts = [called(start, *each) for start, each in zip(starts, calls, strict=False)]
    for order in itertools.permutations(parts):
        result = CellResult(METHOD, 3)
        for part in order:
            assert result.status == PENDING
            result.add(part)
        assert result.status == status
        assert result.best is not None
        assert result.best.best_restart == best
        assert list(result.missing()) == []


def test_calls_without_an_objective_are_not_made_again() -> None:
    result = CellResult(METHOD, 3)
    result.add(called(1, NAN))
    assert [(work.start, work.stop) for work in result.missing()] == [(0, 1), (2, 3)]
    result.add(called(1, NAN))
    with pytest.raises(Mismatch, match="restart 1"):
        result.add(called(1, -1.0))


def test_a_cell_without_a_solution_keeps_its_times_alone() -> None:
    block = block_of(range(1, 2), "mine")
    arrays = {
        "status": np.zeros(1, np.int8),
        "log_likelihood": np.full((1, 5), NAN),
        "labels": np.full((1, 4), -1, np.int16),
        "centroids": np.full((1, 2, 3), NAN),
        "covariances": np.full((1, 2), NAN),
        "best_restart": np.full(1, -1, np.int32),
        "restarts_done": np.zeros(1, np.int32),
        "seconds": np.full(1, NAN),
        "cpu_seconds": np.full(1, NAN),
    }
    result = CellResult(METHOD, 3)
    result.add(
        replace(called(0, None, None, None), centroids=np.full((2, 3), NAN), covariances=np.full(2, NAN))
    )
    found = BlockResult(block, {METHOD: result}).into(arrays)
    assert found["status"].tolist() == [NO_SOLUTION]
    assert found["restarts_done"].tolist() == [3]
    assert found["seconds"].tolist() == [0.5]
    assert found["labels"].tolist() == [[-1] * 4]
    assert np.isnan(found["log_likelihood"]).all()
