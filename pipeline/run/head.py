"""The head of a run: scheduler and driver, from the lease to the exit code.

`run_head` does all of it; `report_done` ends a submit of a sweep that is done.
"""

import logging
import os
import signal
import socket
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from rich.console import Console

from sweep_clustering.pipeline.cluster.connect import connect, dashboard_address
from sweep_clustering.pipeline.cluster.executor import DaskExecutor
from sweep_clustering.pipeline.cluster.pages import published
from sweep_clustering.pipeline.common import COMPLETE, FAILED_CELLS, INTERNAL, cells_left_out, plural, span
from sweep_clustering.pipeline.jobs.cluster import HeadJob
from sweep_clustering.pipeline.jobs.slurm import CommandFailed, ComputeClusterError, other_head
from sweep_clustering.pipeline.live.site import Crew, Feed, Site, State
from sweep_clustering.pipeline.monitor.status import failed_causes, read_status
from sweep_clustering.pipeline.run.driver import Driver, Executor, open_sweep, step
from sweep_clustering.pipeline.run.ledger import Collector
from sweep_clustering.pipeline.run.request import Request, Sweep, is_settled
from sweep_clustering.pipeline.run.signals import Interrupt, Stopped, ignore_signals, log_file, stop_on_signal
from sweep_clustering.pipeline.work.merge import Mismatch
from sweep_clustering.pipeline.work.tasks import SerialExecutor
from sweep_clustering.storage.cube import schema
from sweep_clustering.storage.cube.blocks import BlockStore, CellMismatch, failed_cells
from sweep_clustering.storage.cube.manifest import keep_causes
from sweep_clustering.storage.errors import StorageError, storage_errors
from sweep_clustering.storage.files import remove, unsynced_devices
from sweep_clustering.storage.runfolder.folder import RunFolder
from sweep_clustering.storage.runfolder.journal import JournalDamaged
from sweep_clustering.storage.runfolder.lease import (
    STALE_AFTER,
    Cancelled,
    Lease,
    LeaseHeld,
    LeaseLost,
    this_process,
)
from sweep_clustering.storage.runfolder.records import ENDED, REQUEUED, RUNNING, HeadRecord

logger = logging.getLogger(__name__)

