"""The folder that a command writes its tables and figures to."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from sweeps.errors import InputError, Problem


def check_folder(folder: Path) -> None:
    """Refuse a folder for output that cannot be one, before anything is computed.

    Raises
    ------
    InputError
        If it, or a folder it is to stand in, is a file.
    """
    for place in (folder, *folder.parents):
        if place.exists() and not place.is_dir():
            raise InputError([Problem(str(place), "a file", "a folder to write to")])


def write_tables(folder: Path, tables: Mapping[str, pd.DataFrame]) -> list[Path]:
    """Write tables as CSV.

    Parameters
    ----------
    folder : Path
        It is there.
    tables : mapping of str to pandas.DataFrame
        By name of the file, without suffix.
    """
    files = []
    for name, table in tables.items():
        files.append(folder / f"{name}.csv")
        table.to_csv(files[-1], index=False)
    return files
