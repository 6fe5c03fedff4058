"""Runs that outlive the command that started them, on this machine, and what is refused."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner, Result
from processes.sweeping import TINY, write_spec

from pipeline.commands.main import main
from pipeline.jobs import slurm
from pipeline.jobs.head import HeadJob
from pipeline.jobs.slurm import head_name
from pipeline.monitor.cancel import CannotCancel, cancel
from pipeline.monitor.state import read_run_state
from pipeline.prepare.request import OWN, Options
from pipeline.run import head
from pipeline.run.signals import Stopped
from storage.runfolder.folder import make_run_directory
from storage.runfolder.head import HEAD_LOG, REQUEUED, RUNNING, HeadRecord, Submission, read_head
from storage.runfolder.holder import STALE_AFTER, lease_file
from storage.runfolder.lease import Lease, LeaseHeld

LONG = TINY.replace("restarts = 5", "restarts = 4000")
PROFILES = """
remote: {kind: pbs, cores: 1, memory: 1GB}
broken: {kind: slurm, cores: 1, memory: 1GB, head: {core: 1, memory: much, walltime: 3600, queue: a b}}
unknown: {kind: slurm, cores: 1, memory: 1GB, interface: eth99}
"""


def sweep(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


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
    assert "nobody runs it: submit again to go on" in status
    assert "stopped by SIGTERM" in status
    followed = sweep("logs", spec, "--follow", "--lines", 50)
    assert re.search(r"restarts to run[\s\S]*stopped by SIGTERM; what was finished is kept", followed.stdout)
    assert sweep("logs", cube, "--lines", 1).stdout.count("\n") == 1
    assert "restarts to run" in sweep("logs", cube, "--head").stdout
    assert sweep("logs", cube, "--job", 7).exit_code == 2
    again = sweep("cancel", cube)
    assert (again.exit_code, again.stdout) == (0, f"nobody runs {cube}: nothing to end\n")


def test_a_head_that_ends_at_once_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONHOME", str(tmp_path))  # no python starts with that
    done = sweep("submit", write_spec(tmp_path), "--detach", "--workers", 0, "--results", tmp_path)
    assert done.exit_code == 1
    assert "the head ended with exit code" in done.stderr
    assert "encodings" in (tmp_path / "tiny.run" / HEAD_LOG).read_text()


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


def test_a_head_is_told_every_choice(tmp_path: Path) -> None:
    options = Options(
        tmp_path,
        "p",
        Path("c.yaml"),
        3,
        only=("a/b", "c"),
        retry_failed=True,
        strict=True,
        data_dir=Path("d"),
    )
    flags = options.flags()
    assert flags[:6] == ["--profile", "p", "--cluster", str(Path("c.yaml").resolve()), "--workers", "3"]
    assert flags[6:8] == ["--retry-failed", "--strict"]
    assert flags[-4:] == ["--only", "a/b", "--only", "c"]
    known = {option for parameter in main.commands["submit"].params for option in parameter.opts}
    for field in fields(Options):
        if field.name not in OWN:
            value = ("x",) if field.name == "only" else True
            changed = replace(Options(tmp_path), **{field.name: value})
            assert changed.flags()[0] in known, field.name


def test_a_holder_elsewhere_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cube, said = tmp_path / "tiny.zarr", list[str]()
    with Lease.acquire(cube):
        file = lease_file(tmp_path / "tiny.run", 1)
        record = json.loads(file.read_text())
        record["process"] |= {"host": "far", "boot_id": "another"}
        file.write_text(json.dumps(record))
        with pytest.raises(CannotCancel, match=r"on far, since.*another machine, and no job of a queue"):
            cancel(cube, said.append)
        record["process"]["job_id"] = "77"
        file.write_text(json.dumps(record))
        jobs = [slurm.LiveJob("77", "mine", "RUNNING", "n1", "None")]
        monkeypatch.setattr("shutil.which", lambda name: name)
        monkeypatch.setattr(slurm, "live_jobs", lambda prefix: [j for j in jobs if j.name.startswith(prefix)])
        with pytest.raises(CannotCancel, match="scancel 77 ends it"):
            cancel(cube, said.append)
    assert said == []


def test_a_head_in_a_job_waits_for_the_lease_of_one_that_died_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(head, "LEASE_SECONDS", 0.1)
    cube = tmp_path / "tiny.zarr"
    Lease.acquire(cube).release()
    file = lease_file(tmp_path / "tiny.run", 1)
    record = json.loads(file.read_text())
    record |= {"released": False, "process": record["process"] | {"host": "far", "boot_id": "another"}}
    file.write_text(json.dumps(record))
    os.utime(file, (time.time() - STALE_AFTER + 1,) * 2)
    with pytest.raises(LeaseHeld), head._lease(cube, patient=False):
        pass
    started = time.monotonic()
    with head._lease(cube, patient=True) as lease:
        assert lease.number == 2
    assert time.monotonic() - started > 0.1


def test_a_head_that_waits_is_told_from_one_that_died(tmp_path: Path) -> None:
    cube = tmp_path / "tiny.zarr"
    run = make_run_directory(cube)
    assert read_run_state(cube).over
    Submission("slurm", "12", "here", 100.0).write(run)
    assert read_run_state(cube).waiting == "12"
    status = sweep("status", cube)
    assert status.exit_code == 0, status.output
    assert "no cell yet" in status.stdout
    assert "its head waits in the queue, job 12" in status.stdout
    (run / HEAD_LOG).write_text("head.sh: line 12: python: No such file\n")
    assert "head.log ends: head.sh: line 12: python: No such file" in sweep("status", cube).stdout
    record = HeadRecord(spec="s", job="12", node="n1", state=RUNNING, at=101.0)
    record.write(run)
    assert read_run_state(cube).over
    assert "job 12 on n1, died" in sweep("status", cube).stdout
    record.now(REQUEUED, "stopped by SIGUSR1").write(run)
    assert read_run_state(cube).waiting == "12"
    assert "waiting since" in sweep("status", cube).stdout


def test_only_the_job_of_a_head_is_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    assert HeadJob.current(tmp_path) is None
    monkeypatch.setenv("SLURM_JOB_ID", "5")
    monkeypatch.setenv("SLURM_JOB_NAME", "something-else")
    assert HeadJob.current(tmp_path) is None
    monkeypatch.setenv("SLURM_JOB_NAME", head_name(tmp_path))
    monkeypatch.setenv("SLURM_RESTART_COUNT", "2")
    assert HeadJob.current(tmp_path) == HeadJob("5", 2)


@pytest.mark.parametrize("interrupted", ["_executor", "_lease"])
def test_a_head_asks_once_whether_its_time_is_over(
    interrupted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: object, **__: object) -> None:
        raise Stopped(signal.SIGTERM)

    answers, queued = [True], list[str]()
    run = tmp_path / "results" / "tiny.run"
    monkeypatch.setenv("SLURM_JOB_ID", "5")
    monkeypatch.setenv("SLURM_JOB_NAME", head_name(run))
    monkeypatch.setattr(head, interrupted, stopped)
    monkeypatch.setattr(slurm, "is_out_of_time", lambda job: answers.pop())
    monkeypatch.setattr(slurm, "requeue", queued.append)
    ended = sweep("submit", write_spec(tmp_path), "--workers", 0, "--results", tmp_path / "results")
    assert ended.exit_code == 128 + signal.SIGTERM, ended.output
    assert (answers, queued) == ([], ["5"])
    if interrupted == "_executor":
        record = read_head(run)
        assert record is not None
        assert record.state == REQUEUED
