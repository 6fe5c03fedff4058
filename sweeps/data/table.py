"""From the columns of a file to a table of samples: features, classes, names of the samples.

`TableChoice` says what the columns are, `select` takes the samples, and `LabelledTable` is what comes of it;
`scale` scales its features. `read_labels` reads classes from a file of their own.
"""

from __future__ import annotations

import csv
import hashlib
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernels.settings import PARAMETERS, SCALES
from sweeps.data.lines import (
    MOST_LINES,
    PROBLEMS_SHOWN,
    counted,
    read_lines,
    shortened,
    split_cells,
    to_number,
)
from sweeps.errors import InputError, Problem, collecting, did_you_mean, not_one_of

if TYPE_CHECKING:  # readers of formats make frames, and call what is here
    from sweeps.data.formats import Frame

# A table of samples with their classes: its checksum, its scaling.

SMALL = 1e-140
"""Range of a column that is scaled in another unit."""


class SampleRows(NamedTuple):
    """The rows of a file that samples come from.

    Parameters
    ----------
    n_rows : int
        Rows of the file.
    kept : array of int, or None
        Positions of the rows that are samples, ascending; None if all are.
    names : tuple of str
        Name of every row of the file; empty if it has no names.
    """

    n_rows: int
    kept: NDArray[np.intp] | None = None
    names: tuple[str, ...] = ()

    @property
    def kept_names(self) -> tuple[str, ...]:
        """Names of the samples."""
        if self.kept is None or not self.names:
            return self.names
        return tuple(self.names[row] for row in self.kept.tolist())


class LabelledTable(NamedTuple):
    """Samples, unscaled.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        Features.
    labels_true : array of shape (n_samples,) or None
        Positions in `class_names`.
    class_names : tuple of str
        Sorted classes; empty without labels.
    feature_names : tuple of str
        By the header of the file; empty if it has none.
    aside : tuple of (tuple of str)
        Texts of the columns left out of the features, one for each row; of each column asked for.
    rows : SampleRows or None
        What the samples are in the file; None where they are its rows, one after the other, without names.
    notes : tuple of str
        What to know of the columns before the table is used.
    """

    X: NDArray[np.float64]
    labels_true: NDArray[np.int16] | None
    class_names: tuple[str, ...]
    feature_names: tuple[str, ...] = ()
    aside: tuple[tuple[str, ...], ...] = ()
    rows: SampleRows | None = None
    notes: tuple[str, ...] = ()

    @property
    def sample_names(self) -> tuple[str, ...]:
        """Names of the samples; empty if the table has none."""
        return self.rows.kept_names if self.rows else ()

    def checksum(self) -> str:
        """Sha256 over the shape, the features and the class codes, all little-endian.

        The names of the classes are left out: sources of one table spell them differently.
        """
        digest = hashlib.sha256(np.array(self.X.shape, dtype="<i8").tobytes())
        digest.update(np.ascontiguousarray(self.X, dtype="<f8").tobytes())
        if self.labels_true is not None:
            digest.update(np.ascontiguousarray(self.labels_true, dtype="<i2").tobytes())
        return digest.hexdigest()


def scale(X: NDArray[np.float64], how: str) -> NDArray[np.float64]:
    """Scale the columns of a table.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        Finite features.
    how : {"none", "standard", "minmax"}
        Leave alone; mean 0 and standard deviation 1 (ddof 0); minimum 0 and maximum 1. The last two
        turn a constant column into zeros.

    Returns
    -------
    array of shape (n_samples, n_features)
        A new array.

    Raises
    ------
    ValueError
        If `how` is none of these.
    """
    if how not in SCALES:
        raise ValueError(f"scale = {how!r}, expected one of {', '.join(SCALES)}")
    if how == "none":
        return X.astype(np.float64)
    lowest, highest = X.min(axis=0), X.max(axis=0)
    # From the range: rounding gives a constant column a tiny standard deviation above 0.
    constant = lowest == highest
    # Of values this small the squares vanish. By a power of two, which rounds nothing.
    small = ~constant & (highest - lowest < SMALL)
    X, lowest, highest = (np.ldexp(values, np.where(small, 900, 0)) for values in (X, lowest, highest))
    if how == "standard":
        offset, width = X.mean(axis=0), X.std(axis=0)
    else:
        offset, width = lowest, highest - lowest
    scaled: NDArray[np.float64] = (X - offset) / np.where(constant, 1.0, width)
    scaled[:, constant] = 0.0
    return scaled


