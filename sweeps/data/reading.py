"""A user's own tables: `load_table` makes a data set of one.

`read_table` is the one door to tables of every format: by the end of a file's name, within a bound of memory.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sweep_clustering.kernels.settings import PARAMETERS
from sweep_clustering.sweeps.data import formats
from sweep_clustering.sweeps.data.builtin import DataSet
from sweep_clustering.sweeps.data.lines import shortened
from sweep_clustering.sweeps.data.table import LabelledTable, TableChoice
from sweep_clustering.sweeps.data.text import read_text_table
from sweep_clustering.sweeps.errors import InputError, Problem, not_one_of, plural
from sweep_clustering.sweeps.files import bounded

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
        usual, word, words = PARAMETERS[name].default, getattr(choice, name), PARAMETERS[name].choices
        if word not in words:
            problems.append(not_one_of(f"{path}, {key(name)}", word, words))
            choice = replace(choice, **dict[str, Any]({name: usual}))
    if suffix in UNREAD:
        raise InputError([*problems, Problem(str(path), f"{suffix} file", UNREAD[suffix])])
    if reader is not read_text_table:
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
    where, count = f"{path}, n_clusters", len(table.class_names) if n_clusters is None else n_clusters
    is_known = n_clusters is not None or table.labels_true is not None
    if not is_known and choice.label_column is None:
        problems.append(Problem(where, "neither classes nor n_clusters", "label_column or n_clusters"))
    distinct = len(np.unique(table.X, axis=0))
    if is_known and not 1 <= count <= distinct:
        fault = f"{count} for {plural(distinct, 'distinct row')}"
        problems.append(Problem(where, fault, "at least 1, and no more than distinct rows"))
    data = DataSet(table, count, f"file {path}", path)
    if problems:
        raise InputError(problems, data)
    return data
