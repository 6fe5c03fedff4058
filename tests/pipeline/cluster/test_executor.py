"""Batches become tasks, with limits, and survive workers that are gone."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock, Mock, call

import pytest
from distributed import Client, LocalCluster
from processes.sweeping import TINY, run, write_spec

from sweep_clustering.pipeline.cluster import executor
from sweep_clustering.pipeline.jobs.queues import ComputeClusterError
from sweep_clustering.pipeline.methods.loading import MethodCall
from sweep_clustering.pipeline.work.records import Science, Span, Task
from sweep_clustering.sweeps.file.search import Search
from sweep_clustering.sweeps.plan import Cell

RUNNING, QUEUED = "running", "queued"
SCIENCE = Science(1, (Search(),), 3)


def batches(count: int) -> list[Task]:
    cells = [Cell("iris", None, 0.8, 75, replicate, "posterior") for replicate in range(count)]
    return [Task(SCIENCE, "iris", (Span(cell, 0, 5),), 1.0) for cell in cells]


class Site:
    """A compute cluster that says what real ones were heard to say."""

    def __init__(self) -> None:
        self.batches = {key: executor.InProgress(batches(1)[0], None, 5.0) for key in (RUNNING, QUEUED)}
        self.losses = executor.Losses(self.batches)

    def report(self, state: str, worker: str, nanny: str | None, key: str = RUNNING) -> dict[str, Any]:
        place = {"worker": worker, "nanny": nanny, "node": "node7", "job": "42"}
        return self.losses.read(executor.TOPIC, {"is": state, "key": key, **place})

    def remove(self, worker: str, expected: bool = False) -> dict[str, Any]:
        event = {"action": "remove-worker", "processing-tasks": [RUNNING, QUEUED, "else"]}
        return self.losses.read(worker, event | {"expected": expected})

    def dies_often(self, times: int, nanny: Callable[[int], str | None], **place: Any) -> dict[str, Any]:
        """Let workers begin the batch and die, and return what is given up when the next one comes."""
        given_up: dict[str, Any] = {}
        for number in range(times):
            self.report("started", f"worker {number}", nanny(number))
            assert self.remove(f"worker {number}", **place) == {}
            given_up = self.report("worker", f"worker {number + 1}", nanny(number + 1))
        return given_up


same = "nanny".format


def test_what_ran_when_process_after_process_died_is_to_blame_and_nothing_else() -> None:
    site = Site()
    assert site.dies_often(executor.DEATHS - 1, same) == {}
    ((key, lost),) = site.dies_often(1, same).items()
    assert key == RUNNING
    assert type(lost) is executor.WorkersDied
    assert lost.node == "node7"
    assert lost.job == "42"
    assert "3 worker processes died" in str(lost)
    site = Site()
    site.dies_often(executor.DEATHS - 1, same)
    site.losses.read("worker-restart-memory", {"worker": "worker 0", "rss": 3 * 2**30, "pid": 5})
    assert "memory limit when it used 3.00 GiB" in str(site.dies_often(1, same)[RUNNING])


def test_a_death_that_has_another_cause_is_nobodys_fault() -> None:
    """The worker was sent away or has no nanny: preemption, walltime and a lost node take that too."""
    for nanny, expected in ((same, True), (lambda number: None, False), ("nanny {}".format, False)):
        assert Site().dies_often(2 * executor.DEATHS, nanny, expected=expected) == {}


def test_who_overran_is_lost_at_once_and_its_process_charged_to_nobody() -> None:
    site = Site()
    site.report("started", "worker", "nanny")
    site.report("started", "worker", "nanny", QUEUED)  # this is another thread of that process
    ((key, lost),) = site.report("overran", "worker", "nanny").items()
    assert key == RUNNING
    assert type(lost) is executor.TimeLimitExceeded
    assert "5 s" in str(lost)
    del site.batches[RUNNING]
    # What is said of a batch that ended is no news.
    assert site.remove("worker") == site.report("worker", "another", "nanny") == {}
    assert site.report("overran", "worker", "nanny") == {}
    assert site.losses.read("worker", {"action": "worker-status-change"}) == {}
    assert site.batches[QUEUED].deaths == 0


def test_a_run_without_any_worker_says_so_and_waits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(executor, "SILENCE", 0.2)
    monkeypatch.setattr(Client, "wait_for_workers", lambda self, n, timeout: None)
    quiet = {"protocol": "tcp", "host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}
    spec, complaints = write_spec(tmp_path, TINY.replace("restarts = 5", "restarts = 1")), list[str]()
    with LocalCluster(n_workers=0, threads_per_worker=1, processes=False, **quiet) as scheduler:

        def warn(message: str, *_: object) -> None:
            complaints.append(message)
            scheduler.scale(1)

        monkeypatch.setattr(executor.logger, "warning", warn)
        site = tmp_path / "cluster.yaml"
        site.write_text(f"lab: {{kind: address, address: '{scheduler.scheduler_address}'}}")
        assert run(spec, tmp_path / "results", workers=None, profile="lab", cluster_file=site) == 0
    assert complaints == ["no worker is connected: the run waits for one"]


class Ended(SimpleNamespace):
    """A future: the outcome of a task, its result or its error."""

    def __await__(self) -> Any:
        return AsyncMock(side_effect=[self.outcome])().__await__()


class FakeClient(Mock):
    """What `DaskExecutor` asks of a client; tasks end when `handed` says so, which a test may replace."""

    def start(self, workers: int, work: list[Task], **options: Any) -> Any:
        """Return the results of an executor with so many workers."""
        waiting_tasks = list(work)
        self.loop = self
        self.nthreads.return_value = dict.fromkeys(range(workers), 1)
        self.limits: list[float] = []
        self.waiting: dict[str, Callable[..., None]] = {}
        self.handed: Callable[[str], object] = lambda key: self.waiting[key]()
        dask_executor = executor.DaskExecutor(self, {"iris": "the data"}, **options)  # type: ignore[dict-item]
        assert [dask_executor.workers for _ in range(100)] == [workers] * 100
        assert self.nthreads.call_count <= 2, "the number of workers is asked once a second"
        return dask_executor.results(lambda: waiting_tasks.pop(0) if waiting_tasks else None)

    def map(self, function: Any, tasks: Any, sources: Any, keys: Any, limits: Any, **_: Any) -> list[Mock]:
        self.limits += limits
        self.handed_in(len(keys))
        return [Mock() for _ in keys]

    def add_callback(self, fetch: Any, key: str, future: Any) -> None:
        """Take a task that was handed in and can end from now on."""

        def end(outcome: object = None, status: str = "finished") -> None:
            del self.waiting[key]
            asyncio.run(fetch(key, Ended(outcome=outcome, status=status)))

        self.waiting[key] = end
        self.handed(key)


def test_for_many_workers_batches_are_handed_in_and_taken_together(monkeypatch: pytest.MonkeyPatch) -> None:
    client, work = FakeClient(), batches(140)
    ends = iter([3, 1])

    def end(key: str) -> None:
        if len(client.waiting) in (0, 128) or not key:
            for finish in list(client.waiting.values())[: next(ends, 500)]:
                finish()

    results, groups = client.start(64, work), []
    client.handed = end
    for group in results:
        groups.append(group)
        if client.waiting:
            end("")
    assert [len(group) for group in groups] == [3, 1, executor.MOST_TOGETHER, 28, 8]
    assert [batch for group in groups for batch, _ in group] == work
    assert [handed.args for handed in client.handed_in.call_args_list] == [(128,), (4,), (8,)], "two for each"
    assert client.submit.call_count == 1, "data are sent once"
    leave, ready = (handed.args[0] for handed in client.register_plugin.call_args_list)
    assert leave.name == "leave-in-time"
    assert ready.name == "ready"
    worker = Mock(address="tls://w", nanny="tls://n")
    monkeypatch.setattr(executor, "load_kernels", worker.load)
    asyncio.run(ready.setup(worker))
    event = {"is": "worker", "worker": "tls://w", "nanny": "tls://n"}
    assert worker.method_calls == [call.log_event(executor.TOPIC, event), call.load()]


def test_an_error_of_a_task_is_its_outcome_and_a_lost_scheduler_ends_the_run() -> None:
    client, work, error = FakeClient(), batches(2), ValueError("no")
    # The first task fails, the second is cancelled because the scheduler is lost.
    outcomes = iter([(error, "error"), (asyncio.CancelledError("gone"), "cancelled")])
    results = client.start(1, work)
    client.handed = lambda key: client.waiting[key](*next(outcomes))
    assert next(results) == [(work[0], error)]
    with pytest.raises(ComputeClusterError, match="scheduler lost: gone"):
        next(results)


@pytest.mark.parametrize("late", ["too late", asyncio.CancelledError("given up")])
def test_a_batch_over_its_limit_is_given_up_and_its_late_result_is_dropped(late: object) -> None:
    client, work = FakeClient(), batches(2)
    results = client.start(1, work, time_limit=7.0)
    topics = dict(topic.args[:2] for topic in client.subscribe_topic.call_args_list)

    def report_states(_: str) -> None:
        if len(client.waiting) == 2:
            (first, end_first), (_, end_second) = client.waiting.items()
            event = {"key": first, "worker": "w0", "nanny": "n0", "node": "here", "job": ""}
            for state in ("started", "overran"):
                topics[executor.TOPIC]((0.0, event | {"is": state}))
            end_first(late)
            end_second("in time")

    client.handed = report_states
    ((given_up, error), (finished, outcome)) = chain.from_iterable(results)
    assert given_up == work[0]
    assert finished == work[1]
    assert outcome == "in time"
    assert client.limits == [7.0, 7.0]
    assert isinstance(error, executor.TimeLimitExceeded)


def test_only_an_endless_batch_reaches_its_limit() -> None:
    (batch,) = batches(1)
    limit = executor.LEAST_LIMIT + executor.LIMIT_FACTOR
    assert executor.generous_limit(batch) == limit > 1000
    method = MethodCall("mine", "mine.py:f", "", {}, time_limit=40_000.0)
    called = Span(replace(batch.spans[0].unit, model="mine"), 0, 3)
    science = replace(batch.science, methods=(method,))
    alone = executor.generous_limit(replace(batch, science=science, spans=(called,)))
    assert 3 * 40_000 < alone < 3 * 40_000 + executor.LEAST_LIMIT
    mixed = replace(batch, science=science, spans=(called, *batch.spans))
    assert executor.generous_limit(mixed) == alone + limit
