"""What goes to a worker, and what comes back."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from pipeline.work.records import Batch, Failure, Partial, Science, Work
from sweeps.file.search import Search
from sweeps.file.spec import Stop
from sweeps.inputs import RealSource
from sweeps.plan import Cell

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
