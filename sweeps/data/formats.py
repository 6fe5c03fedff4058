"""A user's table in a file that is no text: arrays (.npz, .npy), parquet, feather, a sheet of a workbook.

Each reader makes a `Frame`, from which `sweeps.data.table.select` takes the samples.
"""

from __future__ import annotations

import io
import math
import struct
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from sweeps.data.lines import MOST_LINES, to_number
from sweeps.data.table import (
    LabelledTable,
    Numbers,
    TableChoice,
    check_size,
    check_words,
    each_once,
    is_empty,
    positions,
    select,
)
from sweeps.errors import InputError, Problem, collecting, did_you_mean
from sweeps.files import PART, opened

# Arrays of an .npz file: their headers first, and then no more memory than they may take.

MOST_BYTES = 2**30
"""Of an array as it is in the file, and of a file."""

MOST_TEXT_BYTES = 2**28
"""Of an array of texts, which is held as a whole."""

MOST_ROWS = MOST_LINES
MOST_DIRECTORY = 2**20
"""Bytes of the directory of an archive: some 10,000 names."""

MOST_HEADER = 10_000
"""Bytes of the header of an array, numpy's own limit."""

SUFFIX = ".npy"
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""What `numpy.savez` and `numpy.savez_compressed` write."""

LENGTHS = {(1, 0): struct.Struct("<H"), (2, 0): struct.Struct("<I")}
"""How the length of a header is written, by the version of its format."""

BROKEN = (
    *(zipfile.BadZipFile, zlib.error, EOFError, struct.error, NotImplementedError, RuntimeError),
    UnicodeDecodeError,
)
"""What `zipfile` raises of a damaged archive, or of one with a password."""


class Header(NamedTuple):
    """What an array says of itself."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fortran: bool

    @property
    def n_bytes(self) -> int:
        """Size of the values, as they are written."""
        return math.prod(self.shape) * self.dtype.itemsize


class Archive:
    """The arrays of an open .npz file.

    Parameters
    ----------
    path : Path
        The file, for messages.
    archive : zipfile.ZipFile
        Its content; each name is there once.
    """

    def __init__(self, path: Path, archive: zipfile.ZipFile) -> None:
        self._path = path
        self._archive = archive
        self._members: dict[str, zipfile.ZipInfo] = {}
        for member in archive.infolist():
            name = member.filename.removesuffix(SUFFIX)
            if name in self._members:
                raise InputError([Problem(str(path), f"two arrays {name[:60]!r}", "each name once")])
            self._members[name] = member

    @property
    def names(self) -> list[str]:
        """Names of all arrays."""
        return list(self._members)

    def header(self, name: str) -> Header:
        """Shape and type of an array.

        Raises
        ------
        InputError
            If it is no array, is packed in another way than numpy does, holds objects, is too large, or is
            not as long as it says.
        """
        where, member = self._where(name), self._members[name]
        if member.compress_type not in METHODS:
            found = f"compression method {member.compress_type}"
            raise InputError([Problem(where, found, "none or deflate, as numpy writes them")])
        with self._archive.open(member) as stream:
            header = read_header(stream, where)
            rest = member.file_size - stream.tell()
        if header.dtype.hasobject:
            raise InputError([Problem(where, "objects (a pickle)", "an array without objects")])
        if header.n_bytes > MOST_BYTES:
            found = f"{header.n_bytes:,} bytes, of shape {header.shape} and type {header.dtype}"
            raise InputError([Problem(where, found, f"at most {MOST_BYTES:,}")])
        if header.n_bytes != rest:
            found = f"{rest:,} bytes for shape {header.shape} of type {header.dtype}"
            raise InputError([Problem(where, found, f"{header.n_bytes:,}")])
        return header

    def read(self, name: str, dtype: Any = None) -> NDArray[Any]:
        """Values of an array, as another type if one is told.

        Raises
        ------
        InputError
            As `header`.
        """
        header = self.header(name)
        with self._archive.open(self._members[name]) as stream:
            read_header(stream, self._where(name))
            return read_values(stream, header, header.dtype if dtype is None else np.dtype(dtype))

    def _where(self, name: str) -> str:
        return f"{self._path}, array {name[:60]!r}"


