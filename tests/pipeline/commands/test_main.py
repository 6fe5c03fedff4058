"""The commands as a user types them: what they print, how they end, and that bad input starts nothing."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import zarr
from processes.commandline import sweep
from processes.sweeping import TINY, write_spec

from storage.cube.manifest import ROOT_FILE


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with the tiny sweep and its finished cube."""
    folder = tmp_path_factory.mktemp("done")
    result = sweep("submit", write_spec(folder), "--results", folder, "--workers", 0)
    assert result.exit_code == 0, result.output
    return folder


def snapshot(folder: Path) -> dict[str, bytes | None]:
    """Every path below a folder, with the content of files."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


def refused(folder: Path, *words: str, results: Path | None = None, arguments: tuple[str, ...] = ()) -> str:
    """Submit, and check that it ends with 2, says all of `words`, and touches nothing."""
    spec = folder / "tiny.toml"
    before = snapshot(folder)
    result = sweep("submit", spec, "--results", results or folder / "results", "--workers", 0, *arguments)
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    assert "nothing was started" in result.stderr
    for word in words:
        assert word in result.stderr
    assert snapshot(folder) == before
    return result.stderr


TABLE = 'datasets = [{name = "mine", path = "mine.csv", label_column = -1'


def table_spec(folder: Path, content: str, more: str = "") -> None:
    """A sweep of one table of the user's own."""
    (folder / "mine.csv").write_text(content)
    old = TINY[TINY.index("datasets =") : TINY.index("p = [")]
    write_spec(folder, TINY.replace(old, f"{TABLE}{more}}}]\n"))


GOOD_ROWS = "".join(f"{i},{i * i % 11},{'ab'[i % 2]}\n" for i in range(12))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("replicates", "replicatse", ["unknown key 'replicatse'", "did you mean 'replicates'?"]),
        ("restarts = 5", 'restarts = "5"', ["tiny.toml [grid] restarts", "found '5'", "a whole number"]),
        ("[0.8, 1.0]", "[0.8, 1.2]", ["p[1]", "found 1.2", "(0, 1]"]),
        ("[0.8, 1.0]", "[0.8, 0.8]", ["p[1]", "0.8 again"]),
        ('["0.5N", "1N"]', "[10, 10]", ["m[1]", "10 again"]),
        ('["0.5N", "1N"]', "[-3, 0]", ["found -3", "found 0"]),
        ('["0.5N", "1N"]', '["0.01N"]', ["0.01N of 30 samples = 0"]),
        ('["0.5N", "1N"]', "[]", ["m: found an empty list"]),
        ('name = "tiny"', 'name = "../tiny"', ["found '../tiny'"]),
        ("n_samples = 30", "n_samples = 5", ["5 samples", "3 · 2"]),
        ('"iris"]', '"irsi"]', ["did you mean 'iris'?"]),
        ("seed = 99", "seed = 99\nseed = 98", ["TOML"]),
    ],
)
def test_a_bad_sweep_file(tmp_path: Path, old: str, new: str, words: list[str]) -> None:
    assert old in TINY
    write_spec(tmp_path, TINY.replace(old, new, 1))
    refused(tmp_path, *words)


@pytest.mark.parametrize(
    ("content", "more", "words"),
    [
        (GOOD_ROWS, ", n_clusters = 13", ["13", "12 distinct rows"]),
        (GOOD_ROWS.replace("5,3,", "5,nan,"), "", ["mine.csv", "line 6", "nan"]),
        (GOOD_ROWS.replace("5,3,", "5,inf,"), "", ["mine.csv", "line 6", "inf"]),
        (GOOD_ROWS.replace("5,3,", "5,3,4,"), "", ["mine.csv", "line 6"]),
        ("", "", ["mine.csv"]),
    ],
)
def test_a_bad_table(tmp_path: Path, content: str, more: str, words: list[str]) -> None:
    table_spec(tmp_path, content, more)
    refused(tmp_path, *words)


def test_a_good_table_is_taken(tmp_path: Path) -> None:
    table_spec(tmp_path, GOOD_ROWS)
    result = sweep("submit", tmp_path / "tiny.toml", "--results", tmp_path, "--workers", 0)
    assert result.exit_code == 0, result.output


