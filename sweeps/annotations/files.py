"""Annotations in files: links, annotations of several annotators, answers to questions.

`read_links`, `read_annotations` and `read_answers` read them, `read_pool` those that cells draw from;
`Samples` is what their i and j refer to. Whatever the file, a row becomes cells by name, which one function
reads.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from kernels.settings import LARGEST_WEIGHT, LEAST_WEIGHT, WEIGHTS
from sweeps.annotations.draw import CANNOT, MOST_ANNOTATIONS, MUST
from sweeps.data import lines
from sweeps.data.lines import Line, Lines
from sweeps.data.table import SampleRows
from sweeps.data.text import rows_of
from sweeps.errors import InputError, Problem, collecting, did_you_mean, refused

T = TypeVar("T")

# How annotation files name samples: by the rows of the table, or by the names it gives them.

# as long as int64 can hold; without ASCII, digits of other scripts would count as well
WHOLE = re.compile(r"-?\d{1,18}", re.ASCII)

# Names that a misspelt one is compared with.
MOST_COMPARED = 10_000

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
        self._row_of: Sequence[int] = range(rows.n_rows) if rows.kept is None else rows.kept.tolist()
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
        rows, is_number = self._rows, WHOLE.fullmatch(cell) is not None
        row = self._by_name.get(cell)
        if row is None and self._numbered and is_number and 1 <= int(cell) <= rows.n_rows:
            row = int(cell) - 1
        position = row if rows.kept is None or row is None else self._positions.get(row)
        if position is not None:
            return position
        found, expected, hint = f"sample {cell[:60]!r}", "a row that is used", DROPPED
        if row is None and rows.names:
            hint = did_you_mean(cell, rows.names[:MOST_COMPARED])
            expected = "the name of a row" + (f", or 1 to {rows.n_rows}" if self._numbered else "")
        elif row is None:
            found = f"sample {int(cell)}" if is_number else found
            expected, hint = f"1 to {rows.n_rows}", "samples are counted from 1"
        raise refused(where, found, expected, hint)

    def text(self, position: int) -> str:
        """Name of a sample, or the number of its row from 1."""
        row = self._row_of[position]
        return self._rows.names[row] if self._rows.names else str(row + 1)

    def told(self, position: int) -> str | int:
        """The same, a number as one."""
        text = self.text(position)
        return text if self._rows.names else int(text)

    def cell(self, position: int) -> str:
        """The same for a cell of a spreadsheet, of which `named_by` finds the name."""
        text = self.text(position)
        if lines.CONTROL.search(text) and self._numbered:
            return str(self._row_of[position] + 1)
        return lines.as_cell(text)

    def named_by(self, cell: str) -> str:
        """Name that stands in a cell of a spreadsheet, where that is one of a sample; else the cell."""
        plain = lines.of_cell(cell)
        return plain if plain in self._by_name else cell

    @cached_property
    def _by_name(self) -> dict[str, int]:
        return {name: row for row, name in enumerate(self._rows.names)}

    @cached_property
    def _positions(self) -> dict[int, int]:
        return {row: position for position, row in enumerate(self._row_of)}


# What a file says: annotations, and pairs without an answer.

# The adjacency of a self pair counts both ends (docs/model.md, eq. (3)), and so do link files.
SELF_PAIR_WEIGHT = 2.0
# Annotator of all link files: they name none.
LINKS = "links"


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
    def weight(self) -> float:
        """Weight as the file has it: a self pair carries 2 per annotation."""
        return self.count * (SELF_PAIR_WEIGHT if self.first == self.second else 1.0)


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

ANNOTATOR, ACCURACY = "annotator", "accuracy"

LINK_CELLS = ("i", "j", "weight")
CELLS = ("i", "j", "kind", "weight", ANNOTATOR, ACCURACY)

# Columns that a header has if its file is one of questions; of others annotator and accuracy are read.
NEEDED = ("i", "j", "answer")

# Of the columns of a file of questions.
SEPARATORS = (",", ";", "\t")

# Annotator of answers that name none.
ASKED = "asked"

KINDS = {"must": MUST, "m": MUST, "+": MUST, "cannot": CANNOT, "c": CANNOT, "-": CANNOT}
KIND_NAMES = {MUST: "must", CANNOT: "cannot"}

ANSWERS = {
    **dict.fromkeys(("yes", "ye", "y", "must", "m", "+", "1", "1.0", "true"), MUST),
    **dict.fromkeys(("no", "n", "cannot", "c", "-", "0", "0.0", "false"), CANNOT),
}
SKIPS = ("skip", "ski", "sk", "s")

# Of the cells that say the kind of an annotation: what is known, in words, and what may be misspelt.
WORDS = {
    "kind": (KINDS, "must (m, +) or cannot (c, -)", ("must", "cannot")),
    "answer": (
        ANSWERS,
        "yes or no (must or cannot, y or n, 1 or 0, + or -), skip, or nothing",
        ("yes", "no", "must", "cannot", "skip"),
    ),
}


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
    return _answered(_of_lines(lines.read_lines(path), LINK_CELLS, Samples.of(samples), kind))


def read_annotations(path: Path, samples: Samples | int) -> list[Annotation]:
    """Read an annotation file, or the answers of a question file: `read_answers` without skipped pairs."""
    return _answered(read_answers(path, samples))


def read_answers(path: Path, samples: Samples | int) -> list[Row]:
    """Read an annotation file, or a file of questions with the pairs that were skipped.

    A file whose first line is a header with the columns `i`, `j` and `answer` is one of questions. A row
    without an answer says nothing. Answers are words of `ANSWERS`, skipped pairs words of `SKIPS`, in any
    case. The column `annotator` names who answered, the column `accuracy` the probability that the answer is
    right; without a name it is `ASKED`. A last line without a line end may break off: what is missing of it
    was never answered.

    A line of any other file holds two sample numbers from 1 (or names of samples, where they have names), the
    kind (`must`, `m` or `+`; `cannot`, `c` or `-`), a weight, the annotator's name and, if the line has a
    sixth cell that is not empty, the probability that it is right. Cells are separated by blanks, commas or
    tabs; `#` begins a comment. Weights are those of link files: a self pair carries 2 per annotation. Lines
    of the same pair may repeat and contradict each other. An empty file is an empty annotation graph.

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
    named, read = Samples.of(samples), lines.read_lines(path)
    header = read.first
    separator = separator_of(header.text) if header else None
    if header and separator:
        return _read_questions(read, header, separator, named)
    return _of_lines(read, CELLS, named)


