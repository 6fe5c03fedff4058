"""A user's table as text."""

from __future__ import annotations

import csv
import io
import re
from array import array
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweeps.data.lines import counted, read_text, to_number
from sweeps.data.table import (
    MOST_CELLS,
    MOST_COLUMNS,
    Column,
    LabelledTable,
    Numbers,
    TableChoice,
    check_words,
    each_once,
    select,
)
from sweeps.data.table import is_empty as stands_for_nothing
from sweeps.errors import InputError, Problem, collecting

# Rows of a table that is text: where each begins, and its cells.
#
# Cells come from Python's `csv` module; "Libraries" in docs/design.md says why not from pandas.

SEMICOLON, BLANK = ";", " "
MARKS = (",", SEMICOLON, "\t")
"""What may separate cells beside blanks; the first of several that are as good."""

TOLD = re.compile(r'"?sep=.?"?')
"""A first line that tells Excel the separator, which the other lines show."""

LOOKED_AT = 10
"""Rows from which the separator is told."""

LONGEST_ROW = 2**23
"""Bytes of a row, with all lines of its cells."""

Row = tuple[list[str], int, int]
"""Cells; the offset of the first line in the content; how many lines."""


@dataclass(frozen=True)
class Content:
    """A text in UTF-8, and what separates its cells."""

    path: Path
    text: bytes
    separator: str

    def rows(self, offset: int = 0) -> Iterator[Row]:
        """Rows from an offset on, one after the other.

        Blank lines and those that start with # are skipped, unless they are inside a cell in quotes, and
        so is a first line such as `sep=;`.

        Raises
        ------
        InputError
            At a cell that does not end, and at a row of more than is read; what is behind it is not told.
        """
        if not self._has_quotes:
            yield from self._plain_rows(offset)
            return
        start = end = offset
        n_lines = n_marks = 0
        at_end = is_begun = False
        by_blanks = self.separator == BLANK

        def lines() -> Iterator[str]:
            nonlocal start, end, n_lines, n_marks, at_end, is_begun
            file = io.BytesIO(self.text)  # which copies nothing
            file.seek(offset)
            for each in iter(partial(file.readline, LONGEST_ROW + 1), b""):
                begin, end = end, end + len(each)
                text = each.decode()
                if not is_begun:
                    stripped = text.strip()
                    if not stripped or stripped[0] == "#" or (begin == 0 and TOLD.fullmatch(stripped)):
                        continue
                    start, n_lines, n_marks, is_begun = begin, 0, 0, True
                    if by_blanks:
                        text = f"{stripped}\n" if '"' in stripped else BLANK.join(stripped.split())
                n_lines += 1
                n_marks += text.count(self.separator)
                if n_marks >= MOST_COLUMNS or end - start > LONGEST_ROW:
                    raise InputError([self._too_long(start)])
                yield text
            at_end = True

        try:
            for cells in csv.reader(lines(), delimiter=self.separator, skipinitialspace=True):
                if at_end:
                    break
                is_begun = False
                yield cells, start, n_lines
        except csv.Error as error:
            found, hint = f"a cell that is too long ({error})", "is a quote that begins it never closed?"
            raise InputError([Problem(self.line(start), found, "a shorter one", hint)]) from None
        if is_begun:
            raise InputError(
                [Problem(self.line(start), "a cell whose quote is never closed", "another quote")]
            )

    @cached_property
    def _has_quotes(self) -> bool:
        return b'"' in self.text

    def _plain_rows(self, offset: int) -> Iterator[Row]:
        """The same of a text without quotes, where each line is a row, in half the time."""
        file, end = io.BytesIO(self.text), offset
        file.seek(offset)
        longest = csv.field_size_limit()
        for each in iter(partial(file.readline, LONGEST_ROW + 1), b""):
            begin, end = end, end + len(each)
            text = each.decode()
            stripped = text.strip()
            if not stripped or stripped[0] == "#" or (begin == 0 and TOLD.fullmatch(stripped)):
                continue
            if len(each) > longest and (
                len(each) > LONGEST_ROW or text.count(self.separator) >= MOST_COLUMNS
            ):
                raise InputError([self._too_long(begin)])
            cells = (
                stripped.split() if self.separator == BLANK else text.removesuffix("\n").split(self.separator)
            )
            if len(each) > longest and max(map(len, cells)) > longest:
                found = "a cell that is too long"
                raise InputError([Problem(self.line(begin), found, f"at most {longest:,} characters")])
            yield cells, begin, 1

    def number(self, offset: int) -> int:
        """Number of the line that begins at an offset, from 1."""
        return self.text.count(b"\n", 0, offset) + 1

    def line(self, offset: int) -> str:
        """The same, for messages."""
        return f"{self.path}, line {self.number(offset)}"

    def _too_long(self, offset: int) -> Problem:
        expected = f"at most {MOST_COLUMNS:,} columns and {LONGEST_ROW:,} bytes in a row"
        return Problem(self.line(offset), "a longer row", expected)


