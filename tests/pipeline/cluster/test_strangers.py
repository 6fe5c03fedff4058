"""A run on this machine, and others who have an account there: none of them runs code as its owner."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from checkout import ROOT
from distributed import LocalCluster
from processes import sabotage, stranger
from processes.killing import kill_family
from processes.listening import listening
from processes.sweeping import TINY, start, wait_until, write_spec

from pipeline.cluster.connect import connect, load_profile
from storage.runfolder.folder import GenerationFolder, RunFolder
from storage.runfolder.lease import Lease

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
    state = GenerationFolder(RunFolder(folder / "tiny.zarr"), 1).state
    environment = sabotage.environment([("", "paced")])
    process = start(write_spec(folder, LONG), folder, *arguments, environment=environment)
    try:
        wait_until(state.exists, process)
        yield process
    finally:
        kill_family(process.pid)
        process.communicate()


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[subprocess.Popen[str]]:
    with submitted(tmp_path_factory.mktemp("local"), "--workers", str(WORKERS)) as process:
        yield process


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed here")
def test_the_guide_starts_a_scheduler_of_ones_own_that_refuses_others(tmp_path: Path) -> None:
    guide = (ROOT / "docs" / "guides" / "cluster.md").read_text(encoding="utf-8")
    (commands,) = re.findall(r"^<!-- a scheduler of your own -->\n```sh\n(.*?)^```$", guide, re.M | re.S)
    (files,) = re.findall(r"`tls: ({.*?})`", guide)
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port = probe.getsockname()[1]
    *first, scheduler, worker = commands.replace("8786", str(port)).splitlines()
    own = [line.replace("dask", f"{sys.executable} -m dask", 1) for line in (scheduler, worker)]
    script = "\n".join((*first, *(f"{line} --no-dashboard &" for line in own), "wait"))
    (tmp_path / "cluster.yaml").write_text(
        f"own: {{kind: address, address: 'tls://{LOOPBACK}:{port}', tls: {files}}}"
    )
    with (tmp_path / "said").open("wb") as said:
        process = subprocess.Popen(["sh", "-ec", script], cwd=tmp_path, stdout=said, stderr=said)
    try:
        wait_until(lambda: port in {number for _, number in listening(process.pid)}, process)
        assert (tmp_path / "key.pem").stat().st_mode & 0o777 == 0o600
        profile = load_profile("own", tmp_path / "cluster.yaml")
        with Lease.acquire(tmp_path / "a.zarr") as lease, connect(profile, lease=lease) as client:
            assert client.submit(pow, 2, 10).result() == 1024
            assert stranger.attack(number for _, number in listening(process.pid)) == []
    finally:
        kill_family(process.pid)
        process.wait()