def separator_of(header: str) -> str | None:
    """What separates the columns of a question file, of its first line; None if it is no such header."""
    return next((mark for mark in SEPARATORS if {*NEEDED} <= {*_names(header, mark)}), None)


def columns_of(header: str) -> list[str]:
    """Names of the columns in the header of a question file, in small letters."""
    return _names(header, separator_of(header) or ",")


def _names(header: str, separator: str) -> list[str]:
    return [cell.lower() for cell in lines.split_cells(header, separator)]


def _read_questions(read: Lines, header: Line, separator: str, samples: Samples) -> list[Row]:
    path, columns = read.path, columns_of(header.text)
    known = (*NEEDED, ANNOTATOR, ACCURACY)
    twice = [name for name in known if columns.count(name) > 1]
    if twice:
        words = [(f"several columns {name!r}", "one of each name") for name in twice]
        raise InputError(Problem(header.where, *each) for each in words)
    last = 0 if read.content.endswith(b"\n") else read.content.count(b"\n") + 1

    def rows() -> Iterator[tuple[list[str], int, int]]:
        found = rows_of(path, read.content, separator)
        next(found)
        try:
            yield from found
        except InputError as error:
            # a quote that is not closed by the last line: what broke off was never answered
            if error.problems[0].where != f"{path}, line {last}":
                raise

    def answer(row: tuple[list[str], int, int]) -> Row | None:
        cells, line, _ = row
        if not any(cells):  # as spreadsheets leave them
            return None
        if len(cells) != len(columns):
            if line == last and len(cells) < len(columns):
                return None
            raise refused(f"{path}, line {line}", f"{len(cells)} cells", f"{len(columns)} as in the header")
        found = {name: cell for name, cell in zip(columns, cells, strict=True) if name in known}
        found |= {key: samples.named_by(found[key]) for key in ("i", "j")}
        found[ANNOTATOR] = lines.of_cell(found.get(ANNOTATOR, "")) or ASKED
        return _row(path, line, found, samples)

    return _collected(path, rows(), answer)


