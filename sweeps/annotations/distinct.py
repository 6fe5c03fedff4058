"""Annotation files of millions of rows, each distinct cell read once.

`plain` takes a text apart if all of its lines are alike. The lines of any other text are read one by one,
which is the oracle of the tests. A file of arrays (`sweeps.annotations.stored`) is `Distinct` from the
start. What the cells of a row say is decided by the reader of single rows alone: it is asked about one row of
each kind, and about the first rows of each kind that is wrong, so that rows and messages are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sweep_clustering.sweeps.annotations.rows import (
    COLUMNS,
    OUTSIDE,
    SKIPPED,
    Annotation,
    AnnotationRows,
    Row,
    Skip,
)
from sweep_clustering.sweeps.data.lines import Complaints
from sweep_clustering.sweeps.errors import InputError, Problem, plural

Codes = NDArray[np.integer]

# From the cells of a row by name, and its number, to what it says; None if it says nothing.
Reader = Callable[[int, Mapping[str, str]], Row | None]

# From the cell of a sample, and what its row says of the number of the first row, to its place.
Finder = Callable[[str, str], int | None]

ENDS = ("i", "j")

# Place of a sample that is not there.
NOBODY = -1

# Kind of the rows without a problem.
RIGHT = -1

# Rows of a kind that are read to say what is wrong with all of it, and kinds.
MOST_ALIKE, MOST_KINDS = 20, 100

# Lines whose cells are there as texts at a time.
CHUNK = 2**18

# Bytes of a cell that is compared as one number.
WORD = 8


@dataclass(frozen=True, eq=False)
class Distinct:
    """Rows by the distinct cells of each column.

    Parameters
    ----------
    begin : int
        Number of the first row, from 1.
    codes : dict of str to array of shape (n_rows,)
        For each column the place of each cell among the distinct ones.
    cells : dict of str to list of str
        The distinct cells of each column.
    """

    begin: int
    codes: dict[str, Codes]
    cells: dict[str, list[str]]

    def __len__(self) -> int:
        return len(next(iter(self.codes.values())))

    def row(self, place: int) -> dict[str, str]:
        """Cells of a row by name."""
        return {name: self.cells[name][codes[place]] for name, codes in self.codes.items()}

    def firsts(self, name: str) -> Iterator[tuple[int, str]]:
        """First place, and text, of each distinct cell of a column, in the order of these places."""
        codes = self.codes[name]
        first, _ = _groups(codes.astype(np.int64), len(self.cells[name]))
        return ((place, self.cells[name][codes[place]]) for place in np.sort(first).tolist())

    def called(self, names: Sequence[str]) -> Distinct:
        """The same with other names of its columns, by position; one without a name is left out."""
        pairs = [(name, old) for name, old in zip(names, self.codes, strict=True) if name]
        return Distinct(
            self.begin,
            {name: self.codes[old] for name, old in pairs},
            {name: self.cells[old] for name, old in pairs},
        )

    def with_all(self, name: str, cell: str) -> Distinct:
        """The same with a column whose cells are all the same."""
        codes = np.zeros(len(self), dtype=np.int8)
        return Distinct(self.begin, self.codes | {name: codes}, self.cells | {name: [cell]})

    def at(self, places: NDArray[np.intp]) -> Distinct:
        """Some of the rows."""
        return Distinct(self.begin, {name: codes[places] for name, codes in self.codes.items()}, self.cells)

    def changed(self, name: str, change: Callable[[str], str]) -> Distinct:
        """The same with other cells of a column."""
        return Distinct(self.begin, self.codes, self.cells | {name: [*map(change, self.cells[name])]})

    def only(self, names: Sequence[str]) -> Distinct:
        """The same with some of its columns."""
        chosen = [name for name in self.codes if name in names]
        return Distinct(
            self.begin,
            {name: self.codes[name] for name in chosen},
            {each: self.cells[each] for each in chosen},
        )

    def rows(self, path: Path, mark: str, find: Finder, read: Reader) -> AnnotationRows:
        """What the rows say.

        Parameters
        ----------
        path : Path
            The file.
        mark : str
            The column that says how a row counts samples.
        find, read : callable
            The place of a sample, and what single rows say.

        Raises
        ------
        InputError
            With every problem of every row, equal ones as one. Its `rest` is the rows that are right.
        """
        ends = self._ends(mark, find)
        is_right = (ends != NOBODY).all(axis=1)
        # rows whose other cells are the same, and that are self pairs or not, say the same of their pairs
        is_self = (ends[:, 0] == ends[:, 1]) & (ends[:, 0] != OUTSIDE)
        alike, count = is_self.astype(np.int64), 2
        for name, codes in self.codes.items():
            if name not in ENDS and len(self.cells[name]) > 1:
                first, alike = _groups(alike * len(self.cells[name]) + codes, count * len(self.cells[name]))
                count = len(first)
        annotators = dict[str, int]()
        right = np.flatnonzero(is_right)
        first, group = _groups(alike[right], count)
        by_group = np.zeros(len(first), dtype=COLUMNS)
        kind, is_empty = np.full(len(first), RIGHT), np.zeros(len(first), dtype=np.bool_)
        kinds = dict[tuple[tuple[str, str], ...], int]()
        for number in np.argsort(first):  # as annotators are numbered by their first row
            place = int(right[first[number]])
            try:
                row = read(self.begin + place, self.row(place))
            except InputError as error:
                complaint = tuple((each.expected, each.hint) for each in error.problems)
                kind[number] = kinds.setdefault(complaint, len(kinds))
                continue
            is_empty[number] = row is None
            by_group["accuracy"][number] = np.nan
            if isinstance(row, Skip):
                by_group["kind"][number] = SKIPPED
            elif isinstance(row, Annotation):
                by_group["kind"][number], by_group["count"][number] = row.kind, row.count
                by_group["annotator"][number] = annotators.setdefault(row.annotator, len(annotators))
                if row.accuracy is not None:
                    by_group["accuracy"][number] = row.accuracy
        kind_of_row = np.full(len(self), RIGHT, dtype=np.int64)
        kind_of_row[right] = kind[group]
        if not is_right.all():  # by which sample is not there, and by the other cells
            outside = (ends[~is_right] == NOBODY) @ np.array([1, 2])
            kind_of_row[~is_right] = len(kinds) + 4 * alike[~is_right] + outside
        wrong = np.flatnonzero(kind_of_row != RIGHT)
        is_kept = kind_of_row == RIGHT
        is_kept[right] &= ~is_empty[group]
        kept, of_kept = np.flatnonzero(is_kept), group[is_kept[right]]
        columns = np.zeros(len(kept), dtype=COLUMNS)  # a file of wrong rows takes no memory for them
        for field in ("kind", "count", "annotator", "accuracy"):
            columns[field] = by_group[field][of_kept]
        columns["first"], columns["second"] = ends[kept].T
        columns["line"] = kept + self.begin
        rows = AnnotationRows(columns, tuple(annotators), (path,)).inside
        if len(wrong):
            raise InputError(self._problems(path, wrong, kind_of_row[wrong], read), rows)
        return rows

    def _ends(self, mark: str, find: Finder) -> NDArray[np.int32]:
        """Places of the two samples of each row, `NOBODY` of one that is not there."""
        # whatever else a row says of it is wrong, and counts as nothing
        marks = np.array([int(cell) + 1 if cell in ("0", "1") else 0 for cell in self.cells.get(mark, [""])])
        ends = np.empty((len(self), 2), dtype=np.int32)
        for column, name in enumerate(ENDS):
            places = np.full((3, len(self.cells[name])), NOBODY, dtype=np.int32)
            for number in np.unique(marks):
                for code, cell in enumerate(self.cells[name]):
                    place = find(cell, ("", "0", "1")[number])
                    places[number, code] = NOBODY if place is None else place
            ends[:, column] = places[marks[self.codes.get(mark, 0)], self.codes[name]]
        return ends

    def _problems(
        self, path: Path, places: NDArray[np.intp], kinds: NDArray[np.int64], read: Reader
    ) -> list[Problem]:
        """Problems of wrong rows: of each kind the first rows are read, and stand for all that are alike."""
        first, kind = _groups(kinds, int(kinds.max()) + 1)
        kind = np.minimum(np.argsort(np.argsort(first)), MOST_KINDS)[kind]  # in the order of their first rows
        counts = np.bincount(kind)
        read_places = [np.flatnonzero(kind == number)[:MOST_ALIKE] for number in range(len(counts))]
        complaints, of_kind = Complaints(path), [list[tuple[Problem, ...]]() for _ in counts]
        for at in np.sort(np.concatenate(read_places)).tolist():
            place = int(places[at])
            try:
                read(self.begin + place, self.row(place))
            except InputError as error:
                complaints.add(error.problems)
                of_kind[kind[at]].append(error.problems)
        for rows, count in zip(of_kind, (counts - MOST_ALIKE).tolist(), strict=True):
            if count > 0:
                said = [{(each.expected, each.hint): each for each in problems} for problems in rows]
                is_one = all(each.keys() == said[0].keys() for each in said)
                more = Problem(str(path), f"{plural(count, 'more row')} with problems like these", "")
                complaints.add(
                    replace(each, count=count) for each in (said[-1].values() if is_one else [more])
                )
        return complaints.shown()


def plain(content: bytes, separator: str, names: Sequence[str], least: int, skip: int) -> Distinct | None:
    """A text whose lines all have the same number of cells, and neither quotes nor comments; else None.

    Parameters
    ----------
    content : bytes
        UTF-8 with line feeds.
    separator : str
        Of cells; a blank is one blank here, though a file may have several.
    names : sequence of str
        Of the columns, by position; one without a name is left out.
    least : int
        How many of them there are at least.
    skip : int
        Lines before the first row.
    """
    begin = 0
    for _ in range(skip):
        begin = content.find(b"\n", begin) + 1
        if not begin:
            return None
    rest = memoryview(content)[begin:]
    if not len(rest) or content.find(b'"', begin) >= 0 or content.find(b"#", begin) >= 0:
        return None
    text = np.frombuffer(rest, dtype=np.uint8)
    marks = _marks(text, ord(separator))
    if not least <= marks.shape[1] - 1 <= len(names):
        return None
    codes, cells = dict[str, Codes](), dict[str, list[str]]()
    for column, name in enumerate(names[: marks.shape[1] - 1]):
        if not name:  # an index that pandas wrote
            continue
        codes[name], found = _factorized(text, marks[:, column] + 1, marks[:, column + 1])
        cells[name] = [cell.strip() for cell in found]
        # other blanks separate as well, before semicolons do, and a row without cells says nothing
        if separator in (" ", ";") and not all(cell.split() == [cell] for cell in found):
            return None
        if name in ENDS and "" in cells[name]:
            return None
        # a tab at the end of a line separates in a file with a header, and does not in any other
        if separator == "\t" and column == marks.shape[1] - 2 and "" in cells[name]:
            return None
    return Distinct(skip + 1, codes, cells)


def _marks(text: NDArray[np.uint8], separator: int) -> NDArray[np.int64]:
    """What is before, between and behind the cells of each line; without lines if they are not alike."""
    ends = np.flatnonzero(text == 10)
    if not len(ends) or ends[-1] != len(text) - 1:
        ends = np.append(ends, len(text))
    starts, marks = np.append(-1, ends[:-1]), np.flatnonzero(text == separator)
    width, rest = divmod(len(marks), len(ends))
    if not rest and width:
        between = marks.reshape(len(ends), width)
        if (between[:, 0] > starts).all() and (between[:, -1] < ends).all():
            return np.column_stack([starts, between, ends])
    return np.empty((0, 1), dtype=np.int64)


def _factorized(
    text: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> tuple[Codes, list[str]]:
    """Codes and texts of the cells that begin and end at some places of a text."""
    import pandas as pd

    lengths = ends - starts
    if (most := int(lengths.max())) <= WORD:  # a cell is a number then, as no text has a byte 0
        numbers = np.zeros(len(starts), dtype=np.uint64)
        for at in range(most):
            byte = text[np.minimum(starts + at, len(text) - 1)].astype(np.uint64)
            numbers |= np.where(at < lengths, byte, 0) << np.uint64(8 * at)
        codes, found = pd.factorize(numbers)
        return codes, [int(each).to_bytes(WORD, "little").rstrip(b"\0").decode() for each in found]
    known, parts, content = dict[bytes, int](), list[Codes](), text.tobytes()
    for begin in range(0, len(starts), CHUNK):
        part = slice(begin, begin + CHUNK)
        cells = [content[i:j] for i, j in zip(starts[part].tolist(), ends[part].tolist(), strict=True)]
        parts.append(np.array([known.setdefault(cell, len(known)) for cell in cells], dtype=np.int32))
    return np.concatenate(parts), [cell.decode() for cell in known]


def _groups(codes: NDArray[np.int64], count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """First place of each code that is there, and the number of each among these; codes are below `count`."""
    if count > 4 * len(codes) + 1000:
        _, first, group = np.unique(codes, return_index=True, return_inverse=True)
        return first, group
    first = np.full(count, -1, dtype=np.int64)  # a table takes a tenth of the time of sorting
    first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)  # of several that are set the last one stays
    is_there = first >= 0
    return first[is_there], (np.cumsum(is_there) - 1)[codes]
