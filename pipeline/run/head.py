"""The head of a run: scheduler and driver, from the lease to the exit code."""

from __future__ import annotations

import logging
import os
import signal
import socket
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from types import TracebackType
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from pipeline.cluster.executor import DaskExecutor
from pipeline.cluster.pages import published
from pipeline.common import COMPLETE, FAILED_CELLS, INTERNAL, cells_left_out, plural, span
from pipeline.jobs.head import HeadJob
from pipeline.jobs.slurm import CommandFailed, ComputeClusterError, other_head
from pipeline.live.board import Board
from pipeline.live.site import Site
from pipeline.live.sources import Feed
from pipeline.live.state import AtWork, Crew, State
from pipeline.run.driver import Driver, OpenSweep, Outcomes, open_sweep
from pipeline.run.progress import Step
from pipeline.run.request import Prepared, Request
from pipeline.run.signals import Interrupt, Stopped, log_file, stop_on_signal
from pipeline.work.merge import Mismatch
from pipeline.work.tasks import Executor, SerialExecutor
from storage.cube.blocks import BlockStore, CellMismatch, failed_cells, unsolved_cells
from storage.cube.manifest import read_manifest
from storage.cube.schema import DONE, FAILED, NO_SOLUTION
from storage.errors import StorageError, storage_errors
from storage.files import remove
from storage.runfolder.folder import RunFolder
from storage.runfolder.journal import JournalDamaged
from storage.runfolder.lease import STALE_AFTER, Cancelled, Lease, LeaseHeld, LeaseLost
from storage.runfolder.process import this_process
from storage.runfolder.records import ENDED, REQUEUED, RUNNING, HeadRecord

# The page of a run, on the dashboard of its scheduler.

MOST_MIXTURES = 4096
"""Whose true labels are kept; those of others are drawn again."""


@contextmanager
def page_of_run(prepared: Prepared, executor: DaskExecutor) -> Iterator[Feed]:
    """Serve the page while the block lasts.

    Parameters
    ----------
    prepared : Prepared
        The sweep, whose cube exists.
    executor : DaskExecutor
        On a scheduler of this process.

    Yields
    ------
    Feed
        To be told of results.
    """
    sources, cube = prepared.inputs.sources, prepared.cube

    @lru_cache(MOST_MIXTURES)
    def truth(dataset: str, mixture: int | None) -> NDArray[np.int16] | None:
        # a data set that is not available this time is in the cube all the same
        return sources[dataset].arrays(mixture)[1] if dataset in sources else None

    with Feed(Board(read_manifest(cube).plans.values()), BlockStore(cube, read_only=True), truth) as feed:
        state = State(cube, feed, skipped=prepared.inputs.skipped, crew=lambda: crew_of(executor))
        with published(executor.client, Site(state)):
            yield feed


def crew_of(executor: DaskExecutor) -> Crew:
    """Workers, and what each is at."""
    rows = [
        AtWork(urlsplit(where["worker"]).netloc, where["node"], where["job"], str(task), since)
        for task, where, since in executor.at_work()
    ]
    return Crew(executor.connected, rows)


logger = logging.getLogger(__name__)

EXPECTED_ERRORS = (
    StorageError,
    LeaseHeld,
    LeaseLost,
    JournalDamaged,
    Mismatch,
    CellMismatch,
    ComputeClusterError,
)
"""They end a run with a message: no cell is to blame, nothing that was reported done is lost."""

CANCELLED = 128 + signal.SIGTERM
"""The exit code of a head that was cancelled, however it was told."""

DETACHED = "SWEEP_DETACHED"
"""Set in the environment of a head that was started as a process of its own."""

COMPILING = "loading the search, compiled at the first start on a machine (about 15 s)"
FUNCTIONS = "functions compiled"

LEASE_SECONDS = 5.0
"""Between attempts to take the lease of a head that died on another node."""


@dataclass(frozen=True)
class End:
    """How a run ended: exit code, description, and whether its job is to be queued again."""

    code: int
    how: str
    again: bool = False


