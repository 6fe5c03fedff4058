"""The submit command: everything is checked, then the sweep is run, handed over, or only shown."""

import logging
import os
import shlex
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

from sweep_clustering.installation import check_numpy
from sweep_clustering.pipeline.cluster.profiles import load_profile
from sweep_clustering.pipeline.common import COMPLETE, INTERNAL, at_hand, own_names, span
from sweep_clustering.pipeline.jobs import slurm
from sweep_clustering.pipeline.jobs.cluster import job_problems
from sweep_clustering.pipeline.jobs.head import head_script
from sweep_clustering.pipeline.jobs.keys import JobQueue, SlurmQueue
from sweep_clustering.pipeline.monitor.status import last_lines, read_run_state
from sweep_clustering.pipeline.run.head import DETACHED, report_done, run_head, withdraw_cancel
from sweep_clustering.pipeline.run.request import Options, Request, Selection, is_settled, prepare
from sweep_clustering.pipeline.submit.memory import memory_problems
from sweep_clustering.pipeline.submit.overview import (
    note_lines,
    plan_lines,
    plan_overview,
    search_notes,
    sweep_notes,
)
from sweep_clustering.storage.errors import StorageError, storage_errors
from sweep_clustering.storage.runfolder.lease import Lease, LeaseHeld
from sweep_clustering.storage.runfolder.records import Submission
from sweep_clustering.sweeps.errors import InputError, Problem, collecting
from sweep_clustering.sweeps.plan import find_cells

logger = logging.getLogger(__name__)


def submit(
    path: Path,
    options: Options,
    console: Console,
    *,
    show_plan: Callable[[dict[str, Any]], object] | None = None,
) -> int:
    """Run what is left of a sweep.

    Parameters
    ----------
    path : Path
        Sweep file.
    options : Options
        Runtime choices.
    console : Console
        Where progress is shown; warnings and results go through logging.
    show_plan : callable or None
        Takes the plan of a dry run as plain values; None to show it on the console.

    Returns
    -------
    int
        0 complete (or handed over, with `detach`), 1 stopped by a failing disk, a lost lease or a held one,
        3 finished with failed cells (with `strict`, also when data sets were skipped), 128 + n stopped by
        signal n.

    Raises
    ------
    sweep_clustering.sweeps.errors.InputError
        Bad input; nothing was started and nothing written.
    """
    check_numpy()
    request = _checked(path, options)
    sweep, profile = request.sweep, request.profile
    if (without := at_hand(sweep.spec, sweep.inputs.skipped)) is not None:
        logger.warning("%s", without)
    if not options.dry_run:
        for line in note_lines(search_notes(sweep.spec), sweep_notes(sweep)):
            logger.warning(line)
        return detach(request) if options.detach else run_head(request, console)
    workers = 1 if profile is None else profile.process_count(options.workers)
    plan = plan_overview(sweep, workers=workers, selection=request.selection)
    if show_plan is not None:
        show_plan(plan)
        return COMPLETE
    lines = plan_lines(sweep, plan)
    if profile is not None and isinstance(jobs := profile.options, JobQueue):
        # Imported here, so that a run without worker jobs does not load the scheduler.
        from sweep_clustering.pipeline.submit.jobplan import job_lines

        n_jobs = options.workers or jobs.workers
        lines += ["", *job_lines(jobs, sweep, where=profile.where, n_jobs=n_jobs)]
        if options.detach and isinstance(jobs, SlurmQueue):
            script = head_script(jobs, sweep.run, head_command(request))
            lines += ["", "the head would be a job of this script:", "", *script.splitlines()]
    for line in lines:
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    return COMPLETE


def _checked(path: Path, options: Options) -> Request:
    """Everything that a submit needs, or all that is wrong with it."""
    problems: list[Problem] = []
    selection, profile = Selection(options.retry_failed), None
    try:
        sweep = prepare(path, results=options.results, data_dir=options.data_dir, part=options.part)
        plans = sweep.inputs.plans
    except InputError as error:
        problems += error.problems
        plans = error.rest
    if plans is not None:
        with collecting(problems):
            selection = Selection(options.retry_failed, find_cells(options.only, plans))
    with collecting(problems):
        own_names()
    with collecting(problems):
        profile = None if options.workers == 0 else load_profile(options.profile, options.cluster_file)
    if options.detach and profile is not None and isinstance(profile.options, JobQueue):
        if not isinstance(profile.options, SlurmQueue):
            found = f"profile {profile.name!r} of kind {profile.options.kind}"
            hint = "leave out --detach, and run it under tmux, or in a job of your own"
            problems.append(Problem("--detach", found, "a profile of kind slurm, local or address", hint))
        elif not options.dry_run and not problems:  # a dry run shows these as warnings
            problems = job_problems(profile.options, profile.where, sweep.run)
    if not problems:
        problems = list(memory_problems(sweep, profile, options.workers))
    if problems:
        raise InputError(problems)
    return Request(path, sweep, selection, profile, options)


