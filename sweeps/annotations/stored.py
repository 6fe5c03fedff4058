"""Annotations in files of columns: parquet, feather (which is Arrow), and .npz with one array a column."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweep_clustering.sweeps.annotations.distinct import Codes, Distinct
from sweep_clustering.sweeps.data.formats import (
    METHODS,
    MOST_PARTS,
    Header,
    Unpacked,
    load_arrow,
    members_of,
    need,
    open_archive,
    read_array,
    unbroken,
    unpacked_size,
)
from sweep_clustering.sweeps.data.lines import MOST_LINES
from sweep_clustering.sweeps.data.table import LONGEST_TEXTS, text_of
from sweep_clustering.sweeps.errors import InputError, Problem, collecting, refused
from sweep_clustering.sweeps.files import bounded, opened

# Of a file, of all that it holds once it is unpacked, and of an array of an .npz file.
MOST_BYTES, MOST_UNPACKED, MOST_ARRAY = 2**28, 2**30, 2**29

# Values of all columns: each takes some 4 bytes beside the file.
MOST_VALUES = 10**8

# Values that are texts at a time.
PART = 2**18

# Columns of a file; those of links are at most seven.
MOST_COLUMNS = 100

ARROW = (".parquet", ".pq", ".feather", ".arrow")


@dataclass(frozen=True)
class Stored:
    """Rows of a file of columns.

    Parameters
    ----------
    path : Path
        Where it was read.
    columns : Distinct
        All columns, by the names that they have there.
    """

    path: Path
    columns: Distinct


def is_stored(path: Path) -> bool:
    """Whether a file is one of columns, by how it is called."""
    return path.suffix.lower() in (*ARROW, ".npz")


def read_stored(path: Path) -> Stored:
    """Read a file of columns. Numbers become texts: whole ones without a point, missing ones an empty text.

    Raises
    ------
    InputError
        If it is broken, too large, or has columns of other kinds than numbers and texts, or of other lengths.
    """
    if path.suffix.lower() in ARROW:
        load_arrow()
    codes, cells = dict[str, Codes](), dict[str, list[str]]()
    problems: list[Problem] = []
    with bounded(path):
        for column in (_arrow if path.suffix.lower() in ARROW else _arrays)(path, problems):
            with collecting(problems):
                codes[column.name], cells[column.name] = column.distinct(
                    f"{path}, column {column.name[:60]!r}"
                )
    if problems:
        raise InputError(problems)
    if not codes:
        raise refused(path, "no columns", "i, j and the others of an annotation file")
    lengths = {name: len(values) for name, values in codes.items()}
    if len({*lengths.values()}) > 1:
        found = ", ".join(f"{length:,} of {name[:60]!r}" for name, length in [*lengths.items()][:10])
        raise refused(path, found, "as many values in each array")
    return Stored(path, Distinct(1, codes, cells))


@dataclass(frozen=True, eq=False)
class _Column:
    """A column in parts: the code of every value, negative where it is missing, and the values."""

    name: str
    n_rows: int
    parts: Iterable[tuple[NDArray[np.integer], Sequence[Any]]]

    def distinct(self, where: str) -> tuple[Codes, list[str]]:
        """Codes and texts of all parts.

        Raises
        ------
        InputError
            If a value is neither a number nor a text, or the column has more rows than it said.
        """
        known = dict[str, int]()
        found, begin = np.empty(self.n_rows, dtype=np.int32), 0
        for codes, values in self.parts:
            texts = [*map(_text, values), ""]  # a missing value is told by -1, the last
            if None in texts:
                raise refused(where, f"{str(values[texts.index(None)])[:60]!r}", "numbers or texts")
            numbers = [known.setdefault(text, len(known)) for text in texts[:-1] if text is not None]
            if sum(map(len, known)) > LONGEST_TEXTS:
                raise refused(where, f"more than {LONGEST_TEXTS:,} characters of different texts", "fewer")
            if is_missing := bool((codes < 0).any()):
                numbers.append(known.setdefault("", len(known)))
            if begin + len(codes) > self.n_rows:
                raise refused(where, f"more than {self.n_rows:,} rows", "as many as the file says")
            of_part = np.array(numbers if is_missing else [*numbers, 0], dtype=np.int32)
            found[begin : begin + len(codes)] = of_part[codes]
            begin += len(codes)
        return found[:begin], [*known]


def _text(value: Any) -> str | None:
    is_cell = isinstance(value, str | bytes | bool | np.bool_ | int | np.integer | float | np.floating)
    return text_of(value) if is_cell else None


def _arrow(path: Path, problems: list[Problem]) -> Iterator[_Column]:
    need(path, "pyarrow")
    import pyarrow as pa
    from pyarrow import ipc, parquet

    kind = "parquet" if path.suffix.lower() in (".parquet", ".pq") else "feather"
    with unbroken(path, f"a {kind} file"), opened(path, MOST_BYTES) as file:
        if kind == "parquet":
            stored = parquet.ParquetFile(file, pre_buffer=False)
            schema, about, n_parts = stored.schema_arrow, stored.metadata, stored.num_row_groups
            groups = [about.row_group(number) for number in range(min(n_parts, MOST_PARTS))]
            size = Unpacked(about.num_rows, sum(group.total_byte_size for group in groups))
        else:
            size = unpacked_size(path, file)
            reader = ipc.open_file(file)
            schema, n_parts = reader.schema, reader.num_record_batches
        _check_size(path, size, len(schema))
        if n_parts * len(schema) > MOST_PARTS:
            raise refused(path, f"{n_parts:,} parts", f"at most {MOST_PARTS:,} columns of parts")
        names = [str(name) for name in schema.names]
        wrong = [
            Problem(str(path), f"several columns {name!r}", "one of each name")
            for name in dict.fromkeys(names)
            if names.count(name) > 1
        ]
        for field in schema:
            kind_of = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
            if not (
                _is_number(pa, kind_of)
                or pa.types.is_string(kind_of)
                or pa.types.is_large_string(kind_of)
                or pa.types.is_binary(kind_of)
            ):
                where = f"{path}, column {field.name[:60]!r}"
                wrong.append(Problem(where, str(field.type)[:60], "numbers or texts"))
        if wrong:
            raise InputError(wrong)
        if kind == "parquet":  # a text that stands in many rows stays one text
            texts = [field.name for field in schema if not _is_number(pa, field.type)]
            stored = parquet.ParquetFile(file, pre_buffer=False, read_dictionary=texts)

        def chunks(place: int, name: str) -> Iterator[Any]:
            if kind == "parquet":
                yield from (
                    batch.column(0) for batch in stored.iter_batches(PART, columns=[name], use_threads=False)
                )
                return
            options = ipc.IpcReadOptions(included_fields=[place], use_threads=False)
            alone = ipc.open_file(file, options=options)
            for number in range(n_parts):
                whole = alone.get_batch(number).column(0)
                yield from (whole.slice(begin, PART) for begin in range(0, len(whole), PART))

        for place, name in enumerate(names):
            # an index that pandas stored beside the columns is none of them
            if not name.startswith("__index_level_"):
                yield _Column(name, size.n_rows, map(_coded, chunks(place, name)))


def _coded(chunk: Any) -> tuple[NDArray[np.integer], Sequence[Any]]:
    """Codes and values of a part of a column of Arrow."""
    import pyarrow as pa

    chunk.validate(full=True)  # where texts end is read from the file, and would be followed beyond it
    if pa.types.is_null(chunk.type):
        return np.full(len(chunk), -1), ()
    if chunk.type == pa.float16():
        chunk = chunk.cast(pa.float32())
    if not pa.types.is_dictionary(chunk.type):
        chunk = chunk.dictionary_encode()
    codes = chunk.indices.cast(pa.int32()).fill_null(-1).to_numpy(zero_copy_only=False)
    there, codes_there = np.unique(codes[codes >= 0], return_inverse=True)
    values = chunk.dictionary.take(pa.array(there)).to_pylist()
    missing = np.array([value is None or value != value for value in values], dtype=np.bool_)
    found = np.full(len(codes), -1)
    found[codes >= 0] = np.where(missing[codes_there], -1, codes_there) if len(there) else ()
    return found, ["" if value is None or value != value else value for value in values]


def _is_number(pa: Any, kind: Any) -> bool:
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_null(kind)
    )


def _arrays(path: Path, problems: list[Problem]) -> Iterator[_Column]:
    with (
        unbroken(path, "an .npz file"),
        opened(path, MOST_BYTES) as file,
        open_archive(path, file) as archive,
    ):
        members = archive.infolist()
        _check_size(path, Unpacked(0, sum(member.file_size for member in members)), len(members))
        for name, member in members_of(path, archive).items():
            with collecting(problems):
                if member.compress_type not in METHODS:
                    found = f"compression method {member.compress_type}"
                    raise refused(
                        f"{path}, array {name[:60]!r}", found, "none or deflate, as numpy writes them"
                    )
                with archive.open(member) as stream:
                    where = f"{path}, array {name[:60]!r}"
                    values = read_array(stream, where, member.file_size, _no_column)
                yield _Column(name, len(values), _parts(values))


def _parts(values: NDArray[Any]) -> Iterator[tuple[NDArray[np.integer], Sequence[Any]]]:
    """Codes and values of the parts of an array."""
    import pandas as pd

    for begin in range(0, len(values), PART):
        part = values[begin : begin + PART]
        codes, found = pd.factorize(part.astype(object) if part.dtype.kind in "US" else part)
        yield codes, list(found)


def _check_size(path: Path, size: Unpacked, n_columns: int) -> None:
    """Refuse a file of columns that is too large once it is unpacked."""
    problems: list[Problem] = []
    if n_columns > MOST_COLUMNS:
        problems.append(Problem(str(path), f"{n_columns:,} columns", f"at most {MOST_COLUMNS}"))
    if size.n_rows > MOST_LINES or size.n_rows * n_columns > MOST_VALUES:
        found, most = f"{size.n_rows:,} rows of {n_columns:,} columns", f"{MOST_LINES:,} rows"
        problems.append(Problem(str(path), found, f"at most {most}, and {MOST_VALUES:,} values"))
    if size.n_bytes > MOST_UNPACKED:
        found = f"{size.n_bytes:,} bytes once unpacked"
        problems.append(Problem(str(path), found, f"at most {MOST_UNPACKED:,}"))
    if problems:
        raise InputError(problems)


def _no_column(header: Header) -> str:
    """What is expected in place of an array that is no column; nothing of one that is."""
    if len(header.shape) != 1 or header.dtype.kind not in "biufUS":
        return "numbers or texts of shape (annotations,)"
    if header.shape[0] > MOST_LINES:
        return f"at most {MOST_LINES:,} values"
    return "" if header.n_bytes <= MOST_ARRAY else f"at most {MOST_ARRAY:,} bytes"
