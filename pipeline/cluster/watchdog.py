"""On a worker: events about the batches it runs, and the end of one that exceeds its time limit."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

from distributed import Reschedule, Worker, WorkerPlugin, get_worker
from distributed.utils import sync

from pipeline.cluster.leaving import LeaveInTime
from pipeline.work.records import Results, Task
from pipeline.work.tasks import run_task
from sweeps.inputs import Source

logger = logging.getLogger(__name__)

TOPIC = "sweep-batches"
"""Topic on which workers report what the driver cannot know: new worker, batch started, limit exceeded."""

PATIENCE = 10.0
"""Seconds for the scheduler to receive a message."""

TICK = 1.0
GRACE = 1.0
"""Seconds between looks at the time, and for a batch to end by itself after all."""


class ReportNanny(WorkerPlugin):  # type: ignore[misc]
    """Report the nanny of a new worker: a nanny seen again shows that only the process had died."""

    name = "report-nanny"

    def setup(self, worker: Worker) -> None:
        """Report it once the worker is connected."""
        worker.log_event(TOPIC, {"is": "worker", "worker": worker.address, "nanny": worker.nanny})


def run_watched(task: Task, source: Source, key: str, limit: float) -> Results:
    """Run a task on a dask worker, within a time limit.

    A kernel cannot be interrupted. So a batch that overruns takes its process with it, and the nanny starts
    another.

    Parameters
    ----------
    task, source
        As for `run_task`.
    key : str
        The name the driver knows the task by.
    limit : float
        Seconds, from now.

    Returns
    -------
    list of Partial, Failure, PathPart or PathFailure
        As of `run_task`.

    Raises
    ------
    distributed.Reschedule
        Where this worker has no time left for the batch. Nothing was begun, and nobody is charged: the
        scheduler gives it to another worker.
    """
    worker = get_worker()
    if not worker.plugins[LeaveInTime.name].takes(task.predicted):
        raise Reschedule

    def report(what: str) -> None:
        """Return when it is on its way to the scheduler: this process may end right after."""
        message = {"is": what, "key": key, **_whereabouts(worker)}
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

    Time in which the whole process was stopped, on a machine that slept for instance, does not count.
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
    """Hand an event to the system, with what else goes to the scheduler; nobody answers.

    An answer to each would be another two messages a batch for the scheduler.
    """
    worker.log_event(TOPIC, message)
    stream = worker.batched_stream
    while stream.buffer and not stream.closed():
        await asyncio.sleep(stream.interval)


def _whereabouts(worker: Worker) -> dict[str, Any]:
    return {
        "worker": worker.address,
        "nanny": worker.nanny,
        "node": socket.gethostname(),
        "job": os.environ.get("SLURM_JOB_ID", ""),
    }
