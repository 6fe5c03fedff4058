"""Watch a run from the inside: the batches it hands out and takes, CPU time by process, and memory.

A sleep may take the place of the solver.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np
import psutil
from distributed import Worker, WorkerPlugin

from sweep_clustering.pipeline.cluster.executor import DaskExecutor
from sweep_clustering.pipeline.work.records import Solved, Task
from sweep_clustering.pipeline.work.tasks import NextTask, Outcome, SerialExecutor, TaskOutcomes

if TYPE_CHECKING:  # the memory of a driver is measured, which loads no kernels
    from sweep_clustering.kernels.fits import Fit
    from sweep_clustering.kernels.problem.problem import Problem

# Readings of the memory in a run, evenly spread over its restarts.
SAMPLES = 400

# CPU time is counted for the thread that drives, for all others of its process, and for the workers.
CPU_SOURCES = ("driver", "scheduler", "workers")

Results = Callable[[NextTask], Iterator[TaskOutcomes]]


class NoWork(WorkerPlugin):  # type: ignore[misc]
    """Put a sleep in place of the solver, with random solutions of the right shape."""

    name = "no-work"

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def setup(self, worker: Worker | None = None) -> None:
        """Replace the solver of this process."""
        import sweep_clustering.kernels.search.genetic

        sweep_clustering.kernels.search.genetic.run_restart = partial(sleep, self.seconds)


def sleep(
    seconds: float, problem: Problem, settings: object, rng: np.random.Generator, start: object = None
) -> Fit:
    """Sleep in place of a restart."""
    from sweep_clustering.kernels.fits import Fit

    if seconds:
        time.sleep(seconds)
    n_samples, n_features = problem.data.X.shape
    k = problem.data.n_clusters
    labels = (np.arange(n_samples) % k).astype(np.int16)
    objective = rng.random()
    solution = (np.bincount(labels), np.zeros((k, n_features)), np.ones(k))
    return Fit(labels, objective, objective, 0.0, 0.0, *solution, 0, 0, 0)


@dataclass
class Watch:
    """Look at an executor from the first batch handed out to the last one taken.

    Parameters
    ----------
    restarts : int
        Number of restarts of the sweep.
    run : Path
        Directory of the run.
    """

    restarts: int
    run: Path
    batches: int = 0
    n_done: int = 0
    kernel: float = 0.0
    making: float = 0.0
    taking: float = 0.0
    journal_bytes: int = 0
    samples: list[tuple[int, int]] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    cpu: list[dict[str, float]] = field(default_factory=list)
    open_files: int = 0

    @property
    def wall(self) -> float:
        """Return the seconds from the first batch handed out to the last one taken."""
        return self.times[-1] - self.times[0]

    def results(self, inner: Results, next_batch: NextTask) -> Iterator[TaskOutcomes]:
        """Yield the results of an executor, and note their times."""
        self.times.append(time.perf_counter())
        self.cpu.append(cpu_seconds())
        for outcomes in inner(partial(self._make, next_batch)):
            start_time = time.perf_counter()
            for _, outcome in outcomes:
                self._note(outcome)
            yield outcomes
            self.times.append(time.perf_counter())
            self.taking += self.times[-1] - start_time
        self.cpu.append(cpu_seconds())

    def cpu_of(self, source: str) -> float:
        """Return the CPU seconds of one of `CPU_SOURCES`."""
        return self.cpu[-1][source] - self.cpu[0][source]

    def slope(self) -> float:
        """Return the growth of the memory of this process in the second half, in bytes per restart."""
        half = np.array(self.samples[len(self.samples) // 2 :], dtype=float)
        return float(np.polyfit(half[:, 0], half[:, 1], 1)[0]) if len(half) > 2 else 0.0

    def _make(self, next_batch: NextTask) -> Task | None:
        start_time = time.perf_counter()
        batch = next_batch()
        self.making += time.perf_counter() - start_time
        return batch

    def _note(self, outcome: Outcome) -> None:
        if isinstance(outcome, BaseException):
            raise outcome
        self.batches += 1
        for result in outcome:
            if not isinstance(result, Solved):
                raise RuntimeError(str(result))
            self.n_done += result.span.stop - result.span.start
            self.kernel += result.seconds
        journals = (file.stat().st_size for file in self.run.glob("generation.*/journal"))
        self.journal_bytes = max(self.journal_bytes, sum(journals))
        if self.n_done >= len(self.samples) * self.restarts / SAMPLES:
            self.samples.append((self.n_done, psutil.Process().memory_info().rss))
            if len(self.samples) % (SAMPLES // 4) == 1:  # It takes as long as a batch if many files are open.
                self.open_files = max(self.open_files, psutil.Process().num_fds())


def cpu_seconds() -> dict[str, float]:
    """Return the CPU seconds so far of each of `CPU_SOURCES`."""
    process = psutil.Process()
    threads = {thread.id: thread.user_time + thread.system_time for thread in process.threads()}
    driver = threads.pop(threading.main_thread().native_id, 0.0)
    workers = sum(sum(child.cpu_times()[:2]) for child in process.children(recursive=True))
    return dict(zip(CPU_SOURCES, (driver, sum(threads.values()), workers), strict=True))


@contextmanager
def watch_executors(watch: Watch, seconds: float | None) -> Iterator[None]:
    """Watch every executor. If `seconds` are given, restarts sleep so long in place of the solver."""

    def wrap(results: Any) -> Any:
        def replacement(executor: Any, next_batch: NextTask) -> Iterator[TaskOutcomes]:
            if seconds is not None:
                client = getattr(executor, "_client", None)
                NoWork(seconds).setup() if client is None else client.register_plugin(NoWork(seconds))
            return watch.results(partial(results, executor), next_batch)

        return replacement

    with (
        patch.object(SerialExecutor, "results", wrap(SerialExecutor.results)),
        patch.object(DaskExecutor, "results", wrap(DaskExecutor.results)),
    ):
        yield
