"""Columns of numbers, texts or both, as pandas has them, some rows at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweeps.data.lines import to_number
from sweeps.data.own.columns import Numbers, check_words, each_once, is_empty


@dataclass(frozen=True, eq=False)
class Frame:
    """A table that comes as pandas DataFrames.

    Parameters
    ----------
    path : Path
        The file.
    parts : callable
        From positions of columns to lists of these, each a Series: all rows, one part after the other.
    n_rows, width : int
        Number of rows, and of columns.
    header : sequence of str
        Names of the columns; empty if they have none.
    place : callable
        From a row and a column to the place of a cell, for problems.
    index : tuple of str
        Names of the rows, empty if they have none.
    """

    path: Path
    parts: Callable[[Sequence[int]], Iterator[Any]]
    n_rows: int
    width: int
    header: Sequence[str]
    place: Callable[[int, int], str]
    index: tuple[str, ...] = ()

    def numbers(self, columns: Sequence[int]) -> Numbers:
        """Some columns as numbers."""
        X = np.empty((self.n_rows, len(columns)))
        others = np.zeros(len(columns), dtype=np.intp)
        is_empty = np.zeros(self.n_rows, dtype=np.bool_)
        start = n_words = 0
        for part in self.parts(columns):
            rows = slice(start, start + len(part[0]))
            for number, column in enumerate(part):
                X[rows, number], n_others, missing, n_values = _numbers(column)
                others[number] += n_others
                is_empty[rows] |= missing
                n_words += n_values
            check_words(self.path, n_words)
            start = rows.stop
        return Numbers(X, others, is_empty)

    def texts(self, column: int) -> list[str]:
        """Cells of a column as texts."""
        cells = (text for (part,) in self.parts([column]) for text in _texts(part))
        return each_once(cells, f"{self.path}, {self.named(column)}")

    def cell(self, row: int, column: int) -> str:
        """One cell as text."""
        return text_of(self._value(row, column))

    def shown(self, row: int, column: int) -> str:
        """One cell as a message has it."""
        value = self._value(row, column)
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

    def _value(self, row: int, column: int) -> Any:
        for (part,) in self.parts([column]):
            if row < len(part):
                return part.iloc[row]
            row -= len(part)
        raise IndexError(row)


def text_of(value: Any) -> str:
    """Text of a cell; nothing where a value is missing, and whole numbers without a point."""
    if type(value) is str:
        return value.strip()
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


def _is_plain(kind: Any) -> bool:
    """Whether all values of a type are numbers, or missing."""
    import pandas as pd

    return pd.api.types.is_bool_dtype(kind) or bool(
        pd.api.types.is_numeric_dtype(kind) and not pd.api.types.is_complex_dtype(kind)
    )


def _coded(column: Any) -> tuple[NDArray[np.intp], list[Any]]:
    """For each cell which of some values it is, the last one where it is missing.

    Of texts and categories each value is there once. Cells of other types may be equal and not the same, such
    as 1 and true.
    """
    import pandas as pd

    if isinstance(column.dtype, pd.CategoricalDtype):
        codes, values = column.cat.codes.to_numpy(), column.cat.categories.tolist()
    elif isinstance(column.dtype, pd.StringDtype):
        codes, found = pd.factorize(column)
        values = found.tolist()
    else:
        codes, values = np.arange(len(column)), column.tolist()
    return np.asarray(codes, dtype=np.intp), [*values, None]


def _texts(column: Any) -> Iterator[str]:
    codes, values = _coded(column)
    texts = list(map(text_of, values))
    return map(texts.__getitem__, codes.tolist())


def _numbers(column: Any) -> tuple[NDArray[np.float64], int, NDArray[np.bool_], int]:
    """A column as numbers, NaN where a cell is none; how many of those are texts; which cells are empty.

    At last, how many values had to be looked at one by one.
    """
    import pandas as pd

    kind = column.dtype
    if _is_plain(kind):
        with np.errstate(over="ignore"):  # of a type with a wider range: infinite, and refused
            numbers: NDArray[np.float64] = column.to_numpy(dtype=np.float64, na_value=np.nan)
        return numbers, 0, np.isnan(numbers), 0
    codes, values = _coded(column)
    texts = list(map(text_of, values))
    # a category is one by its type, though its words may be numbers
    is_category = isinstance(kind, pd.CategoricalDtype)
    found = [None if is_category else to_number(text) for text in texts]
    is_other = np.array([number is None for number in found])[codes]
    missing = np.array([is_empty(text) for text in texts])[codes]
    return np.array(found, dtype=np.float64)[codes], int(is_other.sum()), missing, len(values)