# Which columns of a user's table are what: features, classes, names of the samples, none of them.

Column = str | int
"""A column by its name in the header, or by its position from 0, negative from the end."""

NUMBERED = re.compile(r"-?\d{1,9}", re.ASCII)


@dataclass(frozen=True)
class TableChoice:
    """What is made of the columns of a table.

    Parameters
    ----------
    columns : tuple of (str or int)
        The features, in this order; all columns that are nothing else where it is empty.
    drop : tuple of (str or int)
        Columns that are no features.
    index_column, label_column : str, int or None
        Names of the samples, each once; classes.
    missing : {"error", "drop"}
        Whether a row with an empty cell is a problem, or is left out.
    categories : {"error", "onehot"}
        Whether a feature of texts is a problem, or becomes a column of 0 and 1 for each of its texts.
    sheet : str, int or None
        Of a workbook, by name or position from 0; the first where it is left out.
    aside : tuple of str
        Columns that are no features, and whose texts are kept.
    as_options : bool
        Whether messages name the options of a command, and not the keys of a file.
    """

    columns: tuple[Column, ...] = ()
    drop: tuple[Column, ...] = ()
    index_column: Column | None = None
    label_column: Column | None = None
    missing: str = "error"
    categories: str = "error"
    sheet: Column | None = None
    aside: tuple[str, ...] = ()
    as_options: bool = False

    @property
    def named(self) -> tuple[Column, ...]:
        """All columns that are told, and the parts of those that may be several."""
        single = [each for each in (self.label_column, self.index_column) if each is not None]
        several = (*self.columns, *self.drop)
        return (*single, *several, *expanded(several, ()), *self.aside)

    def key(self, name: str) -> str:
        """How a message names one of these."""
        return f"--{name.replace('_', '-')}" if self.as_options else name

    def said(self, name: str, value: str) -> str:
        """How a message says that one of these has a value."""
        return f"{self.key(name)} {value}" if self.as_options else f'{name} = "{value}"'

    def problems(self, where: str) -> Iterator[Problem]:
        """What contradicts itself, whatever the table is."""
        for name in ("missing", "categories"):
            found, known = getattr(self, name), PARAMETERS[name].choices
            if found not in known:
                yield not_one_of(f"{where}, {self.key(name)}", found, known)
        if self.columns and self.drop:
            hint = f"what {self.key('columns')} does not name is no feature already"
            yield Problem(
                f"{where}, {self.key('drop')}", f"{self.key('columns')} as well", "one of them", hint
            )


def positions(names: Sequence[Column], header: Sequence[str], width: int, where: str) -> list[int]:
    """Columns of a list of names and positions, each once.

    Parameters
    ----------
    names : sequence of (str or int)
        A text that is no name of a column may hold several, separated by commas.
    header : sequence of str
        Names of all columns; empty if they have none.
    width : int
        Number of columns.
    where : str
        For messages.

    Raises
    ------
    InputError
        With every name that is none of the columns, or that comes twice.
    """
    found: list[int] = []
    problems: list[Problem] = []
    for name in expanded(names, header):
        try:
            place = position(name, header, width, where)
        except InputError as error:
            problems += error.problems
            continue
        if place in found:
            problems.append(Problem(where, f"{name!r} again", "each column once"))
        found.append(place)
    if problems:
        raise InputError(problems)
    return found


