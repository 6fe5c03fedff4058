"""Submit and resume: one process hands out tasks, merges what comes back and writes the cube.

`open_sweep` creates or grows the cube of a sweep, and opens its ledger; a `Driver` runs what is left of it.
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import groupby, zip_longest
from math import inf

from rich.console import Console

from sweep_clustering.pipeline.cluster.executor import DaskExecutor
from sweep_clustering.pipeline.common import duration, estimate, plural
from sweep_clustering.pipeline.common import span as words_of
from sweep_clustering.pipeline.run.ledger import Collector, Work, next_wave
from sweep_clustering.pipeline.run.progress import Clock, display
from sweep_clustering.pipeline.run.request import Prepared, Wanted, aligned
from sweep_clustering.pipeline.run.signals import uninterrupted
from sweep_clustering.pipeline.work.records import Failed, Science, Span, Task, checked
from sweep_clustering.pipeline.work.tasks import SerialExecutor
from sweep_clustering.pipeline.work.timing import LONGEST, TIMED, Timing, make_batches, target_seconds
from sweep_clustering.storage.cube.blocks import BlockStore
from sweep_clustering.storage.cube.growth import create, grow
from sweep_clustering.storage.cube.manifest import append_run, read_manifest
from sweep_clustering.storage.provenance import PROMISE, run_record
from sweep_clustering.storage.runfolder.journal import Journal
from sweep_clustering.storage.runfolder.lease import Lease, inherit
from sweep_clustering.storage.runfolder.records import append_failure
from sweep_clustering.sweeps.errors import given
from sweep_clustering.sweeps.plan import AskedPath, Cell
from sweep_clustering.sweeps.words import asks

logger = logging.getLogger(__name__)

Executor = SerialExecutor | DaskExecutor


@contextmanager
def open_sweep(prepared: Prepared, lease: Lease, wanted: Wanted) -> Iterator[Collector]:
    """Create or grow the cube of a sweep, and open the ledger of what is left of it.

    Parameters
    ----------
    prepared : Prepared
        The sweep.
    lease : Lease
        Of its cube.
    wanted : Wanted
        What this run is to compute.

    Raises
    ------
    sweep_clustering.sweeps.errors.InputError
        If another driver has created a cube meanwhile that this sweep does not extend.
    sweep_clustering.storage.errors.StorageError
        If the disk fails; nothing that was reported done is lost.
    """
    generation, files = lease.generation, lease.files
    with uninterrupted():
        inherit(prepared.run, generation, fresh=not prepared.cube.exists())
        # Again, now that the lease is held: another driver may have created or grown the cube meanwhile.
        prepared = aligned(prepared)
        make = grow if prepared.cube.exists() else create
        make(prepared.cube, prepared.inputs.plans, prepared.inputs.stored, prepared.spec, files)
        append_run(prepared.cube, run_record(prepared.inputs.skipped, prepared.spec), files)
    if software := read_manifest(prepared.cube).software:
        logger.warning("%s; %s", software, PROMISE)
    plans = prepared.inputs.plans
    with Journal(generation.journal, files) as journal:
        yield Collector(
            BlockStore(prepared.cube, files=files),
            journal,
            prepared.inputs,
            {plan.name: Science.of(prepared.spec, plan, prepared.methods) for plan in plans},
            failed=lambda record: append_failure(generation.failures, record, files),
            wanted=wanted,
        )


class Driver:
    """Runs what is left of a sweep.

    Parameters
    ----------
    collector : Collector
        Of `open_sweep`.
    lease : Lease
        Of its cube.
    executor : Executor
        Runs the tasks.
    console : Console
        Where progress is shown.
    time_limit : float or None
        Seconds a task may run, where the user gave a limit.
    """

    def __init__(
        self,
        collector: Collector,
        lease: Lease,
        executor: Executor,
        console: Console,
        time_limit: float | None = None,
    ) -> None:
        self.collector = collector
        self._plans = collector.plans.values()
        self._lease = lease
        self._executor = executor
        self._console = console
        # A quarter of the limit at most, because predictions err.
        self._length = self._longest = LONGEST if time_limit is None else time_limit / 4
        self._timing = Timing.load(lease.generation.run)
        self._again = deque[Task]()
        self._runnable = deque[Task]()
        self._solver_seconds = 0.0
        self._clock = Clock(executor.workers)
        self._show: Callable[[], None] = lambda: None

    def run(self) -> None:
        """Time a few restarts, predict the duration, then do everything that is left."""
        started, collector, work = time.monotonic(), self.collector, self.collector.survey()
        is_bounded = any(science.stop is not None for science in collector.sciences.values())
        logger.info("%s", "; ".join(_announced(work, is_bounded=is_bounded)))
        with display(work, self._clock, self._console, self._lease, is_bounded=is_bounded) as show:

            def show_now() -> None:
                show(
                    collector.remaining[Cell],
                    collector.remaining[AskedPath],
                    collector.cells_written,
                    self._executor.workers,
                )

            self._show = show_now
            self._show()
            self._pilot()
            self._rest()
        collector.close()
        seconds = time.monotonic() - started
        if collector.spared:
            logger.info("the adaptive stop made %d restarts unnecessary", collector.spared)
        logger.info(
            "%s, %s in %s; %.0f %% of the workers' time was spent in the solver",
            plural(collector.ran, "restart"),
            plural(collector.blocks_written, "block"),
            duration(seconds),
            100 * self._solver_seconds / max(seconds * self._executor.workers, 1e-9),
        )

    def _pilot(self) -> None:
        """Run a restart at the corners of each grid, and ask the first questions: results like any other.

        Corners that are done already, because the file of timings was lost, take their time from the cube.
        Where every design asks, a path is asked to its end: the restarts that are timed next need answers.
        """
        asked: dict[AskedPath, float] = {}
        for plan in self._plans:
            for cell in self._timing.missing(plan):
                self._timing.note_done(cell, self.collector.seconds(cell))
            needs = [cell for cell in self._timing.missing(plan) if asks(cell.design)]
            for path in (*self._timing.missing_paths(plan), *map(AskedPath.of, needs)):
                asked[path] = inf if len(plan.asked) == len(plan.designs) else TIMED

        def next_questions() -> Task | None:
            among = [path for path, batches in asked.items() if batches > 0]
            task = self.collector.paths.next_task(0.0, self._timing, among)
            if task is not None:
                asked[task.spans[0].unit] -= 1
            return task

        for _ in self._results(next_questions, timed=True):
            pass
        spans = deque(
            replace(first, stop=first.start + 1)
            for plan in self._plans
            for cell in self._timing.missing(plan)
            for first in self.collector.open_cell(cell)[:1]
        )

        def next_restart() -> Task | None:
            if not spans:
                return None
            span = spans.popleft()
            name = span.unit.dataset
            return Task(self.collector.sciences[name], name, (span,), self._timing.seconds(span))

        if spans:
            logger.info("timing %d of them, to predict the others", len(spans))
        for _ in self._results(next_restart, timed=True):
            pass
        self._timing.save(self._lease.generation.pilot, self._lease.files)

    def _rest(self) -> None:
        collector, workers = self.collector, self._executor.workers
        is_timed_now = collector.ran > 0
        spans = [span for plan in self._plans for span in collector.count(plan)]
        seconds = sum(map(self._timing.seconds, spans))
        on_free_cores = sum(self._timing.seconds(span, of_cpu=True) for span in spans)
        self._clock.predict(seconds)
        self._length = min(target_seconds(seconds, workers), self._longest)
        drawn = self._drawn(self._clock)
        moment = None if is_timed_now else self._timing.moment
        logger.info(
            "%s left on %s%s",
            estimate(on_free_cores / workers, seconds / workers),
            plural(workers, "worker"),
            "" if moment is None else f", as timed {words_of(moment.age)} ago",
        )
        self._show()

        def next_task() -> Task | None:
            # Questions first: a path is asked one batch after the other, and cells wait for it.
            asked = self.collector.paths.next_task(self._length, self._timing)
            return asked or self._next_runnable() or next(drawn, None)

        for task in self._results(next_task):
            self._clock.done += task.predicted

    def _next_runnable(self) -> Task | None:
        """A task of cells whose answers have come in."""
        if not self._runnable:
            for name, spans in groupby(self.collector.runnable(), key=lambda span: span.unit.dataset):
                self._runnable += self._grouped(name, spans)
        return self._runnable.popleft() if self._runnable else None

    def _results(self, new_task: Callable[[], Task | None], *, timed: bool = False) -> Iterator[Task]:
        """Finished tasks of `new_task` and of cells tried again, already merged; their times are kept."""

        def next_task() -> Task | None:
            while self._again:
                task = self._again.popleft()
                if self.collector.missing(task.spans[0].unit):
                    return task
            return new_task()

        for came in self._executor.results(next_task):
            ended = [(task, checked(task, outcome)) for task, outcome in came]
            # Before anything is written: another driver may have taken over a lease that became stale.
            self._lease.check()
            with uninterrupted():
                for span in self.collector.take([each for _, results in ended for each in results]):
                    # Alone, so that another failure is charged to this cell and to no other.
                    self._again += self._grouped(span.unit.dataset, [span])
            for task, results in ended:
                for each in results:
                    if isinstance(each, Failed):
                        continue
                    self._solver_seconds += each.seconds
                    if timed:
                        self._timing.note(each)
                yield task
            self._show()

    def _drawn(self, clock: Clock) -> Iterator[Task]:
        """Tasks of cells whose pairs are drawn: a draw of every block of every data set, then more."""
        blocks = [block for plan in self._plans for block in plan.blocks() if not asks(block.first.design)]
        draws, handed = max((block.n_graphs for block in blocks), default=0), 0
        while handed < draws:
            wave = next_wave(
                handed,
                draws,
                blocks=len(blocks),
                left=given(clock.left()),
                write_seconds=self.collector.write_seconds,
            )
            left = (self._grouped(plan.name, self.collector.left(plan, wave)) for plan in self._plans)
            for turn in zip_longest(*left):  # so that no data set waits for another one
                yield from filter(None, turn)
            handed = wave.stop

    def _grouped(self, dataset: str, spans: Iterable[Span[Cell]]) -> Iterator[Task]:
        science = self.collector.sciences[dataset]
        return make_batches(science, spans, self._timing, seconds=self._length)


def _announced(work: Work, *, is_bounded: bool) -> Iterator[str]:
    """Say how much a run has to do, and how much of the sweep was done before."""
    most = "at most " if is_bounded else ""
    yield f"{most}{plural(work.left, 'restart')} to run"
    if work.questions_left:
        yield f"{plural(work.questions_left, 'question')} to ask before"
    if work.restarts > work.left or work.cells_done:
        yield (
            f"done before: {work.restarts - work.left:,} of {most}{plural(work.restarts, 'restart')}, "
            f"{work.cells_done:,} of {plural(work.cells, 'cell')}"
        )
    if work.cells_failed:
        yield f"{plural(work.cells_failed, 'cell')} failed before (--retry-failed tries them again)"
