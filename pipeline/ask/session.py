"""Questions for people: one after the other in a terminal, as a file to fill in, as JSON or as a table.

A `Session` asks batch after batch through a `Terminal` or a `Pipe`, and saves each answer before the next
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

from sweep_clustering.pipeline.ask import summary
from sweep_clustering.pipeline.ask.answers import AnswersFile, ChangedError
from sweep_clustering.pipeline.ask.questions import Question
from sweep_clustering.pipeline.common import plural
from sweep_clustering.pipeline.fit.inputs import FitInputs
from sweep_clustering.sweeps.annotations.draw import CANNOT, MUST
from sweep_clustering.sweeps.annotations.files import ANNOTATOR, SETTLES
from sweep_clustering.sweeps.annotations.rows import FIRST_ROW, NO_ANNOTATOR, Annotation, Row, Samples, Skip
from sweep_clustering.sweeps.data.lines import as_cell

CTRL_D = "\x04"
ESCAPE = "\x1b"

# Most bytes that one key sends.
LONGEST_KEY = 16


class Pipe:
    """Questions as lines on stdout, and answers as lines from stdin, of which the first letter counts."""

    def show(self, lines: Sequence[str]) -> None:
        """Show the lines below earlier ones."""
        click.echo("\n".join(["", *lines]))

    @contextmanager
    def single_keys(self) -> Iterator[None]:
        """Prepare nothing: lines need no preparation."""
        yield

    def key(self) -> str:
        """Return the first letter of the next line that is not blank, in lower case; empty at the end."""
        lines = (line.strip() for line in iter(sys.stdin.readline, ""))
        return next((line[0].lower() for line in lines if line), "")


class Terminal(Pipe):
    """A real terminal: each question has the screen for itself, and keys need no Enter.

    Keys typed before a question is on the screen do not count.
    """

    def show(self, lines: Sequence[str]) -> None:
        """Clear the screen, and show the lines."""
        with suppress(termios.error):  # the terminal was closed, which `key` reports
            termios.tcflush(sys.stdin, termios.TCIFLUSH)
        with suppress(OSError):
            click.clear()
        click.echo("\n".join(lines))

    def key(self) -> str:
        """Wait for a key, and return it; for one that sends several characters, such as an arrow, these.

        A signal that comes after Python has looked for one, and before a read begins, does not end that read.
        It leaves a byte in the pipe of `single_keys`, so that waiting for both always ends.
        """
        try:
            sys.stdout.flush()
            while self._woken in select.select([sys.stdin, self._woken], [], [])[0]:
                os.read(self._woken, LONGEST_KEY)
            data = os.read(sys.stdin.fileno(), LONGEST_KEY)
        except OSError:  # the terminal was closed
            return ""
        text = data.decode(errors="replace").lower()
        return "" if text in ("", CTRL_D) else text if text.startswith(ESCAPE) else text[0]

    @contextmanager
    def single_keys(self) -> Iterator[None]:
        """Hand over keys one by one, without showing them, and wake up for signals, inside the block."""
        handle = sys.stdin.fileno()
        old_settings = termios.tcgetattr(handle)
        self._woken, wake = os.pipe()
        os.set_blocking(wake, False)
        old_wakeup = signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        tty.setcbreak(handle)
        try:
            yield
        finally:
            signal.set_wakeup_fd(old_wakeup)
            os.close(wake)
            os.close(self._woken)
            with suppress(termios.error):
                termios.tcsetattr(handle, termios.TCSADRAIN, old_settings)


# A question as lines of a terminal: two rows of the table side by side.

KEYS = "[y]es together   [n]o, apart   [s]kip   [u]ndo   [q]uit"
QUESTION = "Do these two belong together?"

# Most characters of a column's name.
WIDEST_NAME = 24

# Lines of a screen beside those of the two rows: three of progress, two blank ones, question and keys, one
# on a wrong key, and that of the cursor.
OTHER_LINES = 9


@dataclass(frozen=True)
class Rows:
    """Contents of a table that questions show."""

    # Features (n_samples, n_features) as they are in the file.
    values: NDArray[np.float64]
    feature_names: Sequence[str]
    # The name of every row.
    names: Sequence[str] | None
    # Other columns, by name.
    columns: dict[str, Sequence[str]]
    # Names of rows in files: from the index column, else numbers.
    samples: Samples

    def title(self, sample: int) -> str:
        """Return number and name of a row."""
        name = f" {one_line(self.names[sample])}" if self.names else ""
        return f"row {one_line(self.samples.text(sample))}{name}"


def rows_of(options: summary.AskOptions, inputs: FitInputs) -> Rows:
    """Return the contents to show of the table of a fit."""
    table = inputs.table
    texts = dict(zip(options.aside, table.aside, strict=True))
    features = table.feature_names or [f"column {number + 1}" for number in range(table.X.shape[1])]
    names = texts[options.names] if options.names else None
    return Rows(table.X, features, names, {column: texts[column] for column in options.show}, inputs.samples)


def question_lines(rows: Rows, first: int, second: int, width: int = 80, height: int = 24) -> list[str]:
    """Return two rows side by side: names, texts, then features, those that differ most first.

    Differences are in standard deviations of the feature. The end of a long text is cut off, and features
    beyond the height of the terminal, in characters, are counted.
    """
    height = max(height - OTHER_LINES, 4)
    widest = max(map(cell_len, [*rows.columns, *rows.feature_names]), default=0)
    name_width = min(widest, WIDEST_NAME, width // 3)
    cell_width = (width - name_width - 4) // 2

    def line(name: str, a: str, b: str) -> str:
        return f"{fitted(name, name_width)}  {fitted(a, cell_width)}  {fitted(b, cell_width)}".rstrip()

    lines = [line("", rows.title(first), rows.title(second))]
    for name, texts in rows.columns.items():
        pairs = zip_longest(
            _wrapped(texts[first], cell_width), _wrapped(texts[second], cell_width), fillvalue=""
        )
        lines += [line("" if number else name, a, b) for number, (a, b) in enumerate(pairs)]
    spread, n_features = rows.values.std(axis=0), len(rows.feature_names)
    difference = np.abs(rows.values[first] - rows.values[second]) / np.where(spread > 0, spread, 1.0)
    order = np.argsort(-difference, kind="stable").tolist()
    n_free = max(height - len(lines), 1)
    visible = order if n_features <= n_free else order[: max(n_free - 1, 1)]
    for feature in visible:
        a, b = (f"{rows.values[sample, feature]:.6g}" for sample in (first, second))
        lines.append(line(rows.feature_names[feature], a, b))
    if len(visible) < n_features:
        lines.append(
            fitted(f"and {plural(n_features - len(visible), 'feature')} that differ less", width).rstrip()
        )
    return lines


# Most lines of a text.
MOST_LINES = 3


def _wrapped(text: str, width: int) -> list[str]:
    """Return a text in as many lines as it needs, `MOST_LINES` at most; the last one has the rest."""
    lines = [line.plain.rstrip() for line in Text(one_line(text)).wrap(Console(), width)] or [""]
    last_line = " ".join(lines[MOST_LINES - 1 :])
    return [*lines[: MOST_LINES - 1], last_line] if last_line else lines


def fitted(text: str, width: int) -> str:
    """Return a text of exactly this width: padded with blanks, or with its end cut off and marked."""
    line = Text(one_line(text))
    line.truncate(max(width, 1), overflow="ellipsis", pad=True)
    return line.plain


def one_line(text: str) -> str:
    """Return a text without line ends, tabs and control characters, which a terminal would obey."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def csv_text(questions: Sequence[Question], rows: Rows, annotator: str) -> str:
    """Return a question file: one row for each question, best first, the last column to be filled in.

    Names and texts of rows stand beside the numbers of the two samples; the annotator has a column unless it
    is `NO_ANNOTATOR`.
    """
    texts = {**({"name": rows.names} if rows.names else {}), **rows.columns}
    text_columns = [f"{column}_{side}" for column in texts for side in "ij"]
    annotators = {ANNOTATOR: as_cell(annotator)} if annotator != NO_ANNOTATOR else {}
    # the first row makes the numbers unambiguous, whatever other files count from
    marks = {FIRST_ROW: rows.samples.first_row} if rows.samples.are_written_as_numbers else {}
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    columns = "i", "j", "together", "information", SETTLES
    writer.writerow([*columns, *map(as_cell, text_columns), *marks, *annotators, "answer"])
    for question in questions:
        pair = question.first, question.second
        numbers = f"{question.probability:.3f}", f"{question.information:.4f}"
        cells = [as_cell(one_line(column[sample])) for column in texts.values() for sample in pair]
        row = [*map(rows.samples.cell, pair), *numbers, as_cell(question.settles), *cells]
        writer.writerow([*row, *marks.values(), *annotators.values(), ""])
    return text.getvalue()