def expanded(names: Sequence[Column], header: Sequence[str]) -> Iterator[Column]:
    """Names one by one, where several stand in one text, between commas, that is no column itself."""
    for name in names:
        if isinstance(name, str) and "," in name and name not in header:
            yield from (part.strip() for part in next(csv.reader([name], skipinitialspace=True)))
        else:
            yield name


def position(name: Column, header: Sequence[str], width: int, where: str) -> int:
    """Position of one column.

    Raises
    ------
    InputError
        If there is no such column, or several have the name.
    """
    if isinstance(name, str) and header.count(name) == 1:
        return header.index(name)
    if isinstance(name, str) and not (NUMBERED.fullmatch(name) and name not in header):
        raise InputError([_no_such_name(name, header, width, where)])
    if not -width <= int(name) < width:
        expected = f"{-width} to {width - 1}"
        raise InputError([Problem(where, str(name), expected, "columns are counted from 0")])
    return int(name) % width


def _no_such_name(name: str, header: Sequence[str], width: int, where: str) -> Problem:
    if not header:
        hint = "the file has no header; give a position"
    elif name in header:
        hint = "several columns have that name; give a position"
    else:
        hint = did_you_mean(name, header)
    names = ", ".join(each or "''" for each in header[:20]) + (
        f" and {len(header) - 20} more" if len(header) > 20 else ""
    )
    return Problem(where, repr(name), f"one of {names or f'{-width} to {width - 1}'}", hint)


# What a table of any format is asked for, before it is known which of its columns are what.

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


# What to know of the columns of a table before they are used as features.

SHOWN = 12
"""Features, and rows, that are named."""

SHORTEST = 5
"""Rows from which on a column that counts them is no chance."""

FEWEST = 20
"""Rows from which on whole numbers that are all different are no chance."""


def column_notes(
    X: NDArray[np.float64],
    names: Sequence[str],
    header: Sequence[str],
    places: Sequence[int],
    choice: TableChoice,
) -> Iterator[str]:
    """Features that count or name the rows, and what all features are.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        Features, unscaled.
    names : sequence of str
        One for each.
    header : sequence of str
        Names of the columns of the table; empty if it has none.
    places : sequence of int
        Column of the table that each comes from.
    choice : TableChoice
        What was told.

    Yields
    ------
    str
        A sentence.
    """
    for column, name in enumerate(names):
        kind = _kind(X[:, column])
        if kind:
            told = f" ({name!r})" if header and name else ""
            remedy = f"{choice.key('index_column')} or {choice.key('drop')}"
            yield f"column {places[column] + 1}{told} {kind}: it tells rows apart, not clusters ({remedy})"
    if not header and choice.named:
        yield f"features used: {_listed(places)}"
    elif header:
        more = ", …" if len(names) > SHOWN else ""
        shown = (repr(name) if "," in name else name for name in names[:SHOWN])
        yield f"features used: {', '.join(shown)}{more} ({len(names)})"


def dropped_note(rows: SampleRows, choice: TableChoice) -> Iterator[str]:
    """Rows that are left out, by their numbers from 1, and by their names if they have some."""
    if rows.kept is None:
        return
    out = np.setdiff1d(np.arange(rows.n_rows), rows.kept).tolist()
    shown = [f"{rows.names[row]} (row {row + 1})" if rows.names else str(row + 1) for row in out[:SHOWN]]
    more = ", …" if len(out) > SHOWN else ""
    yield (
        f"{len(out)} of {rows.n_rows} rows have an empty cell and are left out"
        f" ({choice.said('missing', 'drop')}): {', '.join(shown)}{more}"
    )


def _kind(values: NDArray[np.float64]) -> str:
    """What a column that is no measurement looks like; nothing of any other."""
    n = len(values)
    if n < SHORTEST or (values != np.floor(values)).any() or len(np.unique(values)) < n:
        return ""
    least = values.min()
    if least in (0, 1) and values.max() == least + n - 1:
        return f"is {least:.0f} to {least + n - 1:.0f}, a number of the row"
    return "is another whole number in each row" if n >= FEWEST else ""


