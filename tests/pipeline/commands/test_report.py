"""The commands that show what cubes hold, and how they end on bad input."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import webbrowser
from pathlib import Path
from unittest.mock import Mock
from urllib.request import urlopen

import pytest
from click.shell_completion import ShellComplete
from cubes import toy
from cubes.reported import make
from processes.commandline import sweep

from pipeline.commands.main import main
from pipeline.commands.report import show_in_browser
from sweeps.errors import InputError, Problem


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


def test_everything_wrong_with_a_comparison_is_said_at_once(tmp_path: Path) -> None:
    result = sweep("compare", tmp_path / "a.zarr", tmp_path / "b.zarr", "--score", "nmo", "--score", "ars")
    assert result.exit_code == 2
    assert "4 problems, nothing was started" in result.stderr
    assert "--score: found 'nmo', expected one of nmi" in result.stderr
    for name in ("a.zarr: found no such directory", "b.zarr: found no such directory", "found 'ars'"):
        assert name in result.stderr


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


def test_a_browser_of_text_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []

    class Browser:
        def open(self, address: str) -> None:
            opened.append(address)

    monkeypatch.setattr(webbrowser, "get", Browser)
    show_in_browser("http://here")
    assert opened == ["http://here"]
    monkeypatch.setattr(webbrowser, "get", lambda: webbrowser.GenericBrowser("false"))
    show_in_browser("http://here")
    monkeypatch.setattr(webbrowser, "get", Mock(side_effect=webbrowser.Error))
    show_in_browser("http://here")
    assert opened == ["http://here"]


@pytest.mark.usefixtures("page_alone")
def test_a_report_in_json(tmp_path: Path) -> None:
    shown = sweep("report", make(tmp_path, toy.plan("iris")), "--out", tmp_path / "report", "--json")
    assert shown.exit_code == 0, shown.output
    found = json.loads(shown.stdout)
    assert found["page"] == str(tmp_path / "report" / "report.html")
    assert all(Path(file).is_file() for file in found["files"])
    assert found["cells"] == {"done": 23, "failed": 1, "pending": 1}
    rows = [row for row in found["summary"] if row["score"] == "nmi" and row["model"] == "posterior"]
    assert {row["unit"] for row in rows} == {"redraws"}
