"""What `sweep ask` is given: options and files, checked together."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipeline.ask.options import AskOptions, aside_of, read_ask
from pipeline.fit.inputs import FitOptions
from sweeps.errors import InputError

ROWS = "name,a,b\n" + "".join(f"row {i},{i},{i * i % 11}\n" for i in range(12))


@pytest.fixture
def options(tmp_path: Path) -> AskOptions:
    (tmp_path / "x.csv").write_text(ROWS)
    fit = FitOptions(
        tmp_path / "x.csv", None, None, None, 3, "conditional", None, 3, 0, "none", aside=("name",)
    )
    return AskOptions(fit, 5, "information", "name", (), None, None, "asked", False, False)


def problems(options: AskOptions, **fit: Any) -> list[str]:
    with pytest.raises(InputError) as caught:
        read_ask(replace(options, fit=replace(options.fit, **fit)))
    return [str(problem) for problem in caught.value.problems]


def test_files_are_read_as_by_fit(options: AskOptions, tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("1 2 must 1 ann\n")
    (tmp_path / "asked.csv").write_text("i,j,answer\n3,4,no\n5,6,skip\n7,8,\n")
    (tmp_path / "must").write_text("9 10\n")
    files = tmp_path / "lines", tmp_path / "asked.csv"
    found = read_ask(
        replace(options, fit=replace(options.fit, annotations=files, must_link=tmp_path / "must"))
    )
    assert len(found.rows) == 4
    assert [each.annotator for each in found.annotations] == ["links", "ann", "asked"]
    assert found.table.feature_names == ("a", "b")
    assert found.table.aside[0][1] == "row 1"


def test_columns_come_once() -> None:
    assert aside_of("id", ("text", "id"), ("text", "class")) == ("id", "text", "class")
    assert aside_of(None, (), ()) == ()


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


@pytest.mark.parametrize("accuracy", [0.5, 0.2, 0.0, 1.5])
def test_an_annotator_who_guesses_says_nothing(accuracy: float, options: AskOptions) -> None:
    (problem,) = problems(options, accuracy=accuracy)
    assert problem.startswith(f"--accuracy: found {accuracy}")
    (problem,) = problems(options, annotator_accuracy=(f"asked={accuracy}",), annotations=())[:1]
    assert problem.startswith("--annotator-accuracy")


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