# These end a run with a message: no cell is to blame, and nothing that was reported done is lost.
ENDINGS = (
    Stopped,
    StorageError,
    LeaseHeld,
    LeaseLost,
    JournalDamaged,
    Mismatch,
    CellMismatch,
    ComputeClusterError,
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
    """How a run ended: exit code, description, and whether its job is to be queued again."""

    code: int
    how: str
    again: bool = False


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
    if job is None and request.profile is not None and request.profile.options.kind == "slurm":
        # submitting the worker jobs meets an error of the queue as well, and reports it
        with suppress(CommandFailed):
            if (other := other_head(run)) is not None:
                logger.error("%s", other)
                return INTERNAL
    record: HeadRecord | None = None
    end = End(INTERNAL, "ended by an error")
    try:
        with (
            stop_on_signal() as interrupt,
            # A job may find the lease of a head that died on another node, not stale yet.
            _lease(request.sweep.cube, wait=job is not None, on_lost=interrupt) as lease,
            log_file(run.log),
        ):
            unsynced_devices.clear()  # so that the log of each run names them
            data_dir = request.options.data_dir
            record = HeadRecord(
                spec=str(request.spec.resolve()),
                data_dir=None if data_dir is None else str(data_dir.resolve()),
                job=this_process().job_id,
                node=os.environ.get("SLURMD_NODENAME") or socket.gethostname(),
                restarts=0 if job is None else job.restarts,
                where=request.options.where(),
            ).now(RUNNING)
            record.write(lease.generation.head, lease.files)
            try:
                if job is None and DETACHED not in os.environ:
                    withdraw_cancel(run)
                lease.check()  # a head that was started detached obeys a cancel that came before its start
                end = _run(request, record, lease, console)
            except ENDINGS as error:
                end = _ended_by(error, job)
            finally:
                # A full disk has been reported already, and who lost the lease has nothing to say any more.
                with suppress(StorageError, LeaseLost):
                    state = REQUEUED if end.again else ENDED
                    record.now(state, end.how).write(lease.generation.head, lease.files)
    except ENDINGS as error:
        end = _ended_by(error, job)
    if job is not None and end.again and not job.requeue() and record is not None:
        how = f"{end.how}, and not queued again"
        with suppress(LeaseLost):  # it was given back: the next head may have it
            record.now(ENDED, how).write(lease.generation.head, lease.files)
    return end.code


def withdraw_cancel(run: RunFolder) -> None:
    """Withdraw the request that every head of this cube end, as the holder of the lease."""
    with storage_errors(run.stop):
        remove(run.stop)


def report_done(request: Request) -> int:
    """Log that nothing is to run, and return the exit code of a run that ends like this."""
    logger.info("every cell is done: nothing to run")
    return _conclude(request).code


def _run(request: Request, record: HeadRecord, lease: Lease, console: Console) -> End:
    with (
        # Workers before the cube: a compute cluster that is not available leaves nothing behind.
        _executor(request, record, lease, console) as executor,
        open_sweep(request.sweep, lease, request.selection) as collector,
        _page(request.sweep, collector, executor),
    ):
        Driver(collector, lease, executor, console, request.options.time_limit).run()
        keep_causes(request.sweep.cube, failed_causes(request.sweep.cube), lease.files)
        return _conclude(request)


def _ended_by(error: BaseException, job: HeadJob | None) -> End:
    """Log why a run ended early; `job` is the job that this process is the head of."""
    if isinstance(error, Cancelled):
        logger.error("%s; what was finished is kept, submit again to resume", error)
        return End(CANCELLED, "cancelled")
    if isinstance(error, Stopped):
        ignore_signals()
        # Asked once: SLURM's answer to a SIGTERM changes as the job ends.
        again = job is not None and job.continues(error.number)
        then = "the head resumes when its job starts again" if again else "submit again to resume"
        logger.error("stopped by %s; what was finished is kept, %s", error, then)
        return End(128 + error.number, f"stopped by {error}", again)
    logger.error("%s", error)
    return End(INTERNAL, str(error))


def _conclude(request: Request) -> End:
    """Log the results of a run for the whole sweep, which includes data sets that are not at hand."""
    sweep, selection = request.sweep, request.selection
    plans, skipped = sweep.inputs.plans, sweep.inputs.skipped
    failed = list(filter(selection.runs, failed_cells(sweep.cube, plans)))
    for cell in failed:
        logger.error('failed: %s (for more: sweep why %s "%s")', cell, sweep.cube, cell)
    store = BlockStore(sweep.cube, read_only=True)
    unsolved = Counter(cell.model for cell in store.cells(plans, schema.NO_SOLUTION))
    for method, count in unsolved.items():
        logger.info("no solution: %s, in %s", method, plural(count, "cell"))
    if not selection.only:
        rows = [row for row in read_status(sweep.cube).datasets if row.name not in skipped]
        missing = cells_left_out(sweep.spec, skipped)
        cells, n_failed = (sum(getattr(row, name) for row in rows) for name in ("cells", "failed"))
        done = cells - n_failed - sum(row.left for row in rows)
        parts = [f"{done:,} of {plural(cells + missing, 'cell')} done"]
        parts += [f"{n_failed:,} failed"] if n_failed else []
        parts += [f"{missing:,} left out, because their data sets are not at hand"] if missing else []
        logger.info("%s", ", ".join(parts))
    logger.info("results: %s", sweep.cube)
    if selection.only and not is_settled(sweep, selection):
        logger.info("results are kept, and written to the cube when the rest of the block is done")
    if failed:
        return End(FAILED_CELLS, "finished with failed cells")
    return End(FAILED_CELLS if request.options.strict and skipped else COMPLETE, "finished")


@contextmanager
def _lease(cube: Path, *, wait: bool, on_lost: Interrupt) -> Iterator[Lease]:
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
def _executor(request: Request, record: HeadRecord, lease: Lease, console: Console) -> Iterator[Executor]:
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
        started = time.monotonic()
        with step(COMPILING, console):
            executor = DaskExecutor(client, sources, time_limit=request.options.time_limit)
        ready = plural(executor.workers, "worker")
        logger.info("%s ready after %s", ready, span(time.monotonic() - started))
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
                (urlsplit(place["worker"]).netloc, place["node"], place["job"], str(task), since)
                for task, place, since in executor.at_work()
            ]
            return executor.connected, rows

        with published(executor.client, Site(State(cube, feed, crew))):
            collector.tell(feed)
            yield
