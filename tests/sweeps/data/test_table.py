"""Classes of samples as codes, and files of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from own_tables import problems, write

from sweeps.data import text as module
from sweeps.data.formats import Frame
from sweeps.data.reading import read_table
from sweeps.data.table import (
    Column,
    Columns,
    LabelledTable,
    TableChoice,
    encode_classes,
    position,
    positions,
    read_labels,
    scale,
)
from sweeps.data.text import Content
from sweeps.errors import InputError

# Checksum and scaling of a table.


def test_checksum_sees_values_shape_and_labels() -> None:
    X = np.arange(6.0).reshape(3, 2)
    labels = np.array([0, 1, 1], dtype=np.int16)
    tables = [
        LabelledTable(X, labels, ()),
        LabelledTable(X.reshape(2, 3), labels, ()),
        LabelledTable(X, None, ()),
        LabelledTable(X, labels[::-1], ()),
        LabelledTable(np.nextafter(X, 9), labels, ()),
    ]
    assert len({table.checksum() for table in tables}) == len(tables)
    same = LabelledTable(np.asfortranarray(X).astype(">f8"), labels.astype(np.int64), ("a", "b"))
    assert same.checksum() == tables[0].checksum()


def test_scaling_standard_and_minmax() -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(5, [1, 100, 0.01], size=(50, 3))
    standard = scale(X, "standard")
    np.testing.assert_allclose(standard.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose((standard**2).mean(axis=0), 1)
    np.testing.assert_allclose(standard * X.std(axis=0) + X.mean(axis=0), X)
    minmax = scale(X, "minmax")
    assert (minmax.min(axis=0) == 0).all()
    assert (minmax.max(axis=0) == 1).all()
    untouched = scale(X, "none")
    assert np.array_equal(untouched, X)
    assert not np.shares_memory(untouched, X)


@pytest.mark.parametrize("how", ["standard", "minmax"])
def test_scaling_turns_a_constant_column_into_zeros(how: str) -> None:
    # the computed standard deviation of 0.1 repeated 150 times is 2.8e-17, not 0
    X = np.column_stack([np.full(150, 0.1), np.arange(150.0)])
    assert (scale(X, how)[:, 0] == 0).all()


def test_unknown_scaling_is_refused() -> None:
    with pytest.raises(ValueError, match="'standart'"):
        scale(np.ones((2, 2)), "standart")


# Columns by name and by position: what is meant, and what is none of them.

HEADER = ["a", "b", "2", "b", "x, y"]


@pytest.mark.parametrize(("name", "expected"), [("a", 0), (1, 1), (-1, 4), ("2", 2), ("1", 1), ("x, y", 4)])
def test_a_name_comes_before_a_position(name: Column, expected: int) -> None:
    assert position(name, HEADER, 5, "FILE") == expected


@pytest.mark.parametrize(
    ("name", "header", "found"),
    [
        (
            "b",
            HEADER,
            "'b', expected one of a, b, 2, b, x, y (several columns have that name; give a position)",
        ),
        ("A", ["aa", "b"], "'A', expected one of aa, b"),
        ("bb", ["b", "a"], "'bb', expected one of b, a (did you mean 'b'?)"),
        ("a", [], "'a', expected one of -5 to 4 (the file has no header; give a position)"),
        (5, HEADER, "5, expected -5 to 4 (columns are counted from 0)"),
        ("-6", HEADER, "-6, expected -5 to 4 (columns are counted from 0)"),
    ],
)
def test_what_is_no_column(name: Column, header: list[str], found: str) -> None:
    with pytest.raises(InputError) as caught:
        position(name, header, 5, "FILE")
    assert str(caught.value) == f"FILE: found {found}"


def test_all_that_is_wrong_with_a_list_of_columns() -> None:
    assert positions(["x, y", "a,-4"], HEADER, 5, "FILE") == [4, 0, 1]
    with pytest.raises(InputError) as caught:
        positions(["a", "c", 0, 7], HEADER, 5, "FILE")
    assert [str(each).partition(",")[0] for each in caught.value.problems] == [
        "FILE: found 'c'",
        "FILE: found 0 again",
        "FILE: found 7",
    ]


def test_names_that_make_a_header() -> None:
    choice = TableChoice(columns=("a,b",), drop=("c",), label_column="d", index_column=0, aside=("e",))
    assert set(choice.named) == {"a,b", "a", "b", "c", "d", 0, "e"}


# What every table is asked for: one that is text and one of a frame say the same.

PATH = Path("own.csv")
CELLS = [["a", "1.5", "x"], ["b", "NA", ""], ["", "-2", "y"], ["d", "", "1_0"]]


def test_text_and_frame_say_the_same() -> None:
    header = ["name", "width", "kind"]
    lines = "".join(",".join(row) + "\n" for row in [header, *CELLS])
    as_text: Columns = module._grid(Content(PATH, lines.encode(), ","), (), [])
    frame = pd.DataFrame(CELLS, dtype=object)
    as_frame: Columns = Frame(
        PATH,
        lambda columns: iter([[frame.iloc[part, i] for i in columns] for part in (slice(3), slice(3, 9))]),
        *frame.shape,
        header,
        lambda row, column: f"{PATH}, line {row + 2}, {as_text.named(column)}",
    )
    for table in (as_text, as_frame):
        assert (table.path, table.header, table.width, table.n_rows, table.index) == (PATH, header, 3, 4, ())
        numbers = table.numbers([1, 2])
        expected = [[1.5, np.nan], [np.nan, np.nan], [-2, np.nan], [np.nan, np.nan]]
        assert np.array_equal(numbers.values, expected, equal_nan=True)
        assert numbers.n_others.tolist() == [2, 4]
        assert table.texts(0) == ["a", "b", "", "d"]
        assert numbers.is_empty.tolist() == [False, True, False, True]
        assert table.numbers([1]).is_empty.tolist() == [False, True, False, True]
        assert (table.cell(3, 0), table.shown(3, 2), table.shown(3, 1)) == ("d", "'1_0'", "an empty cell")
        assert table.where(3, 2) == "own.csv, line 5, column 3 (kind)"
        assert table.named(0) == "column 1 (name)"


# Which columns and rows of a table become samples, and everything that is said where they cannot.

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


# Columns that count or name rows are said before a run; columns that measure are not.

RNG = np.random.default_rng(3)
MEASURED = RNG.normal(size=40)


def notes(tmp_path: Path, column: list[object], header: str = "a,b\n", **told: bool) -> tuple[str, ...]:
    lines = "".join(f"{value},{cell!r}\n" for value, cell in zip(column, MEASURED.tolist(), strict=False))
    return read_table(write(tmp_path, header + lines), TableChoice(**told)).notes


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        (range(40), "is 0 to 39, a number of the row"),
        (range(1, 41), "is 1 to 40, a number of the row"),
        (RNG.permutation(40) + 1, "is 1 to 40, a number of the row"),
        (RNG.choice(10**6, 40, replace=False), "is another whole number in each row"),
    ],
)
def test_columns_that_tell_rows_apart(column: list[int], kind: str, tmp_path: Path) -> None:
    told = f"column 1 ('a') {kind}: it tells rows apart, not clusters (index_column or drop)"
    assert notes(tmp_path, list(column)) == (told, "features used: a, b (2)")
    assert notes(tmp_path, list(column), header="", as_options=True) == (
        told.replace(" ('a')", "").replace("index_column or drop", "--index-column or --drop"),
    )


@pytest.mark.parametrize(
    "column",
    [
        [1, 2, 3, 4],
        [*range(39), 0],
        (RNG.normal(size=40) * 100).round(1),
        RNG.choice(1000, 19, replace=False),
    ],
)
def test_columns_that_may_measure(column: list[object], tmp_path: Path) -> None:
    assert notes(tmp_path, list(column)) == ("features used: a, b (2)",)


def test_many_features_are_counted(tmp_path: Path) -> None:
    header = ",".join(f"f{n}" for n in range(30))
    text = header + "\n" + "\n".join(",".join(map(repr, row)) for row in RNG.normal(size=(3, 30)).tolist())
    path = write(tmp_path, text)
    (found,) = read_table(path).notes
    assert found == f"features used: {', '.join(f'f{n}' for n in range(12))}, … (30)"
    path = write(tmp_path, text.partition("\n")[2])
    assert read_table(path).notes == ()
    (found,) = read_table(path, TableChoice(drop=(0,))).notes
    assert found == "features used: columns 2 to 30 (29)"


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
