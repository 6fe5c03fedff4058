"""Results of tasks become cells and blocks, in any order of any split."""

import itertools
from dataclasses import astuple, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from cubes.small import make_plan

from sweep_clustering.kernels.choice import HeldOut, Skill
from sweep_clustering.kernels.solver.contract import Choice
from sweep_clustering.kernels.structure import Structure
from sweep_clustering.pipeline.common import best_of
from sweep_clustering.pipeline.methods.loading import MethodCall
from sweep_clustering.pipeline.work import records
from sweep_clustering.pipeline.work.merge import BlockResult, CellResult, Mismatch
from sweep_clustering.pipeline.work.records import (
    Answered,
    Asking,
    BatchLost,
    Chosen,
    Failed,
    Science,
    Solved,
    Span,
    Task,
)
from sweep_clustering.storage.cube.schema import DONE, FAILED, NO_SOLUTION, PENDING
from sweep_clustering.sweeps.errors import present
from sweep_clustering.sweeps.file.search import Search
from sweep_clustering.sweeps.file.spec import Stop
from sweep_clustering.sweeps.plan import AskedPath, Cell
from sweep_clustering.sweeps.words import shape_of

CELL = Cell("iris", None, 0.9, 75, 1, "posterior")
CHOOSING = replace(CELL, model="posterior-auto")
METHOD = replace(CELL, model="mine")
OBJECTIVES = np.array([-3.0, -1.0, -2.0, -1.0, -5.0])
NAN = float("nan")
CHOSEN = Chosen("diagonal", (0.5, 0.4, 0.39, 0.41), (0.7, 0.8, 0.8, 0.8))


def make_solved(
    start: int, stop: int, objectives: np.ndarray = OBJECTIVES, cell: Cell = CELL, chosen: Any = None
) -> Solved:
    """Return a result whose solution tells which restart it comes from."""
    part = objectives[start:stop].copy()
    best = start + best_of(part)
    shape = shape_of(cell.model) if chosen is None else chosen.covariance
    covariances = np.full((2, 3) if shape == "diagonal" else 2, float(best))
    solution = np.full(4, best, np.int16), np.full((2, 3), float(best)), covariances
    return Solved(Span(cell, start, stop), part, best, *solution, 0.5 * len(part), 0.25 * len(part), chosen)


def make_calls(start: int, best: int, *objectives: float) -> Solved:
    """Return calls of a method, with NaN without an objective and -1 as the best without a solution."""
    span, labels = Span(METHOD, start, start + len(objectives)), np.full(4, best, np.int16)
    fields = {"objectives": np.array(objectives), "best_restart": best, "labels": labels}
    return replace(make_solved(0, 1, cell=METHOD), span=span, **fields)


def test_any_order_of_any_split_gives_the_same_cell() -> None:
    for cuts in [(0, 5), (0, 2, 5), (0, 1, 3, 5)]:
        parts = [make_solved(a, b) for a, b in itertools.pairwise(cuts)]
        for order in itertools.permutations(parts):
            result = CellResult(CELL, 5)
            for position, part in enumerate(order):
                assert result.status == (PENDING if position < len(parts) else DONE)
                result.add(part)
            # restart 3 is as good
            assert result.status == DONE
            assert present(result.best).best_restart == 1
            assert np.array_equal(result.objectives, OBJECTIVES)
            assert result.seconds == 2.5
            assert result.cpu_seconds == 1.25
            assert list(result.missing_spans()) == []


def test_what_is_missing_is_asked_for_again() -> None:
    result = CellResult(CELL, 5)
    assert list(result.missing_spans()) == [Span(CELL, 0, 5)]
    result.add(make_solved(1, 2))
    result.add(make_solved(4, 5))
    assert list(result.missing_spans()) == [Span(CELL, 0, 1), Span(CELL, 2, 4)]
    chosen = CellResult(CHOOSING, 5)
    chosen.add(make_solved(0, 1, cell=CHOOSING, chosen=CHOSEN))
    assert list(chosen.missing_spans()) == [Span(CHOOSING, 1, 5, chosen=CHOSEN)]


def test_a_restart_computed_twice_must_give_the_same_bits() -> None:
    result = CellResult(CELL, 5)
    result.add(make_solved(0, 3))
    result.add(make_solved(2, 5))
    assert result.status == DONE
    assert result.seconds == 3.0
    result.add(make_solved(1, 4))
    assert result.seconds == 3.0, "nothing new"
    assert result.cpu_seconds == 1.5
    objectives = OBJECTIVES.copy()
    objectives[2] = np.nextafter(objectives[2], 0)
    with pytest.raises(Mismatch, match=r"iris/p=0.9/m=75/replicate=1/posterior, restart 2"):
        result.add(make_solved(1, 4, objectives))
    with pytest.raises(ArithmeticError):
        best_of([1.0, NAN])


