"""Batches as tasks: how many at once, what becomes of their results, and of workers that are gone."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator, Iterable
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from distributed import Client, LocalCluster
from processes.sweeping import run, write_spec

from pipeline.cluster import executor
from pipeline.cluster.executor import (
    DEATHS,
    LEAST_LIMIT,
    LIMIT_FACTOR,
    MOST_TOGETHER,
    DaskExecutor,
    Losses,
    TimeLimitExceeded,
    WorkersDied,
    generous_limit,
)
from pipeline.cluster.worker import TOPIC
from pipeline.jobs.slurm import ComputeClusterError
from pipeline.methods.loading import MethodCall
from pipeline.work.records import Batch, Science, Work
from sweeps.file.search import Search
from sweeps.plan import Cell

# Who is to blame when a worker is gone.

RUNNING, QUEUED = "running", "queued"


class Site:
    """A compute cluster that says what real ones were heard to say."""

    def __init__(self) -> None:
        self.losses = Losses()
        for key in (RUNNING, QUEUED):
            self.losses.watch(key, 5.0)

    def say(self, what: str, key: str, worker: str, nanny: str | None) -> dict[str, Any]:
        place = {"worker": worker, "nanny": nanny, "node": "node7", "job": "42"}
        return self.losses.read(TOPIC, {"is": what, "key": key, **place})

    def come(self, worker: str, nanny: str | None) -> dict[str, Any]:
        return self.losses.read(TOPIC, {"is": "worker", "worker": worker, "nanny": nanny})

    def go(self, worker: str, expected: bool = False) -> dict[str, Any]:
        event = {
            "action": "remove-worker",
            "processing-tasks": [RUNNING, QUEUED, "else"],
            "expected": expected,
        }
        return self.losses.read(worker, event)

    def dies_often(self, times: int, **place: Any) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for number in range(times):
            self.say("started", RUNNING, f"worker {number}", "nanny")
            assert self.go(f"worker {number}", **place) == {}
            found = self.come(f"worker {number + 1}", "nanny")
        return found


def test_what_ran_when_process_after_process_died_is_to_blame_and_nothing_else() -> None:
    site = Site()
    assert site.dies_often(DEATHS - 1) == {}
    found = site.dies_often(1)
    assert list(found) == [RUNNING]
    assert isinstance(found[RUNNING], WorkersDied)
    assert (found[RUNNING].node, found[RUNNING].job) == ("node7", "42")
    assert "3 worker processes died" in str(found[RUNNING])


def test_workers_that_were_sent_away_are_nobodys_fault() -> None:
    assert Site().dies_often(2 * DEATHS, expected=True) == {}


@pytest.mark.parametrize("nanny", [None, "nanny"])
def test_a_nanny_that_died_as_well_speaks_for_the_batch(nanny: str | None) -> None:
    """Preemption, walltime and loss of a node take both; so do workers that never had a nanny."""
    site = Site()
    for number in range(2 * DEATHS):
        site.say("started", RUNNING, f"worker {number}", nanny and f"{nanny} {number}")
        site.go(f"worker {number}")
        assert site.come(f"worker {number + 1}", f"nanny {number + 1}") == {}


def test_the_memory_it_used_is_said() -> None:
    site = Site()
    site.dies_often(DEATHS - 1)
    site.losses.read("worker-restart-memory", {"worker": "worker 0", "rss": 3 * 2**30, "pid": 5})
    assert "memory limit when it used 3.00 GiB" in str(site.dies_often(1)[RUNNING])


def test_who_overran_is_lost_at_once_and_its_process_charged_to_nobody() -> None:
    site = Site()
    site.say("started", RUNNING, "worker", "nanny")
    found = site.say("overran", RUNNING, "worker", "nanny")
    assert list(found) == [RUNNING]
    assert isinstance(found[RUNNING], TimeLimitExceeded)
    assert "5 s" in str(found[RUNNING])
    site.losses.forget(RUNNING)
    assert site.go("worker") == {}
    assert site.come("another", "nanny") == {}


def test_news_of_batches_that_ended_is_no_news() -> None:
    site = Site()
    site.say("started", RUNNING, "worker", "nanny")
    site.losses.forget(RUNNING)
    assert site.say("overran", RUNNING, "worker", "nanny") == {}
    assert site.go("worker") == {}
    assert site.losses.read("worker", {"action": "worker-status-change"}) == {}


SCIENCE = Science(1, (Search(),), 3)


class ScalesUp(logging.Handler):
    """Gives a scheduler a worker when the run complains that it has none."""

    def __init__(self, scheduler: LocalCluster) -> None:
        super().__init__()
        self.scheduler = scheduler
        self.complaints = 0

    def emit(self, record: logging.LogRecord) -> None:
        if "no worker is connected" in record.getMessage():
            self.complaints += 1
            self.scheduler.scale(1)


def test_a_run_that_lost_every_worker_says_so_and_waits(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(executor, "SILENCE", 0.2)
    monkeypatch.setattr(Client, "wait_for_workers", lambda self, n, timeout: None)
    quiet = {"protocol": "tcp", "host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}
    with LocalCluster(n_workers=0, threads_per_worker=1, processes=False, **quiet) as scheduler:
        handler = ScalesUp(scheduler)
        monkeypatch.setattr(executor.logger, "handlers", [handler])
        site = tmp_path / "cluster.yaml"
        site.write_text(f"lab: {{kind: address, address: '{scheduler.scheduler_address}'}}")
        choices = {"workers": None, "profile": "lab", "cluster_file": site}
        assert run(write_spec(tmp_path), tmp_path / "results", **choices) == 0
    assert handler.complaints == 1


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
    """What `DaskExecutor` asks of a client; tasks end in the order the test ends them."""

    def __init__(self, workers: int) -> None:
        self.loop = self
        self.threads = {f"w{number}": 1 for number in range(workers)}
        self.asked = 0
        self.tasks: dict[str, FakeFuture] = {}
        self.waiting: dict[str, Callable[[], None]] = {}
        self.topics: dict[str, Callable[[tuple[float, Any]], None]] = {}
        self.plugins: list[str] = []
        self.handed_in: list[int] = []

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

    def end(self, key: str, outcome: Any, status: str = "finished") -> None:
        self.tasks[key].outcome, self.tasks[key].status = outcome, status
        self.waiting.pop(key)()


def batches(count: int) -> list[Batch]:
    cells = [Cell("iris", None, 0.8, 75, replicate, "posterior") for replicate in range(count)]
    return [Batch(SCIENCE, "iris", (Work(cell, 0, 5),), 1.0) for cell in cells]


def started(client: FakeClient, work: Iterable[Batch], **options: Any) -> tuple[DaskExecutor, Any]:
    """An executor, and its results."""
    left = list(work)
    found = DaskExecutor(client, {"iris": "the data"}, **options)  # type: ignore[arg-type, dict-item]
    return found, found.results(lambda: left.pop(0) if left else None)


def test_two_batches_for_each_worker_are_in_flight() -> None:
    client, work = FakeClient(2), batches(6)
    _, results = started(client, work)
    assert client.plugins == ["report-nanny", "leave-in-time", "kernels-ready"]
    client.add_callback = lambda fetch, key, future: asyncio.run(fetch(key, future))  # type: ignore[method-assign]
    assert next(results) == [(batch, None) for batch in work[:4]]
    runs = [key for key in client.tasks if key.startswith("run_batch")]
    assert len(runs) == 4
    assert [key for key in client.tasks if not key.startswith("run_batch")] == ["source-iris"]
    assert all(client.tasks[key].released for key in runs)
    assert list(results) == [[(batch, None) for batch in work[4:]]]
    assert all(client.tasks[key].released for key in client.tasks if key.startswith("run_batch"))
    assert client.handed_in == [4, 2]


def test_for_many_workers_batches_are_handed_in_and_taken_together() -> None:
    client, work = FakeClient(64), batches(140)
    _, results = started(client, work)
    ends = iter([3, 1])

    def hold(fetch: Any, key: str, future: FakeFuture) -> None:
        client.waiting[key] = lambda: asyncio.run(fetch(key, future))
        if len(client.waiting) == 128:
            end()

    def end() -> None:
        for waiting in list(client.waiting)[: next(ends, 500)]:
            client.end(waiting, None)

    client.add_callback = hold  # type: ignore[method-assign]
    taken = []
    for group in results:
        taken.append(group)
        if client.waiting:
            end()
    assert [len(group) for group in taken] == [3, 1, MOST_TOGETHER, 28, 8]
    assert client.handed_in == [128, 4, 8]
    assert [batch for group in taken for batch, _ in group] == work


def test_the_number_of_workers_is_asked_once_a_second() -> None:
    client = FakeClient(3)
    found, _ = started(client, [])
    assert [found.workers for _ in range(100)] == [3] * 100
    assert client.asked <= 2


def test_an_error_of_a_task_is_its_outcome_and_a_lost_scheduler_ends_the_run() -> None:
    client, work = FakeClient(1), batches(2)
    _, results = started(client, work)
    error = ValueError("no")

    def end(fetch: Any, key: str, future: FakeFuture) -> None:
        # The first task fails, the second is cancelled because the scheduler is lost.
        outcomes = [(error, "error"), (asyncio.CancelledError("gone"), "cancelled")]
        future.outcome, future.status = outcomes[len(client.waiting)]
        client.waiting[key] = lambda: None
        asyncio.run(fetch(key, future))

    client.add_callback = end  # type: ignore[method-assign]
    assert next(results) == [(work[0], error)]
    with pytest.raises(ComputeClusterError, match="scheduler lost: gone"):
        next(results)


@pytest.mark.parametrize("late", ["too late", asyncio.CancelledError("given up")])
def test_a_batch_over_its_limit_is_given_up_and_its_late_result_is_dropped(late: object) -> None:
    client, work = FakeClient(1), batches(2)
    _, results = started(client, work, time_limit=7.0)

    def say(fetch: Any, key: str, future: FakeFuture) -> None:
        client.waiting[key] = lambda: asyncio.run(fetch(key, future))
        if len(client.waiting) < 2:
            return
        first, second = client.waiting
        assert client.tasks[first].arguments[3] == 7.0
        event = {"key": first, "worker": "w0", "nanny": "n0", "node": "here", "job": ""}
        client.topics[TOPIC]((0.0, event | {"is": "started"}))
        client.topics[TOPIC]((0.0, event | {"is": "overran"}))
        client.end(first, late)
        client.end(second, "in time")

    client.add_callback = say  # type: ignore[method-assign]
    ((given_up, error), (finished, outcome)) = chain.from_iterable(results)
    assert (given_up, finished, outcome) == (work[0], work[1], "in time")
    assert isinstance(error, TimeLimitExceeded)


def test_only_an_endless_batch_reaches_its_limit() -> None:
    (batch,) = batches(1)
    assert generous_limit(batch) == LEAST_LIMIT + LIMIT_FACTOR
    method = MethodCall("mine", "mine.py:f", "", {}, time_limit=40_000.0)
    called = Work(replace(batch.work[0].cell, model="mine"), 0, 3)
    science = replace(batch.science, methods=(method,))
    alone = generous_limit(replace(batch, science=science, work=(called,)))
    assert 3 * 40_000 < alone < 3 * 40_000 + LEAST_LIMIT
    assert (
        generous_limit(replace(batch, science=science, work=(called, *batch.work)))
        == alone + LEAST_LIMIT + LIMIT_FACTOR
    )