def _listed(places: Sequence[int]) -> str:
    first, last = places[0] + 1, places[-1] + 1
    if list(places) == list(range(first - 1, last)) and len(places) > 2:
        return f"columns {first} to {last} ({len(places)})"
    more = ", …" if len(places) > SHOWN else ""
    return f"columns {', '.join(str(place + 1) for place in places[:SHOWN])}{more} ({len(places)})"


MAX_CLASSES = np.iinfo(np.int16).max + 1
"""Codes of classes are int16, counted from 0."""

Encoded = tuple[NDArray[np.int16], tuple[str, ...]]


def encode_classes(values: Sequence[str], where: Callable[[int], str]) -> Encoded:
    """Codes of classes, in sorted order.

    Classes that are all finite numbers are compared as numbers ("2" before "10", "1" the same as
    "1.0"), others as text.

    Parameters
    ----------
    values : sequence of str
        Class of every sample.
    where : callable
        From the position of a sample to its place, for problems.

    Returns
    -------
    codes : array of shape (n_samples,)
        Positions in the class names.
    class_names : tuple of str
        Each as it is first spelled.

    Raises
    ------
    InputError
        If a class is missing (empty or NaN), or there are more than an int16 can count.
    """
    numbers = {value: to_number(value) for value in dict.fromkeys(values)}
    none = {value for value, number in numbers.items() if not value or number != number}
    missing = [position for position, value in enumerate(values) if value in none] if none else []
    problems = counted(
        missing, lambda i: Problem(where(i), "NaN" if values[i] else "an empty cell", "a class")
    )
    numeric = all(number is not None and math.isfinite(number) for number in numbers.values())
    keys: dict[str, Any] = {value: number if numeric else value for value, number in numbers.items()}
    first = {key: value for value, key in reversed(keys.items())}
    distinct = sorted(first)
    if len(distinct) > MAX_CLASSES:
        expected = f"at most {MAX_CLASSES}"
        problems.append(
            Problem(where(0), f"the first of {len(distinct)} classes", expected, "is it a feature?")
        )
    if problems:
        raise InputError(problems)
    code = {key: number for number, key in enumerate(distinct)}
    codes = {value: code[key] for value, key in keys.items()}
    of_each = np.fromiter(map(codes.__getitem__, values), np.int16, len(values))
    return of_each, tuple(first[key] for key in distinct)


LABEL = "label"
"""Column of the classes in a table of labels, such as `sweep fit --out` writes."""


def read_labels(path: Path, n_rows: int | None = None) -> Encoded:
    """Read a file of classes, one per sample, separated by line ends, commas, tabs or blanks.

    With as many lines as there are rows each line is a class, whatever it is made of; and so with one more,
    which is a header if it is no number and no class of another line. Of a table with a column `label` that
    cell is the class. Else every entry is one, and a first one that is not a number, before entries that all
    are, is a header.

    Parameters
    ----------
    path : Path
        The file.
    n_rows : int, optional
        Rows that have classes.

    Returns
    -------
    codes, class_names
        As of `encode_classes`.

    Raises
    ------
    InputError
        If the file cannot be read or is empty, and as `encode_classes`.
    """
    lines = [(line.text, line.number) for line in read_lines(path)]
    entries = _of_lines(lines, n_rows) if n_rows else None
    if entries is None:
        entries = []
        for text, number in lines:
            entries += [(cell, number) for cell in split_cells(text)]
            if n_rows and len(entries) > n_rows + 1:
                found, expected = f"more than {n_rows:,} labels", f"{n_rows:,}, one for each row"
                raise InputError([Problem(str(path), found, expected)])
        numbers = [to_number(cell) for cell, _ in entries]
        if len(entries) > 1 and numbers[0] is None and None not in numbers[1:]:
            del entries[0]
    if not entries:
        raise InputError([Problem(str(path), "no classes", "one per sample")])
    values, places = zip(*entries, strict=True)
    try:
        return encode_classes(values, lambda i: f"{path}, line {places[i]}")
    except InputError as error:
        raise InputError(shortened(path, error.problems)) from None


