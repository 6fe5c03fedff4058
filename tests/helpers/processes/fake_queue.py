"""A compute cluster of worker jobs and its queue, without processes: they say what real ones do."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from pipeline.jobs import slurm
from pipeline.jobs.keys import JobQueue
from pipeline.jobs.watch import SETTLED_SECONDS, JobWatch
from storage.runfolder.folder import RunFolder
from storage.runfolder.lease import Generation
from storage.runfolder.records import JobList

NAME = "sweep-tiny-"


@dataclass
class Job:
    """A worker job as dask-jobqueue keeps it; `workers` are connected."""

    job_id: str | None
    refusal: str = ""
    workers: int = 0


@dataclass
class Queue:
    """SLURM: jobs by number, how jobs ended, and whether it answers."""

    jobs: dict[str, slurm.LiveJob] = field(default_factory=dict)
    ends: dict[str, str] = field(default_factory=dict)
    answers: bool = True
    asked: int = 0
    asked_for_ends: int = 0

    def put(self, number: str, state: str = "RUNNING", reason: str = "None", node: str = "") -> None:
        self.jobs[number] = slurm.LiveJob(number, f"{NAME}{number}", state, node, reason)

    def live_jobs(self, prefix: str) -> list[slurm.LiveJob]:
        assert prefix == NAME
        self.asked += 1
        if not self.answers:
            raise slurm.CommandFailed(["squeue"], "timed out", transient=True)
        return list(self.jobs.values())

    def end_state(self, number: str) -> str:
        self.asked_for_ends += 1
        return self.ends.get(number, "")


class Cluster:
    """Keeps `n_jobs` jobs up: `adapt` submits what was dropped again, under the same name."""

    def __init__(self, queue: Queue, n_jobs: int) -> None:
        self.queue = queue
        self.refusal = ""
        self.state = "RUNNING", "None"
        self.dropped: list[str] = []
        self._numbers = count(1)
        self.jobs: dict[str, Job] = {}
        for number in range(n_jobs):
            self.submit(f"{NAME}{number}")

    def submit(self, name: str) -> None:
        number = str(next(self._numbers))
        self.jobs[name] = Job(None if self.refusal else number, self.refusal)
        if not self.refusal:
            self.queue.put(number, *self.state)

    def sync(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return function(*arguments)

    def watched(self) -> dict[str, tuple[Job, int]]:
        return {name: (job, job.workers) for name, job in self.jobs.items()}

    def drop(self, names: list[str]) -> None:
        self.dropped += names
        for name in names:
            del self.jobs[name]

    def adapt(self) -> None:
        for name in self.dropped:
            if name not in self.jobs:
                self.submit(name)

    def end(self, name: str, state: str = "FAILED") -> None:
        """The job and its workers are gone."""
        job = self.jobs[name]
        job.workers = 0
        if job.job_id is not None:
            self.queue.jobs.pop(job.job_id, None)
            self.queue.ends[job.job_id] = state


class Client:
    """Holds the keys of tasks, and notes with what message they were cancelled."""

    def __init__(self) -> None:
        self.futures = {"batch-1": None, "batch-2": None}
        self.cancelled: dict[str, str] = {}
        self.done = threading.Event()

    def cancel(self, futures: list[str], *, force: bool, msg: str) -> None:
        assert force
        self.cancelled |= dict.fromkeys(futures, msg)
        self.done.set()


class Site:
    """A watch without its thread: time passes when a test says so."""

    def __init__(
        self, run: RunFolder, queue: Queue, *, n_jobs: int = 1, system: str = "slurm", **options: Any
    ):
        self.run = run
        self.queue = queue
        self.cluster = Cluster(queue, n_jobs)
        self.client: Any = Client()
        profile = JobQueue(kind=system, cores=1, memory=2**30, **options)
        self.generation = Generation(run, 1)
        self.generation.open()
        self.watch = JobWatch(
            self.cluster, self.client, profile, name=NAME, generation=self.generation, n_jobs=n_jobs
        )
        self.now = time.monotonic()

    def wait(self, seconds: float = 0.5, step: float = 0.5) -> None:
        """Let time pass, with two looks at every step; a dropped job comes back after them."""
        end = self.now + seconds
        while self.now < end:
            self.now += step
            self.watch.look(self.now)
            self.watch.look(self.now)
            self.cluster.adapt()

    def job(self, number: int = 0) -> Job:
        return self.cluster.jobs[f"{NAME}{number}"]

    def end(self, number: int = 0, state: str = "FAILED") -> None:
        self.cluster.end(f"{NAME}{number}", state)

    def settle(self, number: int = 0) -> None:
        """Its workers come, and stay long enough."""
        self.job(number).workers = 1
        self.wait(SETTLED_SECONDS + 1)

    def dies_until_given_up(self, most: int = 50) -> int:
        """Every job ends before a worker comes; how many did."""
        for number in range(1, most + 1):
            self.end()
            dropped = len(self.cluster.dropped)
            while len(self.cluster.dropped) == dropped:
                self.wait()
                if self.watch.failure is not None:
                    return number
        raise AssertionError("never given up")

    @property
    def listed(self) -> JobList:
        found = JobList.read(self.generation.jobs)
        assert found is not None
        return found

    @property
    def lost(self) -> list[tuple[str, str]]:
        return [(job.job, job.how) for job in self.listed.lost]
