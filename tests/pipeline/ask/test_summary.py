"""What `sweep ask` says beside the questions."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from beliefs import made_up

from kernels.settings import OFFERED
from pipeline.ask.options import SETTINGS, AskOptions
from pipeline.ask.outlook import Outlook
from pipeline.ask.state import Standing
from pipeline.ask.summary import (
    WIDTH,
    ask_command,
    fit_command,
    following,
    outlook_words,
    rounded,
    standing_lines,
)
from pipeline.asking.estimate import Share
from pipeline.fit.inputs import FitOptions

CHOSEN = {each.name: SETTINGS.get(each.name, each.offered) for each in OFFERED}
FIT = FitOptions(
    Path("my table.csv"),
    None,
    None,
    None,
    3,
    "conditional",
    None,
    3,
    0,
    "none",
    covariance="auto",
    chosen=CHOSEN,
)
OPTIONS = AskOptions(FIT, 20, "information", None, (), None, None, "asked", False, False)


def words(command: str) -> list[str]:
    assert all(len(line) <= WIDTH + 2 for line in command.splitlines())
    return shlex.split(command.replace("\\\n", ""))


def test_commands_have_what_differs_from_their_defaults() -> None:
    base = ["sweep", "ask", "my table.csv", "-k", "3"]
    assert words(ask_command(OPTIONS)) == base
    fit = ["--model", "conditional", "--covariance", "auto", "--feature-weight", "effective"]
    assert words(fit_command(OPTIONS, Path("ask.csv"))) == [
        "sweep", "fit", "my table.csv", "-k", "3", "--annotations", "ask.csv", *fit, "--proportions", "free",
    ]  # fmt: skip
    other = replace(
        OPTIONS, count=5, strategy="again", names="id", show=("text",), until=0.9, interactive=True,
        fit=replace(
            FIT, annotations=(Path("a"), Path("b")), accuracy=0.8, annotator_accuracy=("x=0.7",),
            scale="standard", seed=4, covariance="full", restarts=9,
            aside=("id", "text", "class"), must_link=Path("m"),
            chosen=CHOSEN | {"feature_weight": 1.0, "patience": 7},
        ),
    )  # fmt: skip
    assert words(ask_command(other, Path("b"))) == [
        *base, "--must-link", "m", "--annotations", "a", "--annotations", "b", "--accuracy", "0.8",
        "--annotator-accuracy", "x=0.7", "--scale", "standard", "--seed", "4", "-n", "5",
        "--strategy", "again",
        "--covariance", "full", "--restarts", "9", "--names", "id", "--until", "0.9", "--show", "text",
        "--without", "class", "--patience", "7", "--feature-weight", "1.0", "--interactive",
    ]  # fmt: skip
    assert words(fit_command(other))[-6:] == ["--without", "id", "--without", "text", "--without", "class"]


def test_files_of_questions_are_numbered() -> None:
    names = [following(Path(name)).name for name in ("ask.csv", "ask2.csv", "a9", "7.csv")]
    assert names == ["ask2.csv", "ask3.csv", "a10", "8.csv"]


def test_standing_in_lines() -> None:
    belief = made_up([[0, 0, 1, 1, 2]] * 3)
    share = Share(0.83, 0.74, 0.91)
    standing = Standing(belief, [], share, Outlook(42, 187), 31, 26, 2)
    options = replace(OPTIONS, until=0.9)
    assert standing_lines(options, standing)[:5] == [
        "answers    57: 31 yes, 26 no; 2 skipped",
        "accuracy   0.90, estimated from the answers",
        "sizes      2 2 1, spherical covariance",
        "confidence 83% (74% to 91%) of the labels expected right",
        "until 0.9  about 42 to 190 more questions",
    ]
    none = replace(standing, n_yes=0, n_no=0, n_skipped=0, outlook=None)
    lines = standing_lines(options, none)
    assert lines[:2] == ["answers    0: 0 yes, 0 no", "accuracy   0.90, assumed before there are answers"]
    told = replace(OPTIONS, fit=replace(FIT, annotator_accuracy=("asked=0.9",)))
    assert standing_lines(told, none)[1] == "accuracy   0.90, as given"


@pytest.mark.parametrize(("count", "shown"), [(7, 7), (42, 42), (187, 190), (1234, 1200), (None, 0)])
def test_counts_have_two_digits(count: int | None, shown: int) -> None:
    assert rounded(count) == shown


def test_outlook_in_words() -> None:
    assert outlook_words(Outlook(0, 0)) == "passed"
    assert outlook_words(Outlook(None, None, "why")) == "why"