def to_json(options: summary.AskOptions, assessment: summary.Assessment, samples: Samples) -> dict[str, Any]:
    """Return questions and the state of the labels, as plain values.

    Samples are numbers of rows, or their names if they have names; labels count from 0.
    """
    belief, outlook = assessment.belief, assessment.outlook
    aim = None
    if outlook is not None:
        aim = {"level": options.until, "passed": outlook.high == 0, "reason": outlook.reason}
        aim |= {"questions_low": outlook.low, "questions_high": outlook.high}
    return {
        "questions": [
            {
                "i": samples.identifier(question.first),
                "j": samples.identifier(question.second),
                "together": question.probability,
                "information": question.information,
                "settles": question.settles,
            }
            for question in assessment.questions
        ],
        "strategy": assessment.strategy,
        "model": "conditional",
        "covariance": belief.covariance,
        "n_clusters": belief.n_clusters,
        "answers": {"yes": assessment.n_yes, "no": assessment.n_no, "skipped": assessment.n_skipped},
        "accuracy": belief.accuracy,
        "accuracy_given": summary.has_accuracy(options),
        "confidence": assessment.share._asdict(),
        "until": aim,
        "labels": belief.labels.tolist(),
        "index": list(map(samples.identifier, range(len(belief.labels)))),
    }


