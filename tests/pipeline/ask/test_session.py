"""A session, key by key, with questions that are made up."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import numpy as np
import pytest
from beliefs import random_belief

from pipeline.ask.answers import AnswersFile
from pipeline.ask.options import AskOptions
from pipeline.ask.outlook import Outlook
from pipeline.ask.questions import Question
from pipeline.ask.screen import Rows
from pipeline.ask.session import Session
from pipeline.ask.state import Standing
from pipeline.ask.terminal import Size
from pipeline.asking.estimate import Share
from pipeline.fit.inputs import FitOptions
from sweeps.annotations.files import Row, Skip, read_answers

TABLE = Rows(np.arange(24.0).reshape(12, 2), ("a", "b"), None, {})
FIT = FitOptions(Path("x.csv"), None, None, None, 3, "conditional", None, 3, 0, "none")


class Script:
    """A console that types keys, and keeps what it was shown."""

    def __init__(self, keys: str) -> None:
        self.keys = list(keys)
        self.screens: list[list[str]] = []
        self.said: list[str] = []

    def size(self) -> Size:
        return Size(80, 24)

    def show(self, lines: Sequence[str]) -> None:
        self.screens.append(list(lines))

    def say(self, text: str) -> None:
        self.said.append(text)

    def opened(self) -> AbstractContextManager[None]:
        return nullcontext()

    def key(self) -> str:
        if not self.keys:
            return ""
        key = self.keys.pop(0)
        if key == "^":
            raise KeyboardInterrupt
        return key


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
    file = AnswersFile(path)
    options = AskOptions(FIT, 2, "information", None, (), None, until, "asked", True, False)
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
    console, _ = run(tmp_path / "a", "yyuuunyq")
    assert answers(tmp_path / "a") == [(0, 1, 1), (0, 2, 0)]
    assert any("nothing of this session to undo" in lines[0] for lines in console.screens)
    assert any("taken back: 1 and 3" in lines[0] for lines in console.screens)


def test_other_keys_are_refused(tmp_path: Path) -> None:
    console, _ = run(tmp_path / "a", "x yq")
    assert sum(text.startswith("no such key") for text in console.said) == 2
    assert len(answers(tmp_path / "a")) == 1


def test_it_ends_where_keys_or_pairs_end(tmp_path: Path) -> None:
    run(tmp_path / "a", "yy")
    assert len(answers(tmp_path / "a")) == 2
    console, _ = run(tmp_path / "b", "ynynynyn")
    assert len(answers(tmp_path / "b")) == 6
    assert console.said[-1].startswith("no pair is left")


def test_an_interrupt_leaves_what_was_answered(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "a", "yn^")
    assert len(answers(tmp_path / "a")) == 2


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
