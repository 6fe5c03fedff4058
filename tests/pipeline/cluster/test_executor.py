"""Batches as tasks: how many at once, what becomes of their results, and of workers that are gone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from distributed import Client, LocalCluster
from processes.sweeping import TINY, run, write_spec

from pipeline.cluster import executor
from pipeline.cluster.executor import DEATHS, DaskExecutor, InProgress, Losses, TimeLimitExceeded, WorkersDied
from pipeline.cluster.worker import TOPIC
from pipeline.jobs.slurm import ComputeClusterError
from pipeline.methods.loading import MethodCall
from pipeline.work.records import Science, Span, Task
from sweeps.file.search import Search
from sweeps.plan import Cell

RUNNING, QUEUED = "running", "queued"
SCIENCE = Science(1, (Search(),), 3)


def batches(count: int) -> list[Task]:
    cells = [Cell("iris", None, 0.8, 75, replicate, "posterior") for replicate in range(count)]
    return [Task(SCIENCE, "iris", (Span(cell, 0, 5),), 1.0) for cell in cells]


class Site:
    """A compute cluster that says what real ones were heard to say."""

    def __init__(self) -> None:
        self.batches = {key: InProgress(batches(1)[0], None, 5.0) for key in (RUNNING, QUEUED)}
        self.losses = Losses(self.batches)

    def say(self, what: str, worker: str, nanny: str | None, key: str = RUNNING) -> dict[str, Any]:
        place = {"worker": worker, "nanny": nanny, "node": "node7", "job": "42"}
        return self.losses.read(TOPIC, {"is": what, "key": key, **place})

    def go(self, worker: str, expected: bool = False) -> dict[str, Any]:
        left = [RUNNING, QUEUED, "else"]
        event = {"action": "remove-worker", "processing-tasks": left, "expected": expected}
        return self.losses.read(worker, event)

    def dies_often(self, times: int, nanny: Callable[[int], str | None], **place: Any) -> dict[str, Any]:
        """Worker after worker begins the batch and is gone; what is given up when the next one comes."""
        found: dict[str, Any] = {}
        for number in range(times):
            self.say("started", f"worker {number}", nanny(number))
            assert self.go(f"worker {number}", **place) == {}
            found = self.say("worker", f"worker {number + 1}", nanny(number + 1))
        return found


def same(number: int) -> str:
    return "nanny"


def test_what_ran_when_process_after_process_died_is_to_blame_and_nothing_else() -> None:
    site = Site()
    assert site.dies_often(DEATHS - 1, same) == {}
    ((key, lost),) = site.dies_often(1, same).items()
    assert (key, type(lost), lost.node, lost.job) == (RUNNING, WorkersDied, "node7", "42")
    assert "3 worker processes died" in str(lost)
    site = Site()
    site.dies_often(DEATHS - 1, same)
    site.losses.read("worker-restart-memory", {"worker": "worker 0", "rss": 3 * 2**30, "pid": 5})
    assert "memory limit when it used 3.00 GiB" in str(site.dies_often(1, same)[RUNNING])


@pytest.mark.parametrize(
    ("nanny", "expected"),
    [(same, True), (lambda number: None, False), (lambda number: f"nanny {number}", False)],
    ids=["sent away", "without a nanny", "a nanny that died as well"],
)
def test_a_death_that_has_another_cause_is_nobodys_fault(nanny: Any, expected: bool) -> None:
    """Preemption, walltime and loss of a node take the nanny as well."""
    assert Site().dies_often(2 * DEATHS, nanny, expected=expected) == {}


def test_who_overran_is_lost_at_once_and_its_process_charged_to_nobody() -> None:
    site = Site()
    site.say("started", "worker", "nanny")
    site.say("started", "worker", "nanny", QUEUED)  # in another thread of that process
    ((key, lost),) = site.say("overran", "worker", "nanny").items()
    assert (key, type(lost), "5 s" in str(lost)) == (RUNNING, TimeLimitExceeded, True)
    del site.batches[RUNNING]
    # What is said of a batch that ended is no news.
    assert site.go("worker") == site.say("worker", "another", "nanny") == {}
    assert site.say("overran", "worker", "nanny") == {}
    assert site.losses.read("worker", {"action": "worker-status-change"}) == {}
    assert site.batches[QUEUED].deaths == 0


def test_a_run_that_lost_every_worker_says_so_and_waits(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(executor, "SILENCE", 0.2)
    monkeypatch.setattr(Client, "wait_for_workers", lambda self, n, timeout: None)
    quiet = {"protocol": "tcp", "host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}
    text = TINY.replace("restarts = 5", "restarts = 1").replace("[0.8, 1.0]", "[0.8]")
    spec, complaints = write_spec(tmp_path, text), list[str]()
    with LocalCluster(n_workers=0, threads_per_worker=1, processes=False, **quiet) as scheduler:

        def warn(message: str, *_: object) -> None:
            complaints.append(message)
            scheduler.scale(1)

        monkeypatch.setattr(executor.logger, "warning", warn)
        site = tmp_path / "cluster.yaml"
        site.write_text(f"lab: {{kind: address, address: '{scheduler.scheduler_address}'}}")
        assert run(spec, tmp_path / "results", workers=None, profile="lab", cluster_file=site) == 0
    assert complaints == ["no worker is connected: the run waits for one"]


class FakeFuture:
    """A task that ends when the test says so: with a result, or with an error of a status."""

    def __init__(self, arguments: tuple[Any, ...]) -> None:
        self.arguments = arguments
        self.outcome: Any = None
        self.status = "pending"
        self.released = False

    def __await__(self) -> Generator[None, None, Any]:
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        return self.outcome
        yield

    def release(self) -> None:
        self.released = True


class FakeClient:
    """What `DaskExecutor` asks of a client; tasks end when `handed` says so, which a test may replace."""

    def __init__(self, workers: int) -> None:
        self.loop = self
        self.threads = {f"w{number}": 1 for number in range(workers)}
        self.asked = 0
        self.tasks: dict[str, FakeFuture] = {}
        self.waiting: dict[str, Callable[[], None]] = {}
        self.topics: dict[str, Callable[[tuple[float, Any]], None]] = {}
        self.plugins: list[str] = []
        self.handed_in: list[int] = []
        self.handed: Callable[[str], object] = self.end

    def subscribe_topic(self, topic: str, handler: Callable[[tuple[float, Any]], None]) -> None:
        self.topics[topic] = handler

    def register_plugin(self, plugin: Any) -> None:
        self.plugins.append(plugin.name)

    def nthreads(self) -> dict[str, int]:
        self.asked += 1
        return self.threads

    def submit(self, function: Any, *arguments: Any, key: str, pure: bool) -> FakeFuture:
        self.tasks[key] = FakeFuture(arguments)
        return self.tasks[key]

    def map(self, function: Any, *arguments: Any, key: list[str], pure: bool) -> list[FakeFuture]:
        self.handed_in.append(len(key))
        each = zip(key, *arguments, strict=True)
        return [self.submit(function, *rest, key=name, pure=pure) for name, *rest in each]

    def add_callback(self, fetch: Any, key: str, future: FakeFuture) -> None:
        self.waiting[key] = lambda: asyncio.run(fetch(key, future))
        self.handed(key)

    def end(self, key: str, outcome: Any = None, status: str = "finished") -> None:
        self.tasks[key].outcome, self.tasks[key].status = outcome, status
        self.waiting.pop(key)()

    def results(self, work: list[Task], **options: Any) -> Any:
        left = list(work)
        found = DaskExecutor(self, {"iris": "the data"}, **options)  # type: ignore[arg-type, dict-item]
        assert [found.workers for _ in range(100)] == [len(self.threads)] * 100
        assert self.asked <= 2, "the number of workers is asked once a second"
        return found.results(lambda: left.pop(0) if left else None)


def test_two_batches_for_each_worker_are_in_flight() -> None:
    client, work = FakeClient(2), batches(6)
    results = client.results(work)
    assert client.plugins == ["report-nanny", "leave-in-time", "kernels-ready"]
    assert next(results) == [(batch, None) for batch in work[:4]]
    runs = [key for key in client.tasks if key.startswith("run_batch")]
    assert len(runs) == 4
    assert [key for key in client.tasks if key not in runs] == ["source-iris"]
    assert list(results) == [[(batch, None) for batch in work[4:]]]
    assert all(client.tasks[key].released for key in client.tasks if key.startswith("run_batch"))
    assert client.handed_in == [4, 2]


def test_for_many_workers_batches_are_handed_in_and_taken_together() -> None:
    client, work = FakeClient(64), batches(140)
    ends = iter([3, 1])

    def end(key: str) -> None:
        if len(client.waiting) in (0, 128) or not key:
            for waiting in list(client.waiting)[: next(ends, 500)]:
                client.end(waiting)

    client.handed = end
    taken = []
    for group in client.results(work):
        taken.append(group)
        if client.waiting:
            end("")
    assert [len(group) for group in taken] == [3, 1, executor.MOST_TOGETHER, 28, 8]
    assert client.handed_in == [128, 4, 8]
    assert [batch for group in taken for batch, _ in group] == work


def test_an_error_of_a_task_is_its_outcome_and_a_lost_scheduler_ends_the_run() -> None:
    client, work, error = FakeClient(1), batches(2), ValueError("no")
    # The first task fails, the second is cancelled because the scheduler is lost.
    outcomes = iter([(error, "error"), (asyncio.CancelledError("gone"), "cancelled")])
    client.handed = lambda key: client.end(key, *next(outcomes))
    results = client.results(work)
    assert next(results) == [(work[0], error)]
    with pytest.raises(ComputeClusterError, match="scheduler lost: gone"):
        next(results)


@pytest.mark.parametrize("late", ["too late", asyncio.CancelledError("given up")])
def test_a_batch_over_its_limit_is_given_up_and_its_late_result_is_dropped(late: object) -> None:
    client, work = FakeClient(1), batches(2)

    def say(key: str) -> None:
        if len(client.waiting) == 2:
            first, second = client.waiting
            assert client.tasks[first].arguments[3] == 7.0
            event = {"key": first, "worker": "w0", "nanny": "n0", "node": "here", "job": ""}
            for what in ("started", "overran"):
                client.topics[TOPIC]((0.0, event | {"is": what}))
            client.end(first, late)
            client.end(second, "in time")

    client.handed = say
    results = client.results(work, time_limit=7.0)
    ((given_up, error), (finished, outcome)) = chain.from_iterable(results)
    assert (given_up, finished, outcome) == (work[0], work[1], "in time")
    assert isinstance(error, TimeLimitExceeded)


def test_only_an_endless_batch_reaches_its_limit() -> None:
    (batch,) = batches(1)
    own = executor.LEAST_LIMIT + executor.LIMIT_FACTOR
    assert executor.generous_limit(batch) == own > 1000
    method = MethodCall("mine", "mine.py:f", "", {}, time_limit=40_000.0)
    called = Span(replace(batch.spans[0].unit, model="mine"), 0, 3)
    science = replace(batch.science, methods=(method,))
    alone = executor.generous_limit(replace(batch, science=science, spans=(called,)))
    assert 3 * 40_000 < alone < 3 * 40_000 + executor.LEAST_LIMIT
    both = replace(batch, science=science, spans=(called, *batch.spans))
    assert executor.generous_limit(both) == alone + own
