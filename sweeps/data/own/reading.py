"""Reading a user's own table, whatever its format."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from kernels.spread import spread_problem
from sweeps.data.lines import shortened
from sweeps.data.own.choice import TableChoice
from sweeps.data.own.files import load_arrow, read_feather_table, read_parquet_table, read_workbook
from sweeps.data.own.npz import read_npy_table, read_npz_table
from sweeps.data.own.text import read_text_table
from sweeps.data.tables import LabelledTable
from sweeps.errors import InputError, Problem
from sweeps.files import bounded

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
