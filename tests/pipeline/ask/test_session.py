"""A session, key by key, with questions that are made up."""

from __future__ import annotations

import os
import pty
import select
import sys
import termios
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from beliefs import random_belief
from rich.cells import cell_len

from pipeline.ask.answers import AnswersFile
from pipeline.ask.questions import Outlook, Question
from pipeline.ask.session import BESIDE, Pipe, Rows, Session, Terminal, csv_text, question_lines
from pipeline.ask.summary import AskOptions, Standing
from pipeline.asking.belief import Share
from pipeline.fit.inputs import answered
from sweeps.annotations.files import Row, Samples, read_answers
from sweeps.data.table import SampleRows

SAMPLES = Samples(SampleRows(12))

# Where keys come from.


def test_keys_of_a_terminal_which_is_left_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    far, near = pty.openpty()
    with open(near, "rb", buffering=0) as screen:
        monkeypatch.setattr(sys, "stdin", screen)
        before, terminal = termios.tcgetattr(screen), Terminal()

        def type_(keys: bytes) -> None:
            os.write(far, keys)
            select.select([screen], [], [], 10)

        keys = {b"Y": "y", b"\x04": "", b"\x1b[A": "\x1b[a", b"\xc3\x9f": "\u00df", b"\xff": "\ufffd"}
        with suppress(KeyboardInterrupt), terminal.opened():
            assert termios.tcgetattr(screen) != before
            for typed, key in keys.items():
                type_(typed)
                assert terminal.key() == key
            type_(b"yyy")  # before a question these do not count
            terminal.show(["?"])
            type_(b"n")
            assert terminal.key() == "n"
            raise KeyboardInterrupt
        assert termios.tcgetattr(screen) == before
        with terminal.opened():
            os.close(far)
            terminal.show([])
            assert terminal.key() == ""


# A question as lines of a terminal, and as a file to fill in.

VALUES = np.array([[1.0, 5.0, 0.0], [1.5, 5.0, 100.0], [3.0, 5.0, 110.0]])


def rows(n_features: int = 3, **columns: list[str]) -> Rows:
    rng = np.random.default_rng(0)
    values = VALUES if n_features == 3 else rng.normal(size=(3, n_features))
    names = ["width", "flat", "height"] if n_features == 3 else [f"feature {n}" for n in range(n_features)]
    return Rows(values, names, ["Ann", "Bob", "Eve"], dict(columns), SAMPLES)


def test_two_rows_side_by_side_those_that_differ_most_first() -> None:
    assert question_lines(rows(picture=["a.png", "b.png", "c.png"]), 0, 1, 56, 24) == [
        "         row 1 Ann               row 2 Bob",
        "picture  a.png                   b.png",
        "height   0                       100",
        "width    1                       1.5",
        "flat     5                       5",
    ]
    # in standard deviations: 110 against 100 is little
    assert [line.split()[0] for line in question_lines(rows(), 1, 2)[1:]] == ["width", "height", "flat"]
    lines = question_lines(rows(text=["many words " * 40, "short", ""]), 0, 1, 80, 24)
    assert [line.split("  ")[0] for line in lines[1:5]] == ["text", "", "", "height"]
    assert lines[3].endswith("…")


@pytest.mark.parametrize("n_features", [3, 100])
def test_every_size_fits(n_features: int) -> None:
    long = ["many words " * 40, "x" * 300, "\u6f22\u5b57" * 100]
    for width, height in ((80, 24), (40, 12), (20, 5), (200, 60)):
        for first, second in ((0, 1), (1, 2)):
            lines = question_lines(rows(n_features, text=long), first, second, width, height)
            assert all(cell_len(line) <= width for line in lines)
            assert len(lines) <= max(height - BESIDE, 4) + 4


QUESTIONS = [
    Question(0, 2, 0.5004, 0.36812, '1 in 1 (61%) or 3 (37%); 3 is in "3"'),
    Question(1, 2, 0.25, 0.1, "a check: both are in 1"),
]
PLAIN = Rows(np.zeros((3, 1)), ("a",), None, {}, SAMPLES)
NAMED = Rows(np.zeros((3, 1)), ("a",), ["Ann, B.", "Bob\n", "#Eve"], {"text": ["x", "y", ";"]}, SAMPLES)


