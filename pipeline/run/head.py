"""The head of a run: scheduler and driver, from the lease to the exit code.

One process hands out tasks, merges their results and writes the cube. `open_sweep` creates or grows the cube
and opens its ledger; a `Driver` runs what is left of the sweep. `display` and `step` show how far it is, and
a `Clock` predicts the time that is left. `run_head` does all of it; `report_done` ends a submit of a sweep
that is done. A detached head is a job in a queue: `head_script` writes its script, and a `HeadJob` resumes it
after its walltime.
"""

from __future__ import annotations

import logging
import math
import os
import re
import shlex
import signal
import socket
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import groupby, zip_longest
from math import inf
from pathlib import Path
from urllib.parse import urlsplit

from rich import progress as bars
from rich.console import Console

from sweep_clustering.pipeline import common
from sweep_clustering.pipeline.cluster.connect import connect, dashboard_address
from sweep_clustering.pipeline.cluster.executor import DaskExecutor
from sweep_clustering.pipeline.cluster.pages import published
from sweep_clustering.pipeline.jobs import queues
from sweep_clustering.pipeline.jobs.keys import KnownQueue
from sweep_clustering.pipeline.live.site import Crew, Feed, Site
from sweep_clustering.pipeline.monitor.status import failed_causes, read_status
from sweep_clustering.pipeline.run import signals
from sweep_clustering.pipeline.run.ledger import Collector, Work, next_wave
from sweep_clustering.pipeline.run.request import Request, Selection, Sweep, align_with_cube, is_settled
from sweep_clustering.pipeline.work.merge import Mismatch
from sweep_clustering.pipeline.work.records import Failed, Science, Span, Task, checked_results
from sweep_clustering.pipeline.work.tasks import SerialExecutor
from sweep_clustering.pipeline.work.timing import LONGEST, TIMED, Timing, make_batches, target_seconds
from sweep_clustering.storage.cube import schema
from sweep_clustering.storage.cube.blocks import BlockStore, CellMismatch, failed_cells
from sweep_clustering.storage.cube.growth import create, grow
from sweep_clustering.storage.cube.manifest import append_run, keep_causes, read_manifest
from sweep_clustering.storage.files import LeaseLost, StorageError, remove, storage_errors, unsynced_devices
from sweep_clustering.storage.provenance import PROMISE, run_record
from sweep_clustering.storage.runfolder import folder
from sweep_clustering.storage.runfolder.journal import Journal, JournalDamaged
from sweep_clustering.storage.runfolder.lease import (
    STALE_AFTER,
    Cancelled,
    Lease,
    LeaseHeld,
    inherit,
    own_job,
    this_process,
)
from sweep_clustering.sweeps.errors import present
from sweep_clustering.sweeps.plan import AskedPath, Cell
from sweep_clustering.sweeps.words import asks

Executor = SerialExecutor | DaskExecutor

logger = logging.getLogger(__name__)

# Time before its walltime at which the head gets a signal; SLURM may send it a minute earlier.
WARNING_SECONDS = 180.0


@contextmanager
def open_sweep(sweep: Sweep, lease: Lease, selection: Selection) -> Iterator[Collector]:
    """Create or grow the cube of a sweep, and open its ledger.

    Raises
    ------
    sweep_clustering.sweeps.errors.InputError
        If another driver has created a cube meanwhile that this sweep does not extend.
    sweep_clustering.storage.files.StorageError
        If the disk fails; nothing that was reported done is lost.
    """
    generation, files = lease.generation, lease.files
    with signals.uninterrupted():
        inherit(sweep.run, generation, fresh=not sweep.cube.exists())
        # Again, now that the lease is held: another driver may have created or grown the cube meanwhile.
        sweep = align_with_cube(sweep)
        make = grow if sweep.cube.exists() else create
        make(sweep.cube, sweep.inputs.plans, sweep.inputs.stored, sweep.spec, files)
        append_run(sweep.cube, run_record(sweep.inputs.skipped, sweep.spec), files)
    if software := read_manifest(sweep.cube).software:
        logger.warning("%s; %s", software, PROMISE)
    plans = sweep.inputs.plans
    with Journal(generation.journal, files) as journal:
        yield Collector(
            BlockStore(sweep.cube, files=files),
            journal,
            sweep.inputs,
            {plan.name: Science.of(sweep.spec, plan, sweep.methods) for plan in plans},
            keep_failure=lambda record: folder.append_failure(generation.failures, record, files),
            selection=selection,
        )