# Detached runs: the head is started as a job of its own, or as a process that outlives the terminal.

# A new process is watched so long, or until it holds the lease, which usually takes three seconds.
START_SECONDS = 300.0


def detach(request: Request) -> int:
    """Start the head of a run, and return.

    Parameters
    ----------
    request : Request
        What to run, with a profile that can.

    Returns
    -------
    int
        0 when the head was started, or there was nothing to do; 1 when the sweep is running already, or the
        queue refuses the job; the exit code of a process that ended at once.
    """
    if is_settled(request.sweep, request.selection):
        return report_done(request)
    queue = None if request.profile is None else request.profile.options
    try:
        code = _queue(request, queue) if isinstance(queue, SlurmQueue) else _spawn(request)
    except (StorageError, LeaseHeld, slurm.CommandFailed) as error:
        logger.error("%s", error)
        return INTERNAL
    if code == COMPLETE:
        cube = shlex.quote(str(request.sweep.cube))
        for what, command in (("progress: ", "status"), ("its log:  ", "logs"), ("end it:   ", "cancel")):
            logger.info("%ssweep %s %s%s", what, command, cube, " --follow" if command == "logs" else "")
    return code


def head_command(request: Request) -> list[str]:
    """Arguments of `sweep` that make a process the head of this run."""
    results = str(request.sweep.cube.resolve().parent)
    flags = request.options.flags()
    origin = None if request.profile is None else request.profile.origin
    if origin is not None and "--cluster" not in flags:
        # The head may start in another directory, where the search could find another file.
        flags += ["--cluster", str(origin.resolve())]
    return ["submit", str(request.spec.resolve()), "--results", results, *flags]


def _queue(request: Request, options: SlurmQueue) -> int:
    """Hand the head to the queue."""
    run = request.sweep.run
    # Asked before the lease is touched, too: a head that stands still would be ended by the loss of it.
    other = slurm.other_head(run)
    if other is None:
        with _exclusive(request.sweep.cube):
            other = slurm.other_head(run)
            if other is None:
                withdraw_cancel(run)
                with storage_errors(run.script):
                    script = head_script(options, run, head_command(request))
                    run.script.write_text(script, encoding="utf-8")
                # Taken before the job can start: a head record that is older belongs to an earlier run.
                at = time.time()
                number = slurm.submit(str(run.script), slurm.head_name(run))
                Submission(system="slurm", job=number, host=socket.gethostname(), at=at).write(run.submission)
    if other is not None:
        logger.error("%s", other)
        return INTERNAL
    logger.info("the head is job %s (%s); its script is %s", number, slurm.head_name(run), run.script)
    return COMPLETE


@contextmanager
def _exclusive(cube: Path) -> Iterator[None]:
    """Hold the lease, so that of two submits only one hands over a head.

    The lease of a head that died on another node counts until it is stale, and the next head waits for that.
    """
    try:
        lease = Lease.acquire(cube)
    except LeaseHeld as held:
        job = held.holder.process.job_id if held.holder is not None else ""
        if held.silent is None or not job or any(j.number == job for j in slurm.live_jobs("")):
            raise
        logger.info("job %s, which ran it, has ended", job)
        yield
        return
    with lease:
        yield


def _spawn(request: Request) -> int:
    """Start the head as a process in its own session, so that closing the terminal does not end it."""
    cube = request.sweep.cube
    with Lease.acquire(cube):  # or say who runs it already
        withdraw_cancel(request.sweep.run)
    log, at = request.sweep.run.head_log, time.time()
    command = [sys.executable, "-m", "sweep_clustering", *head_command(request)]
    append = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    with storage_errors(log):
        pid = os.posix_spawn(
            sys.executable,
            command,
            {**os.environ, "PYTHONSAFEPATH": "1", DETACHED: "1"},
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, str(log), append, 0o600),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=True,
        )
    sent = Submission(system="process", job=str(pid), host=socket.gethostname(), at=at)
    sent.write(request.sweep.run.submission)
    code = _early_exit(cube, pid)
    if code:
        logger.error("the head ended with exit code %d:\n%s", code, "\n".join(last_lines(log, 20)))
        return code
    logger.info("the head is process %d of this machine; its output is in %s", pid, log)
    return COMPLETE


def _early_exit(cube: Path, pid: int) -> int:
    """Exit code of a head that ends before it holds the lease, 0 when it keeps running."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        holder = read_run_state(cube).holder
        if holder is not None and holder.process.pid == pid:
            return 0
        time.sleep(0.1)
    logger.warning("process %d is there, but has not taken the lease in %s", pid, span(START_SECONDS))
    return 0
