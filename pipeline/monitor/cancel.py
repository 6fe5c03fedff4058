"""End a run: its head first, so that it replaces nothing, then its worker jobs, until none is left."""

import shutil
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil

from sweep_clustering.pipeline.common import plural
from sweep_clustering.pipeline.jobs import queues
from sweep_clustering.pipeline.monitor.status import RunState, read_run_state
from sweep_clustering.storage.files import LeaseLost, StorageError, remove
from sweep_clustering.storage.runfolder.folder import ENDED, RunFolder, StopRequest
from sweep_clustering.storage.runfolder.lease import PATIENCE, Lease, LeaseHeld, clock, last_lease

Echo = Callable[[str], None]

# Time for a head to stop by itself: a heartbeat to read the request, and the ends of its workers.
#
# SLURM kills a head that takes longer than KillWait, usually 30 s.
END_SECONDS = 90.0

# Time for killed processes to be gone.
KILLED_SECONDS = 10.0
POLL_SECONDS = 0.5


class CannotCancel(RuntimeError):
    """Something is running that cannot be ended from here."""


def cancel(cube: Path, echo: Echo) -> None:
    """End the run of a cube, or the head that waits to start; finished results are kept.

    A request to stop is left in the folder of the run, which every head obeys: also one that the queue has
    lost sight of, and one that starts later. The next `sweep submit` removes it. `echo` takes lines for
    people. `CannotCancel` says what is running still, or may be, and where to end it.
    """
    run = RunFolder(cube)
    state = read_run_state(cube)
    if run.path.is_dir():
        StopRequest(host=socket.gethostname(), at=time.time()).write(run.stop)
    queue = queues.used_queue(run)
    jobs = None if queue is None else _jobs(run, state, queue)
    if state.holder is None and not jobs:
        _forget(cube, state)
        echo(f"{cube} is not running: nothing to cancel")
        return
    heads = [job.number for job in jobs or [] if job.name == queues.head_name(run)]
    if queue is not None and heads:
        queue.cancel(heads)
        echo(f"ended the head, job {', '.join(heads)}")
    _end_process(cube, echo)
    _wait_for_the_lease(run, echo)
    if queue is not None and jobs is not None:
        _end_jobs(run, queue, echo)
    _forget(cube, read_run_state(cube))
    echo(f"what was finished is kept in {cube}; submit again to resume")


def _jobs(run: RunFolder, state: RunState, queue: queues.Queue) -> list[queues.LiveJob] | None:
    """Return the jobs of this run in its queue, None if it has made none."""
    holder, submission = state.holder, state.submission
    has_job = state.queued_job is not None or (holder is not None and bool(holder.process.job_id))
    if not (has_job or run.job_logs.is_dir() or (submission is not None and submission.system == queue.kind)):
        return None
    command = queue.listing[0]
    if shutil.which(command) is None:
        if has_job:
            raise CannotCancel(
                f"it has a job in a queue, but there is no {command} here: cancel it elsewhere"
            )
        return None
    try:
        return queue.live_jobs(queues.job_prefix(run))
    except queues.CommandFailed as error:
        raise CannotCancel(f"nothing was cancelled, the queue does not answer: {error}") from error


def _wait_for_the_lease(run: RunFolder, echo: Echo) -> None:
    """Wait until the head has ended by itself, or has no heartbeat any more.

    The answer of the queue is not enough: a head on a node that the queue has lost sight of still runs.
    """
    state = last_lease(run)
    if state is None or state.is_free:
        return
    echo(f"waiting for {state.holder or 'an unknown process'} to end")
    start = change_time = clock()
    last = state.beat
    while clock() - start < END_SECONDS:
        time.sleep(POLL_SECONDS)
        lease = last_lease(run)
        if lease is None or lease.is_free or lease.number != state.number:
            return
        if lease.beat != last:
            last, change_time = lease.beat, clock()
        elif lease.is_alive is None and clock() - change_time > PATIENCE:
            echo(f"no heartbeat for {PATIENCE:.0f} s: its machine is gone, and if not, it ends when it wakes")
            return
    raise CannotCancel(f"still running after {END_SECONDS:.0f} s, and asked to end: {state.holder}")


def _end_process(cube: Path, echo: Echo) -> None:
    """End a driver of this machine, and its workers with it."""
    state = read_run_state(cube)
    if state.holder is None or state.lease is None or not state.lease.is_alive:
        return
    with suppress(psutil.NoSuchProcess):
        driver = psutil.Process(state.holder.process.pid)
        family = [driver, *driver.children(recursive=True)]
        driver.terminate()
        _, members = psutil.wait_procs(family, timeout=END_SECONDS)
        for process in members:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        _, members = psutil.wait_procs(members, timeout=KILLED_SECONDS)
        if members:
            raise CannotCancel(f"still there: processes {', '.join(str(process.pid) for process in members)}")
        echo(f"ended process {driver.pid} and {len(family) - 1} child processes")


def _end_jobs(run: RunFolder, queue: queues.Queue, echo: Echo) -> None:
    """End worker jobs, until the queue has none twice in a row."""
    prefix, numbers, n_clear = queues.job_prefix(run), set[str](), 0
    deadline = time.monotonic() + END_SECONDS
    while n_clear < 2:
        try:
            jobs = queue.live_jobs(prefix)
        except queues.CommandFailed as error:
            raise CannotCancel(f"jobs named {prefix}... may be left: {error}") from error
        if jobs and time.monotonic() > deadline:
            names = ", ".join(f"{job.number} ({job.state.lower()})" for job in jobs)
            raise CannotCancel(f"still in the queue: {names}")
        queue.cancel(job.number for job in jobs)
        numbers |= {job.number for job in jobs}
        n_clear = 0 if jobs else n_clear + 1
        time.sleep(POLL_SECONDS)
    if numbers:
        echo(f"ended {plural(len(numbers), 'worker job')}")
    echo("no job is left in the queue")


def _forget(cube: Path, state: RunState) -> None:
    """Correct the files that say that a head still waits."""
    if state.queued_job is None:
        return
    run = RunFolder(cube)
    # Somebody else may run it by now.
    with suppress(StorageError, OSError, LeaseHeld, LeaseLost), Lease.acquire(cube) as lease:
        remove(run.submission)
        if state.head is not None:
            state.head.in_state(ENDED, "cancelled").write(lease.generation.head, lease.files)
