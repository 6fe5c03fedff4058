"""Reading a user's own table, whatever its format."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sweeps.data.lines import shortened
from sweeps.data.npz import read_npz_table
from sweeps.data.tables import LabelledTable
from sweeps.data.text import read_text_table
from sweeps.errors import InputError, Problem


def read_table(
    path: Path, *, label_column: str | int | None = None, aside: Sequence[str] = ()
) -> LabelledTable:
    """Read a table of samples: `.npz` by `read_npz_table`, anything else by `read_text_table`.

    Parameters
    ----------
    path : Path
        The file.
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
    reader = read_npz_table if path.suffix.lower() == ".npz" else read_text_table
    try:
        table = reader(path, label_column, aside)
    except InputError as error:
        raise InputError(shortened(path, error.problems)) from None
    problem = _spread_problem(path, table)
    if problem:
        raise InputError([problem])
    return table


def _spread_problem(path: Path, table: LabelledTable) -> Problem | None:
    """The model divides by the total variance (docs/model.md, eq. (1))."""
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        total_variance = float(table.X.var(axis=0).mean())
    if not np.isfinite(total_variance):
        return Problem(str(path), "values whose squares overflow", "smaller values", "use another unit")
    if total_variance == 0:
        return Problem(str(path), f"{len(table.X)} rows without any variance", "samples that differ")
    return None
