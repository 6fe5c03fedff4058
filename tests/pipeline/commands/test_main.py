"""The commands as a user types them: what they print, how they end, and that bad input starts nothing."""

from __future__ import annotations

import json
import logging
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest
import zarr
from checkout import ROOT
from click.testing import CliRunner
from processes.commandline import sweep
from processes.sweeping import TINY, write_spec

from pipeline.cluster.profiles import cluster_schema
from pipeline.commands.main import main
from storage.cube.manifest import ROOT_FILE
from sweeps.data.builtin import Unavailable
from sweeps.file.reading import as_file, load_sweep, sweep_schema

# Commands for runs in progress, waiting or ended.


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


# `sweep schema` and `sweep plan --resolved`: documents for editors and for people.


def printed(*arguments: str) -> str:
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_schemas_are_printed() -> None:
    assert printed("schema") == sweep_schema()
    assert printed("schema", "--cluster") == cluster_schema()


def test_a_resolved_sweep_needs_no_data_and_starts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = write_spec(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    monkeypatch.setattr("sweeps.data.reading.load_builtin", None)
    text = printed("plan", str(path), "--resolved")
    assert tomllib.loads(text) == as_file(load_sweep(path))
    assert json.loads(printed("plan", str(path), "--resolved", "--json")) == as_file(load_sweep(path))
    assert sorted(tmp_path.rglob("*")) == before


# The `sweep datasets` commands.


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


def test_all_eight_are_good_in_a_data_directory(raw_data: Path) -> None:
    result = sweep("datasets", "check", "--data-dir", raw_data)
    assert result.exit_code == 0, result.output
    assert result.stdout.count("good") == 9


def test_one_that_cannot_be_fetched_does_not_keep_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def find(name: str, *, data_dir: Path | None) -> SimpleNamespace:
        if name == "ecoli":
            raise Unavailable(name, ("no network", "no mirror"))
        return SimpleNamespace(path="scikit-learn")

    monkeypatch.setattr("sweeps.data.builtin.find", find)
    fetched = sweep("datasets", "fetch", "ecoli", "iris")
    assert fetched.exit_code == 1
    assert fetched.stdout == "iris: scikit-learn\n"
    assert "ecoli: not available: no network; no mirror" in fetched.stderr
    assert sweep("datasets", "fetch", "iris").exit_code == 0


def packages_loaded(*arguments: str | Path) -> set[str]:
    """Packages that a process has loaded when the command ends; those of this project with their rooms."""
    script = (
        "import atexit, sys\n"
        "loaded = lambda: {'.'.join(name.split('.')[:2]) for name in sys.modules}\n"
        "atexit.register(lambda: print(*loaded(), file=sys.stderr))\n"
        "from sweep_clustering import main\n"
        "main()\n"
    )
    command = [sys.executable, "-c", script, *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=False, text=True)
    assert done.returncode == 0, done.stderr
    return set(done.stderr.splitlines()[-1].split())


ARRAYS = {"kernels.scores", "kernels.search", "numba", "numpy", "pandas", "scipy", "sklearn", "xarray"}
RUNS = {"dask", "distributed", "matplotlib", "pooch", "rich", "sweeps.inputs"}


@pytest.mark.parametrize("command", [["submit"], ["plan"], ["status"], ["fit"], ["report"]])
def test_help_loads_next_to_nothing(command: list[str]) -> None:
    unwanted = ARRAYS | RUNS | {"pydantic", "storage", "yaml", "zarr"}
    assert packages_loaded(*command, "--help") & unwanted == set()


def test_what_looks_at_a_run_loads_no_solver_no_scheduler_and_nothing_that_reads_sweep_files(
    finished: Path,
) -> None:
    cube = finished / "tiny.zarr"
    unwanted = (ARRAYS - {"numpy"}) | RUNS | {"pipeline.scoring"}
    assert packages_loaded("status", cube) & unwanted == set()
    assert packages_loaded("logs", cube) & (unwanted | {"storage.cube", "zarr"}) == set()


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
        ('["0.5N", "1N"]', '["0.01N"]', ["0.01N of 30 samples = 0"]),
        ("n_samples = 30", "n_samples = 5", ["5 samples", "3 · 2"]),
    ],
)
def test_a_bad_sweep_file(tmp_path: Path, old: str, new: str, words: list[str]) -> None:
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


