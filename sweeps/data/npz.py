"""A user's table as arrays in an .npz file."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweeps.data.arrays import MOST_BYTES, MOST_ROWS, Archive, Header, opened
from sweeps.data.classes import Encoded, encode_classes
from sweeps.data.lines import counted
from sweeps.data.tables import LabelledTable
from sweeps.errors import InputError, Problem, collecting, did_you_mean

FEATURES = "X"
CLASSES = ("y", "labels", "labels_true")


def read_npz_table(path: Path, label_column: str | int | None, aside: Sequence[str] = ()) -> LabelledTable:
    """Read the array `X` and the classes of an .npz file; pickled arrays are refused.

    Parameters
    ----------
    path : Path
        The file.
    label_column : str, int or None
        Name of the array of classes; None for the one of `CLASSES` that is there, if any.
    aside : sequence of str
        Names of arrays with a text, or a number, for each sample.

    Raises
    ------
    InputError
        With every problem of the file.
    """
    problems: list[Problem] = []
    X, encoded = np.empty((0, 0)), None
    texts: list[list[str]] = []
    with opened(path) as archive:
        with collecting(problems):
            X = _features(path, archive)
        with collecting(problems):
            encoded = _classes(path, archive, label_column)
        for name in aside:
            with collecting(problems):
                texts.append(_texts(path, archive, name))
    expected = f"one for each of {len(X)} rows"
    if not problems and encoded is not None and len(encoded[0]) != len(X):
        problems.append(Problem(str(path), f"{len(encoded[0])} classes", expected))
    if not problems:
        lengths = {name: len(each) for name, each in zip(aside, texts, strict=True)}
        problems += [
            Problem(f"{path}, array {name!r}", f"{length} texts", expected)
            for name, length in lengths.items()
            if length != len(X)
        ]
    if problems:
        raise InputError(problems)
    codes, class_names = encoded or (None, ())
    return LabelledTable(X, codes, class_names, (), tuple(map(tuple, texts)))


def _features(path: Path, archive: Archive) -> NDArray[np.float64]:
    header = _header(path, archive, FEATURES)
    where = f"{path}, array {FEATURES!r}"
    if len(header.shape) != 2 or header.dtype.kind not in "biuf":
        raise _wrong(where, header, "numbers of shape (samples, features)")
    if 0 in header.shape:
        raise InputError([Problem(where, f"shape {header.shape}", "at least one sample and one feature")])
    if header.shape[0] > MOST_ROWS or math.prod(header.shape) * 8 > MOST_BYTES:
        most = f"at most {MOST_ROWS:,} samples, and {MOST_BYTES // 8:,} numbers"
        raise _wrong(where, header, most)
    with np.errstate(over="ignore"):  # of a type with a wider range: infinite, and a problem below
        X = np.ascontiguousarray(archive.read(FEATURES), dtype=np.float64)
    wrong = np.flatnonzero(~np.isfinite(X)).tolist()
    if wrong:
        raise InputError(counted(wrong, lambda i: _number_problem(path, X, *divmod(i, X.shape[1]))))
    return X


def _number_problem(path: Path, X: NDArray[np.float64], row: int, column: int) -> Problem:
    return Problem(f"{path}, {FEATURES}[{row}, {column}]", str(X[row, column]), "a finite number")


def _classes(path: Path, archive: Archive, label_column: str | int | None) -> Encoded | None:
    candidates = (
        [name for name in CLASSES if name in archive.names] if label_column is None else [label_column]
    )
    if not candidates:
        return None
    name = candidates[0]
    if len(candidates) > 1:
        found = " and ".join(map(repr, candidates))
        raise InputError([Problem(str(path), f"arrays {found}", "one of them", "name it as label_column")])
    if not isinstance(name, str):
        expected = "the name of an array"
        raise InputError([Problem(f"{path}, label_column", str(name), expected, "it is an .npz file")])
    texts = _texts(path, archive, name)
    return encode_classes(texts, lambda row: f"{path}, {name}[{row}]")


def _texts(path: Path, archive: Archive, name: str) -> list[str]:
    header = _header(path, archive, name)
    where = f"{path}, array {name!r}"
    if len(header.shape) != 1 or header.dtype.kind not in "biufU" or not header.n_bytes:
        raise _wrong(where, header, "whole numbers or texts of shape (samples,)")
    if header.shape[0] > MOST_ROWS:
        raise _wrong(where, header, f"at most {MOST_ROWS:,} samples")
    values = archive.read(name)
    if values.dtype.kind == "U" and not _is_text(values):
        raise InputError([Problem(where, "numbers that stand for no character", "texts in Unicode")])
    return [str(value) for value in values.tolist()]


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
