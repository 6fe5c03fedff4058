"""What commands share: words that help shows, problems on stderr, documents on stdout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import click
import pytest
from checkout import ROOT
from click.testing import CliRunner
from processes.sweeping import write_spec

from kernels.settings import OFFERED
from pipeline.commands.main import main
from pipeline.commands.options import (
    Word,
    find_cube,
    find_run,
    find_spec,
    next_step,
    show,
    takes_settings,
)
from pipeline.common import plural
from sweeps.errors import InputError

# What the arguments of commands name.


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


def test_a_cube_is_found_by_its_path_and_by_its_sweep_file(tmp_path: Path) -> None:
    spec, cube = write_spec(tmp_path), tmp_path / "results" / "tiny.zarr"
    with pytest.raises(InputError, match='run "sweep submit" first'):
        find_cube(spec, cube.parent)
    with pytest.raises(InputError, match="no such directory, expected a cube, or a sweep file"):
        find_cube(cube, cube.parent)
    cube.mkdir(parents=True)
    assert find_cube(spec, cube.parent) == find_cube(cube, tmp_path) == cube


def test_a_run_is_found_before_its_cube_is_there(tmp_path: Path) -> None:
    spec, cube = write_spec(tmp_path), tmp_path / "tiny.zarr"
    with pytest.raises(InputError, match="no such directory"):
        find_run(cube, tmp_path)
    cube.with_name("tiny.run").mkdir()
    assert find_run(spec, tmp_path) == find_run(cube, tmp_path) == cube
    with pytest.raises(InputError, match="no such directory"):
        find_run(tmp_path / "tiny", tmp_path)  # no name of a cube, though its run folder would be the same


def test_a_run_folder_that_leads_elsewhere_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "tiny.run").symlink_to("elsewhere")
    with pytest.raises(InputError, match="a link, expected the directory of a run"):
        find_run(tmp_path / "tiny.zarr", tmp_path)


@click.command()
@click.option("--scale", type=Word(["none", "minmax"]))
def command(scale: str) -> None:
    """A command."""
    show([f"scale {scale}"])


def test_help_shows_words_and_others_are_left_to_the_command() -> None:
    assert "[none|minmax]" in CliRunner().invoke(command, ["--help"]).stdout
    assert CliRunner().invoke(command, ["--scale", "log"]).stdout == "scale log\n"


def piped(*command: str, cube: Path) -> tuple[int, str]:
    """Exit code of a command whose reader leaves at once, and its stderr."""
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "pipeline", *command, str(cube)],
        cwd=ROOT,
        stdout=writer,
        stderr=subprocess.PIPE,
        check=False,
        text=True,
    )
    os.close(writer)
    return done.returncode, done.stderr


@pytest.mark.parametrize("command", [["status", "--json"], ["logs"]])
def test_a_reader_that_leaves_is_no_fault(finished: Path, command: list[str]) -> None:
    code, said = piped(*command, cube=finished / "tiny.zarr")
    assert (code, "Traceback" in said, "Broken" in said) == (0, False, False)


def test_a_check_that_nobody_reads_ends_with_its_own_code(finished: Path, tmp_path: Path) -> None:
    cube = tmp_path / "tiny.zarr"
    shutil.copytree(finished / "tiny.zarr", cube)
    assert piped("verify", "--checksums", cube=cube)[0] == 0
    files = (path for path in (cube / "iris" / "labels").rglob("*") if path.is_file())
    chunk = next(path for path in files if path.name != "zarr.json")
    chunk.write_bytes(chunk.read_bytes()[:-1] + b"!")
    assert piped("verify", "--checksums", cube=cube)[0] == 1


def test_the_next_command_is_on_stderr_and_can_be_pasted(capsys: pytest.CaptureFixture[str]) -> None:
    next_step("report", Path("my results/a b.zarr"))
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "next: sweep report 'my results/a b.zarr'\n"


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
        ("--method published --mutation 1", {"method": "published", "mutation": 1.0}),
        ("--method paper", {"method": "paper"}),
        ("--feature-weight 0.5", {"feature_weight": 0.5}),
        ("--feature-weight effective", {"feature_weight": "effective"}),
        (
            "--feature-weight half --population 1",
            {"population": 1, "feature_weight": "half"},
        ),
    ],
)
def test_a_command_gets_all_settings_as_one(arguments: str, changed: dict[str, object]) -> None:
    assert CliRunner().invoke(with_all_settings, arguments.split()).stdout == f"{changed!r}\n"


REFUSED = tomllib.loads(Path(__file__).with_name("problems.toml").read_text(encoding="utf-8"))


def test_every_problem_of_a_command_line_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in REFUSED["files"].items():
        (tmp_path / name).write_text(text)
    for case in REFUSED["case"]:
        result = CliRunner().invoke(main, case["line"].split())
        first, *lines = result.stderr.replace(str(tmp_path), "FOLDER").splitlines()
        assert [line.removeprefix("  ") for line in lines] == case["problems"], case["line"]
        assert (result.exit_code, result.stdout) == (2, "")
        assert first == f"{plural(len(lines), 'problem')}, nothing was started:"