def test_wrong_folders_and_a_missing_table_are_said_together_and_once(tmp_path: Path) -> None:
    table_spec(tmp_path, GOOD_ROWS)
    spec = tmp_path / "tiny.toml"
    write_spec(tmp_path, spec.read_text().replace("datasets = [", 'datasets = ["iris", "wine", '))
    (tmp_path / "mine.csv").unlink()
    (tmp_path / "results").write_text("mine")
    data = str(tmp_path / "nowhere")
    text = refused(tmp_path, "3 problems", "results: found a file", arguments=("--data-dir", data))
    assert text.count("--data-dir: found") == 1
    assert "mine.csv: found No such file" in text


def _copy_cube(finished: Path, folder: Path) -> Path:
    shutil.copytree(finished / "tiny.zarr", folder / "results" / "tiny.zarr")
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
def test_a_cube_of_another_sweep(
    finished: Path, tmp_path: Path, old: str, new: str, words: list[str]
) -> None:
    _copy_cube(finished, tmp_path)
    write_spec(tmp_path, TINY.replace(old, new))
    refused(tmp_path, *words)


def test_a_cube_of_another_format_version(finished: Path, tmp_path: Path) -> None:
    root = _copy_cube(finished, tmp_path) / ROOT_FILE
    document = json.loads(root.read_text())
    document["attributes"]["format_version"] = 99
    root.write_text(json.dumps(document))
    write_spec(tmp_path)
    refused(tmp_path, "format version 99", "format version 2")


def test_every_command_says_which_comes_next(tmp_path: Path) -> None:
    spec = write_spec(tmp_path)
    where = ("--results", tmp_path)
    cube = tmp_path / "tiny.zarr"
    assert sweep("plan", spec, *where).stderr.endswith(f"next: sweep submit {spec}\n")
    dry = sweep("submit", spec, *where, "--dry-run", "--workers", 0)
    assert dry.stderr.endswith(f"next: sweep submit {spec}\n")
    done = sweep("submit", spec, *where, "--workers", 0)
    assert done.stderr.endswith(f"next: sweep report {cube}\n")
    for command in ("status", "why", "verify"):
        assert sweep(command, cube).stderr.endswith(f"next: sweep report {cube}\n")
    assert sweep("logs", cube).stderr.endswith(f"next: sweep status {cube}\n")
    for command in ("status", "why", "verify"):
        assert "next:" not in sweep(command, cube, "--json").output


def test_submit_in_json_is_the_status_at_the_end(tmp_path: Path) -> None:
    spec = write_spec(tmp_path)
    arguments = ("submit", spec, "--results", tmp_path, "--workers", 0, "--json")
    planned = json.loads(sweep(*arguments, "--dry-run").stdout)
    assert planned["total"]["cells"] == 85
    assert not list(tmp_path.glob("*.zarr"))
    done = json.loads(sweep(*arguments).stdout)
    assert (done["exit_code"], done["complete"], done["total"]["done"]) == (0, True, 85)
    assert json.loads(sweep(*arguments).stdout)["total"] == done["total"]  # nothing was left to do


@pytest.mark.parametrize("place", [0, 1])
def test_verbose_may_stand_before_or_behind_the_command(tmp_path: Path, place: int) -> None:
    command = ["plan", str(write_spec(tmp_path)), "--results", str(tmp_path)]
    command.insert(place * len(command), "-v")
    try:
        assert sweep(*command).exit_code == 0
        assert logging.getLogger("pipeline").level == logging.DEBUG
    finally:
        sweep("--version")
    sweep("plan", "--help")
    assert sweep("plan", write_spec(tmp_path), "--results", tmp_path).exit_code == 0
    assert logging.getLogger("pipeline").level == logging.INFO


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("command", [["--help"], ["schema"], ["methods", "list"]])
def test_output_to_a_full_disk_ends_with_one_line(command: list[str]) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "pipeline", *command],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    assert done.stderr.startswith("standard output: No space left on device")
