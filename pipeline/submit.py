"""The submit command: from a sweep file to a finished cube and an exit code."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from rich.console import Console

from pipeline.cluster import ComputeClusterError, connect, dashboard_address
from pipeline.driver import Driver, Outcomes, opened
from pipeline.executors import DaskExecutor, Executor, SerialExecutor
from pipeline.jobkeys import JobQueue
from pipeline.jobplan import longest_batch, plan_jobs
from pipeline.merge import Mismatch
from pipeline.overview import plan_overview
from pipeline.prepare import Prepared, prepare
from pipeline.profiles import Profile, load_profile
from pipeline.progress import duration
from pipeline.settled import failed_cells, is_settled
from pipeline.signals import Stopped, stop_on_signal
from pipeline.startup import check_shadowing
from storage.blocks import CellMismatch
from storage.errors import StorageError
from storage.journal import JournalDamaged
from storage.lease import Lease, LeaseHeld, LeaseLost

logger = logging.getLogger(__name__)

COMPLETE, INTERNAL, FAILED_CELLS = 0, 1, 3

TROUBLE = (StorageError, LeaseHeld, LeaseLost, JournalDamaged, Mismatch, CellMismatch, ComputeClusterError)
"""What ends a run with a message: no cell is to blame, nothing that was reported done is lost."""


@dataclass(frozen=True)
class Options:
    """Runtime choices: none of them changes a number.

    Parameters
    ----------
    results : Path
        Folder of the cubes.
    profile : str
        Compute-cluster profile.
    cluster_file : Path or None
        cluster.yaml to take instead of searching.
    workers : int or None
        Worker processes; 0 runs everything in this process, None as many as the profile says.
    dry_run, retry_failed, strict : bool
        As in the command line.
    data_dir : Path or None
        Where raw data files lie.
    batch_restarts : int or None
        Fixed batch length, for tests.
    """

    results: Path
    profile: str = "local"
    cluster_file: Path | None = None
    workers: int | None = None
    dry_run: bool = False
    retry_failed: bool = False
    strict: bool = False
    data_dir: Path | None = None
    batch_restarts: int | None = None


def submit(path: Path, options: Options, console: Console) -> int:
    """Run what is left of a sweep.

    Parameters
    ----------
    path : Path
        Sweep file.
    options : Options
        Runtime choices.
    console : Console
        Where progress is shown; warnings and results go through logging.

    Returns
    -------
    int
        0 complete, 1 stopped by a failing disk, a lost lease or a held one, 3 finished with failed cells
        (with `strict`, also when data sets were skipped), 128 + n stopped by signal n.

    Raises
    ------
    sweeps.errors.InputError
        Bad input; nothing was started and nothing written.
    """
    check_shadowing()
    prepared = prepare(path, results=options.results, data_dir=options.data_dir)
    profile = None if options.workers == 0 else load_profile(options.profile, options.cluster_file)
    _say_skipped(prepared)
    if options.dry_run:
        for line in _dry_run(prepared, profile, options.workers):
            console.print(line, highlight=False, markup=False, soft_wrap=True)
        return COMPLETE
    try:
        with stop_on_signal():
            return _conclude(prepared, _run(prepared, profile, options, console), options)
    except Stopped as stopped:
        logger.error("stopped by %s; what was finished is kept, submit again to go on", stopped)
        return 128 + stopped.number
    except TROUBLE as error:
        logger.error("%s", error)
        return INTERNAL


def _dry_run(prepared: Prepared, profile: Profile | None, workers: int | None) -> list[str]:
    if profile is None or not isinstance(profile.options, JobQueue):
        return plan_overview(prepared, workers=workers).lines()
    options = profile.options
    n_jobs = workers or options.workers
    jobs = plan_jobs(options, prepared, where=profile.where, n_jobs=n_jobs)
    return [*plan_overview(prepared, workers=n_jobs * options.cores).lines(), "", *jobs.lines()]


def _run(prepared: Prepared, profile: Profile | None, options: Options, console: Console) -> Outcomes:
    if is_settled(prepared, retry_failed=options.retry_failed):
        logger.info("every cell is done: nothing to run")
        return Outcomes(0, 0, 0, failed_cells(prepared.cube, prepared.inputs.plans))
    with (
        Lease.acquire(prepared.cube) as lease,
        _log_file(prepared.run),
        # Workers before the cube: a compute cluster that cannot be had leaves nothing behind.
        _executor(prepared, profile, options.workers) as executor,
        opened(prepared, lease, retry_failed=options.retry_failed) as ours,
    ):
        driver = Driver(ours, executor, console=console, batch_restarts=options.batch_restarts)
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
def _executor(prepared: Prepared, profile: Profile | None, workers: int | None) -> Iterator[Executor]:
    if profile is None:
        yield SerialExecutor(prepared.inputs.sources)
        return
    longest = longest_batch(prepared)
    with connect(profile, n_workers=workers, run=prepared.run, longest_batch=longest) as client:
        _say_dashboard(dashboard_address(client))
        yield DaskExecutor(client, prepared.inputs.sources)


def _say_dashboard(address: str | None) -> None:
    if address is None:
        logger.info("dask dashboard: none")
        return
    port = urlsplit(address).port
    host = socket.gethostname()
    logger.info("dask dashboard: %s (from elsewhere: ssh -L %s:127.0.0.1:%s %s)", address, port, port, host)


def _conclude(prepared: Prepared, outcomes: Outcomes, options: Options) -> int:
    for cell in outcomes.failed:
        logger.error("failed: %s (see %s)", cell, prepared.run / "failures.jsonl")
    _say_skipped(prepared)
    logger.info("results: %s", prepared.cube)
    if outcomes.failed:
        return FAILED_CELLS
    return FAILED_CELLS if options.strict and prepared.inputs.skipped else COMPLETE


def _say_skipped(prepared: Prepared) -> None:
    for name, reasons in prepared.inputs.skipped.items():
        logger.warning("SKIPPED data set %s: %s", name, "; ".join(reasons))


@contextmanager
def _log_file(run: Path) -> Iterator[None]:
    """Keep what is logged beside the cube, too."""
    handler = logging.FileHandler(run / "log", encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
        handler.close()
