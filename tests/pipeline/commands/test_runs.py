"""Commands for runs in progress, waiting or ended."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from processes.commandline import sweep
from processes.sweeping import write_spec


@pytest.mark.parametrize("by", ["tiny.toml", "tiny.zarr"])
def test_the_status_of_a_finished_cube(finished: Path, by: str) -> None:
    state = json.loads(sweep("status", finished / by, "--results", finished, "--json").stdout)
    assert state["complete"] is True
    assert state["total"] == {"cells": 85, "done": 85, "failed": 0, "no_solution": 0, "left": 0}
    assert [row["name"] for row in state["datasets"]] == ["mixtures_k2", "mixtures_k3", "iris"]
    assert state["holder"] is None
    assert state["eta_seconds"] is None
    lines = sweep("status", finished / by, "--results", finished).stdout
    assert lines.rstrip().endswith("complete")


@pytest.mark.parametrize("command", ["status", "report"])
def test_reading_what_is_no_cube(tmp_path: Path, command: str) -> None:
    write_spec(tmp_path)
    for what, words in [("none.zarr", "no such directory"), ("tiny.toml", "sweep submit"), (".", "a cube")]:
        result = sweep(command, tmp_path / what, "--results", tmp_path)
        assert result.exit_code == 2
        assert words in result.stderr
        assert "Traceback" not in result.output


def test_the_command_as_a_process(finished: Path) -> None:
    """No warning, nothing on stdout that is not asked for."""
    command = [
        sys.executable,
        "-W",
        "error",
        "-m",
        "pipeline",
        "status",
        str(finished / "tiny.zarr"),
        "--json",
    ]
    result = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ})
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    assert json.loads(result.stdout)["complete"] is True


def test_a_cell_that_is_done_and_a_cube_without_failures(finished: Path) -> None:
    name = "iris/p=0.8/m=75/replicate=1/posterior"
    shown = sweep("why", finished / "tiny.zarr", name)
    assert shown.exit_code == 0
    assert f"{name}: done, 5 restarts in" in shown.stdout
    found = json.loads(sweep("why", finished / "tiny.toml", name, "--results", finished, "--json").stdout)
    assert (found["state"], found["restarts"], found["failures"], found["log"]) == ("done", 5, [], "")
    assert sweep("why", finished / "tiny.zarr").stdout == "no cell is marked failed\n"
    assert json.loads(sweep("why", finished / "tiny.zarr", "--json").stdout) == {}


def test_the_log_of_a_finished_run(finished: Path) -> None:
    shown = sweep("logs", finished / "tiny.zarr", "--lines", 2)
    assert shown.exit_code == 0
    first, last = shown.stderr.splitlines()
    assert first == f"==> {finished / 'tiny.run' / 'log'} <=="
    assert last == f"next: sweep status {finished / 'tiny.zarr'}"
    assert len(shown.stdout.splitlines()) == 2
    assert "results: " in shown.stdout
    assert sweep("logs", finished / "tiny.zarr", "--head", "--job", 1).exit_code == 2


def test_what_is_not_running_cannot_be_cancelled(tmp_path: Path, finished: Path) -> None:
    shown = sweep("cancel", finished / "tiny.zarr")
    assert (shown.exit_code, shown.stdout) == (
        0,
        f"{finished / 'tiny.zarr'} is not running: nothing to cancel\n",
    )
    assert sweep("cancel", tmp_path / "none.zarr").exit_code == 2
