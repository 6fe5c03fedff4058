"""The watch over worker jobs replaces some, waits for others, excludes nodes, and gives up in the end."""

import asyncio
import dataclasses
import logging
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sweep_clustering.pipeline.jobs import cluster as module
from sweep_clustering.pipeline.jobs import queues
from sweep_clustering.pipeline.jobs.keys import JobQueue
from sweep_clustering.storage.runfolder.folder import GenerationFolder, JobList, RunFolder
from sweep_clustering.sweeps.errors import present

NAME = "sweep-tiny-"
ENDS = {"FAILED": "exit code 3", "NODE_FAIL": "node failure"}
NO_NODE = "sbatch: error: Batch job submission failed: Requested node configuration is not available"
LIMIT = "sbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job submit limit)"


@dataclass
class Job:
    """A worker job as dask-jobqueue keeps it; `workers` are connected."""

    job_id: str | None
    refusal: str = ""
    workers: int = 0


class Site:
    """A watch without its thread, a queue and jobs without processes: time passes when a test says so."""

    def __init__(
        self,
        generation: GenerationFolder,
        n_jobs: int = 1,
        kind: str = "slurm",
        limit: int = 100,
        refusal: str = "",
        **options: Any,
    ):
        self.queue, self.ends, self.jobs = dict[str, queues.LiveJob](), dict[str, str](), dict[str, Job]()
        self.futures, self.cancelled = {"batch-1": None, "batch-2": None}, dict[str, str]()
        self.answers, self.refusal, self.dropped = True, refusal, list[str]()
        self.limit, self.node, self.job_cls = limit, "", SimpleNamespace(excluded_nodes=list[str]())
        self.asked = self.asked_for_ends = 0
        self._numbers = count(1)
        for number in range(n_jobs):
            self.submit(f"{NAME}{number}")
        self.generation = generation
        profile = JobQueue(kind=kind, cores=1, memory=2**30, **options)
        self.cluster = client = cast(Any, self)  # it stands for both
        self.watch = module.JobWatch(client, profile, name=NAME, generation=generation, n_jobs=n_jobs)
        self.now = time.monotonic()

    # What the queue, the compute cluster and the client do.

    def add_job(self, number: str, state: str = "RUNNING", reason: str = "None", node: str = "") -> None:
        self.queue[number] = queues.LiveJob(number, f"{NAME}{number}", state, node, reason)

    def live_jobs(self, prefix: str) -> list[queues.LiveJob]:
        self.asked += 1
        if not self.answers:
            raise queues.CommandFailed(["squeue"], "timed out")
        return list(self.queue.values())

    def end_of(self, number: str) -> queues.JobDetails:
        self.asked_for_ends += 1
        state = self.ends.get(number, "")
        return queues.JobDetails(state, end=ENDS.get(state, ""), node=self.node)

    def submit(self, name: str) -> None:
        number = str(next(self._numbers))
        refusal = self.refusal or (LIMIT if len(self.queue) >= self.limit else "")
        self.jobs[name] = Job(None if refusal else number, refusal)
        if not refusal:
            self.add_job(number)

    def sync(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return function(*arguments)

    def jobs_with_workers(self) -> dict[str, tuple[Job, int]]:
        return {name: (job, job.workers) for name, job in self.jobs.items()}

    def drop(self, names: list[str]) -> None:
        self.dropped += names
        for name in names:
            del self.jobs[name]

    def cancel(self, futures: list[str], *, force: bool, msg: str) -> None:
        self.cancelled |= dict.fromkeys(futures, msg)

    # What a test does.

    def wait(self, seconds: float = 0.5, step: float = 0.5) -> None:
        """Let time pass, with two looks at every step; a dropped job is submitted again after them."""
        end = self.now + seconds
        while self.now < end:
            self.now += step
            self.watch.look(self.now)
            self.watch.look(self.now)
            for name in set(self.dropped) - set(self.jobs):
                self.submit(name)

    def job(self, number: int = 0) -> Job:
        return self.jobs[f"{NAME}{number}"]

    def end(self, number: int = 0, state: str = "FAILED") -> None:
        """End a job and its workers."""
        job = self.job(number)
        job.workers = 0
        if job.job_id is not None:
            self.queue.pop(job.job_id, None)
            self.ends[job.job_id] = state

    def settle(self, number: int = 0) -> None:
        """Let the workers of a job come and stay long enough."""
        self.job(number).workers = 1
        self.wait(module.SETTLED_SECONDS + 1)

    def end_often(self, times: int, state: str = "FAILED") -> int:
        """End jobs before a worker comes, and return how many ended until the run was given up."""
        for number in range(1, times + 1):
            self.end(state=state)
            dropped = len(self.dropped)
            while len(self.dropped) == dropped:
                self.wait()
                if self.failure:
                    return number
        return times

    @property
    def failure(self) -> str:
        return str(self.watch.failure or "")

    @property
    def job_list(self) -> JobList:
        return present(JobList.read(self.generation.jobs))

    @property
    def jobs_lost(self) -> list[tuple[str, str]]:
        return [(job.job, job.how) for job in self.job_list.lost]


MakeSite = Callable[..., Site]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> MakeSite:
    """Make a site, which stands in for SLURM's commands and has so many nodes."""
    caplog.set_level(logging.INFO, logger="sweep_clustering.pipeline.jobs")
    generation = GenerationFolder(RunFolder(tmp_path / "a.zarr"), 1)
    generation.run.make()
    generation.open()
    generation.run.job_logs.mkdir()

    def make_site(n_nodes: int = 5, **options: Any) -> Site:
        slurm = dataclasses.replace(queues.SLURM, count_nodes=lambda name: n_nodes)
        monkeypatch.setitem(queues.QUEUES, "slurm", slurm)
        site = Site(generation, **options)
        monkeypatch.setattr(queues.Queue, "live_jobs", site.live_jobs)
        monkeypatch.setattr(queues.Queue, "end_of", site.end_of)
        return site

    return make_site


def test_a_lost_job_is_replaced_at_once_and_once(make: MakeSite, caplog: pytest.LogCaptureFixture) -> None:
    site = make(n_jobs=2)
    site.settle(0)
    site.settle(1)
    site.watch.wait_for_worker()
    site.end(0, "NODE_FAIL")
    site.wait(10)
    assert site.dropped == [f"{NAME}0"]
    assert site.job(0).job_id == "3"
    assert site.jobs_lost == [("1", "was lost: node failure")]
    assert site.asked_for_ends == 1
    assert f"worker job {NAME}0 (1) was lost: node failure; another one in 0 s" in caplog.messages
    site.job(0).workers = 1
    site.wait(60)
    assert len(site.dropped) == 1
    assert site.failure == ""
    assert [(job.state, job.workers) for job in site.job_list.jobs] == [("running", 1)] * 2


def test_many_lost_jobs_are_replaced_before_all_ends_are_known(make: MakeSite) -> None:
    for state, n_questions in (("NODE_FAIL", module.MOST_ENDS), ("", 1)):  # the queue knows nothing of it
        site = make(n_jobs=50)
        for number in range(50):
            site.job(number).workers = 1
        site.wait(module.SETTLED_SECONDS + 1)
        for number in range(50):
            site.end(number, state)
        site.wait(5)
        assert len(site.dropped) == 50
        assert site.asked_for_ends == n_questions


def test_one_answer_without_the_job_says_nothing(make: MakeSite) -> None:
    site = make()
    site.settle()
    for _ in range(3):
        site.queue.pop("1")
        site.job().workers = 0
        site.wait()
        site.add_job("1")  # it was on its way
        site.wait(module.FIRST_PAUSE)
        assert site.dropped == []
        assert site.job_list.jobs[0].state == "starting"
        site.job().workers = 1
        site.wait()
    # a job that is being cleaned up is waited for, but not for ever
    site = make()
    site.end(state="COMPLETING")
    site.wait(5)
    assert site.job_list.lost == ()
    assert site.asked < module.MOST_ABSENT
    site.wait(1000, step=2)
    assert site.jobs_lost[0] == ("1", "died at once")


def test_each_early_end_is_answered_later(make: MakeSite, caplog: pytest.LogCaptureFixture) -> None:
    site = make(failed_starts=100)
    assert site.end_often(9) == 9
    pauses = [text.rpartition(" in ")[2] for text in caplog.messages if "another one" in text]
    assert pauses == ["2 s", "4 s", "8 s", "16 s", "32 s", "64 s", "128 s", "256 s", "300 s"]


@pytest.mark.parametrize(
    ("state", "how", "ends", "n_others"),
    [
        ("FAILED", "died at once: exit code 3", 2, 0),
        ("", "died at once", 2, 0),
        ("CANCELLED", "was cancelled", 9, 0),
        ("NODE_FAIL", "was lost: node failure", 9, 0),
        ("FAILED", "died at once: exit code 3", 3 * 2, 1),  # a third, while another job starts
    ],
)
def test_which_early_ends_count(make: MakeSite, state: str, how: str, ends: int, n_others: int) -> None:
    site = make(failed_starts=2, n_jobs=1 + n_others)
    assert site.end_often(9, state) == ends
    assert bool(site.failure) == (ends < 9)
    assert site.jobs_lost == [(str(number), how) for number in (1, *range(2 + n_others, 1 + n_others + ends))]


def test_jobs_that_die_at_once_end_the_run_with_the_end_of_a_log(make: MakeSite) -> None:
    site = make(failed_starts=3)
    logs = site.generation.run.job_logs
    (logs / "dask-worker-3.err").write_text("".join(f"line {number}\n" for number in range(40)))
    (logs / "dask-worker-3.out").touch()
    (logs / "dask-worker-2.err").write_text("another job\n")
    assert site.end_often(9) == 3
    first, place, *log_lines = site.failure.splitlines()
    assert first == "worker jobs die at once: 3 times in a row, and no worker is left"
    assert place == f"the end of {logs / 'dask-worker-3.err'}:"
    assert log_lines == [f"  line {number}" for number in range(25, 40)]
    with pytest.raises(queues.ComputeClusterError, match="die at once"):
        site.watch.wait_for_worker()
    site = make(failed_starts=1)
    assert site.end_often(9) == 1
    assert site.failure.endswith(f"\njob 1 left no log in {logs}")
    site = make(failed_starts=2)
    site.queue.clear()
    site.refusal = "sbatch: error: Invalid account"
    site.submit(f"{NAME}0")
    assert site.end_often(9) == 2
    assert re.search(f"cannot be submitted: 2 times in a row.*\n{site.refusal}$", site.failure)
    assert site.jobs_lost == [("", "could not be submitted")] * 2
    assert site.job_list.jobs[0].state == "refused"


def test_a_settled_worker_clears_the_count(make: MakeSite) -> None:
    site = make(failed_starts=2)
    for _ in range(3):
        site.end_often(1)
        site.settle()
    site.end_often(1)
    assert not site.failure
    site.job().workers = 1
    site.wait(module.SETTLED_SECONDS / 2)  # not for long enough
    site.end_often(2)
    assert "die at once" in site.failure


def test_nothing_is_given_up_while_a_worker_is_left(make: MakeSite) -> None:
    site = make(n_jobs=2, failed_starts=1, start_timeout=60.0)
    site.settle(1)
    site.end(0)
    site.wait(100)
    assert site.jobs_lost[0] == ("1", "died at once: exit code 3")
    assert not site.failure
    site.job(1).workers = 0
    site.wait(55)  # the time without any worker begins when the last one goes
    assert not site.failure
    site.wait(10)
    assert site.failure == "no worker for 0:01:00 (start_timeout): 2 running (None)"


def test_what_a_limit_leaves_is_kept_and_the_rest_is_tried_slowly(
    make: MakeSite, caplog: pytest.LogCaptureFixture
) -> None:
    site = make(n_jobs=8, limit=3, failed_starts=1)
    site.wait(1)
    assert site.job_list.refusal == f"3 of 8 jobs: limit of the site ({LIMIT})"
    assert [job.state for job in site.job_list.jobs][2:4] == ["starting", "refused"]
    assert caplog.messages[0] == f"{site.job_list.refusal}; trying again in 60 s"
    for number in range(3):
        site.job(number).workers = 1
    site.wait(58)
    assert site.dropped == []
    site.wait(1000)
    assert site.dropped == [f"{NAME}3"] * 5, "one job at a time, after 1, 2, 4, 5 and 5 minutes"
    pauses = [text.rpartition(" in ")[2] for text in caplog.messages if "trying again" in text]
    assert pauses == ["60 s", "120 s", "240 s", "300 s", "300 s", "300 s"]
    assert site.job_list.lost == ()
    assert not site.failure
    site.end(0)
    site.limit = 2  # another run of this user has begun
    site.wait(10)
    assert site.job_list.refusal.startswith("2 of 8 jobs: limit")
    assert [job.job for job in site.job_list.lost] == ["1"]
    site.limit = 8
    site.wait(310)
    assert all(site.job(number).job_id for number in range(8)), "all of them follow the first"
    site.wait(1)
    assert site.job_list.refusal == ""
    assert not site.failure


def test_a_limit_that_admits_no_job_ends_the_run_in_time(make: MakeSite) -> None:
    site = make(n_jobs=2, limit=0, failed_starts=1, start_timeout=3600.0)
    site.wait(3590, step=5)
    assert not site.failure
    assert len(site.dropped) == 13
    site.wait(15)
    assert site.failure == f"no worker for 1:00:00 (start_timeout): 0 of 2 jobs: limit of the site ({LIMIT})"


@pytest.mark.parametrize(("refusal", "ends"), [("Unexpected message received", False), (NO_NODE, True)])
def test_a_busy_queue_is_waited_for_and_an_impossible_request_is_not(
    make: MakeSite, refusal: str, ends: bool
) -> None:
    site = make(n_jobs=2, refusal=refusal, failed_starts=3)
    site.wait(100)
    assert not site.failure
    assert len(site.dropped) <= 5
    assert refusal in site.job_list.refusal
    for _ in range(300):
        if not site.failure:
            site.wait(1)
    expected = "worker jobs cannot be submitted: 3 times in a row, and no worker is left\n" + refusal
    assert site.failure == (expected if ends else "")


@pytest.mark.parametrize("is_answered", [True, False])
def test_without_any_worker_the_run_ends_in_time(make: MakeSite, is_answered: bool) -> None:
    site = make(start_timeout=3600.0)
    site.add_job("1", "PENDING", "Resources")
    site.answers = is_answered
    site.wait(3590, step=10)
    assert not site.failure
    site.wait(15)
    states = "1 pending (Resources)" if is_answered else "nothing is known of the jobs"
    assert site.failure == f"no worker for 1:00:00 (start_timeout): {states}"


def test_a_queue_is_asked_less_and_less(make: MakeSite, caplog: pytest.LogCaptureFixture) -> None:
    site = make(n_jobs=3)
    site.add_job("1", "PENDING", "Priority")
    site.add_job("2", "PENDING", "Priority")
    site.wait(10)
    assert 4 <= site.asked <= 6
    site.wait(300, step=2)
    site.add_job("1", "PENDING", "Resources")
    site.wait(300, step=2)
    assert site.asked <= 600 / module.LONGEST_PAUSE + 12
    states = "2 pending (Priority)", "1 pending (Priority), 1 pending (Resources)"
    assert caplog.messages == [f"worker jobs without workers: {state}, 1 running (None)" for state in states]
    job_states = [job.state for job in site.job_list.jobs]
    assert job_states == ["pending (Resources)", "pending (Priority)", "starting"]


def test_a_queue_without_an_answer_charges_nobody(make: MakeSite, caplog: pytest.LogCaptureFixture) -> None:
    site = make()
    site.answers = False
    site.wait(600, step=5)
    assert "the queue does not answer: squeue: timed out" in caplog.messages
    assert site.dropped == []
    assert site.failure == ""
    site.settle()
    site.job().workers = 0
    site.wait(module.LOST_SECONDS - 5)
    assert site.dropped == []
    site.wait(module.LOST_SECONDS)
    assert site.dropped == [f"{NAME}0"]
    site = make(kind="pbs", failed_starts=2)  # a queue that is never asked
    site.job().workers = 1
    site.wait(2)
    site.job().workers = 0
    site.wait(module.LOST_SECONDS)
    assert site.dropped == []
    site.wait(module.LONGEST_PAUSE + 5)
    assert site.dropped == [f"{NAME}0"]
    assert site.asked == 0
    assert site.jobs_lost == [("1", "died at once")]


def test_nodes_are_looked_up_for_jobs_with_workers(make: MakeSite) -> None:
    site = make(n_jobs=2)
    for number in (0, 1):
        site.add_job(site.job(number).job_id, node=f"n{number}")
        site.job(number).workers = 1
        site.wait(1.5)
        assert site.job_list.jobs[number].node == f"n{number}", "a run may be over soon"
    site = make()
    site.wait(300, step=2)
    site.answers = False
    site.job().workers = 1
    site.wait(10)
    assert site.job_list.jobs[0].node == ""
    site.add_job("1", node="n7")
    site.answers = True
    site.wait(20)
    n_questions = site.asked
    site.wait(60)
    assert site.asked == n_questions, "not asked any more"
    assert site.job_list.jobs[0].node == "n7", "not asked any more"
    site.job().workers = 0
    site.wait(5)
    assert site.asked > n_questions + 2  # again as soon as the workers are gone
    site.end()
    site.wait(5)
    assert site.job_list.lost[0].node == "n7"


def test_a_node_on_which_jobs_die_is_excluded(make: MakeSite, caplog: pytest.LogCaptureFixture) -> None:
    site = make(n_jobs=2, failed_starts=3)
    site.add_job("2", node="n2")
    site.settle(1)
    for node, excluded in (("n1", ["n1"]), ("n4", ["n1", "n4"]), ("n3", ["n1", "n4"])):
        site.node = node
        site.end_often(2)
        assert node not in site.job_cls.excluded_nodes
        site.end_often(1)
        assert site.job_cls.excluded_nodes == excluded
    assert list(site.job_list.excluded) == ["n1", "n4"]
    assert "node n1 is excluded from later jobs: 3 jobs died there in a row" in caplog.messages
    assert site.job_list.lost[0].node == "n1"


def test_nodes_are_not_at_fault_where_everything_dies(make: MakeSite) -> None:
    for n_nodes, n_ends, excluded in ((500, 6, ["n1"]), (1, 3, []), (0, 3, [])):
        site = make(n_nodes, failed_starts=3)
        n_died = 0
        while not site.failure:
            site.node = f"n{1 + n_died // 3}"
            n_died += site.end_often(1)
        assert n_died == n_ends
        assert site.job_cls.excluded_nodes == excluded
        assert site.failure.startswith("worker jobs die at once: 3 times in a row")


def test_a_worker_that_stays_clears_its_node(make: MakeSite) -> None:
    site = make(failed_starts=10)
    site.node = "n1"
    for _ in range(2):
        site.end_often(2)
        site.wait(10)
        site.add_job(str(site.job().job_id), node="n1")
        site.settle()
        site.end()
        site.wait(10)
    site.end_often(2)
    assert site.job_cls.excluded_nodes == []
    site.end_often(1)
    assert site.job_cls.excluded_nodes == ["n1"]


def test_later_jobs_keep_away_from_excluded_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scripts = []

    async def submit(job: Any, path: str) -> str:
        scripts.append(Path(path).read_text())
        return "7"

    kind = module._job_class("slurm", lambda: None)
    monkeypatch.setattr(kind, "_submit_job", submit)
    for excluded in ([], ["n1", "n2"]):
        kind.excluded_nodes[:] = excluded
        extra = ["--exclude=n9"]
        keys = {"cores": 1, "memory": "1GB", "job_extra_directives": extra, "log_directory": str(tmp_path)}
        asyncio.run(kind("tls://there:1", name="sweep-a-0", **keys).start())
    directives = [re.findall("^#SBATCH --exclude=(.*)$", script, re.MULTILINE) for script in scripts]
    assert directives == [["n9"], ["n9", "n9,n1,n2"]]
    assert scripts[1].index("n9,n1,n2") < scripts[1].index("dask_worker")


def test_the_thread_survives_a_silent_cluster(make: MakeSite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(module, "Future", lambda key, client: key)
    site = make(start_timeout=0.001)
    failing = threading.Event()

    def sync(function: Callable[..., Any], *arguments: Any) -> Any:
        if failing.is_set():
            return function(*arguments)
        failing.set()
        raise OSError("closing")

    monkeypatch.setattr(site, "sync", sync)
    with site.watch as watch:
        with pytest.raises(queues.ComputeClusterError, match="start_timeout"):
            watch.wait_for_worker()
        assert failing.is_set()
        while len(site.cancelled) < 2:
            time.sleep(0.01)
        assert site.cancelled == dict.fromkeys(site.futures, site.failure)
    assert not watch._thread.is_alive()
