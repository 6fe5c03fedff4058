"""A user's table as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sweeps.data.classes import Encoded, encode_classes
from sweeps.data.lines import Lines, counted, read_lines, split_cells, to_number
from sweeps.data.tables import LabelledTable
from sweeps.errors import InputError, Problem, collecting, did_you_mean

MOST_BYTES = 2**29
"""Of a table; numbers take a third of that or less in an .npz file."""

ROWS = 4096
"""Parsed at once: enough to make the work of each call small, few enough to hold their cells."""

NUMERIC = b"0123456789+-.eE, \t\n"
"""What numbers are written with, but for infinities and NaN."""


@dataclass(frozen=True)
class _Grid:
    """Rows of a text table, all of one width; `header` is empty if the file has none.

    Parameters
    ----------
    lines : Lines
        All lines of the file.
    rows : array of int
        Positions in `lines` of the rows.
    """

    lines: Lines
    rows: NDArray[np.intp]
    header: list[str]
    width: int

    @property
    def path(self) -> Path:
        return self.lines.path

    def column(self, position: int) -> str:
        name = f" ({self.header[position]})" if self.header else ""
        return f"column {position + 1}{name}"

    def cells(self, row: int) -> list[str]:
        return split_cells(self.lines.text(int(self.rows[row])))

    def where(self, row: int, column: int) -> str:
        return f"{self.lines[int(self.rows[row])].where}, {self.column(column)}"


def read_text_table(path: Path, label_column: str | int | None, aside: Sequence[str] = ()) -> LabelledTable:
    """Read a table of comma, tab or blank separated cells.

    Blank lines and those that start with # are skipped. The first row is a header if none of its cells
    is a number, or if one is `label_column` or one of `aside`.

    Parameters
    ----------
    path : Path
        The file.
    label_column : str, int or None
        Column of the classes by header name or 0-based position (negative from the end); None if all
        columns are features.
    aside : sequence of str
        Header names of columns that are no features, of any texts.

    Raises
    ------
    InputError
        With every problem of the file.
    """
    problems: list[Problem] = []
    grid = _grid(path, (label_column, *aside), problems)
    X, encoded, label = np.empty((0, 0)), None, None
    left_out: list[int] = []
    with collecting(problems):
        label = _label_position(grid, label_column)
    for name in aside:
        with collecting(problems):
            left_out.append(_named(grid, name, f"{path}, column left out"))
    columns = [position for position in range(grid.width) if position not in (label, *left_out)]
    with collecting(problems):
        X = _features(grid, columns)
    if label is not None:
        with collecting(problems):
            encoded = _classes(grid, label)
    if problems:
        raise InputError(problems)
    codes, class_names = encoded or (None, ())
    names = tuple(grid.header[position] for position in columns) if grid.header else ()
    return LabelledTable(X, codes, class_names, names, _texts(grid, left_out))


def _texts(grid: _Grid, columns: list[int]) -> tuple[tuple[str, ...], ...]:
    if not columns:
        return ()
    rows = [grid.cells(row) for row in range(len(grid.rows))]
    return tuple(tuple(cells[column] for cells in rows) for column in columns)


def _grid(path: Path, names: Collection[str | int | None], problems: list[Problem]) -> _Grid:
    """The rows of the commonest width; others are problems."""
    lines = read_lines(path, MOST_BYTES)
    first = split_cells(lines.text(0)) if lines else []
    begin = int(bool(first) and _is_header(first, names))
    if len(lines) == begin:
        raise InputError([Problem(str(path), "no rows", "at least one sample")])
    widths = np.fromiter((_width(lines, i) for i in range(len(lines))), np.intp, len(lines))
    # The first of several that are as common.
    width = Counter(widths[begin:].tolist()).most_common(1)[0][0]
    ragged = np.flatnonzero(widths != width).tolist()
    expected = f"{width} as in the other rows"
    problems += counted(ragged, lambda i: Problem(lines[i].where, f"{widths[i]} cells", expected))
    header = first if begin and widths[0] == width else []
    rows = np.flatnonzero(widths[begin:] == width) + begin
    return _Grid(lines, rows, header, width)


def _width(lines: Lines, position: int) -> int:
    if not lines.quoted:
        commas = lines.content.count(b",", lines.starts[position], lines.ends[position])
        if commas:
            return commas + 1
    return len(split_cells(lines.text(position)))


def _is_header(cells: list[str], names: Collection[str | int | None]) -> bool:
    return any(name in cells for name in names) or all(to_number(cell) is None for cell in cells)


def _label_position(grid: _Grid, label_column: str | int | None) -> int | None:
    if label_column is None:
        return None
    where = f"{grid.path}, label_column"
    if isinstance(label_column, int):
        if not -grid.width <= label_column < grid.width:
            expected = f"{-grid.width} to {grid.width - 1}"
            raise InputError([Problem(where, str(label_column), expected, "columns are counted from 0")])
        return label_column % grid.width
    return _named(grid, label_column, where, "; give a position")


def _named(grid: _Grid, name: str, where: str, remedy: str = "") -> int:
    """Position of the one column of a name."""
    if grid.header.count(name) == 1:
        return grid.header.index(name)
    if not grid.header:
        hint = f"the file has no header{remedy}"
    elif name in grid.header:
        hint = f"several columns have that name{remedy}"
    else:
        hint = did_you_mean(name, grid.header)
    names = ", ".join(grid.header[:20])
    positions = f"{-grid.width} to {grid.width - 1}" if remedy else "those of a header"
    raise InputError([Problem(where, repr(name), f"one of {names or positions}", hint)])


def _features(grid: _Grid, columns: list[int]) -> NDArray[np.float64]:
    if not columns:
        raise InputError([Problem(str(grid.path), "no column beside the classes", "at least one feature")])
    X = np.empty((len(grid.rows), len(columns)))
    unreadable = np.zeros(len(columns), dtype=np.intp)
    for start in range(0, len(X), ROWS):
        stop = min(start + ROWS, len(X))
        numbers = _at_once(grid, start, stop)
        if numbers is not None:
            X[start:stop] = numbers[:, columns]
        else:
            X[start:stop], missing = _each(grid, start, stop, columns)
            unreadable += missing
    problems = []
    for column, position in enumerate(columns):
        if unreadable[column] == len(X) > 1:
            problems.append(_text_column_problem(grid, position))
            X[:, column] = 0.0  # one problem for the column, not one for each cell
    wrong = np.flatnonzero(~np.isfinite(X)).tolist()
    problems += counted(wrong, lambda i: _cell_problem(grid, i // len(columns), columns[i % len(columns)]))
    if problems:
        raise InputError(problems)
    return X


def _at_once(grid: _Grid, start: int, stop: int) -> NDArray[np.float64] | None:
    """All numbers of some rows, or None where there is anything that `_each` might see in another way."""
    lines = grid.lines
    first, last = grid.rows[start], grid.rows[stop - 1]
    if lines.numbers[last] - lines.numbers[first] != stop - start - 1:
        return None  # a comment, or a row of another width between them
    text = lines.content[lines.starts[first] : lines.ends[last]]
    if text.translate(None, NUMERIC):
        return None
    separator = next((mark for mark in (",", "\t") if mark.encode() in text), None)
    try:
        numbers = np.loadtxt(text.decode().split("\n"), delimiter=separator, comments=None, ndmin=2)
    except ValueError:
        return None
    return numbers if numbers.shape == (stop - start, grid.width) else None


def _each(
    grid: _Grid, start: int, stop: int, columns: list[int]
) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Numbers of some rows, NaN where a cell is none, and how many of those each column has."""
    rows = [grid.cells(row) for row in range(start, stop)]
    numbers = [[to_number(cells[column]) for column in columns] for cells in rows]
    missing = np.array([[number is None for number in row] for row in numbers]).sum(axis=0)
    return np.array(numbers, dtype=np.float64), missing


def _cell_problem(grid: _Grid, row: int, column: int) -> Problem:
    cell = grid.cells(row)[column]
    return Problem(grid.where(row, column), repr(cell) if cell else "an empty cell", "a finite number")


def _text_column_problem(grid: _Grid, position: int) -> Problem:
    example = repr(grid.cells(0)[position])
    hint = "name it as label_column if it holds the classes"
    return Problem(f"{grid.path}, {grid.column(position)}", f"no number, first {example}", "numbers", hint)


def _classes(grid: _Grid, label: int) -> Encoded:
    values = [grid.cells(row)[label] for row in range(len(grid.rows))]
    return encode_classes(values, lambda row: grid.where(row, label))
