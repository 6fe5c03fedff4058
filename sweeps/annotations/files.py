"""Annotations in files: links, annotations of several annotators, answers to questions.

`read_links`, `read_annotations` and `read_questions` read them, `read_pool` those that cells draw from;
`Samples` is what their i and j refer to.
"""

from __future__ import annotations

import csv
import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kernels.settings import LARGEST_WEIGHT, LEAST_WEIGHT, WEIGHTS
from sweeps.annotations.draw import CANNOT, MOST_ANNOTATIONS, MUST
from sweeps.data.lines import (
    CONTROL,
    PROBLEMS_SHOWN,
    Line,
    Lines,
    as_cell,
    of_cell,
    read_lines,
    shortened,
    split_cells,
    to_number,
)
from sweeps.data.table import SampleRows
from sweeps.data.text import Content
from sweeps.errors import InputError, Problem, collecting, did_you_mean, given

# How annotation files name samples: by the rows of the table, or by the names it gives them.

# as long as int64 can hold; without ASCII, digits of other scripts would count as well
WHOLE = re.compile(r"-?\d{1,18}", re.ASCII)

MOST_COMPARED = 10_000
"""Names that a misspelt one is compared with."""

DROPPED = 'it has an empty cell, and missing = "drop" leaves it out'


class Samples:
    """What texts stand for the samples of a table.

    A text that is the name of a row stands for that row. Any other is the number of a row of the file from 1,
    unless a name of the table is a whole number, too: then numbers are names alone.

    Parameters
    ----------
    rows : SampleRows
        The rows of the file that samples come from, with their names if there are any.
    """

    def __init__(self, rows: SampleRows) -> None:
        self._rows = rows
        self._numbered = not any(map(WHOLE.fullmatch, rows.names))

    @classmethod
    def of(cls, samples: Samples | int) -> Samples:
        """Samples that are all rows of a file, without names, where only their number is told."""
        return samples if isinstance(samples, Samples) else cls(SampleRows(samples))

    def position(self, cell: str, where: str) -> int:
        """Position of a sample from 0.

        Parameters
        ----------
        cell : str
            Name, or number of a row from 1.
        where : str
            For messages.

        Raises
        ------
        InputError
            If it is none of the samples.
        """
        row = self._row(cell, where)
        position = row if self._rows.kept is None else self._positions.get(row)
        if position is None:
            raise InputError([Problem(where, f"sample {cell[:60]!r}", "a row that is used", DROPPED)])
        return position

    def text(self, position: int) -> str:
        """Name of a sample, or the number of its row from 1."""
        kept = self._rows.kept
        row = position if kept is None else int(kept[position])
        return self._rows.names[row] if self._rows.names else str(row + 1)

    def told(self, position: int) -> str | int:
        """The same, a number as one."""
        text = self.text(position)
        return text if self.has_names else int(text)

    def cell(self, position: int) -> str:
        """The same for a cell of a spreadsheet, of which `named_by` finds the name."""
        text = self.text(position)
        if CONTROL.search(text) and self._numbered:
            kept = self._rows.kept
            return str((position if kept is None else int(kept[position])) + 1)
        return as_cell(text)

    def named_by(self, cell: str) -> str:
        """Name that stands in a cell of a spreadsheet, where that is one of a sample; else the cell."""
        plain = of_cell(cell)
        return plain if plain in self._by_name else cell

    @property
    def has_names(self) -> bool:
        """Whether samples have names."""
        return bool(self._rows.names)

    def may_be(self, cell: str) -> bool:
        """Whether a text may stand for a sample, of this table or of a larger one."""
        return self.has_names or WHOLE.fullmatch(cell) is not None

    @cached_property
    def _by_name(self) -> dict[str, int]:
        return {name: row for row, name in enumerate(self._rows.names)}

    @cached_property
    def _positions(self) -> dict[int, int]:
        kept = np.arange(0) if self._rows.kept is None else self._rows.kept
        return {row: position for position, row in enumerate(kept.tolist())}

    def _row(self, cell: str, where: str) -> int:
        found = self._by_name.get(cell)
        if found is not None:
            return found
        if self._numbered and WHOLE.fullmatch(cell) and 1 <= int(cell) <= self._rows.n_rows:
            return int(cell) - 1
        if self._rows.names:
            hint = did_you_mean(cell, self._rows.names[:MOST_COMPARED])
            expected = "the name of a row" + (f", or 1 to {self._rows.n_rows}" if self._numbered else "")
            raise InputError([Problem(where, f"sample {cell[:60]!r}", expected, hint)])
        number = str(int(cell)) if WHOLE.fullmatch(cell) else repr(cell[:60])
        expected, hint = f"1 to {self._rows.n_rows}", "samples are counted from 1"
        raise InputError([Problem(where, f"sample {number}", expected, hint)])


