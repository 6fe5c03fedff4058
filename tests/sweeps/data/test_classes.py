"""Classes of samples as codes, and files of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from own_tables import problems, write

from sweeps.data.classes import encode_classes, read_labels
from sweeps.errors import InputError


def test_more_classes_than_codes(tmp_path: Path) -> None:
    path = write(tmp_path, "".join(f"{i} c{i}\n" for i in range(32769)))
    assert problems(path, 1)[0] == (
        "FILE, line 1, column 2: found the first of 32769 classes, expected at most 32768 (is it a feature?)"
    )


@pytest.mark.parametrize(
    ("text", "codes", "class_names"),
    [
        ("2\n1\n10\n", [1, 0, 2], ("1", "2", "10")),
        ("2,1,10", [1, 0, 2], ("1", "2", "10")),
        ("2 1\n10", [1, 0, 2], ("1", "2", "10")),
        ("2\t1\n\n10\n", [1, 0, 2], ("1", "2", "10")),
        ("class\n2\n1\n", [1, 0], ("1", "2")),
        ("b\na\nb\n", [1, 0, 1], ("a", "b")),
        ("7", [0], ("7",)),
    ],
)
def test_label_files(text: str, codes: list[int], class_names: tuple[str, ...], tmp_path: Path) -> None:
    found, names = read_labels(write(tmp_path, text))
    assert found.tolist() == codes
    assert found.dtype == np.int16
    assert names == class_names


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", "no classes"),
        ("# none\n", "no classes"),
        ("1\nnan\n", "line 2: found NaN"),
        ("1,,2\n", "an empty cell"),
    ],
)
def test_what_is_wrong_with_a_label_file(text: str, found: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=found):
        read_labels(write(tmp_path, text))


def place(position: int) -> str:
    return f"line {position + 1}"


@given(st.lists(st.sampled_from(["2", "10", "1e1", "a", "-0.0", "0", "inf", "b c"]), min_size=1))
def test_codes_follow_the_sorted_classes(values: list[str]) -> None:
    """Equal codes where the classes are equal; as numbers where all are finite numbers."""
    codes, names = encode_classes(values, place)
    numeric = not {"a", "inf", "b c"} & set(values)
    keys = [float(value) if numeric else value for value in values]
    order = sorted(set(keys))
    assert codes.tolist() == [order.index(key) for key in keys]
    assert names == tuple(next(v for v, k in zip(values, keys, strict=True) if k == key) for key in order)
    assert codes.dtype == np.int16


def test_every_missing_class_is_named() -> None:
    values = ["a", "", "NaN", "b", "nan"]
    with pytest.raises(InputError) as caught:
        encode_classes(values, place)
    assert [str(problem) for problem in caught.value.problems] == [
        "line 2: found an empty cell, expected a class",
        "line 3: found NaN, expected a class",
        "line 5: found NaN, expected a class",
    ]


@pytest.mark.parametrize(
    ("text", "n_rows", "classes"),
    [
        ("Iris setosa\nIris virginica\n", 2, ("Iris setosa", "Iris virginica")),
        ("kind of iris\n1\n2\n", 2, ("1", "2")),
        ('"a, b"\nc\n', 2, ("a, b", "c")),
        ("index,Label\nr1,x y\nr2,z\n", 2, ("x y", "z")),
        ("index;label\nr1;x y\nr2;z\n", 2, ("x y", "z")),
        ("a b\n", 2, ("a", "b")),
        ("x\nx\ny\n", 2, ("x", "y")),
    ],
)
def test_a_line_is_a_class_where_there_are_as_many_as_rows(
    text: str, n_rows: int, classes: tuple[str, ...], tmp_path: Path
) -> None:
    path = tmp_path / "labels.txt"
    path.write_text(text)
    assert read_labels(path, n_rows)[1] == classes
