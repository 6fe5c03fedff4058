"""A user's table in a file that is no text: arrays (.npz, .npy), parquet, feather, a sheet of a workbook.

Each reader makes a `Frame`, from which `sweeps.data.table.select` takes the samples. The size
that a file names is checked before memory is taken for it; `sweeps.files.bounded` bounds any other size.
"""

from __future__ import annotations

import io
import itertools
import math
import struct
import warnings
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.lib import format as npy
from numpy.typing import DTypeLike, NDArray

from sweep_clustering.sweeps.data.lines import problems_at
from sweep_clustering.sweeps.data.table import (
    Frame,
    LabelledTable,
    TableChoice,
    check_size,
    is_header,
    position,
    positions,
    select,
    text_of,
    texts_of,
)
from sweep_clustering.sweeps.errors import InputError, Problem, collecting, did_you_mean, plural, refused
from sweep_clustering.sweeps.files import opened

# Bytes of a file, and of an array as it is in the file.
MOST_BYTES = 2**30

# Bytes of an array of texts, which is held as a whole.
MOST_TEXT_BYTES = 2**28

# Cells of a sheet, empty ones and all.
MOST_SHEET = 2**22

# Columns of row groups, or of batches: each takes some 40 microseconds.
MOST_PARTS = 2**18

# Bytes of rows and texts of a workbook once unpacked; a cell takes some 25 bytes and 5 microseconds.
MOST_UNPACKED = 2**26

# Bytes of the rest of a workbook once unpacked.
MOST_BESIDE = 2**21

# Numbers that are read at once.
PART = 2**17

# Methods of `numpy.savez` and `numpy.savez_compressed`; others unpack slowly.
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)

FEATURES = "X"
CLASSES = ("y", "labels", "labels_true")

EXTRA = "pip install 'sweep-clustering[tables]'"


def read_npz_table(path: Path, choice: TableChoice) -> LabelledTable:
    """Read the array `X` and the classes of an .npz file; pickled arrays are refused.

    Columns of `X` are chosen by position. `label_column`, `index_column` and `aside` name arrays with a text,
    or a number, for each sample. Without `label_column` it is the one of `CLASSES` that is there, if any.
    """
    problems: list[Problem] = []
    X, label = np.empty((0, 0)), choice.label_column
    texts: dict[str, list[str]] = {}
    with (
        unbroken(path, "an .npz file"),
        opened(path, MOST_BYTES) as file,
        open_archive(path, file) as archive,
    ):
        members = members_of(path, archive)

        def array(name: str, check: Check, dtype: DTypeLike | None = None) -> NDArray[Any]:
            if name not in members:
                fault, hint = f"arrays {', '.join([*members][:20])}", did_you_mean(name, members)
                raise refused(path, fault, f"an array {name!r}", hint)
            return read_member(path, archive, members[name], check, dtype)

        with collecting(problems):
            X = array(FEATURES, _no_features, np.float64)
        if label is None:
            candidates = [name for name in CLASSES if name in members]
            label = candidates[0] if candidates else None
            if len(candidates) > 1:
                names, hint = " and ".join(map(repr, candidates)), f"name it as {choice.key('label_column')}"
                problems.append(Problem(str(path), f"arrays {names}", "one of them", hint))
        columns = [("label_column", label), ("index_column", choice.index_column)]
        for key, name in (*columns, *(("aside", name) for name in choice.aside)):
            with collecting(problems):
                if isinstance(name, int):
                    location, hint = f"{path}, {choice.key(key)}", "it is an .npz file"
                    raise refused(location, str(name), "the name of an array", hint)
                if name is not None and name not in texts:
                    cells = array(name, _no_texts)
                    # names of rows are read as annotations are; words of classes are as numpy writes them
                    is_name = key == "index_column" or cells.dtype.kind == "S"
                    words = texts_of(cells) if is_name else list(map(str, cells.flat))
                    "".join(words).encode()  # halves of a pair of UTF-16 are no text
                    if X.size and len(words) != len(X):
                        expected = f"one for each of {plural(len(X), 'row')}"
                        raise refused(f"{path}, array {name!r}", plural(len(words), "text"), expected)
                    texts[name] = words
    if not X.size:
        raise InputError(problems)
    label, index = (name if name in texts else None for name in (label, choice.index_column))
    aside = tuple(name for name in choice.aside if name in texts)
    choice = replace(choice, label_column=label, index_column=index, aside=aside)
    return _selected(path, X, texts, choice, problems)


