"""Annotation files of millions of rows, each distinct cell read once.

`plain` takes a text apart if all of its lines are alike. The lines of any other text are read one by one,
which is the oracle of the tests. A file of arrays (`sweeps.annotations.stored`) is `Distinct` from the
start. What the cells of a row say is decided by the reader of single rows alone: it is asked about one row of
each kind, and about every row that is wrong, so that rows and messages are the same.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sweeps.annotations.rows import COLUMNS, SKIPPED, Annotation, AnnotationRows, Row, Skip
from sweeps.data.lines import Complaints
from sweeps.errors import InputError, Problem

Codes = NDArray[np.integer]

# From the cells of a row by name, and its number, to what it says; None if it says nothing.
Reader = Callable[[int, Mapping[str, str]], Row | None]

# From the cell of a sample, and what its row says of the number of the first row, to its place.
Finder = Callable[[str, str], int | None]

ENDS = ("i", "j")

# Lines whose cells are there as texts at a time.
CHUNK = 2**18


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
        codes, n_rows = self.codes[name], len(self)
        first = np.full(len(self.cells[name]), n_rows, dtype=np.int64)
        first[codes[::-1]] = np.arange(n_rows - 1, -1, -1)  # of several that are set the last one stays
        order = np.argsort(first, kind="stable")
        return ((int(first[code]), self.cells[name][code]) for code in order if first[code] < n_rows)

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
            With every problem of every row, equal ones as one.
        """
        ends = self._ends(mark, find)
        is_right = (ends >= 0).all(axis=1)
        # rows whose other cells are the same, and that are self pairs or not, say the same of their pairs
        alike = (ends[:, 0] == ends[:, 1]).astype(np.int64)
        for name, codes in self.codes.items():
            if name not in ENDS:
                alike = alike * len(self.cells[name]) + codes
                if len(self.cells[name]) > 1:
                    alike = np.unique(alike, return_inverse=True)[1]
        columns = np.zeros(len(self), dtype=COLUMNS)
        says_nothing = np.zeros(len(self), dtype=np.bool_)
        annotators = dict[str, int]()
        right = np.flatnonzero(is_right)
        _, first, group = np.unique(alike[right], return_index=True, return_inverse=True)
        by_group = np.zeros(len(first), dtype=COLUMNS)
        is_wrong, is_empty = np.zeros(len(first), dtype=np.bool_), np.zeros(len(first), dtype=np.bool_)
        for number in np.argsort(first):  # as annotators are numbered by their first row
            place = int(right[first[number]])
            try:
                row = read(self.begin + place, self.row(place))
            except InputError:
                is_wrong[number] = True
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
        columns[right] = by_group[group]
        says_nothing[right] = is_empty[group]
        wrong = np.union1d(np.flatnonzero(~is_right), right[is_wrong[group]])
        if len(wrong):
            raise InputError(self._problems(path, wrong, read))
        columns["first"], columns["second"] = ends.T
        columns["line"] = np.arange(self.begin, self.begin + len(self))
        return AnnotationRows(columns[~says_nothing], tuple(annotators), (path,))

    def _ends(self, mark: str, find: Finder) -> NDArray[np.int32]:
        """Places of the two samples of each row, -1 of one that is not there."""
        # whatever else a row says of it is wrong, and counts as nothing
        marks = np.array([int(cell) + 1 if cell in ("0", "1") else 0 for cell in self.cells.get(mark, [""])])
        ends = np.empty((len(self), 2), dtype=np.int32)
        for column, name in enumerate(ENDS):
            places = np.full((3, len(self.cells[name])), -1, dtype=np.int32)
            for number in np.unique(marks):
                for code, cell in enumerate(self.cells[name]):
                    place = find(cell, ("", "0", "1")[number])
                    places[number, code] = -1 if place is None else place
            ends[:, column] = places[marks[self.codes.get(mark, 0)], self.codes[name]]
        return ends

    def _problems(self, path: Path, places: NDArray[np.intp], read: Reader) -> list[Problem]:
        complaints = Complaints(path)
        for place in map(int, places):
            try:
                read(self.begin + place, self.row(place))
            except InputError as error:
                complaints.add(error.problems)
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
    width = _width(np.frombuffer(rest, dtype=np.uint8), ord(separator))
    if not least <= width <= len(names):
        return None
    import csv

    import pandas as pd

    # not as categories: pandas would take 1 and 1.0 as the same one
    parts = pd.read_csv(
        io.BytesIO(rest),
        sep=separator,
        header=None,
        names=range(width),
        index_col=False,
        dtype=object,
        na_filter=False,
        quoting=csv.QUOTE_NONE,
        skip_blank_lines=False,
        encoding="utf-8",
        chunksize=CHUNK,
    )
    known: list[dict[str, int]] = [{} for _ in range(width)]
    found: list[list[Codes]] = [[] for _ in range(width)]
    with parts:
        for part in parts:
            for column, places in enumerate(known):
                codes, texts = pd.factorize(part[column].to_numpy())
                whole = np.array([places.setdefault(text, len(places)) for text in texts], dtype=np.int32)
                found[column].append(whole[codes])
    codes_of, cells = dict[str, Codes](), dict[str, list[str]]()
    for column, name in enumerate(names[:width]):
        if not name:  # an index that pandas wrote
            continue
        codes_of[name], cells[name] = np.concatenate(found[column]), [text.strip() for text in known[column]]
        # other blanks would separate as well, and a row without cells says nothing
        if separator == " " and not all(cell.split() == [cell] for cell in cells[name]):
            return None
        if name in ENDS and "" in cells[name]:
            return None
        # a tab at the end of a line separates in a file with a header, and does not in any other
        if separator == "\t" and column == width - 1 and "" in cells[name]:
            return None
    return Distinct(skip + 1, codes_of, cells)


def _width(text: NDArray[np.uint8], separator: int) -> int:
    """Number of cells of every line, 0 if lines differ."""
    ends = np.flatnonzero(text == 10)
    if not len(ends) or ends[-1] != len(text) - 1:
        ends = np.append(ends, len(text))
    marks = np.flatnonzero(text == separator)
    width, rest = divmod(len(marks), len(ends))
    if rest or not width:
        return 0
    by_line = marks.reshape(len(ends), width)
    starts = np.append(-1, ends[:-1])
    return width + 1 if (by_line[:, 0] > starts).all() and (by_line[:, -1] < ends).all() else 0