@pytest.mark.parametrize("rows", [PLAIN, NAMED])
@pytest.mark.parametrize("annotator", ["asked", "Ann, B."])
def test_a_filled_file_is_read_as_answered(rows: Rows, annotator: str, tmp_path: Path) -> None:
    header, *lines = csv_text(QUESTIONS, rows, annotator).splitlines()
    for words, expected in ((("", ""), []), (("yes", "-"), [(0, 2, 0, annotator), (1, 2, 1, annotator)])):
        filled = [header, *map("".join, zip(lines, words, strict=True)), ""]
        (tmp_path / "ask.csv").write_text("\n".join(filled))
        found = answered(read_answers(tmp_path / "ask.csv", 3))
        assert [(row.first, row.second, row.kind, row.annotator) for row in found] == expected


TABLE = Rows(np.arange(24.0).reshape(12, 2), ("a", "b"), None, {}, SAMPLES)


class Script(Pipe):
    """A console that types keys, and keeps what it was shown."""

    def __init__(self, keys: str) -> None:
        self.keys = list(keys)
        self.screens: list[list[str]] = []
        self.said: list[str] = []

    def show(self, lines: Sequence[str]) -> None:
        self.screens.append(list(lines))

    def say(self, text: str) -> None:
        self.said.append(text)

    def key(self) -> str:
        return self.keys.pop(0) if self.keys else ""


def run(
    path: Path, keys: str, until: float | None = None, outlook: Outlook | None = None
) -> tuple[Script, list]:
    """A session whose questions are all pairs of four samples not asked yet, two at a time."""
    console, file, calls = Script(keys), AnswersFile(path, "asked", SAMPLES), []

    def stand(rows: Sequence[Row], batch: int, start: np.ndarray | None) -> Standing:
        calls.append((len(rows), batch, start is not None))
        seen = {(row.first, row.second) for row in rows}
        left = [(i, j) for i in range(3) for j in range(i + 1, 4) if (i, j) not in seen][:2]
        questions = [Question(i, j, 0.5, 0.1, "") for i, j in left]
        return Standing(random_belief(0), questions, Share(0.83, 0.74, 0.91), outlook, len(rows), 0, 0)

    options = AskOptions(features=Path("x.csv"), n_clusters=3, count=2, until=until, interactive=True)
    Session(options, TABLE, [], file, console, stand).run()
    file.close()
    return console, calls


def answers(path: Path) -> list[tuple[int, int, int | None]]:
    return [(row.first, row.second, getattr(row, "kind", None)) for row in read_answers(path, 12)]


def test_keys_become_rows(tmp_path: Path) -> None:
    console, calls = run(tmp_path / "a", "ynsq")
    assert answers(tmp_path / "a") == [(0, 1, 0), (0, 2, 1), (0, 3, None)]
    # a batch is two answers; the next one begins with the solution of the one before
    assert calls == [(0, 0, False), (2, 1, True)]
    first = console.screens[1]
    assert first[0] == "question 2, 1 answers so far; saved: 1 and 2 together"
    assert first[1] == "expected right: 83% (74% to 91%) of the labels, at 0 answers"
    assert first[-1].startswith("[y]es")
    run(tmp_path / "b", "yy")
    assert len(answers(tmp_path / "b")) == 2  # where keys end
    console, _ = run(tmp_path / "c", "ynynynyn")
    assert len(answers(tmp_path / "c")) == 6  # and where pairs do
    assert console.said[-1].startswith("no pair is left")


def test_undo_goes_back_over_batches_and_no_further(tmp_path: Path) -> None:
    console, _ = run(tmp_path / "a", "yyuuuxnyq", 0.9, Outlook(40, 92))
    assert console.screens[0][2] == "to 90%: about 40 to 92 more questions"
    assert any(text.startswith("no such key") for text in console.said)
    assert answers(tmp_path / "a") == [(0, 1, 1), (0, 2, 0)]
    for said in (
        "not undone: no answer of this session",
        "question 1, 0 answers so far; taken back: 1 and 2",
    ):
        assert any(said in lines[0] for lines in console.screens)