def read_npy_table(path: Path, choice: TableChoice) -> LabelledTable:
    """Read one array of numbers, whose columns are chosen by position; a pickle is refused."""
    with unbroken(path, "an .npy file"), opened(path, MOST_BYTES) as file:
        X = read_array(file, str(path), path.stat().st_size, _no_features, np.float64)
    return _selected(path, X, {}, replace(choice, label_column=None), [])


def read_arrow_table(path: Path, choice: TableChoice) -> LabelledTable:
    """Read a table of parquet, or of feather, which is Arrow's own file format.

    An index that pandas stored with it names the samples.
    """
    with open_arrow(path, MOST_BYTES) as file:
        if not len(file.schema):
            raise refused(path, "no columns", "at least one feature")
        return select(_frame(file, choice), choice, [])


def read_workbook(path: Path, choice: TableChoice) -> LabelledTable:
    """Read a sheet of a workbook (.xlsx); of a formula the value that was stored with it.

    Empty rows are skipped, and so are columns that are empty at the end. The first row is a header if none
    of its cells is a number.
    """
    need(path, "openpyxl")
    from openpyxl import load_workbook
    from openpyxl.utils import get_column_letter

    rows, numbers, width, n_cells = list[list[str]](), list[int](), 0, 0
    with unbroken(path, "an .xlsx workbook"), opened(path, MOST_BYTES) as file:
        with open_archive(path, file) as archive:
            _check_members(path, archive.infolist())
        book = load_workbook(file, read_only=True, data_only=True, keep_links=False)
        names, name = book.sheetnames, 0 if choice.sheet is None else choice.sheet
        sheet = book[names[position(name, names, len(names), f"{path}, {choice.key('sheet')}")]]
        sheet.reset_dimensions()  # its own size may be wrong; each row then has the cells that it has
        for number, values in enumerate(sheet.iter_rows(values_only=True), start=1):
            row = list(map(text_of, values))
            while row and not row[-1]:
                row.pop()
            n_cells += len(values)
            if row:
                rows.append(row)
                numbers.append(number)
                width = max(width, len(row))
            # cells between far ones count, and those that make each row as wide as the widest
            if max(n_cells, number, width * len(rows)) > MOST_SHEET:
                expected = f"at most {MOST_SHEET:,}, with empty ones"
                raise refused(path, f"more than {MOST_SHEET:,} cells", expected)
        book.close()
    rows = [[*row, *[""] * (width - len(row))] for row in rows]
    header = rows.pop(0) if rows and is_header(rows[0], choice) else []
    if not rows:
        raise refused(f"{path}, sheet {sheet.title!r}", "no rows", "at least one sample")

    def location(row: int, column: int) -> str:
        name = f" ({header[column]})" if header else ""
        cell = f"{get_column_letter(column + 1)}{numbers[bool(header) + row]}"
        return f"{path}, sheet {sheet.title!r}, cell {cell}{name}"

    def columns(indices: Sequence[int]) -> list[list[str]]:
        return [[row[column] for row in rows] for column in indices]

    return select(Frame(path, len(rows), width, header, location, columns), choice, [])


# Archives: how many members there are, before a record of each is made.

# Members of an archive.
MOST_MEMBERS = 2**14

# Bytes of the record that is made of each member.
LONGEST_RECORD = 2**9

# Begin of the last record of an archive.
END = b"PK\x05\x06"

# Bytes of that record, and of the comment that may follow it.
END_BYTES = 22
LONGEST_COMMENT = 2**16


