"""Annotations in files of columns: parquet, feather (which is Arrow), and .npz with one array a column."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweeps.annotations.distinct import Codes, Distinct
from sweeps.data.formats import Header, members_of, need, read_array, unbroken
from sweeps.data.lines import MOST_LINES
from sweeps.data.table import text_of
from sweeps.errors import InputError, Problem, collecting, refused
from sweeps.files import opened

# Of a file.
MOST_BYTES = 2**28

# Of a column of texts in an .npz, where each takes as much as the longest.
MOST_TEXT_BYTES = 2**29

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
    columns: dict[str, Any] = _arrow(path) if path.suffix.lower() in ARROW else _arrays(path)
    if not columns:
        raise refused(path, "no columns", "i, j and the others of an annotation file")
    lengths: dict[str, int] = {name: len(values) for name, values in columns.items()}
    if len({*lengths.values()}) > 1:
        found = ", ".join(f"{length:,} of {name[:60]!r}" for name, length in [*lengths.items()][:10])
        raise refused(path, found, "as many values in each array")
    n_rows: int = max(lengths.values())
    if n_rows > MOST_LINES:
        raise refused(path, f"{n_rows:,} rows", f"at most {MOST_LINES:,}")
    codes, cells = dict[str, Codes](), dict[str, list[str]]()
    problems: list[Problem] = []
    for name, values in columns.items():
        with collecting(problems):
            codes[name], cells[name] = _distinct(f"{path}, column {name[:60]!r}", values)
    if problems:
        raise InputError(problems)
    return Stored(path, Distinct(1, codes, cells))


def _distinct(where: str, values: Any) -> tuple[Codes, list[str]]:
    """Codes and texts of a column."""
    import pandas as pd

    codes, found = pd.factorize(values)
    texts = [_text(each) for each in found]
    if wrong := [each for each, text in zip(found, texts, strict=True) if text is None]:
        raise refused(where, f"{str(wrong[0])[:60]!r}", "numbers or texts")
    if (codes < 0).any():  # missing
        codes = np.where(codes < 0, len(texts), codes)
        texts.append("")
    return codes, [text for text in texts if text is not None]


def _text(value: Any) -> str | None:
    is_cell = isinstance(value, str | bytes | bool | np.bool_ | int | np.integer | float | np.floating)
    return text_of(value) if is_cell else None


def _arrow(path: Path) -> dict[str, Any]:
    need(path, "pyarrow")
    import pyarrow as pa
    from pyarrow import feather, parquet

    kind = "parquet" if path.suffix.lower() in (".parquet", ".pq") else "feather"
    with unbroken(path, f"a {kind} file"), opened(path, MOST_BYTES) as file:
        if kind == "parquet":
            stored = parquet.ParquetFile(file, pre_buffer=False)
            rows, n_columns = stored.metadata.num_rows, stored.metadata.num_columns
            if rows > MOST_LINES or n_columns > MOST_COLUMNS:
                found, most = f"{rows:,} rows of {n_columns:,} columns", f"{MOST_LINES:,} of {MOST_COLUMNS}"
                raise refused(path, found, f"at most {most}")
            table = stored.read(use_threads=False)
        else:
            table = feather.read_table(file, memory_map=False)
        names = [str(name) for name in table.column_names]
        problems = [
            Problem(str(path), f"several columns {name!r}", "one of each name")
            for name in dict.fromkeys(names)
            if names.count(name) > 1
        ]
        for field in table.schema:
            kind_of = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
            if not (
                _is_number(pa, kind_of)
                or pa.types.is_string(kind_of)
                or pa.types.is_large_string(kind_of)
                or pa.types.is_binary(kind_of)
            ):
                where = f"{path}, column {field.name[:60]!r}"
                problems.append(Problem(where, str(field.type)[:60], "numbers or texts"))
        if problems:
            raise InputError(problems)
        # an index that pandas stored beside the columns is none of them
        return {
            name: column.to_pandas(integer_object_nulls=True)
            for name, column in zip(names, table.columns, strict=True)
            if not name.startswith("__index_level_")
        }


def _is_number(pa: Any, kind: Any) -> bool:
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_null(kind)
    )


def _arrays(path: Path) -> dict[str, NDArray[Any]]:
    found: dict[str, NDArray[Any]] = {}
    problems: list[Problem] = []
    with unbroken(path, "an .npz file"), opened(path, MOST_BYTES) as file, zipfile.ZipFile(file) as archive:
        if len(archive.infolist()) > MOST_COLUMNS:
            raise refused(path, f"{len(archive.infolist()):,} arrays", f"at most {MOST_COLUMNS}")
        for name, member in members_of(path, archive).items():
            with collecting(problems), archive.open(member) as stream:
                found[name] = read_array(stream, f"{path}, array {name[:60]!r}", member.file_size, _no_column)
    if problems:
        raise InputError(problems)
    return found


def _no_column(header: Header) -> str:
    """What is expected in place of an array that is no column; nothing of one that is."""
    if len(header.shape) != 1 or header.dtype.kind not in "biufUS":
        return "numbers or texts of shape (annotations,)"
    if header.shape[0] > MOST_LINES:
        return f"at most {MOST_LINES:,} values"
    return "" if header.n_bytes <= MOST_TEXT_BYTES else f"at most {MOST_TEXT_BYTES:,} bytes"