class Ending:
    """Handles the exceptions that end a run early: logs them, and keeps how the run ended.

    Parameters
    ----------
    own : HeadJob or None
        The job this process is the head of.
    """

    def __init__(self, own: HeadJob | None) -> None:
        self._own = own
        self.end = End(INTERNAL, "ended by an error")

    def __enter__(self) -> Ending:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if isinstance(error, Cancelled):
            logger.error("%s; what was finished is kept, submit again to resume", error)
            self.end = End(CANCELLED, "cancelled")
        elif isinstance(error, Stopped):
            # Asked once: SLURM's answer to a SIGTERM changes as the job ends.
            again = self._own is not None and self._own.continues(error.number)
            then = "the head resumes when its job starts again" if again else "submit again to resume"
            logger.error("stopped by %s; what was finished is kept, %s", error, then)
            self.end = End(128 + error.number, f"stopped by {error}", again)
        elif isinstance(error, EXPECTED_ERRORS):
            logger.error("%s", error)
            self.end = End(INTERNAL, str(error))
        return isinstance(error, (Stopped, *EXPECTED_ERRORS))


def run_head(request: Request, console: Console) -> int:
    """Run what is left of a sweep in this process, and queue its job again when the walltime ends it.

    Parameters
    ----------
    request : Request
        What to run.
    console : Console
        Where progress is shown; warnings and results go through logging.

    Returns
    -------
    int
        Exit code, as `pipeline.submit.submission.submit` has it.
    """
    if request.settled:
        return nothing_to_do(request)
    own = HeadJob.current(request.prepared.run)
    if own is None and request.queued and (other := _waiting_head(request.prepared.run)) is not None:
        logger.error("%s", other)
        return INTERNAL
    ending = Ending(own)
    with (
        stop_on_signal() as interrupt,
        ending,
        # A job may find the lease of a head that died on another node, not stale yet.
        _lease(request.prepared.cube, wait=own is not None, on_lost=interrupt) as lease,
        log_file(request.prepared.run.log),
        _recorded(request, own, ending, lease) as record,
        # Entered twice: this one sets the end before the record is written, the outer one handles errors
        # of what stands between the two.
        ending,
        # Workers before the cube: a compute cluster that is not available leaves nothing behind.
        _executor(request, record, lease, console) as executor,
        open_sweep(request.prepared, lease, request.wanted) as sweep,
        _page(sweep, executor),
    ):
        driver = Driver(sweep, executor, console=console, time_limit=request.options.time_limit)
        ending.end = _conclude(request, driver.run())
    if own is not None and ending.end.again and not own.requeue():
        how = f"{ending.end.how}, and not queued again"
        with suppress(LeaseLost):  # it was given back: the next head may have it
            _record(request, own).now(ENDED, how).write(lease.generation.head, lease.files)
    return ending.end.code


def forget_cancel(run: RunFolder) -> None:
    """Take back a request that every head of this cube end: a user wants it to run.

    For the holder of the lease, so that every head that was to end has ended, or lost the lease.

    Raises
    ------
    StorageError
        If the file system refuses.
    """
    with storage_errors(run.stop):
        remove(run.stop)


def nothing_to_do(request: Request) -> int:
    """Log that, and what failed or was skipped; the exit code of a run that ends like this."""
    logger.info("every cell is done: nothing to run")
    failed = failed_cells(request.prepared.cube, request.prepared.inputs.plans)
    return _conclude(request, Outcomes(0, 0, 0, failed)).code


def _conclude(request: Request, outcomes: Outcomes) -> End:
    prepared, wanted = request.prepared, request.wanted
    failed = list(filter(wanted.runs, outcomes.failed))
    for cell in failed:
        logger.error('failed: %s (for more: sweep why %s "%s")', cell, prepared.cube, cell)
    unsolved = Counter(cell.model for cell in unsolved_cells(prepared.cube, prepared.inputs.plans))
    for method, count in unsolved.items():
        logger.info("no solution: %s, in %s", method, plural(count, "cell"))
    if not wanted.only:
        logger.info("%s", _settled(prepared))
    logger.info("results: %s", prepared.cube)
    if wanted.only and not request.settled:
        logger.info("results are kept, and written to the cube when the rest of the block is done")
    if failed:
        return End(FAILED_CELLS, "finished with failed cells")
    strict = request.options.strict and prepared.inputs.skipped
    return End(FAILED_CELLS if strict else COMPLETE, "finished")


def _settled(prepared: Prepared) -> str:
    """How many cells of the whole sweep are settled, those of data sets that are not at hand counted."""
    counts = Counter[int]()
    store = BlockStore(prepared.cube, read_only=True)
    for plan in prepared.inputs.plans:
        for _, statuses in store.all_statuses(plan):
            counts.update(statuses.tolist())
    missing = cells_left_out(prepared.spec, prepared.inputs.skipped)
    done, failed = counts[DONE] + counts[NO_SOLUTION], counts[FAILED]
    parts = [f"{done:,} of {plural(sum(counts.values()) + missing, 'cell')} done"]
    parts += [f"{failed:,} failed"] if failed else []
    parts += [f"{missing:,} left out, of data sets that are not at hand"] if missing else []
    return ", ".join(parts)