def separator_of(path: Path, text: bytes) -> str:
    """What separates the cells of the first rows of a table.

    It gives the most of them as many cells. Where several do, most of the cells of a row are numbers by it:
    commas may be decimal ones, and texts may have as many marks in each row.
    """
    fits = {mark: _fit(_first(path, text, mark)) for mark in MARKS}
    best = max(MARKS, key=fits.__getitem__)
    return best if fits[best] > (0, 0.0) else BLANK


def _fit(rows: list[list[str]]) -> tuple[int, float]:
    """How many rows have the commonest number of cells, unless one; the share of numbers in the last."""
    widths = Counter(map(len, rows))
    width, count = widths.most_common(1)[0] if rows else (1, 0)
    if width == 1:
        return 0, 0.0
    numbers = [to_number(cell.replace(",", ".", 1)) is not None for cell in rows[-1]]
    return count, sum(numbers) / len(numbers)


def _first(path: Path, text: bytes, mark: str) -> list[list[str]]:
    found: list[list[str]] = []
    with suppress(InputError):  # is said of the whole file
        found.extend(cells for cells, *_ in islice(Content(path, text, mark).rows(), LOOKED_AT))
    return found


MOST_BYTES = 2**29
"""Of a table; numbers take a third of that or less in an .npz file."""

ROWS = 256
"""Taken at once: enough to make the work of each column small, few enough for the cache of a processor."""


@dataclass(frozen=True)
class _Grid:
    """Rows of a text table, all of one width; `header` is empty if the file has none.

    Parameters
    ----------
    content : Content
        All of the file.
    header : list of str
        Names of the columns.
    width : int
        Number of cells of a row.
    offsets : array of int
        Where each row begins.
    """

    content: Content
    header: list[str]
    width: int
    offsets: NDArray[np.int64]

    @property
    def path(self) -> Path:
        return self.content.path

    @property
    def n_rows(self) -> int:
        return len(self.offsets)

    @property
    def index(self) -> tuple[str, ...]:
        return ()

    def named(self, position: int) -> str:
        name = f" ({self.header[position]})" if self.header else ""
        return f"column {position + 1}{name}"

    def rows(self) -> Iterator[list[str]]:
        """Cells of each row, not stripped."""
        width = self.width
        found = (row[0] for row in self.content.rows(int(self.offsets[0])) if len(row[0]) == width)
        # no more than there are: what is behind them may be broken
        return islice(found, self.n_rows)

    def cell(self, row: int, column: int) -> str:
        cells, *_ = next(self.content.rows(int(self.offsets[row])))
        return _tidy(cells[column])

    def shown(self, row: int, column: int) -> str:
        cell = self.cell(row, column)
        return repr(cell) if cell else "an empty cell"

    def texts(self, column: int) -> list[str]:
        where = f"{self.path}, {self.named(column)}"
        return each_once((_tidy(cells[column]) for cells in self.rows()), where)

    def where(self, row: int, column: int) -> str:
        return f"{self.content.line(int(self.offsets[row]))}, {self.named(column)}"

    def numbers(self, columns: Sequence[int]) -> Numbers:
        X = np.empty((self.n_rows, len(columns)))
        others = np.zeros(len(columns), dtype=np.intp)
        is_empty = np.zeros(self.n_rows, dtype=np.bool_)
        rows, start, n_words = self.rows(), 0, 0
        while part := list(islice(rows, ROWS)):
            cells = list(zip(*part, strict=True))
            now = slice(start, start + len(part))
            for number, column in enumerate(columns):
                X[now, number], missing, n_others, n_different = self._numbers_of(cells[column])
                others[number] += n_others
                n_words += n_different
                is_empty[now] |= missing
            check_words(self.path, n_words)
            start = now.stop
        return Numbers(X, others, is_empty)

    def _numbers_of(self, cells: Sequence[str]) -> tuple[NDArray[np.float64], Any, int, int]:
        """The number of each cell, NaN of those that are none; which are empty; how many are no number.

        At last, how many different ones these are.
        """
        text = "\0".join(cells)  # which no cell has
        if "_" not in text:
            with suppress(ValueError):
                ready = text.replace(",", ".").split("\0") if self._has_decimals(text) else cells
                values = np.fromiter(map(float, ready), np.float64, len(cells))
                if not np.isnan(values).any():
                    return values, False, 0, 0
        # a word is read once: most are there many times, and one that is no number takes long
        words = set(cells)
        if len(words) == 1:
            number = self._number(cells[0])
            value = np.array(np.nan if number is None else number)
            return value, stands_for_nothing(cells[0]), (number is None) * len(cells), int(number is None)
        known = {cell: self._number(cell) for cell in words}
        missing = {cell for cell in words if stands_for_nothing(cell)}
        found = [known[cell] for cell in cells]
        is_empty = np.array([cell in missing for cell in cells]) if missing else False
        n_different = list(known.values()).count(None)
        return np.array(found, dtype=np.float64), is_empty, found.count(None), n_different

    def _has_decimals(self, text: str) -> bool:
        """Whether commas are decimal marks, which is why cells are separated by semicolons."""
        return self.content.separator == SEMICOLON and "," in text

    def _number(self, cell: str) -> float | None:
        return to_number(cell.replace(",", ".") if self._has_decimals(cell) else cell)


