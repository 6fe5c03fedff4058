"""Rows of a table that is text: where each begins, and its cells.

Cells come from Python's `csv` module; "Libraries" in docs/design.md says why not from pandas.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice
from pathlib import Path

from sweeps.data.lines import to_number
from sweeps.data.own.columns import MOST_COLUMNS
from sweeps.errors import InputError, Problem

SEMICOLON, BLANK = ";", " "
MARKS = (",", SEMICOLON, "\t")
"""What may separate cells beside blanks; the first of several that are as good."""

TOLD = re.compile(r'"?sep=.?"?')
"""A first line that tells Excel the separator, which the other lines show."""

LOOKED_AT = 10
"""Rows from which the separator is told."""

LONGEST_ROW = 2**23
"""Bytes of a row, with all lines of its cells."""

Row = tuple[list[str], int, int]
"""Cells; the offset of the first line in the content; how many lines."""


@dataclass(frozen=True)
class Content:
    """A text in UTF-8, and what separates its cells."""

    path: Path
    text: bytes
    separator: str

    def rows(self, offset: int = 0) -> Iterator[Row]:
        """Rows from an offset on, one after the other.

        Blank lines and those that start with # are skipped, unless they are inside a cell in quotes, and
        so is a first line such as `sep=;`.

        Raises
        ------
        InputError
            At a cell that does not end, and at a row of more than is read; what is behind it is not told.
        """
        if not self._has_quotes:
            yield from self._plain_rows(offset)
            return
        start = end = offset
        n_lines = n_marks = 0
        at_end = is_begun = False
        by_blanks = self.separator == BLANK

        def lines() -> Iterator[str]:
            nonlocal start, end, n_lines, n_marks, at_end, is_begun
            file = io.BytesIO(self.text)  # which copies nothing
            file.seek(offset)
            for each in iter(partial(file.readline, LONGEST_ROW + 1), b""):
                begin, end = end, end + len(each)
                text = each.decode()
                if not is_begun:
                    stripped = text.strip()
                    if not stripped or stripped[0] == "#" or (begin == 0 and TOLD.fullmatch(stripped)):
                        continue
                    start, n_lines, n_marks, is_begun = begin, 0, 0, True
                    if by_blanks:
                        text = f"{stripped}\n" if '"' in stripped else BLANK.join(stripped.split())
                n_lines += 1
                n_marks += text.count(self.separator)
                if n_marks >= MOST_COLUMNS or end - start > LONGEST_ROW:
                    raise InputError([self._too_long(start)])
                yield text
            at_end = True

        try:
            for cells in csv.reader(lines(), delimiter=self.separator, skipinitialspace=True):
                if at_end:
                    break
                is_begun = False
                yield cells, start, n_lines
        except csv.Error as error:
            found, hint = f"a cell that is too long ({error})", "is a quote that begins it never closed?"
            raise InputError([Problem(self.line(start), found, "a shorter one", hint)]) from None
        if is_begun:
            raise InputError(
                [Problem(self.line(start), "a cell whose quote is never closed", "another quote")]
            )

    @cached_property
    def _has_quotes(self) -> bool:
        return b'"' in self.text

    def _plain_rows(self, offset: int) -> Iterator[Row]:
        """The same of a text without quotes, where each line is a row, in half the time."""
        file, end = io.BytesIO(self.text), offset
        file.seek(offset)
        longest = csv.field_size_limit()
        for each in iter(partial(file.readline, LONGEST_ROW + 1), b""):
            begin, end = end, end + len(each)
            text = each.decode()
            stripped = text.strip()
            if not stripped or stripped[0] == "#" or (begin == 0 and TOLD.fullmatch(stripped)):
                continue
            if len(each) > longest and (
                len(each) > LONGEST_ROW or text.count(self.separator) >= MOST_COLUMNS
            ):
                raise InputError([self._too_long(begin)])
            cells = (
                stripped.split() if self.separator == BLANK else text.removesuffix("\n").split(self.separator)
            )
            if len(each) > longest and max(map(len, cells)) > longest:
                found = "a cell that is too long"
                raise InputError([Problem(self.line(begin), found, f"at most {longest:,} characters")])
            yield cells, begin, 1

    def number(self, offset: int) -> int:
        """Number of the line that begins at an offset, from 1."""
        return self.text.count(b"\n", 0, offset) + 1

    def line(self, offset: int) -> str:
        """The same, for messages."""
        return f"{self.path}, line {self.number(offset)}"

    def _too_long(self, offset: int) -> Problem:
        expected = f"at most {MOST_COLUMNS:,} columns and {LONGEST_ROW:,} bytes in a row"
        return Problem(self.line(offset), "a longer row", expected)


def separator_of(path: Path, text: bytes) -> str:
    """What separates the cells of the first rows of a table.

    It gives the most of them as many cells. Where several do, most of the cells of a row are numbers by it:
    commas may be decimal ones, and texts may have as many marks in each row.
    """
    fits = {mark: _fit(_first(path, text, mark)) for mark in MARKS}
    best = max(MARKS, key=fits.__getitem__)
    return best if fits[best] > (0, 0.0) else BLANK


def _fit(rows: list[list[str]]) -> tuple[int, float]:
    """How many rows have the commonest number of cells, unless one; the share of numbers in the last."""
    widths = Counter(map(len, rows))
    width, count = widths.most_common(1)[0] if rows else (1, 0)
    if width == 1:
        return 0, 0.0
    numbers = [to_number(cell.replace(",", ".", 1)) is not None for cell in rows[-1]]
    return count, sum(numbers) / len(numbers)


def _first(path: Path, text: bytes, mark: str) -> list[list[str]]:
    found: list[list[str]] = []
    with suppress(InputError):  # is said of the whole file
        found.extend(cells for cells, *_ in islice(Content(path, text, mark).rows(), LOOKED_AT))
    return found