def test_a_cell_knows_its_machines_and_how_much_is_left() -> None:
    result = CellResult(CELL, 5)
    for start, machine in ((0, "new"), (1, ""), (3, "new"), (4, "big")):
        result.add(replace(make_solved(start, start + 1), machine=machine))
    assert result.machine == "big and new"
    assert result.n_run == 4
    assert result.n_left == 1
    result.has_failed = True
    assert result.n_left == 0


@pytest.mark.parametrize("ends", [(2, 2), (3, 2), (-1, 2), (0, 2.0), (True, 2)])
def test_spans_of_a_record_are_whole_numbers_in_order(ends: tuple[Any, Any]) -> None:
    def header(start: object, stop: object) -> dict[str, Any]:
        return {records.PARTIALS: [{"cell": list(astuple(CELL)), "start": start, "stop": stop}]}

    assert records.spans_of(header(0, 2)) == [Span(CELL, 0, 2)]
    with pytest.raises(ValueError, match=f"{records.PARTIALS} {ends[0]!r} to {ends[1]!r}"):
        records.spans_of(header(*ends))


def test_a_cell_must_choose_the_same_wherever_it_runs() -> None:
    result, first = CellResult(CHOOSING, 5), make_solved(0, 1, cell=CHOOSING, chosen=CHOSEN)
    result.add(first)
    for choice in (replace(CHOSEN, covariance="full"), replace(CHOSEN, held_out=(0.5, 0.4, 0.39, NAN)), None):
        with pytest.raises(Mismatch, match=r"posterior-auto: .* now, Chosen.*before"):
            result.add(replace(first, span=Span(CHOOSING, 1, 2), chosen=choice))


def predictions(right: float) -> HeldOut:
    """Return predictions of two annotations, of which the second counts three times, and one is right."""
    is_right = np.array([True, False]) if right == 0.25 else np.array([False, True])
    return HeldOut(np.log([0.5, right]), is_right, np.array([1.0, 3.0]), np.ones(2))


@pytest.mark.parametrize("has_all_shapes", [False, True])
def test_a_cube_keeps_the_scores_of_a_choice_by_shape(has_all_shapes: bool) -> None:
    first, second = predictions(0.25), predictions(0.75)
    candidates = {"diagonal": first, "full": second}
    choice = Choice("full", "", "full", "full", candidates, base_rate=first)
    chosen, rest = Chosen.of(choice, has_all_shapes), [NAN] * has_all_shapes
    np.testing.assert_array_equal(chosen.held_out, [NAN, first.log_loss, NAN, second.log_loss, *rest])
    np.testing.assert_array_equal(chosen.right, [NAN, 0.25, NAN, 0.75, *rest])
    assert chosen.covariance == "full"
    assert chosen.base_rate == first.log_loss
    assert np.isnan(chosen.distance_rate)
    assert chosen.class_structure is None
    assert chosen.is_same(replace(chosen))
    for changes in ({"base_rate": 0.0}, {"distance_rate": 0.0}, {"right": chosen.held_out}):
        assert not chosen.is_same(replace(chosen, **changes))  # type: ignore[arg-type]


def test_a_cube_keeps_predictions_beside_distances_if_they_have_skill() -> None:
    structure, alone, beside = Structure(1, 3, "full"), predictions(0.25), predictions(0.75)
    skill = Skill(beside, alone, alone, alone)
    choice = Choice("x", "", "full", "spherical", {"x": alone}, structure=structure, skill=skill)
    chosen = Chosen.of(choice, has_all_shapes=False)
    assert chosen.held_out[0] == beside.log_loss
    assert chosen.right[0] == 0.75
    assert np.isnan(chosen.base_rate)
    assert chosen.distance_rate == alone.log_loss
    assert chosen.class_structure == structure
    assert not chosen.is_same(replace(chosen, structure=records.NO_STRUCTURE))
    without_skill = Chosen.of(replace(choice, has_no_skill=True), has_all_shapes=False)
    assert without_skill.held_out[0] == alone.log_loss
    assert without_skill.distance_rate == alone.log_loss


def test_searches_and_methods_are_those_of_their_names() -> None:
    searches, call = (Search(name="quick"), Search(name="long", held_out=True)), MethodCall("mine", "k-means")
    science = Science(11, searches, 3, methods=(replace(call, name="other"), call))
    assert science.search(replace(CELL, search="long")) == searches[1]
    assert science.method("mine") == call
    assert science.method("posterior") is None


