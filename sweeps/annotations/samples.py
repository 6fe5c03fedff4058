"""How annotation files name samples: by the rows of the table, or by the names it gives them."""

from __future__ import annotations

import re
from functools import cached_property

import numpy as np

from sweeps.data.lines import CONTROL, as_cell, of_cell
from sweeps.data.tables import SampleRows
from sweeps.errors import InputError, Problem, did_you_mean

# as long as int64 can hold; without ASCII, digits of other scripts would count as well
WHOLE = re.compile(r"-?\d{1,18}", re.ASCII)

MOST_COMPARED = 10_000
"""Names that a misspelt one is compared with."""

DROPPED = 'it has an empty cell, and missing = "drop" leaves it out'


class Samples:
    """What texts stand for the samples of a table.

    A text that is the name of a row stands for that row. Any other is the number of a row of the file from 1,
    unless a name of the table is a whole number, too: then numbers are names alone.

    Parameters
    ----------
    rows : SampleRows
        The rows of the file that samples come from, with their names if there are any.
    """

    def __init__(self, rows: SampleRows) -> None:
        self._rows = rows
        self._numbered = not any(map(WHOLE.fullmatch, rows.names))

    @classmethod
    def of(cls, samples: Samples | int) -> Samples:
        """Samples that are all rows of a file, without names, where only their number is told."""
        return samples if isinstance(samples, Samples) else cls(SampleRows(samples))

    def position(self, cell: str, where: str) -> int:
        """Position of a sample from 0.

        Parameters
        ----------
        cell : str
            Name, or number of a row from 1.
        where : str
            For messages.

        Raises
        ------
        InputError
            If it is none of the samples.
        """
        row = self._row(cell, where)
        position = row if self._rows.kept is None else self._positions.get(row)
        if position is None:
            raise InputError([Problem(where, f"sample {cell[:60]!r}", "a row that is used", DROPPED)])
        return position

    def text(self, position: int) -> str:
        """Name of a sample, or the number of its row from 1."""
        kept = self._rows.kept
        row = position if kept is None else int(kept[position])
        return self._rows.names[row] if self._rows.names else str(row + 1)

    def told(self, position: int) -> str | int:
        """The same, a number as one."""
        text = self.text(position)
        return text if self.has_names else int(text)

    def cell(self, position: int) -> str:
        """The same for a cell of a spreadsheet, of which `named_by` finds the name."""
        text = self.text(position)
        if CONTROL.search(text) and self._numbered:
            kept = self._rows.kept
            return str((position if kept is None else int(kept[position])) + 1)
        return as_cell(text)

    def named_by(self, cell: str) -> str:
        """Name that stands in a cell of a spreadsheet, where that is one of a sample; else the cell."""
        plain = of_cell(cell)
        return plain if plain in self._by_name else cell

    @property
    def has_names(self) -> bool:
        """Whether samples have names."""
        return bool(self._rows.names)

    def may_be(self, cell: str) -> bool:
        """Whether a text may stand for a sample, of this table or of a larger one."""
        return self.has_names or WHOLE.fullmatch(cell) is not None

    @cached_property
    def _by_name(self) -> dict[str, int]:
        return {name: row for row, name in enumerate(self._rows.names)}

    @cached_property
    def _positions(self) -> dict[int, int]:
        kept = np.arange(0) if self._rows.kept is None else self._rows.kept
        return {row: position for position, row in enumerate(kept.tolist())}

    def _row(self, cell: str, where: str) -> int:
        found = self._by_name.get(cell)
        if found is not None:
            return found
        if self._numbered and WHOLE.fullmatch(cell) and 1 <= int(cell) <= self._rows.n_rows:
            return int(cell) - 1
        if self._rows.names:
            hint = did_you_mean(cell, self._rows.names[:MOST_COMPARED])
            expected = "the name of a row" + (f", or 1 to {self._rows.n_rows}" if self._numbered else "")
            raise InputError([Problem(where, f"sample {cell[:60]!r}", expected, hint)])
        number = str(int(cell)) if WHOLE.fullmatch(cell) else repr(cell[:60])
        expected, hint = f"1 to {self._rows.n_rows}", "samples are counted from 1"
        raise InputError([Problem(where, f"sample {number}", expected, hint)])
