"""The submit command up to the start of a run: what is checked, shown, and said."""

from __future__ import annotations

from pathlib import Path

import pytest
from processes.commandline import sweep
from processes.sweeping import TINY, write_spec
from rich.console import Console

from pipeline.run.request import Options, Request
from pipeline.submit import submission
from pipeline.submit.submission import submit
from sweeps.errors import InputError


def test_a_dry_run_starts_nothing(tmp_path: Path) -> None:
    write_spec(tmp_path)
    result = sweep("submit", tmp_path / "tiny.toml", "--results", tmp_path / "r", "--dry-run")
    assert result.exit_code == 0
    assert "mixtures_k3" in result.output
    assert not (tmp_path / "r").exists()


def test_an_unknown_profile(tmp_path: Path) -> None:
    write_spec(tmp_path)
    result = sweep("submit", tmp_path / "tiny.toml", "--results", tmp_path / "r", "--profile", "lcoal")
    assert result.exit_code == 2
    assert "lcoal" in result.stderr
    assert not (tmp_path / "r").exists()


def test_a_wrong_profile_is_said_with_what_is_wrong_in_the_sweep_file(tmp_path: Path) -> None:
    write_spec(tmp_path, TINY.replace("seed = 99", "seed = -1"))
    result = sweep("submit", tmp_path / "tiny.toml", "--results", tmp_path / "r", "--profile", "lcoal")
    assert result.exit_code == 2
    assert "2 problems, nothing was started" in result.stderr
    assert "seed: found -1" in result.stderr
    assert "no profile 'lcoal'" in result.stderr


@pytest.mark.usefixtures("page_alone")
def test_skipped_data_sets_are_said_loudly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SWEEP_DATA_DIR", raising=False)
    monkeypatch.setenv("SWEEP_USER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("SWEEP_DATA_MIRROR", "http://127.0.0.1:9")
    with_ecoli = TINY.replace('"iris"]', '"ecoli"]')
    write_spec(tmp_path, with_ecoli)
    refused = sweep("submit", tmp_path / "tiny.toml", "--results", tmp_path, "--workers", 0)
    assert refused.exit_code == 2
    assert "'ecoli', which is not available" in refused.stderr
    assert 'unavailable = "skip"' in refused.stderr
    assert not list(tmp_path.glob("tiny.[rz]*"))
    spec = write_spec(tmp_path, with_ecoli + '[data]\nunavailable = "skip"\n')
    arguments = ("submit", spec, "--results", tmp_path, "--workers", 0)
    result = sweep(*arguments)
    assert result.exit_code == 0
    line = "2 of 3 data sets at hand, 17 cells left out: sweep datasets fetch"
    assert result.stderr.count(line) == 1
    assert "68 of 85 cells done, 17 left out, of data sets that are not at hand" in result.stderr
    status = sweep("status", tmp_path / "tiny.zarr")
    assert line in status.stdout
    assert "complete, but for data sets that are not at hand" in status.stdout
    assert "ecoli" in sweep("report", tmp_path / "tiny.zarr", "--out", tmp_path / "r").stdout
    assert sweep(*arguments, "--strict").exit_code == 3


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[Request]:
    """Requests that would have been run, or handed over."""
    found: list[Request] = []
    monkeypatch.setattr(submission, "run_head", lambda request, console: found.append(request) or 0)
    monkeypatch.setattr(submission, "detach", lambda request: found.append(request) or 0)
    return found


def test_a_serial_run_needs_no_profile(tmp_path: Path, requests: list[Request]) -> None:
    spec, console = write_spec(tmp_path), Console(stderr=True)
    assert submit(spec, Options(tmp_path, profile="nowhere", workers=0), console) == 0
    assert submit(spec, Options(tmp_path, profile="nowhere", workers=0, detach=True), console) == 0
    assert [request.profile for request in requests] == [None, None]
    with pytest.raises(InputError, match="no profile 'nowhere'"):
        submit(spec, Options(tmp_path, profile="nowhere", workers=1), console)
    assert len(requests) == 2


def test_cells_are_asked_for_by_name(tmp_path: Path, requests: list[Request]) -> None:
    spec, console = write_spec(tmp_path), Console(stderr=True)
    names = ("iris/unsupervised", "mixtures_k2/mixture=1/p=0.8/m=15/replicate=0/posterior")
    submit(spec, Options(tmp_path, workers=0, only=names, retry_failed=True), console)
    (request,) = requests
    assert {str(cell) for cell in request.wanted.only} == set(names)
    assert request.wanted.retry_failed


def test_a_dry_run_shows_the_scripts_of_the_jobs(tmp_path: Path, requests: list[Request]) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text("q: {kind: slurm, cores: 2, memory: 2GB, interface: lo, workers: 3, head: {queue: long}}")
    arguments = ("--profile", "q", "--cluster", file, "--results", tmp_path / "r", "--dry-run", "--detach")
    shown = sweep("submit", write_spec(tmp_path), *arguments)
    assert shown.exit_code == 0, shown.output
    assert "batches for 6 workers" in shown.stderr
    assert "3 worker jobs of this script would be kept running:" in shown.stderr
    head = shown.stderr[shown.stderr.index("the head would be a job of this script:") :]
    assert "#SBATCH -p long\n" in head
    assert f"--cluster {file.resolve()}" in head
    assert requests == []
    assert not (tmp_path / "r").exists()
