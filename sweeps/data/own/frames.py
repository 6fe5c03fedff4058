"""Columns of numbers, texts or both, as pandas has them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweeps.data.lines import to_number
from sweeps.data.own.columns import Numbers


@dataclass(frozen=True, eq=False)
class Frame:
    """A table of a pandas DataFrame.

    Parameters
    ----------
    path : Path
        The file.
    frame : pandas.DataFrame
        Its cells.
    header : sequence of str
        Names of the columns; empty if they have none.
    place : callable
        From a row and a column to the place of a cell, for problems.
    index : tuple of str
        Names of the rows, empty if they have none.
    """

    path: Path
    frame: Any
    header: Sequence[str]
    place: Callable[[int, int], str]
    index: tuple[str, ...] = ()

    @property
    def width(self) -> int:
        """Number of columns."""
        return int(self.frame.shape[1])

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.frame)

    def numbers(self, columns: Sequence[int]) -> Numbers:
        """Some columns as numbers."""
        X = np.empty((self.n_rows, len(columns)))
        others = np.zeros(len(columns), dtype=np.intp)
        for number, column in enumerate(columns):
            X[:, number], others[number] = _numbers(self.frame.iloc[:, column])
        return Numbers(X, others)

    def texts(self, column: int) -> list[str]:
        """Cells of a column as texts."""
        return list(map(text_of, self.frame.iloc[:, column].tolist()))

    def cells(self, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> list[str]:
        """Some cells as texts."""
        found = np.empty(len(rows), dtype=object)
        for column in np.unique(columns).tolist():
            chosen = columns == column
            found[chosen] = list(map(text_of, self.frame.iloc[rows[chosen], column].tolist()))
        return list(found)

    def cell(self, row: int, column: int) -> str:
        """One cell as text."""
        return text_of(self.frame.iloc[row, column])

    def shown(self, row: int, column: int) -> str:
        """One cell as a message has it."""
        value = self.frame.iloc[row, column]
        if isinstance(value, (float, np.floating)):
            return str(float(value))
        cell = text_of(value)
        return repr(cell[:60]) if cell else "an empty cell"

    def where(self, row: int, column: int) -> str:
        """Place of a cell."""
        return self.place(row, column)

    def named(self, column: int) -> str:
        """A column, for problems."""
        name = f" ({self.header[column]})" if self.header else ""
        return f"column {column + 1}{name}"


def text_of(value: Any) -> str:
    """Text of a cell; nothing where a value is missing, and whole numbers without a point."""
    import pandas as pd

    if value is None or value is pd.NA or value is pd.NaT:
        return ""
    if isinstance(value, (float, np.floating)):
        number = float(value)
        if number != number:
            return ""
        return str(int(number)) if number.is_integer() and abs(number) < 2**53 else repr(number)
    if isinstance(value, bytes):
        return value.decode(errors="replace").strip()
    return str(value).strip()


def _numbers(column: Any) -> tuple[NDArray[np.float64], int]:
    """A column as numbers, NaN where a cell is none, and how many of those are texts."""
    import pandas as pd

    kind = column.dtype
    if pd.api.types.is_bool_dtype(kind) or (
        pd.api.types.is_numeric_dtype(kind) and not pd.api.types.is_complex_dtype(kind)
    ):
        with np.errstate(over="ignore"):  # of a type with a wider range: infinite, and refused
            values: NDArray[np.float64] = column.to_numpy(dtype=np.float64, na_value=np.nan)
        return values, 0
    # a category is one by its type, though its words may be numbers
    is_category = isinstance(kind, pd.CategoricalDtype)
    cells = [text_of(value) for value in column.tolist()]
    found = [None if is_category else to_number(cell) for cell in cells]
    return np.array(found, dtype=np.float64), sum(number is None for number in found)