def open_archive(path: Path, file: IO[bytes]) -> zipfile.ZipFile:
    """Open an archive; one of more than `MOST_MEMBERS`, by number or by its directory, is refused."""
    size = file.seek(0, io.SEEK_END)
    begin = file.seek(max(size - END_BYTES - LONGEST_COMMENT, 0))
    tail = file.read()
    place = tail.rfind(END)
    if place >= 0 and len(tail) - place >= END_BYTES:
        count, n_bytes = struct.unpack("<HI", tail[place + 10 : place + 16])
        # numbers that do not fit here are the largest that do
        if count > MOST_MEMBERS or min(n_bytes, begin + place) > MOST_MEMBERS * LONGEST_RECORD:
            raise refused(path, f"an archive of {count:,} members or more", f"at most {MOST_MEMBERS:,}")
    file.seek(0)
    return zipfile.ZipFile(file)


# Files of Arrow.


@dataclass(frozen=True, eq=False)
class ArrowFile:
    """An open file of parquet or feather.

    Parameters
    ----------
    path : Path
        The file.
    schema : pyarrow.Schema
        Names and types of its columns.
    n_rows, n_bytes : int
        Numbers of rows, and of bytes once unpacked, as the file says.
    read : callable
        From positions of columns, ascending, to a table of these.
    """

    path: Path
    schema: Any
    n_rows: int
    n_bytes: int
    read: Callable[[Sequence[int]], Any]

    def arrays(self, places: Sequence[int]) -> list[Any]:
        """Read columns as arrays of pandas.

        Raises
        ------
        InputError
            If a column holds lists or structures.
        """
        import pandas as pd
        import pyarrow as pa

        order = sorted(places)
        for field in map(self.schema.field, order):
            if pa.types.is_nested(field.type):
                fault = f"values of type {field.type}"[:80]
                raise refused(f"{self.path}, column {field.name}", fault, "numbers or texts", "drop it")
        table = self.read(order)
        # where texts end is read from the file, and would be followed beyond it
        table.validate(full=True)
        if len(table) != self.n_rows:
            raise ValueError(f"{len(table):,} rows of {self.n_rows:,}")
        # without a value a whole number stays one
        kinds = ("Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64")
        nullable = {getattr(pa, kind.lower())(): getattr(pd, f"{kind}Dtype")() for kind in kinds}
        nullable[pa.bool_()] = pd.BooleanDtype()
        columns = [table.column(order.index(place)) for place in places]
        return [
            column.to_pandas(types_mapper=nullable.get if column.null_count else None).array
            for column in columns
        ]


@contextmanager
def open_arrow(path: Path, most_bytes: int, *, has_repeated_texts: bool = False) -> Iterator[ArrowFile]:
    """Open a file of parquet or feather for the block.

    With `has_repeated_texts`, texts are read as categories: a text that stands in many rows of parquet then
    stays one text.
    """
    need(path, "pyarrow")
    from pyarrow import ipc, parquet

    is_parquet = path.suffix.lower() in (".parquet", ".pq")
    with unbroken(path, f"a {'parquet' if is_parquet else 'feather'} file"), opened(path, most_bytes) as file:
        if not is_parquet:
            n_rows, n_bytes = unpacked_size(path, file)
            reader = ipc.open_file(file)
            schema, n_parts = reader.schema, reader.num_record_batches

            def read_feather(places: Sequence[int]) -> Any:
                options = ipc.IpcReadOptions(included_fields=list(places), use_threads=False)
                return ipc.open_file(file, options=options).read_all()

            _check_parts(path, n_parts, len(schema))
            yield ArrowFile(path, schema, n_rows, n_bytes, read_feather)
            return
        parquet_file = parquet.ParquetFile(file, pre_buffer=False)
        schema, about, n_parts = parquet_file.schema_arrow, parquet_file.metadata, parquet_file.num_row_groups
        _check_parts(path, n_parts, len(schema))
        n_bytes = sum(about.row_group(number).total_byte_size for number in range(n_parts))
        if has_repeated_texts:
            texts = [field.name for field in schema if is_text(field.type)]
            parquet_file = parquet.ParquetFile(file, pre_buffer=False, read_dictionary=texts)

        def read_parquet(places: Sequence[int]) -> Any:
            if len(set(schema.names)) == len(schema):
                return parquet_file.read([schema.names[place] for place in places], use_threads=False)
            # several columns with one name cannot be read alone
            return parquet_file.read(use_threads=False).select(places)

        yield ArrowFile(path, schema, about.num_rows, n_bytes, read_parquet)


