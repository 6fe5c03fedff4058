"""Lines, cells and numbers of a user's text files."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from sweeps.errors import InputError, Problem

PROBLEMS_SHOWN = 20


class Line(NamedTuple):
    """A line with content.

    Parameters
    ----------
    where : str
        File and line number, for problems.
    text : str
        The line, stripped.
    number : int
        Of the line, from 1.
    """

    where: str
    text: str
    number: int


def read_lines(path: Path) -> list[Line]:
    """Lines of a UTF-8 file, without blank lines and those that start with #.

    Raises
    ------
    InputError
        If the file cannot be read.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError([unreadable(path, error)]) from error
    except UnicodeDecodeError as error:
        found = f"byte {error.object[error.start]:#04x} at offset {error.start}"
        raise InputError([Problem(str(path), found, "a text file in UTF-8")]) from error
    if "\0" in text:
        raise InputError([Problem(str(path), "NUL characters", "a text file")])
    # Not splitlines(): it also breaks at characters that editors do not count as line ends.
    lines = (line.strip() for line in text.split("\n"))
    numbered = (Line(f"{path}, line {number}", line, number) for number, line in enumerate(lines, start=1))
    return [line for line in numbered if line.text and not line.text.startswith("#")]


def unreadable(path: Path, error: OSError) -> Problem:
    """The problem of a path that cannot be read."""
    return Problem(str(path), error.strerror or str(error), "a readable file")


def split_cells(text: str) -> list[str]:
    """Cells of a line, split at commas if it has any, else at tabs, else at blanks; quotes group."""
    separator = next((mark for mark in ",\t" if mark in text), " ")
    if '"' in text:
        try:
            return [
                cell.strip() for cell in next(csv.reader([text], delimiter=separator, skipinitialspace=True))
            ]
        except csv.Error:  # a cell beyond the reader's limit
            return [text]
    return text.split() if separator == " " else [cell.strip() for cell in text.split(separator)]


def to_number(cell: str) -> float | None:
    """The number a cell spells (NaN and infinities included), or None; 1_000 is not a number in a table."""
    if "_" in cell:
        return None
    try:
        return float(cell)
    except ValueError:
        return None


def shortened(path: Path, problems: Iterable[Problem]) -> list[Problem]:
    """The first problems of a file, and how many there are beyond."""
    found = list(problems)
    beyond = len(found) - PROBLEMS_SHOWN
    if beyond <= 0:
        return found
    return [*found[:PROBLEMS_SHOWN], Problem(str(path), f"{beyond} more problems like these", "none")]
