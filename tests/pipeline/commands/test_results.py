"""The commands that check cubes and set them right: what they print, and how they end."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner, Result
from cubes.rot import turn_bit
from processes.commandline import sweep

from pipeline.commands.main import main
from sweeps.errors import InputError, Problem

# The commands that show what cubes hold, and how they end on bad input.


def test_the_report_is_written_beside_the_cube(finished: Path, tmp_path: Path) -> None:
    result = sweep("report", finished / "tiny.toml", "--results", finished, "--out", tmp_path / "r")
    assert result.exit_code == 0, result.output
    assert "iris" in result.stdout
    assert {path.name for path in (tmp_path / "r").iterdir()} == {
        "cells.csv", "figures", "pairs.csv", "ranks.csv", "report.html", "report.txt", "robustness.csv",
        "summary.csv", "times.csv", "winners.csv",
    }  # fmt: skip


def test_the_report_is_beside_the_cube_unless_told_otherwise(
    finished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def refuse(*arguments: object, **options: object) -> None:
        asked.append((arguments, options))
        raise InputError([Problem("--cell", "'x'", "a cell of the cube")])

    monkeypatch.setattr("pipeline.report.write.write_report", refuse)
    result = sweep("report", finished / "tiny.zarr", "--cell", "x")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "1 problem, nothing was started:\n  --cell: found 'x'" in result.stderr
    folder = finished / "tiny.report"
    assert asked == [((finished / "tiny.zarr", folder), {"published": None, "cell": "x"})]
    assert not folder.exists()


def test_scores_to_compare_are_those_of_the_catalogue(finished: Path) -> None:
    cube = finished / "tiny.zarr"
    result = sweep("compare", cube, cube, "--score", "accuracy")
    assert result.exit_code == 2
    for name in ("nmi", "goldberger_kl", "seconds"):
        assert name in result.stderr
        assert name in sweep("compare", "--help").stdout


def test_names_of_scores_are_completed() -> None:
    completion = ShellComplete(main, {}, "sweep", "_SWEEP_COMPLETE")
    found = completion.get_completions(["compare", "a", "b", "--score"], "ce")
    assert [item.value for item in found] == ["centroid_index"]


def test_open_serves_the_page_until_it_is_interrupted(finished: Path) -> None:
    command = [sys.executable, "-m", "pipeline", "open", str(finished / "tiny.zarr"), "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            (address,) = re.findall(r"^page: (http://127\.0\.0\.1:\d+/sweep) \(from elsewhere: ssh -L ", line)
            with urlopen(f"{address}/state.json", timeout=30) as answer:
                assert json.load(answer)["head"]["who"] == "complete"
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=30) == 0
        finally:
            process.kill()


def test_open_takes_a_cube_that_is_there(tmp_path: Path) -> None:
    found = sweep("open", tmp_path / "none.zarr", "--no-browser")
    assert found.exit_code == 2
    assert "none.zarr: found no such directory" in found.stderr


@pytest.fixture
def damaged(finished: Path, tmp_path: Path) -> Path:
    cube = Path(shutil.copytree(finished / "tiny.zarr", tmp_path / "tiny.zarr"))
    turn_bit(cube / "iris/labels/c.0.0.0.0.0")
    return cube


def sweep_of_cubes(*arguments: object) -> Result:
    return CliRunner().invoke(main, list(map(str, arguments)))


def test_files_are_read_and_no_cell_is_computed(
    finished: Path, damaged: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipeline.work.tasks._run", None)
    good = sweep_of_cubes("verify", finished / "tiny.toml", "--results", finished, "--checksums")
    assert good.exit_code == 0
    assert " files are as they were written, " in good.stdout
    bad = sweep_of_cubes("verify", damaged, "--checksums")
    assert bad.exit_code == 1
    assert (
        "\n  iris/labels/c.0.0.0.0.0: has changed since it was written; it holds iris/labels of 4 cells"
        in bad.stdout
    )
    assert sweep_of_cubes("verify", damaged, "--checksums", "--json").stdout.startswith("{")


def test_a_repair_says_what_it_would_do_and_does_it(damaged: Path) -> None:
    would = sweep_of_cubes("repair", damaged, "--dry-run")
    done = sweep_of_cubes("repair", damaged)
    assert (would.exit_code, done.exit_code) == (0, 0)
    assert "4 cells would be set back, in these blocks:\n  iris/p=0.8/m=75/replicates=0:2\n" in would.stdout
    assert "4 cells are set back, in these blocks:\n" in done.stdout
    assert would.stderr.endswith(f"next: sweep repair {damaged}\n")
    assert done.stderr.splitlines()[-1].startswith("next: sweep submit ")
    assert sweep_of_cubes("verify", damaged, "--checksums").exit_code == 0
    assert sweep_of_cubes("status", damaged, "--json").stdout.count('"left": 4') == 2  # of iris, and of all
