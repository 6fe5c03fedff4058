"""A user's table as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sweeps.data.lines import Lines, counted, read_lines, split_cells, to_number
from sweeps.data.own.choice import Column, TableChoice
from sweeps.data.own.columns import Numbers
from sweeps.data.own.select import select
from sweeps.data.tables import LabelledTable
from sweeps.errors import InputError, Problem

MOST_BYTES = 2**29
"""Of a table; numbers take a third of that or less in an .npz file."""

ROWS = 4096
"""Parsed at once: enough to make the work of each call small, few enough to hold their cells."""

NUMERIC = b"0123456789+-.eE, \t\n"
"""What numbers are written with, but for infinities and NaN."""

SEMICOLON = ";"
LOOKED_AT = 10
"""Lines from which the separator is told."""


@dataclass(frozen=True)
class _Grid:
    """Rows of a text table, all of one width; `header` is empty if the file has none.

    Parameters
    ----------
    lines : Lines
        All lines of the file.
    rows : array of int
        Positions in `lines` of the rows.
    separator : str
        A semicolon, or nothing: then each line says it.
    """

    lines: Lines
    rows: NDArray[np.intp]
    header: list[str]
    width: int
    separator: str

    @property
    def path(self) -> Path:
        return self.lines.path

    @property
    def n_rows(self) -> int:
        return len(self.rows)

    @property
    def index(self) -> tuple[str, ...]:
        return ()

    def named(self, position: int) -> str:
        name = f" ({self.header[position]})" if self.header else ""
        return f"column {position + 1}{name}"

    def cells(self, row: int) -> list[str]:
        return split_cells(self.lines.text(int(self.rows[row])), self.separator)

    def cell(self, row: int, column: int) -> str:
        return self.cells(row)[column]

    def shown(self, row: int, column: int) -> str:
        cell = self.cell(row, column)
        return repr(cell) if cell else "an empty cell"

    def texts(self, column: int) -> list[str]:
        return [self.cells(row)[column] for row in range(self.n_rows)]

    def where(self, row: int, column: int) -> str:
        return f"{self.lines[int(self.rows[row])].where}, {self.named(column)}"

    def number(self, cell: str) -> float | None:
        number = to_number(cell)
        if number is None and self.separator == SEMICOLON and cell.count(",") == 1:
            # written where the decimal mark is a comma, which is why cells are separated by semicolons
            return to_number(cell.replace(",", "."))
        return number

    def numbers(self, columns: Sequence[int]) -> Numbers:
        X = np.empty((self.n_rows, len(columns)))
        others = np.zeros(len(columns), dtype=np.intp)
        for start in range(0, len(X), ROWS):
            stop = min(start + ROWS, len(X))
            numbers = _at_once(self, start, stop)
            if numbers is not None:
                X[start:stop] = numbers[:, columns]
            else:
                X[start:stop], missing = _each(self, start, stop, columns)
                others += missing
        return Numbers(X, others)


def read_text_table(path: Path, choice: TableChoice) -> LabelledTable:
    """Read a table of comma, semicolon, tab or blank separated cells, packed by gzip or not.

    Blank lines and those that start with # are skipped. The first row is a header if none of its cells
    is a number, or if one is a name that the choice tells. Cells are separated by semicolons if the first
    lines all have as many of these, and no commas or not as many; then a number may have a decimal comma.

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
    problems: list[Problem] = []
    grid = _grid(path, choice.named, problems)
    return select(grid, choice, problems)


def _grid(path: Path, names: Collection[Column], problems: list[Problem]) -> _Grid:
    """The rows of the commonest width; others are problems."""
    lines = read_lines(path, MOST_BYTES)
    separator = separator_of([lines.text(i) for i in range(min(LOOKED_AT, len(lines)))])
    first = split_cells(lines.text(0), separator) if lines else []
    begin = int(bool(first) and _is_header(first, names))
    if len(lines) == begin:
        raise InputError([Problem(str(path), "no rows", "at least one sample")])
    widths = np.fromiter((_width(lines, i, separator) for i in range(len(lines))), np.intp, len(lines))
    # The first of several that are as common.
    width = Counter(widths[begin:].tolist()).most_common(1)[0][0]
    ragged = np.flatnonzero(widths != width).tolist()
    expected = f"{width} as in the other rows"
    problems += counted(ragged, lambda i: Problem(lines[i].where, f"{widths[i]} cells", expected))
    header = first if begin and widths[0] == width else []
    rows = np.flatnonzero(widths[begin:] == width) + begin
    return _Grid(lines, rows, header, width, separator)


def separator_of(lines: Sequence[str]) -> str:
    """A semicolon if that separates the cells of the first lines of a table, else nothing."""
    if not lines or SEMICOLON not in lines[0]:
        return ""
    widths = {len(split_cells(line, SEMICOLON)) for line in lines}
    commas = {len(split_cells(line, ",")) for line in lines}
    if len(widths) > 1 or widths == {1}:
        return ""
    if commas == {1} or len(commas) > 1:
        return SEMICOLON
    cells = split_cells(lines[-1], SEMICOLON)
    # as many commas in each line: decimal ones, unless cells at commas are numbers by themselves
    decimal = all(to_number(cell.replace(",", ".", 1)) is not None for cell in cells)
    return SEMICOLON if decimal else ""


def _width(lines: Lines, position: int, separator: str) -> int:
    if not lines.quoted:
        mark = separator or ","
        marks = lines.content.count(mark.encode(), lines.starts[position], lines.ends[position])
        if marks:
            return marks + 1
    return len(split_cells(lines.text(position), separator))


def _is_header(cells: list[str], names: Collection[Column]) -> bool:
    return any(name in cells for name in names) or all(to_number(cell) is None for cell in cells)


def _at_once(grid: _Grid, start: int, stop: int) -> NDArray[np.float64] | None:
    """All numbers of some rows, or None where there is anything that `_each` might see in another way."""
    lines = grid.lines
    first, last = grid.rows[start], grid.rows[stop - 1]
    if lines.numbers[last] - lines.numbers[first] != stop - start - 1:
        return None  # a comment, or a row of another width between them
    text = lines.content[lines.starts[first] : lines.ends[last]]
    if grid.separator:
        if b"," in text:
            return None  # decimal ones
        text = text.replace(grid.separator.encode(), b",")
    if text.translate(None, NUMERIC):
        return None
    separator = next((mark for mark in (",", "\t") if mark.encode() in text), None)
    try:
        numbers = np.loadtxt(text.decode().split("\n"), delimiter=separator, comments=None, ndmin=2)
    except ValueError:
        return None
    return numbers if numbers.shape == (stop - start, grid.width) else None


def _each(
    grid: _Grid, start: int, stop: int, columns: Sequence[int]
) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Numbers of some rows, NaN where a cell is none, and how many of those each column has."""
    rows = [grid.cells(row) for row in range(start, stop)]
    numbers = [[grid.number(cells[column]) for column in columns] for cells in rows]
    missing = np.array([[number is None for number in row] for row in numbers]).sum(axis=0)
    return np.array(numbers, dtype=np.float64).reshape(len(rows), len(columns)), missing
