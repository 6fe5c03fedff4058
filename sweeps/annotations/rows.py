"""Rows of annotation files: one by one, and as columns, of which a file may have millions; and their samples.

`read_rows` makes them of the distinct cells of a file. The reader of single rows judges one row of each kind,
and the first rows of each kind that is wrong. `Samples` are the rows of a table as files name them, by their
numbers or by their names.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweep_clustering.sweeps.annotations.draw import CANNOT, MUST
from sweep_clustering.sweeps.data import lines
from sweep_clustering.sweeps.data.columns import Columns, groups
from sweep_clustering.sweeps.data.table import SampleRows, TableChoice, identity
from sweep_clustering.sweeps.errors import InputError, Problem, did_you_mean, plural, refused

# The adjacency of a self pair counts both ends (docs/model.md, eq. (3)), and so do link files.
SELF_PAIR_WEIGHT = 2.0

# Annotator of all link files: they name none.
LINKS = "links"

# Whole numbers as long as int64 can hold; without ASCII, digits of other scripts would count as well
WHOLE_NUMBER = re.compile(r"-?\d{1,18}", re.ASCII)

# Names that a misspelt one is compared with.
MOST_COMPARED = 10_000

# Misspelt names that are compared.
MOST_HINTS = 50

# More rows than a table can have.
MOST_ROWS = 10**9

# Choice for a table without any options.
PLAIN = TableChoice()


@dataclass(frozen=True, slots=True)
class Annotation:
    """A line of a link file or of an annotation file.

    Parameters
    ----------
    file : Path
        File that the line is in.
    line : int
        Number of the line, from 1.
    first, second : int
        The two samples, from 0.
    kind : int
        `sweeps.annotations.draw.MUST` or `CANNOT`.
    count : float
        Number of annotations that it stands for.
    annotator : str
        Name of the annotator.
    accuracy : float or None
        Probability that the annotation is right, if the line has it.
    is_hard : bool
        Whether every partition must obey it.
    """

    file: Path
    line: int
    first: int
    second: int
    kind: int
    count: float
    annotator: str = LINKS
    accuracy: float | None = None
    is_hard: bool = False

    @property
    def weight(self) -> float:
        """Weight in the file, where a self pair carries 2 per annotation."""
        return self.count * (SELF_PAIR_WEIGHT if self.first == self.second else 1.0)


# Annotator of answers that name none.
NO_ANNOTATOR = "asked"


@dataclass(frozen=True, slots=True)
class Skip:
    """A pair of samples, counted from 0, of which somebody was unsure, or whose question was skipped."""

    first: int
    second: int
    annotator: str = NO_ANNOTATOR
    count: float = 1.0


Row = Annotation | Skip

KIND_NAMES = {MUST: "must", CANNOT: "cannot"}

# Kind of a pair that was skipped, or of which the annotator was unsure.
SKIP_KIND = -1

# Place of a sample that is a row of the file, but was left out of the table.
DROPPED_ROW = -2

COLUMNS = np.dtype(
    [
        ("first", np.int32),
        ("second", np.int32),
        ("kind", np.int8),
        ("count", np.float64),
        ("annotator", np.int32),  # its place among the names
        ("accuracy", np.float64),  # NaN if the line says none
        ("file", np.int16),  # its place among the paths
        ("line", np.int32),
        ("is_hard", np.bool_),
    ]
)


@dataclass(frozen=True, eq=False)
class AnnotationRows:
    """Rows of some files, in the order of files and lines; 36 bytes each.

    Parameters
    ----------
    columns : structured array of shape (n_rows,), with the fields of `COLUMNS`
        A skipped pair has the kind `SKIP_KIND`, and neither accuracy nor line.
    annotators : tuple of str
        Names in the order in which they first appear.
    files : tuple of Path
        Files of the rows.
    n_outside : int
        Number of rows that were left out, because a row of the table that they name was.
    """

    columns: NDArray[Any]
    annotators: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()
    n_outside: int = 0

    def __len__(self) -> int:
        return len(self.columns)

    def __iter__(self) -> Iterator[Row]:
        return (self.row(place) for place in range(len(self)))

    def row(self, place: int) -> Row:
        """Return one row."""
        row = self.columns[place]
        if row["kind"] == SKIP_KIND:
            annotator, count = self.annotators[row["annotator"]], float(row["count"])
            return Skip(int(row["first"]), int(row["second"]), annotator, count)
        return self.annotation(place)

    def annotation(self, place: int) -> Annotation:
        """Return one row that is no skipped pair."""
        first, second, kind, count, annotator, accuracy, file, line, is_hard = self.columns[place].item()
        name, accuracy = self.annotators[annotator], None if np.isnan(accuracy) else accuracy
        return Annotation(self.files[file], line, first, second, kind, count, name, accuracy, is_hard)

    @property
    def answers(self) -> AnnotationRows:
        """Rows that are no skipped pairs."""
        return self._select(self.columns["kind"] != SKIP_KIND)

    @property
    def skips(self) -> AnnotationRows:
        """Rows of which annotators were unsure."""
        return self._select(self.columns["kind"] == SKIP_KIND)

    @property
    def kept_rows(self) -> AnnotationRows:
        """Rows of samples alone; those of a row that was left out of the table are counted."""
        is_inside = (self.columns["first"] != DROPPED_ROW) & (self.columns["second"] != DROPPED_ROW)
        return replace(self._select(is_inside), n_outside=self.n_outside + int((~is_inside).sum()))

    def _select(self, is_selected: NDArray[np.bool_]) -> AnnotationRows:
        return self if is_selected.all() else replace(self, columns=self.columns[is_selected])

    @classmethod
    def of(cls, rows: Iterable[Row]) -> AnnotationRows:
        """Make columns of single rows."""
        annotators, files = dict[str, int](), dict[Path, int]()
        cells = list[tuple[Any, ...]]()
        for row in rows:
            annotator = annotators.setdefault(row.annotator, len(annotators))
            if isinstance(row, Skip):
                cells.append((row.first, row.second, SKIP_KIND, row.count, annotator, np.nan, 0, 0, False))
                continue
            file = files.setdefault(row.file, len(files))
            accuracy = np.nan if row.accuracy is None else row.accuracy
            numbers = row.kind, row.count, annotator, accuracy, file, row.line, row.is_hard
            cells.append((row.first, row.second, *numbers))
        return cls(np.array(cells, dtype=COLUMNS), tuple(annotators), tuple(files))

    @classmethod
    def join(cls, parts: Sequence[AnnotationRows]) -> AnnotationRows:
        """Join the rows of several files, one after the other."""
        if len(parts) == 1:
            return parts[0]
        annotators = tuple(dict.fromkeys(name for part in parts for name in part.annotators))
        files = tuple(dict.fromkeys(path for part in parts for path in part.files))
        columns = np.concatenate([np.empty(0, dtype=COLUMNS), *(part.columns for part in parts)])
        begin = 0
        for part in parts:
            rows = columns[begin : begin + len(part)]
            for field, names, joint in (
                ("annotator", part.annotators, annotators),
                ("file", part.files, files),
            ):
                if names:
                    rows[field] = np.array([joint.index(name) for name in names])[rows[field]]
            begin += len(part)
        return cls(columns, annotators, files, sum(part.n_outside for part in parts))


# From distinct cells to rows.

# Columns of the two samples of a row.
ENDS = ("i", "j")

# Column that says by 0 or 1 how a row counts samples.
FIRST_ROW = "first_row"
COUNTS = ("0", "1")

# Place of a sample that does not exist, and of one that is beyond all that fit into 32 bits.
NOBODY = -1
LARGEST_PLACE = 2**31 - 1

# Kind of the rows without a problem.
RIGHT = -1

# Rows of a kind that are read to say what is wrong with all of it.
MOST_ALIKE = 20

# Kinds of wrong rows that have problems of their own.
MOST_KINDS = 100


def marks_of(columns: Columns) -> NDArray[np.int8]:
    """Return for each row 1 or 2 if it says that samples are counted from 0 or from 1, else 0."""
    if FIRST_ROW not in columns.codings:
        return np.zeros(len(columns), dtype=np.int8)
    codes, texts = columns.codings[FIRST_ROW]
    return np.array([COUNTS.index(text) + 1 if text in COUNTS else 0 for text in texts], dtype=np.int8)[codes]


def read_rows(
    columns: Columns,
    find: Callable[[str, str], int | None],
    read: Callable[[int, Mapping[str, str]], Row | None],
) -> AnnotationRows:
    """Read rows by their distinct cells.

    Parameters
    ----------
    columns : Columns
        Distinct cells of the file.
    find : callable
        From the cell of a sample, and that of `FIRST_ROW`, to the position of the sample.
    read : callable
        From the number of a line and its cells by name to a row; None if it says nothing.

    Raises
    ------
    InputError
        With every problem of every row, equal ones as one. Its `rest` is the rows that are right.
    """
    ends = _ends(columns, find)
    has_samples = (ends != NOBODY).all(axis=1)
    # rows whose other cells are the same, and that are self pairs or not, say the same of their pairs
    is_self = (ends[:, 0] == ends[:, 1]) & (ends[:, 0] != DROPPED_ROW)
    cell_codes, count = is_self.astype(np.int64), 2
    for name, (codes, texts) in columns.codings.items():
        if name not in ENDS and len(texts) > 1:
            first, cell_codes = groups(cell_codes * len(texts) + codes, count * len(texts))
            count = len(first)
    annotators = dict[str, int]()
    valid_rows = np.flatnonzero(has_samples)
    first, group = groups(cell_codes[valid_rows], count)
    by_group = np.zeros(len(first), dtype=COLUMNS)
    by_group["accuracy"] = np.nan
    kind, is_empty = np.full(len(first), RIGHT), np.zeros(len(first), dtype=np.bool_)
    complaints = dict[tuple[tuple[str, str], ...], int]()
    for number in np.argsort(first):  # as annotators are numbered by their first row
        place = int(valid_rows[first[number]])
        try:
            row = read(int(columns.lines[place]), columns.row(place))
        except InputError as error:
            complaint = tuple((problem.expected, problem.hint) for problem in error.problems)
            kind[number] = complaints.setdefault(complaint, len(complaints))
            continue
        is_empty[number] = row is None
        if row is None:
            continue
        by_group["kind"][number] = SKIP_KIND if isinstance(row, Skip) else row.kind
        by_group["count"][number] = row.count
        by_group["annotator"][number] = annotators.setdefault(row.annotator, len(annotators))
        if isinstance(row, Annotation):
            by_group["is_hard"][number] = row.is_hard
            by_group["accuracy"][number] = np.nan if row.accuracy is None else row.accuracy
    kind_of_row = np.full(len(columns), RIGHT, dtype=np.int64)
    kind_of_row[valid_rows] = kind[group]
    if not has_samples.all():  # by which sample is not there, and by the other cells
        missing_ends = (ends[~has_samples] == NOBODY) @ np.array([1, 2])
        kind_of_row[~has_samples] = len(complaints) + 4 * cell_codes[~has_samples] + missing_ends
    is_kept = kind_of_row == RIGHT
    wrong = np.flatnonzero(~is_kept)
    is_kept[valid_rows] &= ~is_empty[group]
    rows = by_group[group[is_kept[valid_rows]]]  # a file of wrong rows takes no memory for them
    rows["first"], rows["second"] = ends[is_kept].T
    rows["line"] = columns.lines[is_kept]
    right = AnnotationRows(rows, tuple(annotators), (columns.path,)).kept_rows
    if len(wrong):
        raise InputError(_problems(columns.select(wrong), kind_of_row[wrong], read), right)
    return right


def _ends(columns: Columns, find: Callable[[str, str], int | None]) -> NDArray[np.int32]:
    """Return the positions of the two samples of each row, `NOBODY` of one that is not there."""
    marks = marks_of(columns)
    ends = np.empty((len(columns), 2), dtype=np.int32)
    for column, name in enumerate(ENDS):
        codes, texts = columns.codings[name]
        places = np.full((1 + len(COUNTS), len(texts)), NOBODY, dtype=np.int32)
        for mark in np.unique(marks):
            for code, cell in enumerate(texts):
                place = find(cell, ("", *COUNTS)[mark])
                places[mark, code] = NOBODY if place is None else min(place, LARGEST_PLACE)
        ends[:, column] = places[marks, codes]
    return ends


def _problems(
    wrong: Columns, kinds: NDArray[np.int64], read: Callable[[int, Mapping[str, str]], Row | None]
) -> list[Problem]:
    """Read the first wrong rows of each kind, and return their problems as those of all that are alike."""
    first, kind = groups(kinds, int(kinds.max()) + 1)
    kind = np.minimum(np.argsort(np.argsort(first)), MOST_KINDS)[kind]  # in the order of their first rows
    counts = np.bincount(kind)
    n_read = np.where(counts == MOST_ALIKE + 1, counts, MOST_ALIKE)  # a single row has a line of its own
    places = [np.flatnonzero(kind == number)[:limit] for number, limit in enumerate(n_read.tolist())]
    problems, rows_of_kind = list[Problem](), [list[dict[tuple[str, str], Problem]]() for _ in counts]
    for place in np.sort(np.concatenate(places)).tolist():
        try:
            read(int(wrong.lines[place]), wrong.row(place))
        except InputError as error:
            problems += error.problems
            rows_of_kind[kind[place]].append({(item.expected, item.hint): item for item in error.problems})
    for rows, n_unread in zip(rows_of_kind, (counts - n_read).tolist(), strict=True):
        if n_unread > 0:
            is_alike = all(row.keys() == rows[0].keys() for row in rows)
            summary = Problem(str(wrong.path), f"{plural(n_unread, 'more row')} with problems like these", "")
            examples = rows[-1].values() if is_alike else [summary]
            problems += [replace(problem, count=n_unread) for problem in examples]
    return lines.shortened(wrong.path, problems)


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
    hint : str
        Hint on texts that name rows, where rows have no names.
    choice : TableChoice
        Choice by which the rows of the table were read.
    """

    def __init__(
        self, rows: SampleRows, first_row: int = 1, hint: str = "", choice: TableChoice = PLAIN
    ) -> None:
        self.rows, self.first_row, self._hint, self.choice = rows, first_row, hint, choice
        self._reason = ""  # follows "counted from 0" in messages
        self._default = DROPPED_ROW if choice.links_outside == "drop" else None
        all_rows = range(rows.n_rows)
        self._row_of: Sequence[int] = all_rows if rows.selection is None else rows.selection.tolist()
        self.are_numbered = not rows.doubt and not any(map(is_number, rows.names))

    @classmethod
    def of(cls, samples: Samples | int) -> Samples:
        """Return the samples, or as many rows without names, counted from 1."""
        return samples if isinstance(samples, Samples) else cls(SampleRows(samples))

    def counted_from(self, first_row: int, reason: str = "") -> Samples:
        """Return the same samples with another number of the first row."""
        if first_row == self.first_row and not reason:
            return self
        samples = copy(self)
        samples.first_row, samples._reason = first_row, reason
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

        It is `DROPPED_ROW` for a row that was left out of the table, if its annotations are left out, too.
        """
        cell = identity(cell)
        row, first = self._by_name.get(cell), self.first_row
        if row is None and self.are_numbered and WHOLE_NUMBER.fullmatch(cell) is not None:
            row = int(cell) - first
            row = row if 0 <= row < self.rows.n_rows else None
        return row if self.rows.selection is None or row is None else self._positions.get(row, self._default)

    def position(self, cell: str, location: str) -> int:
        """Return the position of a sample from 0, see `find`; `location` is for messages.

        Raises
        ------
        InputError
            If it is none of the samples.
        """
        if (position := self.find(cell)) is not None:
            return position
        cell = identity(cell)
        rows, is_number = self.rows, WHOLE_NUMBER.fullmatch(cell) is not None
        first, last = self.first_row, rows.n_rows - 1 + self.first_row
        row = self._by_name.get(cell)
        if row is None and self.are_numbered and is_number and first <= int(cell) <= last:
            row = int(cell) - first
        fault, expected = f"sample {cell[:60]!r}", "a row that is used"
        row_key, link_key = (self.choice.phrase(key, "drop") for key in ("missing", "links_outside"))
        hint = f"it has an empty cell, and {row_key} leaves it out; {link_key} leaves out its annotations"
        # the number of rows is not known if the table could not be read
        numbers = f"{first} to {last}" if last < MOST_ROWS else f"{first} or more"
        if row is None and rows.doubt:
            expected, hint = "names that tell the rows of the table apart", rows.doubt
        elif row is None and rows.names:
            hint = self._suggestion(cell)
            expected = "the name of a row" + (f", or {numbers}" if self.are_numbered else "")
        elif row is None:
            fault = f"sample {int(cell)}" if is_number else fault
            expected, hint = numbers, f"samples are counted from {first}{self._reason}"
            if self._hint and not is_number:
                expected, hint = "the number of a row, as rows have no names", self._hint
        raise refused(location, fault, expected, hint)

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
