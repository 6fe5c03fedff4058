"""The time a batch may run."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from queue import SimpleQueue

import dask
import pytest
from distributed import Client, KilledWorker, LocalCluster, get_worker
from distributed.utils import sync

from pipeline.cluster import watchdog
from pipeline.cluster.executor import generous_limit
from pipeline.cluster.watchdog import deadline, end_process
from pipeline.work.records import Batch, Science
from pipeline.work.timing import LONGEST
from sweeps.file.search import Search


def watched(limit: float, seconds: float, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(watchdog, "GRACE", 0.1)
    called: list[str] = []
    with deadline(limit, lambda: called.append("overran"), lambda: called.append("end"), tick=0.05):
        time.sleep(seconds)
    return called


def say_and_die() -> None:
    worker = get_worker()
    sync(worker.loop, watchdog._send, worker, {"is": "started"})
    end_process()


def test_what_is_said_right_before_the_end_of_a_process_arrives(tmp_path: Path) -> None:
    said: SimpleQueue[str] = SimpleQueue()
    quiet = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0", "silence_logs": logging.CRITICAL}
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 2, "temporary-directory": str(tmp_path)}),
        LocalCluster(n_workers=1, threads_per_worker=1, **quiet) as cluster,
        Client(cluster) as client,
    ):
        client.subscribe_topic(watchdog.TOPIC, lambda event: said.put(event[1]["is"]))
        with pytest.raises(KilledWorker):
            client.submit(say_and_die).result(timeout=60)
    assert said.qsize() == 3


def test_what_ends_in_time_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    called = watched(0.3, 0.01, monkeypatch)
    time.sleep(0.5)
    assert called == []


def test_what_overruns_is_said_and_then_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    assert watched(0.05, 0.5, monkeypatch) == ["overran", "end"]


def test_what_ends_after_all_is_not_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "GRACE", 5.0)
    called: list[str] = []
    with deadline(0.01, lambda: called.append("overran"), lambda: called.append("end")):
        time.sleep(0.1)
    time.sleep(0.1)
    assert called == ["overran"]


STOPPED = """
import time
from pipeline.cluster.watchdog import deadline, end_process, end_process
with deadline(1.0, lambda: print("overran", flush=True), end_process, tick=0.1):
    print("runs", flush=True)
    time.sleep(0.3)
    print("ended", flush=True)
"""


def test_a_process_that_stood_still_is_not_charged_for_it() -> None:
    process = subprocess.Popen([sys.executable, "-c", STOPPED], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "runs\n"
    os.kill(process.pid, signal.SIGSTOP)
    time.sleep(1.5)
    os.kill(process.pid, signal.SIGCONT)
    assert process.communicate(timeout=30)[0] == "ended\n"
    assert process.returncode == 0


def test_by_default_nothing_slow_meets_the_limit() -> None:
    science = Science(1, (Search(),), 2)
    limits = [generous_limit(Batch(science, "iris", (), seconds)) for seconds in (1.0, LONGEST)]
    assert limits[0] > 1000
    assert limits[1] > 30 * LONGEST
