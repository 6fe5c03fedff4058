"""Questions as a file to fill in."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from pipeline.ask.questions import Question
from pipeline.ask.screen import Rows
from pipeline.ask.tables import csv_text, question_table
from pipeline.fit.labels import write_whole
from sweeps.annotations.files import Annotation, read_answers

QUESTIONS = [
    Question(0, 2, 0.5004, 0.36812, '1 in 1 (61%) or 3 (37%); 3 is in "3"'),
    Question(1, 2, 0.25, 0.1, "a check: both are in 1"),
]
PLAIN = Rows(np.zeros((3, 1)), ("a",), None, {})
NAMED = Rows(np.zeros((3, 1)), ("a",), ["Ann, B.", "Bob\n", "#Eve"], {"text": ["x", "y", ";"]})


def filled(text: str, tmp_path: Path, words: list[str]) -> list[object]:
    header, *rows = text.splitlines()
    lines = [header, *(row + word for row, word in zip(rows, words, strict=True))]
    (tmp_path / "ask.csv").write_text("\n".join(lines) + "\n")
    return list(read_answers(tmp_path / "ask.csv", 3))


@pytest.mark.parametrize("rows", [PLAIN, NAMED])
@pytest.mark.parametrize("annotator", ["asked", "Ann, B."])
def test_a_filled_file_is_read_as_answered(rows: Rows, annotator: str, tmp_path: Path) -> None:
    text = csv_text(QUESTIONS, rows, annotator)
    assert filled(text, tmp_path, ["", ""]) == []
    first, second = filled(text, tmp_path, ["yes", "-"])
    assert isinstance(first, Annotation)
    assert isinstance(second, Annotation)
    assert (first.first, first.second, first.kind, first.annotator) == (0, 2, 0, annotator)
    assert (second.first, second.second, second.kind) == (1, 2, 1)


def test_columns() -> None:
    header, first, _ = csv.reader(csv_text(QUESTIONS, NAMED, "ann").splitlines())
    assert dict(zip(header, first, strict=True)) == {
        "i": "1",
        "j": "3",
        "together": "0.500",
        "information": "0.3681",
        "settles": QUESTIONS[0].settles,
        "name_i": "Ann, B.",
        "name_j": "#Eve",
        "text_i": "x",
        "text_j": ";",
        "annotator": "ann",
        "answer": "",
    }
    assert csv_text([], PLAIN) == "i,j,together,information,settles,answer\n"


def test_a_file_is_written_whole_or_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "ask.csv"
    write_whole(path, "old")

    def fail(handle: int) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        write_whole(path, "new")
    assert path.read_text() == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["ask.csv"]


@pytest.mark.parametrize("rows", [PLAIN, NAMED])
def test_the_table_fits_a_terminal(rows: Rows) -> None:
    console = Console(width=80, force_terminal=False)
    with console.capture() as capture:
        console.print(question_table(QUESTIONS, rows))
    lines = capture.get().splitlines()
    assert max(map(len, lines)) <= 80
    assert any("0.50" in line and "0.368" in line for line in lines)