# Link files: must-links or cannot-links as `i j weight` lines.

# The adjacency of a self pair counts both ends (docs/model.md, eq. (3)), and so do link files.
SELF_PAIR_WEIGHT = 2.0
LINKS = "links"
"""Annotator of all link files: they name none."""


@dataclass(frozen=True, slots=True)
class Annotation:
    """A line of a link file or of an annotation file.

    Parameters
    ----------
    file : Path
        Where it was read.
    line : int
        Number of the line, from 1.
    first, second : int
        The two samples, from 0.
    kind : int
        `sweeps.annotations.draw.MUST` or `CANNOT`.
    count : float
        Number of annotations it represents.
    annotator : str
        Who made it.
    accuracy : float or None
        Probability that this one is right, if the line says so.
    """

    file: Path
    line: int
    first: int
    second: int
    kind: int
    count: float
    annotator: str = LINKS
    accuracy: float | None = None

    @property
    def is_self_pair(self) -> bool:
        """Whether it pairs a sample with itself."""
        return self.first == self.second

    @property
    def weight(self) -> float:
        """Weight as the file has it: a self pair carries 2 per annotation."""
        return self.count * _unit(self.is_self_pair)


def read_links(path: Path, samples: Samples | int, kind: int) -> list[Annotation]:
    """Read a link file.

    A line holds two sample numbers from 1, or names of samples, and a weight, separated by blanks, commas or
    tabs. Without a weight the line is one annotation. A self pair carries weight 2 per annotation. `#` begins
    a comment. Lines of the same pair, in either order, add up when they are laid out for the kernels. An
    empty file is an empty annotation graph.

    Parameters
    ----------
    path : Path
        The file.
    samples : Samples or int
        What the first two cells refer to; or how many samples there are.
    kind : int
        `sweeps.annotations.draw.MUST` or `CANNOT`, what the file holds.

    Returns
    -------
    list of Annotation
        In the order of the lines.

    Raises
    ------
    InputError
        With every line that is not a link.
    """
    named = Samples.of(samples)
    return each_line(read_lines(path), lambda line: _link(line, path, named, kind))


def each_line(lines: Lines, parse: Callable[[Line], Annotation]) -> list[Annotation]:
    """Annotations of all lines of a file.

    Parameters
    ----------
    lines : Lines
        Of the file.
    parse : callable
        From a line to its annotation; raises InputError for an invalid line.

    Raises
    ------
    InputError
        With the problems of every line.
    """
    annotations: list[Annotation] = []
    problems: list[Problem] = []
    for line in lines:
        found: list[Problem] = []
        with collecting(found):
            annotations.append(parse(line))
        # Of those beyond the first only how many there are matters, and a file may have millions.
        problems += found if len(problems) < PROBLEMS_SHOWN else problems[-1:] * len(found)
    if problems:
        raise InputError(shortened(lines.path, problems))
    return annotations


def _link(line: Line, path: Path, samples: Samples, kind: int) -> Annotation:
    text = without_comment(line)
    cells = split_cells(text)
    if len(cells) not in (2, 3) or not all(map(samples.may_be, cells[:2])):
        raise InputError([Problem(line.where, repr(text[:60]), "two sample numbers and a weight")])
    pair = sample_pair(cells[0], cells[1], samples, line.where)
    count = annotation_count(cells[2], pair, line.where) if len(cells) == 3 else 1.0
    return Annotation(path, line.number, *pair, kind, count)


