"""The submit command up to the start of a run: what is checked, shown, and said."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import psutil
import pytest
from processes.commandline import sweep
from processes.sweeping import TINY, wait_until, write_spec
from rich.console import Console

from pipeline.jobs.slurm import head_name
from pipeline.monitor.status import read_run_state
from pipeline.run.request import Options, Request
from pipeline.submit import submission
from pipeline.submit.submission import submit
from storage.runfolder.folder import RunFolder
from sweeps.errors import InputError

LONG = TINY.replace("restarts = 5", "restarts = 4000")
SMALL = TINY.replace("restarts = 5", "restarts = 1").replace("replicates = 2", "replicates = 1")
PROFILES = """
remote: {kind: pbs, cores: 1, memory: 1GB}
broken: {kind: slurm, cores: 1, memory: 1GB, head: {core: 1, memory: much, walltime: 3600, queue: a b}}
queue: {kind: slurm, cores: 2, memory: 2GB, interface: lo, workers: 3, head: {queue: long}}
unknown: {kind: slurm, cores: 1, memory: 1GB, interface: eth99}
"""


def test_a_detached_run_goes_on_when_the_command_has_ended(tmp_path: Path) -> None:
    text = SMALL.replace('"unsupervised", "likelihood", ', "").replace("[0.8, 1.0]", "[0.8]")
    started = sweep("submit", write_spec(tmp_path, text), "--detach", "--workers", 0, "--results", tmp_path)
    assert started.exit_code == 0, started.output
    assert re.search(
        r"the head is process \d+ of this machine; its output is in \S+head\.log", started.stderr
    )
    cube = tmp_path / "tiny.zarr"
    assert f"sweep status {cube}" in started.stderr
    wait_until(lambda: read_run_state(cube).over)
    assert "complete" in sweep("status", cube).stdout
    assert "restarts to run" in sweep("logs", cube, "--head").stdout


@pytest.mark.slow
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
    followed = sweep("logs", spec, "--follow", "--lines", 50).stdout
    assert re.search(
        r"restarts to run[\s\S]*(stopped by SIGTERM|cancelled); what was finished is kept", followed
    )
    assert sweep("logs", cube, "--lines", 1).stdout.count("\n") == 1
    assert "restarts to run" in sweep("logs", cube, "--head").stdout
    assert sweep("logs", cube, "--job", 7).exit_code == 2
    again = sweep("cancel", cube)
    assert (again.exit_code, again.stdout) == (0, f"{cube} is not running: nothing to cancel\n")


def test_a_head_that_ends_at_once_or_starts_slowly_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("PYTHONHOME", str(tmp_path))  # no python starts with that
        done = sweep("submit", write_spec(tmp_path), "--detach", "--workers", 0, "--results", tmp_path)
    assert done.exit_code == 1
    assert "the head ended with exit code" in done.stderr
    assert "encodings" in (tmp_path / "tiny.run" / "head.log").read_text()

    def early_exit(script: str) -> tuple[int, int]:
        pid = os.posix_spawn("/bin/sh", ["sh", "-c", script], os.environ)
        return submission._early_exit(tmp_path / "other.zarr", pid), pid

    caplog.set_level("INFO")
    monkeypatch.setattr(submission, "SLOW_SECONDS", 0.1)
    code, pid = early_exit("sleep 0.4; exit 7")
    assert code == 7
    assert f"waiting for the head, process {pid}, to start" in caplog.text
    monkeypatch.setattr(submission, "START_SECONDS", 0.2)
    code, pid = early_exit("sleep 0.8")
    assert code == 0
    assert f"process {pid} is there, but has not taken the lease" in caplog.text
    os.waitpid(pid, 0)


def test_a_head_in_the_queue_keeps_its_lease(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that gives no sign of life: it may stand still, and go on."""
    head = head_name(RunFolder(tmp_path / "tiny.zarr"))
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    for name, says in (("squeue", f"echo '7|{head}|RUNNING|n1|None'"), ("sbatch", "exit 1")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{says}\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "cluster.yaml").write_text(PROFILES)
    places = ("--results", tmp_path, "--cluster", tmp_path / "cluster.yaml")
    done = sweep("submit", write_spec(tmp_path), "--detach", *places, "--profile", "queue")
    assert done.exit_code == 1
    assert "its head is job 7 already: running (n1)" in done.stderr
    assert not (tmp_path / "tiny.run").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ("remote", "--detach"),
            ["kind pbs", "expected a profile of kind slurm, local or address", "under tmux"],
        ),
        (
            ("broken", "--detach"),
            ["unknown key 'core'", "did you mean 'cores'?", "found 'much'", "in quotes", "without blanks"],
        ),
        (("unknown", "--detach"), ["eth99"]),
        (("lcoal",), ["no profile 'lcoal'", "2 problems, nothing was started", "seed: found -1"]),
    ],
)
def test_what_is_bad_input(arguments: tuple[str, ...], words: list[str], tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text(PROFILES)
    spec = write_spec(tmp_path, TINY.replace("seed = 99", "seed = -1") if "lcoal" in arguments else TINY)
    places = ("--results", tmp_path / "r", "--cluster", tmp_path / "cluster.yaml")
    done = sweep("submit", spec, *places, "--profile", *arguments)
    assert done.exit_code == 2, done.output
    assert [word for word in words if word not in done.stderr] == []
    assert not (tmp_path / "r").exists()


def test_skipped_data_sets_are_said_loudly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SWEEP_DATA_DIR", raising=False)
    monkeypatch.setenv("SWEEP_USER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    with_ecoli = SMALL.replace('"iris"]', '"ecoli"]')
    refused = sweep("submit", write_spec(tmp_path, with_ecoli), "--results", tmp_path, "--workers", 0)
    assert refused.exit_code == 2
    assert "'ecoli', which is not available" in refused.stderr
    assert 'unavailable = "skip"' in refused.stderr
    assert not list(tmp_path.glob("tiny.[rz]*"))
    spec = write_spec(tmp_path, with_ecoli + '[data]\nunavailable = "skip"\n')
    arguments = ("submit", spec, "--results", tmp_path, "--workers", 0)
    result = sweep(*arguments)
    assert result.exit_code == 0
    line = "2 of 3 data sets at hand, 9 cells left out: sweep datasets fetch"
    assert result.stderr.count(line) == 1
    assert "36 of 45 cells done, 9 left out, of data sets that are not at hand" in result.stderr
    status = sweep("status", tmp_path / "tiny.zarr").stdout
    assert line in status
    assert "complete, but for data sets that are not at hand" in status
    assert sweep(*arguments, "--strict").exit_code == 3


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[Request]:
    """Requests that would have been run, or handed over."""
    found: list[Request] = []
    monkeypatch.setattr(submission, "run_head", lambda request, console: found.append(request) or 0)
    monkeypatch.setattr(submission, "detach", lambda request: found.append(request) or 0)
    return found


def test_a_serial_run_needs_no_profile_and_cells_are_asked_for_by_name(
    tmp_path: Path, requests: list[Request]
) -> None:
    spec, console = write_spec(tmp_path), Console(stderr=True)
    for more in ({}, {"detach": True}):
        assert submit(spec, Options(tmp_path, profile="nowhere", workers=0, **more), console) == 0
        assert requests.pop().profile is None
    with pytest.raises(InputError, match="no profile 'nowhere'"):
        submit(spec, Options(tmp_path, profile="nowhere", workers=1), console)
    names = ("iris/unsupervised", "mixtures_k2/mixture=1/p=0.8/m=15/replicate=0/posterior")
    submit(spec, Options(tmp_path, workers=0, only=names, retry_failed=True), console)
    (request,) = requests
    assert {str(cell) for cell in request.wanted.only} == set(names)
    assert request.wanted.retry_failed


def test_a_dry_run_starts_nothing_and_shows_the_scripts_of_the_jobs(
    tmp_path: Path, requests: list[Request]
) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(PROFILES)
    arguments = ("submit", write_spec(tmp_path), "--results", tmp_path / "r", "--dry-run")
    assert "mixtures_k3" in sweep(*arguments).output
    shown = sweep(*arguments, "--profile", "queue", "--cluster", file, "--detach")
    assert shown.exit_code == 0, shown.output
    assert "batches for 6 workers" in shown.stderr
    assert "3 worker jobs of this script would be kept running:" in shown.stderr
    head = shown.stderr[shown.stderr.index("the head would be a job of this script:") :]
    assert "#SBATCH -p long\n" in head
    assert "#SBATCH --signal=B:USR1@180\n" in head
    assert f"--cluster {file.resolve()}" in head
    assert requests == []
    assert not (tmp_path / "r").exists()