@dataclass(eq=False)
class Driver:
    """Run what is left of a sweep; a task may take `time_limit` seconds, where the user gave a limit."""

    collector: Collector
    lease: Lease
    executor: Executor
    console: Console
    time_limit: float | None = None

    def __post_init__(self) -> None:
        self._plans = self.collector.plans.values()
        # A quarter of the limit at most, because predictions err.
        self._length = self._longest = LONGEST if self.time_limit is None else self.time_limit / 4
        self._timing = Timing.load(self.lease.generation.run)
        self._retries = deque[Task]()
        self._runnable = deque[Task]()
        self._solver_seconds = 0.0
        self._clock = Clock(self.executor.workers)
        self._show: Callable[[], None]

    def run(self) -> None:
        """Time a few restarts, predict the duration, then compute everything that is left."""
        start, collector, work = time.monotonic(), self.collector, self.collector.survey()
        is_bounded = any(science.stop is not None for science in collector.sciences.values())
        logger.info("%s", "; ".join(_announced(work, is_bounded=is_bounded)))
        with display(work, self._clock, self.console, self.lease, is_bounded=is_bounded) as show:
            self._show = lambda: show(collector, self.executor.workers)
            self._show()
            self._pilot()
            self._run_main()
        collector.close()
        seconds = time.monotonic() - start
        if collector.spared:
            logger.info("the adaptive stop made %d restarts unnecessary", collector.spared)
        logger.info(
            "%s, %s in %s; %.0f %% of the workers' time was spent in the solver",
            common.plural(collector.ran, "restart"),
            common.plural(collector.blocks_written, "block"),
            common.duration(seconds),
            100 * self._solver_seconds / max(seconds * self.executor.workers, 1e-9),
        )

    def _pilot(self) -> None:
        """Run a restart at the corners of each grid, and ask the first questions: results like any other.

        Corners that are done already, because the file of timings was lost, take their time from the cube. If
        every design asks, a path is asked to its end: the restarts that are timed next need answers.
        """
        batches: dict[AskedPath, float] = {}
        for plan in self._plans:
            for cell in self._timing.untimed_cells(plan):
                self._timing.note_done(cell, self.collector.seconds(cell))
            asking_cells = [cell for cell in self._timing.untimed_cells(plan) if asks(cell.design)]
            for path in (*self._timing.untimed_paths(plan), *map(AskedPath.of, asking_cells)):
                batches[path] = inf if len(plan.asking_designs) == len(plan.designs) else TIMED

        def next_questions() -> Task | None:
            open_paths = [path for path, count in batches.items() if count > 0]
            task = self.collector.paths.next_task(0.0, self._timing, open_paths)
            if task is not None:
                batches[task.spans[0].unit] -= 1
            return task

        for _ in self._results(next_questions, is_timed=True):
            pass
        spans = deque(
            replace(span, stop=span.start + 1)
            for plan in self._plans
            for cell in self._timing.untimed_cells(plan)
            for span in self.collector.open_cell(cell)[:1]
        )

        def next_restart() -> Task | None:
            return next(self._group(spans[0].unit.dataset, [spans.popleft()])) if spans else None

        if spans:
            logger.info("timing %d of them, to predict the others", len(spans))
        for _ in self._results(next_restart, is_timed=True):
            pass
        self._timing.save(self.lease.generation.pilot, self.lease.files)

    def _run_main(self) -> None:
        collector, workers = self.collector, self.executor.workers
        spans = [span for plan in self._plans for span in collector.count(plan)]
        seconds = sum(map(self._timing.seconds, spans))
        on_free_cores = sum(self._timing.seconds(span, of_cpu=True) for span in spans)
        self._clock.predict(seconds)
        self._length = min(target_seconds(seconds, workers), self._longest)
        drawn_tasks = self._drawn_tasks()
        moment = None if collector.ran else self._timing.moment
        logger.info(
            "%s left on %s%s",
            common.estimate(on_free_cores / workers, seconds / workers),
            common.plural(workers, "worker"),
            "" if moment is None else f", as timed {common.span(moment.age)} ago",
        )
        self._show()

        def next_task() -> Task | None:
            # Questions first: a path is asked one batch after the other, and cells wait for it.
            questions = collector.paths.next_task(self._length, self._timing)
            return questions or self._next_runnable() or next(drawn_tasks, None)

        for task in self._results(next_task):
            self._clock.finished_seconds += task.seconds

    def _next_runnable(self) -> Task | None:
        """Return a task of cells whose answers have come in, or None."""
        if not self._runnable:
            for name, spans in groupby(self.collector.runnable_spans(), key=lambda span: span.unit.dataset):
                self._runnable += self._group(name, spans)
        return self._runnable.popleft() if self._runnable else None

    def _results(self, new_task: Callable[[], Task | None], *, is_timed: bool = False) -> Iterator[Task]:
        """Yield tasks as they finish, merged already: those of `new_task`, and cells that are tried again."""

        def next_task() -> Task | None:
            while self._retries:
                task = self._retries.popleft()
                if self.collector.missing_spans(task.spans[0].unit):
                    return task
            return new_task()

        for outcomes in self.executor.results(next_task):
            endings = [(task, checked_results(task, outcome)) for task, outcome in outcomes]
            # Before anything is written: another driver may have taken over a lease that became stale.
            self.lease.check()
            with signals.uninterrupted():
                for span in self.collector.take([result for _, results in endings for result in results]):
                    # Alone, so that another failure is charged to this cell and to no other.
                    self._retries += self._group(span.unit.dataset, [span])
            for task, results in endings:
                for result in results:
                    if not isinstance(result, Failed):
                        self._solver_seconds += result.seconds
                        if is_timed:
                            self._timing.note(result)
                yield task
            self._show()

    def _drawn_tasks(self) -> Iterator[Task]:
        """Yield tasks of cells whose pairs are drawn: a draw of every block of every data set, then more."""
        blocks = [block for plan in self._plans for block in plan.blocks() if not asks(block.first.design)]
        draws, start = max((block.n_graphs for block in blocks), default=0), 0
        while start < draws:
            time_left = present(self._clock.seconds_left())
            write_seconds = self.collector.write_seconds
            wave = next_wave(start, draws, blocks=len(blocks), seconds=time_left, write_seconds=write_seconds)
            tasks = (self._group(plan.name, self.collector.spans_left(plan, wave)) for plan in self._plans)
            for turn in zip_longest(*tasks):  # so that no data set waits for another one
                yield from filter(None, turn)
            start = wave.stop

    def _group(self, dataset: str, spans: Iterable[Span[Cell]]) -> Iterator[Task]:
        science = self.collector.sciences[dataset]
        return make_batches(science, spans, self._timing, seconds=self._length)