@contextmanager
def opened_archive(path: Path) -> Iterator[Archive]:
    """Open an .npz file for the block.

    Raises
    ------
    InputError
        If it cannot be read, is damaged, or is no archive; also for what is read of it in the block.
    """
    try:
        with (
            opened(path, MOST_BYTES) as file,
            zipfile.ZipFile(cast(IO[bytes], _Bounded(file))) as archive,
        ):
            yield Archive(path, archive)
    except BROKEN as error:
        raise InputError([Problem(str(path), f"a broken file ({error})", "an .npz file")]) from error


class _Bounded:
    """A file of which no more is read at once than the directory of a sound archive takes."""

    def __init__(self, file: io.BufferedReader[Any]) -> None:
        self._file = file
        self.seek, self.tell, self.seekable = file.seek, file.tell, file.seekable

    def read(self, size: int | None = -1, /) -> bytes:
        """Read so many bytes; without a size the end of the archive, which is shorter than that."""
        if size is not None and size > max(MOST_DIRECTORY, PART):
            raise zipfile.BadZipFile(f"a directory of {size:,} bytes, at most {MOST_DIRECTORY:,}")
        return self._file.read(size)


def read_values(stream: IO[bytes], header: Header, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Values behind a header, in the order of C, part by part: nothing is held twice.

    Raises
    ------
    EOFError
        If there are fewer than the header says, or more bytes.
    """
    width = math.prod(header.shape[1:])
    values = np.empty(header.shape, dtype)
    # rows one after the other, or columns, of which a part has whole ones
    lines = values.reshape(len(values), width)
    lines = lines.T if header.fortran else lines
    n_bytes = lines.shape[1] * header.dtype.itemsize
    at_once = max(1, PART // max(n_bytes, 1))
    for start in range(0, len(lines), at_once):
        part = lines[start : start + at_once]
        content = stream.read(len(part) * n_bytes)
        if len(content) != len(part) * n_bytes:
            raise EOFError(f"fewer than the {header.n_bytes:,} bytes of shape {header.shape}")
        with np.errstate(over="ignore"):  # of a type with a wider range: infinite, and refused
            part[:] = np.frombuffer(content, header.dtype).reshape(part.shape)
    if stream.read(1):
        raise EOFError(f"more than the {header.n_bytes:,} bytes of shape {header.shape}")
    return values


def read_header(stream: IO[bytes], where: str) -> Header:
    """Read the header of an array in numpy's format; the stream then is at its values.

    Parameters
    ----------
    stream : binary file
        At the begin of the array.
    where : str
        For messages.

    Raises
    ------
    InputError
        If it is none.
    """
    magic = stream.read(npy.MAGIC_LEN)
    if not magic.startswith(npy.MAGIC_PREFIX) or len(magic) < npy.MAGIC_LEN:
        raise InputError([Problem(where, f"{magic[:8]!r} at its start", "an array as numpy writes it")])
    version = magic[-2], magic[-1]
    if version not in LENGTHS:
        found = "version {}.{} of the array format".format(*version)
        raise InputError([Problem(where, found, "version 1.0 or 2.0")])
    prefix = stream.read(LENGTHS[version].size)
    (length,) = LENGTHS[version].unpack(prefix)
    if length > MOST_HEADER:
        raise InputError([Problem(where, f"a header of {length:,} bytes", f"at most {MOST_HEADER:,}")])
    text = io.BytesIO(prefix + stream.read(length))
    parse = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            shape, fortran, dtype = parse(text, max_header_size=MOST_HEADER)
    except Exception as error:  # numpy evaluates it as a Python literal, of which anything may come
        found = f"a header that is none ({type(error).__name__})"
        raise InputError([Problem(where, found, "an array as numpy writes it")]) from error
    if any(size < 0 for size in shape):
        raise InputError([Problem(where, f"shape {shape}", "no negative length")])
    return Header(tuple(map(int, shape)), dtype, fortran)


@dataclass(frozen=True, eq=False)
class Frame:
    """A table that comes as pandas DataFrames.

    Parameters
    ----------
    path : Path
        The file.
    parts : callable
        From positions of columns to lists of these, each a Series: all rows, one part after the other.
    n_rows, width : int
        Number of rows, and of columns.
    header : sequence of str
        Names of the columns; empty if they have none.
    place : callable
        From a row and a column to the place of a cell, for problems.
    index : tuple of str
        Names of the rows, empty if they have none.
    """

    path: Path
    parts: Callable[[Sequence[int]], Iterator[Any]]
    n_rows: int
    width: int
    header: Sequence[str]
    place: Callable[[int, int], str]
    index: tuple[str, ...] = ()

    def numbers(self, columns: Sequence[int]) -> Numbers:
        """Some columns as numbers."""
        X = np.empty((self.n_rows, len(columns)))
        others = np.zeros(len(columns), dtype=np.intp)
        is_empty = np.zeros(self.n_rows, dtype=np.bool_)
        start = n_words = 0
        for part in self.parts(columns) if columns else ():
            rows = slice(start, start + len(part[0]))
            for number, column in enumerate(part):
                X[rows, number], n_others, missing, n_values = self._numbers(column)
                others[number] += n_others
                is_empty[rows] |= missing
                n_words += n_values
            check_words(self.path, n_words)
            start = rows.stop
        return Numbers(X, others, is_empty)

    def texts(self, column: int) -> list[str]:
        """Cells of a column as texts."""
        cells = (text for (part,) in self.parts([column]) for text in self._texts(part))
        return each_once(cells, f"{self.path}, {self.named(column)}")

    def cell(self, row: int, column: int) -> str:
        """One cell as text."""
        return text_of(self._value(row, column))

    def shown(self, row: int, column: int) -> str:
        """One cell as a message has it."""
        value = self._value(row, column)
        if isinstance(value, (float, np.floating)):
            return str(float(value))
        cell = text_of(value)
        return repr(cell[:60]) if cell else "an empty cell"

    def where(self, row: int, column: int) -> str:
        """Place of a cell."""
        return self.place(row, column)

    def named(self, column: int) -> str:
        """A column, for problems."""
        name = f" ({self.header[column]})" if self.header else ""
        return f"column {column + 1}{name}"

    def _value(self, row: int, column: int) -> Any:
        for (part,) in self.parts([column]):
            if row < len(part):
                return part.iloc[row]
            row -= len(part)
        raise IndexError(row)

    def _texts(self, part: Any) -> Iterator[str]:
        codes, values = _coded(part)
        texts = list(map(text_of, values))
        return map(texts.__getitem__, codes.tolist())

    def _numbers(self, part: Any) -> tuple[NDArray[np.float64], int, NDArray[np.bool_], int]:
        """Some rows of a column as numbers, NaN where a cell is none; how many of those are texts.

        Also which cells are empty, and how many values had to be looked at one by one.
        """
        import pandas as pd

        kind = part.dtype
        if _is_plain(kind):
            with np.errstate(over="ignore"):  # of a type with a wider range: infinite, and refused
                numbers: NDArray[np.float64] = part.to_numpy(dtype=np.float64, na_value=np.nan)
            return numbers, 0, np.isnan(numbers), 0
        codes, values = _coded(part)
        texts = list(map(text_of, values))
        # a category is one by its type, though its words may be numbers
        is_category = isinstance(kind, pd.CategoricalDtype)
        found = [None if is_category else to_number(text) for text in texts]
        is_other = np.array([number is None for number in found])[codes]
        missing = np.array([is_empty(text) for text in texts])[codes]
        return np.array(found, dtype=np.float64)[codes], int(is_other.sum()), missing, len(values)


def text_of(value: Any) -> str:
    """Text of a cell; nothing where a value is missing, and whole numbers without a point."""
    if type(value) is str:
        return value.strip()
    import pandas as pd

    if value is None or value is pd.NA or value is pd.NaT:
        return ""
    if isinstance(value, (float, np.floating)):
        number = float(value)
        if number != number:
            return ""
        return str(int(number)) if number.is_integer() and abs(number) < 2**53 else repr(number)
    if isinstance(value, bytes):
        return value.decode(errors="replace").strip()
    return str(value).strip()


def _is_plain(kind: Any) -> bool:
    """Whether all values of a type are numbers, or missing."""
    import pandas as pd

    return pd.api.types.is_bool_dtype(kind) or bool(
        pd.api.types.is_numeric_dtype(kind) and not pd.api.types.is_complex_dtype(kind)
    )


def _coded(column: Any) -> tuple[NDArray[np.intp], list[Any]]:
    """For each cell which of some values it is, the last one where it is missing.

    Of texts and categories each value is there once. Cells of other types may be equal and not the same, such
    as 1 and true.
    """
    import pandas as pd

    if isinstance(column.dtype, pd.CategoricalDtype):
        codes, values = column.cat.codes.to_numpy(), column.cat.categories.tolist()
    elif isinstance(column.dtype, pd.StringDtype):
        codes, found = pd.factorize(column)
        values = found.tolist()
    else:
        codes, values = np.arange(len(column)), column.tolist()
    return np.asarray(codes, dtype=np.intp), [*values, None]


# A user's table as arrays in an .npz file.

FEATURES = "X"
CLASSES = ("y", "labels", "labels_true")


def read_npz_table(path: Path, choice: TableChoice) -> LabelledTable:
    """Read the array `X` and the classes of an .npz file; pickled arrays are refused.

    Parameters
    ----------
    path : Path
        The file.
    choice : TableChoice
        Columns of `X` by position; `label_column`, `index_column` and `aside` name arrays with a text, or a
        number, for each sample. Without `label_column` it is the one of `CLASSES` that is there, if any.

    Raises
    ------
    InputError
        With every problem of the file.
    """
    problems: list[Problem] = []
    X, label = np.empty((0, 0)), None
    texts: dict[str, list[str]] = {}
    with opened_archive(path) as archive:
        with collecting(problems):
            _check_features(f"{path}, array {FEATURES!r}", _header(path, archive, FEATURES))
            X = archive.read(FEATURES, np.float64)
        with collecting(problems):
            label = _label(path, archive, choice)
        names = [*([label] if label else []), *_array_names(path, choice, problems), *choice.aside]
        for name in dict.fromkeys(names):
            with collecting(problems):
                texts[name] = _texts(path, archive, name)
    for name, each in () if problems else texts.items():
        if len(each) != len(X):
            expected = f"one for each of {len(X)} rows"
            is_label = name == label
            where = str(path) if is_label else f"{path}, array {name!r}"
            problems.append(Problem(where, f"{len(each)} {'classes' if is_label else 'texts'}", expected))
    if problems:
        raise InputError(problems)
    return _selected(path, X, texts, label, choice)


def read_npy_table(path: Path, choice: TableChoice) -> LabelledTable:
    """Read one array of numbers; columns are told by position.

    Raises
    ------
    InputError
        With every problem of the file; a pickle is one.
    """
    where = str(path)
    try:
        with opened(path, MOST_BYTES) as file:
            header = read_header(file, where)
            if header.dtype.hasobject:
                raise InputError([Problem(where, "objects (a pickle)", "an array without objects")])
            _check_features(where, header)
            X = read_values(file, header, np.dtype(np.float64))
    except BROKEN as error:
        raise InputError([Problem(where, f"a broken file ({error})", "an .npy file")]) from error
    return _selected(path, X, {}, None, choice)


@dataclass(frozen=True, eq=False, kw_only=True)
class _Arrays(Frame):
    """An array of numbers, used as it is, with texts beside it."""

    X: NDArray[np.float64]

    def numbers(self, columns: Sequence[int]) -> Numbers:
        """Some columns of the array."""
        is_whole = list(columns) == list(range(self.X.shape[1]))
        values = self.X if is_whole else self.X[:, list(columns)]
        is_empty = np.asarray(np.isnan(values).any(axis=1), dtype=np.bool_)
        return Numbers(values, np.zeros(len(columns), dtype=np.intp), is_empty)


def _selected(
    path: Path, X: NDArray[np.float64], texts: dict[str, list[str]], label: str | None, choice: TableChoice
) -> LabelledTable:
    """Samples of `X`, with arrays of texts beside it as further columns."""
    import pandas as pd

    width, names = X.shape[1], list(texts)

    def parts(columns: Sequence[int]) -> Iterator[list[Any]]:
        yield [
            pd.Series(X[:, column])
            if column < width
            else pd.Series(texts[names[column - width]], dtype=object)
            for column in columns
        ]

    beside = {name: width + number for number, name in enumerate(names)}

    def place(row: int, column: int) -> str:
        if column < width:
            return f"{path}, {FEATURES}[{row}, {column}]"
        return f"{path}, {names[column - width]}[{row}]"

    problems: list[Problem] = []
    columns, drop = list[int](), list[int]()
    with collecting(problems):
        columns = positions(choice.columns, [], width, f"{path}, {choice.key('columns')}")
    with collecting(problems):
        drop = positions(choice.drop, [], width, f"{path}, {choice.key('drop')}")
    if problems:
        raise InputError(problems)
    told = replace(
        choice,
        columns=tuple(columns),
        drop=tuple(drop),
        label_column=None if label is None else beside[label],
        index_column=None if choice.index_column is None else beside[str(choice.index_column)],
        aside=tuple(str(beside[name]) for name in choice.aside),
    )
    return select(_Arrays(path, parts, len(X), width + len(names), [], place, X=X), told, [])


def _array_names(path: Path, choice: TableChoice, problems: list[Problem]) -> list[str]:
    """The array of the names of the samples, if one is told."""
    if choice.index_column is None:
        return []
    if isinstance(choice.index_column, str):
        return [choice.index_column]
    where = f"{path}, {choice.key('index_column')}"
    problems.append(Problem(where, str(choice.index_column), "the name of an array", "it is an .npz file"))
    return []


def _check_features(where: str, header: Header) -> None:
    if len(header.shape) != 2 or header.dtype.kind not in "biuf":
        raise _wrong(where, header, "numbers of shape (samples, features)")
    if 0 in header.shape:
        raise InputError([Problem(where, f"shape {header.shape}", "at least one sample and one feature")])
    check_size(where, *header.shape, MOST_ROWS)


def _label(path: Path, archive: Archive, choice: TableChoice) -> str | None:
    told = choice.label_column
    candidates = [name for name in CLASSES if name in archive.names] if told is None else [told]
    if not candidates:
        return None
    name = candidates[0]
    key = choice.key("label_column")
    if len(candidates) > 1:
        found = " and ".join(map(repr, candidates))
        raise InputError([Problem(str(path), f"arrays {found}", "one of them", f"name it as {key}")])
    if not isinstance(name, str):
        expected = "the name of an array"
        raise InputError([Problem(f"{path}, {key}", str(name), expected, "it is an .npz file")])
    return name


def _texts(path: Path, archive: Archive, name: str) -> list[str]:
    header = _header(path, archive, name)
    where = f"{path}, array {name!r}"
    if len(header.shape) != 1 or header.dtype.kind not in "biufU" or not header.n_bytes:
        raise _wrong(where, header, "whole numbers or texts of shape (samples,)")
    if header.shape[0] > MOST_ROWS or header.n_bytes > MOST_TEXT_BYTES:
        raise _wrong(where, header, f"at most {MOST_ROWS:,} samples and {MOST_TEXT_BYTES:,} bytes")
    values = archive.read(name)
    if values.dtype.kind == "U" and not _is_text(values):
        raise InputError([Problem(where, "numbers that stand for no character", "texts in Unicode")])
    return each_once(map(str, values.flat), where)


def _is_text(values: NDArray[Any]) -> bool:
    """Whether Python has a character for each number; halves of a pair of UTF-16 are none."""
    codes = np.ascontiguousarray(values).view(f"{values.dtype.byteorder}u4")
    return not ((codes > 0x10FFFF) | ((codes >= 0xD800) & (codes <= 0xDFFF))).any()


def _header(path: Path, archive: Archive, name: str) -> Header:
    if name not in archive.names:
        found = f"arrays {', '.join(archive.names[:20])}"
        hint = did_you_mean(name, archive.names)
        raise InputError([Problem(str(path), found, f"an array {name!r}", hint)])
    return archive.header(name)


def _wrong(where: str, header: Header, expected: str) -> InputError:
    return InputError([Problem(where, f"shape {header.shape} of type {header.dtype}", expected)])


# A user's table as parquet, feather, or a sheet of a workbook.

EXTRA = "pip install 'sweep-clustering[tables]'"
MOST_SHEET = 2**22
"""Cells of a sheet, empty ones and all."""

ROWS, CELLS = 2**8, 2**18
"""Taken at once, at least and together: the work beside them is little, and so is their memory as texts."""

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
        for batch in table.iter_batches(max(ROWS, CELLS // len(schema)), columns=names, use_threads=False):
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
        reader, n_rows = ipc.open_file(file, options=options), max(ROWS, CELLS // len(schema))
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

    def place(row: int, column: int) -> str:
        return f"{path}, row {row + 1}, column {column + 1} ({header[column]})"

    return Frame(path, parts, stored.n_rows, len(columns), header, place, tuple(texts))


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
    is_header = any(name in first for name in choice.named) or all(to_number(cell) is None for cell in first)
    begin = int(bool(rows) and is_header)
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
