"""From columns to samples: what they are, what is said where they cannot be; classes, scaling, data sets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from own_tables import problems, read, write

from sweeps.data.reading import load_table
from sweeps.data.table import (
    LabelledTable,
    TableChoice,
    encode_classes,
    read_labels,
    scale,
)
from sweeps.errors import InputError


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


def test_scaling() -> None:
    X = np.random.default_rng(3).normal(5, [1, 100, 0.01], size=(50, 3))
    standard, minmax, untouched = (scale(X, how) for how in ("standard", "minmax", "none"))
    np.testing.assert_allclose(standard.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(standard * X.std(axis=0) + X.mean(axis=0), X)
    assert (minmax.min(axis=0) == 0).all()
    assert (minmax.max(axis=0) == 1).all()
    assert np.array_equal(untouched, X)
    assert not np.shares_memory(untouched, X)
    # the computed standard deviation of 0.1 repeated 150 times is 2.8e-17, not 0
    constant = np.column_stack([np.full(150, 0.1), np.arange(150.0)])
    assert not scale(constant, "standard")[:, 0].any()
    assert not scale(constant, "minmax")[:, 0].any()
    np.testing.assert_allclose(scale(X * 1e-200, "standard"), standard, rtol=1e-6)


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
TOLD: dict[str, Any] = {"index_column": "plant", "label_column": "kind", "drop": (0, "nr")}


def test_a_messy_table_without_cleaning(tmp_path: Path) -> None:
    table = read(write(tmp_path, MESSY), missing="drop", categories="onehot", **TOLD)
    assert table.feature_names == ("width", "height", "colour=pale blue", "colour=red")
    assert table.X.tolist() == [[1.5, 2, 0, 1], [2.5, 4, 0, 1], [4.5, 6, 1, 0]]
    assert table.class_names == ("Iris setosa", "Iris virginica")
    assert table.labels_true.tolist() == [0, 1, 1]
    assert table.sample_names == ("Ann", "Eve", "Lee")
    assert (table.rows.n_rows, table.rows.kept.tolist()) == (6, [0, 2, 4])
    assert table.rows.names == ("Ann", "Bob", "Eve", "Kim", "Lee", "Zoe")
    assert table.notes == (
        '3 of 6 rows have an empty cell and are left out (missing = "drop"): '
        "Bob (row 2), Kim (row 4), Zoe (row 6)",
        "features used: width, height, colour=pale blue, colour=red (4)",
    )


def test_dropping_incomplete_rows_is_what_their_absence_is(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    lines = [",".join(map(repr, row)) for row in rng.normal(size=(60, 3)).tolist()]
    holes = set(rng.choice(60, size=15, replace=False).tolist())
    with_holes = [f"?,{line.partition(',')[2]}" if n in holes else line for n, line in enumerate(lines)]
    dropped = read(write(tmp_path, "a,b,c\n" + "\n".join(with_holes)), missing="drop")
    without = [line for n, line in enumerate(lines) if n not in holes]
    absent = read(write(tmp_path, "a,b,c\n" + "\n".join(without)))
    assert (dropped.X.tobytes(), dropped.checksum()) == (absent.X.tobytes(), absent.checksum())


# Columns that count or name rows are said before a run; columns that measure are not.

RNG = np.random.default_rng(3)
MEASURED = RNG.normal(size=40)


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        (range(40), "is 0 to 39, a number of the row"),
        (RNG.permutation(40) + 1, "is 1 to 40, a number of the row"),
        (RNG.choice(10**6, 40, replace=False), "is another whole number in each row"),
        ([1, 2, 3, 4], ""),
        ([*range(39), 0], ""),
        ((RNG.normal(size=40) * 100).round(1), ""),
        (RNG.choice(1000, 19, replace=False), ""),
    ],
)
def test_columns_that_tell_rows_apart(column: list[int], kind: str, tmp_path: Path) -> None:
    lines = "".join(f"{value},{cell!r}\n" for value, cell in zip(column, MEASURED.tolist(), strict=False))
    told = f"column 1 ('a') {kind}: it tells rows apart, not clusters (index_column or drop)"
    options = told.replace(" ('a')", "").replace("index_column or drop", "--index-column or --drop")
    used = "features used: a, b (2)"
    assert read(write(tmp_path, "a,b\n" + lines)).notes == ((told, used) if kind else (used,))
    assert read(write(tmp_path, lines), as_options=True).notes == ((options,) if kind else ())


def test_many_features_are_counted(tmp_path: Path) -> None:
    rows = "\n".join(",".join(map(repr, row)) for row in RNG.normal(size=(3, 30)).tolist())
    path, first = write(tmp_path, ",".join(f"f{n}" for n in range(30)) + "\n" + rows), range(12)
    assert read(path).notes == (f"features used: {', '.join(f'f{n}' for n in first)}, … (30)",)
    numbers = ", ".join(str(n + 2) for n in first)
    assert read(write(tmp_path, rows), drop=(0,)).notes == (f"features used: columns {numbers}, … (29)",)


# Classes, and files of them.


@pytest.mark.parametrize(
    ("text", "n_rows", "codes", "class_names"),
    [
        ("2\n1\n10\n", None, [1, 0, 2], ("1", "2", "10")),
        ("2,1,10", None, [1, 0, 2], ("1", "2", "10")),
        ("2\t1\n\n10\n", None, [1, 0, 2], ("1", "2", "10")),
        ("class\n2\n1\n", None, [1, 0], ("1", "2")),
        ("b\na\nb\n", None, [1, 0, 1], ("a", "b")),
        ("Iris setosa\nIris virginica\n", 2, [0, 1], ("Iris setosa", "Iris virginica")),
        ("kind of iris\n1\n2\n", 2, [0, 1], ("1", "2")),
        ('"a, b"\nc\n', 2, [0, 1], ("a, b", "c")),
        ("index,Label\nr1,x y\nr2,z\n", 2, [0, 1], ("x y", "z")),
        ("index;label\nr1;x y\nr2;z\n", 2, [0, 1], ("x y", "z")),
        ("a b\n", 2, [0, 1], ("a", "b")),
        ("x\nx\ny\n", 2, [0, 0, 1], ("x", "y")),
    ],
)
def test_label_files(
    text: str, n_rows: int | None, codes: list[int], class_names: tuple[str, ...], tmp_path: Path
) -> None:
    found, names = read_labels(write(tmp_path, text), n_rows)
    assert (found.tolist(), found.dtype, names) == (codes, np.int16, class_names)


def test_what_is_wrong_with_a_label_file(tmp_path: Path) -> None:
    for text, found in (
        ("", "no classes"),
        ("# none\n", "no classes"),
        ("1\nnan\n", "line 2: found NaN"),
        ("1,,2\n", "an empty cell"),
        ("1 2 3 4\n", "more than 2 labels, expected 2, one for each row"),
    ):
        with pytest.raises(InputError, match=found):
            read_labels(write(tmp_path, text), 2 if len(text) == 8 else None)
    path = write(tmp_path, "".join(f"{i} c{i}\n" for i in range(32769)))
    assert problems(path, label_column=1)[0] == (
        "FILE, line 1, column 2: found the first of 32769 classes, expected at most 32768 (is it a feature?)"
    )


@given(st.lists(st.sampled_from(["2", "10", "1e1", "a", "-0.0", "0", "inf", "b c"]), min_size=1))
def test_codes_follow_the_sorted_classes(values: list[str]) -> None:
    """Equal codes where the classes are equal; as numbers where all are finite numbers."""
    codes, names = encode_classes(values, str)
    numeric = not {"a", "inf", "b c"} & set(values)
    keys = [float(value) if numeric else value for value in values]
    order = sorted(set(keys))
    assert codes.tolist() == [order.index(key) for key in keys]
    assert names == tuple(next(v for v, k in zip(values, keys, strict=True) if k == key) for key in order)
    assert codes.dtype == np.int16


def test_own_table_becomes_a_data_set(tmp_path: Path) -> None:
    path = write(tmp_path, "a,b,kind\n1,2,x\n3,4,y\n5,6.5,x\n")
    data = load_table(path, TableChoice(label_column="kind"))
    assert (data.X.tolist(), data.n_clusters, data.source) == ([[1, 2], [3, 4], [5, 6.5]], 2, f"file {path}")
    assert load_table(path, TableChoice(label_column=2), n_clusters=3).n_clusters == 3
    path = write(tmp_path, "1 2\n1 2\n3 4\n")
    for n_clusters, found in (
        (None, "neither classes nor n_clusters"),
        (0, "0 for 2"),
        (3, "3 for 2 distinct rows"),
    ):
        with pytest.raises(InputError, match=found):
            load_table(path, TableChoice(), n_clusters=n_clusters)
