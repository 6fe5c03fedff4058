"""A user's table as text: `read_text_table`, and `Content` for any file whose rows are cells.

Of a table only its text and the places where its rows begin are kept beside the numbers: cells are read from
the text whenever they are asked for.
"""

from __future__ import annotations

import csv
import io
import re
from array import array
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sweeps.data.formats import Frame
from sweeps.data.lines import counted, read_text, to_number
from sweeps.data.table import MOST_CELLS, MOST_COLUMNS, Column, LabelledTable, TableChoice, is_empty, select
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
        file = io.BytesIO(self.text)  # which copies nothing
        file.seek(offset)
        while line := file.readline(LONGEST_ROW + 1):
            start = file.tell() - len(line)
            if len(line) > LONGEST_ROW:
                raise InputError([self._too_long(start)])
            text = line.decode()
            stripped = text.strip()
            if not stripped or stripped[0] == "#" or (start == 0 and TOLD.fullmatch(stripped)):
                continue
            by_blanks, n_lines = self.separator == BLANK, 1
            if '"' in text:
                # further lines are asked for where a cell in quotes goes on
                lines = chain([f"{stripped}\n" if by_blanks else text], self._further(file, start))
                reader = csv.reader(lines, delimiter=self.separator, skipinitialspace=True)
                try:
                    cells, n_lines = next(reader), reader.line_num
                except csv.Error as error:
                    found = f"a cell that is too long ({error})"
                    hint = "is a quote that begins it never closed?"
                    raise InputError([Problem(self.line(start), found, "a shorter one", hint)]) from None
            else:  # a reader for each row would take four times as long
                cells = stripped.split() if by_blanks else text.removesuffix("\n").split(self.separator)
            if len(cells) > MOST_COLUMNS:
                raise InputError([self._too_long(start)])
            yield cells, start, n_lines

    def _further(self, file: io.BytesIO, start: int) -> Iterator[str]:
        """The lines of a row after its first."""
        for line in iter(partial(file.readline, LONGEST_ROW + 1), b""):
            if file.tell() - start > LONGEST_ROW:
                raise InputError([self._too_long(start)])
            yield line.decode()
        raise InputError([Problem(self.line(start), "a cell whose quote is never closed", "another quote")])

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


@dataclass(frozen=True, eq=False, kw_only=True)
class _Grid(Frame):
    """Rows of a text table, all of one width: only where they begin is kept beside the text."""

    content: Content
    offsets: NDArray[np.int64]

    def _value(self, row: int, column: int) -> str:
        cells, *_ = next(self.content.rows(int(self.offsets[row])))
        return _tidy(cells[column])

    def _texts(self, part: Sequence[str]) -> Iterator[str]:
        return map(_tidy, part)

    def _numbers(self, part: Sequence[str]) -> tuple[NDArray[np.float64], int, NDArray[np.bool_], int]:
        text = "\0".join(part)  # which no cell has
        # commas are decimal marks where they do not separate cells
        has_decimals = self.content.separator == SEMICOLON and "," in text
        if "_" not in text:
            with suppress(ValueError):
                ready = text.replace(",", ".").split("\0") if has_decimals else part
                values = np.fromiter(map(float, ready), np.float64, len(part))
                if not np.isnan(values).any():
                    return values, 0, np.zeros(len(part), dtype=np.bool_), 0
        # a word is read once: most are there many times, and one that is no number takes long
        known = {cell: to_number(cell.replace(",", ".") if has_decimals else cell) for cell in set(part)}
        others = {cell for cell, number in known.items() if number is None}
        missing = {cell for cell in known if is_empty(cell)}
        numbers = {cell: np.nan if number is None else number for cell, number in known.items()}
        cells = part[:1] if len(known) == 1 else part  # one stands for all, as in columns that are empty
        values = np.fromiter(map(numbers.__getitem__, cells), np.float64, len(cells))
        empty = np.fromiter(map(missing.__contains__, cells), np.bool_, len(cells))
        n_others = sum(map(others.__contains__, cells)) * (len(part) // len(cells))
        return values, n_others, empty, len(others)


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
    kept = offsets[np.flatnonzero(widths[begin:] == width) + begin]

    def parts(columns: Sequence[int]) -> Iterator[list[tuple[str, ...]]]:
        found = (cells for cells, *_ in content.rows(int(kept[0])) if len(cells) == width)
        rows = islice(found, len(kept))  # what is behind them may be broken
        while part := list(islice(rows, ROWS)):
            cells = list(zip(*part, strict=True))
            yield [cells[column] for column in columns]

    def place(row: int, column: int) -> str:
        name = f" ({header[column]})" if header else ""
        return f"{content.line(int(kept[row]))}, column {column + 1}{name}"

    # nothing here refers to the grid itself: the text goes as soon as its samples are there
    return _Grid(content.path, parts, len(kept), width, header, place, content=content, offsets=kept)
