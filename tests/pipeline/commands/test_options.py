"""What commands share: what arguments name, words of help, problems on stderr, readers that leave."""

from __future__ import annotations

import os
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
from pipeline.commands.options import find_cube, find_run, find_spec, next_step, takes_settings
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
    for path, words in ((spec, 'run "sweep submit" first'), (cube, "no such directory, expected a cube, or")):
        with pytest.raises(InputError, match=words):
            find_cube(path, results)
    with pytest.raises(InputError, match="no such directory"):
        find_run(cube, results)
    (results / "tiny.run").mkdir(parents=True)
    assert find_run(spec, results) == find_run(cube, tmp_path) == cube  # before the cube is there
    with pytest.raises(InputError, match="no such directory"):
        find_run(results / "tiny", tmp_path)  # no name of a cube, though its run folder would be the same
    cube.mkdir()
    assert find_cube(spec, results) == find_cube(cube, tmp_path) == cube
    (results / "other.run").symlink_to("tiny.run")
    with pytest.raises(InputError, match="a link, expected the directory of a run"):
        find_run(results / "other.zarr", tmp_path)


def piped(*command: str | Path) -> tuple[int, str]:
    """Exit code of a command whose reader leaves at once, and its stderr."""
    reader, writer = os.pipe()
    os.close(reader)
    line = [sys.executable, "-m", "pipeline", *map(str, command)]
    done = subprocess.run(line, cwd=ROOT, stdout=writer, stderr=subprocess.PIPE, check=False, text=True)
    os.close(writer)
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("command", "expected"), [("status --json CUBE", 0), ("logs CUBE", 0), ("datasets check ecoli", 1)]
)
def test_a_reader_that_leaves_is_no_fault(
    finished: Path, command: str, expected: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("SWEEP_DATA_DIR", raising=False)
    monkeypatch.setenv(
        "SWEEP_USER_CACHE", str(tmp_path)
    )  # no data set is there: the code says so, read or not
    code, said = piped(*(finished / "tiny.zarr" if word == "CUBE" else word for word in command.split()))
    assert (code, "Traceback" in said, "Broken" in said) == (expected, False, False)


def test_the_next_command_is_on_stderr_and_can_be_pasted(capsys: pytest.CaptureFixture[str]) -> None:
    next_step("report", Path("my results/a b.zarr"))
    assert capsys.readouterr() == ("", "next: sweep report 'my results/a b.zarr'\n")


# Options of settings: numbers, words, and numbers that a word may stand for.


@click.command()
@takes_settings()
def with_all_settings(chosen: dict[str, Any]) -> None:
    """Says what it was given."""
    changed = {each.name: chosen[each.name] for each in OFFERED if chosen[each.name] != each.offered}
    click.echo(repr(changed))


@pytest.mark.parametrize(
    ("arguments", "changed"),
    [
        ("", {}),
        ("--patience 3 --crossover labels", {"patience": 3, "crossover": "labels"}),
        ("--method paper --mutation 1", {"method": "paper", "mutation": 1.0}),
        ("--feature-weight 0.5", {"feature_weight": 0.5}),
        ("--feature-weight half --population 1", {"population": 1, "feature_weight": "half"}),
    ],
)
def test_a_command_gets_all_settings_as_one(arguments: str, changed: dict[str, object]) -> None:
    assert CliRunner().invoke(with_all_settings, arguments.split()).stdout == f"{changed!r}\n"


def test_help_shows_words_and_ranges_that_are_checked_with_all_else() -> None:
    shown = " ".join(CliRunner().invoke(with_all_settings, ["--help"]).stdout.split())
    for words in ("[strong|published]", "FLOAT|effective", "x>=1]", "[default: "):
        assert words in shown
    assert "'many' is not a valid" in CliRunner().invoke(with_all_settings, ["--patience", "many"]).stderr


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
