"""What commands share: words that help shows, problems on stderr, documents on stdout."""

from __future__ import annotations

import json

import click
import pytest
from click.testing import CliRunner

from pipeline.commands.options import Word, reported, show
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
