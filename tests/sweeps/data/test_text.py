"""A user's own table as text: what is read, and everything that is said about a wrong one."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from own_tables import problems, write

from sweeps.data.reading import read_table


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
