"""The watch over worker jobs, with a compute cluster and a queue that say what real ones do."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from pipeline.jobs import slurm
from pipeline.jobs import watch as module
from pipeline.jobs.keys import JobQueue
from pipeline.jobs.slurm import ComputeClusterError, LiveJob
from pipeline.jobs.watch import (
    ASK_SECONDS,
    LOST_SECONDS,
    MOST_ABSENT,
    PLACE_SECONDS,
    SETTLED_SECONDS,
    TAIL_LINES,
    JobWatch,
    Slot,
)
from storage.runfolder.folder import RunFolder
from storage.runfolder.lease import Generation
from storage.runfolder.records import JobList

# A compute cluster of worker jobs and its queue, without processes: they say what real ones do.

NAME = "sweep-tiny-"


@dataclass
class Job:
    """A worker job as dask-jobqueue keeps it; `workers` are connected."""

    job_id: str | None = "7"
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


# When a worker job counts as gone, and what its end is taken for.


LIVE = [LiveJob("7", "sweep-a-0", "RUNNING", "n1", "None")]


def test_a_job_in_the_queue_is_not_gone() -> None:
    slot = Slot(Job())
    assert not any(slot.is_gone(LIVE, now) for now in range(10))


def test_one_answer_without_the_job_says_nothing() -> None:
    slot = Slot(Job())
    assert not slot.is_gone([], 0.0)
    assert not slot.is_gone(LIVE, 1.0)
    assert not slot.is_gone([], 2.0)
    assert slot.is_gone([], 3.0)


def test_a_queue_that_does_not_answer_says_nothing_of_a_job_that_never_had_a_worker() -> None:
    slot = Slot(Job())
    slot.update(slot.job, 0, 0.0)
    assert not slot.is_gone(None, 1e6)


def test_without_the_queue_a_job_is_gone_when_its_workers_are_for_long() -> None:
    slot = Slot(Job())
    slot.update(slot.job, 1, 0.0)
    slot.update(slot.job, 0, 5.0)
    assert not slot.is_gone(None, 5.0 + LOST_SECONDS)
    assert slot.is_gone(None, 5.1 + LOST_SECONDS)


def test_a_worker_that_comes_back_is_not_lost() -> None:
    slot = Slot(Job())
    for now, workers in enumerate((1, 0, 1)):
        slot.update(slot.job, workers, float(now))
    assert not slot.waits
    assert slot.lost is None


@pytest.mark.parametrize(("job", "gone"), [(Job(None), False), (Job(None, "Invalid account"), True)])
def test_a_job_without_a_number_is_under_way_or_refused(job: Job, gone: bool) -> None:
    assert Slot(job).is_gone([], 0.0) is gone


def test_a_settled_job_clears_the_deaths_before_it() -> None:
    slot = Slot(Job(), deaths=2)
    slot.update(slot.job, 1, 0.0)
    slot.update(slot.job, 1, SETTLED_SECONDS - 0.1)
    assert (slot.settled, slot.deaths) == (False, 2)
    slot.update(slot.job, 1, SETTLED_SECONDS)
    assert (slot.settled, slot.deaths) == (True, 0)


@pytest.mark.parametrize(("state", "deaths"), [("FAILED", 1), ("", 1), ("CANCELLED", 0), ("NODE_FAIL", 0)])
def test_an_early_end_counts_unless_somebody_made_it(state: str, deaths: int) -> None:
    slot = Slot(Job(), ended=state)
    assert (
        slot.mark_ended(100.0) == 2.0
    )  # in no case at once: a queue that cancels every job would be flooded
    assert (slot.deaths, slot.replace_at) == (deaths, 102.0)
    assert Slot(Job(), settled=True).mark_ended(100.0) == 0.0


def test_another_job_starts_afresh_but_keeps_the_count() -> None:
    slot = Slot(Job(), deaths=2)
    slot.update(slot.job, 1, 0.0)
    slot.update(slot.job, 1, 20.0)
    slot.deaths, slot.replace_at = 1, 21.0
    slot.update(Job("8"), 0, 22.0)
    assert (slot.settled, slot.deaths, slot.replace_at, slot.waits) == (False, 1, None, True)


@pytest.fixture
def queue(monkeypatch: pytest.MonkeyPatch) -> Queue:
    """In place of SLURM's commands."""
    queue = Queue()
    monkeypatch.setattr(slurm, "live_jobs", queue.live_jobs)
    monkeypatch.setattr(slurm, "end_state", queue.end_state)
    return queue


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    """Folder of the run, with room for the logs of jobs."""
    run = RunFolder(tmp_path / "a.zarr")
    run.make()
    run.job_logs.mkdir()
    return run


