"""What a table of any format is asked for, before it is known which of its columns are what."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray


class Numbers(NamedTuple):
    """Columns of shape (n_rows, n_columns), NaN where a cell is no number; how many of each are none."""

    values: NDArray[np.float64]
    n_others: NDArray[np.intp]


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

    def cells(self, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> list[str]:
        """Some cells as texts, each of a row and a column; rows ascend."""

    def cell(self, row: int, column: int) -> str:
        """One cell as text."""

    def shown(self, row: int, column: int) -> str:
        """One cell as a message has it."""

    def where(self, row: int, column: int) -> str:
        """Place of a cell, for problems."""

    def named(self, column: int) -> str:
        """A column, for problems."""