def test_finished_cells_are_laid_over_what_the_cube_holds() -> None:
    """Covariances have the form of the node, choices are there if any, and times without a solution too."""
    models = ("posterior", "posterior-diagonal", "posterior-auto", "mine", "likelihood")
    block = make_plan("iris", m=(75,), replicates=1, models=models).block_of(replace(CELL, replicate=0))
    plain, wide, chosen, unsolved, failed = (CellResult(cell, 5) for cell in block.cells())
    result = BlockResult(block, {part.cell: part for part in (plain, wide, chosen, unsolved, failed)})
    assert not result.is_complete
    fixed = replace(CHOSEN, covariance="spherical")  # its own shape, which is not chosen
    plain.add(make_solved(0, 5, cell=plain.cell, chosen=fixed))
    wide.add(make_solved(0, 5, cell=wide.cell))
    chosen.add(make_solved(0, 5, cell=chosen.cell, chosen=CHOSEN))
    nothing = {"best_restart": -1, "labels": np.full(4, -1, np.int16), "objectives": np.full(5, NAN)}
    unsolved.add(replace(make_solved(0, 5), span=Span(unsolved.cell, 0, 5), **nothing))
    failed.has_failed = True
    assert result.is_complete
    sizes = {"log_likelihood": 5, "centroids": (2, 3), "covariances": (2, 3, 3), "held_out": 4}
    arrays: dict[str, Any] = {name: np.full(np.append(5, size), NAN) for name, size in sizes.items()}
    arrays |= {"labels": np.full((5, 4), -1, np.int16), "covariance_shape": np.full(5, -1, np.int8)}
    once = ("status", "best_restart", "restarts_done", "seconds", "cpu_seconds")
    arrays |= {name: np.zeros(5) for name in once}
    result.into(arrays)
    expected = {
        "status": [DONE, DONE, DONE, NO_SOLUTION, FAILED],
        "restarts_done": [5, 5, 5, 5, 0],
        "best_restart": [1, 1, 1, -1, 0],
        "seconds": [2.5, 2.5, 2.5, 2.5, 0],
        "cpu_seconds": [1.25, 1.25, 1.25, 1.25, 0],
        "covariance_shape": [-1, -1, 2, -1, -1],
    }
    assert {name: arrays[name].tolist() for name in expected} == expected
    assert arrays["labels"][:, 0].tolist() == [1, 1, 1, -1, -1]
    assert np.array_equal(arrays["log_likelihood"][0], OBJECTIVES)
    rows = [fixed.held_out, [NAN] * 4, CHOSEN.held_out]
    np.testing.assert_array_equal(arrays["held_out"][:3], rows)
    for at in range(3):
        np.testing.assert_array_equal(arrays["covariances"][at], [np.eye(3)] * 2)


@pytest.mark.parametrize(
    ("first", "later", "status", "best"),
    [
        (make_calls(0, 0, -3.0), make_calls(1, 1, -1.0, -2.0), DONE, 1),
        (make_calls(0, -1, NAN), make_calls(1, -1, NAN, NAN), NO_SOLUTION, -1),
        (make_calls(0, -1, NAN), make_calls(1, 2, NAN, -2.0), DONE, 2),
        (make_calls(0, 0, NAN), make_calls(1, 1, NAN, NAN), DONE, 0),
        (make_calls(0, -1, NAN), make_calls(1, 1, NAN, NAN), DONE, 1),
        (make_calls(0, 0, NAN), make_calls(1, 2, NAN, -5.0), DONE, 2),
    ],
)
def test_the_best_call_of_a_method_in_any_order(first: Solved, later: Solved, status: int, best: int) -> None:
    parts = [first, later]
    for order in itertools.permutations(parts):
        result = CellResult(METHOD, 3)
        for part in order:
            assert result.status == PENDING
            result.add(part)
        assert result.status == status
        assert present(result.best).best_restart == best
        assert list(result.missing_spans()) == []
    result.add(parts[1])  # calls without an objective are not made again, and give none a second time
    with pytest.raises(Mismatch, match="restart 1"):
        result.add(make_calls(1, 1, -17.0))


# What goes to a worker, and what comes back.

EQUAL = np.zeros(9)
IRIS = Cell("iris", None, 0.8, 20, 0, "posterior")
REDRAWN = replace(IRIS, replicate=1)
OF_IRIS = AskedPath("iris", 3, 0.9, 1, "active")
STOPPING = Stop(rule="good-turing", risk=0.1, r_min=4, step=2)
OF_IRIS_SCIENCE = Science(11, (Search(population=3),), 3, STOPPING, asking=Asking(5, 1, "auto"))
OF_CELLS = Task(OF_IRIS_SCIENCE, "iris", (Span(IRIS, 2, 6, (-1.0, -2.0)), Span(REDRAWN, 0, 3)), 1.0)
OF_PATH = Task(OF_IRIS_SCIENCE, "iris", (Span(OF_IRIS, 5, 15, answers=records.NO_ANSWERS, step=5),), 1.0)


