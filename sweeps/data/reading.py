"""A user's own tables: `load_table` makes a data set of one.

`read_table` is the one door to tables of every format: by the end of a file's name, within a bound of memory.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from kernels.settings import PARAMETERS, spread_problem
from sweeps.data import formats
from sweeps.data.builtin import DataSet
from sweeps.data.lines import shortened
from sweeps.data.table import LabelledTable, TableChoice
from sweeps.data.text import read_text_table
from sweeps.errors import InputError, Problem, not_one_of, refused
from sweeps.files import bounded

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

    Parameters
    ----------
    path : Path
        The file.
    choice : TableChoice
        What its columns are.

    Returns
    -------
    LabelledTable
        Finite features that vary; classes in the order of `encode_classes`.

    Raises
    ------
    InputError
        With the problems of the file; the first 20 and a count if there are more.
    """
    suffix = path.suffix.lower()
    reader = READERS.get(suffix, read_text_table)
    problems = [
        not_one_of(f"{path}, {choice.key(name)}", getattr(choice, name), PARAMETERS[name].choices)
        for name in ("missing", "categories")
        if getattr(choice, name) not in PARAMETERS[name].choices
    ]
    if choice.columns and choice.drop:
        key, found = f"{path}, {choice.key('drop')}", f"{choice.key('columns')} as well"
        hint = f"what {choice.key('columns')} does not name is no feature already"
        problems.append(Problem(key, found, "one of them", hint))
    if choice.sheet is not None and reader is not formats.read_workbook:
        found, expected = repr(choice.sheet), "nothing: it is no .xlsx workbook"
        problems.append(Problem(f"{path}, {choice.key('sheet')}", found, expected))
    if suffix in UNREAD:
        problems.append(Problem(str(path), f"{suffix} file", UNREAD[suffix]))
    if problems:
        raise InputError(problems)
    if reader is not read_text_table:
        formats.load_arrow()
    try:
        with bounded(path):
            table = reader(path, choice)
            # The model divides by the total variance (docs/model.md, eq. (1)).
            problem = spread_problem(table.X)
    except InputError as error:
        raise InputError(shortened(path, error.problems)) from None
    if problem:
        raise refused(path, *problem)
    return table


def load_table(path: Path, choice: TableChoice, *, n_clusters: int | None = None) -> DataSet:
    """Load a user's own table, see `read_table` for the formats.

    Parameters
    ----------
    path : Path
        Text table, array, parquet, feather or workbook.
    choice : TableChoice
        What its columns are.
    n_clusters : int, optional
        Number of clusters; the number of classes unless given.

    Raises
    ------
    InputError
        With every problem of the file.
    """
    table = read_table(path, choice)
    where = f"{path}, n_clusters"
    if n_clusters is None and table.labels_true is None:
        raise refused(where, "neither classes nor n_clusters", "label_column or n_clusters")
    wanted = len(table.class_names) if n_clusters is None else n_clusters
    distinct = len(np.unique(table.X, axis=0))
    if not 1 <= wanted <= distinct:
        found = f"{wanted} for {distinct} distinct rows"
        raise refused(where, found, "at least 1, and no more than distinct rows")
    return DataSet(table, wanted, f"file {path}", path)
