"""Options of settings: numbers, words, and numbers that a word may stand for."""

from __future__ import annotations

from typing import Any

import click
import pytest
from click.testing import CliRunner

from kernels.settings import OFFERED
from pipeline.commands.settings import takes_settings


@click.command()
@takes_settings()
def command(chosen: dict[str, Any]) -> None:
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
    assert CliRunner().invoke(command, arguments.split()).stdout == f"{changed!r}\n"


def test_what_is_of_another_type_is_refused_at_once() -> None:
    done = CliRunner().invoke(command, ["--patience", "1.5"])
    assert (done.exit_code, done.stdout) == (2, "")
    assert "'1.5' is not a valid integer" in done.stderr
