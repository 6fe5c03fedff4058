"""Runs that outlive the command that started them, on this machine, and what is refused."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from processes.commandline import sweep
from processes.sweeping import TINY, write_spec

from pipeline.jobs.slurm import head_name
from pipeline.monitor.runs import read_run_state
from pipeline.submit import detach
from storage.runfolder.folder import RunFolder

LONG = TINY.replace("restarts = 5", "restarts = 4000")
PROFILES = """
remote: {kind: pbs, cores: 1, memory: 1GB}
broken: {kind: slurm, cores: 1, memory: 1GB, head: {core: 1, memory: much, walltime: 3600, queue: a b}}
queue: {kind: slurm, cores: 1, memory: 1GB}
unknown: {kind: slurm, cores: 1, memory: 1GB, interface: eth99}
"""


def wait_until(condition: Callable[[], object], seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.05)


def test_a_detached_run_is_watched_and_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    spec = write_spec(tmp_path, LONG)
    started = sweep("submit", spec, "--detach", "--workers", 1)
    assert started.exit_code == 0, started.output
    cube = Path("results") / "tiny.zarr"
    holder = read_run_state(cube).holder
    assert holder is not None
    driver = psutil.Process(holder.process.pid)
    try:
        assert f"the head is process {driver.pid} of this machine" in started.stderr
        assert os.getsid(driver.pid) == driver.pid  # no terminal's end reaches it
        assert driver.environ()["PYTHONSAFEPATH"] == "1"
        assert "sweep status results/tiny.zarr" in started.stderr
        second = sweep("submit", spec, "--detach", "--workers", 1)
        assert second.exit_code == 1
        assert f"is being written by process {driver.pid}" in second.stderr
        wait_until(lambda: (json.loads(sweep("status", spec, "--json").stdout)["run"] or {}).get("restarts"))
        shown = json.loads(sweep("status", spec, "--json").stdout)
        assert (shown["head"]["state"], shown["head"]["restarts"]) == ("running", 0)
        assert 0 <= shown["blocks"]["done"] < shown["blocks"]["total"] == 15
        assert "ssh -L" in shown["dashboard"]
        family = [driver, *driver.children(recursive=True)]
        assert len(family) > 2  # nanny and worker
        ended = sweep("cancel", spec)
        assert ended.exit_code == 0, ended.output
        assert f"ended process {driver.pid}" in ended.stdout
        assert not any(p.is_running() and p.status() != psutil.STATUS_ZOMBIE for p in family)
    finally:
        if driver.is_running():
            driver.kill()
    status = sweep("status", spec).stdout
    assert "not running: submit again to resume" in status
    assert re.search("stopped by SIGTERM|cancelled", status)
    followed = sweep("logs", spec, "--follow", "--lines", 50)
    assert re.search(
        r"restarts to run[\s\S]*(stopped by SIGTERM|cancelled); what was finished is kept", followed.stdout
    )
    assert sweep("logs", cube, "--lines", 1).stdout.count("\n") == 1
    assert "restarts to run" in sweep("logs", cube, "--head").stdout
    assert sweep("logs", cube, "--job", 7).exit_code == 2
    again = sweep("cancel", cube)
    assert (again.exit_code, again.stdout) == (0, f"{cube} is not running: nothing to cancel\n")


def test_a_head_that_ends_at_once_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONHOME", str(tmp_path))  # no python starts with that
    done = sweep("submit", write_spec(tmp_path), "--detach", "--workers", 0, "--results", tmp_path)
    assert done.exit_code == 1
    assert "the head ended with exit code" in done.stderr
    assert "encodings" in (tmp_path / "tiny.run" / "head.log").read_text()


def test_a_head_in_the_queue_keeps_its_lease(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that gives no sign of life: it may stand still, and go on."""
    head = head_name(RunFolder(tmp_path / "tiny.zarr"))
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    for name, says in (("squeue", f"echo '7|{head}|RUNNING|n1|None'"), ("sbatch", "exit 1")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{says}\n")
        (tmp_path / name).chmod(0o755)
    file = tmp_path / "cluster.yaml"
    file.write_text(PROFILES)
    arguments = ("--results", tmp_path, "--cluster", file, "--profile", "queue")
    done = sweep("submit", write_spec(tmp_path), "--detach", *arguments)
    assert done.exit_code == 1
    assert "its head is job 7 already: running (n1)" in done.stderr
    assert not (tmp_path / "tiny.run").exists()


@pytest.mark.parametrize(
    ("profile", "words"),
    [
        ("remote", ["kind pbs", "expected a profile of kind slurm, local or address", "under tmux"]),
        (
            "broken",
            ["unknown key 'core'", "did you mean 'cores'?", "found 'much'", "in quotes", "without blanks"],
        ),
        ("unknown", ["eth99"]),
    ],
)
def test_what_cannot_be_detached_is_bad_input(profile: str, words: list[str], tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(PROFILES)
    arguments = ("--results", tmp_path / "r", "--cluster", file, "--profile", profile)
    done = sweep("submit", write_spec(tmp_path), "--detach", *arguments)
    assert done.exit_code == 2, done.output
    for word in words:
        assert word in done.stderr
    assert not (tmp_path / "r").exists()


def test_a_head_that_starts_slowly_is_no_success_before_it_holds_the_lease(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(detach, "SLOW_SECONDS", 0.1)
    caplog.set_level("INFO")
    pid = os.posix_spawn("/bin/sh", ["sh", "-c", "sleep 1; exit 7"], os.environ)
    assert detach._early_exit(tmp_path / "tiny.zarr", pid) == 7
    assert f"waiting for the head, process {pid}, to start" in caplog.text
    monkeypatch.setattr(detach, "START_SECONDS", 0.2)
    pid = os.posix_spawn("/bin/sh", ["sh", "-c", "sleep 3"], os.environ)
    assert detach._early_exit(tmp_path / "tiny.zarr", pid) == 0
    assert f"process {pid} is there, but has not taken the lease" in caplog.text
    os.waitpid(pid, 0)