def _collected(path: Path, items: Iterable[T], parse: Callable[[T], Row | None]) -> list[Row]:
    """Rows of a file that say something, or the problems of all of them."""
    rows: list[Row] = []
    problems: list[Problem] = []
    with collecting(problems):
        for item in items:
            found: list[Problem] = []
            with collecting(found):
                row = parse(item)
                rows += [] if row is None else [row]
            # Of those beyond the first only how many there are matters, and a file may have millions.
            problems += found if len(problems) < lines.PROBLEMS_SHOWN else problems[-1:] * len(found)
    if problems:
        raise InputError(lines.shortened(path, problems))
    return rows


def _answered(rows: Iterable[Row]) -> list[Annotation]:
    return [row for row in rows if isinstance(row, Annotation)]


def _of_lines(read: Lines, names: Sequence[str], samples: Samples, kind: int | None = None) -> list[Row]:
    """Rows of a file without a header, whose cells have these names; the last one may be left out."""

    def row(line: Line) -> Row | None:
        text = line.text.partition("#")[0].strip()
        cells = lines.split_cells(text)
        if len(cells) not in (len(names) - 1, len(names)):
            raise refused(line.where, repr(text[:60]), f"{' '.join(names[:-1])} [{names[-1]}]")
        return _row(read.path, line.number, dict(zip(names, cells, strict=False)), samples, kind)

    return _collected(read.path, read, row)


def _row(
    path: Path, line: int, cells: Mapping[str, str], samples: Samples, kind: int | None = None
) -> Row | None:
    """What the cells of a row say, by name; `kind` is that of all rows, where no cell has it."""
    where, problems = f"{path}, line {line}", list[Problem]()
    # Not a self pair, so that the weight is checked even if the samples are invalid.
    pair, count, accuracy, word = (0, 1), 1.0, None, ""
    with collecting(problems):
        pair = samples.position(cells["i"], where), samples.position(cells["j"], where)
    for key in WORDS.keys() & cells.keys():
        known, expected, words = WORDS[key]
        word = lines.of_cell(cells[key]).lower()
        kind = known.get(word)
        if kind is None and not (key == "answer" and word in ("", *SKIPS)):
            hint = did_you_mean(word, words)
            problems.append(Problem(where, f"{key} {cells[key][:60]!r}", expected, hint))
    if (text := cells.get("weight")) is not None:
        weight, is_self = lines.to_number(text), pair[0] == pair[1]
        if weight is None or not LEAST_WEIGHT <= weight <= LARGEST_WEIGHT:
            problems.append(Problem(where, f"weight {text}", WEIGHTS))
        elif is_self and weight % 2 == 1:
            found = f"weight {weight:g} for the self pair of sample {pair[0] + 1}"
            hint = "a self pair carries weight 2 per annotation"
            problems.append(Problem(where, found, "an even weight", hint))
        else:
            count = weight / SELF_PAIR_WEIGHT if is_self else weight
    if not cells.get(ANNOTATOR, LINKS):
        problems.append(Problem(where, "no annotator", "a name"))
    if cell := cells.get(ACCURACY, ""):
        accuracy = lines.to_number(cell)
        if accuracy is None or not 0 < accuracy <= 1:
            problems.append(Problem(where, f"accuracy {cell[:60]}", "a number above 0, at most 1"))
    if problems:
        raise InputError(problems)
    if kind is None:
        return Skip(*pair) if word else None
    return Annotation(path, line, *pair, kind, count, cells.get(ANNOTATOR, LINKS), accuracy)


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
    problems: list[Problem] = []
    found = read_annotations(path, samples)
    for each in found:
        if each.count != int(each.count):
            where, expected = f"{path}, line {each.line}", "a whole number of annotations"
            problems.append(Problem(where, f"weight {each.weight:g}", expected, HINT))
    total = sum(int(each.count) for each in found)
    if total > MOST_ANNOTATIONS:
        problems.append(Problem(str(path), f"{total:,} annotations", f"at most {MOST_ANNOTATIONS:,}", HINT))
    if problems:
        raise InputError(lines.shortened(path, problems))
    rows = np.array([(each.first, each.second, each.kind) for each in found], dtype=np.int32).reshape(-1, 3)
    return np.repeat(rows, [int(each.count) for each in found], axis=0)


def pool_checksum(pool: Pool) -> str:
    """Sha256 over the annotations in their order, little-endian: comments and names do not change it."""
    return hashlib.sha256(np.ascontiguousarray(pool, dtype="<i4").tobytes()).hexdigest()
