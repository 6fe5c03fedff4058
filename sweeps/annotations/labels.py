"""Labels of some rows in a file: one for each row of the table, or rows and their labels in two columns.

A `LabelFile` has the content of a file, and `labels` its labels by sample. Any of them may be wrong:
`kernels.problem.data` says how they become annotations.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sweep_clustering.kernels.settings import UNLABELLED
from sweep_clustering.sweeps.annotations.draw import CANNOT, MUST
from sweep_clustering.sweeps.annotations.files import SEPARATORS, Mentions
from sweep_clustering.sweeps.annotations.rows import COLUMNS, DROPPED_ROW, AnnotationRows, Samples
from sweep_clustering.sweeps.data import lines
from sweep_clustering.sweeps.data.columns import Columns, RowFile, read_content
from sweep_clustering.sweeps.data.reading import BLANK, rows_of
from sweep_clustering.sweeps.data.table import identity
from sweep_clustering.sweeps.errors import InputError, Problem, plural, raise_all, refused

# Cells of rows without a label, in small letters; scikit-learn has -1.
NO_LABEL = ("", "?", "na", "n/a", "nan", "<na>", "-1")

# Names of the two columns, in small letters.
ROW_COLUMNS = ("row", "i", "index", "sample", "id", "name")
LABEL_COLUMNS = ("label", "class", "y", "target")

# Names of single samples that are listed.
MOST_NAMED = 10

EXPECTED = "a label for each row, or two columns, row and label"


class RowLabels(NamedTuple):
    """Labels of some samples.

    Parameters
    ----------
    codes : ndarray of shape (n_samples,), int64
        Place of the label of each sample among the names; `UNLABELLED` for samples without one.
    names : tuple of str
        Distinct labels: numbers in their order, then texts.
    """

    codes: NDArray[np.int64]
    names: tuple[str, ...] = ()

    @classmethod
    def from_cells(cls, cells: Sequence[str]) -> RowLabels:
        """Return the labels in a cell for each sample."""
        texts = [identity(cell) for cell in cells]
        distinct = {text for text in texts if text.lower() not in NO_LABEL}
        names = sorted(distinct, key=lambda name: (lines.to_number(name) is None, _value(name), name))
        code_of = {name: code for code, name in enumerate(names)}
        return cls(np.array([code_of.get(text, UNLABELLED) for text in texts], np.int64), tuple(names))

    @property
    def rows(self) -> NDArray[np.int64]:
        """Samples with a label."""
        return np.flatnonzero(self.codes != UNLABELLED)

    @property
    def counts(self) -> NDArray[np.int64]:
        """Number of samples of each name."""
        return np.bincount(self.codes[self.rows], minlength=len(self.names))

    @property
    def single_names(self) -> str:
        """Names of a single sample, the first ones of many; empty if there are none."""
        codes = np.flatnonzero(self.counts == 1)[:MOST_NAMED]
        return ", ".join(repr(self.names[code][:60]) for code in codes.tolist())


def _value(name: str) -> float:
    number = lines.to_number(name)
    return 0.0 if number is None or number != number else number


class _Entries(NamedTuple):
    """Labels as a file has them, with the number of the line and the cell of the row of each.

    Without cells of rows there is a label for each row of the table.
    """

    lines: Sequence[int]
    labels: Sequence[str]
    rows: Sequence[str] | None = None


@dataclass(frozen=True)
class LabelFile(RowFile):
    """A file of labels.

    Parameters
    ----------
    n_rows : int or None
        Number of rows of the table; None if the table could not be read.
    """

    n_rows: int | None = None

    @classmethod
    def of(cls, path: Path) -> LabelFile:
        """Read a file of columns (.parquet, .pq, .feather, .arrow, .npz), or a text under any other name.

        Raises
        ------
        InputError
            If it cannot be read.
        """
        return cls(read_content(path))

    def labels(self, samples: Samples) -> RowLabels:
        """Return the labels of samples; a row that is left out of the table has none.

        Raises
        ------
        InputError
            With every problem of the file: rows that do not exist, rows of two labels, no labels.
        """
        entries, problems = self._entries, list[Problem]()
        cells, line_of = dict[int, str](), dict[int, int]()
        for line, row, cell in zip(entries.lines, entries.rows or (), entries.labels, strict=False):
            location, text = f"{self.path}, {self.unit} {line}", identity(cell)
            try:  # `collecting` would take as long as all else
                position = samples.position(row, location)
            except InputError as error:
                problems += error.problems
                continue
            if position == DROPPED_ROW or text.lower() in NO_LABEL:
                continue
            if cells.setdefault(position, text) != text:
                former_label = f"{cells[position][:60]!r} in {self.unit} {line_of[position]}"
                fault = f"label {text[:60]!r}, and {former_label}"
                problems.append(Problem(location, fault, "one label for each row"))
            line_of.setdefault(position, line)
        raise_all(lines.shortened(self.path, problems))
        if self.n_rows is None:
            return RowLabels(np.empty(0, np.int64))
        selection = samples.rows.selection
        numbers = range(self.n_rows) if selection is None else selection.tolist()
        if entries.rows is None:
            labels = RowLabels.from_cells([entries.labels[row] for row in numbers])
        else:
            labels = RowLabels.from_cells([cells.get(position, "") for position in range(len(numbers))])
        if not labels.names:
            raise refused(self.path, "no labels of rows that are used", EXPECTED)
        return labels

    def random_rows(self, samples: Samples, limit: int) -> AnnotationRows:
        """Return pairs of labelled rows as answers, by which `numbering_of` reads numbers of rows."""
        entries = self._entries
        places = [samples.find(row) for row in entries.rows or ()]
        numbers = [
            number
            for number, place in enumerate(places)
            if place is not None and place != DROPPED_ROW and entries.labels[number].lower() not in NO_LABEL
        ]
        readable = np.array(numbers, dtype=np.int64)
        order = np.random.default_rng(len(numbers)).permutation(readable)[: limit // 2]
        by_label = np.array(sorted(order.tolist(), key=lambda number: entries.labels[number]), dtype=np.int64)
        pairs = np.concatenate([np.stack([part[:-1], part[1:]], axis=1) for part in (order, by_label)])
        rows = np.zeros(len(pairs), COLUMNS)
        rows["first"], rows["second"] = np.array([place or 0 for place in places], np.int32)[pairs].T
        labels = np.array(entries.labels, dtype=object)[pairs]
        rows["kind"] = np.where(labels[:, 0] == labels[:, 1], MUST, CANNOT)
        rows["line"], rows["count"] = np.array(entries.lines, np.int32)[pairs[:, 0]], 1.0
        return AnnotationRows(rows, ("labels",), (self.path,))

    @cached_property
    def mentions(self) -> Mentions:
        """Rows as the file numbers them; none if it has a label for each row, or is wrong."""
        with suppress(InputError):
            entries = self._entries
            rows = zip(entries.lines, entries.rows or (), strict=False)
            return Mentions.from_cells((line, cell, 0) for line, cell in rows)._replace(texts=frozenset())
        return Mentions()

    @cached_property
    def _entries(self) -> _Entries:
        if isinstance(self.content, Columns):
            return self._of_columns(self.content)
        for separator in SEPARATORS:
            if (entries := self._of_cells(self.content, separator)) is not None:
                return entries
        lines_read = enumerate(self.content.content.decode().removesuffix("\n").split("\n"), 1)
        labels = {number: text.strip() for number, text in lines_read if not text.lstrip().startswith("#")}
        n_rows = len(labels) if self.n_rows is None else self.n_rows
        if len(labels) in (n_rows, n_rows + 1):
            texts = [*labels.values()]
            # a first line whose text comes again is a label, and not a header, if the last line is blank
            has_header = not (texts and texts[0] in texts[1:] and texts[-1] == "")
            rows = slice(len(labels) - n_rows, None) if has_header else slice(n_rows)
            return _Entries([*labels][rows], [text.strip('"') for text in texts[rows]])
        if (entries := self._of_cells(self.content, BLANK)) is not None:
            return entries
        fault = f"{plural(len(labels), 'line')} for {plural(n_rows, 'row')}, not all with two cells"
        raise refused(self.path, fault, EXPECTED)

    def _of_columns(self, columns: Columns) -> _Entries:
        texts = {
            name.strip().lower(): [texts[code] for code in codes.tolist()]
            for name, (codes, texts) in columns.codings.items()
        }
        numbers = range(1, len(columns) + 1)
        if len(texts) == 1:
            labels = next(iter(texts.values()))
            if self.n_rows is not None and len(labels) != self.n_rows:
                expected = f"{self.n_rows}, one for each row, or {EXPECTED}"
                raise refused(self.path, plural(len(labels), "label"), expected)
            return _Entries(numbers, labels)
        order = _order([*texts])
        if order is None:
            fault = f"columns {', '.join(map(repr, columns.codings))}"
            names = f"row ({', '.join(ROW_COLUMNS)}) and label ({', '.join(LABEL_COLUMNS)})"
            raise refused(self.path, fault, f"one column of labels, or two: {names}")
        row, label = (texts[[*texts][place]] for place in order)
        return _Entries(numbers, label, row)

    def _of_cells(self, text: lines.Lines, separator: str) -> _Entries | None:
        """Return rows of two cells; None if there is no header that names both and a row has others."""
        try:
            rows = list(rows_of(text.path, text.content, separator))
        except InputError:
            return None
        if not rows:
            return None
        order = _order([cell.lower() for cell in rows[0][0]])
        if order is None and any(len(cells) != 2 for cells, _, _ in rows):
            return None
        problems = (
            Problem(f"{text.path}, line {line}", plural(len(cells), "cell"), "two, row and label")
            for cells, line, _ in rows
            if len(cells) != 2
        )
        raise_all(lines.shortened(text.path, problems))
        (row, label), rows = order or (0, 1), rows[order is not None :]
        return _Entries(
            [line for _, line, _ in rows],
            [lines.of_cell(cells[label]) for cells, _, _ in rows],
            [lines.of_cell(cells[row]) for cells, _, _ in rows],
        )


def _order(words: Sequence[str]) -> tuple[int, int] | None:
    """Return the places of the columns of rows and of labels; None if there is not one of each."""
    kinds = [(word in ROW_COLUMNS, word in LABEL_COLUMNS) for word in words]
    if sorted(kinds) != [(False, True), (True, False)]:
        return None
    return kinds.index((True, False)), kinds.index((False, True))
