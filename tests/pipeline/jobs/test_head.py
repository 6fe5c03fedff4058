"""The head in a job of its own on a real SLURM: it outlasts its walltime, and leaves nothing when ended."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from processes import slurm_site, sweeping
from processes.commandline import sweep

from pipeline.jobs.head import HeadJob
from pipeline.jobs.slurm import head_name
from pipeline.monitor.status import read_run_state
from storage.runfolder.folder import RunFolder

PROFILES = """
slurm: {kind: slurm, cores: 1, memory: 1GB, walltime: "00:10:00", interface: lo, workers: 2}
waits: {kind: slurm, cores: 1, memory: 1GB, interface: lo, head: {queue: closed}}
brief: {kind: slurm, cores: 1, memory: 1GB, interface: lo, head: {walltime: "00:01:00"}}
"""
LONG = sweeping.TINY.replace("restarts = 5", "restarts = 300")


@pytest.fixture(scope="module")
def site() -> Iterator[Path]:
    with slurm_site.slurm_site() as home:
        yield home


def detach(folder: Path, text: str, profile: str) -> Result:
    """Submit the sweep of a folder."""
    (folder / "cluster.yaml").write_text(PROFILES)
    spec = sweeping.write_spec(folder, text)
    where = ("--results", folder, "--cluster", folder / "cluster.yaml", "--profile", profile)
    return sweep("submit", spec, "--detach", *where)


def slurm(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def head_number(run: RunFolder) -> str:
    return slurm("squeue", "--noheader", f"--name={head_name(run)}", "--format=%i").strip()


def status(cube: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(sweep("status", cube, "--json").stdout)
    return found


def restarts_done(cube: Path) -> bool:
    return bool((status(cube)["run"] or {}).get("restarts"))


@pytest.mark.slow
@pytest.mark.usefixtures("site")
def test_a_head_is_ended_submitted_again_and_goes_on_after_its_walltime(tmp_path: Path) -> None:
    cube = tmp_path / "tiny.zarr"
    run = RunFolder(cube)
    first = detach(tmp_path, LONG, "slurm")
    assert first.exit_code == 0, first.output
    number = head_number(run)
    assert f"the head is job {number} ({head_name(run)})" in first.stderr
    assert run.script.stat().st_mode & 0o777 <= 0o644
    sweeping.wait_until(lambda: restarts_done(cube))
    second = detach(tmp_path, LONG, "slurm")
    assert second.exit_code == 1
    assert f"its head is job {number} already: running (n1)" in second.stderr
    found = status(cube)
    head = {"state": "running", "job": number, "node": "n1", "restarts": 0, "how": ""}
    assert found["head"].items() >= head.items()
    assert found["jobs"]["wanted"] == 2
    assert "distributed" in sweep("logs", cube, "--job", found["jobs"]["jobs"][0]["job"]).stdout
    ended = sweep("cancel", cube)
    assert (ended.exit_code, f"ended the head, job {number}" in ended.stdout) == (0, True)
    assert slurm_site.queue() == []
    assert re.search("stopped by SIGTERM|cancelled", run.log.read_text())
    assert not run.last_run.tls.exists()

    assert detach(tmp_path, LONG, "slurm").exit_code == 0
    sweeping.wait_until(lambda: restarts_done(cube))
    number = head_number(run)
    slurm("scancel", "--signal=USR1", "--batch", number)
    sweeping.wait_until(lambda: read_run_state(cube).waiting == number)
    sweeping.wait_until(lambda: slurm_site.queue() == [head_name(run)])
    assert "queued again 1 times" in sweep("status", cube).stdout
    third = detach(tmp_path, LONG, "slurm")
    assert (third.exit_code, f"its head is job {number} already: pending" in third.stderr) == (1, True)
    time.sleep(2)  # SLURM refuses a node that has just been told to end the job, and drops it then
    slurm("scontrol", "update", f"JobId={number}", "StartTime=now")
    followed = sweep("logs", cube, "--follow").stdout
    assert re.search(r"stopped by SIGUSR1[\s\S]*the head resumes[\s\S]*100\.0 %[\s\S]*results: ", followed)
    sweeping.wait_until(lambda: slurm_site.queue() == [])
    found = status(cube)
    assert (found["complete"], found["head"]["restarts"]) == (True, 1)
    assert sweep("verify", cube, "--sample", 3).exit_code == 0
    again = detach(tmp_path, LONG, "slurm")
    assert (again.exit_code, "nothing to run" in again.stderr) == (0, True)


@pytest.mark.slow
@pytest.mark.usefixtures("site")
def test_a_head_that_waits_is_known_and_cancelled(tmp_path: Path) -> None:
    cube = tmp_path / "tiny.zarr"
    assert detach(tmp_path, sweeping.TINY, "waits").exit_code == 0
    number = head_number(RunFolder(cube))
    assert f"its head waits in the queue, job {number}" in sweep("status", cube).stdout
    again = detach(tmp_path, sweeping.TINY, "waits")
    assert (again.exit_code, "its head is job" in again.stderr) == (1, True)
    choices = {"profile": "waits", "cluster_file": tmp_path / "cluster.yaml", "workers": None}
    assert (
        sweeping.run(tmp_path / "tiny.toml", tmp_path, **choices) == 1
    )  # two heads would fight for the lease
    ended = sweep("cancel", cube)
    assert (ended.exit_code, f"ended the head, job {number}" in ended.stdout) == (0, True)
    assert slurm_site.queue() == []
    assert "not running: submit again to resume" in sweep("status", cube).stdout


@pytest.mark.heavy
@pytest.mark.timeout(1500)
@pytest.mark.usefixtures("site")
def test_a_real_walltime_and_a_killed_head(tmp_path: Path) -> None:
    """A minute's walltime ends the head again and again; in between it is killed without a word."""
    cube = tmp_path / "tiny.zarr"
    run = RunFolder(cube)
    longer = sweeping.TINY.replace("restarts = 5", "restarts = 900")
    assert detach(tmp_path, longer, "brief").exit_code == 0
    sweeping.wait_until(lambda: restarts_done(cube))
    holder = read_run_state(cube).holder
    assert holder is not None
    subprocess.run(["kill", "-9", str(holder.process.pid)], check=True)
    sweeping.wait_until(lambda: head_name(run) not in slurm_site.queue())
    assert "died" in sweep("status", cube).stdout
    assert detach(tmp_path, longer, "brief").exit_code == 0
    sweeping.wait_until(lambda: status(cube)["complete"], seconds=900)
    sweeping.wait_until(lambda: slurm_site.queue() == [])
    log = run.log.read_text()
    assert log.count("the head resumes when its job starts again") >= 1
    assert sweeping.run(tmp_path / "tiny.toml", tmp_path / "serial") == 0
    sweeping.assert_same_bits(tmp_path / "serial" / "tiny.zarr", cube)


def test_only_the_job_of_a_head_is_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    run = RunFolder(tmp_path / "a.zarr")
    assert HeadJob.current(run) is None
    monkeypatch.setenv("SLURM_JOB_ID", "5")
    monkeypatch.setenv("SLURM_JOB_NAME", "something-else")
    assert HeadJob.current(run) is None
    monkeypatch.setenv("SLURM_JOB_NAME", head_name(run))
    monkeypatch.setenv("SLURM_RESTART_COUNT", "2")
    assert HeadJob.current(run) == HeadJob("5", 2)