def _waiting_head(run: RunFolder) -> str | None:
    try:
        return other_head(run)
    except CommandFailed:
        return None  # submitting the worker jobs meets the same error, and reports it


@contextmanager
def _recorded(request: Request, own: HeadJob | None, ending: Ending, lease: Lease) -> Iterator[HeadRecord]:
    """Record in the run folder that the run has begun, and how it ended."""
    record = _record(request, own)
    record.write(lease.generation.head, lease.files)
    try:
        if own is None and DETACHED not in os.environ:
            forget_cancel(request.prepared.run)
        lease.check()  # a head that was started detached obeys a cancel that came before its start
        yield record
    finally:
        # A full disk has been reported already, and who lost the lease has nothing to say any more.
        with suppress(StorageError, LeaseLost):
            state = REQUEUED if ending.end.again else ENDED
            record.now(state, ending.end.how).write(lease.generation.head, lease.files)


def _record(request: Request, own: HeadJob | None) -> HeadRecord:
    data_dir = request.options.data_dir
    return HeadRecord(
        spec=str(request.spec.resolve()),
        data_dir=None if data_dir is None else str(data_dir.resolve()),
        job=this_process().job_id,
        node=os.environ.get("SLURMD_NODENAME") or socket.gethostname(),
        restarts=0 if own is None else own.restarts,
    ).now(RUNNING)


@contextmanager
def _lease(cube: Path, *, wait: bool, on_lost: Interrupt) -> Iterator[Lease]:
    """Hold the lease; where `wait` is true, wait until the lease of a head that died elsewhere is stale."""
    deadline = time.monotonic() + 2 * STALE_AFTER
    while True:
        try:
            lease = Lease.acquire(cube, on_lost=on_lost)
            break
        except LeaseHeld as held:
            if not wait or time.monotonic() > deadline:
                raise
            logger.info("waiting: %s", held)
        time.sleep(LEASE_SECONDS)
    with lease:
        yield lease


@contextmanager
def _executor(request: Request, record: HeadRecord, lease: Lease, console: Console) -> Iterator[Executor]:
    prepared, profile = request.prepared, request.profile
    if profile is None:
        text = "dashboard: none without workers; sweep open %s shows the run from its files"
        logger.info(text, prepared.cube)
        with Step(COMPILING, console) as step:
            serial = SerialExecutor(prepared.inputs.sources, compiled=partial(step.advance, what=FUNCTIONS))
        yield serial
        return
    # Without a compute cluster dask's scheduler and the watch of the queue are not loaded.
    from pipeline.cluster.connect import connect, dashboard_address
    from pipeline.cluster.executor import DaskExecutor

    with ExitStack() as stack:
        with Step("starting workers", console):
            connection = connect(profile, n_workers=request.options.workers, lease=lease)
            client = stack.enter_context(connection)
        dashboard = _dashboard(dashboard_address(client))
        logger.info("dashboard: %s", dashboard)
        record.model_copy(update={"dashboard": dashboard}).write(lease.generation.head, lease.files)
        sources, limit = prepared.inputs.sources, request.options.time_limit
        started = time.monotonic()
        with Step(COMPILING, console) as step:
            compiled = partial(step.advance, what=FUNCTIONS)
            executor = DaskExecutor(client, sources, time_limit=limit, compiled=compiled)
        ready = plural(executor.workers, "worker")
        logger.info("%s ready after %s", ready, span(time.monotonic() - started))
        yield executor


@contextmanager
def _page(sweep: OpenSweep, executor: Executor) -> Iterator[None]:
    """Let the dashboard of the run's own scheduler show the run."""
    if isinstance(executor, SerialExecutor):
        yield
        return
    from pipeline.cluster.executor import DaskExecutor

    if not isinstance(executor, DaskExecutor) or executor.client.cluster is None:
        yield
        return
    with page_of_run(sweep.prepared, executor) as feed:
        sweep.collector.tell(feed)
        yield


def _dashboard(address: str | None) -> str:
    if address is None:
        return "none"
    port = urlsplit(address).port
    return f"{address} (from elsewhere: ssh -L {port}:127.0.0.1:{port} {socket.gethostname()})"
