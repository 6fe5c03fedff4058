"""Questions for people: one after the other in a terminal, as a file to fill in, as JSON or as a table.

A `Session` asks batch after batch through a `Terminal` or a `Pipe`, and each answer is saved before the next
question; `csv_text`, `to_json` and `table_lines` give one batch at once.
"""

import csv
import io
import os
import select
import shutil
import signal
import sys
import termios
import tty
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count, zip_longest
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from sweep_clustering.pipeline.ask.answers import AnswersFile, ChangedError
from sweep_clustering.pipeline.ask.questions import Question
from sweep_clustering.pipeline.ask.summary import (
    AskOptions,
    Standing,
    accuracy_given,
    confidence,
    outlook_words,
)
from sweep_clustering.pipeline.common import plural
from sweep_clustering.pipeline.fit.inputs import FitInputs
from sweep_clustering.sweeps.annotations.draw import CANNOT, MUST
from sweep_clustering.sweeps.annotations.files import ANNOTATOR, ASKED, SETTLES
from sweep_clustering.sweeps.annotations.rows import FIRST_ROW, Annotation, Row, Skip
from sweep_clustering.sweeps.annotations.samples import Samples
from sweep_clustering.sweeps.data.lines import as_cell

# Where a session shows its questions, and where its keys come from: a terminal, or lines of a pipe.

CTRL_D, ESCAPE = "\x04", "\x1b"

# Bytes.
LONGEST_KEY = 16


class Pipe:
    """Lines on stdout, and lines from stdin, of which the first letter counts."""

    def show(self, lines: Sequence[str]) -> None:
        """Show the lines below the others."""
        click.echo("\n".join(["", *lines]))

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Nothing is to be prepared for keys inside the block."""
        yield

    def key(self) -> str:
        """First letter of the next line that is not blank, a small one; empty at the end of the input."""
        lines = (line.strip() for line in iter(sys.stdin.readline, ""))
        return next((line[0].lower() for line in lines if line), "")


class Terminal(Pipe):
    """A real terminal: each question has the screen for itself, and keys need no Enter.

    Keys typed before a question is on the screen do not count: they were no answer to it.
    """

    def show(self, lines: Sequence[str]) -> None:
        """Clear, and show."""
        with suppress(termios.error):  # the terminal was closed: the next key says so
            termios.tcflush(sys.stdin, termios.TCIFLUSH)
        with suppress(OSError):
            click.clear()
        click.echo("\n".join(lines))

    def key(self) -> str:
        """Wait for a key; for one that sends several characters, such as an arrow, these.

        A signal that comes after Python has looked for one, and before a read begins, does not end that read.
        It leaves a byte in the pipe of `opened`, so that the wait for both ends in any case.
        """
        try:
            sys.stdout.flush()
            while self._woken in select.select([sys.stdin, self._woken], [], [])[0]:
                os.read(self._woken, LONGEST_KEY)
            found = os.read(sys.stdin.fileno(), LONGEST_KEY)
        except OSError:  # the terminal was closed
            return ""
        text = found.decode(errors="replace").lower()
        return "" if text in ("", CTRL_D) else text if text.startswith(ESCAPE) else text[0]

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Hand over keys one by one, without showing them, and wake up for signals, inside the block."""
        handle = sys.stdin.fileno()
        before = termios.tcgetattr(handle)
        self._woken, wake = os.pipe()
        os.set_blocking(wake, False)
        earlier = signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        tty.setcbreak(handle)
        try:
            yield
        finally:
            signal.set_wakeup_fd(earlier)
            os.close(wake)
            os.close(self._woken)
            with suppress(termios.error):
                termios.tcsetattr(handle, termios.TCSADRAIN, before)


# A question as lines of a terminal: two rows of the table side by side.

KEYS = "[y]es together   [n]o, apart   [s]kip   [u]ndo   [q]uit"
QUESTION = "Do these two belong together?"

# Of a column's name, in characters.
WIDEST_NAME = 24

# Lines of a screen that are not of the two rows: three of progress, two blank ones, question and keys, one
# on a wrong key, and where the cursor stands.
BESIDE = 9


@dataclass(frozen=True)
class Rows:
    """What is shown of a table.

    Parameters
    ----------
    values : ndarray of shape (n_samples, n_features)
        Features as they are in the file.
    feature_names : sequence of str
        One for each.
    names : sequence of str or None
        Name of every row.
    columns : dict of str to sequence of str
        Other columns to show, by name.
    samples : Samples
        What rows are called in files: by the index column, else by number.
    """

    values: NDArray[np.float64]
    feature_names: Sequence[str]
    names: Sequence[str] | None
    columns: dict[str, Sequence[str]]
    samples: Samples

    def title(self, sample: int) -> str:
        """Number and name of a row."""
        name = f" {one_line(self.names[sample])}" if self.names else ""
        return f"row {one_line(self.samples.text(sample))}{name}"


