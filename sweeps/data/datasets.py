"""The real data sets of a sweep: the built-in ones by name, a user's own by path."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sweeps.data.builtin import find
from sweeps.data.own.choice import TableChoice
from sweeps.data.own.reading import read_table
from sweeps.data.tables import LabelledTable
from sweeps.errors import InputError, Problem


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
    """Load a user's own table, see `sweeps.data.own.reading.read_table` for the formats.

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