def _of_lines(lines: list[tuple[str, int]], n_rows: int) -> list[tuple[str, int]] | None:
    """Class and line of each sample, where each has a line; None where lines do not say so."""
    begin = len(lines) - n_rows
    if begin not in (0, 1):
        return None
    first = lines[0][0]
    separator = ";" if ";" in first else ""
    header = [cell.lower() for cell in split_cells(first, separator)] if begin else []
    if len(header) > 1 and header.count(LABEL) == 1:
        column = header.index(LABEL)
        rows = [(split_cells(text, separator), number) for text, number in lines[1:]]
        return [(row[column] if column < len(row) else "", number) for row, number in rows]
    cells = [(text.strip('"'), number) for text, number in lines]
    header_cell = cells[0][0]
    if begin and (to_number(header_cell) is not None or any(cell == header_cell for cell, _ in cells[1:])):
        return None
    return cells[begin:]


# From the columns of a table to samples: features, classes, names, and rows that are left out.

MOST_TEXTS_IN_ONE_HOT = 100
"""Different texts of a column that becomes as many columns."""


@dataclass
class _Roles:
    """Positions of the columns by what they are; `label` and `index` may be none."""

    features: list[int]
    label: int | None
    index: int | None
    aside: list[int]


def select(table: Frame, choice: TableChoice, problems: list[Problem]) -> LabelledTable:
    """Take samples out of a table.

    Parameters
    ----------
    table : Frame
        The table.
    choice : TableChoice
        What its columns are.
    problems : list of Problem
        What was found wrong with it before.

    Returns
    -------
    LabelledTable
        Finite features, of the rows that are kept.

    Raises
    ------
    InputError
        With these problems, and all that are found here.
    """
    check_size(table.path, table.n_rows, 1, MOST_LINES)
    check_size(table.path, 1, table.width, MOST_LINES)
    roles = _roles(table, choice, problems)
    check_size(f"{table.path}, features", table.n_rows, len(roles.features), MOST_LINES)
    numbers = table.numbers(roles.features)
    kept = np.ones(table.n_rows, dtype=np.bool_)
    if choice.missing == "drop":
        kept = _complete(table, roles, numbers)
        if not kept.any():
            where = f"{table.path}, {choice.key('missing')}"
            hint = "drop the columns that are empty in most rows"
            problems.append(Problem(where, "no row without an empty cell", "one at least", hint))
            raise InputError(problems)
    rows = np.flatnonzero(kept)
    X, names, places, encoded = np.empty((len(rows), 0)), list[str](), list[int](), None
    with collecting(problems):
        X, names, places = _features(table, choice, roles.features, numbers, rows)
    if roles.label is not None:
        label = roles.label
        with collecting(problems):
            encoded = encode_classes(
                _picked(table.texts(label), rows), lambda row: table.where(int(rows[row]), label)
            )
    of_rows = SampleRows(table.n_rows)
    with collecting(problems):
        of_rows = _rows(table, choice, roles.index, rows)
    if problems:
        raise InputError(problems)
    codes, class_names = encoded or (None, ())
    aside = tuple(_picked(table.texts(column), rows) for column in roles.aside)
    notes = [
        *dropped_note(of_rows, choice),
        *column_notes(X, names, table.header, places, choice),
    ]
    feature_names = tuple(names) if table.header else ()
    return LabelledTable(X, codes, class_names, feature_names, aside, of_rows, tuple(notes))


