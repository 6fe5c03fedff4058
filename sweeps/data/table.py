"""Tables of samples from the columns of a file: features, classes, names of the samples.

A reader of a format makes a `Frame`, `TableChoice` says what its columns are, and `select` takes the samples
as a `LabelledTable`. `read_labels` reads classes from a file of their own.
"""

from __future__ import annotations

import csv
import hashlib
import math
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sweep_clustering.kernels.settings import spread_problem
from sweep_clustering.sweeps.data import lines
from sweep_clustering.sweeps.errors import InputError, Problem, closest, collecting, did_you_mean, refused

Floats = NDArray[np.float64]
Rows = NDArray[np.intp]

# A table of samples with their classes: its checksum, its scaling.


class SampleRows(NamedTuple):
    """The rows of a file that samples come from.

    Parameters
    ----------
    n_rows : int
        Rows of the file.
    selection : array of int, or None
        Positions of the rows that are samples, ascending; None if all are.
    names : tuple of str
        Name of every row of the file; empty if it has no names.
    doubt : str
        Reason why the names of the file do not tell its rows apart, if they do not. A number may be such a
        name, and stands for no row then.
    """

    n_rows: int
    selection: Rows | None = None
    names: tuple[str, ...] = ()
    doubt: str = ""


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
        Texts of the columns of `TableChoice.aside`, one for each row.
    rows : SampleRows or None
        Rows of the file; None where all of them are samples without names.
    notes : tuple of str
        Sentences about the columns for the user.
    """

    X: Floats
    labels_true: NDArray[np.int16] | None
    class_names: tuple[str, ...]
    feature_names: tuple[str, ...] = ()
    aside: tuple[tuple[str, ...], ...] = ()
    rows: SampleRows | None = None
    notes: tuple[str, ...] = ()

    @property
    def sample_names(self) -> tuple[str, ...]:
        """Names of the samples; empty if the table has none."""
        if self.rows is None or self.rows.selection is None or not self.rows.names:
            return self.rows.names if self.rows else ()
        return tuple(self.rows.names[row] for row in self.rows.selection.tolist())

    def checksum(self) -> str:
        """Return the sha256 of the shape, the features and the class codes, all little-endian.

        The names of the classes are left out: sources of one table spell them differently.
        """
        digest = hashlib.sha256(np.array(self.X.shape, dtype="<i8").tobytes())
        digest.update(np.ascontiguousarray(self.X, dtype="<f8").tobytes())
        if self.labels_true is not None:
            digest.update(np.ascontiguousarray(self.labels_true, dtype="<i2").tobytes())
        return digest.hexdigest()


# Which columns of a user's table are what: features, classes, names of the samples, none of them.

# A column by its name in the header, or by its position from 0, negative from the end.
Column = str | int

NUMBERED = re.compile(r"-?\d{1,9}", re.ASCII)


@dataclass(frozen=True)
class TableChoice:
    """Choice of what the columns of a table are.

    Parameters
    ----------
    columns : tuple of (str or int)
        The features, in this order; all columns that are nothing else where it is empty.
    drop : tuple of (str or int)
        Columns that are no features.
    index_column, label_column : str, int or None
        Column of the names of the samples, each once, and of the classes.
    missing : {"error", "drop"}
        Whether a row with an empty cell is a problem, or is left out.
    links_outside : {"error", "drop"}
        Whether an annotation of a row that is left out is a problem, or is left out, too.
    categories : {"error", "onehot"}
        Whether a feature of texts is a problem, or becomes a column of 0 and 1 for each of its texts.
    sheet : str, int or None
        Sheet of a workbook, by name or position from 0; the first one by default.
    aside : tuple of str
        Columns that are no features, and whose texts are kept.
    as_options : bool
        Whether messages name the options of a command, and not the keys of a file.
    search : NameSearch or None
        Search for the column of names, before samples are taken.
    """

    columns: tuple[Column, ...] = ()
    drop: tuple[Column, ...] = ()
    index_column: Column | None = None
    label_column: Column | None = None
    missing: str = "error"
    links_outside: str = "error"
    categories: str = "error"
    sheet: Column | None = None
    aside: tuple[str, ...] = ()
    as_options: bool = False
    search: NameSearch | None = field(default=None, compare=False, repr=False)

    @property
    def column_names(self) -> tuple[Column, ...]:
        """All columns that are named, and the parts of those that may be several."""
        several = (*self.columns, *self.drop)
        columns = (self.label_column, self.index_column, *several, *expanded(several, ()), *self.aside)
        return tuple(column for column in columns if column is not None)

    def key(self, name: str) -> str:
        """Return the option or key of a parameter for messages."""
        return f"--{name.replace('_', '-')}" if self.as_options else name

    def phrase(self, name: str, value: str) -> str:
        """Return a parameter with a value as an option or key, for messages."""
        return f"{self.key(name)} {value}" if self.as_options else f'{name} = "{value}"'


def positions(choice: TableChoice, key: str, table: Frame, problems: list[Problem]) -> list[int]:
    """Return the positions of the columns that a parameter of a choice names, each once.

    A text in `columns` or `drop` that is no name of a column may hold several. Problems are added for every
    name that is none of the columns, or comes twice.
    """
    value = getattr(choice, key)
    names = value if isinstance(value, tuple) else () if value is None else (value,)
    location = f"{table.path}, {'column left out' if key == 'aside' else choice.key(key)}"
    places: list[int] = []
    for name in expanded(names, table.header) if key in ("columns", "drop") else names:
        with collecting(problems):
            place = position(name, table.header, table.width, location)
            if place in places:
                raise refused(location, f"{name!r} again", "each column once")
            places.append(place)
    return places


def expanded(names: Sequence[Column], header: Sequence[str]) -> Iterator[Column]:
    """Yield the names of columns: a text that is no column may have several between commas.

    The name of a column of lists stands for all the features that are made of it.
    """
    for name in names:
        if isinstance(name, str) and name not in header and f"{name}[0]" in header:
            begins = re.compile(re.escape(name) + r"\[\d+\]")
            yield from filter(begins.fullmatch, header)
            continue
        if isinstance(name, str) and "," in name and name not in header:
            yield from (part.strip() for part in next(csv.reader([name], skipinitialspace=True)))
        else:
            yield name


def position(name: Column, header: Sequence[str], width: int, location: str) -> int:
    """Return the position from 0 of a column, or of a sheet, by its name or its position."""
    if isinstance(name, str) and header.count(name) == 1:
        return header.index(name)
    if not isinstance(name, str) or (NUMBERED.fullmatch(name) and name not in header):
        if -width <= int(name) < width:
            return int(name) % width
        raise refused(location, str(name), f"{-width} to {width - 1}", "they are counted from 0")
    if not header:
        hint = "the file has no header; give a position"
    elif name in header:
        hint = "several columns have that name; give a position"
    else:
        hint = did_you_mean(name, header)
    names = ", ".join(column or "''" for column in header[:20])
    names += f" and {len(header) - 20} more" if len(header) > 20 else ""
    raise refused(location, repr(name), f"one of {names or f'{-width} to {width - 1}'}", hint)


# Columns of a file of any format, before samples are taken.

# Numbers of a table: 8 bytes each, and as text a third of a microsecond.
MOST_CELLS = 100_000_000

MOST_COLUMNS = 2**17

# Different cells of features that are no numbers, and are read one by one: a microsecond each.
MOST_WORDS = 2**23

# Different texts of a column; with what they are looked up by, each takes some 200 bytes.
MOST_TEXTS = 2**21

# Characters of all different texts of a column.
LONGEST_TEXTS = 2**27


class Numbers(NamedTuple):
    """Some columns as numbers.

    Parameters
    ----------
    values : array of shape (n_rows, n_columns)
        NaN where a cell is no number.
    n_others : array of shape (n_columns,)
        Number of cells of a column that are texts.
    is_empty : array of shape (n_rows,)
        Whether a row has a cell that stands for a missing value.
    """

    values: Floats
    n_others: Rows
    is_empty: NDArray[np.bool_]


# Cells, in small letters, that stand for a missing value: those of pandas, and a question mark.
EMPTY = frozenset(
    ("", "na", "n/a", "nan", "-nan", "<na>", "#na", "#n/a", "#n/a n/a", "null", "none", "?", "1.#qnan")
)


def is_empty(cell: str) -> bool:
    """Say whether a cell stands for a missing value."""
    return cell.strip().lower() in EMPTY


def is_header(cells: Sequence[str], choice: TableChoice) -> bool:
    """Say whether a first row has names of columns: one that is chosen, or no number."""
    return any(name in cells for name in choice.column_names) or all(
        lines.to_number(cell.replace(",", ".", 1)) is None for cell in cells
    )


@dataclass(frozen=True, eq=False)
class Frame:
    """The columns of a file of any format.

    Parameters
    ----------
    path : Path
        The file.
    n_rows, width : int
        Number of rows, and of columns.
    header : sequence of str
        Names of the columns; empty if they have none.
    location : callable
        From a row and a column to the place of a cell in messages.
    cells : callable
        From positions of columns to these columns: each a list of texts, or an array of pandas.
    index : tuple of str
        Names of the rows, empty if they have none.
    has_decimal_commas : bool
        Whether a comma in a text may be a decimal mark.
    array : array of shape (n_rows, n_features) or None
        The first columns as numbers, which are used as they are: no other is a feature then.
    """

    path: Path
    n_rows: int
    width: int
    header: Sequence[str]
    location: Callable[[int, int], str]
    cells: Callable[[Sequence[int]], list[Any]]
    index: tuple[str, ...] = ()
    has_decimal_commas: bool = False
    array: Floats | None = None

    def numbers(self, columns: Sequence[int]) -> Numbers:
        """Return columns as numbers."""
        n_others = np.zeros(len(columns), dtype=np.intp)
        if self.array is not None:
            # it may take half of the memory: one that is whole is not copied
            is_whole = list(columns) == list(range(self.array.shape[1]))
            array = self.array if is_whole else self.array[:, list(columns)]
            return Numbers(array, n_others, np.asarray(np.isnan(array).any(axis=1)))
        X, has_gap, n_words = np.empty((self.n_rows, len(columns))), np.zeros(self.n_rows, dtype=np.bool_), 0
        for number, cells in enumerate(self.cells(columns) if columns else ()):
            kind = None if isinstance(cells, list) else cells.dtype
            if kind is not None and getattr(kind, "kind", "O") in "biuf":  # numbers, or missing
                with np.errstate(over="ignore"):  # infinite if the type has a wider range, and refused
                    X[:, number] = cells.to_numpy(dtype=np.float64, na_value=np.nan)
                has_gap |= np.isnan(X[:, number])
                continue
            texts = texts_of(cells)
            if self.has_decimal_commas:
                texts = [text.replace(",", ".") for text in texts]
            # a category is one by its type, though its words may be numbers
            is_category = kind == "category"
            if not is_category and "_" not in "".join(texts):
                with suppress(ValueError):
                    X[:, number] = np.fromiter(map(float, texts), np.float64, self.n_rows)
                    if not np.isnan(X[:, number]).any():
                        continue
            # a word is read once: most are there many times, and one that is no number takes long
            number_of = {text: None if is_category else lines.to_number(text) for text in set(texts)}
            values = [number_of[text] for text in texts]
            X[:, number], n_others[number] = np.array(values, dtype=np.float64), values.count(None)
            empty_texts = set(filter(is_empty, number_of))
            has_gap |= np.fromiter(map(empty_texts.__contains__, texts), np.bool_, self.n_rows)
            n_words += len(number_of)
            if n_words > MOST_WORDS:
                words = f"more than {MOST_WORDS:,} different cells of features that are not stored as numbers"
                raise refused(self.path, words, "numbers", "drop columns of texts")
        return Numbers(X, n_others, has_gap)

    def texts(self, column: int) -> list[str]:
        """Return the cells of a column as texts."""
        texts = texts_of(self.cells([column])[0])
        different = set(texts)
        if len(different) > MOST_TEXTS or sum(map(len, different)) > LONGEST_TEXTS:
            fault = f"more than {MOST_TEXTS:,} different texts, or {LONGEST_TEXTS:,} characters of them"
            raise refused(f"{self.path}, {self.place_of(column)}", fault, "fewer", "is it a feature?")
        return texts

    def place_of(self, column: int) -> str:
        """Return the position of a column, and its name if it has one, for messages."""
        name = f" ({self.header[column]})" if self.header else ""
        return f"column {column + 1}{name}"


@dataclass
class NameSearch:
    """Search for the column of a table with the names by which annotations call its rows.

    Parameters
    ----------
    names : frozenset of str
        Names in annotations, no numbers.
    column : str
        Header or position of the column once it is found.
    """

    names: frozenset[str]
    column: str = ""

    def look(self, table: Frame) -> None:
        """Take the column that has the most of the names, half of them at least, each in one row."""
        best_count = (len(self.names) - 1) // 2
        for place in range(0 if table.array is None else table.array.shape[1], table.width):
            cells: Any = table.cells([place])[0]
            if not isinstance(cells, list) and getattr(cells.dtype, "kind", "O") in "biuf":
                continue
            with suppress(InputError):  # more texts than names can be
                counts = Counter(name for name in table.texts(place) if name in self.names)
                is_unique = list(table.header).count(table.header[place]) == 1 if table.header else False
                if len(counts) > best_count and max(counts.values()) == 1:
                    best_count, self.column = len(counts), table.header[place] if is_unique else str(place)

    def hint(self, choice: TableChoice) -> str:
        """Say how the column can be chosen; nothing if there is none."""
        return f"{choice.key('index_column')} {shlex.quote(self.column)}" if self.column else ""


Codes = NDArray[np.integer]


class Coding(NamedTuple):
    """Cells of a column: the place of each among the distinct texts."""

    codes: Codes
    texts: list[str]


# Texts of an array that are objects of Python at the same time.
PART = 2**18


def coding_of(cells: Any) -> Coding:
    """Return codes and distinct texts of the cells of an array; a missing cell is an empty text."""
    import pandas as pd

    code_of = dict[str, int]()
    codes = np.empty(len(cells), dtype=np.int32)
    is_text = cells.dtype.kind in "US" if isinstance(cells, np.ndarray) else False
    size = PART if is_text else max(1, len(cells))
    for begin in range(0, len(cells), size):
        part = cells[begin : begin + size]
        places, values = pd.factorize(part.astype(object) if is_text else part)
        numbers = [code_of.setdefault(text_of(value), len(code_of)) for value in values]
        # a cell without a value has the place -1, the last
        numbers.append(code_of.setdefault("", len(code_of)) if (places < 0).any() else 0)
        codes[begin : begin + size] = np.array(numbers, dtype=np.int32)[places]
    return Coding(codes, [*code_of])


def texts_of(cells: Any) -> list[str]:
    """Return the cells of a column of a `Frame` as texts."""
    if isinstance(cells, list):
        return cells
    codes, texts = coding_of(cells)
    return [texts[code] for code in codes.tolist()]


def text_of(value: object) -> str:
    """Return the text of a cell: nothing if it is missing, and no point in a whole number."""
    if type(value) is str:
        return value.strip()
    import pandas as pd

    if pd.isna(value):
        return ""
    if isinstance(value, (float, np.floating)):
        number = float(value)
        is_exact = number.is_integer() and abs(number) < exact_below(value)
        return str(int(number)) if is_exact else repr(number)
    if isinstance(value, bytes):
        return value.decode(errors="replace").strip()
    return str(value).strip()


def exact_below(value: object) -> int:
    """Return the number below which a float of the type of a value stands for one whole number alone."""
    return int(2 ** (np.finfo(value.dtype).nmant + 1)) if isinstance(value, np.floating) else 2**53


# A whole number as programs write one that is stored as a float: 7.0, 7. and 7.000e+00.
SPELLED = re.compile(r"-?(?:0|[1-9][0-9]*)\.[0-9]*(?:[eE][+-]?[0-9]{1,3})?")


def identity(text: str) -> str:
    """Return the form by which names and numbers are compared: 7.0 is 7, and 007 and 7 are two names."""
    if not SPELLED.fullmatch(text):
        return text
    number = Decimal(text)
    is_exact = number == number.to_integral_value() and abs(number) < 2**53
    return str(int(number)) if is_exact else text


def check_size(location: object, n_rows: int, n_columns: int) -> None:
    """Refuse a table of more numbers than fit into memory."""
    if n_rows > lines.MOST_LINES or n_columns > MOST_COLUMNS or n_rows * n_columns > MOST_CELLS:
        fault = f"{n_rows:,} rows of {n_columns:,} cells"
        expected = f"at most {lines.MOST_LINES:,} rows, {MOST_COLUMNS:,} columns and {MOST_CELLS:,} cells"
        raise refused(location, fault, expected)


# Notes on the columns of a table before they are used as features.

# Features, and rows, that are named.
ITEMS_SHOWN = 12

# Rows from which on a column that counts them is no chance.
SHORTEST = 5

# Rows from which on whole numbers that are all different are no chance.
FEWEST = 20


def column_notes(
    X: Floats, names: Sequence[str], header: Sequence[str], places: Sequence[int], choice: TableChoice
) -> Iterator[str]:
    """Say which features count or name the rows, and list all features.

    Each feature has a name, and a place: the column of the table that it comes from. The header is empty if
    the table has none.
    """
    n, remedy = len(X), f"{choice.key('index_column')} or {choice.key('drop')}"
    for values, name, place in zip(X.T, names, places, strict=True):
        if n < SHORTEST or (values != np.floor(values)).any() or len(np.unique(values)) < n:
            continue
        lowest, label = values.min(), f" ({name!r})" if header and name else ""
        if lowest in (0, 1) and values.max() == lowest + n - 1:
            kind = f"is {lowest:.0f} to {lowest + n - 1:.0f}, a number of the row"
        elif n >= FEWEST:
            kind = "is another whole number in each row"
        else:
            continue
        yield f"column {place + 1}{label} {kind}: it tells rows apart, not clusters ({remedy})"
    if header or choice.column_names:
        features = names if header else [f"{place + 1}" for place in places]
        feature_list = ", ".join(repr(name) if "," in name else name for name in features[:ITEMS_SHOWN])
        feature_list += ", …" if len(features) > ITEMS_SHOWN else ""
        yield f"features used: {'' if header else 'columns '}{feature_list} ({len(features)})"


def dropped_note(rows: SampleRows, choice: TableChoice, first_row: int = 1) -> Iterator[str]:
    """Say which rows are left out, by their numbers, and by their names if they have some."""
    if rows.selection is None:
        return
    dropped_rows = np.setdiff1d(np.arange(rows.n_rows), rows.selection).tolist()
    numbers = [(row, row + first_row) for row in dropped_rows[:ITEMS_SHOWN]]
    texts = [f"{rows.names[row]} (row {number})" if rows.names else str(number) for row, number in numbers]
    ellipsis = ", …" if len(dropped_rows) > ITEMS_SHOWN else ""
    yield (
        f"{len(dropped_rows)} of {rows.n_rows} rows have an empty cell and are left out"
        f" ({choice.phrase('missing', 'drop')}): {', '.join(texts)}{ellipsis}"
    )


# Codes of classes are int16, counted from 0.
MAX_CLASSES = np.iinfo(np.int16).max + 1

Encoded = tuple[NDArray[np.int16], tuple[str, ...]]


def encode_classes(values: Sequence[str], location: Callable[[int], str]) -> Encoded:
    """Return the codes of classes, and their names in sorted order, each as it is first spelled.

    Classes that are all finite numbers are compared as numbers ("2" before "10", "1" the same as "1.0"),
    others as text. `location` gives the place of a sample for messages.

    Raises
    ------
    InputError
        If a class is missing (empty or NaN), or there are more than an int16 can count.
    """
    numbers = {value: lines.to_number(value) for value in dict.fromkeys(values)}
    empty_values = {value for value, number in numbers.items() if not value or number != number}
    empty_places = [place for place, value in enumerate(values) if value in empty_values]
    problems = lines.problems_at(
        empty_places, lambda i: Problem(location(i), "NaN" if values[i] else "an empty cell", "a class")
    )
    is_numeric = all(number is not None and math.isfinite(number) for number in numbers.values())
    keys: dict[str, Any] = numbers if is_numeric else {value: value for value in numbers}
    first = {key: value for value, key in reversed(keys.items())}
    code = {key: number for number, key in enumerate(sorted(first))}
    if len(code) > MAX_CLASSES:
        fault, hint = f"the first of {len(code)} classes", "is it a feature?"
        problems.append(Problem(location(0), fault, f"at most {MAX_CLASSES}", hint))
    if problems:
        raise InputError(problems)
    codes = np.fromiter((code[keys[value]] for value in values), np.int16, len(values))
    return codes, tuple(first[key] for key in code)


# Column of the classes in a table of labels, such as `sweep fit --out` writes.
LABEL = "label"


def read_labels(path: Path, n_rows: int | None = None) -> Encoded:
    """Read a file of classes, one per sample, separated by line ends, commas, tabs or blanks.

    With as many lines as there are rows (`n_rows`) each line is a class, whatever it is made of; and so with
    one more, which is a header if it is no number and no class of another line. In a table with a column
    `label` that cell is the class. Else every entry is one, and a first one that is not a number, before
    entries that all are, is a header.
    """
    texts = [(line.text, line.number) for line in lines.read_lines(path)]
    entries = _of_lines(texts, n_rows) if n_rows else None
    if entries is None:
        entries = []
        for text, number in texts:
            entries += [(cell, number) for cell in lines.split_cells(text)]
            if n_rows and len(entries) > n_rows + 1:
                raise refused(path, f"more than {n_rows:,} labels", f"{n_rows:,}, one for each row")
        numbers = [lines.to_number(cell) for cell, _ in entries]
        if len(entries) > 1 and numbers[0] is None and None not in numbers[1:]:
            del entries[0]
    if not entries:
        raise refused(path, "no classes", "one per sample")
    values, places = zip(*entries, strict=True)
    try:
        return encode_classes(values, lambda i: f"{path}, line {places[i]}")
    except InputError as error:
        raise InputError(lines.shortened(path, error.problems)) from None


def _of_lines(texts: list[tuple[str, int]], n_rows: int) -> list[tuple[str, int]] | None:
    """Return class and line of each sample, where each has a line; None where lines do not say so."""
    begin = len(texts) - n_rows
    if begin not in (0, 1):
        return None
    first = texts[0][0]
    separator = ";" if ";" in first else ""
    header = [cell.lower() for cell in lines.split_cells(first, separator)] if begin else []
    if len(header) > 1 and header.count(LABEL) == 1:
        column = header.index(LABEL)
        rows = [(lines.split_cells(text, separator), number) for text, number in texts[1:]]
        return [(row[column] if column < len(row) else "", number) for row, number in rows]
    cells = [(text.strip('"'), number) for text, number in texts]
    # a header is no number, and no class of another line
    first = cells[0][0]
    is_class = lines.to_number(first) is not None or first in [cell for cell, _ in cells[1:]]
    return None if begin and is_class else cells[begin:]


# From the columns of a table to samples: features, classes, names, and rows that are left out.

# Different texts of a column that becomes as many columns.
MOST_TEXTS_IN_ONE_HOT = 100


def select(table: Frame, choice: TableChoice, problems: list[Problem]) -> LabelledTable:
    """Take samples out of a table: finite features that vary, for the rows that are kept.

    Raises
    ------
    InputError
        With the problems that its reader found, and all that are found here; its `rest` is the table without
        what is wrong, if there are features.
    """
    check_size(table.path, table.n_rows, 1)
    if choice.search is not None:
        choice.search.look(table)
    label, index = (
        next(iter(positions(choice, key, table, problems)), None) for key in ("label_column", "index_column")
    )
    aside, drop, columns = (positions(choice, key, table, problems) for key in ("aside", "drop", "columns"))
    # a misspelt name may mean the column that its message suggests, and that one is no feature then
    names_of_choice = [name for name in choice.column_names if isinstance(name, str)]
    suggestions = {closest(name, table.header) for name in names_of_choice if name not in table.header} - {""}
    misspelt_columns = (column for column, name in enumerate(table.header) if name in suggestions)
    other_columns = {label, index, *aside, *drop, *misspelt_columns}
    features = [column for column in range(table.width) if column not in other_columns]
    features = columns if choice.columns else features
    key_of_column: dict[int | None, str] = {}
    columns_by_key = [("label_column", label), ("index_column", index)]
    for key, column in (*columns_by_key, *(("columns", feature) for feature in features)):
        if column is not None and column in key_of_column:
            fault = f"{table.place_of(column)}, which is {choice.key(key_of_column[column])}"
            problems.append(Problem(f"{table.path}, {choice.key(key)}", fault, "another column"))
        key_of_column.setdefault(column, key)
    classes: list[str] | None = None
    if label is not None:
        with collecting(problems):
            classes = table.texts(label)
    numbers: Numbers | None = None
    with collecting(problems):
        check_size(f"{table.path}, features", table.n_rows, len(features))
        numbers = table.numbers(features)
    is_used = np.ones(table.n_rows, dtype=np.bool_)
    if choice.missing == "drop" and numbers is not None:
        is_used = ~numbers.is_empty
        if classes is not None:
            gaps = {text for text in set(classes) if not text or math.isnan(lines.to_number(text) or 0.0)}
            is_used &= np.fromiter((text not in gaps for text in classes), np.bool_, len(classes))
        if not is_used.any():
            location = f"{table.path}, {choice.key('missing')}"
            hint = "drop the columns that are empty in most rows"
            problems.append(Problem(location, "no row without an empty cell", "one at least", hint))
            numbers = None
    rows = np.flatnonzero(is_used)
    X, names, places = np.empty((len(rows), 0)), list[str](), list[int]()
    encoded: Encoded | None = None
    sample_rows = SampleRows(table.n_rows)
    if numbers is not None and (features or not choice.columns):
        with collecting(problems):
            X, names, places = _features(table, choice, features, numbers, rows, problems)
        # the model divides by the total variance (docs/model.md, eq. (1))
        if X.size and (problem := spread_problem(X)):
            problems.append(Problem(str(table.path), *problem))
    if classes is not None and label is not None:
        with collecting(problems):
            encoded = encode_classes(_pick(classes, rows), lambda row: table.location(int(rows[row]), label))
    with collecting(problems):
        row_names, doubt = _names(table, choice, index)
        sample_rows = SampleRows(table.n_rows, None if is_used.all() else rows, row_names, doubt)
    codes, class_names = encoded or (None, ())
    if problems:
        readable_table = LabelledTable(X, codes, class_names, rows=sample_rows)
        raise InputError(problems, readable_table if X.size else None)
    notes = (*dropped_note(sample_rows, choice), *column_notes(X, names, table.header, places, choice))
    feature_names = tuple(names) if table.header else ()
    texts = tuple(_pick(table.texts(column), rows) for column in aside)
    return LabelledTable(X, codes, class_names, feature_names, texts, sample_rows, notes)


class _Features(NamedTuple):
    """Features with the name of each, and the column of the table that it comes from."""

    X: Floats
    names: list[str]
    places: list[int]


def _features(
    table: Frame,
    choice: TableChoice,
    places: Sequence[int],
    numbers: Numbers,
    rows: Rows,
    wrong: list[Problem],
) -> _Features:
    """Return the features; those that are right, with zeros, if there are problems."""
    if not places:
        fault = "no column" if choice.label_column is None else "no column beside the classes"
        raise refused(table.path, fault, "at least one feature")
    # a table may take half of the memory: one that is whole is used as it is
    is_whole = len(rows) == len(numbers.values)
    values = numbers.values if is_whole else numbers.values[rows]
    # rows are left out for empty cells alone: of a column that is all texts otherwise none is a number
    n_texts = numbers.n_others if is_whole else np.isnan(values).sum(axis=0)
    problems = list[Problem]()
    names = [table.header[place] if table.header else table.place_of(place) for place in places]
    encoded: dict[int, tuple[Floats, list[str]]] = {}
    for column in np.flatnonzero(n_texts == len(rows)).tolist() if len(rows) > 1 else ():
        # one problem for the column, not one for each cell
        values[:, column] = 0.0
        with collecting(problems):
            width = len(places) + sum(part.shape[1] for part, _ in encoded.values())
            encoded[column] = _one_hot(table, choice, places[column], names[column], rows, width)
    by_row: list[tuple[int, Problem]] = []
    is_wrong = ~np.isfinite(values)
    for number, column in enumerate(np.flatnonzero(is_wrong.any(axis=0)).tolist()):
        if number == lines.PROBLEMS_SHOWN:  # in further columns only the number of wrong cells matters
            count = int(np.count_nonzero(is_wrong[:, column:]))
            by_row.append((len(rows), Problem(str(table.path), "no finite number", "", count=count)))
            break
        cells = table.cells([places[column]])[0]

        def problem(row: int, place: int = places[column], cells: Any = cells) -> Problem:
            cell = text_of(cells[row])
            remedy = f"{choice.phrase('missing', 'drop')} leaves out such rows"
            hint = remedy if is_empty(cell) else _comma_hint(cell)
            fault = repr(cell[:60]) if cell else "an empty cell"
            return Problem(table.location(row, place), fault, "a finite number", hint)

        of_column = rows[np.flatnonzero(is_wrong[:, column])]
        by_row += zip(of_column.tolist(), lines.problems_at(of_column, problem), strict=False)
    problems += [problem for _, problem in sorted(by_row, key=lambda pair: pair[0])]
    wrong += problems
    if problems:  # further checks are made of what is right, unless they would take much memory
        is_small = values.size <= MOST_WORDS
        right = np.where(is_wrong, 0.0, values)[:, n_texts < len(rows)] if is_small else values[:, :0]
        return _Features(right, [""] * right.shape[1], [0] * right.shape[1])
    if not encoded:
        return _Features(np.ascontiguousarray(values), names, list(places))
    parts = [encoded.get(i, (values[:, i : i + 1], names[i : i + 1])) for i in range(len(places))]
    X = np.ascontiguousarray(np.hstack([part for part, _ in parts]))
    origins = [place for place, (_, of_part) in zip(places, parts, strict=True) for _ in of_part]
    return _Features(X, [name for _, of_part in parts for name in of_part], origins)


def _one_hot(
    table: Frame, choice: TableChoice, place: int, name: str, rows: Rows, width: int
) -> tuple[Floats, list[str]]:
    """Make a column of 0 and 1 for each text of a column, in sorted order, beside `width` others."""
    cells, location = _pick(table.texts(place), rows), f"{table.path}, {table.place_of(place)}"
    if choice.categories != "onehot":
        hint = _comma_hint(cells[0]) or (
            f"name it as {choice.key('label_column')} if it holds the classes, or as"
            f" {choice.key('index_column')} if it holds names; else {choice.key('drop')} it, or"
            f" {choice.phrase('categories', 'onehot')}"
        )
        raise refused(location, f"no number, first {cells[0][:60]!r}", "numbers", hint)

    def gap(row: int) -> Problem:
        return Problem(table.location(row, place), "an empty cell", "a text")

    if rows_of_gaps := [row for row, cell in zip(rows.tolist(), cells, strict=True) if is_empty(cell)]:
        raise InputError(lines.problems_at(rows_of_gaps, gap))
    different, codes = np.unique(np.array(cells, dtype=object), return_inverse=True)
    if len(different) > MOST_TEXTS_IN_ONE_HOT or len(different) == len(cells):
        fault = f"{len(different)} different texts in {len(cells)} rows"
        expected = f"at most {MOST_TEXTS_IN_ONE_HOT}, and not another one in each row"
        hint = "names of samples are no feature: drop it, or name it as index_column"
        raise refused(location, fault, expected, hint)
    check_size(f"{table.path}, features", len(cells), width + len(different))
    return np.eye(len(different))[codes], [f"{name}={text}" for text in different]


def _comma_hint(cell: str) -> str:
    """Hint on a cell that is a number except for its decimal comma; nothing for any other."""
    has_comma = "," in cell and lines.to_number(cell.replace(",", ".", 1)) is not None
    return "decimal commas are read in text whose cells are separated by semicolons" if has_comma else ""


def _names(table: Frame, choice: TableChoice, index: int | None) -> tuple[tuple[str, ...], str]:
    """Return the names of all rows, and the doubt if those of a stored index do not tell rows apart."""
    names = table.index if index is None else tuple(table.texts(index))
    counts = Counter(map(identity, names))
    wrong = [row for row, name in enumerate(names) if not name or counts[identity(name)] > 1]
    if index is None:
        if not wrong:
            return names, ""
        first = names[wrong[0]][:60]
        return (), f"the index that is stored with it has {first!r} more than once, or an empty label"

    def problem(row: int) -> Problem:
        fault = f"{names[row][:60]!r}, more than once" if names[row] else "an empty cell"
        expected = f"another name in each row, as {choice.key('index_column')}"
        return Problem(table.location(row, index), fault, expected)

    if wrong:
        raise InputError(lines.problems_at(wrong, problem))
    return names, ""


def _pick(cells: Sequence[str], rows: Rows) -> tuple[str, ...]:
    return tuple(cells[row] for row in rows.tolist())
