"""A user's own tables: `load_table` makes a data set of one.

`read_table` is the one door to tables of every format: by the end of a file's name, within a bound of memory.
A table as text is read here (`read_text_table`; `rows_of` for any text whose rows are cells). Its cells come
from Python's `csv` module; "Libraries" in docs/design.md says why not from pandas. `scale` puts
columns into units that can be compared.
"""

import csv
import io
import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain, compress, islice
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sweep_clustering.kernels.settings import PARAMETERS
from sweep_clustering.kernels.structure import AUTO
from sweep_clustering.sweeps.data import formats
from sweep_clustering.sweeps.data.builtin import DataSet
from sweep_clustering.sweeps.data.lines import problems_at, read_text, shortened, to_number
from sweep_clustering.sweeps.data.table import (
    MOST_COLUMNS,
    Frame,
    LabelledTable,
    TableChoice,
    is_header,
    select,
)
from sweep_clustering.sweeps.errors import InputError, Problem, collecting, not_one_of, plural, refused
from sweep_clustering.sweeps.files import bounded

# Bytes of a table: as texts its cells take several times the memory; an .npz file has no such limit.
MOST_BYTES = 2**27

# Bytes of a line.
LONGEST_ROW = 2**23

SEMICOLON = ";"
BLANK = " "

# Separators of cells beside blanks; the first of several that are as good is taken.
MARKS = (",", SEMICOLON, "\t")