def _check_parts(path: Path, n_parts: int, n_columns: int) -> None:
    """Refuse a file of more columns, or row groups or batches, than are read."""
    check_size(path, 1, n_columns)
    if n_parts * n_columns > MOST_PARTS:
        fault, hint = f"{n_parts:,} parts of {n_columns:,} columns", "write it again in fewer parts"
        raise refused(path, fault, f"at most {MOST_PARTS:,} columns of parts", hint)


def is_number(kind: Any) -> bool:
    """Say whether a type of Arrow holds numbers, truth values, or missing values alone."""
    from pyarrow import types

    return bool(
        types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_null(kind)
    )


def is_text(kind: Any) -> bool:
    """Say whether a type of Arrow is that of texts, or of categories of texts or numbers."""
    from pyarrow import types

    if types.is_dictionary(kind):
        return is_number(kind.value_type) or is_text(kind.value_type)
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_binary(kind))


# How large files of Arrow are in memory, before any of it is taken.


def unpacked_size(path: Path, file: IO[bytes]) -> tuple[int, int]:
    """Return rows and unpacked bytes of a file of Arrow, of whose messages only the heads are read.

    Each head says how many rows there are. Compressed buffers begin with their size. The file is at its begin
    again afterwards.
    """
    file.seek(8)  # after the magic bytes
    n_rows = n_bytes = 0
    for number in itertools.count():
        if number > MOST_PARTS:
            raise refused(path, f"more than {MOST_PARTS:,} parts", "fewer", "write it again in fewer parts")
        begin, size = struct.unpack("<ii", file.read(8))
        if begin > 0:  # as written before Arrow 0.15
            size = begin
            file.seek(-4, io.SEEK_CUR)
        if not begin or size <= 0:  # the messages end here, and the footer begins
            break
        message = _FlatTable.root(file.read(size))
        kind, body = message.number(1, "<B"), file.tell()
        batch = message.table(2)
        if kind == DICTIONARY_BATCH:
            batch = batch.table(1)
        if kind in (DICTIONARY_BATCH, RECORD_BATCH):
            n_rows += batch.number(0, "<q") if kind == RECORD_BATCH else 0
            is_packed = bool(batch.field(3))
            for place, length in batch.pairs(2):
                if is_packed and length >= 8:
                    file.seek(body + place)
                    length = max(length, *struct.unpack("<q", file.read(8)))
                n_bytes += length
        file.seek(body + message.number(3, "<q"))
    file.seek(0)
    return n_rows, n_bytes


# Kinds of messages in a file of Arrow.
DICTIONARY_BATCH = 2
RECORD_BATCH = 3


