"""A user's table as text: `read_text_table`, and `rows_of` for any text whose rows are cells.

Cells come from Python's `csv` module; "Libraries" in docs/design.md says why not from pandas.
"""

import csv
import io
import re
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain, compress, islice
from pathlib import Path
from statistics import fmean

import numpy as np

from sweep_clustering.sweeps.data.lines import counted, read_text, to_number
from sweep_clustering.sweeps.data.table import (
    MOST_COLUMNS,
    Frame,
    LabelledTable,
    TableChoice,
    is_header,
    select,
)
from sweep_clustering.sweeps.errors import InputError, Problem, collecting, plural, refused

# Bytes of a table: as texts its cells take several times the memory; an .npz file has no such limit.
MOST_BYTES = 2**27

# Bytes of a line.
LONGEST_ROW = 2**23

SEMICOLON = ";"
BLANK = " "

# Separators of cells beside blanks; the first of several that are as good is taken.
MARKS = (",", SEMICOLON, "\t")

# A first line that tells Excel the separator, which the other lines show.
TOLD = re.compile(r'"?sep=.?"?')

# Rows that show the separator.
LOOKED_AT = 10


def read_text_table(path: Path, choice: TableChoice) -> LabelledTable:
    """Read a table of comma, semicolon, tab or blank separated cells, packed by gzip or not.

    Blank lines and those that start with # are skipped. The first row is a header if none of its cells
    is a number, or if one is a name in the choice. The separator is the one that gives most of the
    first rows as many cells; of a file with semicolons a number may have a decimal comma. A cell in quotes
    may hold separators and line ends.

    Raises
    ------
    InputError
        With every problem of the file.
    """
    text = read_text(path, MOST_BYTES)
    separator = separator_of(path, text)
    problems: list[Problem] = []
    # all cells in one list: a list for each row would take as much again where rows are short
    cells, widths, lines, lengths = list[str](), array("i"), array("i"), array("i")
    with collecting(problems):
        for row, line, n_lines in rows_of(path, text, separator):
            cells += row
            widths.append(len(row))
            lines.append(line)
            lengths.append(n_lines)
    begin = int(bool(cells) and is_header(cells[: widths[0]], choice))
    if len(widths) == begin:
        raise InputError([*problems, Problem(str(path), "no rows", "at least one sample")])
    # the first of several that are as common
    width = Counter(widths[begin:]).most_common(1)[0][0]
    is_usual = np.frombuffer(widths, dtype=np.int32) == width

    def problem(row: int) -> Problem:
        last = lines[row] + lengths[row] - 1
        hint = f"a cell in quotes goes on to line {last}" if lengths[row] > 1 else ""
        expected = f"{width} as in the other rows"
        return Problem(f"{path}, line {lines[row]}", plural(widths[row], "cell"), expected, hint)

    problems[:0] = counted(np.flatnonzero(~is_usual), problem)
    header = cells[:width] if begin and widths[0] == width else []
    is_usual[:begin] = False
    if not is_usual.all():
        cells = list(compress(cells, np.repeat(is_usual, widths).tolist()))
    numbers = np.frombuffer(lines, dtype=np.int32)[is_usual]

    def where(row: int, column: int) -> str:
        name = f" ({header[column]})" if header else ""
        return f"{path}, line {numbers[row]}, column {column + 1}{name}"

    def columns(chosen: Sequence[int]) -> list[list[str]]:
        return [cells[column::width] for column in chosen]

    frame = Frame(
        path, len(numbers), width, header, where, columns, has_decimal_commas=separator == SEMICOLON
    )
    return select(frame, choice, problems)


def rows_of(path: Path, text: bytes, separator: str) -> Iterator[tuple[list[str], int, int]]:
    """Yield the rows of a text: cells, each on one line; number of the first line; number of lines.

    Blank lines and those that start with # are skipped, unless they are inside a cell in quotes, and so is a
    first line such as `sep=;`. A blank as the separator stands for any number of blanks and tabs.

    Raises
    ------
    InputError
        At a cell that does not end, and at a row of more than is read; no row behind it is read.
    """
    file, number = io.BytesIO(text), 0

    def wrong(fault: str, expected: str, hint: str = "") -> InputError:
        return refused(f"{path}, line {number}", fault, expected, hint)

    def further() -> Iterator[str]:
        """Yield the lines of a row after its first."""
        yield from (content.decode() for content in file)
        raise wrong("a cell whose quote is never closed", "another quote")

    for content in file:
        number += 1
        line, n_lines = content.decode(), 1
        stripped = line.strip()
        if not stripped or stripped[0] == "#" or (number == 1 and TOLD.fullmatch(stripped)):
            continue
        if '"' in line:
            # further lines are asked for where a cell in quotes goes on
            begin = f"{stripped}\n" if separator == BLANK else line
            reader = csv.reader(chain([begin], further()), delimiter=separator, skipinitialspace=True)
            try:
                cells, n_lines = [cell.replace("\n", " ") for cell in next(reader)], reader.line_num
            except csv.Error as error:
                hint = "is a quote that begins it never closed?"
                raise wrong(f"a cell that is too long ({error})", "a shorter one", hint) from None
        else:  # a reader for each row would take four times as long
            cells = stripped.split() if separator == BLANK else line.split(separator)
        if len(content) > LONGEST_ROW or len(cells) > MOST_COLUMNS:
            expected = f"at most {MOST_COLUMNS:,} columns and {LONGEST_ROW:,} bytes in a line"
            raise wrong("a longer row", expected)
        yield list(map(str.strip, cells)), number, n_lines
        number += n_lines - 1


def separator_of(path: Path, text: bytes) -> str:
    """Find the separator of the cells of a table by its first rows.

    It gives the most of them as many cells. If several do, most of the cells of a row are numbers by it:
    commas may be decimal ones, and texts may have as many marks in each row.
    """

    def fit(mark: str) -> tuple[int, float]:
        """Return how many rows are of the commonest width above 1, and the share of numbers in the last."""
        rows: list[list[str]] = []
        with suppress(InputError):  # the problem comes when the whole file is read
            rows.extend(cells for cells, *_ in islice(rows_of(path, text[:LONGEST_ROW], mark), LOOKED_AT))
        width, count = Counter(map(len, rows)).most_common(1)[0] if rows else (1, 0)
        if width == 1:
            return 0, 0.0
        return count, fmean(to_number(cell.replace(",", ".", 1)) is not None for cell in rows[-1])

    fits = {mark: fit(mark) for mark in MARKS}
    best = max(MARKS, key=fits.__getitem__)
    return best if fits[best] > (0, 0.0) else BLANK
