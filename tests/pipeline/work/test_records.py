"""What goes to a worker, and what comes back."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pipeline.work.records import (
    NO_ANSWERS,
    Asking,
    Batch,
    BatchLost,
    Failure,
    Partial,
    PathBatch,
    PathFailure,
    PathPart,
    Science,
    Work,
    checked,
    lost_with_its_worker,
)
from sweeps.file.search import Search
from sweeps.file.spec import Stop
from sweeps.inputs import RealSource
from sweeps.plan import AskedPath, Cell

# What goes to a worker that asks: how many batches, and their names.

ASKING = Asking(seed=1, n_clusters=2, batch=8, restarts=1, covariance="auto")
PATH = AskedPath("iris", 3, 0.9, 1, "active")


def test_batches_are_whole() -> None:
    assert [ASKING.batches(0, stop) for stop in (0, 1, 8, 9, 24)] == [0, 1, 1, 2, 3]
    assert [ASKING.batches(16, stop) for stop in (10, 16, 17)] == [0, 0, 1]


def test_names_say_where_and_which_questions() -> None:
    assert str(PATH) == "iris/mixture=3/p=0.9/design=active/replicate=1"
    task = PathBatch(ASKING, PATH, NO_ANSWERS, 2, 1.0)
    assert str(task) == f"{PATH}, questions 0..15"
    assert (task.dataset, task.start) == ("iris", 0)
    assert PathPart(PATH, 8, np.zeros((8, 3), dtype=np.int32), 1.0, 1.0).stop == 16


# Batches that are given up: which answers are of a task, and what is said of one that has none.

FAILING = Cell("iris", None, 0.8, 20, 0, "posterior")
OTHER = replace(FAILING, replicate=1)
BATCH = Batch(Science(1, (), 3), "iris", (Work(FAILING, 2, 6), Work(OTHER, 0, 3)), 1.0)
FAILING_PATH = AskedPath("iris", None, 0.8, 0, "confusion")
OF_FIVE: Any = SimpleNamespace(batch=5)
TASK = PathBatch(OF_FIVE, FAILING_PATH, NO_ANSWERS, 2, 1.0)


def partial(work: Work) -> Partial:
    solution = np.zeros(3, np.int16), np.ones((2, 2)), np.ones(2)
    return Partial(work, np.zeros(work.stop - work.start), work.start, *solution, 0.1, 0.1)


def part(path: AskedPath, start: int, count: int) -> PathPart:
    return PathPart(path, start, np.zeros((count, 3), np.int32), 0.1, 0.1)


@pytest.mark.parametrize(
    ("task", "result", "is_ours"),
    [
        (BATCH, partial(Work(FAILING, 2, 6)), True),
        (BATCH, partial(Work(FAILING, 2, 4)), True),  # an adaptive stop ends early
        (BATCH, Failure(Work(OTHER, 0, 3), "no", "", "", ""), True),
        (BATCH, partial(Work(FAILING, 2, 7)), False),
        (BATCH, partial(Work(FAILING, 0, 3)), False),
        (BATCH, partial(Work(replace(FAILING, model="likelihood"), 2, 6)), False),
        (BATCH, partial(Work(replace(FAILING, search="a"), 2, 6)), False),
        (BATCH, Failure(Work(replace(FAILING, dataset="wine"), 2, 6), "no", "", "", ""), False),
        (BATCH, part(FAILING_PATH, 0, 5), False),
        (TASK, part(FAILING_PATH, 0, 10), True),
        (TASK, PathFailure(FAILING_PATH, 5, 10, "no", "", "", ""), True),
        (TASK, part(FAILING_PATH, 0, 15), False),
        (TASK, part(replace(FAILING_PATH, replicate=1), 0, 5), False),
        (TASK, PathFailure(FAILING_PATH, 10, 15, "no", "", "", ""), False),
        (TASK, partial(Work(FAILING, 2, 6)), False),
    ],
)
def test_an_answer_is_taken_for_its_own_task_alone(task: Any, result: Any, is_ours: bool) -> None:
    ours = [partial(work) for work in BATCH.work] if task is BATCH else [part(FAILING_PATH, 0, 5)]
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


CELL = Cell("blobs", None, 0.9, 40, 0, "likelihood")
SCIENCE = Science(11, (Search(population=3),), 3, Stop(rule="good-turing", risk=0.1, r_min=4, step=2))


def test_what_is_sent_to_workers_can_be_pickled() -> None:
    batch = Batch(SCIENCE, "blobs", (Work(CELL, 2, 4, (-1.0, -2.0)),), 1.0)
    source = RealSource(np.arange(6.0).reshape(3, 2), np.array([0, 1, 1], np.int16))
    assert pickle.loads(pickle.dumps(batch)) == batch
    assert np.array_equal(pickle.loads(pickle.dumps(source)).X, source.X)


def test_what_comes_back_can_be_pickled() -> None:
    work = Work(CELL, 0, 1)
    solution = np.zeros(3, np.int16), np.ones((2, 2)), np.ones(2)
    partial = pickle.loads(pickle.dumps(Partial(work, np.array([-1.5]), 0, *solution, 0.25, 0.125)))
    assert (partial.work, partial.objectives.tolist()) == (work, [-1.5])
    assert (partial.seconds, partial.cpu_seconds) == (0.25, 0.125)
    failure = Failure(work, "ValueError: no", "n1", "7", "Traceback")
    assert pickle.loads(pickle.dumps(failure)) == failure


def test_a_work_is_a_key_that_nobody_changes() -> None:
    work = Work(CELL, 0, 4)
    assert {work: 1}[Work(CELL, 0, 4)] == 1
    with pytest.raises(FrozenInstanceError):
        work.start = 1  # type: ignore[misc]