class _FlatTable(NamedTuple):
    """A table of the format that Arrow writes its heads in (flatbuffers)."""

    content: bytes
    offset: int

    @classmethod
    def root(cls, content: bytes) -> _FlatTable:
        """Return the outermost table."""
        return cls(content, struct.unpack_from("<I", content)[0])

    def field(self, number: int) -> int:
        """Return the place of a field; 0 if it is left out."""
        fields = self.offset - struct.unpack_from("<i", self.content, self.offset)[0]
        entry = 4 + 2 * number
        if entry >= struct.unpack_from("<H", self.content, fields)[0]:
            return 0
        place = struct.unpack_from("<H", self.content, fields + entry)[0]
        return self.offset + place if place else 0

    def number(self, number: int, form: str) -> int:
        """Return a whole number, 0 if it is left out."""
        place = self.field(number)
        return int(struct.unpack_from(form, self.content, place)[0]) if place else 0

    def table(self, number: int) -> _FlatTable:
        """Return a table that is a field of this one."""
        place = self.field(number)
        return _FlatTable(self.content, place + struct.unpack_from("<I", self.content, place)[0])

    def pairs(self, number: int) -> Iterator[tuple[int, int]]:
        """Return the pairs of whole numbers of a list."""
        if place := self.field(number):
            begin = place + struct.unpack_from("<I", self.content, place)[0]
            count = struct.unpack_from("<I", self.content, begin)[0]
            yield from struct.iter_unpack("<qq", self.content[begin + 4 : begin + 4 + 16 * count])


# Arrays: a header that says how large one is, and then its values.


def array_name(member: zipfile.ZipInfo) -> str:
    """Return the name of the array in a member of an .npz file."""
    return member.filename.removesuffix(".npy")