def make_answered(start: int, stop: int, path: AskedPath = OF_IRIS) -> Answered:
    return Answered(Span(path, start, stop), np.zeros((stop - start, 3), np.int32), 0.1, 0.1)


def make_failed(unit: Any, start: int, stop: int) -> Failed:
    return Failed(Span(unit, start, stop), "no", "", "", "")


@pytest.mark.parametrize(
    ("task", "result", "is_ours"),
    [
        (OF_CELLS, make_solved(2, 6, EQUAL, cell=IRIS), True),
        (OF_CELLS, make_solved(2, 4, EQUAL, cell=IRIS), True),  # an adaptive stop ends early
        (OF_CELLS, make_failed(REDRAWN, 0, 3), True),
        (OF_CELLS, make_solved(2, 7, EQUAL, cell=IRIS), False),
        (OF_CELLS, make_solved(3, 6, EQUAL, cell=IRIS), False),
        (OF_CELLS, make_solved(2, 6, EQUAL, cell=replace(IRIS, model="likelihood")), False),
        (OF_CELLS, make_failed(replace(IRIS, dataset="wine"), 2, 6), False),
        (OF_CELLS, make_answered(5, 10), False),
        (OF_PATH, make_answered(5, 15), True),
        (OF_PATH, make_answered(10, 15), True),  # each batch comes on its own
        (OF_PATH, make_failed(OF_IRIS, 10, 15), True),
        (OF_PATH, make_answered(0, 10), False),
        (OF_PATH, make_answered(15, 20), False),
        (OF_PATH, make_answered(5, 10, replace(OF_IRIS, replicate=0)), False),
        (OF_PATH, make_failed(OF_IRIS, 15, 20), False),
        (OF_PATH, make_solved(2, 6, EQUAL, cell=IRIS), False),
    ],
)
def test_an_answer_is_taken_for_its_own_task_alone(task: Task, result: Any, is_ours: bool) -> None:
    of_cells = [make_solved(2, 6, EQUAL, cell=IRIS), make_solved(0, 3, EQUAL, cell=REDRAWN)]
    ours = of_cells if task is OF_CELLS else [make_answered(5, 10)]
    results = records.checked_results(task, [*ours, result])
    if is_ours:
        assert results == [*ours, result]
    else:
        assert [failure.span for failure in results] == list(task.spans)
        assert all(isinstance(failure, Failed) and "another batch" in failure.cause for failure in results)


def test_who_is_charged_for_a_lost_task_and_what_is_said_of_it() -> None:
    class Wordless(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    parts = replace(OF_CELLS, spans=(Span(IRIS, 0, 1, (-1.0,)), Span(IRIS, 3, 4)))
    for task, charged in ((OF_CELLS, [False, False]), (parts, [True, False]), (OF_PATH, [True])):
        failures: Any = records.checked_results(task, BatchLost("a\nb", "n1", "7"))
        assert [failure.is_charged for failure in failures] == charged, "a unit alone, and once"
    first: Any = records.checked_results(parts, BatchLost("a\nb", "n1", "7"))[0]
    assert first.cause == "BatchLost: a b"
    assert first.node == "n1"
    assert first.job == "7"
    record = first.record(2)
    assert record.cell == str(IRIS)
    assert record.attempt == 2
    assert record.work.cell == IRIS
    assert record.work.objectives == (-1.0,)
    for name, job in (("8", "8"), (8, "")):
        error = type("KilledWorker", (Exception,), {"last_worker": SimpleNamespace(host="n2", name=name)})(
            "x"
        )
        killed: Any = records.checked_results(OF_PATH, error)[0]
        assert killed.cause == "KilledWorker: x"
        assert killed.node == "n2"
        assert killed.job == job
    assert make_failed(IRIS, 0, 3).is_charged
    wordless: Any = records.checked_results(OF_PATH, Wordless())[0]
    assert wordless.cause == "Wordless: <its text cannot be made>"
    assert wordless.record(1).work.cell is None
    assert wordless.record(1).work.stop == 15


def test_what_is_sent_has_a_name() -> None:
    assert str(OF_PATH) == "iris/mixture=3/p=0.9/design=active/replicate=1, questions 5..14"
    assert str(OF_CELLS) == f"{IRIS} and 1 other cell"
    assert str(replace(OF_CELLS, spans=OF_CELLS.spans[:1])) == str(IRIS)
