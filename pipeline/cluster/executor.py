"""Batches as tasks on the workers of a dask client.

A worker of limited time takes no batch that it cannot finish, and hands in the result of its last one. dask's
own lifetime gives the batch under way to another worker as soon as the time is up, and drops its results.
"""

import asyncio
import logging
import math
import os
import signal
import socket
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count, groupby, islice
from operator import attrgetter
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import Any
from uuid import uuid4

import psutil
from dask.utils import format_bytes
from distributed import Client, Future, Reschedule, Worker, WorkerPlugin, get_worker
from distributed.core import Status
from distributed.utils import sync

from sweep_clustering.pipeline.cluster.connect import register
from sweep_clustering.pipeline.jobs.queues import ComputeClusterError
from sweep_clustering.pipeline.methods.process import PATIENCE, START_LIMIT
from sweep_clustering.pipeline.work.records import BatchLost, Results, Task
from sweep_clustering.pipeline.work.tasks import NextTask, Outcome, TaskOutcomes, load_kernels, run_task
from sweep_clustering.storage.runfolder.lease import own_job
from sweep_clustering.sweeps.inputs import Source
from sweep_clustering.sweeps.plan import Cell

# Start of the keys of batches.
BATCH = "run_batch"

# A batch is begun if so many times its predicted seconds are left: predictions err.
MARGIN = 2.0

# Seconds before the end of a job in which nothing is begun: results are still to be handed in.
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

    def takes(self, seconds: float) -> bool:
        """Whether a batch of so many seconds is to run here; otherwise the worker leaves. Tasks call it.

        The first batch of a worker always runs: no other worker would have more time for it.
        """
        if self._end is None or not self._worked or MARGIN * seconds <= self._end - time.time():
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
            reason = f"{self.name}-{time.time()}"
            await worker.scheduler.retire_workers(
                workers=[worker.address], close_workers=False, remove=True, stimulus_id=reason
            )
        await worker.close(nanny=not worker.lifetime_restart, reason="worker-lifetime-reached")


def end_of_time(worker: Worker) -> float | None:
    """Return when a worker must have left, in seconds since the epoch; None if nobody gave it a lifetime.

    dask counts the lifetime of each process from its own start. A process that a nanny started again would
    outlive its job; a queueing system may say when that ends.
    """
    if not worker.lifetime:
        return None
    ends = [psutil.Process().create_time() + worker.lifetime]
    if (end := own_job().end) is not None:
        ends.append(end - RESERVE)
    return float(min(ends))


# On a worker: events about the batches it runs, and the end of one that exceeds its time limit.

logger = logging.getLogger(__name__)

# Topic of reports of workers to the driver: new worker, batch started, limit exceeded.
TOPIC = "sweep-batches"

# Seconds for the scheduler to receive a message.
SEND_SECONDS = 10.0

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
    if not worker.plugins[LeaveInTime.name].takes(task.seconds):
        raise Reschedule

    place = {"worker": worker.address, "nanny": worker.nanny, "node": socket.gethostname()}
    place["job"] = own_job().number

    def report(event: str) -> None:
        """Return when the report is on its way to the scheduler: this process may end right after."""
        message = {"is": event, "key": key, **place}
        try:
            sync(worker.loop, _send, worker, message, callback_timeout=SEND_SECONDS)
        except (OSError, TimeoutError) as error:
            logger.warning("%s: the scheduler was not told that it %s: %s", task, event, error)

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
    end_event = Event()

    def watch() -> None:
        seconds_left = limit
        while seconds_left > 0:
            step = min(seconds_left, tick)
            if end_event.wait(step):
                return
            seconds_left -= step
        overran()
        if not end_event.wait(GRACE):
            end()

    Thread(target=watch, name="watchdog", daemon=True).start()
    try:
        yield
    finally:
        end_event.set()


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


# Which batches are given up and why, from the events of a compute cluster.
#
# A dead worker process may be its batch's fault only if its nanny lives on: a node that is lost, preempted or
# at its walltime takes the nanny with it. Meanwhile the scheduler runs the batch elsewhere.

# Topics of workers and nannies; the scheduler's topics are the addresses of the workers.
TOPICS = (TOPIC, "worker-restart-memory")

# A batch is given up when so many processes died while they ran it; one or two may be chance.
DEATHS = 3


class TimeLimitExceeded(BatchLost):
    """The batch ran for too long, and its process was ended."""


class WorkersDied(BatchLost):
    """Process after process died while it ran the batch."""


@dataclass
class InProgress:
    """A batch that was submitted, with its worker, its begin, and the places where processes died."""

    task: Task
    future: Future
    limit: float
    place: Mapping[str, str] | None = None
    start_time: float = 0.0
    places: list[Mapping[str, str]] = field(default_factory=list)
    deaths: int = 0


