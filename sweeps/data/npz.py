"""A user's table as arrays in an .npz file."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweeps.data.classes import Encoded, encode_classes
from sweeps.data.lines import unreadable
from sweeps.data.tables import LabelledTable
from sweeps.errors import InputError, Problem, collecting, did_you_mean

FEATURES = "X"
CLASSES = ("y", "labels", "labels_true")


def read_npz_table(path: Path, label_column: str | int | None) -> LabelledTable:
    """Read the array `X` and the classes of an .npz file; pickled arrays are refused.

    Parameters
    ----------
    path : Path
        The file.
    label_column : str, int or None
        Name of the array of classes; None for the one of `CLASSES` that is there, if any.

    Raises
    ------
    InputError
        With every problem of the file.
    """
    problems: list[Problem] = []
    X, encoded = np.empty((0, 0)), None
    try:
        with path.open("rb") as stream, zipfile.ZipFile(stream) as archive:
            names = [name.removesuffix(".npy") for name in archive.namelist()]
        with np.load(path, allow_pickle=False) as arrays:
            with collecting(problems):
                X = _features(path, arrays, names)
            with collecting(problems):
                encoded = _classes(path, arrays, names, label_column)
    except OSError as error:
        raise InputError([unreadable(path, error)]) from error
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise InputError([Problem(str(path), f"a broken file ({error})", "an .npz file")]) from error
    if not problems and encoded is not None and len(encoded[0]) != len(X):
        problems.append(Problem(str(path), f"{len(encoded[0])} classes", f"one for each of {len(X)} rows"))
    if problems:
        raise InputError(problems)
    codes, class_names = encoded or (None, ())
    return LabelledTable(X, codes, class_names)


def _features(path: Path, arrays: Any, names: list[str]) -> NDArray[np.float64]:
    X = _array(path, arrays, names, FEATURES)
    where = f"{path}, array {FEATURES!r}"
    if X.ndim != 2 or X.dtype.kind not in "biuf":
        found = f"shape {X.shape} of type {X.dtype}"
        raise InputError([Problem(where, found, "numbers of shape (samples, features)")])
    if 0 in X.shape:
        raise InputError([Problem(where, f"shape {X.shape}", "at least one sample and one feature")])
    X = X.astype(np.float64)
    not_finite = np.argwhere(~np.isfinite(X)).tolist()
    if not_finite:
        raise InputError(
            Problem(f"{path}, {FEATURES}[{row}, {column}]", str(X[row, column]), "a finite number")
            for row, column in not_finite
        )
    return X


def _classes(path: Path, arrays: Any, names: list[str], label_column: str | int | None) -> Encoded | None:
    candidates = [name for name in CLASSES if name in names] if label_column is None else [label_column]
    if not candidates:
        return None
    name = candidates[0]
    if len(candidates) > 1:
        found = " and ".join(map(repr, candidates))
        raise InputError([Problem(str(path), f"arrays {found}", "one of them", "name it as label_column")])
    if not isinstance(name, str):
        expected = "the name of an array"
        raise InputError([Problem(f"{path}, label_column", str(name), expected, "it is an .npz file")])
    values = _array(path, arrays, names, name)
    if values.ndim != 1 or values.dtype.kind not in "biufU" or not values.size:
        found = f"shape {values.shape} of type {values.dtype}"
        problem = Problem(f"{path}, array {name!r}", found, "whole numbers or texts of shape (samples,)")
        raise InputError([problem])
    where = [f"{path}, {name}[{row}]" for row in range(len(values))]
    return encode_classes([str(value) for value in values.tolist()], where)


def _array(path: Path, arrays: Any, names: list[str], name: str) -> NDArray[Any]:
    if name not in names:
        expected = f"an array {name!r}"
        raise InputError(
            [Problem(str(path), f"arrays {', '.join(names)}", expected, did_you_mean(name, names))]
        )
    try:
        array: NDArray[Any] = arrays[name]
    except ValueError as error:
        raise InputError(
            [Problem(f"{path}, array {name!r}", str(error), "an array without objects")]
        ) from error
    return array