def _roles(table: Frame, choice: TableChoice, problems: list[Problem]) -> _Roles:
    """What each column is, by its position."""

    def found(name: str, of: str) -> int | None:
        told = getattr(choice, of)
        if told is not None:
            with collecting(problems):
                return position(told, table.header, table.width, f"{table.path}, {name}")
        return None

    label = found(choice.key("label_column"), "label_column")
    index = found(choice.key("index_column"), "index_column")
    if label is not None and label == index:
        where, of = f"{table.path}, {choice.key('index_column')}", choice.key("label_column")
        problems.append(Problem(where, f"{table.named(label)}, which is {of} as well", "another column"))
    aside: list[int] = []
    for name in choice.aside:
        with collecting(problems):
            aside.append(position(name, table.header, table.width, f"{table.path}, column left out"))
    dropped: list[int] = []
    with collecting(problems):
        where = f"{table.path}, {choice.key('drop')}"
        dropped = positions(choice.drop, table.header, table.width, where)
    others = {label, index, *aside, *dropped}
    features = [column for column in range(table.width) if column not in others]
    if choice.columns:
        where = f"{table.path}, {choice.key('columns')}"
        with collecting(problems):
            features = positions(choice.columns, table.header, table.width, where)
            words = {index: "index_column", label: "label_column"}
            for column in features:
                if column in words:
                    expected = "features alone"
                    found_ = f"{table.named(column)}, which is {choice.key(words[column])}"
                    problems.append(Problem(where, found_, expected))
    return _Roles(features, label, index, aside)


def _complete(table: Frame, roles: _Roles, numbers: Numbers) -> NDArray[np.bool_]:
    """Rows without an empty cell among features and class."""
    kept = ~numbers.is_empty
    if roles.label is not None:
        for row, cell in enumerate(table.texts(roles.label)):
            number = to_number(cell)
            if not cell or (number is not None and number != number):
                kept[row] = False
    return kept


def _features(
    table: Frame, choice: TableChoice, places: Sequence[int], numbers: Numbers, rows: NDArray[np.intp]
) -> tuple[NDArray[np.float64], list[str], list[int]]:
    """Numbers, and the name and the column of each."""
    if not places:
        beside = " beside the classes" if choice.label_column is not None else ""
        raise InputError([Problem(str(table.path), f"no column{beside}", "at least one feature")])
    # a table may take half of the memory: one that is whole is used as it is
    is_whole = len(rows) == len(numbers.values)
    values = numbers.values if is_whole else numbers.values[rows]
    # rows are left out for empty cells alone: of a column that is all texts otherwise none is a number
    n_texts = numbers.n_others if is_whole else np.isnan(values).sum(axis=0)
    problems = list[Problem]()
    names = [table.header[place] if table.header else table.named(place) for place in places]
    encoded: dict[int, tuple[NDArray[np.float64], list[str]]] = {}
    for column in np.flatnonzero(n_texts == len(rows)).tolist() if len(rows) > 1 else ():
        # one problem for the column, not one for each cell
        values[:, column] = 0.0
        with collecting(problems):
            if choice.categories != "onehot":
                raise InputError([_text_column_problem(table, choice, places[column], rows)])
            width = len(places) + sum(part.shape[1] for part, _ in encoded.values())
            encoded[column] = _one_hot(table, places[column], names[column], rows, width)
    wrong = ~np.isfinite(values)
    first = np.flatnonzero(wrong.any(axis=1))[: PROBLEMS_SHOWN + 1]
    cells = [(int(rows[first[i]]), places[j]) for i, j in np.argwhere(wrong[first])[: PROBLEMS_SHOWN + 1]]
    problems += counted(
        range(len(cells)), lambda i: _cell_problem(table, choice, *cells[i]), int(np.count_nonzero(wrong))
    )
    if problems:
        raise InputError(problems)
    if not encoded:
        return np.ascontiguousarray(values), names, list(places)
    parts = [encoded.get(i, (values[:, i : i + 1], names[i : i + 1])) for i in range(len(places))]
    X = np.ascontiguousarray(np.hstack([part for part, _ in parts]))
    origins = [place for place, (_, of_part) in zip(places, parts, strict=True) for _ in of_part]
    return X, [name for _, of_part in parts for name in of_part], origins