def _announced(work: Work, *, is_bounded: bool) -> Iterator[str]:
    """Say how much a run has to do, and how much of the sweep was done before."""
    bound = "at most " if is_bounded else ""
    yield f"{bound}{common.plural(work.restarts_left, 'restart')} to run"
    if work.questions_left:
        yield f"{common.plural(work.questions_left, 'question')} to ask before"
    if (n_earlier := work.restarts - work.restarts_left) > 0 or work.cells_done:
        yield (
            f"done before: {n_earlier:,} of {bound}{common.plural(work.restarts, 'restart')}, "
            f"{work.cells_done:,} of {common.plural(work.cells, 'cell')}"
        )
    if work.cells_failed:
        yield f"{common.plural(work.cells_failed, 'cell')} failed before (--retry-failed tries them again)"


# How far a run is: a bar on a terminal, plain lines in a log, and a file for commands that read files.

# Shortest time between two lines of a log.
LINE_SECONDS = 10.0

# Shortest time between two states in the run folder.
STATE_SECONDS = 2.0


@dataclass
class Clock:
    """Predict the end of a run from the solver seconds predicted for its work and the time that the work
    took.

    `predicted_seconds` are those of the solver for all work since `start_time`; None while restarts are
    timed.
    """

    workers: int
    predicted_seconds: float | None = None
    finished_seconds: float = 0.0
    start_time: float = field(default_factory=time.monotonic)

    def predict(self, seconds: float) -> None:
        """Take a prediction of the solver seconds of the work that is left, and begin to measure the pace."""
        self.predicted_seconds, self.finished_seconds, self.start_time = seconds, 0.0, time.monotonic()

    def seconds_left(self) -> float | None:
        """Return the wall seconds until the end, or None while nothing is predicted.

        The first batches of a run say little about the pace, so the prediction counts as a twentieth of the
        work.
        """
        if self.predicted_seconds is None:
            return None
        prior = 0.05 * self.predicted_seconds
        if self.predicted_seconds <= 0:
            return 0.0
        elapsed = time.monotonic() - self.start_time
        pace = (elapsed + prior / self.workers) / (self.finished_seconds + prior)
        return max(0.0, self.predicted_seconds - self.finished_seconds) * pace


