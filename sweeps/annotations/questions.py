"""Question files: tables of pairs with a header, whose answers a person or a script fills in."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sweeps.annotations.draw import CANNOT, MUST
from sweeps.annotations.links import Annotation, sample_pair
from sweeps.annotations.samples import Samples
from sweeps.data.lines import PROBLEMS_SHOWN, Line, Lines, of_cell, shortened, to_number
from sweeps.data.own.rows import Content
from sweeps.errors import InputError, Problem, collecting, did_you_mean

NEEDED = ("i", "j", "answer")
"""Columns that a header has if its file is one of questions; others are not read, but for the next two."""

ANNOTATOR, ACCURACY = "annotator", "accuracy"

ASKED = "asked"
"""Annotator of answers that name none."""

SEPARATORS = (",", ";", "\t")

ANSWERS = {
    **dict.fromkeys(("yes", "ye", "y", "must", "m", "+", "1", "1.0", "true"), MUST),
    **dict.fromkeys(("no", "n", "cannot", "c", "-", "0", "0.0", "false"), CANNOT),
}
SKIPS = ("skip", "ski", "sk", "s")
WORDS = "yes or no (must or cannot, y or n, 1 or 0, + or -), skip, or nothing"


@dataclass(frozen=True, slots=True)
class Skip:
    """A pair that somebody was shown and did not answer.

    Parameters
    ----------
    first, second : int
        The two samples, from 0.
    """

    first: int
    second: int


Row = Annotation | Skip


def separator_of(header: str) -> str | None:
    """What separates the columns of a question file, of its first line; None if it is no such header."""
    for separator in SEPARATORS:
        if set(NEEDED) <= set(_names(header, separator)):
            return separator
    return None


def columns_of(header: str) -> list[str]:
    """Names of the columns in a header, in small letters.

    Raises
    ------
    ValueError
        If it is no header of a question file.
    """
    separator = separator_of(header)
    if separator is None:
        raise ValueError(f"{header[:60]!r} is no header of a question file")
    return _names(header, separator)


def _names(header: str, separator: str) -> list[str]:
    return [cell.lower() for cell in _cells(header, separator)]


def read_questions(lines: Lines, samples: Samples) -> list[Row]:
    """Read the answers of a question file, and what was skipped.

    A row without an answer says nothing. Answers are words of `ANSWERS`, skipped pairs words of `SKIPS`, in
    any case. The column `annotator` names who answered, the column `accuracy` the probability that the
    answer is right; without a name it is `ASKED`. A last line without a line end may break off: what is
    missing of it was never answered.

    Parameters
    ----------
    lines : Lines
        All lines of the file, the header first.
    samples : Samples
        What the columns i and j refer to.

    Returns
    -------
    list of Annotation or Skip
        In the order of the rows.

    Raises
    ------
    InputError
        With every problem of every row.
    """
    header = lines.text(0)
    reader = _Reader(lines.path, separator_of(header) or ",", columns_of(header), samples)
    problems = list(_header_problems(lines[0], reader.columns))
    if problems:
        raise InputError(problems)
    rows: list[Row] = []
    content = Content(lines.path, lines.content, reader.separator)
    breaks_off = not lines.content.endswith(b"\n")
    last = lines.content.rfind(b"\n") + 1
    number, before = 1, 0
    found_rows = content.rows()
    next(found_rows)
    try:
        for cells, offset, _ in found_rows:
            number += lines.content.count(b"\n", before, offset)
            before = offset
            found: list[Problem] = []
            with collecting(found):
                row = reader.row(number, cells, may_break_off=breaks_off and offset >= last)
                rows += [] if row is None else [row]
            problems += found if len(problems) < PROBLEMS_SHOWN else problems[-1:] * len(found)
    except InputError as error:
        # a quote that is not closed by the last line: what broke off was never answered
        if not (breaks_off and error.problems[0].where == content.line(last)):
            problems += error.problems
    if problems:
        raise InputError(shortened(lines.path, problems))
    return rows


def _header_problems(line: Line, columns: Sequence[str]) -> list[Problem]:
    known = (*NEEDED, ANNOTATOR, ACCURACY)
    twice = [name for name in known if columns.count(name) > 1]
    return [Problem(line.where, f"several columns {name!r}", "one of each name") for name in twice]


@dataclass(frozen=True)
class _Reader:
    """Reads the rows of one file."""

    path: Path
    separator: str
    columns: list[str]
    samples: Samples

    def row(self, number: int, cells: list[str], *, may_break_off: bool) -> Row | None:
        """What a row says, which begins in a line; None if it has no answer."""
        where = f"{self.path}, line {number}"
        cells = [cell.strip() for cell in cells]
        if not any(cells):  # as spreadsheets leave them
            return None
        if len(cells) != len(self.columns):
            if may_break_off and len(cells) < len(self.columns):
                return None
            expected = f"{len(self.columns)} as in the header"
            raise InputError([Problem(where, f"{len(cells)} cells", expected)])
        cell = dict(zip(self.columns, cells, strict=True))
        answer = of_cell(cell["answer"]).lower()
        problems: list[Problem] = []
        pair, kind, accuracy = (0, 0), ANSWERS.get(answer), None
        with collecting(problems):
            i, j = map(self.samples.named_by, (cell["i"], cell["j"]))
            pair = sample_pair(i, j, self.samples, where)
        with collecting(problems):
            accuracy = accuracy_of(cell.get(ACCURACY, ""), where)
        if kind is None and answer and answer not in SKIPS:
            hint = did_you_mean(answer, ("yes", "no", "must", "cannot", "skip"))
            problems.append(Problem(where, f"answer {cell['answer'][:60]!r}", WORDS, hint))
        if problems:
            raise InputError(problems)
        if kind is None:
            return Skip(*pair) if answer else None
        name = of_cell(cell.get(ANNOTATOR, "")) or ASKED
        return Annotation(self.path, number, *pair, kind, 1.0, name, accuracy)


def accuracy_of(cell: str, where: str) -> float | None:
    """Probability that one annotation is right; None of an empty cell.

    Raises
    ------
    InputError
        If it is none.
    """
    if not cell:
        return None
    accuracy = to_number(cell)
    if accuracy is None or not 0 < accuracy <= 1:
        raise InputError([Problem(where, f"accuracy {cell[:60]}", "a number above 0, at most 1")])
    return accuracy


def _cells(text: str, separator: str) -> list[str]:
    """Cells of a line. Unlike those of a table, a cell may hold any of the other separators."""
    try:
        return [cell.strip() for cell in next(csv.reader([text], delimiter=separator, skipinitialspace=True))]
    except csv.Error:  # a cell beyond the reader's limit
        return [text]
