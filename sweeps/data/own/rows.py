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
from itertools import islice
from pathlib import Path

from sweeps.data.lines import to_number
from sweeps.errors import InputError, Problem

SEMICOLON, BLANK = ";", " "
MARKS = (",", SEMICOLON, "\t")
"""What may separate cells beside blanks; the first of several that are as good."""

TOLD = re.compile(r'"?sep=.?"?')
"""A first line that tells Excel the separator, which the other lines show."""

LOOKED_AT = 10
"""Rows from which the separator is told."""

Row = tuple[list[str], int, int, int]
"""Cells; the first line, from 1, and its offset in the content; the last line."""


@dataclass(frozen=True)
class Content:
    """A text in UTF-8, and what separates its cells."""

    path: Path
    text: bytes
    separator: str

    def rows(self, offset: int = 0) -> Iterator[Row]:
        """Rows from an offset on, one after the other; the line that begins there counts as the first.

        Blank lines and those that start with # are skipped, unless they are inside a cell in quotes, and
        so is a first line such as `sep=;`.

        Raises
        ------
        InputError
            At a cell that does not end; what is behind it cannot be told.
        """
        first = last = 0
        start = end = offset
        at_end = is_begun = False
        by_blanks = self.separator == BLANK

        def lines() -> Iterator[str]:
            nonlocal first, last, start, end, at_end, is_begun
            file = io.BytesIO(self.text)  # which copies nothing
            file.seek(offset)
            for each in file:
                last, begin, end = last + 1, end, end + len(each)
                text = each.decode()
                if not is_begun:
                    stripped = text.strip()
                    if not stripped or stripped[0] == "#" or (begin == 0 and TOLD.fullmatch(stripped)):
                        continue
                    first, start, is_begun = last, begin, True
                    if by_blanks:
                        text = f"{stripped}\n" if '"' in stripped else BLANK.join(stripped.split())
                yield text
            at_end = True

        try:
            for cells in csv.reader(lines(), delimiter=self.separator, skipinitialspace=True):
                if at_end:
                    break
                is_begun = False
                yield cells, first, start, last
        except csv.Error as error:
            found, hint = f"a cell that is too long ({error})", "is a quote that begins it never closed?"
            raise InputError([Problem(f"{self.path}, line {first}", found, "a shorter one", hint)]) from None
        if is_begun:
            where = f"{self.path}, line {first}"
            raise InputError([Problem(where, "a cell whose quote is never closed", "another quote")])


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
