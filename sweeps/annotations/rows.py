"""Rows of annotation files: one by one, and as columns, of which a file may have millions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweep_clustering.sweeps.annotations.draw import CANNOT, MUST

# The adjacency of a self pair counts both ends (docs/model.md, eq. (3)), and so do link files.
SELF_PAIR_WEIGHT = 2.0
# Annotator of all link files: they name none.
LINKS = "links"


@dataclass(frozen=True, slots=True)
class Annotation:
    """A line of a link file or of an annotation file.

    Parameters
    ----------
    file : Path
        Where it was read.
    line : int
        Number of the line, from 1.
    first, second : int
        The two samples, from 0.
    kind : int
        `sweeps.annotations.draw.MUST` or `CANNOT`.
    count : float
        Number of annotations it represents.
    annotator : str
        Who made it.
    accuracy : float or None
        Probability that this one is right, if the line says so.
    """

    file: Path
    line: int
    first: int
    second: int
    kind: int
    count: float
    annotator: str = LINKS
    accuracy: float | None = None

    @property
    def weight(self) -> float:
        """Weight as the file has it: a self pair carries 2 per annotation."""
        return self.count * (SELF_PAIR_WEIGHT if self.first == self.second else 1.0)


@dataclass(frozen=True, slots=True)
class Skip:
    """A pair that somebody was shown and did not answer.

    Parameters
    ----------
    first, second : int
        The two samples, from 0.
    """

    first: int
    second: int


Row = Annotation | Skip

KIND_NAMES = {MUST: "must", CANNOT: "cannot"}

# Kind of a pair that was skipped.
SKIPPED = -1

# Place of a sample that is a row of the file, but was left out of the table.
OUTSIDE = -2

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
    ]
)


@dataclass(frozen=True, eq=False)
class AnnotationRows:
    """Rows of some files, in the order of files and lines; 35 bytes each.

    Parameters
    ----------
    columns : structured array of shape (n_rows,), with the fields of `COLUMNS`
        A skipped pair has the kind `SKIPPED`, and neither count nor annotator.
    annotators : tuple of str
        Names in the order in which they first appear.
    files : tuple of Path
        Where the rows were read.
    n_outside : int
        Number of rows that were left out, as a row of the table that they name was.
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
        """One row."""
        row = self.columns[place]
        if row["kind"] == SKIPPED:
            return Skip(int(row["first"]), int(row["second"]))
        return self.annotation(place)

    def annotation(self, place: int) -> Annotation:
        """One row, which is no skipped pair."""
        first, second, kind, count, annotator, accuracy, file, line = self.columns[place].item()
        told = None if np.isnan(accuracy) else accuracy
        return Annotation(
            self.files[file], line, first, second, kind, count, self.annotators[annotator], told
        )

    @property
    def answered(self) -> AnnotationRows:
        """The same without skipped pairs."""
        return self._where(self.columns["kind"] != SKIPPED)

    @property
    def inside(self) -> AnnotationRows:
        """The same without the rows that name a row of the table that was left out, which are counted."""
        is_inside = (self.columns["first"] != OUTSIDE) & (self.columns["second"] != OUTSIDE)
        return replace(self._where(is_inside), n_outside=self.n_outside + int((~is_inside).sum()))

    def _where(self, is_chosen: NDArray[np.bool_]) -> AnnotationRows:
        return self if is_chosen.all() else replace(self, columns=self.columns[is_chosen])

    @classmethod
    def of(cls, rows: Iterable[Row]) -> AnnotationRows:
        """Columns of rows that are there one by one."""
        every = list(rows)
        columns = np.zeros(len(every), dtype=COLUMNS)
        annotators, files = dict[str, int](), dict[Path, int]()
        for place, row in enumerate(every):
            if isinstance(row, Skip):
                columns[place] = row.first, row.second, SKIPPED, 0.0, 0, np.nan, 0, 0
                continue
            who = annotators.setdefault(row.annotator, len(annotators))
            file = files.setdefault(row.file, len(files))
            told = np.nan if row.accuracy is None else row.accuracy
            columns[place] = row.first, row.second, row.kind, row.count, who, told, file, row.line
        return cls(columns, tuple(annotators), tuple(files))

    @classmethod
    def joined(cls, parts: Sequence[AnnotationRows]) -> AnnotationRows:
        """Rows of several files, one after the other."""
        if len(parts) == 1:
            return parts[0]
        annotators = tuple(dict.fromkeys(name for part in parts for name in part.annotators))
        files = tuple(dict.fromkeys(path for part in parts for path in part.files))
        columns = np.zeros(sum(map(len, parts)), dtype=COLUMNS)
        begin = 0
        for part in parts:
            here = columns[begin : begin + len(part)]
            here[:] = part.columns
            if part.annotators:
                places = np.array([annotators.index(name) for name in part.annotators], dtype=np.int32)
                here["annotator"] = places[part.columns["annotator"]]
            if part.files:
                places = np.array([files.index(path) for path in part.files], dtype=np.int32)
                here["file"] = places[part.columns["file"]]
            begin += len(part)
        return cls(columns, annotators, files, sum(part.n_outside for part in parts))