def test_a_table_that_cannot_be_read(tmp_path: Path) -> None:
    table_spec(tmp_path, GOOD_ROWS)
    (tmp_path / "mine.csv").unlink()
    refused(tmp_path, "mine.csv", "No such file")


def test_a_sweep_file_that_is_not_there(tmp_path: Path) -> None:
    refused(tmp_path, "tiny.toml", "no such file", "sweeps/quick.toml")


def test_a_results_directory_that_holds_something_else(tmp_path: Path) -> None:
    write_spec(tmp_path)
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "tiny.zarr").write_text("mine")
    refused(tmp_path, "tiny.zarr", "a file")
    (tmp_path / "results" / "tiny.zarr").unlink()
    (tmp_path / "results" / "tiny.zarr").mkdir()
    (tmp_path / "results" / "tiny.zarr" / "thesis.tex").write_text("mine")
    refused(tmp_path, "tiny.zarr", "a cube written by a sweep")
    zarr.create_group(tmp_path / "results" / "tiny.zarr")
    refused(tmp_path, "tiny.zarr", "a cube written by a sweep")


def test_results_that_are_a_file(tmp_path: Path) -> None:
    write_spec(tmp_path)
    (tmp_path / "results").write_text("mine")
    refused(tmp_path, "results", "a file")


def _copy_cube(done: Path, folder: Path) -> Path:
    shutil.copytree(done / "tiny.zarr", folder / "results" / "tiny.zarr")
    return folder / "results" / "tiny.zarr"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("seed = 99", "seed = 98", ["seed", "98", "99, as in the cube", "use another name"]),
        ("restarts = 5", "restarts = 6", ["restarts", "6", "5, as in the cube"]),
        ("generations = 1", "generations = 2", ["search.generations"]),
        ("[search]", '[data]\nscale = "standard"\n[search]', ["scale", "standard", "none"]),
        ("[0.8, 1.0]", "[0.8]", ["p", "also 1.0"]),
        ("count = 2", "count = 3", ["a multiple of 2"]),
        ("n_samples = 30", "n_samples = 31", ["checksum"]),
        (', "iris"]', "]", ["iris"]),
    ],
)
def test_a_cube_of_another_sweep(done: Path, tmp_path: Path, old: str, new: str, words: list[str]) -> None:
    _copy_cube(done, tmp_path)
    write_spec(tmp_path, TINY.replace(old, new))
    refused(tmp_path, *words)


def test_a_cube_of_another_format_version(done: Path, tmp_path: Path) -> None:
    root = _copy_cube(done, tmp_path) / ROOT_FILE
    document = json.loads(root.read_text())
    document["attributes"]["format_version"] = 99
    root.write_text(json.dumps(document))
    write_spec(tmp_path)
    refused(tmp_path, "format version 99", "format version 1")


def test_an_unknown_profile(tmp_path: Path) -> None:
    write_spec(tmp_path)
    result = sweep("submit", tmp_path / "tiny.toml", "--results", tmp_path / "r", "--profile", "lcoal")
    assert result.exit_code == 2
    assert "lcoal" in result.stderr
    assert not (tmp_path / "r").exists()


def test_a_dry_run_starts_nothing(tmp_path: Path) -> None:
    write_spec(tmp_path)
    result = sweep("submit", tmp_path / "tiny.toml", "--results", tmp_path / "r", "--dry-run")
    assert result.exit_code == 0
    assert "mixtures_k3" in result.output
    assert not (tmp_path / "r").exists()


def test_the_plan_counts_what_is_written(done: Path, tmp_path: Path) -> None:
    result = sweep("plan", done / "tiny.toml", "--results", tmp_path, "--json")
    plan = json.loads(result.stdout)
    assert plan["total"]["cells"] == 5 * 17
    assert plan["total"]["restarts"] == 5 * 17 * 5
    assert plan["total"]["files"] == sum(1 for path in (done / "tiny.zarr").rglob("*") if path.is_file()) - 1
    assert plan["timed"] is False
    measured = json.loads(
        sweep("plan", done / "tiny.toml", "--results", tmp_path, "--json", "--pilot").stdout
    )
    assert measured["timed"] is True
    assert measured["total"]["core_hours"] > 0
    assert measured["batches"] >= 1
    assert not list(tmp_path.iterdir())


