"""A user's table as text."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweeps.data.lines import counted, read_text, to_number
from sweeps.data.own.choice import Column, TableChoice
from sweeps.data.own.columns import MOST_CELLS, MOST_COLUMNS, Numbers, check_words, each_once
from sweeps.data.own.columns import is_empty as stands_for_nothing
from sweeps.data.own.rows import SEMICOLON, Content, separator_of
from sweeps.data.own.select import select
from sweeps.data.tables import LabelledTable
from sweeps.errors import InputError, Problem, collecting

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
