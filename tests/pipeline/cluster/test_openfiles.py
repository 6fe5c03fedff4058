"""The limit of open files: raised where it can be, one message where it cannot."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from processes.sweeping import write_spec

from pipeline.cluster.openfiles import ALONE, OF_A_WORKER, allow_open_files
from pipeline.jobs.errors import ComputeClusterError

Limits = list[tuple[int, int]]


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, int], Limits]:
    """Stand-ins for the limits of this process; what is set is kept."""

    def given(soft: int, hard: int) -> Limits:
        kept = [(soft, hard)]
        monkeypatch.setattr(resource, "getrlimit", lambda which: kept[-1])
        monkeypatch.setattr(resource, "setrlimit", lambda which, values: kept.append(values))
        return kept

    return given


@pytest.mark.parametrize(("soft", "hard"), [(1024, 4096), (ALONE + OF_A_WORKER, 4096), (-1, -1)])
def test_a_limit_that_is_enough_stays(limits: Callable[[int, int], Limits], soft: int, hard: int) -> None:
    kept = limits(soft, hard)
    allow_open_files(1)
    assert kept == [(soft, hard)]


@pytest.mark.parametrize("hard", [ALONE + 200 * OF_A_WORKER, -1])
def test_a_limit_is_raised_to_what_is_needed(limits: Callable[[int, int], Limits], hard: int) -> None:
    kept = limits(64, hard)
    allow_open_files(200)
    assert kept[-1] == (ALONE + 200 * OF_A_WORKER, hard)


def test_what_is_missing_is_said(limits: Callable[[int, int], Limits]) -> None:
    kept = limits(64, 1024)
    with pytest.raises(ComputeClusterError) as caught:
        allow_open_files(200)
    assert str(caught.value) == (
        "found a limit of 1024 open files, expected 2448 for 200 worker processes: "
        "raise the limit (ulimit -Hn), or ask for fewer workers"
    )
    assert len(kept) == 1


@pytest.mark.parametrize(("hard", "code"), [(32, 1), (ALONE + 2 * OF_A_WORKER, 0)])
def test_a_run_with_few_open_files(tmp_path: Path, hard: int, code: int) -> None:
    """With 32 it once ended in 2,000 lines of tracebacks; with what is asked for it ends well."""
    command = [sys.executable, "-m", "pipeline", "submit", str(write_spec(tmp_path)), "--workers", "2"]
    done = subprocess.run(
        [*command, "--results", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 20 + hard // 2), hard)),
    )
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    if code:
        assert "found a limit of 32 open files, expected 72 for 2 worker processes" in done.stderr
        assert len(done.stderr.splitlines()) <= 3  # a note on the data, "starting workers", and this
