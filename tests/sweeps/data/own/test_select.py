"""Which columns and rows of a table become samples, and everything that is said where they cannot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from own_tables import write

from sweeps.data.own.choice import TableChoice
from sweeps.data.own.reading import read_table
from sweeps.data.tables import LabelledTable
from sweeps.errors import InputError

MESSY = """\
,plant,nr,width,height,colour,kind
0,Ann,1,1.5,2,red,Iris setosa
1,Bob,2,,3,pale blue,Iris setosa
2,Eve,3,2.5,4,red,Iris virginica
3,Kim,4,3.5,NA,pale blue,Iris virginica
4,Lee,5,4.5,6,pale blue,Iris virginica
5,Zoe,6,5.5,7,pale blue,
"""
COLOURS = ["red", "pale blue", "red", "pale blue", "pale blue", "pale blue"]
TEXTS = (
    "expected numbers (name it as label_column if it holds the classes, or as index_column if it holds names;"
    ' else drop it, or categories = "onehot")'
)
TOLD: dict[str, Any] = {"index_column": "plant", "label_column": "kind", "drop": (0, "nr")}


def read(tmp_path: Path, text: str = MESSY, **told: Any) -> LabelledTable:
    return read_table(write(tmp_path, text), TableChoice(**told))


def said(tmp_path: Path, text: str = MESSY, **told: Any) -> list[str]:
    path = write(tmp_path, text)
    with pytest.raises(InputError) as caught:
        read_table(path, TableChoice(**told))
    return [str(problem).replace(str(path), "FILE") for problem in caught.value.problems]


def test_a_messy_table_without_cleaning(tmp_path: Path) -> None:
    table = read(tmp_path, missing="drop", categories="onehot", **TOLD)
    assert table.feature_names == ("width", "height", "colour=pale blue", "colour=red")
    assert table.X.tolist() == [[1.5, 2, 0, 1], [2.5, 4, 0, 1], [4.5, 6, 1, 0]]
    assert table.class_names == ("Iris setosa", "Iris virginica")
    assert table.labels_true is not None
    assert table.labels_true.tolist() == [0, 1, 1]
    assert table.sample_names == ("Ann", "Eve", "Lee")
    assert table.rows is not None
    assert table.rows.n_rows == 6
    assert table.rows.kept is not None
    assert table.rows.kept.tolist() == [0, 2, 4]
    assert table.rows.names == ("Ann", "Bob", "Eve", "Kim", "Lee", "Zoe")
    assert table.notes == (
        '3 of 6 rows have an empty cell and are left out (missing = "drop"): '
        "Bob (row 2), Kim (row 4), Zoe (row 6)",
        "features used: width, height, colour=pale blue, colour=red (4)",
    )


def test_what_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    empty = '(missing = "drop" leaves out such rows)'
    assert said(tmp_path, **TOLD) == [
        f"FILE, column 6 (colour): found no number, first 'red', {TEXTS}",
        f"FILE, line 3, column 4 (width): found an empty cell, expected a finite number {empty}",
        f"FILE, line 5, column 5 (height): found 'NA', expected a finite number {empty}",
        "FILE, line 7, column 7 (kind): found an empty cell, expected a class",
    ]


def test_options_are_named_where_options_were_given(tmp_path: Path) -> None:
    found = said(tmp_path, as_options=True, columns=("widht",), label_column="nr", index_column="nr")
    assert found[:2] == [
        "FILE, --index-column: found column 3 (nr), which is --label-column as well, expected another column",
        "FILE, --columns: found 'widht', expected one of '', plant, nr, width, height, colour, kind"
        " (did you mean 'width'?)",
    ]
    assert "--missing drop leaves out such rows" in "".join(said(tmp_path, as_options=True))


@pytest.mark.parametrize(
    ("told", "found"),
    [
        ({"columns": ("height", "width"), "drop": ("nr",)},
         ["FILE, drop: found columns as well, expected one of them"
          " (what columns does not name is no feature already)"]),
        ({"columns": ("nr", "nr")}, ["FILE, columns: found 'nr' again, expected each column once"]),
        ({"columns": ("nr", "plant"), "index_column": "plant"},
         ["FILE, columns: found column 2 (plant), which is index_column, expected features alone",
          f"FILE, column 2 (plant): found no number, first 'Ann', {TEXTS}"]),
        ({"columns": ("nr",), "index_column": "colour"},
         [f"FILE, line {line}, column 6 (colour): found {name!r}, more than once, expected another name in"
          " each row, as index_column" for line, name in enumerate(COLOURS, start=2)]),
        ({"columns": ("plant",), "categories": "onehot"},
         ["FILE, column 2 (plant): found 6 different texts in 6 rows, expected at most 100, and not another"
          " one in each row (names of samples are no feature: drop it, or name it as index_column)"]),
        ({"missing": "dropp", "categories": "one-hot"},
         ["FILE, missing: found 'dropp', expected one of error, drop (did you mean 'drop'?)",
          "FILE, categories: found 'one-hot', expected one of error, onehot (did you mean 'onehot'?)"]),
        ({"sheet": 1}, ["FILE, sheet: found 1, expected nothing: it is no .xlsx workbook"]),
        ({"drop": (9,)}, ["FILE, drop: found 9, expected -7 to 6 (columns are counted from 0)"]),
    ],
)  # fmt: skip
def test_choices_that_make_no_sense(told: dict[str, Any], found: list[str], tmp_path: Path) -> None:
    assert said(tmp_path, **told)[: len(found)] == found


def test_columns_in_the_order_told_by_name_position_or_both_with_commas(tmp_path: Path) -> None:
    table = read(tmp_path, "a,b,c,d\n1,2,3,x\n4,5,6,y\n", columns=("c", 0))
    assert table.X.tolist() == [[3, 1], [6, 4]]
    assert table.feature_names == ("c", "a")
    assert read(tmp_path, "a,b,c,d\n1,2,3,x\n4,5,6,y\n", columns=("b, -2",)).X.tolist() == [[2, 3], [5, 6]]


def test_a_row_is_not_left_out_for_what_is_no_missing_value(tmp_path: Path) -> None:
    assert said(tmp_path, "a,b\n1,2\n3,x\n,5\n6,inf\n", missing="drop") == [
        "FILE, line 3, column 2 (b): found 'x', expected a finite number",
        "FILE, line 5, column 2 (b): found 'inf', expected a finite number",
    ]


def test_no_row_without_an_empty_cell(tmp_path: Path) -> None:
    assert said(tmp_path, "a,b,c\n1,,3\n,4,1\n", missing="drop") == [
        "FILE, missing: found no row without an empty cell, expected one at least (drop the columns that are "
        "empty in most rows)"
    ]


def test_dropping_incomplete_rows_is_what_their_absence_is(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    lines = [",".join(map(repr, row)) for row in X.tolist()]
    holes = sorted(rng.choice(60, size=15, replace=False).tolist())
    with_holes = [
        ",".join(["?", *line.split(",")[1:]]) if n in holes else line for n, line in enumerate(lines)
    ]
    without = [line for n, line in enumerate(lines) if n not in holes]
    dropped = read(tmp_path, "a,b,c\n" + "\n".join(with_holes), missing="drop")
    assert dropped.X.tobytes() == read(tmp_path, "a,b,c\n" + "\n".join(without)).X.tobytes()
    assert dropped.checksum() == read(tmp_path, "a,b,c\n" + "\n".join(without)).checksum()


def test_a_column_of_one_kind_of_text_in_a_table_of_one_row(tmp_path: Path) -> None:
    assert said(tmp_path, "1,x\n") == ["FILE, line 1, column 2: found 'x', expected a finite number"]
