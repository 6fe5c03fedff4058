"""What commands share: words that help shows, problems on stderr, documents on stdout."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
from checkout import ROOT
from click.testing import CliRunner

from pipeline.commands.options import Word, next_step, reported, show
from sweeps.errors import InputError, Problem


@click.command()
@click.option("--scale", type=Word(["none", "minmax"]))
def command(scale: str) -> None:
    """A command."""
    show([f"scale {scale}"])


def test_help_shows_words_and_others_are_left_to_the_command() -> None:
    assert "[none|minmax]" in CliRunner().invoke(command, ["--help"]).stdout
    assert CliRunner().invoke(command, ["--scale", "log"]).stdout == "scale log\n"


def test_problems_are_counted_on_stderr_and_end_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended, reported():
        raise InputError([Problem("a", "1", "2"), Problem("b", "3", "4", "why")])
    assert ended.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err == (
        "2 problems, nothing was started:\n  a: found 1, expected 2\n  b: found 3, expected 4 (why)\n"
    )


def test_a_document_is_strict_json(capsys: pytest.CaptureFixture[str]) -> None:
    show({"a": [1, None]})
    assert json.loads(capsys.readouterr().out) == {"a": [1, None]}
    with pytest.raises(ValueError, match="JSON compliant"):
        show({"a": float("nan")})


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


@pytest.mark.parametrize("command", [["status"], ["status", "--json"], ["logs"], ["why"]])
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
