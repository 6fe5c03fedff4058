"""What `sweep ask` says beside the questions."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from beliefs import made_up
from solving.blobs import far_clusters

from kernels.settings import OFFERED
from pipeline.ask.questions import Outlook
from pipeline.ask.summary import (
    SETTINGS,
    WIDTH,
    AskOptions,
    Standing,
    ask_command,
    fit_command,
    read_ask,
    rounded,
    stand,
    standing_lines,
)
from pipeline.asking.belief import Share
from pipeline.fit.inputs import FitInputs, FitOptions
from sweeps.errors import InputError

# What `sweep ask` is given: options and files, checked together.

ROWS = "name,a,b\n" + "".join(f"row {i},{i},{i * i % 11}\n" for i in range(12))


@pytest.fixture
def options(tmp_path: Path) -> AskOptions:
    (tmp_path / "x.csv").write_text(ROWS)
    fit = FitOptions(
        tmp_path / "x.csv", None, None, None, 3, "conditional", None, 3, 0, "none", aside=("name",)
    )
    return AskOptions(fit, names="name")


def problems(options: AskOptions, **fit: Any) -> list[str]:
    with pytest.raises(InputError) as caught:
        read_ask(replace(options, fit=replace(options.fit, **fit)))
    return [str(problem) for problem in caught.value.problems]


def test_all_problems_at_once(options: AskOptions, tmp_path: Path) -> None:
    bad = replace(
        options, count=0, strategy="anchor", until=1.0, annotator=" ", interactive=True, as_json=True,
        out=tmp_path / "none" / "x",
    )  # fmt: skip
    found = problems(bad, n_clusters=1, accuracy=0.5, must_link=tmp_path / "absent")
    assert [text.split(": found")[0] for text in found] == [
        "--strategy", "-n", "--until", "--annotator", "-k", "--accuracy", "--annotations", "--out", "--json",
        "--out", str(tmp_path / "absent"),
    ]  # fmt: skip
    assert "did you mean 'anchors'?" in found[0]


def test_a_session_makes_its_file_and_the_others_must_be_there(options: AskOptions, tmp_path: Path) -> None:
    session = replace(options, interactive=True)
    new, absent = tmp_path / "new.csv", tmp_path / "absent.csv"
    fit = replace(options.fit, annotations=(new,))
    assert read_ask(replace(session, fit=fit)).rows == []
    (problem,) = problems(session, annotations=(absent, new))
    assert problem.startswith(str(absent))
    (tmp_path / "lines").write_text("1 2 must 1 ann\n")
    (problem,) = problems(session, annotations=(tmp_path / "lines",))
    assert "expected a header with the columns i, j and answer" in problem


def test_questions_never_overwrite_answers(options: AskOptions, tmp_path: Path) -> None:
    out = tmp_path / "ask.csv"
    asking = replace(options, out=out)
    read_ask(asking)
    for harmless in ("", "i,j,answer\n1,2,\n"):
        out.write_text(harmless)
        read_ask(asking)
    for other in ("i,j,answer\n1,2,yes\n", "i,j,answer\n1,2,skip\n", "i,j,answer\n1,2,perhaps\n", ROWS):
        out.write_text(other)
        (problem,) = problems(asking)
        assert problem.startswith(f"--out: found {out}, a file with answers")
    assert problems(replace(options, out=tmp_path))[0].startswith("--out: found")


# Where a course of questions stands.


@pytest.fixture
def given(tmp_path: Path) -> tuple[AskOptions, FitInputs]:
    X, _ = far_clusters()
    np.savetxt(tmp_path / "x.data", X, fmt="%.17g")
    (tmp_path / "a").write_text("i,j,annotator,answer\n1,2,ann,yes\n1,12,bob,no\n3,4,ann,yes\n5,6,ann,skip\n")
    fit = FitOptions(
        tmp_path / "x.data", None, None, None, 3, "conditional", None, 2, 0, "none",
        annotations=(tmp_path / "a",), covariance="spherical",
    )  # fmt: skip
    options = AskOptions(fit, 4, until=0.9)
    return options, read_ask(options)


def test_answers_are_counted_and_questions_chosen(given: tuple[AskOptions, FitInputs]) -> None:
    options, inputs = given
    found = stand(options, inputs, inputs.rows)
    assert (found.n_yes, found.n_no, found.n_skipped, found.n_answers) == (2, 1, 1, 3)
    assert len(found.questions) == 4
    assert found.share.mean > 0.9
    assert found.outlook == (0, 0, "")
    assert not {(0, 1), (0, 11), (2, 3), (4, 5)} & {(each.first, each.second) for each in found.questions}
    assert stand(options, inputs, inputs.rows).questions == found.questions
    assert stand(options, inputs, inputs.rows, 1, found.belief.labels).questions != found.questions


def test_accuracy_is_that_of_who_answers(given: tuple[AskOptions, FitInputs]) -> None:
    options, inputs = given
    told = replace(options.fit, accuracy=0.8, annotator_accuracy=("ann=0.7",))
    for annotator, accuracy in (("ann", 0.7), ("bob", 0.8), ("asked", 0.8)):
        found = stand(replace(options, fit=told, annotator=annotator), inputs, inputs.rows)
        assert found.belief.accuracy == accuracy
    # three right answers beside ten of accuracy 0.9 that are assumed
    assert stand(options, inputs, inputs.rows).belief.accuracy == pytest.approx(12 / 13)


CHOSEN = {each.name: SETTINGS.get(each.name, each.offered) for each in OFFERED}
TABLE = Path("my table.csv")
FIT = FitOptions(
    TABLE, None, None, None, 3, "conditional", None, 3, 0, "none", covariance="auto", chosen=CHOSEN
)
OPTIONS = AskOptions(FIT)


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


def test_counts_have_two_digits() -> None:
    assert list(map(rounded, (7, 42, 187, 1234))) == [7, 42, 190, 1200]
