"""Classes of samples, from the text of a user's file to codes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweeps.data.lines import Lines, counted, read_lines, shortened, split_cells, to_number
from sweeps.errors import InputError, Problem

MAX_CLASSES = np.iinfo(np.int16).max + 1
"""Codes of classes are int16, counted from 0."""

Encoded = tuple[NDArray[np.int16], tuple[str, ...]]


def encode_classes(values: Sequence[str], where: Callable[[int], str]) -> Encoded:
    """Codes of classes, in sorted order.

    Classes that are all finite numbers are compared as numbers ("2" before "10", "1" the same as
    "1.0"), others as text.

    Parameters
    ----------
    values : sequence of str
        Class of every sample.
    where : callable
        From the position of a sample to its place, for problems.

    Returns
    -------
    codes : array of shape (n_samples,)
        Positions in the class names.
    class_names : tuple of str
        Each as it is first spelled.

    Raises
    ------
    InputError
        If a class is missing (empty or NaN), or there are more than an int16 can count.
    """
    numbers = {value: to_number(value) for value in dict.fromkeys(values)}
    none = {value for value, number in numbers.items() if not value or number != number}
    missing = [position for position, value in enumerate(values) if value in none] if none else []
    problems = counted(
        missing, lambda i: Problem(where(i), "NaN" if values[i] else "an empty cell", "a class")
    )
    numeric = all(number is not None and math.isfinite(number) for number in numbers.values())
    keys: dict[str, Any] = {value: number if numeric else value for value, number in numbers.items()}
    first = {key: value for value, key in reversed(keys.items())}
    distinct = sorted(first)
    if len(distinct) > MAX_CLASSES:
        expected = f"at most {MAX_CLASSES}"
        problems.append(
            Problem(where(0), f"the first of {len(distinct)} classes", expected, "is it a feature?")
        )
    if problems:
        raise InputError(problems)
    code = {key: number for number, key in enumerate(distinct)}
    codes = {value: code[key] for value, key in keys.items()}
    of_each = np.fromiter(map(codes.__getitem__, values), np.int16, len(values))
    return of_each, tuple(first[key] for key in distinct)


LABEL = "label"
"""Column of the classes in a table of labels, such as `sweep fit --out` writes."""


def read_labels(path: Path, n_rows: int | None = None) -> Encoded:
    """Read a file of classes, one per sample, separated by line ends, commas, tabs or blanks.

    With as many lines as there are rows each line is a class, whatever it is made of; and so with one more,
    which is a header if it is no number and no class of another line. Of a table with a column `label` that
    cell is the class. Else every entry is one, and a first one that is not a number, before entries that all
    are, is a header.

    Parameters
    ----------
    path : Path
        The file.
    n_rows : int, optional
        Rows that have classes.

    Returns
    -------
    codes, class_names
        As of `encode_classes`.

    Raises
    ------
    InputError
        If the file cannot be read or is empty, and as `encode_classes`.
    """
    lines = read_lines(path)
    entries = _of_lines(lines, n_rows) if n_rows else None
    if entries is None:
        entries = []
        for position in range(len(lines)):
            entries += [(cell, position) for cell in split_cells(lines.text(position))]
            if n_rows and len(entries) > n_rows + 1:
                found, expected = f"more than {n_rows:,} labels", f"{n_rows:,}, one for each row"
                raise InputError([Problem(str(path), found, expected)])
        numbers = [to_number(cell) for cell, _ in entries]
        if len(entries) > 1 and numbers[0] is None and None not in numbers[1:]:
            del entries[0]
    if not entries:
        raise InputError([Problem(str(path), "no classes", "one per sample")])
    values, places = zip(*entries, strict=True)
    try:
        return encode_classes(values, lambda i: lines[places[i]].where)
    except InputError as error:
        raise InputError(shortened(path, error.problems)) from None


def _of_lines(lines: Lines, n_rows: int) -> list[tuple[str, int]] | None:
    """Class and line of each sample, where each has a line; None where lines do not say so."""
    begin = len(lines) - n_rows
    if begin not in (0, 1):
        return None
    separator = ";" if ";" in lines.text(0) else ""
    header = [cell.lower() for cell in split_cells(lines.text(0), separator)] if begin else []
    if len(header) > 1 and header.count(LABEL) == 1:
        column = header.index(LABEL)
        rows = [split_cells(lines.text(i), separator) for i in range(1, len(lines))]
        return [(row[column] if column < len(row) else "", i) for i, row in enumerate(rows, start=1)]
    cells = [lines.text(i).strip('"') for i in range(len(lines))]
    if begin and (to_number(cells[0]) is not None or cells[0] in cells[1:]):
        return None
    return [(cell, i) for i, cell in enumerate(cells)][begin:]