class Losses:
    """Decide from the events of a compute cluster which batches are given up.

    The caller keeps `batches`, which are those in progress by key.
    """

    def __init__(self, batches: Mapping[str, InProgress]) -> None:
        self._batches = batches
        self._overran: set[str] = set()
        self._memory: dict[str, int] = {}

    def read(self, topic: str, event: Mapping[str, Any]) -> dict[str, BatchLost]:
        """Take an event, and return the batches that are given up because of it, by key."""
        if topic == "worker-restart-memory":
            self._memory[event["worker"]] = event["rss"]
        elif topic != TOPIC:
            # An end that the scheduler asked for is nobody's fault, nor that of a process that ended itself.
            if (
                event.get("action") == "remove-worker"
                and not event["expected"]
                and topic not in self._overran
            ):
                self._worker_gone(topic, event["processing-tasks"])
        elif event["is"] == "worker":
            # Workers without a nanny tell nothing about each other.
            return {} if event["nanny"] is None else self._nanny_seen(event["nanny"])
        elif (batch := self._batches.get(event["key"])) is not None:
            if event["is"] == "started":
                batch.place, batch.start_time = event, time.time()
            else:
                self._overran.add(event["worker"])
                cause = (
                    f"ran for more than {batch.limit:g} s, its time limit, and its worker process was ended"
                )
                return {event["key"]: TimeLimitExceeded(cause, event["node"], event["job"])}
        return {}

    def _worker_gone(self, worker: str, keys: Iterable[str]) -> None:
        for batch in (self._batches[key] for key in keys if key in self._batches):
            # A batch that was only queued there is not to blame.
            if batch.place is not None and batch.place["worker"] == worker:
                batch.places.append(batch.place)
                batch.place = None

    def _nanny_seen(self, nanny: str) -> dict[str, BatchLost]:
        losses: dict[str, BatchLost] = {}
        for key, batch in self._batches.items():
            explained = [place for place in batch.places if place["nanny"] == nanny]
            batch.places = [place for place in batch.places if place["nanny"] != nanny]
            batch.deaths += len(explained)
            if explained and batch.deaths >= DEATHS:
                last = explained[-1]
                size = self._memory.get(last["worker"])
                reason = "out of memory, killed by a signal, or crashed"
                if size is not None:
                    reason = f"the last one was ended for its memory limit when it used {format_bytes(size)}"
                cause = f"{batch.deaths} worker processes died while they ran it: {reason}"
                losses[key] = WorkersDied(cause, last["node"], last["job"])
        return losses


# Seconds. A batch is predicted to take a minute at most, and a second if it is the first of its kind.
LEAST_LIMIT = 1800.0

# Multiple of the prediction.
LIMIT_FACTOR = 30.0

# Batches in progress for each worker: the one it runs, and the next.
AHEAD = 2

# With so many workers and more, batches are submitted when a sixteenth of the workers need one: each of them
# has one in advance.
GROUP_DIVISOR = 16

# Events taken at once.
MOST_TOGETHER = 100

# Seconds without an event after which the executor checks whether any worker is left.
SILENCE = 60.0

# Topic of this module, beside those of the compute cluster: a batch has results, or an error.
END_TOPIC = "ended"


class WorkerSetup(WorkerPlugin):  # type: ignore[misc]
    """Make a new worker ready: its nanny is reported, and no restart's time includes the compiler's."""

    name = "ready"

    async def setup(self, worker: Worker) -> None:
        # A nanny that is reported again shows that only the process had died.
        worker.log_event(TOPIC, {"is": "worker", "worker": worker.address, "nanny": worker.nanny})
        await asyncio.to_thread(load_kernels)  # the worker's heartbeat continues