def table_lines(questions: Sequence[Question], rows: Rows) -> Iterator[str]:
    """Yield questions as lines of a terminal, best first."""
    yield f"{'i':<16}  {'j':<16}  together   nats  what the answer would settle"
    for question in questions:
        i, j = (fitted(rows.title(k).removeprefix("row "), 16) for k in (question.first, question.second))
        yield f"{i}  {j}  {question.probability:8.2f}  {question.information:5.3f}  {question.settles}"


# The kind of annotation of each key, and its word in messages.
KINDS = {"y": (MUST, "together"), "n": (CANNOT, "apart"), "s": (None, "skipped")}
NOTHING_LEFT = "no pair is left that was not asked; --strategy again asks those in doubt once more"

# Takes all answers, the number of the batch, and the solution before it: `pipeline.ask.summary.assess`.
Assess = Callable[[Sequence[Row], int, summary.Labels | None], summary.Assessment]


@dataclass
class Session:
    """A session that asks until somebody quits, or no question is left."""

    options: summary.AskOptions
    table: Rows
    # The answers before the session, and then those of the session as well.
    rows: list[Row]
    # File for the answers.
    file: AnswersFile
    # It shows questions, and gives keys.
    console: Pipe
    assess: Assess
    # Questions of this session that were answered or skipped.
    finished_questions: list[Question] = field(default_factory=list)
    # The result of the last key, for the head of the next question.
    last: str = ""

    def run(self) -> None:
        """Ask batch after batch; Ctrl-C is a `KeyboardInterrupt`.

        An `OSError` says that the disk, or the terminal, fails; saved answers stay.
        """
        start: summary.Labels | None = None
        for batch in count():
            click.echo(f"choosing the next {plural(self.options.count, 'question')} ...")
            assessment = self.assess(self.rows, batch, start)
            if not assessment.questions:
                click.echo(NOTHING_LEFT)
                return
            queue = deque(assessment.questions)
            while queue:
                key = self._key(queue[0], assessment)
                if key in ("", "q"):
                    return
                if key == "u":
                    queue.extendleft(self._undo())
                else:
                    self._answer(queue.popleft(), *KINDS[key])
            start = assessment.belief.labels

    def _key(self, question: Question, assessment: summary.Assessment) -> str:
        """Show a question, and return one of the keys."""
        lines = question_lines(
            self.table, question.first, question.second, *shutil.get_terminal_size((80, 24))
        )
        self.console.show([*self._progress(assessment), "", *lines, "", QUESTION, KEYS])
        while (key := self.console.key()) not in ("", *KINDS, "u", "q"):
            click.echo(f"no such key: {KEYS}")
        return key

    def _progress(self, assessment: summary.Assessment) -> Iterator[str]:
        n_answers = sum(isinstance(row, Annotation) for row in self.rows)
        yield f"question {len(self.finished_questions) + 1}, {plural(n_answers, 'answer')} so far{self.last}"
        answers = plural(assessment.n_answers, "answer")
        yield f"expected right: {summary.confidence(assessment)} of the labels, at {answers}"
        if assessment.outlook is not None:
            yield f"to {self.options.until:.0%}: {summary.outlook_words(assessment.outlook)}"

    def _answer(self, question: Question, kind: int | None, word: str) -> None:
        first, second = question.first, question.second
        self.file.add(first, second, kind)
        if kind is None:
            self.rows.append(Skip(first, second, self.options.annotator))
        else:
            annotator = self.options.annotator
            self.rows.append(Annotation(self.file.path, 0, first, second, kind, 1.0, annotator))
        self.finished_questions.append(question)
        self.last = f"; saved: {self._names(question)} {word}"

    def _names(self, question: Question) -> str:
        return " and ".join(map(self.table.samples.text, (question.first, question.second)))

    def _undo(self) -> list[Question]:
        """Take the last answer back, and return its question, to be asked again."""
        try:
            self.file.undo()
        except (ChangedError, IndexError) as error:
            self.last = f"; not undone: {error}"
            return []
        self.rows.pop()
        question = self.finished_questions.pop()
        self.last = f"; taken back: {self._names(question)}"
        return [question]