def rows_of(options: AskOptions, inputs: FitInputs) -> Rows:
    """What is to be shown of the table of a fit."""
    table = inputs.table
    texts = dict(zip(options.aside, table.aside, strict=True))
    features = table.feature_names or [f"column {number + 1}" for number in range(table.X.shape[1])]
    names = texts[options.names] if options.names else None
    return Rows(table.X, features, names, {column: texts[column] for column in options.show}, inputs.samples)


def question_lines(rows: Rows, first: int, second: int, width: int = 80, height: int = 24) -> list[str]:
    """Two rows side by side: names, texts, then features, those that differ most first.

    Differences are in standard deviations of the feature. What does not fit is cut, or counted.

    Parameters
    ----------
    rows : Rows
        The table.
    first, second : int
        Samples from 0.
    width, height : int
        Of the terminal, in characters.
    """
    height = max(height - BESIDE, 4)
    widest = max(map(cell_len, [*rows.columns, *rows.feature_names]), default=0)
    left = min(widest, WIDEST_NAME, width // 3)
    cell = (width - left - 4) // 2

    def line(name: str, a: str, b: str) -> str:
        return f"{fitted(name, left)}  {fitted(a, cell)}  {fitted(b, cell)}".rstrip()

    lines = [line("", rows.title(first), rows.title(second))]
    for name, texts in rows.columns.items():
        both = zip_longest(_wrapped(texts[first], cell), _wrapped(texts[second], cell), fillvalue="")
        lines += [line("" if number else name, a, b) for number, (a, b) in enumerate(both)]
    # those that differ most first, in standard deviations
    spread, n_features = rows.values.std(axis=0), len(rows.feature_names)
    difference = np.abs(rows.values[first] - rows.values[second]) / np.where(spread > 0, spread, 1.0)
    order = np.argsort(-difference, kind="stable").tolist()
    room = max(height - len(lines), 1)
    shown = order if n_features <= room else order[: max(room - 1, 1)]
    for feature in shown:
        a, b = (f"{rows.values[sample, feature]:.6g}" for sample in (first, second))
        lines.append(line(rows.feature_names[feature], a, b))
    if len(shown) < n_features:
        lines.append(
            fitted(f"and {plural(n_features - len(shown), 'feature')} that differ less", width).rstrip()
        )
    return lines


# Of a text that is shown.
MOST_LINES = 3


def _wrapped(text: str, width: int) -> list[str]:
    """A text in as many lines as it needs, `MOST_LINES` at most; the last one has what is left."""
    lines = [line.plain.rstrip() for line in Text(one_line(text)).wrap(Console(), width)] or [""]
    rest = " ".join(lines[MOST_LINES - 1 :])
    return [*lines[: MOST_LINES - 1], rest] if rest else lines


def fitted(text: str, width: int) -> str:
    """A text of just this width: blanks added, or its end cut and marked."""
    line = Text(one_line(text))
    line.truncate(max(width, 1), overflow="ellipsis", pad=True)
    return line.plain


def one_line(text: str) -> str:
    """A text without line ends, tabs and what a terminal would obey."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


# Questions as a file to fill in, as JSON, and as a table for a terminal.


def csv_text(questions: Sequence[Question], rows: Rows, annotator: str) -> str:
    """A question file: one row for each question, best first, the last column to be filled in.

    Parameters
    ----------
    questions : sequence of Question
        What to ask.
    rows : Rows
        Names and texts that stand beside the numbers of the two samples.
    annotator : str
        Who will answer; named in a column unless it is `ASKED`.
    """
    texts = {**({"name": rows.names} if rows.names else {}), **rows.columns}
    beside = [f"{column}_{side}" for column in texts for side in "ij"]
    named = {ANNOTATOR: as_cell(annotator)} if annotator != ASKED else {}
    # so that it is read as it was written, whatever other files count from
    marks = {FIRST_ROW: rows.samples.first_row} if rows.samples.are_written_as_numbers else {}
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    told = "i", "j", "together", "information", SETTLES
    writer.writerow([*told, *map(as_cell, beside), *marks, *named, "answer"])
    for each in questions:
        pair = each.first, each.second
        cells = [as_cell(one_line(column[sample])) for column in texts.values() for sample in pair]
        shares = f"{each.together:.3f}", f"{each.information:.4f}"
        writer.writerow(
            [
                *map(rows.samples.cell, pair),
                *shares,
                as_cell(each.settles),
                *cells,
                *marks.values(),
                *named.values(),
                "",
            ]
        )
    return text.getvalue()


def to_json(options: AskOptions, standing: Standing, samples: Samples) -> dict[str, Any]:
    """Questions and where the labels stand, as plain values.

    Samples are numbers of rows, or their names where they have names; labels count from 0.
    """
    belief, outlook = standing.belief, standing.outlook
    until = None
    if outlook is not None:
        until = {"level": options.until, "passed": outlook.high == 0, "reason": outlook.reason}
        until |= {"questions_low": outlook.low, "questions_high": outlook.high}
    return {
        "questions": [
            {"i": samples.identifier(each.first), "j": samples.identifier(each.second)}
            | {name: getattr(each, name) for name in ("together", "information", "settles")}
            for each in standing.questions
        ],
        "strategy": options.strategy,
        "model": "conditional",
        "covariance": belief.covariance,
        "answers": {"yes": standing.n_yes, "no": standing.n_no, "skipped": standing.n_skipped},
        "accuracy": belief.accuracy,
        "accuracy_given": accuracy_given(options),
        "confidence": standing.share._asdict(),
        "until": until,
        "labels": belief.labels.tolist(),
        "index": list(map(samples.identifier, range(len(belief.labels)))),
    }


def table_lines(questions: Sequence[Question], rows: Rows) -> Iterator[str]:
    """Questions as lines of a terminal, best first."""
    yield f"{'i':<16}  {'j':<16}  together   nats  what the answer would settle"
    for each in questions:
        i, j = (fitted(rows.title(k).removeprefix("row "), 16) for k in (each.first, each.second))
        yield f"{i}  {j}  {each.together:8.2f}  {each.information:5.3f}  {each.settles}"


# What each key answers, and how that is said.
KINDS = {"y": (MUST, "together"), "n": (CANNOT, "apart"), "s": (None, "skipped")}
NOTHING_LEFT = "no pair is left that was not asked; --strategy again asks those in doubt once more"

# From all answers, the number of the batch, and the solution before it: `pipeline.ask.summary.stand`.
Stand = Callable[[Sequence[Row], int, NDArray[np.int16] | None], Standing]


@dataclass
class Session:
    """Asks until somebody quits, or no question is left.

    Parameters
    ----------
    options : AskOptions
        Of the command.
    table : Rows
        What is shown.
    rows : list of Annotation or Skip
        Answers before the session, and then those of it as well.
    file : AnswersFile
        Where answers go.
    console : Pipe
        Where questions go, and keys come from.
    stand : callable
        Fits and chooses.
    done : list of Question
        Those of this session that were answered or skipped.
    last : str
        What became of the last key, for the head of the next question.
    """

    options: AskOptions
    table: Rows
    rows: list[Row]
    file: AnswersFile
    console: Pipe
    stand: Stand
    done: list[Question] = field(default_factory=list)
    last: str = ""

    def run(self) -> None:
        """Ask batch after batch.

        Raises
        ------
        KeyboardInterrupt
            At Ctrl-C.
        OSError
            If the disk, or the terminal, fails; answers that were saved stay.
        """
        start: NDArray[np.int16] | None = None
        for batch in count():
            click.echo(f"choosing the next {plural(self.options.count, 'question')} ...")
            standing = self.stand(self.rows, batch, start)
            if not standing.questions:
                click.echo(NOTHING_LEFT)
                return
            queue = deque(standing.questions)
            while queue:
                key = self._key(queue[0], standing)
                if key in ("", "q"):
                    return
                if key == "u":
                    queue.extendleft(self._undo())
                else:
                    self._answer(queue.popleft(), *KINDS[key])
            start = standing.belief.labels

    def _key(self, question: Question, standing: Standing) -> str:
        """Show a question, and wait for one of the keys."""
        lines = question_lines(
            self.table, question.first, question.second, *shutil.get_terminal_size((80, 24))
        )
        self.console.show([*self._progress(standing), "", *lines, "", QUESTION, KEYS])
        while (key := self.console.key()) not in ("", *KINDS, "u", "q"):
            click.echo(f"no such key: {KEYS}")
        return key

    def _progress(self, standing: Standing) -> Iterator[str]:
        n_answers = sum(isinstance(row, Annotation) for row in self.rows)
        yield f"question {len(self.done) + 1}, {plural(n_answers, 'answer')} so far{self.last}"
        answers = plural(standing.n_answers, "answer")
        yield f"expected right: {confidence(standing)} of the labels, at {answers}"
        if standing.outlook is not None:
            yield f"to {self.options.until:.0%}: {outlook_words(standing.outlook)}"

    def _answer(self, question: Question, kind: int | None, said: str) -> None:
        first, second = question.first, question.second
        self.file.add(first, second, kind)
        if kind is None:
            self.rows.append(Skip(first, second))
        else:
            who = self.options.annotator
            self.rows.append(Annotation(self.file.path, 0, first, second, kind, 1.0, who))
        self.done.append(question)
        self.last = f"; saved: {self._names(question)} {said}"

    def _names(self, question: Question) -> str:
        return " and ".join(map(self.table.samples.text, (question.first, question.second)))

    def _undo(self) -> list[Question]:
        """Take the last answer back; its question, to be asked again."""
        try:
            self.file.undo()
        except (ChangedError, IndexError) as error:
            self.last = f"; not undone: {error}"
            return []
        self.rows.pop()
        question = self.done.pop()
        self.last = f"; taken back: {self._names(question)}"
        return [question]
