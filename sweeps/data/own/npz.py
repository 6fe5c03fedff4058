"""A user's table as arrays in an .npz file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweeps.data.own.arrays import (
    BROKEN,
    MOST_BYTES,
    MOST_ROWS,
    MOST_TEXT_BYTES,
    Archive,
    Header,
    opened,
    read_header,
    read_values,
)
from sweeps.data.own.choice import TableChoice, positions
from sweeps.data.own.columns import Numbers, check_size, each_once
from sweeps.data.own.frames import Frame
from sweeps.data.own.select import select
from sweeps.data.tables import LabelledTable
from sweeps.errors import InputError, Problem, collecting, did_you_mean
from sweeps.files import opened as opened_file

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
    with opened(path) as archive:
        with collecting(problems):
            X = _features(path, archive)
        with collecting(problems):
            label = _label(path, archive, choice)
        names = [*([label] if label else []), *_array_names(path, choice, problems), *choice.aside]
        for name in dict.fromkeys(names):
            with collecting(problems):
                texts[name] = _texts(path, archive, name)
    if not problems:
        problems += [_length_problem(path, name, len(each), X, label) for name, each in texts.items()
                     if len(each) != len(X)]  # fmt: skip
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
        with opened_file(path, MOST_BYTES) as file:
            header = read_header(file, where)
            if header.dtype.hasobject:
                raise InputError([Problem(where, "objects (a pickle)", "an array without objects")])
            _check_features(where, header)
            X = read_values(file, header, np.dtype(np.float64))
    except BROKEN as error:
        raise InputError([Problem(where, f"a broken file ({error})", "an .npy file")]) from error
    return _selected(path, X, {}, None, choice)


@dataclass(frozen=True, eq=False)
class _Arrays(Frame):
    """An array of numbers, used as it is, with texts beside it."""

    X: NDArray[np.float64] = field(default_factory=lambda: np.empty((0, 0)))

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


def _features(path: Path, archive: Archive) -> NDArray[np.float64]:
    header = _header(path, archive, FEATURES)
    _check_features(f"{path}, array {FEATURES!r}", header)
    return archive.read(FEATURES, np.float64)


def _check_features(where: str, header: Header) -> None:
    if len(header.shape) != 2 or header.dtype.kind not in "biuf":
        raise _wrong(where, header, "numbers of shape (samples, features)")
    if 0 in header.shape:
        raise InputError([Problem(where, f"shape {header.shape}", "at least one sample and one feature")])
    check_size(where, *header.shape, MOST_ROWS)


def _length_problem(path: Path, name: str, length: int, X: NDArray[np.float64], label: str | None) -> Problem:
    expected = f"one for each of {len(X)} rows"
    if name == label:
        return Problem(str(path), f"{length} classes", expected)
    return Problem(f"{path}, array {name!r}", f"{length} texts", expected)


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