def test_the_plan_for_people(done: Path) -> None:
    result = sweep("plan", done / "tiny.toml", "--results", done)
    assert result.exit_code == 0
    assert "mixtures_k2" in result.stdout
    assert "425" in result.stdout
    assert "measured by a pilot" in result.stdout  # the cube's own run timed its restarts


@pytest.mark.parametrize("by", ["tiny.toml", "tiny.zarr"])
def test_the_status_of_a_finished_cube(done: Path, by: str) -> None:
    state = json.loads(sweep("status", done / by, "--results", done, "--json").stdout)
    assert state["complete"] is True
    assert state["total"] == {"cells": 85, "done": 85, "failed": 0, "left": 0}
    assert [row["name"] for row in state["datasets"]] == ["mixtures_k2", "mixtures_k3", "iris"]
    assert state["holder"] is None
    assert state["eta_seconds"] is None
    lines = sweep("status", done / by, "--results", done).stdout
    assert lines.rstrip().endswith("complete")


@pytest.mark.parametrize("command", ["status", "report"])
def test_reading_what_is_no_cube(tmp_path: Path, command: str) -> None:
    write_spec(tmp_path)
    for what, words in [("none.zarr", "no such directory"), ("tiny.toml", "sweep submit"), (".", "a cube")]:
        result = sweep(command, tmp_path / what, "--results", tmp_path)
        assert result.exit_code == 2
        assert words in result.stderr
        assert "Traceback" not in result.output


def test_the_report_is_written_beside_the_cube(done: Path, tmp_path: Path) -> None:
    result = sweep("report", done / "tiny.toml", "--results", done, "--out", tmp_path / "r")
    assert result.exit_code == 0, result.output
    assert "iris" in result.stdout
    assert {path.name for path in (tmp_path / "r").iterdir()} == {
        "cells.csv", "figures", "report.html", "report.txt", "summary.csv",
    }  # fmt: skip


def test_data_sets_are_listed_with_their_source(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SWEEP_DATA_DIR", raising=False)
    monkeypatch.setenv("SWEEP_USER_CACHE", str(tmp_path))
    rows = json.loads(sweep("datasets", "list", "--json").stdout)
    assert len(rows) == 9
    assert {row["name"] for row in rows if "scikit-learn" in row["source"]} == {"iris", "wine"}
    assert "not on this machine" in sweep("datasets", "list").stdout
    assert sweep("datasets", "check", "iris", "wine").exit_code == 0
    missing = sweep("datasets", "check", "ecoli")
    assert missing.exit_code == 1
    assert "MISSING" in missing.stdout
    unknown = sweep("datasets", "check", "irsi")
    assert unknown.exit_code == 2
    assert "'irsi'" in unknown.stderr


def test_all_eight_are_good_in_a_data_directory(shared_data: Path) -> None:
    result = sweep("datasets", "check", "--data-dir", shared_data / "raw")
    assert result.exit_code == 0, result.output
    assert result.stdout.count("good") == 9


def test_skipped_data_sets_are_said_loudly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SWEEP_DATA_DIR", raising=False)
    monkeypatch.setenv("SWEEP_USER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("SWEEP_DATA_MIRROR", "http://127.0.0.1:9")
    with_ecoli = TINY.replace('"iris"]', '"ecoli"]')
    write_spec(tmp_path, with_ecoli)
    refused(tmp_path, "'ecoli', which is not to be had", 'unavailable = "skip"')
    spec = write_spec(tmp_path, with_ecoli + '[data]\nunavailable = "skip"\n')
    arguments = ("submit", spec, "--results", tmp_path, "--workers", 0)
    result = sweep(*arguments)
    assert result.exit_code == 0
    assert result.stderr.count("SKIPPED data set ecoli") == 2  # at the start and at the end
    assert "SKIPPED ecoli" in sweep("status", tmp_path / "tiny.zarr").stdout
    assert "ecoli" in sweep("report", tmp_path / "tiny.zarr", "--out", tmp_path / "r").stdout
    assert sweep(*arguments, "--strict").exit_code == 3


def test_the_command_as_a_process(done: Path) -> None:
    """No warning, nothing on stdout that is not asked for."""
    command = [sys.executable, "-W", "error", "-m", "pipeline", "status", str(done / "tiny.zarr"), "--json"]
    result = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ})
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    assert json.loads(result.stdout)["complete"] is True