class DaskExecutor:
    """Run batches as dask tasks, with a bounded number of them in flight.

    Parameters
    ----------
    client : distributed.Client
        Client of the compute cluster.
    sources : mapping of str to Source
        Data by data set name; each is sent to a worker at most once, when it is needed.
    time_limit : float or None
        Seconds a batch may run; None for `generous_limit`.
    """

    def __init__(
        self, client: Client, sources: Mapping[str, Source], *, time_limit: float | None = None
    ) -> None:
        self.client = client
        self._sources = sources
        self._time_limit = time_limit
        self._shipped: dict[str, Future] = {}
        self._workers, self._count_time = 1, -math.inf
        self._number, self._run = count(), uuid4().hex[:8]
        self._in_progress: dict[str, InProgress] = {}
        self._losses = Losses(self._in_progress)
        self._failure: ComputeClusterError | None = None
        self._inbox: SimpleQueue[tuple[str, Any]] = SimpleQueue()
        for topic in TOPICS:
            client.subscribe_topic(topic, partial(self._receive, topic))
        for plugin in (LeaveInTime(), WorkerSetup()):
            register(client, plugin)

    @property
    def workers(self) -> int:
        """Threads of all connected workers, at most a second old: each query is a round trip."""
        current_time = time.monotonic()
        if current_time - self._count_time > 1.0:
            threads: Mapping[str, int] = self.client.nthreads()
            self._workers, self._count_time = max(1, sum(threads.values())), current_time
        return self._workers

    @property
    def n_connected(self) -> int:
        """Workers that are connected now; a scheduler of another process has to be asked."""
        cluster = self.client.cluster
        return len(self.client.nthreads() if cluster is None else cluster.scheduler.workers)

    def at_work(self) -> Iterator[tuple[Task, Mapping[str, str], float]]:
        """Yield tasks that a worker has begun, with the place and the unix time; for any thread."""
        for batch in list(self._in_progress.values()):
            place = batch.place  # which the driver's thread may take away meanwhile
            if place is not None:
                yield batch.task, place, batch.start_time

    def results(self, next_task: NextTask) -> Iterator[TaskOutcomes]:
        """Keep each worker busy and one batch ahead; a longer queue only costs the scheduler."""
        while True:
            room = AHEAD * self.workers - len(self._in_progress)
            if room >= max(1, self.workers // GROUP_DIVISOR):
                self._submit(list(islice(iter(next_task, None), room)))
            if not self._in_progress:
                return
            if outcomes := self._next_ended():
                yield outcomes
            if self._failure is not None:
                raise self._failure

    def _submit(self, batches: list[Task]) -> None:
        """Submit batches, together for each data set: each submission costs as much as a batch."""
        for dataset, group in groupby(batches, key=attrgetter("dataset")):
            tasks = list(group)
            keys = [f"{BATCH}-{next(self._number):09d}-{self._run}" for _ in tasks]
            limits = [self._time_limit or generous_limit(batch) for batch in tasks]
            sources = [self._source(dataset)] * len(tasks)
            futures = self.client.map(run_watched, tasks, sources, keys, limits, key=keys, pure=False)
            for key, batch, limit, future in zip(keys, tasks, limits, futures, strict=True):
                self._in_progress[key] = InProgress(batch, future, limit)
                self.client.loop.add_callback(self._fetch, key, future)

    async def _fetch(self, key: str, future: Future) -> None:
        """Wait for a result in the client's thread, also while it is computed again for a lost worker."""
        try:
            outcome: Outcome = await future
        except (Exception, asyncio.CancelledError) as error:
            # A task without an error was cancelled, or the scheduler is lost.
            outcome = error if future.status == "error" else ComputeClusterError(f"scheduler lost: {error}")
        self._inbox.put((END_TOPIC, (key, outcome)))

    def _receive(self, topic: str, event: tuple[float, Any]) -> None:
        """Take an event, in the client's thread; events about a worker have its address as topic."""
        message = event[1]
        if message.get("is") == "worker":
            self.client.subscribe_topic(message["worker"], partial(self._receive, message["worker"]))
        self._inbox.put((topic, message))

    def _next_ended(self) -> TaskOutcomes:
        """Wait for an event; return the batches ended by it and by those that came meanwhile, often none."""
        events = [self._next_event()]
        with suppress(Empty):
            while len(events) < MOST_TOGETHER:
                events.append(self._inbox.get_nowait())
        ended_batches: TaskOutcomes = []
        for topic, event in events:
            outcomes = [event] if topic == END_TOPIC else self._losses.read(topic, event).items()
            for key, outcome in outcomes:
                if key not in self._in_progress:
                    continue  # given up before
                if isinstance(outcome, ComputeClusterError):
                    self._failure = outcome
                else:
                    batch = self._in_progress.pop(key)
                    batch.future.release()  # also of one that is given up: the scheduler then drops its task
                    ended_batches.append((batch.task, outcome))
        return ended_batches

    def _next_event(self) -> tuple[str, Any]:
        """Return the next event; a wait for workers is logged once, because it may last for days."""
        while True:
            with suppress(Empty):
                return self._inbox.get(timeout=SILENCE)
            if not self.client.nthreads():
                logger.warning("no worker is connected: the run waits for one")
                return self._inbox.get()

    def _source(self, dataset: str) -> Future:
        """Return a task with the data: unlike scattered data, it is made again when its worker is lost."""
        if dataset not in self._shipped:
            with warnings.catch_warnings():
                # The warning advises scatter, which is what must not be done here.
                warnings.filterwarnings("ignore", "Sending large graph")
                key, source = f"source-{dataset}", self._sources[dataset]
                self._shipped[dataset] = self.client.submit(_identity, source, key=key, pure=False)
        return self._shipped[dataset]


def generous_limit(task: Task) -> float:
    """Return the seconds that a task may run: long enough for any slow one, so that only endless ones reach
    it.

    A call of a method has its own limit, which ends it before; this one ends the worker where that fails.
    """
    calls = [
        START_LIMIT + span.size * (method.time_limit + PATIENCE)
        for span in task.spans
        if isinstance(span.unit, Cell) and (method := task.science.method(span.unit.model)) is not None
    ]
    return sum(calls, 0.0 if len(calls) == len(task.spans) else LEAST_LIMIT + LIMIT_FACTOR * task.seconds)


def _identity(source: Source) -> Source:
    return source
