"""A run on this machine, and others who have an account there: none of them runs code as its owner."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from distributed import LocalCluster
from processes import sabotage, stranger
from processes.killing import kill_family
from processes.listening import listening
from processes.sweeping import TINY, start, write_spec

from storage.runfolder.folder import RunFolder

LOOPBACK = "127.0.0.1"
WORKERS = 2
NOBODY = 65534
LONG = TINY.replace("restarts = 5", "restarts = 2000")

as_another = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")
users = pytest.mark.parametrize(
    "user",
    [
        pytest.param(os.getuid(), id="the same user without the credentials"),
        pytest.param(NOBODY, id="another user", marks=as_another),
    ],
)


@contextmanager
def submitted(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """`sweep submit` of a sweep that lasts, in a process of its own, when its work has begun."""
    state = RunFolder(folder / "tiny.zarr").state
    environment = sabotage.environment([("", "paced")])
    process = start(write_spec(folder, LONG), folder, *arguments, environment=environment)
    try:
        deadline = time.monotonic() + 180
        while not state.exists():
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.1)
        yield process
    finally:
        kill_family(process.pid)
        process.communicate()


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[subprocess.Popen[str]]:
    with submitted(tmp_path_factory.mktemp("local"), "--workers", str(WORKERS)) as process:
        yield process


@users
def test_the_attack_works_where_nothing_refuses_it(user: int) -> None:
    """Otherwise the next test would pass whatever it attacks."""
    with LocalCluster(
        n_workers=1, processes=True, host=LOOPBACK, protocol="tcp", dashboard_address=f"{LOOPBACK}:0"
    ):
        ports = listening(os.getpid())
        found = stranger.attack_as(user, [port for _, port in ports])
        (worker,) = {pid for pid in ports.values() if pid != os.getpid()}
    assert found["user"] == user
    assert set(found["seen"]) == {port for _, port in ports}
    ran = {(each["where"].split(" ")[0], *each["ran"]) for each in found["ran"]}
    here, there = (os.getpid(), os.getuid()), (worker, os.getuid())
    by_client = {("scheduler", *here), ("nanny", *here), ("worker", *there)}
    assert ran == by_client | {("Scheduler", *here), ("Nanny", *here), ("Worker", *there)}


@users
def test_nobody_else_runs_code_in_a_local_run(local: subprocess.Popen[str], user: int) -> None:
    ports = listening(local.pid)
    assert {host for host, _ in ports} == {LOOPBACK}
    # Scheduler, dashboard and nannies in the head; each worker has its port, and one of http.
    assert len(ports) == 2 + WORKERS + 2 * WORKERS
    found = stranger.attack_as(user, [port for _, port in ports])
    assert set(found["seen"]) == {port for _, port in ports}
    assert found["ran"] == []
    assert local.poll() is None


def test_a_run_without_workers_has_no_port(tmp_path: Path) -> None:
    with submitted(tmp_path, "--workers", "0") as process:
        assert listening(process.pid) == {}
