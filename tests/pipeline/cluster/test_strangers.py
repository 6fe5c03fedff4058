"""No other user with an account on this machine runs code as the owner of a run."""

import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from checkout import ROOT
from distributed import LocalCluster
from processes import sabotage, stranger
from processes.killing import kill_family
from processes.sweeping import TINY, run, start, wait_until, write_spec

from sweep_clustering.pipeline.cluster.connect import connect
from sweep_clustering.pipeline.cluster.profiles import load_profile
from sweep_clustering.pipeline.work import tasks
from sweep_clustering.storage.runfolder.folder import GenerationFolder, RunFolder
from sweep_clustering.storage.runfolder.lease import Lease

LOOPBACK = "127.0.0.1"
WORKERS = 2


def ran_by_others(ports: list[int]) -> list[dict[str, Any]]:
    """Return the code that ran for this user without the credentials, and for another user."""
    reports = stranger.attack_by_others(ports)
    assert set(reports) == {os.getuid(), *([stranger.NOBODY] if os.geteuid() == 0 else ())}
    assert all(set(report["seen"]) == set(ports) for report in reports.values())
    return [ran for report in reports.values() for ran in report["ran"]]


@pytest.mark.slow
def test_the_attack_works_where_nothing_refuses_it() -> None:
    """Otherwise the next test would pass whatever it attacks."""
    where = {"host": LOOPBACK, "protocol": "tcp", "dashboard_address": f"{LOOPBACK}:0"}
    with LocalCluster(n_workers=1, processes=True, **where):
        ports = stranger.listening(os.getpid())
        runs = ran_by_others([port for _, port in ports])
        (worker,) = {pid for pid in ports.values() if pid != os.getpid()}
    ran = {(code_run["where"].split(" ")[0], *code_run["ran"]) for code_run in runs}
    places = {"scheduler": os.getpid(), "nanny": os.getpid(), "worker": worker}
    named_places = [(form(name), pid) for name, pid in places.items() for form in (str, str.title)]
    assert ran == {(name, pid, os.getuid()) for name, pid in named_places}


@pytest.mark.slow
def test_nobody_else_runs_code_in_a_local_run(tmp_path: Path) -> None:
    """A long `sweep submit` runs in another process and has begun its work."""
    state = GenerationFolder(RunFolder(tmp_path / "tiny.zarr"), 1).state
    environment = sabotage.environment([("", "paced")])
    spec = write_spec(tmp_path, TINY.replace("restarts = 5", "restarts = 2000"))
    process = start(spec, tmp_path, "--workers", str(WORKERS), environment=environment)
    try:
        wait_until(state.exists, process)
        ports = stranger.listening(process.pid)
        assert {host for host, _ in ports} == {LOOPBACK}
        # Scheduler, dashboard and nannies in the head; each worker has its port, and one of http.
        assert len(ports) == 2 + WORKERS + 2 * WORKERS
        assert ran_by_others([port for _, port in ports]) == []
        assert process.poll() is None
    finally:
        kill_family(process.pid)
        process.communicate()


def test_a_run_without_workers_has_no_port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, during, solve = stranger.listening(os.getpid()), [], tasks.run_cell

    def solve_and_look(*arguments: Any) -> Any:
        if not during:
            during.append(stranger.listening(os.getpid()))
        return solve(*arguments)

    monkeypatch.setattr(tasks, "run_cell", solve_and_look)
    assert run(write_spec(tmp_path, TINY.replace("restarts = 5", "restarts = 1")), tmp_path) == 0
    assert during == [before]


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
    daemons = [line.replace("dask", f"{sys.executable} -m dask", 1) for line in (scheduler, worker)]
    script = "\n".join((*first, *(f"{line} --no-dashboard &" for line in daemons), "wait"))
    text = f"own: {{kind: address, address: 'tls://{LOOPBACK}:{port}', tls: {files}}}"
    (tmp_path / "cluster.yaml").write_text(text)
    with (tmp_path / "said").open("wb") as log:
        process = subprocess.Popen(["sh", "-ec", script], cwd=tmp_path, stdout=log, stderr=log)
    try:
        wait_until(lambda: port in {number for _, number in stranger.listening(process.pid)}, process)
        assert (tmp_path / "key.pem").stat().st_mode & 0o777 == 0o600
        profile = load_profile("own", tmp_path / "cluster.yaml")
        with Lease.acquire(tmp_path / "a.zarr") as lease, connect(profile, lease=lease) as client:
            assert client.submit(pow, 2, 10).result() == 1024
            assert stranger.attack(number for _, number in stranger.listening(process.pid)) == []
    finally:
        kill_family(process.pid)
        process.wait()
