"""The serial executor, and how far a compilation is."""

from __future__ import annotations

from collections import deque

import numba
import pytest
from cubes.small import make_plan

from pipeline.work import executor
from pipeline.work.executor import SerialExecutor, load_kernels
from pipeline.work.records import Batch, Science, Work
from sweeps.file.search import Search
from sweeps.plan import Cell


def test_tasks_run_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "load_kernels", lambda compiled: None)
    monkeypatch.setattr(executor, "run_task", lambda task, source: [f"{task.dataset} of {source}"])
    work = (Work(Cell("a", None, 0.9, 4, 0, "likelihood"), 0, 1),)
    batch = Batch(Science(1, (Search(),), make_plan().n_clusters), "a", work, 0.0)
    tasks = deque([batch, batch])
    serial = SerialExecutor({"a": "data"})  # type: ignore[dict-item]
    assert serial.workers == 1
    ended = []
    for found in serial.results(lambda: tasks.popleft() if tasks else None):
        ended.append((found, len(tasks)))  # the next is asked for only now
    assert ended == [([(batch, ["a of data"])], 1), ([(batch, ["a of data"])], 0)]


def test_functions_are_counted_while_they_are_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    def warm_up() -> None:
        @numba.njit
        def one(x: int) -> int:
            return x + 1

        @numba.njit
        def two(x: int) -> int:
            return one(x) + 1

        two(1)

    monkeypatch.setattr("kernels.search.genetic.warm_up", warm_up)
    counts: list[int] = []
    load_kernels(counts.append)
    assert counts == [1, 2]
    load_kernels()
    warm_up()  # nobody listens any more
    assert counts == [1, 2]
