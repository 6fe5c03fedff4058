"""A worker of limited time takes no batch that it cannot finish, and hands in the result of its last one.

dask's own lifetime gives the batch under way to another worker as soon as the time is up, and drops its
results.
"""

import asyncio
import logging
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from threading import Event, Thread
from typing import Any

import psutil
from distributed import Reschedule, Worker, WorkerPlugin, get_worker
from distributed.core import Status
from distributed.utils import sync

from sweep_clustering.pipeline.work.records import Results, Task
from sweep_clustering.pipeline.work.tasks import run_task
from sweep_clustering.sweeps.inputs import Source

# Start of the keys of batches.
BATCH = "run_batch"

# A batch is begun if so many times its predicted seconds are left: predictions err.
MARGIN = 2.0

# Seconds before the end of a SLURM job in which nothing is begun: results are still to be handed in.
RESERVE = 10.0

# Seconds between two looks whether the last result was fetched.
LOOK_SECONDS = 0.1


class LeaveInTime(WorkerPlugin):  # type: ignore[misc]
    """Make a worker that has a lifetime leave between two batches.

    From the moment it begins to leave it gets and starts no other batch. Those that wait at it go to other
    workers: at once to idle ones, and otherwise when it is gone.
    """

    name = "leave-in-time"

    def setup(self, worker: Worker) -> None:
        """Begin to leave at the end of the lifetime at the latest."""
        self._worker = worker
        self._worked = False
        self._task: asyncio.Task[None] | None = None
        self._end = end_of_time(worker)
        if self._end is not None:
            delay = max(0.0, self._end - time.time())
            self._timer = asyncio.get_running_loop().call_later(delay, self._begin)

    def teardown(self, worker: Worker) -> None:
        """Begin nothing any more: the worker ends."""
        if self._end is not None:
            self._timer.cancel()

    def takes(self, predicted: float) -> bool:
        """Whether a batch of so many seconds is to run here; otherwise the worker leaves. Tasks call it.

        The first batch of a worker always runs: no other worker would have more time for it.
        """
        if self._end is None or not self._worked or MARGIN * predicted <= self._end - time.time():
            self._worked = True
            return True
        sync(self._worker.loop, self._leave_soon)
        return False

    async def _leave_soon(self) -> None:
        self._begin()

    def _begin(self) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._leave())

    async def _leave(self) -> None:
        worker = self._worker
        while worker.status == Status.init:
            await asyncio.sleep(LOOK_SECONDS)
        # With this status nothing is started here or sent here, and dask's own lifetime waits.
        worker.status = Status.closing_gracefully
        while worker.state.executing_count or any(str(key).startswith(BATCH) for key in worker.data):
            await asyncio.sleep(LOOK_SECONDS)
        with suppress(OSError):  # the scheduler may be lost
            await worker.scheduler.retire_workers(
                workers=[worker.address],
                close_workers=False,
                remove=True,
                stimulus_id=f"{self.name}-{time.time()}",
            )
        await worker.close(nanny=not worker.lifetime_restart, reason="worker-lifetime-reached")


def end_of_time(worker: Worker) -> float | None:
    """Return when a worker must have left, in seconds since the epoch; None if nobody gave it a lifetime.

    dask counts the lifetime of each process from its own start. A process that a nanny started again would
    outlive its job: SLURM says when that ends.
    """
    if not worker.lifetime:
        return None
    ends = [psutil.Process().create_time() + worker.lifetime]
    if "SLURM_JOB_END_TIME" in os.environ:
        ends.append(float(os.environ["SLURM_JOB_END_TIME"]) - RESERVE)
    return float(min(ends))


# On a worker: events about the batches it runs, and the end of one that exceeds its time limit.

logger = logging.getLogger(__name__)

# Topic of reports of workers to the driver: new worker, batch started, limit exceeded.
TOPIC = "sweep-batches"

# Seconds for the scheduler to receive a message.
PATIENCE = 10.0

# Seconds between two looks at the time.
TICK = 1.0

# Seconds for a batch to end by itself after all.
GRACE = 1.0


def run_watched(task: Task, source: Source, key: str, limit: float) -> Results:
    """Run a task on a dask worker, within a time limit in seconds, and return the results of `run_task`.

    A kernel cannot be interrupted. So a batch that overruns takes its process with it, and the nanny starts
    another. The driver knows the task by `key`.

    Raises
    ------
    distributed.Reschedule
        If this worker has no time left for the batch. Nothing was begun, and nobody is charged: the
        scheduler gives it to another worker.
    """
    worker = get_worker()
    if not worker.plugins[LeaveInTime.name].takes(task.predicted):
        raise Reschedule

    where = {"worker": worker.address, "nanny": worker.nanny, "node": socket.gethostname()}
    where["job"] = os.environ.get("SLURM_JOB_ID", "")

    def report(what: str) -> None:
        """Return when the report is on its way to the scheduler: this process may end right after."""
        message = {"is": what, "key": key, **where}
        try:
            sync(worker.loop, _send, worker, message, callback_timeout=PATIENCE)
        except (OSError, TimeoutError) as error:
            logger.warning("%s: the scheduler was not told that it %s: %s", task, what, error)

    def overran() -> None:
        logger.error("%s ran for more than %g s: this process ends", task, limit)
        report("overran")

    report("started")
    with deadline(limit, overran, end_process):
        return run_task(task, source)


@contextmanager
def deadline(
    limit: float, overran: Callable[[], None], end: Callable[[], None], *, tick: float = TICK
) -> Iterator[None]:
    """Call `overran` when the block takes longer than `limit` seconds, and `end` if it runs on after `GRACE`.

    Time in which the whole process was stopped, for instance on a machine that slept, does not count.
    """
    done = Event()

    def watch() -> None:
        left = limit
        while left > 0:
            step = min(left, tick)
            if done.wait(step):
                return
            left -= step
        overran()
        if not done.wait(GRACE):
            end()

    Thread(target=watch, name="watchdog", daemon=True).start()
    try:
        yield
    finally:
        done.set()


def end_process() -> None:
    """End this process at once, whatever its threads do."""
    os.kill(os.getpid(), signal.SIGKILL)


async def _send(worker: Worker, message: Mapping[str, Any]) -> None:
    """Send an event without an answer, with the other messages to the scheduler.

    An answer to each would be another two messages a batch for the scheduler.
    """
    worker.log_event(TOPIC, message)
    stream = worker.batched_stream
    while stream.buffer and not stream.closed():
        await asyncio.sleep(stream.interval)