def _one_hot(
    table: Frame, place: int, name: str, rows: NDArray[np.intp], width: int
) -> tuple[NDArray[np.float64], list[str]]:
    """A column of 0 and 1 for each text of a column, in sorted order, beside `width` others."""
    cells = _picked(table.texts(place), rows)
    wrong = [row for row, cell in zip(rows.tolist(), cells, strict=True) if is_empty(cell)]
    if wrong:
        raise InputError(
            counted(wrong, lambda row: Problem(table.where(row, place), table.shown(row, place), "a text"))
        )
    different = sorted(set(cells))
    if len(different) > MOST_TEXTS_IN_ONE_HOT or len(different) == len(cells):
        found = f"{len(different)} different texts in {len(cells)} rows"
        expected = f"at most {MOST_TEXTS_IN_ONE_HOT}, and not another one in each row"
        hint = "names of samples are no feature: drop it, or name it as index_column"
        raise InputError([Problem(f"{table.path}, {table.named(place)}", found, expected, hint)])
    check_size(f"{table.path}, features", len(cells), width + len(different), MOST_LINES)
    code = {text: number for number, text in enumerate(different)}
    codes = np.fromiter(map(code.__getitem__, cells), np.intp, len(cells))
    part = np.zeros((len(cells), len(different)))
    part[np.arange(len(cells)), codes] = 1.0
    return part, [f"{name}={text}" for text in different]


def _text_column_problem(table: Frame, choice: TableChoice, place: int, rows: NDArray[np.intp]) -> Problem:
    example = repr(table.cell(int(rows[0]), place)[:60])
    hint = _comma_hint(table.cell(int(rows[0]), place)) or (
        f"name it as {choice.key('label_column')} if it holds the classes, or as {choice.key('index_column')}"
        f" if it holds names; else {choice.key('drop')} it, or {choice.said('categories', 'onehot')}"
    )
    return Problem(f"{table.path}, {table.named(place)}", f"no number, first {example}", "numbers", hint)


def _cell_problem(table: Frame, choice: TableChoice, row: int, place: int) -> Problem:
    cell = table.cell(row, place)
    hint = f"{choice.said('missing', 'drop')} leaves out such rows" if is_empty(cell) else _comma_hint(cell)
    return Problem(table.where(row, place), table.shown(row, place), "a finite number", hint)


def _comma_hint(cell: str) -> str:
    """What to know of a cell that is a number but for its decimal comma; nothing of any other."""
    is_one = "," in cell and to_number(cell.replace(",", ".", 1)) is not None
    return "decimal commas are read in text whose cells are separated by semicolons" if is_one else ""


def _rows(table: Frame, choice: TableChoice, index: int | None, rows: NDArray[np.intp]) -> SampleRows:
    """What the samples are in the file; names that do not tell its rows apart are refused, or not taken."""
    kept = None if len(rows) == table.n_rows else rows
    if index is None:
        names = table.index if len(set(table.index)) == table.n_rows else ()
        return SampleRows(table.n_rows, kept, names)
    names = tuple(table.texts(index))
    counts = Counter(names)
    wrong = [row for row, name in enumerate(names) if not name or counts[name] > 1]
    if wrong:
        expected = f"another name in each row, as {choice.key('index_column')}"

        def problem(row: int) -> Problem:
            found = f"{names[row][:60]!r}, more than once" if names[row] else "an empty cell"
            return Problem(table.where(row, index), found, expected)

        raise InputError(counted(wrong, problem))
    return SampleRows(table.n_rows, kept, names)


def _picked(cells: Sequence[str], rows: NDArray[np.intp]) -> tuple[str, ...]:
    return tuple(cells) if len(rows) == len(cells) else tuple(cells[row] for row in rows.tolist())