def without_comment(line: Line) -> str:
    """Text of a line up to its comment."""
    return line.text.partition("#")[0].strip()


def sample_pair(first: str, second: str, samples: Samples, where: str) -> tuple[int, int]:
    """Two samples from 0, of cells that count from 1 or name them.

    Raises
    ------
    InputError
        For the first that is not a sample.
    """
    return samples.position(first, where), samples.position(second, where)


def annotation_count(cell: str, pair: tuple[int, int], where: str) -> float:
    """Number of annotations that a weight represents.

    Raises
    ------
    InputError
        If the weight is not one of `WEIGHTS`, or does not fit a self pair.
    """
    weight = to_number(cell)
    if weight is None or not LEAST_WEIGHT <= weight <= LARGEST_WEIGHT:
        raise InputError([Problem(where, f"weight {cell}", WEIGHTS)])
    is_self_pair = pair[0] == pair[1]
    if is_self_pair and weight % 2 == 1:
        found = f"weight {weight:g} for the self pair of sample {pair[0] + 1}"
        hint = "a self pair carries weight 2 per annotation"
        raise InputError([Problem(where, found, "an even weight", hint)])
    return weight / _unit(is_self_pair)


def _unit(is_self_pair: bool) -> float:
    return SELF_PAIR_WEIGHT if is_self_pair else 1.0


# Question files: tables of pairs with a header, whose answers a person or a script fills in.

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
    first = given(lines.first)
    header = first.text
    reader = _Reader(lines.path, separator_of(header) or ",", columns_of(header), samples)
    problems = list(_header_problems(first, reader.columns))
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


KINDS = {"must": MUST, "m": MUST, "+": MUST, "cannot": CANNOT, "c": CANNOT, "-": CANNOT}
KIND_NAMES = {MUST: "must", CANNOT: "cannot"}
COLUMNS = "i j kind weight annotator, and an accuracy or none"


def read_annotations(path: Path, samples: Samples | int) -> list[Annotation]:
    """Read an annotation file, or the answers of a question file.

    A file whose first line is a header with the columns `i`, `j` and `answer` is one of questions: see
    `read_questions`. A line of any other holds two sample numbers from 1 (or names of
    samples, where they have names), the kind (`must`, `m` or `+`;
    `cannot`, `c` or `-`), a weight, the annotator's name and, if the line has a sixth cell that is not empty,
    the probability that it is right. Cells are separated by blanks, commas or tabs; `#` begins a comment.
    Weights are those of link files: a self pair carries 2 per annotation. Lines of the same pair may repeat
    and contradict each other. An empty file is an empty annotation graph.

    Parameters
    ----------
    path : Path
        The file.
    samples : Samples or int
        What the first two cells refer to; or how many samples there are.

    Returns
    -------
    list of Annotation
        In the order of the lines.

    Raises
    ------
    InputError
        With every problem of every line.
    """
    return [row for row in read_answers(path, samples) if isinstance(row, Annotation)]


def read_answers(path: Path, samples: Samples | int) -> list[Row]:
    """Read what `read_annotations` reads, and the pairs that were skipped.

    Parameters
    ----------
    path : Path
        The file.
    samples : Samples or int
        What the first two cells refer to; or how many samples there are.

    Returns
    -------
    list of Annotation or Skip
        In the order of the lines.

    Raises
    ------
    InputError
        With every problem of every line.
    """
    named = Samples.of(samples)
    lines = read_lines(path)
    first = lines.first
    if first is not None and separator_of(first.text) is not None:
        return read_questions(lines, named)
    return [*each_line(lines, lambda line: _annotation(line, path, named))]


