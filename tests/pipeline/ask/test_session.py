"""A session, key by key, with questions that are made up."""

from __future__ import annotations

import io
import os
import pty
import select
import sys
import termios
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from beliefs import random_belief
from rich.cells import cell_len

from pipeline.ask.answers import AnswersFile
from pipeline.ask.questions import Outlook, Question
from pipeline.ask.session import (
    BESIDE,
    Pipe,
    Rows,
    Session,
    Terminal,
    by_difference,
    csv_text,
    question_lines,
)
from pipeline.ask.summary import AskOptions, Standing
from pipeline.asking.belief import Share
from pipeline.fit.inputs import FitOptions
from sweeps.annotations.files import Annotation, Row, Samples, Skip, read_answers
from sweeps.data.table import SampleRows

SAMPLES = Samples(SampleRows(12))

# Where keys come from.


def test_lines_of_a_pipe_are_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("yes\n\n  No\nq"))
    pipe = Pipe()
    assert [pipe.key() for _ in range(4)] == ["y", "n", "q", ""]
    assert pipe.size() == (80, 24)


class Screen:
    """Both ends of a pseudo-terminal, one of them as stdin."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.far, near = pty.openpty()
        self.near = open(near, "rb", buffering=0)  # noqa: SIM115  # closed below
        monkeypatch.setattr(sys, "stdin", self.near)

    def type(self, keys: bytes) -> None:
        os.write(self.far, keys)
        select.select([self.near], [], [], 10)


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Iterator[Screen]:
    found = Screen(monkeypatch)
    yield found
    found.near.close()


@pytest.mark.parametrize(
    ("typed", "key"),
    [(b"Y", "y"), (b"\x04", ""), (b"\x1b[A", "\x1b[a"), (b"\xc3\x9f", "\u00df"), (b"\xff", "\ufffd")],
)
def test_keys_of_a_terminal(typed: bytes, key: str, screen: Screen) -> None:
    with Terminal().opened():
        screen.type(typed)
        assert Terminal().key() == key


def test_keys_typed_before_a_question_do_not_count(screen: Screen) -> None:
    terminal = Terminal()
    with terminal.opened():
        screen.type(b"yyy")
        terminal.show(["?"])
        screen.type(b"n")
        assert terminal.key() == "n"


def test_the_terminal_is_left_as_it_was(screen: Screen) -> None:
    before = termios.tcgetattr(screen.near)
    with suppress(KeyboardInterrupt), Terminal().opened():
        assert termios.tcgetattr(screen.near) != before
        raise KeyboardInterrupt
    assert termios.tcgetattr(screen.near) == before


def test_a_closed_terminal_is_the_end(screen: Screen) -> None:
    with Terminal().opened():
        os.close(screen.far)
        Terminal().show([])
        assert Terminal().key() == ""


def test_characters_that_the_terminal_lacks_are_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stream)
    Pipe().show(["a…b"])
    stream.flush()
    assert stream.buffer.getvalue() == b"\na?b\n"  # type: ignore[attr-defined]


# A question as lines of a terminal.

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
    assert by_difference(VALUES, 1, 2) == [0, 2, 1]


@pytest.mark.parametrize(("width", "height"), [(80, 24), (40, 12), (20, 5), (200, 60)])
@pytest.mark.parametrize("n_features", [3, 100])
def test_every_size_fits(width: int, height: int, n_features: int) -> None:
    long = ["many words " * 40, "x" * 300, "\u6f22\u5b57" * 100]
    for first, second in ((0, 1), (1, 2)):
        lines = question_lines(rows(n_features, text=long), first, second, width, height)
        assert all(cell_len(line) <= width for line in lines)
        assert len(lines) <= max(height - BESIDE, 4) + 4


def test_long_texts_have_three_lines_cut_between_words() -> None:
    lines = question_lines(rows(text=["many words " * 40, "short", ""]), 0, 1, 80, 24)
    assert [line.split("  ")[0] for line in lines[1:4]] == ["text", "", ""]
    assert lines[1].startswith("text    many words many words many")
    assert lines[3].endswith("…")
    assert lines[4].startswith("height")


# Questions as a file to fill in.

QUESTIONS = [
    Question(0, 2, 0.5004, 0.36812, '1 in 1 (61%) or 3 (37%); 3 is in "3"'),
    Question(1, 2, 0.25, 0.1, "a check: both are in 1"),
]
PLAIN = Rows(np.zeros((3, 1)), ("a",), None, {}, SAMPLES)
NAMED = Rows(np.zeros((3, 1)), ("a",), ["Ann, B.", "Bob\n", "#Eve"], {"text": ["x", "y", ";"]}, SAMPLES)


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


TABLE = Rows(np.arange(24.0).reshape(12, 2), ("a", "b"), None, {}, SAMPLES)
FIT = FitOptions(Path("x.csv"), None, None, None, 3, "conditional", None, 3, 0, "none")


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


class Course:
    """Standings whose questions are all pairs not asked yet, two at a time."""

    def __init__(self, outlook: Outlook | None = None) -> None:
        self.belief = random_belief(0)
        self.outlook = outlook
        self.calls: list[tuple[int, int, bool]] = []

    def __call__(self, rows: Sequence[Row], batch: int, start: np.ndarray | None) -> Standing:
        self.calls.append((len(rows), batch, start is not None))
        seen = {(row.first, row.second) for row in rows}
        left = [(i, j) for i in range(3) for j in range(i + 1, 4) if (i, j) not in seen][:2]
        questions = [Question(i, j, 0.5, 0.1, "") for i, j in left]
        return Standing(self.belief, questions, Share(0.83, 0.74, 0.91), self.outlook, len(rows), 0, 0)


def run(
    path: Path, keys: str, until: float | None = None, outlook: Outlook | None = None
) -> tuple[Script, Course]:
    console, course = Script(keys), Course(outlook)
    file = AnswersFile(path, "asked", SAMPLES)
    options = AskOptions(FIT, 2, until=until, interactive=True)
    try:
        Session(options, TABLE, [], file, console, course).run()
    finally:
        file.close()
    return console, course


def answers(path: Path) -> list[tuple[int, int, int | None]]:
    return [
        (row.first, row.second, None if isinstance(row, Skip) else row.kind) for row in read_answers(path, 12)
    ]


def test_keys_become_rows(tmp_path: Path) -> None:
    console, course = run(tmp_path / "a", "ynsq")
    assert answers(tmp_path / "a") == [(0, 1, 0), (0, 2, 1), (0, 3, None)]
    # a batch is two answers; the next one begins with the solution of the one before
    assert course.calls == [(0, 0, False), (2, 1, True)]
    first = console.screens[1]
    assert first[0] == "question 2, 1 answers so far; saved: 1 and 2 together"
    assert first[1] == "expected right: 83% (74% to 91%) of the labels, at 0 answers"
    assert first[-1].startswith("[y]es")


def test_undo_goes_back_over_batches_and_no_further(tmp_path: Path) -> None:
    console, _ = run(tmp_path / "a", "yyuuuxnyq")
    assert any(text.startswith("no such key") for text in console.said)
    assert answers(tmp_path / "a") == [(0, 1, 1), (0, 2, 0)]
    assert any("nothing of this session to undo" in lines[0] for lines in console.screens)
    assert any("taken back: 1 and 3" in lines[0] for lines in console.screens)


def test_it_ends_where_keys_or_pairs_end(tmp_path: Path) -> None:
    run(tmp_path / "a", "yy")
    assert len(answers(tmp_path / "a")) == 2
    console, _ = run(tmp_path / "b", "ynynynyn")
    assert len(answers(tmp_path / "b")) == 6
    assert console.said[-1].startswith("no pair is left")


@pytest.mark.parametrize(
    ("outlook", "line"),
    [
        (Outlook(40, 92), "to 90%: about 40 to 92 more questions"),
        (Outlook(0, 0), "90% passed: q ends, answers still help"),
        (Outlook(None, None, "it cannot be said"), "to 90%: it cannot be said"),
    ],
)
def test_the_way_to_the_level_is_shown(outlook: Outlook, line: str, tmp_path: Path) -> None:
    console, _ = run(tmp_path / "a", "q", 0.9, outlook)
    assert console.screens[0][2] == line