@contextmanager
def display(
    work: Work, clock: Clock, console: Console, lease: Lease, *, is_bounded: bool = False
) -> Iterator[Callable[[Collector, int], None]]:
    """Yield a function that shows restarts as they finish, and cells as they come into the cube.

    The console gets a bar where it is a terminal, and the log an occasional line elsewhere. The state is also
    written to the run folder of the lease. With `is_bounded` an adaptive stop may make restarts unnecessary.
    """
    bar = bars.Progress(
        bars.TextColumn("{task.description}"),
        bars.BarColumn(),
        bars.TextColumn("{task.fields[text]} ·"),
        bars.TimeElapsedColumn(),
        bars.TextColumn("· {task.fields[left]}"),
        console=console,
        disable=not console.is_terminal,
    )
    total, n_earlier = work.restarts, work.restarts - work.restarts_left
    bound = "at most " if is_bounded else ""
    note = f", {n_earlier:,} of them before this run" if n_earlier else ""
    task = bar.add_task("sweep", total=total, completed=n_earlier, text="", left="")
    # A line says how far a run came, so the first waits; the first state says that it has begun.
    log_time, state_time = time.monotonic(), -inf

    def show(collector: Collector, workers: int) -> None:
        nonlocal log_time, state_time
        moment, seconds = time.monotonic(), clock.seconds_left()
        n_done = total - collector.n_remaining[Cell]
        n_answered = work.questions - collector.n_remaining[AskedPath]
        time_left = "timing restarts" if seconds is None else f"{common.duration(seconds)} left"
        text = f"{n_done:,} of {bound}{common.plural(total, 'restart')}{note}"
        text += f" · {n_answered:,} of {common.plural(work.questions, 'question')}" if work.questions else ""
        n_written = work.cells_done + collector.cells_written
        text += f" · {n_written:,} of {common.plural(work.cells, 'cell')} in the cube"
        bar.update(task, completed=n_done, text=text, left=time_left)
        is_over = n_done == total and seconds is not None
        if bar.disable and (is_over or moment - log_time >= LINE_SECONDS):
            log_time = moment
            logger.info("%5.1f %% · %s · %s", 100 * n_done / max(total, 1), text, time_left)
        if is_over or moment - state_time >= STATE_SECONDS:
            state_time = moment
            folder.Progress(
                restarts=n_done,
                total=total,
                earlier=n_earlier,
                workers=workers,
                left=seconds,
                at=time.time(),
                answers=n_answered,
                questions=work.questions,
            ).write(lease.generation.state, lease.files)

    with bar:
        yield show


