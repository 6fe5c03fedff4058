"""Samples as annotation files name them: the rows of a table, by their numbers or by their names."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from copy import copy
from functools import cached_property

from sweep_clustering.sweeps.annotations.rows import OUTSIDE
from sweep_clustering.sweeps.data import lines
from sweep_clustering.sweeps.data.table import SampleRows, TableChoice, identity
from sweep_clustering.sweeps.errors import did_you_mean, refused

# Whole numbers as long as int64 can hold; without ASCII, digits of other scripts would count as well
WHOLE = re.compile(r"-?\d{1,18}", re.ASCII)

# Names that a misspelt one is compared with.
MOST_COMPARED = 10_000

# Misspelt names that are compared.
MOST_HINTS = 50

# More rows than a table can have.
MOST_ROWS = 10**9

# Choice for a table without any options.
PLAIN = TableChoice()


def is_number(name: str) -> bool:
    """Say whether a name could be taken for the number of a row, or for a float that stands for one."""
    number = lines.to_number(name)
    return number is not None and math.isfinite(number)


class Samples:
    """Samples of a table by the texts that stand for them.

    A text that is the name of a row stands for that row, and so does another spelling of the same number
    (`sweeps.data.table.identity`). Any other is the number of a row of the file, unless a name of the table
    is a number, too: then numbers are names alone.

    Parameters
    ----------
    rows : SampleRows
        The rows of the file that samples come from, with their names if there are any.
    first_row : int
        Number of the first row, 0 or 1.
    why : str
        Reason for it in messages, which follows "counted from 0".
    hint : str
        Hint on texts that name rows, where rows have no names.
    choice : TableChoice
        Choice by which the rows of the table were read.
    """

    def __init__(
        self, rows: SampleRows, first_row: int = 1, why: str = "", hint: str = "", choice: TableChoice = PLAIN
    ) -> None:
        self.rows, self.first_row, self._why, self._hint, self.choice = rows, first_row, why, hint, choice
        self._outside = OUTSIDE if choice.links_outside == "drop" else None
        every = range(rows.n_rows)
        self._row_of: Sequence[int] = every if rows.selection is None else rows.selection.tolist()
        self.are_numbered = not rows.doubt and not any(map(is_number, rows.names))

    @classmethod
    def of(cls, samples: Samples | int) -> Samples:
        """Return the samples, or as many rows without names, counted from 1."""
        return samples if isinstance(samples, Samples) else cls(SampleRows(samples))

    def counted_from(self, first_row: int, why: str = "") -> Samples:
        """Return the same samples with another number of the first row."""
        if first_row == self.first_row and not why:
            return self
        samples = copy(self)
        samples.first_row, samples._why = first_row, why
        return samples

    @property
    def are_written_as_numbers(self) -> bool:
        """Whether a file that is written has numbers of all rows, or of those whose name it cannot hold."""
        names = self.rows.names
        return not names or (self.are_numbered and any(map(lines.CONTROL.search, names)))

    @property
    def every_row(self) -> Samples:
        """Samples that are all rows of the table."""
        return Samples(self.rows._replace(selection=None), self.first_row)

    def __contains__(self, name: str) -> bool:
        return identity(name) in self._by_name

    def find(self, cell: str) -> int | None:
        """Find the position from 0 of the sample that a cell names; None if there is none.

        It is `OUTSIDE` for a row that was left out of the table, if its annotations are left out, too.
        """
        cell = identity(cell)
        row, first = self._by_name.get(cell), self.first_row
        if row is None and self.are_numbered and WHOLE.fullmatch(cell) is not None:
            row = int(cell) - first
            row = row if 0 <= row < self.rows.n_rows else None
        return row if self.rows.selection is None or row is None else self._positions.get(row, self._outside)

    def position(self, cell: str, where: str) -> int:
        """Return the position of a sample from 0, see `find`; `where` is for messages.

        Raises
        ------
        InputError
            If it is none of the samples.
        """
        if (position := self.find(cell)) is not None:
            return position
        cell = identity(cell)
        rows, is_number = self.rows, WHOLE.fullmatch(cell) is not None
        first, last = self.first_row, rows.n_rows - 1 + self.first_row
        row = self._by_name.get(cell)
        if row is None and self.are_numbered and is_number and first <= int(cell) <= last:
            row = int(cell) - first
        fault, expected = f"sample {cell[:60]!r}", "a row that is used"
        dropping, leaving = self.choice.phrase("missing", "drop"), self.choice.phrase("links_outside", "drop")
        hint = f"it has an empty cell, and {dropping} leaves it out; {leaving} leaves out its annotations"
        # the number of rows is not known if the table could not be read
        numbers = f"{first} to {last}" if last < MOST_ROWS else f"{first} or more"
        if row is None and rows.doubt:
            expected, hint = "names that tell the rows of the table apart", rows.doubt
        elif row is None and rows.names:
            hint = self._suggestion(cell)
            expected = "the name of a row" + (f", or {numbers}" if self.are_numbered else "")
        elif row is None:
            fault = f"sample {int(cell)}" if is_number else fault
            expected, hint = numbers, f"samples are counted from {first}{self._why}"
            if self._hint and not is_number:
                expected, hint = "the number of a row, as rows have no names", self._hint
        raise refused(where, fault, expected, hint)

    def text(self, position: int) -> str:
        """Return the name of a sample, or the number of its row."""
        row = self._row_of[position]
        return self.rows.names[row] if self.rows.names else str(row + self.first_row)

    def identifier(self, position: int) -> str | int:
        """Return the name of a sample, or the number of its row as a whole number."""
        text = self.text(position)
        return text if self.rows.names else int(text)

    def cell(self, position: int) -> str:
        """Return the cell of a spreadsheet of which `named_by` finds the name of a sample."""
        text = self.text(position)
        if lines.CONTROL.search(text) and self.are_numbered:
            return str(self._row_of[position] + self.first_row)
        return lines.as_cell(text)

    def named_by(self, cell: str) -> str:
        """Return the name in a cell of a spreadsheet if it is one of a sample; else the cell."""
        plain = lines.of_cell(cell)
        return plain if plain in self else cell

    def _suggestion(self, cell: str) -> str:
        """Suggest the name that a cell may mean; only for the first cells, because each takes long."""
        if cell not in self._hints and len(self._hints) < MOST_HINTS:
            self._hints[cell] = did_you_mean(cell, self.rows.names[:MOST_COMPARED])
        return self._hints.get(cell, "")

    @cached_property
    def _hints(self) -> dict[str, str]:
        return {}

    @cached_property
    def _by_name(self) -> dict[str, int]:
        return {identity(name): row for row, name in enumerate(self.rows.names)}

    @cached_property
    def _positions(self) -> dict[int, int]:
        return {row: position for position, row in enumerate(self._row_of)}
