"""Submit and resume: one process hands out batches, merges what comes back and writes the cube."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from rich.console import Console

from pipeline.common import duration, plural, span
from pipeline.run.ledger import Collector, in_turns, next_wave
from pipeline.run.progress import Clock, Display, Step, display
from pipeline.run.request import Prepared, Wanted, aligned
from pipeline.run.signals import uninterrupted
from pipeline.work.records import (
    Asking,
    Batch,
    Failure,
    Partial,
    PathBatch,
    PathFailure,
    PathPart,
    Results,
    Science,
    Task,
    Work,
    checked,
    lost_while_asking,
    lost_with_its_worker,
)
from pipeline.work.tasks import Ended, Executor, Outcome
from pipeline.work.timing import LONGEST, TIMED, Timing, make_batches, target_seconds
from storage.cube.blocks import BlockStore, failed_cells
from storage.cube.growth import create, grow
from storage.cube.manifest import append_run
from storage.provenance import run_record
from storage.runfolder.journal import Journal
from storage.runfolder.lease import Lease, inherit
from storage.runfolder.records import StateFile, append_failure
from sweeps.plan import AskedPath, Cell, DatasetPlan
from sweeps.words import asks

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Outcomes:
    """How a run ended.

    Parameters
    ----------
    restarts, blocks : int
        Done by this run.
    unneeded : int
        Restarts that the adaptive stop made unnecessary.
    failed : tuple of Cell
        Cells that are marked failed in the cube.
    """

    restarts: int
    unneeded: int
    blocks: int
    failed: tuple[Cell, ...]


class Driver:
    """Runs what is left of a sweep.

    Parameters
    ----------
    sweep : OpenSweep
        The sweep, its cube and the lease of it.
    executor : Executor
        Runs the batches.
    console : Console
        Where progress is shown.
    time_limit : float or None
        Seconds a batch may run, where the user gave a limit. Batches are predicted to last a quarter of it at
        most, because predictions err.
    """

    def __init__(
        self,
        sweep: OpenSweep,
        executor: Executor,
        *,
        console: Console,
        time_limit: float | None = None,
    ) -> None:
        prepared = sweep.prepared
        self._spec = spec = prepared.spec
        self._cube = prepared.cube
        self._plans = prepared.inputs.plans
        self._sciences = {
            plan.name: Science(spec.seed, spec.search, plan.n_clusters, spec.stop, prepared.methods)
            for plan in self._plans
        }
        self._collector = sweep.collector
        self._paths = sweep.collector.paths
        self._asking = _asking(prepared)
        self._lease = sweep.lease
        self._executor = executor
        self._console = console
        self._longest = LONGEST if time_limit is None else time_limit / 4
        self._length = self._longest
        self._timing = Timing.load(prepared.run)
        self._state = StateFile(sweep.lease.generation.state, sweep.lease.files)
        self._again: deque[Batch] = deque()
        self._runnable: dict[str, Iterator[Batch]] = {}
        self._solver_seconds = 0.0
        self._unneeded = self._asked = 0
        self._timed = False

    def run(self) -> Outcomes:
        """Time a few restarts, predict the duration, then do everything that is left."""
        started = time.monotonic()
        restarts = self._pilot() + self._rest()
        self._collector.close()
        self._log_summary(restarts, time.monotonic() - started)
        return Outcomes(
            restarts, self._unneeded, self._collector.blocks_written, failed_cells(self._cube, self._plans)
        )

    def _log_summary(self, restarts: int, seconds: float) -> None:
        share = 100 * self._solver_seconds / max(seconds * self._executor.workers, 1e-9)
        if self._spec.stop is not None:
            logger.info("the adaptive stop made %d restarts unnecessary", self._unneeded)
        logger.info(
            "%s, %s in %s; %.0f %% of the workers' time was spent in the solver",
            plural(restarts, "restart"),
            plural(self._collector.blocks_written, "block"),
            duration(seconds),
            share,
        )

    def _pilot(self) -> int:
        """Run one restart at the corners of each grid; they are results like any other.

        Corners that are done already, because the file of timings was lost, take their time from the cube.
        """
        for plan in self._plans:
            for cell in self._timing.missing(plan):
                self._timing.note_done(cell, self._collector.seconds(cell))
        self._pilot_questions()
        batches = deque(
            self._batch(self._sciences[plan.name], replace(work, stop=work.start + 1))
            for plan in self._plans
            for cell in self._timing.missing(plan)
            for work in self._collector.open_cell(cell)[:1]
        )
        done = 0
        with Step("timing restarts", self._console, len(batches)) as step:
            for _, results in self._results(lambda: batches.popleft() if batches else None):
                partials = _partials(results)
                done += _restarts(partials)
                for partial in partials:
                    self._timing.note(partial)
                step.advance()
        self._timed = done > 0
        self._timing.save(self._lease.generation.pilot, self._lease.files)
        return done

    def _pilot_questions(self) -> None:
        """Ask the first batches of a path at the extreme accuracies of each data set; they are kept.

        Where every design asks, all of the path: the restarts that are timed next need its answers.
        """
        left = {
            path: None if len(plan.asked) == len(plan.designs) else TIMED
            for plan in self._plans
            for path in dict.fromkeys([*self._timing.questions.missing(plan), *self._unasked(plan)])
        }

        def next_task() -> PathBatch | None:
            for path, count in left.items():
                task = None if count == 0 else self._paths.first_batch(path, self._timing.questions)
                if task is not None:
                    left[path] = None if count is None else count - 1
                    return task
            return None

        for task, results in self._results(next_task):
            for part in results:
                if isinstance(part, PathPart) and isinstance(task, PathBatch):
                    self._timing.questions.note(part, task.asking.batch)

    def _unasked(self, plan: DatasetPlan) -> list[AskedPath]:
        """Paths whose answers the cells to be timed need."""
        cells = self._timing.missing(plan) if len(plan.asked) == len(plan.designs) else []
        return [AskedPath.of(cell) for cell in cells if cell.design is not None]

    def _rest(self) -> int:
        (total, seconds), (questions, asking) = self._count(), self._count_questions()
        seconds += asking
        workers = self._executor.workers
        clock = Clock(seconds, workers)
        self._length = min(target_seconds(seconds, workers), self._longest)
        drawn = self._drawn(clock)
        asked = f", {plural(questions, 'question')} to ask before" if questions else ""
        work = f"{plural(total, 'restart')} to run{asked}"
        moment = None if self._timed else self._timing.moment
        by = "" if moment is None else f", as timed {span(moment.age)} ago"
        logger.info("%s, about %s on %s%s", work, duration(clock.left()), plural(workers, "worker"), by)
        done = 0

        def next_task() -> Task | None:
            # Questions first: a path is asked one batch after the other, and cells wait for it.
            asked = self._paths.next_batch(self._length, self._timing.questions)
            return asked or self._next_runnable() or next(drawn, None)

        with display(total, clock.left(), self._console, questions) as shown:
            self._show(shown, 0, total, clock, questions)
            for task, results in self._results(next_task):
                partials = _partials(results)
                done += _restarts(partials)
                if isinstance(task, Batch):
                    self._unneeded += _unneeded(task, partials)
                clock.done += task.predicted
                self._asked += sum(len(each.answers) for each in results if isinstance(each, PathPart))
                self._show(shown, done + self._unneeded, total, clock, questions)
        return done

    def _next_runnable(self) -> Batch | None:
        """A batch of cells whose answers have come in."""
        for plan in self._plans:
            if plan.name not in self._runnable:
                work = self._collector.runnable(plan)
                self._runnable[plan.name] = self._grouped(self._sciences[plan.name], work)
            batch = next(self._runnable[plan.name], None)
            if batch is not None:
                return batch
            del self._runnable[plan.name]  # there may be more later
        return None

    def _results(self, new_task: Callable[[], Task | None]) -> Iterator[tuple[Task, Results]]:
        """Finished tasks of `new_task` and of cells tried again, already merged."""

        def next_task() -> Task | None:
            while self._again:
                batch = self._again.popleft()
                if self._collector.wants(batch.work[0].cell):
                    return batch
            return new_task()

        for came in self._executor.results(next_task):
            ended = [(task, checked(task, outcome)) for task, outcome in came]
            # Before anything is written: another driver may have taken over a lease that became stale.
            self._lease.check()
            with uninterrupted():
                self._take(ended)
            for task, outcome in ended:
                results = _results_of(outcome)
                timed = (each.seconds for each in results if isinstance(each, (Partial, PathPart)))
                self._solver_seconds += sum(timed)
                yield task, results

    def _take(self, ended: Ended) -> None:
        results = [result for _, outcome in ended for result in _results_of(outcome)]
        self._collector.take_answers([each for each in results if isinstance(each, PathPart)])
        retried = self._collector.take([each for each in results if isinstance(each, (Partial, Failure))])
        for each in results:
            if isinstance(each, PathFailure):
                self._collector.charge_path(each)
        for task, outcome in ended:
            if isinstance(outcome, BaseException):
                retried += self._lost(task, outcome)
        for work in retried:
            # Alone, so that another failure is charged to this cell and to no other.
            self._again += self._grouped(self._sciences[work.cell.dataset], [work])

    def _lost(self, batch: Task, error: BaseException) -> list[Work]:
        """What to try again after a task that ended without results, its worker having died for instance."""
        if isinstance(batch, PathBatch):
            of_path = lost_while_asking(batch, error)
            logger.warning("lost: %s: %s", batch, of_path.cause)
            self._collector.charge_path(of_path)
            return []
        work, failure = list(batch.work), lost_with_its_worker(batch.work[0], error)
        others = len({item.cell for item in work}) > 1
        logger.warning("lost: %s: %s", batch, failure.cause)
        return work if others or self._collector.charge(failure) else []

    def _count(self) -> tuple[int, float]:
        """Restarts left, and the solver seconds predicted for them."""
        total, seconds = 0, 0.0
        for plan in self._plans:
            for work in self._collector.count(plan):
                total += work.stop - work.start
                seconds += self._timing.work_seconds(work)
        return total, seconds

    def _count_questions(self) -> tuple[int, float]:
        """Questions to be asked, in whole batches, and the seconds predicted for them."""
        total, seconds = 0, 0.0
        for name, asking in self._asking.items():
            for path, start, stop in self._paths.left(name):
                batches = asking.batches(start, stop)
                total += batches * asking.batch
                seconds += self._timing.questions.path_seconds(path, start, batches, asking.batch)
        return total, seconds

    def _drawn(self, clock: Clock) -> Iterator[Batch]:
        """Batches of cells whose pairs are drawn: a draw of every block of every data set, then more."""
        blocks = [block for plan in self._plans for block in plan.blocks() if not asks(block.first.design)]
        draws, handed = max((block.n_graphs for block in blocks), default=0), 0
        while handed < draws:
            wave = next_wave(
                handed,
                draws,
                blocks=len(blocks),
                left=clock.left(),
                write_seconds=self._collector.write_seconds,
            )
            left = {plan.name: self._collector.left(plan, wave) for plan in self._plans}
            yield from in_turns([self._grouped(self._sciences[name], work) for name, work in left.items()])
            handed = wave.stop

    def _grouped(self, science: Science, work: Iterable[Work]) -> Iterator[Batch]:
        return make_batches(science, work, self._timing, seconds=self._length)

    def _batch(self, science: Science, work: Work) -> Batch:
        return Batch(science, work.cell.dataset, (work,), self._timing.work_seconds(work))

    def _show(self, shown: Display, done: int, total: int, clock: Clock, questions: int) -> None:
        left = clock.left()
        shown.update(done, self._collector.cells_written, left, self._asked)
        self._state.write(done, total, self._executor.workers, left, (self._asked, questions))


@dataclass(frozen=True)
class OpenSweep:
    """A sweep whose cube this process may write."""

    prepared: Prepared
    collector: Collector
    lease: Lease


@contextmanager
def open_sweep(prepared: Prepared, lease: Lease, wanted: Wanted) -> Iterator[OpenSweep]:
    """Create or grow the cube of a sweep, and collect into it.

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
    sweeps.errors.InputError
        If another driver has created a cube meanwhile that this sweep does not extend.
    storage.errors.StorageError
        If the disk fails; nothing that was reported done is lost.
    """
    generation, files = lease.generation, lease.files
    with uninterrupted():
        inherit(prepared.run, generation, fresh=not prepared.cube.exists())
        # Again, now that the lease is held: another driver may have created or grown the cube meanwhile.
        prepared = aligned(prepared)
        make = grow if prepared.cube.exists() else create
        make(prepared.cube, prepared.inputs.plans, prepared.inputs.stored, prepared.spec, files)
        append_run(prepared.cube, run_record(prepared.inputs.skipped), files)
    with Journal(generation.journal, files) as journal:
        collector = Collector(
            BlockStore(prepared.cube, files=files),
            journal,
            prepared.inputs,
            seed=prepared.spec.seed,
            failed=lambda record: append_failure(generation.failures, record, files),
            wanted=wanted,
            stop=prepared.spec.stop,
            asking=_asking(prepared),
        )
        yield OpenSweep(prepared, collector, lease)


def _asking(prepared: Prepared) -> dict[str, Asking]:
    """How questions are asked about each data set for which a design asks."""
    plans = (plan for plan in prepared.inputs.plans if plan.asked)
    return {plan.name: Asking.of(prepared.spec, plan) for plan in plans}


def _results_of(outcome: Outcome) -> Results:
    return [] if isinstance(outcome, BaseException) else outcome


def _partials(results: Results) -> list[Partial]:
    return [result for result in results if isinstance(result, Partial)]


def _unneeded(batch: Batch, partials: list[Partial]) -> int:
    """Restarts of a batch that were not run because those before them were enough."""
    most = {(work.cell, work.start): work.stop for work in batch.work}
    done = (partial.work for partial in partials)
    return sum(most[work.cell, work.start] - work.stop for work in done)


def _restarts(partials: list[Partial]) -> int:
    return sum(partial.work.stop - partial.work.start for partial in partials)
