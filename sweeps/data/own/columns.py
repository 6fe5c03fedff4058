"""What a table of any format is asked for, before it is known which of its columns are what."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from sweeps.errors import InputError, Problem

MOST_CELLS = 50_000_000
"""Numbers of a table: 8 bytes each, and as text a third of a microsecond."""

MOST_COLUMNS = 2**17

MOST_WORDS = 2**23
"""Cells of features that are read one by one, as they are no numbers: a microsecond each."""

MOST_TEXTS = 2**21
"""Different texts of a column; with what they are looked up by, each takes some 200 bytes."""

LONGEST_TEXTS = 2**27
"""Characters of all different texts of a column."""


class Numbers(NamedTuple):
    """Some columns as numbers.

    Parameters
    ----------
    values : array of shape (n_rows, n_columns)
        NaN where a cell is no number.
    n_others : array of shape (n_columns,)
        How many cells of a column are texts.
    is_empty : array of shape (n_rows,)
        Whether a row has a cell that stands for a missing value.
    """

    values: NDArray[np.float64]
    n_others: NDArray[np.intp]
    is_empty: NDArray[np.bool_]


class Columns(Protocol):
    """A table whose rows all have the same number of cells."""

    @property
    def path(self) -> Path:
        """The file."""

    @property
    def header(self) -> Sequence[str]:
        """Names of the columns; empty if they have none."""

    @property
    def width(self) -> int:
        """Number of columns."""

    @property
    def n_rows(self) -> int:
        """Number of rows, one at least."""

    @property
    def index(self) -> tuple[str, ...]:
        """Names that the file itself says its rows have; empty where it says none."""

    def numbers(self, columns: Sequence[int]) -> Numbers:
        """Some columns as numbers."""

    def texts(self, column: int) -> list[str]:
        """Cells of a column as texts; an empty one is the empty text."""

    def cell(self, row: int, column: int) -> str:
        """One cell as text."""

    def shown(self, row: int, column: int) -> str:
        """One cell as a message has it."""

    def where(self, row: int, column: int) -> str:
        """Place of a cell, for problems."""

    def named(self, column: int) -> str:
        """A column, for problems."""


EMPTY = frozenset(
    ("", "na", "n/a", "nan", "-nan", "<na>", "#na", "#n/a", "#n/a n/a", "null", "none", "?", "1.#qnan")
)
"""Cells, in small letters, that stand for a missing value: those of pandas, and a question mark."""


def is_empty(cell: str) -> bool:
    """Whether a cell stands for a missing value."""
    return cell.strip().lower() in EMPTY


def each_once(cells: Iterable[str], where: str) -> list[str]:
    """The same texts, equal ones the same object: a column of classes takes no more than its pointers.

    Raises
    ------
    InputError
        If more are different, or they are longer, than fits into memory.
    """
    known: dict[str, str] = {}
    found: list[str] = []
    length = 0
    for cell in cells:
        kept = known.setdefault(cell, cell)
        if kept is cell:
            length += len(cell)
            if len(known) > MOST_TEXTS or length > LONGEST_TEXTS:
                said = f"more than {MOST_TEXTS:,} different texts, or {LONGEST_TEXTS:,} characters of them"
                raise InputError([Problem(where, said, "fewer", "is it a feature?")])
        found.append(kept)
    return found


def check_words(where: object, count: int) -> None:
    """Refuse features of more texts than are read in a time.

    Raises
    ------
    InputError
        If there are more than `MOST_WORDS`.
    """
    if count > MOST_WORDS:
        found = f"more than {MOST_WORDS:,} different cells of features that are not stored as numbers"
        raise InputError([Problem(str(where), found, "numbers", "drop columns of texts")])


def check_size(where: object, n_rows: int, n_columns: int, most_rows: int) -> None:
    """Refuse a table of more numbers than fit into memory.

    Raises
    ------
    InputError
        With what it has, and the most that is read.
    """
    if n_rows > most_rows or n_columns > MOST_COLUMNS or n_rows * n_columns > MOST_CELLS:
        found = f"{n_rows:,} rows of {n_columns:,} cells"
        expected = f"at most {most_rows:,} rows, {MOST_COLUMNS:,} columns and {MOST_CELLS:,} cells"
        raise InputError([Problem(str(where), found, expected)])