@pytest.fixture(autouse=True)
def said(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """What the watch has said to the user so far."""
    caplog.set_level(logging.INFO, logger="pipeline.jobs")
    return lambda: caplog.messages


def test_a_worker_is_waited_for(run: RunFolder, queue: Queue) -> None:
    site = Site(run, queue)
    site.wait(5)
    assert site.listed.jobs[0].state == "starting"
    site.job().workers = 2
    site.wait()
    site.watch.wait_for_worker()
    assert (site.listed.running, site.listed.workers, site.listed.jobs[0].state) == (1, 2, "running")
    assert site.cluster.dropped == []


def test_a_lost_job_is_replaced_at_once_and_once(
    run: RunFolder, queue: Queue, said: Callable[[], list[str]]
) -> None:
    site = Site(run, queue, n_jobs=2)
    site.settle(0)
    site.settle(1)
    site.end(0, "NODE_FAIL")
    site.wait(10)
    assert site.cluster.dropped == [f"{NAME}0"]
    assert site.job(0).job_id == "3"
    assert site.lost == [("1", "was lost")]
    assert queue.asked_for_ends == 0  # how it ended does not matter: it had worked
    assert f"worker job {NAME}0 (1) was lost; another one in 0 s" in said()
    site.job(0).workers = 1
    site.wait(60)
    assert len(site.cluster.dropped) == 1
    assert [job.state for job in site.listed.jobs] == ["running", "running"]
    assert site.watch.failure is None


def test_one_answer_without_the_job_is_asked_again_soon(run: RunFolder, queue: Queue) -> None:
    site = Site(run, queue)
    site.settle()
    job = queue.jobs.pop("1")
    site.job().workers = 0
    site.wait()
    queue.jobs["1"] = job  # it was on its way
    site.wait(ASK_SECONDS[0])
    assert site.cluster.dropped == []
    assert site.listed.jobs[0].state == "starting"


def test_each_early_end_is_answered_later(
    run: RunFolder, queue: Queue, said: Callable[[], list[str]]
) -> None:
    site = Site(run, queue, failed_starts=100)
    for _ in range(9):
        site.end()
        while site.cluster.jobs[f"{NAME}0"].job_id not in queue.jobs:
            site.wait()
    pauses = [text.rpartition(" in ")[2] for text in said() if "another one" in text]
    assert pauses == ["2 s", "4 s", "8 s", "16 s", "32 s", "64 s", "128 s", "256 s", "300 s"]


def test_jobs_that_die_at_once_end_the_run_with_the_end_of_a_log(run: RunFolder, queue: Queue) -> None:
    site = Site(run, queue, failed_starts=3)
    (run.job_logs / "dask-worker-3.err").write_text("".join(f"line {number}\n" for number in range(40)))
    (run.job_logs / "dask-worker-3.out").touch()
    (run.job_logs / "dask-worker-2.err").write_text("another job\n")
    assert site.dies_until_given_up() == 3
    message = str(site.watch.failure)
    assert message.startswith("worker jobs die at once: 3 times in a row, and no worker is left\n")
    shown = [f"  line {number}" for number in range(40 - TAIL_LINES, 40)]
    assert message.splitlines()[1:] == [f"the end of {run.job_logs / 'dask-worker-3.err'}:", *shown]
    assert site.lost == [("1", "died at once"), ("2", "died at once"), ("3", "died at once")]
    with pytest.raises(ComputeClusterError, match="die at once"):
        site.watch.wait_for_worker()


def test_a_job_without_a_log_is_said(run: RunFolder, queue: Queue) -> None:
    site = Site(run, queue, failed_starts=1)
    assert site.dies_until_given_up() == 1
    assert str(site.watch.failure).endswith(f"\njob 1 left no log in {run.job_logs}")


def test_jobs_that_are_refused_end_the_run_with_the_refusal(
    run: RunFolder, queue: Queue, said: Callable[[], list[str]]
) -> None:
    site = Site(run, queue, failed_starts=2)
    queue.jobs.clear()
    site.cluster.refusal = "sbatch: error: Invalid account"
    site.cluster.submit(f"{NAME}0")
    assert site.dies_until_given_up() == 2
    assert str(site.watch.failure).splitlines() == [
        "worker jobs cannot be submitted: 2 times in a row, and no worker is left",
        "sbatch: error: Invalid account",
    ]
    assert site.lost == [("", "could not be submitted")] * 2
    assert site.listed.jobs[0].state == "refused"


def test_a_settled_worker_clears_the_count(run: RunFolder, queue: Queue) -> None:
    site = Site(run, queue, failed_starts=2)
    for _ in range(3):
        site.end()
        while site.job().job_id not in queue.jobs:
            site.wait()
        site.settle()
    assert site.watch.failure is None


def test_deaths_count_for_a_third_while_another_job_starts(run: RunFolder, queue: Queue) -> None:
    site = Site(run, queue, n_jobs=2, failed_starts=2)
    assert site.dies_until_given_up() == 3 * 2
    assert site.job(1).job_id == "2"


def test_nothing_is_given_up_while_a_worker_is_left(run: RunFolder, queue: Queue) -> None:
    site = Site(run, queue, n_jobs=2, failed_starts=1, start_timeout=30.0)
    site.settle(1)
    site.end(0)
    site.wait(100)
    assert site.lost[0] == ("1", "died at once")
    assert site.watch.failure is None
    site.job(1).workers = 0
    site.wait(LOST_SECONDS)
    assert "start_timeout" in str(site.watch.failure)


def test_the_time_without_workers_begins_when_the_last_one_goes(run: RunFolder, queue: Queue) -> None:
    site = Site(run, queue, start_timeout=60.0)
    site.job().workers = 1
    site.wait(100)
    site.job().workers = 0
    site.wait(55)
    assert site.watch.failure is None
    site.wait(10)
    assert str(site.watch.failure) == "no worker for 0:01:00 (start_timeout): 1 running (None)"


def test_jobs_that_somebody_cancels_are_replaced_and_not_counted(run: RunFolder, queue: Queue) -> None:
    site = Site(run, queue, failed_starts=1)
    for _ in range(3):
        site.end(state="CANCELLED")
        while site.job().job_id not in queue.jobs:
            site.wait()
    assert site.lost == [(number, "was cancelled") for number in "123"]
    assert site.watch.failure is None


def test_a_job_that_is_being_cleaned_up_is_waited_for_but_not_for_ever(run: RunFolder, queue: Queue) -> None:
    site = Site(run, queue)
    site.end(state="COMPLETING")
    site.wait(5)
    assert site.listed.lost == ()
    asked = queue.asked
    site.wait(1000, step=2)
    assert site.lost[0] == ("1", "died at once")
    assert queue.asked >= MOST_ABSENT > asked


def test_what_the_queue_says_is_said_once(
    run: RunFolder, queue: Queue, said: Callable[[], list[str]]
) -> None:
    site = Site(run, queue, n_jobs=3)
    for number, state in zip(
        "123", [("PENDING", "Priority"), ("PENDING", "Priority"), ("RUNNING", "None")], strict=True
    ):
        queue.put(number, *state)
    site.wait(300, step=2)
    first = "worker jobs without workers: 2 pending (Priority), 1 running (None)"
    assert said() == [first]
    queue.put("1", "PENDING", "Resources")
    site.wait(300, step=2)
    second = "worker jobs without workers: 1 pending (Priority), 1 pending (Resources), 1 running (None)"
    assert said() == [first, second]
    assert [job.state for job in site.listed.jobs] == [
        "pending (Resources)",
        "pending (Priority)",
        "starting",
    ]


def test_the_queue_is_asked_less_and_less(run: RunFolder, queue: Queue) -> None:
    site = Site(run, queue)
    site.wait(10)
    soon = queue.asked
    site.wait(300, step=2)
    assert 4 <= soon <= 6
    assert queue.asked - soon <= 300 / ASK_SECONDS[1] + 6
    site.job().workers = 1
    site.wait()
    queue.put("1", node="n7")
    asked = queue.asked
    site.wait(PLACE_SECONDS)
    site.job().workers = 0
    site.wait(5)
    assert queue.asked > asked + 2  # again as soon as the workers are gone


@pytest.mark.parametrize(
    ("known", "states"), [(True, "1 pending (Resources)"), (False, "nothing is known of the jobs")]
)
def test_without_any_worker_the_run_ends_in_time(
    run: RunFolder, queue: Queue, known: bool, states: str
) -> None:
    site = Site(run, queue, start_timeout=3600.0)
    queue.put("1", "PENDING", "Resources")
    queue.answers = known
    site.wait(3590, step=10)
    assert site.watch.failure is None
    site.wait(15)
    assert str(site.watch.failure) == f"no worker for 1:00:00 (start_timeout): {states}"


def test_a_queue_that_does_not_answer_is_said_and_charges_nobody(
    run: RunFolder, queue: Queue, said: Callable[[], list[str]]
) -> None:
    site = Site(run, queue)
    queue.answers = False
    site.wait(600, step=5)
    assert "the queue does not answer: squeue: timed out" in said()
    assert (site.cluster.dropped, site.watch.failure) == ([], None)
    site.settle()
    site.job().workers = 0
    site.wait(LOST_SECONDS - 5)
    assert site.cluster.dropped == []
    site.wait(LOST_SECONDS)
    assert site.cluster.dropped == [f"{NAME}0"]


def test_nodes_are_looked_up_for_jobs_with_workers(run: RunFolder, queue: Queue) -> None:
    site = Site(run, queue)
    queue.put("1", node="n7")
    queue.answers = False
    site.job().workers = 1
    site.wait(PLACE_SECONDS)
    assert (queue.asked, site.listed.jobs[0].node) == (1, "")
    queue.answers = True
    site.wait(3 * PLACE_SECONDS)
    assert (queue.asked, site.listed.jobs[0].node) == (2, "n7")
    site.end()
    site.wait(5)
    assert site.listed.lost[0].node == "n7"


def test_other_queues_are_never_asked(run: RunFolder, queue: Queue) -> None:
    site = Site(run, queue, system="pbs", failed_starts=2)
    site.job().workers = 1
    site.wait(2)
    site.job().workers = 0
    site.wait(LOST_SECONDS)
    assert site.cluster.dropped == []
    site.wait(ASK_SECONDS[1] + 5)
    assert site.cluster.dropped == [f"{NAME}0"]
    assert (queue.asked, site.lost) == (0, [("1", "died at once")])


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that looks often, and futures that are their keys."""
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(module, "Future", lambda key, client: key)


@pytest.mark.usefixtures("quick")
def test_the_thread_survives_a_compute_cluster_that_does_not_answer(
    run: RunFolder, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Site(run, queue)
    site.job().workers = 1
    failing = threading.Event()
    answers = [OSError("closing"), OSError("closing")]

    def sync(function: Callable[..., Any], *arguments: Any) -> Any:
        if answers:
            failing.set()
            raise answers.pop()
        return function(*arguments)

    monkeypatch.setattr(site.cluster, "sync", sync)
    with site.watch as watch:
        watch.wait_for_worker()
        assert failing.is_set()
    assert not watch._thread.is_alive()


@pytest.mark.usefixtures("quick")
def test_tasks_nobody_can_run_are_cancelled(run: RunFolder, queue: Queue) -> None:
    site = Site(run, queue, start_timeout=0.001)
    with site.watch as watch:
        with pytest.raises(ComputeClusterError, match="start_timeout"):
            watch.wait_for_worker()
        assert site.client.done.wait(20)
        assert site.client.cancelled == dict.fromkeys(("batch-1", "batch-2"), str(watch.failure))
        site.client.futures = {}
        site.client.done.clear()
        time.sleep(0.05)
    assert not site.client.done.is_set()
