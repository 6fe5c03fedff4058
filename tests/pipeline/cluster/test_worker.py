"""Workers whose time is up finish and hand in their batch, and nothing runs twice."""

import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any
from unittest.mock import Mock

import dask
import psutil
import pytest
from distributed import Client, KilledWorker, LocalCluster, Reschedule, get_worker
from distributed.utils import sync
from processes import sweeping
from processes.killing import Site

from sweep_clustering.pipeline.cluster import executor
from sweep_clustering.pipeline.cluster.executor import BATCH, RESERVE, LeaveInTime, end_of_time

QUIET: dict[str, Any] = {"threads_per_worker": 1, "host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}
PATIENCE = 60.0


def test_what_overruns_is_said_and_then_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    for limit, seconds, grace, called in (
        (0.1, 0.01, 0.1, []),
        (0.05, 0.4, 0.1, ["overran", "end"]),
        (0.01, 0.1, 5.0, ["overran"]),  # it ends by itself after all
    ):
        monkeypatch.setattr(executor, "GRACE", grace)
        events: list[str] = []
        calls = (partial(events.append, event) for event in ("overran", "end"))
        with executor.deadline(limit, *calls, tick=0.05):
            time.sleep(seconds)
        time.sleep(0.15)
        assert events == called


STOPPED = """
import time
from sweep_clustering.pipeline.cluster.executor import deadline, end_process
with deadline(0.6, lambda: print("overran", flush=True), end_process, tick=0.1):
    print("runs", flush=True)
    time.sleep(0.2)
    print("ended", flush=True)
"""


def test_a_process_that_stood_still_is_not_charged_for_it() -> None:
    process = subprocess.Popen([sys.executable, "-c", STOPPED], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "runs\n"
    os.kill(process.pid, signal.SIGSTOP)
    time.sleep(0.8)
    os.kill(process.pid, signal.SIGCONT)
    assert process.communicate(timeout=30)[0] == "ended\n"
    assert process.returncode == 0


def say_and_die() -> None:
    worker = get_worker()
    sync(worker.loop, executor._send, worker, {"is": "started"})
    executor.end_process()


def test_what_is_said_right_before_the_end_of_a_process_arrives(tmp_path: Path) -> None:
    events: SimpleQueue[str] = SimpleQueue()
    more = {"distributed.scheduler.allowed-failures": 0, "temporary-directory": str(tmp_path)}
    cluster = partial(LocalCluster, n_workers=1, silence_logs=logging.CRITICAL, **QUIET)
    with dask.config.set(more), cluster() as scheduler, Client(scheduler) as client:
        client.subscribe_topic(executor.TOPIC, lambda event: events.put(event[1]["is"]))
        with pytest.raises(KilledWorker):
            client.submit(say_and_die).result(timeout=60)
    assert events.qsize() == 1


started: list[str] = []
"""Names of the workers that began a task here, in order; their threads belong to this process."""


def task(predicted: float, seconds: float = 0.0) -> str:
    worker = get_worker()
    if not worker.plugins[LeaveInTime.name].takes(predicted):
        raise Reschedule
    started.append(str(worker.name))
    time.sleep(seconds)
    return str(worker.name)


@pytest.fixture
def client() -> Iterator[Client]:
    """Yield the client of a scheduler with two workers, 0 and 1, which are threads of this process."""
    started.clear()
    cluster = LocalCluster(n_workers=2, processes=False, protocol="tcp", **QUIET)
    with cluster, Client(cluster) as client:
        yield client


def submit(client: Client, number: int, predicted: float) -> str:
    """Run a task on the first worker, or on any that is left."""
    choices = {"workers": [0], "allow_other_workers": True, "pure": False}
    return str(client.submit(task, predicted, key=f"{BATCH}-{number}", **choices).result(timeout=PATIENCE))


def wait_for_workers(client: Client, names: set[str]) -> None:
    def names_left() -> set[str]:
        return {str(worker["name"]) for worker in client.scheduler_info(n_workers=-1)["workers"].values()}

    sweeping.wait_until(lambda: names_left() == names, seconds=PATIENCE)


def test_a_batch_that_is_too_long_is_given_back(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    client.register_plugin(LeaveInTime())
    assert [submit(client, number, predicted=1e6) for number in range(3)] == ["0"] * 3, "none has a lifetime"
    client.unregister_worker_plugin(LeaveInTime.name)
    monkeypatch.setattr(executor, "end_of_time", lambda worker: time.time() + 100)
    client.register_plugin(LeaveInTime())
    assert submit(client, 3, predicted=1e6) == "0", "no other has more time for a first batch"
    assert submit(client, 4, predicted=40) == "0"
    assert submit(client, 5, predicted=60) == "1"
    assert started[3:] == ["0", "0", "1"]
    wait_for_workers(client, {"1"})


def test_a_last_batch_is_handed_in_late(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    end = time.time() + 0.8
    monkeypatch.setattr(executor, "end_of_time", lambda worker: end if worker.name == 0 else end + 100)
    client.register_plugin(LeaveInTime())
    last = client.submit(task, 0.1, 1.6, key=f"{BATCH}-last", workers=[0])
    queued = [client.submit(task, 0.1, 0.2, key=f"{BATCH}-{number}") for number in range(6)]
    assert last.result(timeout=PATIENCE) == "0"
    last.release()  # a driver does this too: the worker leaves when nobody needs its results
    assert {future.result(timeout=PATIENCE) for future in queued} == {"1"}
    assert len(started) == 7
    for future in queued:
        future.release()
    wait_for_workers(client, {"1"})
    # the only worker waits until its result was fetched: dask, which moves results to others first, would
    # give up where there is none, and close it all the same
    client.unregister_worker_plugin(LeaveInTime.name)
    monkeypatch.setattr(executor, "end_of_time", lambda worker: time.time() + 0.4)
    client.register_plugin(LeaveInTime())
    only = client.submit(task, 0.1, 0.8, key=f"{BATCH}-only")
    time.sleep(1.6)
    assert only.result(timeout=PATIENCE) == "1"
    assert started[7:] == ["1"]
    only.release()
    wait_for_workers(client, set())


def test_when_the_time_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.delenv("SLURM_JOB_END_TIME", raising=False)
    begin = psutil.Process(os.getpid()).create_time()
    endless, limited = Mock(lifetime=None), Mock(lifetime=500.0)
    assert end_of_time(endless) is None
    assert end_of_time(limited) == begin + 500.0
    for seconds in (400, 600):
        monkeypatch.setenv("SLURM_JOB_END_TIME", f"{int(begin) + seconds}")
        assert end_of_time(limited) == min(begin + 500.0, int(begin) + seconds - RESERVE)
    monkeypatch.delenv("SLURM_JOB_ID")
    monkeypatch.setenv("JOB_ID", "7")
    assert end_of_time(limited) == begin + 500.0
    monkeypatch.setenv("SWEEP_JOB_END", str(int(begin) + 400))
    assert end_of_time(limited) == int(begin) + 400 - RESERVE


@pytest.mark.slow
def test_workers_that_reach_the_end_of_their_time_lose_nothing(tmp_path: Path) -> None:
    """The workers are processes here; the tests above use threads of this process."""
    text = sweeping.TINY.replace("restarts = 5", "restarts = 2").replace("replicates = 2", "replicates = 1")
    text = text.replace('"0.5N", "1N"', '"1N"').replace('"unsupervised", "likelihood", ', "")
    spec = sweeping.write_spec(tmp_path, text)
    assert sweeping.run(spec, tmp_path / "serial") == 0
    options = ("--lifetime", "10s")
    with Site(tmp_path, spec, tmp_path / "serial" / "tiny.zarr", pace=1.0, options=options) as site:
        lives = site.start_missing()
        deadline = time.monotonic() + 600
        while not site.has_driver_ended():
            assert time.monotonic() < deadline, "the run does not end"
            lives += site.start_missing()
            time.sleep(0.1)
        assert site.end_sweep()
    assert lives > 3
    assert site.n_repeated == 0
