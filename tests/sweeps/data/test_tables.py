"""A user's own tables and label files: what is read, and everything that is said about a bad one."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeps.data.classes import read_labels
from sweeps.data.reading import read_table
from sweeps.errors import InputError


def write(tmp_path: Path, text: str, name: str = "own.csv") -> Path:
    path = tmp_path / name
    path.write_bytes(text.encode())
    return path


def problems(path: Path, label_column: str | int | None = None) -> list[str]:
    with pytest.raises(InputError) as caught:
        read_table(path, label_column=label_column)
    return [str(problem).replace(str(path), "FILE") for problem in caught.value.problems]


@pytest.mark.parametrize(
    "text",
    [
        "1,2.5\n-3,4e1\n",
        "1, 2.5\r\n-3 ,4e1\r\n",
        "1\t2.5\n-3\t4e1",
        "  1   2.5 \n\n# a remark\n -3 \t 4e1\n".replace("\t", " "),
        "\ufeff1 2.5\n-3 4e1\n",
        "a,b\n1,2.5\n-3,4e1\n",
        '"width, cm","b"\n1,2.5\n-3,4e1\n',
        "a b\n1 2.5\n-3 4e1\n",
        '"1","2.5"\n"-3","4e1"\n',
    ],
)
def test_features_of_every_format(text: str, tmp_path: Path) -> None:
    table = read_table(write(tmp_path, text))
    assert table.X.tolist() == [[1, 2.5], [-3, 40]]
    assert table.X.dtype == np.float64
    assert table.labels_true is None
    assert table.class_names == ()


@pytest.mark.parametrize("label_column", ["kind", 1, -2])
def test_label_column_by_name_and_position(label_column: str | int, tmp_path: Path) -> None:
    table = read_table(write(tmp_path, "a,kind,b\n1,u,2\n3,o,4\n5,u,7\n"), label_column=label_column)
    assert table.X.tolist() == [[1, 2], [3, 4], [5, 7]]
    assert table.labels_true is not None
    assert table.labels_true.tolist() == [1, 0, 1]
    assert table.labels_true.dtype == np.int16
    assert table.class_names == ("o", "u")


def test_text_class_in_the_first_row_does_not_make_it_a_header(tmp_path: Path) -> None:
    table = read_table(write(tmp_path, "5.1,Iris-setosa\n4.9,Iris-virginica\n"), label_column=-1)
    assert table.X.tolist() == [[5.1], [4.9]]


def test_header_of_numbers_is_known_by_the_label_column(tmp_path: Path) -> None:
    table = read_table(write(tmp_path, "0,1,class\n5,6,a\n7,8,b\n"), label_column="class")
    assert table.X.tolist() == [[5, 6], [7, 8]]


def test_classes_that_are_numbers_are_sorted_as_numbers(tmp_path: Path) -> None:
    table = read_table(write(tmp_path, "1 10\n2 9\n3 9.0\n4 -1\n"), label_column=1)
    assert table.labels_true is not None
    assert table.labels_true.tolist() == [2, 1, 1, 0]
    assert table.class_names == ("-1", "9", "10")


def test_every_problem_of_a_table_at_once(tmp_path: Path) -> None:
    text = "a,b,kind\n1,2,x\n3,4\n5,nan,y\n-inf,6,\nO.5,,x\n1_000,7,x,8\n"
    assert problems(write(tmp_path, text), "kinds") == [
        "FILE, line 3: found 2 cells, expected 3 as in the other rows",
        "FILE, line 7: found 4 cells, expected 3 as in the other rows",
        "FILE, label_column: found 'kinds', expected one of a, b, kind (did you mean 'kind'?)",
        "FILE, column 3 (kind): found no number, first 'x', expected numbers "
        "(name it as label_column if it holds the classes)",
        "FILE, line 4, column 2 (b): found 'nan', expected a finite number",
        "FILE, line 5, column 1 (a): found '-inf', expected a finite number",
        "FILE, line 6, column 1 (a): found 'O.5', expected a finite number",
        "FILE, line 6, column 2 (b): found an empty cell, expected a finite number",
    ]


@pytest.mark.parametrize(
    ("text", "label_column", "found"),
    [
        ("", None, "FILE: found no rows, expected at least one sample"),
        ("\n# only a remark\n", None, "FILE: found no rows, expected at least one sample"),
        ("a,b\n", None, "FILE: found no rows, expected at least one sample"),
        ("x\ny\nx\n", 0, "FILE: found no column beside the classes, expected at least one feature"),
        ("1 2\n3 4\n", 2, "FILE, label_column: found 2, expected -2 to 1 (columns are counted from 0)"),
        ("1 2\n3 4\n", -3, "FILE, label_column: found -3, expected -2 to 1 (columns are counted from 0)"),
        ("1 2\n3 4\n", "y", "FILE, label_column: found 'y', expected one of -2 to 1 "
         "(the file has no header; give a position)"),
        ("y,y\n3,4\n", "y", "FILE, label_column: found 'y', expected one of y, y "
         "(several columns have that name; give a position)"),
        ("a,b,c\n1,2\n3,4\n", None, "FILE, line 1: found 3 cells, expected 2 as in the other rows"),
        ("1,x\n2,\n", 1, "FILE, line 2, column 2: found an empty cell, expected a class"),
        ("1,1\n2,nan\n", 1, "FILE, line 2, column 2: found NaN, expected a class"),
        ("1,2\n1,2\n", None, "FILE: found 2 rows without any variance, expected samples that differ"),
        ("1e300\n-1e300\n", None, "FILE: found values whose squares overflow, expected smaller values "
         "(use another unit)"),
        ("1,2\n1_000,3\n", None, "FILE, line 2, column 1: found '1_000', expected a finite number"),
        ("1\0,2\n", None, "FILE: found NUL characters, expected a text file"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_table(
    text: str, label_column: str | int | None, found: str, tmp_path: Path
) -> None:
    assert problems(write(tmp_path, text), label_column) == [found]


def test_the_commonest_width_is_the_right_one(tmp_path: Path) -> None:
    assert problems(write(tmp_path, "1,2,3\n4,5\n6,7\n")) == [
        "FILE, line 1: found 3 cells, expected 2 as in the other rows"
    ]


def test_a_flood_of_problems_is_cut_short(tmp_path: Path) -> None:
    found = problems(write(tmp_path, "0,0\n" + "nan,1\n" * 100))
    assert len(found) == 21
    assert found[-1] == "FILE: found 80 more problems like these, expected none"


def test_more_classes_than_codes(tmp_path: Path) -> None:
    path = write(tmp_path, "".join(f"{i} c{i}\n" for i in range(32769)))
    assert problems(path, 1)[0] == (
        "FILE, line 1, column 2: found the first of 32769 classes, expected at most 32768 (is it a feature?)"
    )


def test_paths_that_cannot_be_read(tmp_path: Path) -> None:
    assert problems(tmp_path / "absent.csv") == [
        "FILE: found No such file or directory, expected a readable file"
    ]
    assert problems(tmp_path / "absent.npz") == [
        "FILE: found No such file or directory, expected a readable file"
    ]
    assert problems(tmp_path) == ["FILE: found Is a directory, expected a readable file"]
    binary = tmp_path / "binary.csv"
    binary.write_bytes(b"1,2\n\xff\xfe\n")
    assert problems(binary) == ["FILE: found byte 0xff at offset 4, expected a text file in UTF-8"]


@given(
    st.lists(
        st.tuples(
            *[st.floats(allow_nan=False, allow_infinity=False, width=64, min_value=-1e9, max_value=1e9)] * 3
        ),
        min_size=2,
        max_size=8,
    ).filter(lambda rows: np.var(rows, axis=0).sum() > 0),
    st.sampled_from([",", "\t", "  ", " , "]),
)
def test_written_floats_are_read_to_the_bit(rows: list[tuple[float, ...]], separator: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "own.txt"
        path.write_text("".join(separator.join(map(repr, row)) + "\n" for row in rows))
        assert np.array_equal(read_table(path).X, np.array(rows))


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
         ["FILE, X[0, 1]: found nan, expected a finite number",
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
    assert found.startswith("FILE, array 'y': found Object arrays cannot be loaded")


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