# A first line that tells Excel the separator, which the other lines show.
SEPARATOR_LINE = re.compile(r'"?sep=.?"?')

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

    problems[:0] = problems_at(np.flatnonzero(~is_usual), problem)
    header = cells[:width] if begin and widths[0] == width else []
    is_usual[:begin] = False
    if not is_usual.all():
        cells = list(compress(cells, np.repeat(is_usual, widths).tolist()))
    numbers = np.frombuffer(lines, dtype=np.int32)[is_usual]

    def location(row: int, column: int) -> str:
        name = f" ({header[column]})" if header else ""
        return f"{path}, line {numbers[row]}, column {column + 1}{name}"

    def columns(indices: Sequence[int]) -> list[list[str]]:
        return [cells[column::width] for column in indices]

    frame = Frame(
        path, len(numbers), width, header, location, columns, has_decimal_commas=separator == SEMICOLON
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

    def row_error(fault: str, expected: str, hint: str = "") -> InputError:
        return refused(f"{path}, line {number}", fault, expected, hint)

    def further_lines() -> Iterator[str]:
        """Yield the lines of a row after its first."""
        yield from (content.decode() for content in file)
        raise row_error("a cell whose quote is never closed", "another quote")

    for content in file:
        number += 1
        line, n_lines = content.decode(), 1
        stripped = line.strip()
        if not stripped or stripped[0] == "#" or (number == 1 and SEPARATOR_LINE.fullmatch(stripped)):
            continue
        if '"' in line:
            # further lines are asked for where a cell in quotes goes on
            begin = f"{stripped}\n" if separator == BLANK else line
            reader = csv.reader(chain([begin], further_lines()), delimiter=separator, skipinitialspace=True)
            try:
                cells, n_lines = [cell.replace("\n", " ") for cell in next(reader)], reader.line_num
            except csv.Error as error:
                hint = "is a quote that begins it never closed?"
                raise row_error(f"a cell that is too long ({error})", "a shorter one", hint) from None
        else:  # a reader for each row would take four times as long
            cells = stripped.split() if separator == BLANK else line.split(separator)
        if len(content) > LONGEST_ROW or len(cells) > MOST_COLUMNS:
            expected = f"at most {MOST_COLUMNS:,} columns and {LONGEST_ROW:,} bytes in a line"
            raise row_error("a longer row", expected)
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


# Reading a user's own table, whatever its format.

Reader = Callable[[Path, TableChoice], LabelledTable]

# By the end of a file's name; anything else is text.
READERS: dict[str, Reader] = {
    ".npz": formats.read_npz_table,
    ".npy": formats.read_npy_table,
    **dict.fromkeys((".parquet", ".pq", ".feather", ".arrow"), formats.read_arrow_table),
    **dict.fromkeys((".xlsx", ".xlsm"), formats.read_workbook),
}

# Formats that are not read, and what is expected in their place.
UNREAD = dict.fromkeys((".xls", ".ods"), "an .xlsx workbook, or CSV") | dict.fromkeys(
    (".pkl", ".pickle"), "parquet or CSV: who reads a pickle runs what is in it"
)


def read_table(path: Path, choice: TableChoice) -> LabelledTable:
    """Read a table of samples: by the end of its name, or as text.

    Raises
    ------
    InputError
        With the problems of the file; the first 20 and a count if there are more. Its `rest` is that of
        `select`.
    """
    suffix, key = path.suffix.lower(), choice.key
    reader = READERS.get(suffix, read_text_table)
    problems = list[Problem]()
    if choice.columns and choice.drop:
        hint = f"what {key('columns')} does not name is no feature already"
        problems.append(Problem(f"{path}, {key('drop')}", f"{key('columns')} as well", "one of them", hint))
    if choice.sheet is not None and reader is not formats.read_workbook:
        fault, expected = repr(choice.sheet), "nothing: it is no .xlsx workbook"
        problems.append(Problem(f"{path}, {key('sheet')}", fault, expected))
    for name in ("missing", "categories"):
        default, word, words = PARAMETERS[name].default, getattr(choice, name), PARAMETERS[name].choices
        if word not in words:
            problems.append(not_one_of(f"{path}, {key(name)}", word, words))
            choice = replace(choice, **dict[str, Any]({name: default}))
    if suffix in UNREAD:
        raise InputError([*problems, Problem(str(path), f"{suffix} file", UNREAD[suffix])])
    if reader in (formats.read_arrow_table, formats.read_workbook):
        formats.load_arrow()
    table: LabelledTable | None = None
    try:
        with bounded(path):
            table = reader(path, choice)
    except InputError as error:
        problems, table = [*problems, *shortened(path, error.problems)], error.rest
    if problems or table is None:
        raise InputError(problems, table)
    return table


def load_table(path: Path, choice: TableChoice, *, n_clusters: int | None = None) -> DataSet:
    """Load a user's own table as a data set with `n_clusters` clusters, by default as many as classes.

    Raises
    ------
    InputError
        With every problem of the file; its `rest` is the data set without what is wrong, if there is one.
    """
    problems, table = list[Problem](), None
    try:
        table = read_table(path, choice)
    except InputError as error:
        problems, table = [*error.problems], error.rest
    if table is None:
        raise InputError(problems)
    location, count = f"{path}, n_clusters", len(table.class_names) if n_clusters is None else n_clusters
    is_known = n_clusters is not None or table.labels_true is not None
    if not is_known and choice.label_column is None:
        problems.append(Problem(location, "neither classes nor n_clusters", "label_column or n_clusters"))
    distinct = len(np.unique(table.X, axis=0))
    if is_known and not 1 <= count <= distinct:
        fault = f"{count} for {plural(distinct, 'distinct row')}"
        problems.append(Problem(location, fault, "at least 1, and no more than distinct rows"))
    data = DataSet(table, count, f"file {path}", path)
    if problems:
        raise InputError(problems, data)
    return data


# Range of a column that is scaled in another unit.
SMALL = 1e-140


class Scaling(NamedTuple):
    """Offset and width by which columns are scaled, also those of another table."""

    offset: NDArray[np.float64]
    width: NDArray[np.float64]

    def of(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        """Scale features."""
        return np.asarray((X - self.offset) / self.width)

    def back(self, scaled: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the features that were scaled."""
        return np.asarray(scaled * self.width + self.offset)


def scaling_of(X: NDArray[np.float64], kind: str) -> Scaling:
    """Find offset and width of each column.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        Finite features.
    kind : {"none", "standard", "minmax", "auto"}
        Leave alone; mean 0 and standard deviation 1 (ddof 0); minimum 0 and maximum 1. The last two
        turn a constant column into zeros. "auto" is "standard" except for the columns of `left_alone`.
    """
    offset, width = np.zeros(X.shape[1]), np.ones(X.shape[1])
    if kind == "none":
        return Scaling(offset, width)
    lowest, highest = X.min(axis=0), X.max(axis=0)
    # From the range: rounding gives a constant column a tiny standard deviation above 0.
    is_constant = lowest == highest
    is_unscaled = left_alone(X) if kind == AUTO else np.zeros(X.shape[1], bool)
    if kind == "minmax":
        offset, width = lowest, highest - lowest
    else:
        # The squares of values this small vanish. By a power of two, which rounds nothing.
        shift = np.where(~is_constant & (highest - lowest < SMALL), 900, 0)
        larger = np.ldexp(X, shift)
        offset, width = (np.ldexp(value, -shift) for value in (larger.mean(axis=0), larger.std(axis=0)))
    # Zeros of both signs less -0 are 0: a constant column has one bit pattern.
    constant_offset = np.where(lowest == 0.0, -0.0, lowest)
    offset, width = np.where(is_constant, constant_offset, offset), np.where(is_constant, 1.0, width)
    return Scaling(np.where(is_unscaled, 0.0, offset), np.where(is_unscaled, 1.0, width))


def scale(X: NDArray[np.float64], kind: str) -> NDArray[np.float64]:
    """Scale the columns of a table into a new array, see `scaling_of`."""
    return scaling_of(X, kind).of(X)


# Standard deviations of columns of one unit are within this factor of each other, such as lengths of petals.
ONE_UNIT = 3.0


def left_alone(X: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Say for each column whether the scale "auto" leaves it as it is.

    Columns of nothing but 0 and 1, which stand for words, stay. So do all others if they seem to have one
    unit: half of them have the same least and the same largest value, as pixels and grades do, or there is
    none of 0 and 1, and their standard deviations are within `ONE_UNIT`.
    """
    lowest, highest = X.min(axis=0), X.max(axis=0)
    is_coded = ((X == 0.0) | (X == 1.0)).all(axis=0)
    varying_columns = np.flatnonzero(~is_coded & (lowest < highest))
    if len(varying_columns) == 0:
        return np.ones(X.shape[1], bool)
    ends = Counter(zip(lowest[varying_columns].tolist(), highest[varying_columns].tolist(), strict=True))
    are_alike = len(varying_columns) > 1 and 2 * ends.most_common(1)[0][1] >= len(varying_columns)
    with np.errstate(over="ignore", under="ignore"):
        deviations = X[:, varying_columns].std(axis=0)
    is_near = not is_coded.any() and bool(deviations.max() <= ONE_UNIT * deviations.min())
    return np.asarray(is_coded | are_alike | is_near)
