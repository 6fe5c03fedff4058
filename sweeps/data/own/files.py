"""A user's table as parquet, feather, or a sheet of a workbook."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, NamedTuple

from sweeps.data.lines import MOST_LINES, to_number
from sweeps.data.own.arrays import MOST_BYTES
from sweeps.data.own.choice import TableChoice
from sweeps.data.own.columns import check_size
from sweeps.data.own.frames import Frame, text_of
from sweeps.data.own.select import select
from sweeps.data.tables import LabelledTable
from sweeps.errors import InputError, Problem, did_you_mean
from sweeps.files import opened

EXTRA = "pip install 'sweep-clustering[tables]'"
MOST_SHEET = 2**22
"""Cells of a sheet, empty ones and all."""

MOST_PARTS = 2**18
"""Columns of row groups, or of batches: each takes some 40 microseconds."""

MOST_UNPACKED, MOST_BESIDE, MOST_MEMBERS = 2**26, 2**21, 1000
"""Of a workbook: bytes of rows and texts once unpacked, of all else, and files in it. A cell takes some 25
bytes and 5 microseconds."""


def read_parquet_table(path: Path, choice: TableChoice) -> LabelledTable:
    """Read a table of parquet; an index that pandas stored with it names the samples.

    Raises
    ------
    InputError
        With every problem of the file, and if pyarrow is not there.
    """
    return _stored(path, choice, "a parquet file", _parquet)


def read_feather_table(path: Path, choice: TableChoice) -> LabelledTable:
    """Read a table of feather (Arrow's own file format); parameters and errors as of `read_parquet_table`."""
    return _stored(path, choice, "a feather file", _feather)


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


def load_arrow() -> None:
    """Load pandas, and what it and Arrow's formats allocate with, before memory is bounded.

    Its own allocator takes addresses for a gibibyte at its first use, which count for a limit as if they were
    used. So that is done here, and what is read is taken from the system.
    """
    with suppress(ImportError, MemoryError):
        import pandas  # noqa: F401
        import pyarrow as pa

        pa.allocate_buffer(2**25)
        pa.set_memory_pool(pa.system_memory_pool())


class _Stored(NamedTuple):
    """A table of Arrow: its columns, its rows, and batches of the columns at some ascending positions."""

    schema: Any
    n_rows: int
    batches: Callable[[Sequence[int]], Iterator[Any]]


def _parquet(path: Path, file: IO[bytes]) -> _Stored:
    import pyarrow.parquet as parquet

    table = parquet.ParquetFile(file, pre_buffer=False)
    found, schema = table.metadata, table.schema_arrow
    _check_parts(path, found.num_row_groups, found.num_columns)
    unpacked = sum(found.row_group(i).total_byte_size for i in range(found.num_row_groups))
    if unpacked > MOST_BYTES:
        raise InputError([Problem(str(path), f"{unpacked:,} bytes unpacked", f"at most {MOST_BYTES:,}")])
    twice = len(set(schema.names)) < len(schema.names)

    def batches(columns: Sequence[int]) -> Iterator[Any]:
        names = None if twice else [schema.field(column).name for column in columns]
        n_rows = _rows_at_once(schema, range(len(schema)) if twice else columns)
        for batch in table.iter_batches(n_rows, columns=names, use_threads=False):
            yield batch.select(list(columns)) if twice else batch

    return _Stored(schema, found.num_rows, batches)


def _feather(path: Path, file: IO[bytes]) -> _Stored:
    import pyarrow as pa
    from pyarrow import ipc

    table = ipc.open_file(file)
    schema = table.schema
    if not len(schema):
        raise InputError([Problem(str(path), "no columns", "at least one feature")])
    _check_parts(path, table.num_record_batches, len(schema))

    def batches(columns: Sequence[int]) -> Iterator[Any]:
        options = ipc.IpcReadOptions(included_fields=list(columns), use_threads=False)
        reader, n_rows = ipc.open_file(file, options=options), _rows_at_once(schema, columns)
        for number in range(reader.num_record_batches):
            batch = reader.get_batch(number)
            for start in range(0, batch.num_rows, n_rows):
                yield batch.slice(start, n_rows)

    # nothing but its columns says how many rows there are
    short = next((i for i, field in enumerate(schema) if pa.types.is_primitive(field.type)), 0)
    return _Stored(schema, sum(batch.num_rows for batch in batches([short])), batches)


def _check_parts(path: Path, n_parts: int, n_columns: int) -> None:
    check_size(path, 1, n_columns, MOST_LINES)
    if n_parts * n_columns > MOST_PARTS:
        found = f"{n_parts:,} parts of {n_columns:,} columns"
        hint = "write it again with more rows in each row group or batch"
        raise InputError([Problem(str(path), found, f"at most {MOST_PARTS:,} columns of parts", hint)])


def _rows_at_once(schema: Any, columns: Sequence[int]) -> int:
    """So many that their cells take little, and the work beside them is little as well."""
    import pyarrow as pa

    has_texts = not all(pa.types.is_primitive(schema.field(column).type) for column in columns)
    return max(256, (2**14 if has_texts else 2**20) // len(columns))


def _stored(
    path: Path, choice: TableChoice, kind: str, read: Callable[[Path, IO[bytes]], _Stored]
) -> LabelledTable:
    try:
        import pyarrow as pa
    except ImportError:
        raise _not_there(path, "pyarrow") from None
    with opened(path, MOST_BYTES) as file:
        try:
            return select(_frame(path, choice, read(path, file)), choice, [])
        except (pa.ArrowException, OSError, ValueError, TypeError, KeyError) as error:
            if isinstance(error, InputError | MemoryError):
                raise
            raise _broken(path, error, kind) from error


def _frame(path: Path, choice: TableChoice, stored: _Stored) -> Frame:
    schema = stored.schema
    check_size(path, stored.n_rows, 1, MOST_LINES)
    if not stored.n_rows:
        raise InputError([Problem(str(path), "no rows", "at least one sample")])
    # the table without its rows has the names and the index that pandas stored with it
    empty = schema.empty_table().to_pandas()
    told = (schema.pandas_metadata or {}).get("index_columns", [])
    index = [schema.get_field_index(each) for each in told if isinstance(each, str)]
    columns = [number for number in range(len(schema)) if number not in index]
    if -1 in index or len(columns) != empty.shape[1]:
        raise ValueError("columns that its metadata do not have")
    named = index
    if len(index) > 1 or (index and empty.index.name in choice.named):
        # several of them name no row alone, and one that is asked for by its name is a column
        empty, columns, named = empty.reset_index(), index + columns, []
    header = [str(name) for name in empty.columns]

    def parts(chosen: Sequence[int]) -> Iterator[list[Any]]:
        return _series(path, stored, [columns[column] for column in chosen])

    texts = [text_of(cell) for (part,) in _series(path, stored, named) for cell in part] if named else []
    return Frame(path, parts, stored.n_rows, len(columns), header, _row_place(path, header), tuple(texts))


def _series(path: Path, stored: _Stored, fields: Sequence[int]) -> Iterator[list[Any]]:
    """Some columns, in this order, as pandas has them; without a value a whole number stays one."""
    import pandas as pd
    import pyarrow as pa

    kinds = ("Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64")
    nullable = {getattr(pa, kind.lower())(): getattr(pd, f"{kind}Dtype")() for kind in kinds}
    nullable[pa.bool_()] = pd.BooleanDtype()
    order = sorted(fields)
    for number in order:
        kind = stored.schema.field(number).type
        if pa.types.is_nested(kind):
            where, found = f"{path}, column {stored.schema.field(number).name}", f"values of type {kind}"[:80]
            raise InputError([Problem(where, found, "numbers or texts", "drop it")])
    n_rows = 0
    for batch in stored.batches(order):
        # where texts end is read from the file, and would be followed beyond it
        batch.validate(full=True)
        n_rows += batch.num_rows
        if n_rows <= stored.n_rows:
            arrays = [batch.column(order.index(number)) for number in fields]
            yield [
                array.to_pandas(types_mapper=nullable.get if array.null_count else None) for array in arrays
            ]
    if n_rows != stored.n_rows:
        raise ValueError(f"{n_rows:,} rows of {stored.n_rows:,}")


def _row_place(path: Path, header: list[str]) -> Callable[[int, int], str]:
    return lambda row, column: f"{path}, row {row + 1}, column {column + 1} ({header[column]})"


def _sheet(path: Path, choice: TableChoice) -> Frame:
    try:
        import openpyxl
    except ImportError:
        raise _not_there(path, "openpyxl") from None
    import pandas as pd

    with opened(path, MOST_BYTES) as file:
        try:
            with zipfile.ZipFile(file) as archive:
                _check_members(path, archive.infolist())
            book = openpyxl.load_workbook(file, read_only=True, data_only=True, keep_links=False)
            sheet = book[_sheet_name(path, book.sheetnames, choice)]
            sheet.reset_dimensions()  # what it says of its size; each row then has the cells that it has
            rows, numbers = _rows(path, sheet)
            book.close()
        except (InputError, MemoryError):
            raise
        except Exception as error:  # a workbook is XML, of which anything may come
            raise _broken(path, error, "an .xlsx workbook") from error
    first = [text_of(cell) for cell in rows[0]] if rows else []
    begin = int(bool(rows) and _is_header(first, choice))
    if len(rows) == begin:
        raise InputError([Problem(f"{path}, sheet {sheet.title!r}", "no rows", "at least one sample")])

    def place(row: int, column: int) -> str:
        from openpyxl.utils import get_column_letter

        named = f" ({first[column]})" if begin else ""
        cell = f"{get_column_letter(column + 1)}{numbers[begin + row]}"
        return f"{path}, sheet {sheet.title!r}, cell {cell}{named}"

    def parts(columns: Sequence[int]) -> Iterator[list[Any]]:
        yield [pd.Series([row[column] for row in rows[begin:]], dtype=object) for column in columns]

    return Frame(path, parts, len(rows) - begin, len(rows[begin]), first if begin else [], place)


def _check_members(path: Path, members: Sequence[zipfile.ZipInfo]) -> None:
    """Refuse what takes long to read: a sheet is read row by row, all else when a workbook is opened."""
    sizes = {True: 0, False: 0}
    for member in members:
        is_rows = member.filename.startswith(("xl/worksheets/", "xl/sharedStrings"))
        sizes[is_rows] += member.file_size
    for is_rows, most in ((True, MOST_UNPACKED), (False, MOST_BESIDE)):
        if sizes[is_rows] > most:
            what = "of rows and texts" if is_rows else "of styles and the like"
            found, hint = f"{sizes[is_rows]:,} bytes {what}, unpacked", "save the table as CSV or parquet"
            raise InputError([Problem(str(path), found, f"at most {most:,}", hint)])
    if len(members) > MOST_MEMBERS:
        raise InputError([Problem(str(path), f"{len(members):,} parts", f"at most {MOST_MEMBERS:,}")])


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
        if cells:
            rows.append(cells)
            numbers.append(number)
            width = max(width, len(cells))
        # those between cells that are far apart, and those that make each row as wide as the widest, count
        if max(n_cells, number, width * len(rows)) > MOST_SHEET:
            expected = f"at most {MOST_SHEET:,}, with empty ones"
            raise InputError([Problem(str(path), f"more than {MOST_SHEET:,} cells", expected)])
    return [[*cells, *[None] * (width - len(cells))] for cells in rows], numbers


def _sheet_name(path: Path, names: list[str], choice: TableChoice) -> str:
    told = choice.sheet
    where, expected = f"{path}, {choice.key('sheet')}", f"one of {', '.join(names)}"
    if told is None or told in names:
        return names[0] if told is None else str(told)
    if str(told).isdecimal() and int(told) < len(names):
        return names[int(told)]
    raise InputError([Problem(where, repr(told), expected, did_you_mean(str(told), names))])


def _not_there(path: Path, package: str) -> InputError:
    return InputError([Problem(str(path), f"no {package}, which reads {path.suffix} files", package, EXTRA)])


def _broken(path: Path, error: Exception, kind: str) -> InputError:
    found = " ".join(str(error).split())[:200]
    return InputError([Problem(str(path), f"a broken file ({found})", kind)])
