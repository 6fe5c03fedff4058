"""The head of a run: scheduler and driver, from the lease to the exit code."""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from urllib.parse import urlsplit

from rich.console import Console

from pipeline.exitcodes import COMPLETE, FAILED_CELLS, INTERNAL
from pipeline.jobs.errors import ComputeClusterError
from pipeline.jobs.head import HeadJob
from pipeline.jobs.slurm import CommandFailed, other_head
from pipeline.prepare.request import Request
from pipeline.prepare.sweep import Prepared, longest_batch
from pipeline.run.driver import Driver, Outcomes, opened
from pipeline.run.logfile import log_file
from pipeline.run.signals import Stopped, stop_on_signal
from pipeline.work.executor import Executor, SerialExecutor
from pipeline.work.merge import Mismatch
from storage.cube.blocks import CellMismatch, failed_cells
from storage.errors import StorageError, storage_errors
from storage.files import remove
from storage.runfolder.folder import RunFolder
from storage.runfolder.head import ENDED, REQUEUED, RUNNING, HeadRecord
from storage.runfolder.holder import STALE_AFTER
from storage.runfolder.journal import JournalDamaged
from storage.runfolder.lease import Lease, LeaseHeld, LeaseLost
from storage.runfolder.process import this_process

logger = logging.getLogger(__name__)

TROUBLE = (StorageError, LeaseHeld, LeaseLost, JournalDamaged, Mismatch, CellMismatch, ComputeClusterError)
"""What ends a run with a message: no cell is to blame, nothing that was reported done is lost."""

LEASE_SECONDS = 5.0
"""Between attempts to take the lease of a head that died elsewhere."""


@dataclass(frozen=True)
class End:
    """How a run ended: exit code, words, and whether its job is to be queued again."""

    code: int
    how: str
    again: bool = False


class Ending:
    """Takes what ends a run early, says it, and keeps how the run ended.

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
        if isinstance(error, Stopped):
            # Asked once: SLURM's answer to a SIGTERM changes as the job ends.
            again = self._own is not None and self._own.continues(error.number)
            then = "the head resumes when its job starts again" if again else "submit again to resume"
            logger.error("stopped by %s; what was finished is kept, %s", error, then)
            self.end = End(128 + error.number, f"stopped by {error}", again)
        elif isinstance(error, TROUBLE):
            logger.error("%s", error)
            self.end = End(INTERNAL, str(error))
        return isinstance(error, (Stopped, *TROUBLE))


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
        stop_on_signal(),
        ending,
        _lease(request.prepared.cube, patient=own is not None) as lease,
        log_file(request.prepared.run.log),
        _recorded(request, own, ending) as record,
        # A second time, so that the record tells what ended the run while the lease is still ours.
        ending,
        # Workers before the cube: a compute cluster that is not available leaves nothing behind.
        _executor(request, record) as executor,
        opened(request.prepared, lease, request.wanted) as ours,
    ):
        driver = Driver(
            ours,
            executor,
            console=console,
            time_limit=request.options.time_limit,
        )
        ending.end = _conclude(request, driver.run())
    if own is not None and ending.end.again and not own.requeue():
        how = f"{ending.end.how}, and not queued again"
        _record(request, own).now(ENDED, how).write(request.prepared.run.head)
    return ending.end.code


def nothing_to_do(request: Request) -> int:
    """Say so, and what failed or was skipped; the exit code of a run that ends like this."""
    logger.info("every cell is done: nothing to run")
    failed = failed_cells(request.prepared.cube, request.prepared.inputs.plans)
    return _conclude(request, Outcomes(0, 0, 0, failed)).code


def say_skipped(prepared: Prepared) -> None:
    """Say loudly which data sets are left out."""
    for name, reasons in prepared.inputs.skipped.items():
        logger.warning("SKIPPED data set %s: %s", name, "; ".join(reasons))


def _conclude(request: Request, outcomes: Outcomes) -> End:
    prepared, wanted = request.prepared, request.wanted
    failed = list(filter(wanted.runs, outcomes.failed))
    for cell in failed:
        logger.error('failed: %s (for more: sweep why %s "%s")', cell, prepared.cube, cell)
    say_skipped(prepared)
    logger.info("results: %s", prepared.cube)
    if wanted.only and not request.settled:
        logger.info("its results are kept, and stand in the cube when the rest of the block is done")
    if failed:
        return End(FAILED_CELLS, "finished with failed cells")
    strict = request.options.strict and prepared.inputs.skipped
    return End(FAILED_CELLS if strict else COMPLETE, "finished")


def _waiting_head(run: RunFolder) -> str | None:
    try:
        return other_head(run)
    except CommandFailed:
        return None  # said again, and louder, when the worker jobs are submitted


@contextmanager
def _recorded(request: Request, own: HeadJob | None, ending: Ending) -> Iterator[HeadRecord]:
    """Tell those who read files only that the run has begun, and how it ended."""
    run = request.prepared.run
    record = _record(request, own)
    record.write(run.head)
    with storage_errors(run.jobs):
        remove(run.jobs)  # of the run before
    try:
        yield record
    finally:
        # A disk that is full has been complained of already.
        with suppress(StorageError):
            record.now(REQUEUED if ending.end.again else ENDED, ending.end.how).write(run.head)


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
def _lease(cube: Path, *, patient: bool) -> Iterator[Lease]:
    """The lease; a head in a job waits until one that died elsewhere counts as gone."""
    deadline = time.monotonic() + 2 * STALE_AFTER
    while True:
        try:
            lease = Lease.acquire(cube)
            break
        except LeaseHeld as held:
            if not patient or time.monotonic() > deadline:
                raise
            logger.info("waiting: %s", held)
        time.sleep(LEASE_SECONDS)
    with lease:
        yield lease


@contextmanager
def _executor(request: Request, record: HeadRecord) -> Iterator[Executor]:
    prepared, profile = request.prepared, request.profile
    if profile is None:
        yield SerialExecutor(prepared.inputs.sources)
        return
    # Without a compute cluster dask's scheduler and the watch of the queue are not loaded.
    from pipeline.cluster.connect import connect, dashboard_address
    from pipeline.cluster.executor import DaskExecutor

    longest, workers = longest_batch(prepared), request.options.workers
    with connect(profile, n_workers=workers, run=prepared.run, longest_batch=longest) as client:
        dashboard = _dashboard(dashboard_address(client))
        logger.info("dask dashboard: %s", dashboard)
        record.model_copy(update={"dashboard": dashboard}).write(prepared.run.head)
        yield DaskExecutor(client, prepared.inputs.sources, time_limit=request.options.time_limit)


def _dashboard(address: str | None) -> str:
    if address is None:
        return "none"
    port = urlsplit(address).port
    return f"{address} (from elsewhere: ssh -L {port}:127.0.0.1:{port} {socket.gethostname()})"
