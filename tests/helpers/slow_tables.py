"""Slow and obvious twin of `sweeps.data.own.text`: every cell of a table of its own, one after the other."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sweeps.data.classes import Encoded, encode_classes
from sweeps.data.lines import split_cells, to_number
from sweeps.data.own.text import separator_of
from sweeps.data.tables import LabelledTable
from sweeps.errors import InputError, Problem, collecting, did_you_mean


@dataclass(frozen=True)
class _Grid:
    """Cells of a text table, all rows of one width; `header` is empty if the file has none."""

    path: Path
    header: list[str]
    rows: list[list[str]]
    where: list[str]
    width: int
    separator: str

    def column(self, position: int) -> str:
        name = f" ({self.header[position]})" if self.header else ""
        return f"column {position + 1}{name}"


def read_slowly(path: Path, label_column: str | int | None) -> LabelledTable:
    """As `read_text_table`."""
    problems: list[Problem] = []
    grid = _grid(path, label_column, problems)
    X, encoded, label = np.empty((0, 0)), None, None
    with collecting(problems):
        label = _label_position(grid, label_column)
    with collecting(problems):
        X = _features(grid, label)
    if label is not None:
        with collecting(problems):
            encoded = _classes(grid, label)
    if problems:
        raise InputError(problems)
    codes, class_names = encoded or (None, ())
    names = tuple(name for position, name in enumerate(grid.header) if position != label)
    return LabelledTable(X, codes, class_names, names)


def _grid(path: Path, label_column: str | int | None, problems: list[Problem]) -> _Grid:
    """The rows of the commonest width; others are problems."""
    text = path.read_text(encoding="utf-8-sig")
    numbered = [(number, line.strip()) for number, line in enumerate(text.split("\n"), start=1)]
    lines = [(number, line) for number, line in numbered if line and not line.startswith("#")]
    separator = separator_of([line for _, line in lines[:10]])
    rows = [split_cells(line, separator) for _, line in lines]
    where = [f"{path}, line {number}" for number, _ in lines]
    has_header = bool(rows) and _is_header(rows[0], label_column)
    if len(rows) == has_header:
        raise InputError([Problem(str(path), "no rows", "at least one sample")])
    width = Counter(map(len, rows[has_header:])).most_common(1)[0][0]
    ragged = [position for position, row in enumerate(rows) if len(row) != width]
    problems += [
        Problem(where[position], f"{len(rows[position])} cells", f"{width} as in the other rows")
        for position in ragged
    ]
    header = rows[0] if has_header and 0 not in ragged else []
    kept = [position for position in range(int(has_header), len(rows)) if len(rows[position]) == width]
    return _Grid(path, header, [rows[i] for i in kept], [where[i] for i in kept], width, separator)


def _is_header(cells: list[str], label_column: str | int | None) -> bool:
    return label_column in cells or all(to_number(cell) is None for cell in cells)


def _label_position(grid: _Grid, label_column: str | int | None) -> int | None:
    if label_column is None:
        return None
    where = f"{grid.path}, label_column"
    if isinstance(label_column, int):
        if not -grid.width <= label_column < grid.width:
            expected = f"{-grid.width} to {grid.width - 1}"
            raise InputError([Problem(where, str(label_column), expected, "columns are counted from 0")])
        return label_column % grid.width
    if grid.header.count(label_column) == 1:
        return grid.header.index(label_column)
    if not grid.header:
        hint = "the file has no header; give a position"
    elif label_column in grid.header:
        hint = "several columns have that name; give a position"
    else:
        hint = did_you_mean(label_column, grid.header)
    names = ", ".join(grid.header[:20]) or f"{-grid.width} to {grid.width - 1}"
    raise InputError([Problem(where, repr(label_column), f"one of {names}", hint)])


def _features(grid: _Grid, label: int | None) -> NDArray[np.float64]:
    columns = [position for position in range(grid.width) if position != label]
    if not columns:
        raise InputError([Problem(str(grid.path), "no column beside the classes", "at least one feature")])
    numbers = [[_number(row[position], grid.separator) for position in columns] for row in grid.rows]
    X = np.array(numbers, dtype=np.float64)  # None becomes NaN, and so a problem below
    problems = []
    for column, position in enumerate(columns):
        if all(row[column] is None for row in numbers) and len(numbers) > 1:
            problems.append(_text_column_problem(grid, position))
            X[:, column] = 0.0  # one problem for the column, not one for each cell
    for row, column in np.argwhere(~np.isfinite(X)).tolist():
        cell = grid.rows[row][columns[column]]
        where = f"{grid.where[row]}, {grid.column(columns[column])}"
        is_empty = cell.lower() in ("", "nan", "-nan", "na")
        hint = 'missing = "drop" leaves out such rows' if is_empty else ""
        problems.append(Problem(where, repr(cell) if cell else "an empty cell", "a finite number", hint))
    if problems:
        raise InputError(problems)
    return X


def _number(cell: str, separator: str) -> float | None:
    decimal_comma = separator == ";" and cell.count(",") == 1
    found = to_number(cell)
    return to_number(cell.replace(",", ".")) if found is None and decimal_comma else found


def _text_column_problem(grid: _Grid, position: int) -> Problem:
    example = repr(grid.rows[0][position])
    hint = (
        "name it as label_column if it holds the classes, or as index_column if it holds names; "
        'else drop it, or categories = "onehot"'
    )
    return Problem(f"{grid.path}, {grid.column(position)}", f"no number, first {example}", "numbers", hint)


def _classes(grid: _Grid, label: int) -> Encoded:
    where = [f"{place}, {grid.column(label)}" for place in grid.where]
    return encode_classes([row[label] for row in grid.rows], where.__getitem__)