def read_text_table(path: Path, choice: TableChoice) -> LabelledTable:
    """Read a table of comma, semicolon, tab or blank separated cells, packed by gzip or not.

    Blank lines and those that start with # are skipped. The first row is a header if none of its cells
    is a number, or if one is a name that the choice tells. The separator is the one that gives most of the
    first rows as many cells; of a file with semicolons a number may have a decimal comma. A cell in quotes
    may hold separators and line ends.

    Parameters
    ----------
    path : Path
        The file.
    choice : TableChoice
        What its columns are.

    Raises
    ------
    InputError
        With every problem of the file.
    """
    text = read_text(path, MOST_BYTES)
    problems: list[Problem] = []
    grid = _grid(Content(path, text, separator_of(path, text)), choice.named, problems)
    return select(grid, choice, problems)


def _is_header(cells: list[str], names: Collection[Column]) -> bool:
    return any(name in cells for name in names) or all(
        to_number(cell.replace(",", ".", 1)) is None for cell in cells
    )


def _tidy(cell: str) -> str:
    """A cell on one line."""
    return cell.strip().replace("\n", " ")


def _grid(content: Content, names: Collection[Column], problems: list[Problem]) -> _Grid:
    """The rows of the commonest width; others are problems."""
    first: list[str] = []
    places, lengths = array("q"), array("i")
    n_cells = 0
    with collecting(problems):
        for cells, offset, _ in content.rows():
            first = first or list(map(_tidy, cells))
            places.append(offset)
            lengths.append(len(cells))
            n_cells += len(cells)
            if n_cells > MOST_CELLS + MOST_COLUMNS:
                break
    if n_cells > MOST_CELLS + MOST_COLUMNS:
        found = f"more than {MOST_CELLS:,} cells"
        raise InputError([Problem(str(content.path), found, f"at most {MOST_CELLS:,}")])
    offsets, widths = np.frombuffer(places, dtype=np.int64), np.frombuffer(lengths, dtype=np.int32)
    begin = int(bool(first) and _is_header(first, names))
    if len(widths) == begin:
        raise InputError([*problems, Problem(str(content.path), "no rows", "at least one sample")])
    # The first of several that are as common.
    width = int(Counter(lengths[begin:]).most_common(1)[0][0])

    def problem(row: int) -> Problem:
        offset = int(offsets[row])
        *_, n_lines = next(content.rows(offset))
        last = content.number(offset) + n_lines - 1
        hint = f"a cell in quotes goes on to line {last}" if n_lines > 1 else ""
        where, expected = content.line(offset), f"{width} as in the other rows"
        return Problem(where, f"{widths[row]} cells", expected, hint)

    problems[:0] = counted(np.flatnonzero(widths != width), problem)
    header = first if begin and widths[0] == width else []
    kept = np.flatnonzero(widths[begin:] == width) + begin
    return _Grid(content, header, width, offsets[kept])