@contextmanager
def step(text: str, console: Console) -> Iterator[None]:
    """Show a part of the start of a run and how long it takes: as a line of a terminal that vanishes, or in
    the log.
    """
    bar = bars.Progress(
        bars.SpinnerColumn(),
        bars.TextColumn("{task.description}"),
        bars.TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    bar.add_task(text, total=None)
    if bar.disable:
        logger.info("%s", text)
    with bar:
        yield


# These end a run with a message: no cell is to blame, and nothing that was reported done is lost.
ENDINGS = (
    *(StorageError, LeaseHeld, LeaseLost, JournalDamaged, Mismatch, CellMismatch),
    *(signals.StopSignal, queues.ComputeClusterError),
)

# Exit code of a head that was cancelled, by a signal or by a file.
CANCELLED = 128 + signal.SIGTERM

# Set in the environment of a head that was started as a process of its own.
DETACHED = "SWEEP_DETACHED"

COMPILING = "loading the search, compiled at the first start on a machine (about 15 s)"

# Seconds between two attempts to take the lease of a head that died on another node.
LEASE_SECONDS = 5.0


@dataclass(frozen=True)
class End:
    """How a run ended: exit code, description, whether its job is to be queued again, or it had no worker."""

    code: int
    description: str
    is_requeued: bool = False
    lacked_workers: bool = False

    @property
    def event(self) -> str:
        """The end in one word."""
        is_finished = self.code in (common.COMPLETE, common.FAILED_CELLS)
        return "finished" if is_finished else "failed" if self.code == common.INTERNAL else "stopped"


def run_head(request: Request, console: Console) -> int:
    """Run what is left of a sweep in this process, and return the exit code of
    `pipeline.submit.submission.submit`.

    If the walltime of its job ends the run, the job is queued again. The console shows progress; warnings and
    results go through logging.
    """
    if is_settled(request.sweep, request.selection):
        return report_done(request)
    run = request.sweep.run
    job = HeadJob.current(run)
    system = "" if request.profile is None else request.profile.options.kind
    if job is None and (queue := queues.QUEUES.get(system)) is not None:
        # submitting the worker jobs meets an error of the queue as well, and reports it
        with suppress(queues.CommandFailed):
            if (other := queue.other_head(run)) is not None:
                logger.error("%s", other)
                return common.INTERNAL
    command = None if request.profile is None else request.profile.options.notify
    with signals.Notices(command, run) as notices:
        return _lead(request, job, console, notices).code


def _lead(request: Request, job: HeadJob | None, console: Console, notices: signals.Notices) -> End:
    """Run what is left of a sweep as its only head, and return how that ended."""
    run, record = request.sweep.run, None
    end = End(common.INTERNAL, "ended by an error")
    try:
        with (
            signals.stop_on_signal() as interrupt,
            # A job may find the lease of a head that died on another node, not stale yet.
            _lease(request.sweep.cube, wait=job is not None, on_lost=interrupt) as lease,
            signals.log_file(run.log),
        ):
            unsynced_devices.clear()  # so that the log of each run names them
            data_dir = request.options.data_dir
            record = folder.HeadRecord(
                spec=str(request.spec.resolve()),
                data_dir=None if data_dir is None else str(data_dir.resolve()),
                job=this_process().job_id,
                node=own_job().node or socket.gethostname(),
                restarts=0 if job is None else job.restarts,
                where=request.options.cluster_flags(),
                system="" if request.profile is None else request.profile.options.kind,
            ).in_state(folder.RUNNING)
            record.write(lease.generation.head, lease.files)
            notices.begin(is_resumed=job is not None and job.restarts > 0)
            try:
                if job is None and DETACHED not in os.environ:
                    withdraw_cancel(run)
                lease.check()  # a head that was started detached obeys a cancel that came before its start
                end = _run(request, record, lease, console, notices)
            except ENDINGS as error:
                end = _ended_by(error, job)
            finally:
                # A full disk has been reported already, and who lost the lease has nothing to say any more.
                with suppress(StorageError, LeaseLost):
                    state = folder.REQUEUED if end.is_requeued else folder.ENDED
                    final = record.in_state(state, end.description, lacked_workers=end.lacked_workers)
                    final.write(lease.generation.head, lease.files)
    except ENDINGS as error:
        end = _ended_by(error, job)
    if job is not None and end.is_requeued and not job.requeue(run) and record is not None:
        description = f"{end.description}, and not queued again"
        with suppress(LeaseLost):  # it was given back: the next head may have it
            record.in_state(folder.ENDED, description).write(lease.generation.head, lease.files)
        end = End(end.code, description)
    if notices.event:
        notices.event, notices.description = "" if end.is_requeued else end.event, end.description
    return end


def withdraw_cancel(run: folder.RunFolder) -> None:
    """Withdraw the request that every head of this cube end, as the holder of the lease."""
    with storage_errors(run.stop):
        remove(run.stop)


def report_done(request: Request) -> int:
    """Log that nothing is to run, and return the exit code of a run that ends like this."""
    logger.info("every cell is done: nothing to run")
    return _conclude(request).code


def _run(
    request: Request, record: folder.HeadRecord, lease: Lease, console: Console, notices: signals.Notices
) -> End:
    with (
        # Workers before the cube: a compute cluster that is not available leaves nothing behind.
        _executor(request, record, lease, console) as executor,
        open_sweep(request.sweep, lease, request.selection) as collector,
        _page(request.sweep, collector, executor),
    ):
        if isinstance(executor, DaskExecutor):
            notices.count_workers = lambda: executor.n_connected
        Driver(collector, lease, executor, console, request.options.time_limit).run()
        keep_causes(request.sweep.cube, failed_causes(request.sweep.cube), lease.files)
        return _conclude(request)


def _ended_by(error: BaseException, job: HeadJob | None) -> End:
    """Log why a run ended early; `job` is the job that this process is the head of."""
    if isinstance(error, Cancelled):
        logger.error("%s; what was finished is kept, submit again to resume", error)
        return End(CANCELLED, "cancelled")
    if isinstance(error, signals.StopSignal):
        signals.ignore_signals()
        # Asked once: the queue's answer to a SIGTERM changes as the job ends.
        is_requeued = job is not None and job.continues(error.number)
        next_step = "the head resumes when its job starts again" if is_requeued else "submit again to resume"
        logger.error("stopped by %s; what was finished is kept, %s", error, next_step)
        return End(128 + error.number, f"stopped by {error}", is_requeued)
    logger.error("%s", error)
    return End(common.INTERNAL, str(error), lacked_workers=isinstance(error, queues.ComputeClusterError))


def _conclude(request: Request) -> End:
    """Log the results of a run for the whole sweep, which includes data sets that are not at hand."""
    sweep, selection = request.sweep, request.selection
    plans, skips = sweep.inputs.plans, sweep.inputs.skipped
    failures = list(filter(selection.runs, failed_cells(sweep.cube, plans)))
    for cell in failures:
        logger.error('failed: %s (for more: sweep why %s "%s")', cell, sweep.cube, cell)
    store = BlockStore(sweep.cube, read_only=True)
    unsolved = Counter(cell.model for cell in store.cells(plans, schema.NO_SOLUTION))
    for method, count in unsolved.items():
        logger.info("no solution: %s, in %s", method, common.plural(count, "cell"))
    if not selection.cells:
        rows = [row for row in read_status(sweep.cube).datasets if row.name not in skips]
        n_left_out = common.cells_left_out(sweep.spec, skips)
        cells, n_failed = (sum(getattr(row, name) for row in rows) for name in ("cells", "failed"))
        n_done = cells - n_failed - sum(row.left for row in rows)
        parts = [f"{n_done:,} of {common.plural(cells + n_left_out, 'cell')} done"]
        parts += [f"{n_failed:,} failed"] if n_failed else []
        parts += [f"{n_left_out:,} left out, because their data sets are not at hand"] if n_left_out else []
        logger.info("%s", ", ".join(parts))
    logger.info("results: %s", sweep.cube)
    if selection.cells and not is_settled(sweep, selection):
        logger.info("results are kept, and written to the cube when the rest of the block is done")
    if failures:
        return End(common.FAILED_CELLS, "finished with failed cells")
    return End(common.FAILED_CELLS if request.options.strict and skips else common.COMPLETE, "finished")


@contextmanager
def _lease(cube: Path, *, wait: bool, on_lost: signals.Interrupt) -> Iterator[Lease]:
    """Hold the lease; with `wait`, wait until the lease of a head that died elsewhere is stale."""
    deadline = time.monotonic() + (2 * STALE_AFTER if wait else 0.0)
    while True:
        try:
            lease = Lease.acquire(cube, on_lost=on_lost)
            break
        except LeaseHeld as holder:
            if time.monotonic() >= deadline:
                raise
            logger.info("waiting: %s", holder)
        time.sleep(LEASE_SECONDS)
    with lease:
        yield lease


@contextmanager
def _executor(
    request: Request, record: folder.HeadRecord, lease: Lease, console: Console
) -> Iterator[Executor]:
    sources, profile = request.sweep.inputs.sources, request.profile
    if profile is None:
        explanation = "dashboard: none without workers; sweep open %s shows the run from its files"
        logger.info(explanation, request.sweep.cube)
        with step(COMPILING, console):
            serial = SerialExecutor(sources)
        yield serial
        return
    with ExitStack() as stack:
        with step("starting workers", console):
            client = stack.enter_context(connect(profile, n_workers=request.options.workers, lease=lease))
        dashboard = "none"
        if (address := dashboard_address(client)) is not None:
            port = urlsplit(address).port
            tunnel = f"ssh -L {port}:127.0.0.1:{port} {socket.gethostname()}"
            dashboard = f"{address} (from elsewhere: {tunnel})"
        logger.info("dashboard: %s", dashboard)
        record.model_copy(update={"dashboard": dashboard}).write(lease.generation.head, lease.files)
        start = time.monotonic()
        with step(COMPILING, console):
            executor = DaskExecutor(client, sources, time_limit=request.options.time_limit)
        n_workers = common.plural(executor.workers, "worker")
        logger.info("%s ready after %s", n_workers, common.span(time.monotonic() - start))
        yield executor


@contextmanager
def _page(sweep: Sweep, collector: Collector, executor: Executor) -> Iterator[None]:
    """Let the dashboard of the run's own scheduler show the run."""
    if not isinstance(executor, DaskExecutor) or executor.client.cluster is None:
        yield
        return
    cube = sweep.cube
    with Feed(cube) as feed:

        def crew() -> Crew:
            rows = [
                (urlsplit(place["worker"]).netloc, place["node"], place["job"], str(task), begin)
                for task, place, begin in executor.at_work()
            ]
            return executor.n_connected, rows

        with published(executor.client, Site(cube, feed, crew)):
            collector.tell(feed)
            yield


@dataclass(frozen=True)
class HeadJob:
    """The job whose head this process is: its queue and number, and how often it was queued again."""

    queue: queues.Queue
    number: str
    restarts: int

    @classmethod
    def current(cls, run: folder.RunFolder) -> HeadJob | None:
        """Return the job that this process is the head of, None outside of one."""
        job = own_job()
        queue = queues.QUEUES.get(job.system)
        if queue is None or job.name != queues.head_name(run):
            return None
        head, submission = folder.HeadRecord.read(run.last_run.head), folder.Submission.read(run.submission)
        is_next = head is not None and head.state == folder.REQUEUED and head.job != job.number
        if head is not None and is_next and submission is not None and submission.job == job.number:
            return cls(queue, job.number, head.restarts + 1)
        return cls(queue, job.number, job.restarts)

    def continues(self, number: int) -> bool:
        """Whether a signal means that the job is to start again, and not that a user wants the head to end.

        SIGUSR1 comes before the walltime, as the script asks. SLURM sends SIGTERM, and Grid Engine SIGUSR2,
        at the walltime, when the job is cancelled, and when it is back in the queue: its node was lost, or
        others come first.
        """
        if number == signal.SIGUSR1:
            return True
        return number in (signal.SIGTERM, signal.SIGUSR2) and (
            self.queue.is_out_of_time(self.number) or self._waits_again()
        )

    def requeue(self, run: folder.RunFolder) -> bool:
        """Queue this job again, or another one in its place; return False if that is refused."""
        try:
            if self._waits_again():
                return True
            if self.queue.requeuing:
                self.queue.requeue(self.number)
                return True
            moment = time.time()
            name = queues.head_name(run)
            number = replace(self.queue, attempts=6).submit(str(run.script), name, besides=self.number)
            host = socket.gethostname()
            folder.Submission(system=self.queue.kind, job=number, host=host, at=moment).write(run.submission)
        except (queues.CommandFailed, StorageError) as error:
            logger.error("the head was not queued again (%s); submit again to resume", error)
            return False
        return True

    def _waits_again(self) -> bool:
        return self.queue.details(self.number).restarts > self.restarts


def head_script(options: KnownQueue, run: folder.RunFolder, arguments: Sequence[str]) -> str:
    """Return the script of the head's job, which runs `sweep` with these arguments."""
    queue, head, keys = queues.QUEUES[options.kind], options.head, options.keys
    walltime = head.walltime or keys.get("walltime")
    seconds = queues.walltime_seconds(options.kind, walltime or "")
    # before the end of the walltime, when the head is to get a signal
    warning = int(max(1.0, min(WARNING_SECONDS, (seconds or math.inf) / 4)))
    values = {
        "name": queues.head_name(run),
        "log": run.head_log.resolve(),
        "cores": head.cores,
        "memory": math.ceil(head.memory / 2**20),
        "walltime": walltime,
        "seconds": seconds and f"{seconds:.0f}",
        "warning": warning,
        "warned": seconds and f"{max(1.0, seconds - warning):.0f}",
        "queue": head.queue or keys.get("queue"),
        "account": head.account or keys.get("account") or keys.get("project"),
        "mail": options.mail,
        "pe": options.environment if head.cores > 1 else None,
    }
    values = {key: value for key, value in values.items() if value is not None}
    lines_of_head = [
        f"{queue.marker} {template.format_map(values)}"
        for template in queue.head_directives
        if values.keys() >= {*re.findall(r"{(\w+)}", template)}
    ]
    directives = [
        line for line in lines_of_head if not any(text in line for text in head.job_directives_skip)
    ]
    lines = [
        "#!/usr/bin/env bash",
        *directives,
        *(f"{queue.marker} {directive}" for directive in head.job_extra_directives),
        # Until the head listens, a warning must not end it.
        "trap '' USR1 USR2",
        *keys.get("job_script_prologue", []),
        # The directory a job starts in must not stand before the installed packages.
        "export PYTHONSAFEPATH=1",
        f"cd {shlex.quote(str(Path.cwd()))}",
        # In place of the shell, so that it is python that gets the signals.
        f"exec {keys['python']} -m sweep_clustering {shlex.join(arguments)}",
    ]
    return "\n".join(lines) + "\n"