def members_of(path: Path, archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """Return the members of an .npz file by the names of their arrays, of which none may stand twice."""
    members: dict[str, zipfile.ZipInfo] = {}
    problems = list[Problem]()
    for member in archive.infolist():
        name = array_name(member)
        if name in members:
            problems.append(Problem(str(path), f"several arrays {name[:60]!r}", "one of each name"))
        members[name] = member
    if problems:
        raise InputError(dict.fromkeys(problems))
    return members


class Header(NamedTuple):
    """Header of an array in numpy's format."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fortran: bool

    @property
    def n_bytes(self) -> int:
        """Size of the values in the file."""
        return math.prod(self.shape) * self.dtype.itemsize


# Says what is expected in place of an array with a header; nothing if it may be read.
Check = Callable[[Header], str]


def read_header(stream: IO[bytes], location: str) -> Header:
    """Read the header of an array in numpy's format; the stream then is at its values."""
    parsers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            shape, fortran, dtype = parsers[npy.read_magic(stream)](stream)
        if any(size < 0 for size in shape):
            raise ValueError(f"shape {shape}")
    except (MemoryError, zipfile.BadZipFile):
        raise
    except Exception as error:  # numpy evaluates it as a Python literal, of which anything may come
        fault = f"a header that is none ({type(error).__name__}: {error})"[:200]
        raise refused(location, fault, "an array as numpy writes it") from error
    return Header(tuple(map(int, shape)), dtype, fortran)


def read_array(
    stream: IO[bytes], location: str, n_bytes: int, check: Check, dtype: DTypeLike | None = None
) -> NDArray[Any]:
    """Read an array of a file or of a member of an archive; with its header it has `n_bytes`.

    Numbers of another type than `dtype` are converted part by part, so that they are never in memory twice.
    """
    header = read_header(stream, location)
    if expected := "an array without objects" if header.dtype.hasobject else check(header):
        raise refused(location, f"shape {header.shape} of type {header.dtype}", expected)
    check_size(location, header.shape[0], math.prod(header.shape[1:]))
    if header.n_bytes != n_bytes - stream.tell():
        fault = f"{n_bytes - stream.tell():,} bytes for shape {header.shape} of type {header.dtype}"
        raise refused(location, fault, f"{header.n_bytes:,}")
    # in the byte order of this machine, whatever that of the file is
    native = header.dtype.newbyteorder("=")
    values = np.empty(header.shape, dtype or native, order="F" if header.fortran else "C")
    flat, size = values.reshape(-1, order="A"), header.dtype.itemsize
    for start in range(0, len(flat) if size else 0, PART):
        part = flat[start : start + PART]
        content = stream.read(len(part) * size)
        if len(content) != len(part) * size:
            raise EOFError(f"{len(content):,} bytes, expected {len(part) * size:,}")
        with np.errstate(over="ignore"):  # infinite if the type has a wider range, and refused
            part[:] = np.frombuffer(content, header.dtype)
    stream.read(1)  # at its end an archive compares the checksum
    return values


def read_member(
    path: Path,
    archive: zipfile.ZipFile,
    member: zipfile.ZipInfo,
    check: Check,
    dtype: DTypeLike | None = None,
) -> NDArray[Any]:
    """Read an array of an .npz file, see `read_array`."""
    location = f"{path}, array {array_name(member)[:60]!r}"
    if member.compress_type not in METHODS:
        fault = f"compression method {member.compress_type}"
        raise refused(location, fault, "none or deflate, as numpy writes them")
    with archive.open(member) as stream:
        return read_array(stream, location, member.file_size, check, dtype)


def _no_features(header: Header) -> str:
    """Say what is expected in place of an array that holds no features; nothing of one that does."""
    if len(header.shape) != 2 or header.dtype.kind not in "biuf":
        return "numbers of shape (samples, features)"
    return "at least one sample and one feature" if 0 in header.shape else ""


def _no_texts(header: Header) -> str:
    """Say what is expected in place of an array that has no text or number for each sample."""
    if len(header.shape) != 1 or header.dtype.kind not in "biufUS" or not header.n_bytes:
        return "whole numbers or texts of shape (samples,)"
    return "" if header.n_bytes <= MOST_TEXT_BYTES else f"at most {MOST_TEXT_BYTES:,} bytes"


def _selected(
    path: Path, X: NDArray[Any], texts: dict[str, list[str]], choice: TableChoice, problems: list[Problem]
) -> LabelledTable:
    """Take samples of `X`, with arrays of texts beside it as further columns."""
    X = np.ascontiguousarray(X)
    width, names = X.shape[1], [*texts]

    def location(row: int, column: int) -> str:
        if column < width:
            return f"{path}, {FEATURES}[{row}, {column}]"
        return f"{path}, {names[column - width]}[{row}]"

    def cells(indices: Sequence[int]) -> list[Any]:
        return [X[:, column] if column < width else texts[names[column - width]] for column in indices]

    def position_of(name: object) -> int | None:
        return width + names.index(name) if name in names else None

    table = Frame(path, len(X), width, [], location, cells, array=X)
    # columns of X are chosen by position, counted without those beside them
    columns, drop = (tuple(positions(choice, key, table, problems)) for key in ("columns", "drop"))
    placed = replace(
        choice,
        columns=columns,
        drop=drop,
        label_column=position_of(choice.label_column),
        index_column=position_of(choice.index_column),
        aside=tuple(str(position_of(name)) for name in choice.aside),
    )
    return select(replace(table, width=width + len(names)), placed, problems)


# Tables of Arrow.


def _is_list_of_numbers(kind: Any) -> bool:
    from pyarrow import types

    is_list = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    return bool(is_list and (types.is_integer(kind.value_type) or types.is_floating(kind.value_type)))


def _matrix(path: Path, name: str, column: Any, n_rows: int) -> NDArray[Any]:
    """Make a matrix of a column of lists of one length, such as embeddings; float32 stays float32."""
    import pyarrow.compute as pc

    no_list = -1
    lengths = pc.fill_null(pc.list_value_length(column), no_list).to_numpy()
    width = int(next(iter(lengths[lengths != no_list]), 0))
    check_size(f"{path}, column {name}", n_rows, width)

    def problem(row: int) -> Problem:
        fault = "no list" if lengths[row] == no_list else f"a list of {lengths[row]:,} numbers"
        location = f"{path}, row {row + 1}, column {name}"
        return Problem(location, fault, f"a list of {width:,} numbers, as in the other rows")

    if wrong := np.flatnonzero((lengths != width) | (lengths < 1)).tolist():
        raise InputError(problems_at(wrong, problem))
    is_short = str(column.type.value_type) in ("float", "halffloat")
    matrix = np.empty((n_rows, width), np.float32 if is_short else np.float64)
    start = 0
    for chunk in column.chunks:
        stop = start + len(chunk)
        matrix[start:stop] = chunk.flatten().to_numpy(zero_copy_only=False).reshape(-1, width)
        start = stop
    return matrix


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


def _frame(file: ArrowFile, choice: TableChoice) -> Frame:
    """Lay out the columns of a table of Arrow."""
    import pandas as pd

    path, schema, n_rows = file.path, file.schema, file.n_rows
    check_size(path, n_rows, 1)
    if not n_rows:
        raise refused(path, "no rows", "at least one sample")
    # the table without its rows has the names and the index that pandas stored with it
    empty = schema.empty_table().to_pandas()
    index_fields = (schema.pandas_metadata or {}).get("index_columns", [])
    index = [schema.get_field_index(name) for name in index_fields if isinstance(name, str)]
    columns = [number for number in range(len(schema)) if number not in index]
    if -1 in index or len(columns) != empty.shape[1]:
        raise ValueError("columns that its metadata do not have")
    if len(index) > 1 or (index and empty.index.name in choice.column_names):
        # several of them name no row alone, and one that is asked for by its name is a column
        empty, columns, index = empty.reset_index(), index + columns, []
    # a column of lists of numbers is one feature for each place of its lists
    lists: dict[int, NDArray[Any]] = {}
    places = list[tuple[int, int | None]]()
    header = list[str]()
    for number, name in zip(columns, map(str, empty.columns), strict=True):
        # one that is dropped is not read, and stays a column
        if name in choice.drop or not _is_list_of_numbers(schema.field(number).type):
            places.append((number, None))
            header.append(name)
            continue
        size = getattr(schema.field(number).type, "list_size", 1)
        check_size(f"{path}, column {name}", n_rows, size)
        table = file.read([number])
        table.validate(full=True)
        lists[number] = _matrix(path, name, table.column(0), n_rows)
        width = lists[number].shape[1]
        places += [(number, item) for item in range(width)]
        header += [f"{name}[{item}]" for item in range(width)]

    names = tuple(map(text_of, file.arrays(index)[0])) if index else ()

    def location(row: int, column: int) -> str:
        return f"{path}, row {row + 1}, column {column + 1} ({header[column]})"

    def cells(indices: Sequence[int]) -> list[Any]:
        fields = [places[column][0] for column in indices if places[column][1] is None]
        plain = iter(file.arrays(fields) if fields else ())
        return [
            next(plain) if item is None else pd.arrays.NumpyExtensionArray(lists[number][:, item])
            for number, item in (places[column] for column in indices)
        ]

    return Frame(path, n_rows, len(header), header, location, cells, names)


# Workbooks, and files of any format.


def _check_members(path: Path, members: Sequence[zipfile.ZipInfo]) -> None:
    """Refuse what takes long to read: a sheet is read row by row, all else when a workbook is opened."""
    rows = ("xl/worksheets/", "xl/sharedStrings")
    for part, is_rows, limit in (("rows and texts", True, MOST_UNPACKED), ("the rest", False, MOST_BESIDE)):
        of_part = [member for member in members if member.filename.startswith(rows) is is_rows]
        # a member that is empty takes its time as well
        size = sum(member.file_size + 2**10 for member in of_part)
        if size > limit:
            fault, hint = f"{size:,} bytes of {part}, unpacked", "save the table as CSV or parquet"
            raise refused(path, fault, f"at most {limit:,}", hint)


def need(path: Path, package: str) -> None:
    """Refuse a file if the extra package that reads it is not installed."""
    if find_spec(package) is None:
        raise refused(path, f"no {package}, which reads {path.suffix} files", package, EXTRA)


@contextmanager
def unbroken(path: Path, expected: str) -> Iterator[None]:
    """Report a file as broken if its reader of XML, Arrow or zip raises anything."""
    try:
        yield
    except (InputError, MemoryError):
        raise
    except Exception as error:
        fault = " ".join(str(error).split())[:200] or type(error).__name__
        raise refused(path, f"a broken file ({fault})", expected) from error
