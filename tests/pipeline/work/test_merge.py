"""Restarts become cells, and cells blocks: any order of any split gives the same."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from cubes.small import make_plan

from pipeline.common import best_of
from pipeline.work.merge import BlockResult, CellResult, Mismatch
from pipeline.work.records import Chosen, Solved, Span
from storage.cube.schema import DONE, FAILED, NO_SOLUTION, PENDING
from sweeps.plan import Block, Cell
from sweeps.words import shape_of

CELL = Cell("iris", None, 0.9, 75, 1, "posterior")
CHOOSING = replace(CELL, model="posterior-auto")
METHOD = replace(CELL, model="mine")
OBJECTIVES = np.array([-3.0, -1.0, -2.0, -1.0, -5.0])
NAN = float("nan")
CHOSEN = Chosen("diagonal", (0.5, 0.4, 0.39, 0.41), (0.7, 0.8, 0.8, 0.8))


def solved(start: int, stop: int, objectives: np.ndarray = OBJECTIVES, **changes: Any) -> Solved:
    """A result whose solution tells which restart it comes from."""
    part = objectives[start:stop]
    best = start + best_of(part)
    cell, chosen = changes.get("cell", CELL), changes.get("chosen")
    shape = shape_of(cell.model) if chosen is None else chosen.covariance
    return Solved(
        Span(cell, start, stop),
        part.copy(),
        best,
        np.full(4, best, np.int16),
        np.full((2, 3), float(best)),
        np.full((2, 3) if shape == "diagonal" else 2, float(best)),
        0.5 * (stop - start),
        0.25 * (stop - start),
        chosen,
    )


def called(start: int, *objectives: float | None) -> Solved:
    """Calls of a method: NaN for a solution without an objective, None for no solution."""
    values = np.array([NAN if value is None else value for value in objectives])
    ranks = [
        (-np.inf, 0) if value is None else (np.nan_to_num(value, nan=-1e9), -at)
        for at, value in enumerate(objectives)
    ]
    best = -1 if set(objectives) == {None} else start + ranks.index(max(ranks))
    span, labels = Span(METHOD, start, start + len(values)), np.full(4, best, np.int16)
    return replace(solved(0, 1, cell=METHOD), span=span, objectives=values, best_restart=best, labels=labels)


def block_of(replicates: range, *models: str) -> Block:
    sizes = {"replicates": replicates.stop, "replicate_chunk": len(replicates), "models": models}
    return make_plan("iris", m=(75,), **sizes).block_of(
        replace(CELL, replicate=replicates.start, model=models[0])
    )


def empty(cells: int, covariances: tuple[int, ...] = (), shapes: int = 0) -> dict[str, Any]:
    """Arrays of a block with nothing done, as the cube fills them."""
    arrays = {
        "log_likelihood": np.full((cells, 5), NAN),
        "labels": np.full((cells, 4), -1, np.int16),
        "centroids": np.full((cells, 2, 3), NAN),
        "covariances": np.full((cells, 2, *covariances), NAN),
        "best_restart": np.full(cells, -1, np.int32),
        "restarts_done": np.zeros(cells, np.int32),
        "status": np.zeros(cells, np.int8),
    }
    arrays |= {name: np.full(cells, NAN) for name in ("seconds", "cpu_seconds")}
    arrays |= {name: np.full((cells, shapes), NAN) for name in ("held_out", "held_out_right") if shapes}
    return arrays


def test_any_order_of_any_split_gives_the_same_cell() -> None:
    for cuts in [(0, 5), (0, 2, 5), (0, 1, 3, 5)]:
        parts = [solved(a, b) for a, b in itertools.pairwise(cuts)]
        for order in itertools.permutations(parts):
            result = CellResult(CELL, 5)
            for position, part in enumerate(order):
                assert result.status == (PENDING if position < len(parts) else DONE)
                result.add(part)
            assert result.status == DONE
            assert result.best is not None
            assert result.best.best_restart == 1  # restart 3 is as good: the lowest wins
            assert np.array_equal(result.objectives, OBJECTIVES)
            assert (result.seconds, result.cpu_seconds) == (2.5, 1.25)
            assert list(result.missing()) == []


def test_what_is_missing_is_asked_for_again() -> None:
    result = CellResult(CELL, 5)
    assert list(result.missing()) == [Span(CELL, 0, 5)]
    result.add(solved(1, 2))
    result.add(solved(4, 5))
    assert list(result.missing()) == [Span(CELL, 0, 1), Span(CELL, 2, 4)]
    chosen = CellResult(CHOOSING, 5)
    chosen.add(solved(0, 1, cell=CHOOSING, chosen=CHOSEN))
    assert list(chosen.missing()) == [Span(CHOOSING, 1, 5, chosen=CHOSEN)]


def test_a_restart_computed_twice_must_give_the_same_bits() -> None:
    result = CellResult(CELL, 5)
    result.add(solved(0, 3))
    result.add(solved(2, 5))
    assert (result.status, result.seconds) == (DONE, 3.0)
    result.add(solved(1, 4))
    assert result.seconds == 3.0, "nothing new"
    other = OBJECTIVES.copy()
    other[2] = np.nextafter(other[2], 0)
    with pytest.raises(Mismatch, match=r"iris/p=0.9/m=75/replicate=1/posterior, restart 2"):
        result.add(solved(1, 4, other))
    with pytest.raises(ArithmeticError):
        best_of([1.0, NAN])


def test_a_cell_must_choose_the_same_wherever_it_runs() -> None:
    result, first = CellResult(CHOOSING, 5), solved(0, 1, cell=CHOOSING, chosen=CHOSEN)
    result.add(first)
    for other in (replace(CHOSEN, covariance="full"), replace(CHOSEN, held_out=(0.5, 0.4, 0.39, NAN)), None):
        with pytest.raises(Mismatch, match=r"posterior-auto: .* now, Chosen.*before"):
            result.add(replace(first, span=Span(CHOOSING, 1, 2), chosen=other))


def test_choices_and_scores_are_laid_into_their_block() -> None:
    fixed = Chosen("spherical", (0.6, NAN, NAN, NAN, NAN), (0.7, NAN, NAN, NAN, NAN))
    every = replace(CHOSEN, held_out=(*CHOSEN.held_out, NAN), right=(*CHOSEN.right, NAN))
    block = block_of(range(1, 2), "posterior", "posterior-auto")
    for of_model, chosen in ((None, CHOSEN), (fixed, every)):
        results = {cell: CellResult(cell, 5) for cell in block.cells()}
        results[CELL].add(solved(0, 5, chosen=of_model))
        results[CHOOSING].add(solved(0, 5, cell=CHOOSING, chosen=chosen))
        arrays = empty(2, (3, 3), len(chosen.held_out)) | {"covariance_shape": np.full(2, -1, np.int8)}
        BlockResult(block, results).into(arrays)
        # the shape of a model that has its own is not chosen
        assert arrays["covariance_shape"].tolist() == [-1, 2]
        rows = [(NAN,) * 4 if of_model is None else of_model.held_out, chosen.held_out]
        np.testing.assert_array_equal(arrays["held_out"], rows)
        np.testing.assert_array_equal(arrays["held_out_right"][1], chosen.right)
    # a block without a model that chooses has no such array
    narrow = empty(1, shapes=5)
    BlockResult(block_of(range(1, 2), "posterior"), {CELL: results[CELL]}).into(narrow)
    np.testing.assert_array_equal(narrow["held_out"], [fixed.held_out])


@pytest.mark.parametrize(("shape", "wide"), [((2,), (3, 3)), ((2, 3), (3, 3)), ((2,), (3,)), ((2, 3), (3,))])
def test_covariances_are_laid_into_the_form_of_the_node(
    shape: tuple[int, ...], wide: tuple[int, ...]
) -> None:
    cell = replace(CELL, model="posterior" if len(shape) == 1 else "posterior-diagonal")
    values = np.random.default_rng(3).random(shape)
    result = CellResult(cell, 5)
    result.add(replace(solved(0, 5, cell=cell), covariances=values))
    laid = BlockResult(block_of(range(1, 2), cell.model), {cell: result}).into(empty(1, wide))
    for found, each in zip(laid["covariances"][0], values, strict=True):
        variances = np.broadcast_to(each, 3)
        np.testing.assert_array_equal(found, variances if len(wide) == 1 else np.diag(variances))


def test_finished_cells_are_laid_over_what_the_cube_holds() -> None:
    block = block_of(range(3), "posterior")
    cells = list(block.cells())
    done, failed = CellResult(cells[1], 5), CellResult(cells[2], 5)
    result = BlockResult(block, {cells[1]: done, cells[2]: failed})
    assert not result.complete
    done.add(solved(0, 5, cell=cells[1]))
    failed.failed = True
    assert result.complete
    arrays = empty(3) | {"status": np.array([DONE, PENDING, PENDING], np.int8)}
    result.into(arrays)
    wanted = {
        "status": [DONE, DONE, FAILED],
        "restarts_done": [0, 5, 0],
        "best_restart": [-1, 1, -1],
        "labels": [[-1] * 4, [1] * 4, [-1] * 4],
    }
    assert {name: arrays[name].tolist() for name in wanted} == wanted
    assert (arrays["seconds"][1], arrays["cpu_seconds"][1]) == (2.5, 1.25)
    assert np.array_equal(arrays["log_likelihood"][1], OBJECTIVES)


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
    parts = [called(0, *calls[0]), called(1, *calls[1])]
    for order in itertools.permutations(parts):
        result = CellResult(METHOD, 3)
        for part in order:
            assert result.status == PENDING
            result.add(part)
        assert result.status == status
        assert result.best is not None
        assert result.best.best_restart == best
        assert list(result.missing()) == []
    result.add(parts[1])  # calls without an objective are not made again, and give none a second time
    with pytest.raises(Mismatch, match="restart 1"):
        result.add(called(1, -17.0))


def test_a_cell_without_a_solution_keeps_its_times_alone() -> None:
    result = CellResult(METHOD, 3)
    result.add(
        replace(called(0, None, None, None), centroids=np.full((2, 3), NAN), covariances=np.full(2, NAN))
    )
    found = BlockResult(block_of(range(1, 2), "mine"), {METHOD: result}).into(empty(1))
    wanted = {"status": [NO_SOLUTION], "restarts_done": [3], "seconds": [0.5], "labels": [[-1] * 4]}
    assert {name: found[name].tolist() for name in wanted} == wanted
    assert np.isnan(found["log_likelihood"]).all()
