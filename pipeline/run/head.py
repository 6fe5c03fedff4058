"""The head of a run: scheduler and driver, from the lease to the exit code."""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from rich.console import Console

from pipeline.cluster.connect import connect, dashboard_address
from pipeline.cluster.executor import DaskExecutor
from pipeline.jobs.errors import ComputeClusterError
from pipeline.jobs.head import HeadJob, other_head
from pipeline.jobs.slurm import CommandFailed
from pipeline.prepare.request import Checked
from pipeline.prepare.sweep import Prepared, longest_batch
from pipeline.run.driver import Driver, Outcomes, opened
from pipeline.run.logfile import log_file
from pipeline.run.signals import Stopped, stop_on_signal
from pipeline.text import duration
from pipeline.work.executor import Executor, SerialExecutor
from pipeline.work.merge import Mismatch
from storage.cube.blocks import CellMismatch, failed_cells
from storage.errors import StorageError, storage_errors
from storage.files import remove
from storage.runfolder.head import ENDED, REQUEUED, RUNNING, HeadRecord
from storage.runfolder.holder import STALE_AFTER
from storage.runfolder.jobs import FILE_NAME as JOB_LIST
from storage.runfolder.journal import JournalDamaged
from storage.runfolder.lease import Lease, LeaseHeld, LeaseLost
from storage.runfolder.process import this_process

logger = logging.getLogger(__name__)

COMPLETE, INTERNAL, FAILED_CELLS = 0, 1, 3

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


def run_head(checked: Checked, console: Console) -> int:
    """Run what is left of a sweep in this process, and queue its job again when the walltime ends it.

    Parameters
    ----------
    checked : Checked
        What to run.
    console : Console
        Where progress is shown; warnings and results go through logging.

    Returns
    -------
    int
        Exit code, as `pipeline.submit.submission.submit` has it.
    """
    if checked.settled:
        return nothing_to_do(checked)
    own = HeadJob.current(checked.prepared.run)
    if own is None and checked.queued and (other := _waiting_head(checked.prepared.run)) is not None:
        logger.error("%s", other)
        return INTERNAL
    with stop_on_signal():
        end = _end(lambda: _leased(checked, own, console), own)
    if own is not None and end.again and not own.requeue():
        _record(checked, own).now(ENDED, f"{end.how}, and not queued again").write(checked.prepared.run)
    return end.code


def nothing_to_do(checked: Checked) -> int:
    """Say so, and what failed or was skipped; the exit code of a run that ends like this."""
    logger.info("every cell is done: nothing to run")
    failed = failed_cells(checked.prepared.cube, checked.prepared.inputs.plans)
    return _conclude(checked, Outcomes(0, 0, 0, failed)).code


def say_skipped(prepared: Prepared) -> None:
    """Say loudly which data sets are left out."""
    for name, reasons in prepared.inputs.skipped.items():
        logger.warning("SKIPPED data set %s: %s", name, "; ".join(reasons))


def _conclude(checked: Checked, outcomes: Outcomes) -> End:
    prepared, wanted = checked.prepared, checked.wanted
    failed = list(filter(wanted.runs, outcomes.failed))
    for cell in failed:
        logger.error('failed: %s (for more: sweep why %s "%s")', cell, prepared.cube, cell)
    say_skipped(prepared)
    logger.info("results: %s", prepared.cube)
    if wanted.only and not checked.settled:
        logger.info("its results are kept, and stand in the cube when the rest of the block is done")
    if failed:
        return End(FAILED_CELLS, "finished with failed cells")
    strict = checked.options.strict and prepared.inputs.skipped
    return End(FAILED_CELLS if strict else COMPLETE, "finished")


def _waiting_head(run: Path) -> str | None:
    try:
        return other_head(run)
    except CommandFailed:
        return None  # said again, and louder, when the worker jobs are submitted


def _leased(checked: Checked, own: HeadJob | None, console: Console) -> End:
    run = checked.prepared.run
    with _lease(checked.prepared.cube, patient=own is not None) as lease, log_file(run):
        record = _record(checked, own)
        record.write(run)
        with storage_errors(run):
            remove(run / JOB_LIST)  # of the run before
        end = End(INTERNAL, "ended by an error")
        try:
            end = _end(lambda: _conclude(checked, _work(checked, record, lease, console)), own)
        finally:
            # A disk that is full has been complained of already.
            with suppress(StorageError):
                record.now(REQUEUED if end.again else ENDED, end.how).write(run)
    return end


def _end(work: Callable[[], End], own: HeadJob | None) -> End:
    try:
        return work()
    except Stopped as stopped:
        # Asked once: SLURM's answer to a SIGTERM changes as the job ends.
        again = own is not None and own.goes_on(stopped.number)
        then = "the head goes on when its job starts again" if again else "submit again to go on"
        logger.error("stopped by %s; what was finished is kept, %s", stopped, then)
        return End(128 + stopped.number, f"stopped by {stopped}", again)
    except TROUBLE as error:
        logger.error("%s", error)
        return End(INTERNAL, str(error))


def _record(checked: Checked, own: HeadJob | None) -> HeadRecord:
    data_dir = checked.options.data_dir
    return HeadRecord(
        spec=str(checked.spec.resolve()),
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


def _work(checked: Checked, record: HeadRecord, lease: Lease, console: Console) -> Outcomes:
    prepared = checked.prepared
    with (
        # Workers before the cube: a compute cluster that cannot be had leaves nothing behind.
        _executor(checked, record) as executor,
        opened(prepared, lease, checked.wanted) as ours,
    ):
        driver = Driver(
            ours,
            executor,
            console=console,
            batch_restarts=checked.options.batch_restarts,
            time_limit=checked.options.time_limit,
        )
        started = time.monotonic()
        outcomes = driver.run()
        seconds = time.monotonic() - started
        share = 100 * driver.solver_seconds / max(seconds * executor.workers, 1e-9)
        if prepared.spec.stop is not None:
            logger.info("%d restarts were spared by the adaptive stop", outcomes.spared)
        logger.info(
            "%d restarts, %d blocks in %s; %.0f %% of the workers' time was spent in the solver",
            outcomes.restarts,
            outcomes.blocks,
            duration(seconds),
            share,
        )
    return outcomes


@contextmanager
def _executor(checked: Checked, record: HeadRecord) -> Iterator[Executor]:
    prepared, profile = checked.prepared, checked.profile
    if profile is None:
        yield SerialExecutor(prepared.inputs.sources)
        return
    longest, workers = longest_batch(prepared), checked.options.workers
    with connect(profile, n_workers=workers, run=prepared.run, longest_batch=longest) as client:
        dashboard = _dashboard(dashboard_address(client))
        logger.info("dask dashboard: %s", dashboard)
        replace(record, dashboard=dashboard).write(prepared.run)
        yield DaskExecutor(client, prepared.inputs.sources, time_limit=checked.options.time_limit)


def _dashboard(address: str | None) -> str:
    if address is None:
        return "none"
    port = urlsplit(address).port
    return f"{address} (from elsewhere: ssh -L {port}:127.0.0.1:{port} {socket.gethostname()})"
