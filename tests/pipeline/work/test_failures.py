"""Batches that are given up: which answers are of a task, and what is said of one that has none."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pipeline.questions.records import NO_ANSWERS, PathBatch, PathFailure, PathPart
from pipeline.work.failures import BatchLost, checked, lost_with_its_worker
from pipeline.work.records import Batch, Failure, Partial, Science, Work
from sweeps.plan import AskedPath, Cell

CELL = Cell("iris", None, 0.8, 20, 0, "posterior")
OTHER = replace(CELL, replicate=1)
BATCH = Batch(Science(1, (), 3), "iris", (Work(CELL, 2, 6), Work(OTHER, 0, 3)), 1.0)
PATH = AskedPath("iris", None, 0.8, 0, "confusion")
ASKING: Any = SimpleNamespace(batch=5)
TASK = PathBatch(ASKING, PATH, NO_ANSWERS, 2, 1.0)


def partial(work: Work) -> Partial:
    solution = np.zeros(3, np.int16), np.ones((2, 2)), np.ones(2)
    return Partial(work, np.zeros(work.stop - work.start), work.start, *solution, 0.1, 0.1)


def part(path: AskedPath, start: int, count: int) -> PathPart:
    return PathPart(path, start, np.zeros((count, 3), np.int32), 0.1, 0.1)


@pytest.mark.parametrize(
    ("task", "result", "is_ours"),
    [
        (BATCH, partial(Work(CELL, 2, 6)), True),
        (BATCH, partial(Work(CELL, 2, 4)), True),  # an adaptive stop ends early
        (BATCH, Failure(Work(OTHER, 0, 3), "no", "", "", ""), True),
        (BATCH, partial(Work(CELL, 2, 7)), False),
        (BATCH, partial(Work(CELL, 0, 3)), False),
        (BATCH, partial(Work(replace(CELL, model="likelihood"), 2, 6)), False),
        (BATCH, partial(Work(replace(CELL, search="a"), 2, 6)), False),
        (BATCH, Failure(Work(replace(CELL, dataset="wine"), 2, 6), "no", "", "", ""), False),
        (BATCH, part(PATH, 0, 5), False),
        (TASK, part(PATH, 0, 10), True),
        (TASK, PathFailure(PATH, 5, 10, "no", "", "", ""), True),
        (TASK, part(PATH, 0, 15), False),
        (TASK, part(replace(PATH, replicate=1), 0, 5), False),
        (TASK, PathFailure(PATH, 10, 15, "no", "", "", ""), False),
        (TASK, partial(Work(CELL, 2, 6)), False),
    ],
)
def test_an_answer_is_taken_for_its_own_task_alone(task: Any, result: Any, is_ours: bool) -> None:
    ours = [partial(work) for work in BATCH.work] if task is BATCH else [part(PATH, 0, 5)]
    found = checked(task, [*ours, result])
    assert (found == [*ours, result]) if is_ours else isinstance(found, BatchLost)


def test_an_error_whose_text_cannot_be_made_has_a_cause() -> None:
    class Wordless(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert checked(BATCH, error := Wordless()) is error
    assert lost_with_its_worker(BATCH.work[0], error).cause == "Wordless: <its text cannot be made>"
    lost = lost_with_its_worker(BATCH.work[0], BatchLost("a\nb", "n1", "7"))
    assert (lost.cause, lost.node, lost.job) == ("BatchLost: a b", "n1", "7")