def _annotation(line: Line, path: Path, samples: Samples) -> Annotation:
    text = without_comment(line)
    cells = split_cells(text)
    if len(cells) not in (5, 6):
        raise InputError([Problem(line.where, repr(text[:60]), COLUMNS)])
    problems: list[Problem] = []
    # Not a self pair, so that the weight is checked even if the samples are invalid.
    pair, kind, count, name, accuracy = (0, 1), MUST, 1.0, "", None
    with collecting(problems):
        pair = sample_pair(cells[0], cells[1], samples, line.where)
    with collecting(problems):
        kind = _kind(cells[2], line.where)
    with collecting(problems):
        count = annotation_count(cells[3], pair, line.where)
    with collecting(problems):
        name = _name(cells[4], line.where)
    with collecting(problems):
        accuracy = accuracy_of(cells[5], line.where) if len(cells) == 6 else None
    if problems:
        raise InputError(problems)
    return Annotation(path, line.number, *pair, kind, count, name, accuracy)


def _kind(cell: str, where: str) -> int:
    kind = KINDS.get(cell.lower())
    if kind is None:
        hint = did_you_mean(cell.lower(), KIND_NAMES.values())
        raise InputError([Problem(where, f"kind {cell[:60]!r}", "must (m, +) or cannot (c, -)", hint)])
    return kind


def _name(cell: str, where: str) -> str:
    if not cell:
        raise InputError([Problem(where, "no annotator", "a name")])
    return cell


# Annotations of one's own as cells draw them: single ones, without replacement, from a file.

Pool = NDArray[np.int32]

HINT = "a cell draws single annotations; a line of weight w stands for w of them, of a self pair for w / 2"


def read_pool(path: Path, samples: Samples | int) -> Pool:
    """Read an annotation file as the single annotations that cells of a sweep draw from.

    A line stands for as many annotations as its weight says. Those of all annotators are taken together, and
    what a line says of its own accuracy is not used: every model and method of a cell is told the same `p`.

    Parameters
    ----------
    path : Path
        The file, see `sweeps.annotations.files.read_annotations`.
    samples : Samples or int
        What the first two cells refer to; or how many samples there are.

    Returns
    -------
    ndarray of shape (n_annotations, 3), int32
        Columns i, j and kind, samples from 0, in the order of the lines.

    Raises
    ------
    InputError
        With every problem of every line; a part of an annotation is one, and so are more than
        `MOST_ANNOTATIONS`.
    """
    lines = read_annotations(path, samples)
    problems = list(_count_problems(path, lines))
    if problems:
        raise InputError(shortened(path, problems))
    rows = np.array([(line.first, line.second, line.kind) for line in lines], dtype=np.int32).reshape(-1, 3)
    return np.repeat(rows, [int(line.count) for line in lines], axis=0)


def _count_problems(path: Path, lines: Sequence[Annotation]) -> Iterator[Problem]:
    for line in lines:
        if line.count != int(line.count):
            found, expected = f"weight {line.weight:g}", "a whole number of annotations"
            yield Problem(f"{path}, line {line.line}", found, expected, HINT)
    total = sum(int(line.count) for line in lines)
    if total > MOST_ANNOTATIONS:
        yield Problem(str(path), f"{total:,} annotations", f"at most {MOST_ANNOTATIONS:,}", HINT)


def pool_checksum(pool: Pool) -> str:
    """Sha256 over the annotations in their order, little-endian: comments and names do not change it."""
    return hashlib.sha256(np.ascontiguousarray(pool, dtype="<i4").tobytes()).hexdigest()


def draw_from(rng: np.random.Generator, pool: Pool, m: int) -> Pool:
    """Draw annotations of a file without replacement.

    Parameters
    ----------
    rng : numpy.random.Generator
        Stream of this annotation graph.
    pool : ndarray of shape (n_annotations, 3), int32
        Columns i, j and kind.
    m : int
        How many, at most `n_annotations`.

    Returns
    -------
    ndarray of shape (m, 3), int32
        In random order.

    Raises
    ------
    ValueError
        If there are fewer than `m`.
    """
    return pool[rng.choice(len(pool), size=m, replace=False)]
