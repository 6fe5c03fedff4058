"""What commands share: what arguments name, words of help, problems on stderr, readers that leave."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import click
import pytest
from checkout import ROOT
from click.testing import CliRunner
from processes.commandline import sweep
from processes.sweeping import write_spec

from kernels.settings import OFFERED
from pipeline.commands.options import (
    find_cube,
    find_run,
    find_spec,
    flag,
    settings_in,
    several,
    takes_settings,
    typed,
)
from pipeline.common import plural
from sweeps.errors import InputError


def test_a_sweep_file_of_the_user_comes_before_an_installed_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("quick.toml", "sweeps/quick.toml"):
        assert find_spec(Path(name)) == (ROOT / "sweeps" / "quick.toml", True)
    (tmp_path / "quick.toml").touch()
    assert find_spec(Path("quick.toml")) == (Path("quick.toml"), False)
    for name in ("elsewhere/quick.toml", "sweeps/quick", "sweeps/none.toml", str(tmp_path / "none.toml")):
        with pytest.raises(InputError, match=r"no such file.*sweeps/quick\.toml, sweeps/"):
            find_spec(Path(name))


def test_a_cube_and_its_run_are_found_by_path_and_by_sweep_file(tmp_path: Path) -> None:
    spec, results = write_spec(tmp_path), tmp_path / "results"
    cube = results / "tiny.zarr"
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "tiny.run").symlink_to("other.run")
    for find, path, words in (
        (find_cube, spec, 'run "sweep submit" first'),
        (find_cube, cube, "no such directory, expected a cube, or"),
        (find_run, cube, "no such directory"),
        (find_run, tmp_path / "linked" / "tiny.zarr", "a link, expected the directory of a run"),
    ):
        with pytest.raises(InputError, match=words):
            find(path, results)
    (results / "tiny.run").mkdir(parents=True)
    assert find_run(spec, results) == find_run(cube, tmp_path) == cube  # before the cube is there
    with pytest.raises(InputError, match="no such directory"):
        find_run(results / "tiny", tmp_path)  # no name of a cube, though its run folder would be the same
    cube.mkdir()
    assert find_cube(spec, results) == find_cube(cube, tmp_path) == cube


@pytest.mark.parametrize(
    ("command", "expected"), [("status --json CUBE", 0), ("logs CUBE", 0), ("datasets check ecoli", 1)]
)
def test_a_reader_that_leaves_is_no_fault(
    finished: Path, command: str, expected: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("SWEEP_DATA_DIR", raising=False)
    monkeypatch.setenv("SWEEP_USER_CACHE", str(tmp_path))  # no data set is there, read or not
    reader, writer = os.pipe()
    os.close(reader)
    line = [sys.executable, "-m", "pipeline", *command.replace("CUBE", str(finished / "tiny.zarr")).split()]
    done = subprocess.run(line, cwd=ROOT, stdout=writer, stderr=subprocess.PIPE, check=False, text=True)
    os.close(writer)
    said = done.stderr
    assert (done.returncode, "Traceback" in said, "Broken" in said) == (expected, False, False)


# Options of settings, and commands that are shown.


@click.command("some")
@click.argument("table")
@takes_settings(patience=7)
@several("--show", "shown")
@flag("--force")
def some(**given: Any) -> None:
    """Says what it was given, and how to type it."""
    chosen = settings_in(given)
    changed = {each.name: chosen[each.name] for each in OFFERED if chosen[each.name] != each.offered}
    click.echo(f"{changed}\n{typed(some, {**given, **chosen, 'other': 1})}")


@pytest.mark.parametrize(
    ("line", "changed"),
    [
        ("x", {"patience": 7}),
        ("x --patience 0 --crossover labels", {"patience": 0, "crossover": "labels"}),
        ("x --method paper --mutation 1.0", {"method": "paper", "patience": 7, "mutation": 1.0}),
        ("x --feature-weight half --force", {"patience": 7, "feature_weight": "half"}),
        ("'a table.csv' --show 'a long name of a column' --show -c --show 'a b'", {"patience": 7}),
    ],
)
def test_a_command_gets_settings_and_is_shown_as_it_was_typed(line: str, changed: dict[str, object]) -> None:
    found, *shown = CliRunner().invoke(some, shlex.split(line)).stdout.splitlines()
    assert found == str(changed)
    assert shlex.split("\n".join(shown).replace("\\\n", "")) == ["sweep", "some", *shlex.split(line)]
    assert all(len(line) <= 78 for line in shown)
    assert len(shown) == 1 + ("'a b'" in line)


def test_help_shows_words_and_ranges_that_are_checked_with_all_else() -> None:
    shown = " ".join(CliRunner().invoke(some, ["--help"]).stdout.split())
    for words in ("[strong|published]", "FLOAT|effective", "x>=1]", "[default: "):
        assert words in shown
    assert "'many' is not a valid" in CliRunner().invoke(some, ["x", "--patience", "many"]).stderr


REFUSED = tomllib.loads(Path(__file__).with_name("problems.toml").read_text(encoding="utf-8"))


def test_every_problem_of_a_command_line_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in REFUSED["files"].items():
        (tmp_path / name).write_text(text)
    for case in REFUSED["case"]:
        result = sweep(*case["line"].split())
        first, *lines = result.stderr.replace(str(tmp_path), "FOLDER").splitlines()
        assert [line.removeprefix("  ") for line in lines] == case["problems"], case["line"]
        assert (result.exit_code, result.stdout) == (2, "")
        assert first == f"{plural(len(lines), 'problem')}, nothing was started:"
