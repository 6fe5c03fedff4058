"""A user's table as parquet, feather, or a sheet of a workbook."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sweeps.data.lines import MOST_LINES, to_number, unreadable
from sweeps.data.own.arrays import MOST_BYTES
from sweeps.data.own.choice import TableChoice
from sweeps.data.own.frames import Frame, text_of
from sweeps.data.own.select import select
from sweeps.data.tables import LabelledTable
from sweeps.errors import InputError, Problem, did_you_mean

EXTRA = "pip install 'sweep-clustering[tables]'"
MOST_CELLS = MOST_BYTES // 8
"""Of a table, each a number of 8 bytes."""

MOST_UNPACKED = 2**29
"""Bytes of a workbook once unpacked."""


def read_parquet_table(path: Path, choice: TableChoice) -> LabelledTable:
    """Read a table of parquet; an index that pandas stored with it names the samples.

    Raises
    ------
    InputError
        With every problem of the file, and if pyarrow is not there.
    """
    return select(_stored(path, choice, "a parquet file", _parquet), choice, [])


def read_feather_table(path: Path, choice: TableChoice) -> LabelledTable:
    """Read a table of feather (Arrow's own file format); parameters and errors as of `read_parquet_table`."""
    return select(_stored(path, choice, "a feather file", _feather), choice, [])


def read_workbook(path: Path, choice: TableChoice) -> LabelledTable:
    """Read a sheet of a workbook (.xlsx); of a formula the value that was stored with it.

    Empty rows are skipped, and so are columns that are empty at the end. The first row is a header if none
    of its cells is a number.

    Raises
    ------
    InputError
        With every problem of the file, and if openpyxl is not there.
    """
    return select(_sheet(path, choice), choice, [])


def _parquet(path: Path) -> Any:
    import pyarrow.parquet as parquet

    with parquet.ParquetFile(path) as file:
        found = file.metadata
        _check_size(path, found.num_rows, found.num_columns)
        unpacked = sum(found.row_group(i).total_byte_size for i in range(found.num_row_groups))
        if unpacked > MOST_BYTES:
            raise InputError([Problem(str(path), f"{unpacked:,} bytes unpacked", f"at most {MOST_BYTES:,}")])
        table = file.read(use_threads=False)
        table.validate(full=True)
        return table


def _feather(path: Path) -> Any:
    import pyarrow as pa
    from pyarrow import ipc

    with pa.OSFile(str(path)) as source:
        file = ipc.open_file(source)
        n_rows = 0
        batches = []
        for number in range(file.num_record_batches):
            batch = file.get_batch(number)
            n_rows += batch.num_rows
            _check_size(path, n_rows, len(file.schema))
            # where texts end is read from the file, and would be followed beyond it
            batch.validate(full=True)
            batches.append(batch)
        return pa.Table.from_batches(batches, schema=file.schema)


def _check_size(path: Path, n_rows: int, n_columns: int) -> None:
    if n_rows > MOST_LINES or n_rows * n_columns > MOST_CELLS:
        found = f"{n_rows:,} rows of {n_columns:,} cells"
        expected = f"at most {MOST_LINES:,} rows, and {MOST_CELLS:,} cells"
        raise InputError([Problem(str(path), found, expected)])


def _stored(path: Path, choice: TableChoice, kind: str, read: Callable[[Path], Any]) -> Frame:
    try:
        import pyarrow as pa
    except ImportError:
        raise _not_there(path, "pyarrow") from None
    _check_readable(path)
    import pandas as pd

    try:
        frame = read(path).to_pandas(use_threads=False)
    except (pa.ArrowException, OSError, ValueError, TypeError, KeyError) as error:
        if isinstance(error, InputError):
            raise
        found = " ".join(str(error).split())[:200]
        raise InputError([Problem(str(path), f"a broken file ({found})", kind)]) from error
    if not len(frame):
        raise InputError([Problem(str(path), "no rows", "at least one sample")])
    header = [str(name) for name in frame.columns]
    index: tuple[str, ...] = ()
    if isinstance(frame.index, pd.MultiIndex) or frame.index.name in choice.named:
        # several of them name no row alone, and one that is asked for by its name is a column
        frame = frame.reset_index()
        header = [str(name) for name in frame.columns]
    elif not isinstance(frame.index, pd.RangeIndex):
        index = tuple(map(text_of, frame.index.tolist()))
    return Frame(path, frame, header, _row_place(path, header), index)


def _row_place(path: Path, header: list[str]) -> Callable[[int, int], str]:
    return lambda row, column: f"{path}, row {row + 1}, column {column + 1} ({header[column]})"


def _sheet(path: Path, choice: TableChoice) -> Frame:
    try:
        import openpyxl
    except ImportError:
        raise _not_there(path, "openpyxl") from None
    import pandas as pd

    _check_readable(path)
    try:
        with zipfile.ZipFile(path) as archive:
            unpacked = sum(member.file_size for member in archive.infolist())
        if unpacked > MOST_UNPACKED:
            found = f"{unpacked:,} bytes unpacked"
            raise InputError([Problem(str(path), found, f"at most {MOST_UNPACKED:,}")])
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
        sheet = book[_sheet_name(path, book.sheetnames, choice)]
        rows, numbers = _rows(path, sheet)
        book.close()
    except InputError:
        raise
    except Exception as error:  # a workbook is XML, of which anything may come
        found = " ".join(str(error).split())[:200]
        raise InputError([Problem(str(path), f"a broken file ({found})", "an .xlsx workbook")]) from error
    first = [text_of(cell) for cell in rows[0]] if rows else []
    begin = int(bool(rows) and _is_header(first, choice))
    if len(rows) == begin:
        raise InputError([Problem(f"{path}, sheet {sheet.title!r}", "no rows", "at least one sample")])

    def place(row: int, column: int) -> str:
        from openpyxl.utils import get_column_letter

        named = f" ({first[column]})" if begin else ""
        cell = f"{get_column_letter(column + 1)}{numbers[begin + row]}"
        return f"{path}, sheet {sheet.title!r}, cell {cell}{named}"

    frame = pd.DataFrame(rows[begin:], dtype=object)
    return Frame(path, frame, first if begin else [], place)


def _is_header(cells: list[str], choice: TableChoice) -> bool:
    return any(name in cells for name in choice.named) or all(to_number(cell) is None for cell in cells)


def _rows(path: Path, sheet: Any) -> tuple[list[list[Any]], list[int]]:
    """Rows that are not empty, all as wide as the widest, and their numbers in the sheet."""
    rows: list[list[Any]] = []
    numbers: list[int] = []
    width = n_cells = 0
    for number, row in enumerate(sheet.iter_rows(values_only=True), start=1):
        cells = list(row)
        while cells and (cells[-1] is None or not str(cells[-1]).strip()):
            cells.pop()
        n_cells += len(row)
        if n_cells > MOST_CELLS or len(rows) > MOST_LINES:
            raise InputError([Problem(str(path), f"more than {n_cells:,} cells", f"at most {MOST_CELLS:,}")])
        if cells:
            rows.append(cells)
            numbers.append(number)
            width = max(width, len(cells))
    return [[*cells, *[None] * (width - len(cells))] for cells in rows], numbers


def _sheet_name(path: Path, names: list[str], choice: TableChoice) -> str:
    told = choice.sheet
    where, expected = f"{path}, {choice.key('sheet')}", f"one of {', '.join(names)}"
    if told is None or told in names:
        return names[0] if told is None else str(told)
    if str(told).isdecimal() and int(told) < len(names):
        return names[int(told)]
    raise InputError([Problem(where, repr(told), expected, did_you_mean(str(told), names))])


def _check_readable(path: Path) -> None:
    """Say of a path that cannot be read what every other reader says; a pipe is none of these files."""
    try:
        with path.open("rb"):
            size = path.stat().st_size
    except OSError as error:
        raise InputError([unreadable(path, error)]) from error
    if size > MOST_BYTES:
        raise InputError([Problem(str(path), f"{size:,} bytes", f"at most {MOST_BYTES:,}")])


def _not_there(path: Path, package: str) -> InputError:
    return InputError([Problem(str(path), f"no {package}, which reads {path.suffix} files", package, EXTRA)])
