"""On a worker of limited time: it takes no batch that it cannot finish, and hands in its last one.

dask's own lifetime gives the batch under way to another worker as soon as the time is up, and drops what was
done of it.
"""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import suppress

import psutil
from distributed import Worker, WorkerPlugin
from distributed.core import Status
from distributed.utils import sync

BATCH = "run_batch"
"""What the keys of batches start with."""

MARGIN = 2.0
"""A batch is begun if so many times its predicted seconds are left: predictions err."""

RESERVE = 10.0
"""Seconds before the end of a SLURM job in which nothing is begun: results are still to be handed in."""

LOOK_SECONDS = 0.1
"""Between looks whether the last result was fetched."""


class LeaveInTime(WorkerPlugin):  # type: ignore[misc]
    """Make a worker that has a lifetime leave between two batches; one without is left alone.

    From the moment it begins to leave it gets and starts no other batch. Those that wait at it go to other
    workers: at once to idle ones, else when it is gone.
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
        """Whether a batch of so many seconds is to run here; otherwise the worker leaves. For tasks.

        The first batch of a worker always is: no other worker would have more time for it.
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
        with suppress(OSError):  # a scheduler that is lost has nothing to be told
            await worker.scheduler.retire_workers(
                workers=[worker.address],
                close_workers=False,
                remove=True,
                stimulus_id=f"{self.name}-{time.time()}",
            )
        await worker.close(nanny=not worker.lifetime_restart, reason="worker-lifetime-reached")


def end_of_time(worker: Worker) -> float | None:
    """When a worker must have left, in seconds since the epoch; None if nobody gave it a lifetime.

    dask counts the lifetime of each process from its own start. One that a nanny started again, in place of
    one that died, would outlive its job: SLURM says when that ends.
    """
    if not worker.lifetime:
        return None
    ends = [psutil.Process().create_time() + worker.lifetime]
    if "SLURM_JOB_END_TIME" in os.environ:
        ends.append(float(os.environ["SLURM_JOB_END_TIME"]) - RESERVE)
    return float(min(ends))
