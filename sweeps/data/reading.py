"""The real data sets of a sweep: `load_builtin` by name, `load_table` for a user's own by path.

`read_table` is the one door to tables of every format: by the end of a file's name, within a bound of memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kernels.settings import spread_problem
from sweeps.data.builtin import find
from sweeps.data.formats import (
    load_arrow,
    read_feather_table,
    read_npy_table,
    read_npz_table,
    read_parquet_table,
    read_workbook,
)
from sweeps.data.lines import shortened
from sweeps.data.table import LabelledTable, TableChoice
from sweeps.data.text import read_text_table
from sweeps.errors import InputError, Problem
from sweeps.files import bounded

# Reading a user's own table, whatever its format.

Reader = Callable[[Path, TableChoice], LabelledTable]

READERS: dict[str, Reader] = {
    ".npz": read_npz_table,
    ".npy": read_npy_table,
    ".parquet": read_parquet_table,
    ".pq": read_parquet_table,
    ".feather": read_feather_table,
    ".arrow": read_feather_table,
    ".xlsx": read_workbook,
    ".xlsm": read_workbook,
}
"""By the end of a file's name; anything else is text."""

UNREAD = {
    ".xls": "an .xlsx workbook, or CSV",
    ".ods": "an .xlsx workbook, or CSV",
    ".pkl": "a table without objects, such as parquet or CSV: who reads a pickle runs what is in it",
    ".pickle": "a table without objects, such as parquet or CSV: who reads a pickle runs what is in it",
}
"""Formats that are not read, and what is expected in their place."""


def read_table(
    path: Path,
    choice: TableChoice | None = None,
    *,
    label_column: str | int | None = None,
    aside: Sequence[str] = (),
) -> LabelledTable:
    """Read a table of samples: by the end of its name, or as text.

    Parameters
    ----------
    path : Path
        The file.
    choice : TableChoice, optional
        What its columns are; or, for short, the next two.
    label_column : str, int or None
        Column of the classes by header name or 0-based position (negative from the end), or name of their
        array; None if a text table has no classes, or an .npz file has them under a usual name.
    aside : sequence of str
        Columns of a text table by header name, or arrays of an .npz file, that hold texts and no features.

    Returns
    -------
    LabelledTable
        Finite features that vary; classes in the order of `encode_classes`.

    Raises
    ------
    InputError
        With the problems of the file; the first 20 and a count if there are more.
    """
    choice = choice or TableChoice(label_column=label_column, aside=tuple(aside))
    suffix = path.suffix.lower()
    problems = list(choice.problems(str(path)))
    if choice.sheet is not None and READERS.get(suffix) is not read_workbook:
        found, expected = repr(choice.sheet), "nothing: it is no .xlsx workbook"
        problems.append(Problem(f"{path}, {choice.key('sheet')}", found, expected))
    if suffix in UNREAD:
        problems.append(Problem(str(path), f"{suffix} file", UNREAD[suffix]))
    if problems:
        raise InputError(problems)
    reader = READERS.get(suffix, read_text_table)
    if reader is not read_text_table:
        load_arrow()
    try:
        with bounded(path):
            table = reader(path, choice)
            # The model divides by the total variance (docs/model.md, eq. (1)).
            problem = spread_problem(table.X)
    except InputError as error:
        raise InputError(shortened(path, error.problems)) from None
    if problem:
        raise InputError([Problem(str(path), *problem)])
    return table


@dataclass(frozen=True, eq=False)
class DataSet:
    """A table with its classes, unscaled.

    Parameters
    ----------
    name : str
        Name in the sweep file.
    table : LabelledTable
        Features, classes and names.
    n_clusters : int
        Number of clusters to look for.
    checksum : str
        sha256 of X and labels_true, see `LabelledTable.checksum`; the same from every source.
    source : str
        Where the table came from, for people.
    """

    name: str
    table: LabelledTable
    n_clusters: int
    checksum: str
    source: str

    @property
    def X(self) -> NDArray[np.float64]:
        """Features, of shape (n_samples, n_features)."""
        return self.table.X

    @property
    def labels_true(self) -> NDArray[np.int16] | None:
        """Positions in `class_names`, of shape (n_samples,); None without classes."""
        return self.table.labels_true

    @property
    def class_names(self) -> tuple[str, ...]:
        """Sorted classes: as numbers if all are numbers, else as text. Empty without labels."""
        return self.table.class_names


def load_builtin(name: str, *, data_dir: Path | None = None, download: bool = True) -> DataSet:
    """Load a built-in data set from the first source that has it, see `sweeps.data.builtin.find`.

    Parameters
    ----------
    name : str
        One of `BUILTIN`.
    data_dir : Path, optional
        Folder with raw files, or the zips they are published in.
    download : bool
        Whether the network may be used.

    Raises
    ------
    Unavailable
        If no source has it, or the data directory holds another file under its name.
    InputError
        If the name is unknown or the data directory does not exist.
    """
    found = find(name, data_dir=data_dir, download=download)
    return _data_set(name, found.table, len(found.table.class_names), found.source)


def load_table(
    name: str,
    path: Path,
    choice: TableChoice | None = None,
    *,
    label_column: str | int | None = None,
    n_clusters: int | None = None,
) -> DataSet:
    """Load a user's own table, see `read_table` for the formats.

    Parameters
    ----------
    name : str
        Name in the sweep file.
    path : Path
        Text table, array, parquet, feather or workbook.
    choice : TableChoice, optional
        What its columns are; or, for short, `label_column`.
    label_column : str, int or None
        Column of the classes by header name or 0-based position (negative from the end).
    n_clusters : int, optional
        Number of clusters; the number of classes unless given.

    Raises
    ------
    InputError
        With every problem of the file.
    """
    table = read_table(path, choice, label_column=label_column)
    where = f"{path}, n_clusters"
    if n_clusters is None and table.labels_true is None:
        raise InputError([Problem(where, "neither classes nor n_clusters", "label_column or n_clusters")])
    wanted = len(table.class_names) if n_clusters is None else n_clusters
    distinct = len(np.unique(table.X, axis=0))
    if not 1 <= wanted <= distinct:
        found = f"{wanted} for {distinct} distinct rows"
        raise InputError([Problem(where, found, "at least 1, and no more than distinct rows")])
    return _data_set(name, table, wanted, f"file {path}")


def _data_set(name: str, table: LabelledTable, n_clusters: int, source: str) -> DataSet:
    return DataSet(name, table, n_clusters, table.checksum(), source)
