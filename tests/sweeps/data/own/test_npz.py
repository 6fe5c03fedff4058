"""A user's own table as arrays: what is read, and everything that is said about a wrong one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from own_tables import problems

from sweeps.data.own.reading import read_table
from sweeps.errors import InputError


@pytest.mark.parametrize("name", ["y", "labels", "labels_true"])
def test_npz_with_and_without_classes(name: str, tmp_path: Path) -> None:
    path = tmp_path / "own.npz"
    X = np.array([[1, 2], [3, 4], [5, 7]], dtype=np.int32)
    np.savez(path, X=X)
    assert read_table(path).labels_true is None
    np.savez_compressed(path, X=X, **{name: np.array(["b", "a", "b"])})
    table = read_table(path)
    assert table.X.dtype == np.float64
    assert table.X.tolist() == X.tolist()
    assert table.labels_true is not None
    assert table.labels_true.tolist() == [1, 0, 1]
    assert table.class_names == ("a", "b")


def test_npz_array_of_classes_by_name(tmp_path: Path) -> None:
    path = tmp_path / "own.npz"
    np.savez(path, X=np.arange(6).reshape(3, 2), y=[0, 0, 0], species=[10, 9, 10])
    table = read_table(path, label_column="species")
    assert table.class_names == ("9", "10")


X_GOOD = np.arange(6.0).reshape(3, 2)


@pytest.mark.parametrize(
    ("arrays", "label_column", "found"),
    [
        ({"x": X_GOOD}, None, ["FILE: found arrays x, expected an array 'X'"]),
        ({"X": X_GOOD[0]}, None, ["FILE, array 'X': found shape (2,) of type float64, "
                                  "expected numbers of shape (samples, features)"]),
        ({"X": X_GOOD * 1j}, None, ["FILE, array 'X': found shape (3, 2) of type complex128, "
                                    "expected numbers of shape (samples, features)"]),
        ({"X": X_GOOD[:0]}, None, ["FILE, array 'X': found shape (0, 2), "
                                   "expected at least one sample and one feature"]),
        ({"X": np.array([[1, np.nan], [np.inf, 2]])}, None,
         ["FILE, X[0, 1]: found nan, expected a finite number (missing = \"drop\" leaves out such rows)",
          "FILE, X[1, 0]: found inf, expected a finite number"]),
        ({"X": X_GOOD, "y": [0, 1]}, None, ["FILE: found 2 classes, expected one for each of 3 rows"]),
        ({"X": X_GOOD, "y": [0.0, np.nan, 1.0]}, None, ["FILE, y[1]: found NaN, expected a class"]),
        ({"X": X_GOOD, "y": [[0], [1], [2]]}, None,
         ["FILE, array 'y': found shape (3, 1) of type int64, "
          "expected whole numbers or texts of shape (samples,)"]),
        ({"X": X_GOOD, "y": [0, 1, 1], "labels": [0, 1, 1]}, None,
         ["FILE: found arrays 'y' and 'labels', expected one of them (name it as label_column)"]),
        ({"X": X_GOOD, "kinds": [0, 1, 1]}, "kind",
         ["FILE: found arrays X, kinds, expected an array 'kind' (did you mean 'kinds'?)"]),
        ({"X": X_GOOD, "y": [0, 1, 1]}, 1,
         ["FILE, label_column: found 1, expected the name of an array (it is an .npz file)"]),
        ({"X": X_GOOD[:, :0], "y": []}, None,
         ["FILE, array 'X': found shape (3, 0), expected at least one sample and one feature",
          "FILE, array 'y': found shape (0,) of type float64, "
          "expected whole numbers or texts of shape (samples,)"]),
    ],
)  # fmt: skip
def test_what_is_wrong_with_an_npz(
    arrays: dict[str, np.ndarray], label_column: str | int | None, found: list[str], tmp_path: Path
) -> None:
    path = tmp_path / "own.npz"
    np.savez(path, **arrays)
    assert problems(path, label_column) == found


def test_pickles_in_an_npz_are_not_opened(tmp_path: Path) -> None:
    path = tmp_path / "own.npz"
    np.savez(path, X=X_GOOD, y=np.array([{}, [], ()], dtype=object))
    (found,) = problems(path)
    assert found == "FILE, array 'y': found objects (a pickle), expected an array without objects"


@pytest.mark.parametrize("content", [b"", b"1,2\n", b"PK\3\4 and no more"])
def test_npz_that_is_none(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "own.npz"
    path.write_bytes(content)
    (found,) = problems(path)
    assert found.startswith("FILE: found a broken file (")
    assert found.endswith("), expected an .npz file")


def test_damaged_npz_member(tmp_path: Path) -> None:
    path = tmp_path / "own.npz"
    np.savez_compressed(path, X=np.random.default_rng(0).normal(size=(100, 5)))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)
    (found,) = problems(path)
    assert found.startswith("FILE: found a broken file (")


def test_arrays_of_texts_beside_the_features(tmp_path: Path) -> None:
    path = tmp_path / "own.npz"
    np.savez(path, X=X_GOOD, name=["Ann", "Bob", "Eve"], number=[1, 2, 3], short=["a"])
    table = read_table(path, aside=("number", "name"))
    assert table.aside == (("1", "2", "3"), ("Ann", "Bob", "Eve"))
    with pytest.raises(InputError) as caught:
        read_table(path, aside=("nam", "short"))
    assert [str(each).replace(str(path), "FILE") for each in caught.value.problems] == [
        "FILE: found arrays X, name, number, short, expected an array 'nam' (did you mean 'name'?)"
    ]
    with pytest.raises(InputError, match="found 1 texts, expected one for each of 3 rows"):
        read_table(path, aside=("short",))
