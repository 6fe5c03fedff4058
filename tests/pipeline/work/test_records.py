"""What goes to a worker, and what comes back."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from cubes.small import make_plan, make_spec

from pipeline.work.records import (
    NO_ANSWERS,
    Answered,
    Asking,
    BatchLost,
    Failed,
    Science,
    Solved,
    Span,
    Task,
    checked,
)
from sweeps.file.search import Search
from sweeps.file.spec import Stop
from sweeps.plan import AskedPath, Cell

CELL = Cell("iris", None, 0.8, 20, 0, "posterior")
OTHER = replace(CELL, replicate=1)
PATH = AskedPath("iris", 3, 0.9, 1, "active")
STOP = Stop(rule="good-turing", risk=0.1, r_min=4, step=2)
SCIENCE = Science(11, (Search(population=3),), 3, STOP, asking=Asking(5, 1, "auto"))
OF_CELLS = Task(SCIENCE, "iris", (Span(CELL, 2, 6, (-1.0, -2.0)), Span(OTHER, 0, 3)), 1.0)
OF_PATH = Task(SCIENCE, "iris", (Span(PATH, 5, 15, answers=NO_ANSWERS, step=5),), 1.0)


def test_names_say_where_and_what() -> None:
    assert str(OF_PATH) == "iris/mixture=3/p=0.9/design=active/replicate=1, questions 5..14"
    assert str(OF_CELLS) == f"{CELL} and 1 other cells"


def test_a_science_has_what_the_sweep_says_of_a_data_set() -> None:
    spec = make_spec(ask={"batch": "0.4N", "restarts": 2, "covariance": "full"})
    found = Science.of(spec, make_plan(n_samples=5))
    assert found == Science(7, spec.search, 2, None, (), Asking(2, 2, "full"))


def solved(cell: Cell, start: int, stop: int) -> Solved:
    solution = np.zeros(3, np.int16), np.ones((2, 2)), np.ones(2)
    return Solved(Span(cell, start, stop), np.zeros(stop - start), start, *solution, 0.25, 0.125)


def answered(start: int, stop: int, path: AskedPath = PATH) -> Answered:
    return Answered(Span(path, start, stop), np.zeros((stop - start, 3), np.int32), 0.1, 0.1)


def failed(unit: Any, start: int, stop: int) -> Failed:
    return Failed(Span(unit, start, stop), "no", "", "", "")


@pytest.mark.parametrize(
    ("task", "result", "is_ours"),
    [
        (OF_CELLS, solved(CELL, 2, 6), True),
        (OF_CELLS, solved(CELL, 2, 4), True),  # an adaptive stop ends early
        (OF_CELLS, failed(OTHER, 0, 3), True),
        (OF_CELLS, solved(CELL, 2, 7), False),
        (OF_CELLS, solved(CELL, 3, 6), False),
        (OF_CELLS, solved(replace(CELL, model="likelihood"), 2, 6), False),
        (OF_CELLS, failed(replace(CELL, dataset="wine"), 2, 6), False),
        (OF_CELLS, answered(5, 10), False),
        (OF_PATH, answered(5, 15), True),
        (OF_PATH, answered(10, 15), True),  # each batch comes on its own
        (OF_PATH, failed(PATH, 10, 15), True),
        (OF_PATH, answered(0, 10), False),
        (OF_PATH, answered(15, 20), False),
        (OF_PATH, answered(5, 10, replace(PATH, replicate=0)), False),
        (OF_PATH, failed(PATH, 15, 20), False),
        (OF_PATH, solved(CELL, 2, 6), False),
    ],
)
def test_an_answer_is_taken_for_its_own_task_alone(task: Task, result: Any, is_ours: bool) -> None:
    ours = [solved(CELL, 2, 6), solved(OTHER, 0, 3)] if task is OF_CELLS else [answered(5, 10)]
    found = checked(task, [*ours, result])
    if is_ours:
        assert found == [*ours, result]
    else:
        assert [each.span for each in found] == list(task.spans)
        assert all(isinstance(each, Failed) and "another batch" in each.cause for each in found)


def test_who_is_charged_for_a_lost_task_and_what_is_said_of_it() -> None:
    class Wordless(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    parts = replace(OF_CELLS, spans=(Span(CELL, 0, 1, (-1.0,)), Span(CELL, 3, 4)))
    for task, charged in ((OF_CELLS, [False, False]), (parts, [True, False]), (OF_PATH, [True])):
        found = checked(task, BatchLost("a\nb", "n1", "7"))
        assert [each.charged for each in found if isinstance(each, Failed)] == charged, (
            "a unit alone, and once"
        )
    first: Any = checked(parts, BatchLost("a\nb", "n1", "7"))[0]
    assert (first.cause, first.node, first.job) == ("BatchLost: a b", "n1", "7")
    record = first.record(2)
    assert (record.cell, record.attempt, record.work.cell) == (str(CELL), 2, CELL)
    assert record.work.known == (-1.0,)
    asked: Any = checked(OF_PATH, Wordless())[0]
    assert asked.cause == "Wordless: <its text cannot be made>"
    assert (asked.record(1).work.cell, asked.record(1).work.stop) == (None, 15)


def test_what_is_sent_can_be_pickled() -> None:
    for each in (OF_CELLS, OF_PATH, failed(CELL, 0, 1)):
        assert pickle.loads(pickle.dumps(each)) == each
    found = pickle.loads(pickle.dumps(solved(CELL, 0, 1)))
    assert (found.span, found.seconds, found.cpu_seconds) == (Span(CELL, 0, 1), 0.25, 0.125)
