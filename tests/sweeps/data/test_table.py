"""A table of a user in text becomes numbers and features, and everything wrong with it is named."""

import csv
import io
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from own_tables import problems, read, write

from sweep_clustering.sweeps.data import reading
from sweep_clustering.sweeps.data import reading as module
from sweep_clustering.sweeps.data.lines import MOST_SINGLE, read_lines, shortened, split_cells, to_number
from sweep_clustering.sweeps.data.table import (
    LabelledTable,
    TableChoice,
    encode_classes,
    is_empty,
    read_labels,
)
from sweep_clustering.sweeps.errors import InputError, Problem

CASES, REFUSED = (
    tomllib.loads(Path(__file__).with_name(name).read_text(encoding="utf-8"))
    for name in ("cases.toml", "problems.toml")
)


def test_checksum_sees_values_shape_and_labels() -> None:
    X = np.arange(6.0).reshape(3, 2)
    labels = np.array([0, 1, 1], dtype=np.int16)
    tables = [
        (X, labels),
        (X.reshape(2, 3), labels),
        (X, None),
        (X, labels[::-1]),
        (np.nextafter(X, 9), labels),
    ]
    first, *checksums = [LabelledTable(*table, ()).checksum() for table in tables]
    assert len({first, *checksums}) == 5
    same = LabelledTable(np.asfortranarray(X).astype(">f8"), labels.astype(np.int64), ("a", "b"))
    assert same.checksum() == first


def test_scaling() -> None:
    X = np.random.default_rng(3).normal(5, [1, 100, 0.01], size=(50, 3))
    standard, minmax, untouched = (reading.scale(X, how) for how in ("standard", "minmax", "none"))
    np.testing.assert_allclose(standard.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(standard * X.std(axis=0) + X.mean(axis=0), X)
    assert minmax.min(axis=0).tolist() == [0] * 3
    assert minmax.max(axis=0).tolist() == [1] * 3
    assert np.array_equal(untouched, X)
    assert not np.shares_memory(untouched, X)
    # the computed standard deviation of 0.1 repeated 150 times is 2.8e-17, not 0
    constant = np.column_stack([np.full(150, 0.1), np.arange(150.0)])
    assert not any(reading.scale(constant, how)[:, 0].any() for how in ("standard", "minmax"))
    np.testing.assert_allclose(reading.scale(X * 1e-200, "standard"), standard, rtol=1e-6)


def test_what_seems_to_have_one_unit_is_left_alone_by_the_scale_auto() -> None:
    rng = np.random.default_rng(3)
    lengths, mixed = rng.normal(5, [1, 2.5, 1.5], size=(50, 3)), rng.normal(5, [1, 100, 0.01], size=(50, 3))
    words = (rng.random((50, 2)) < 0.3) * 1.0
    pixels = np.clip(rng.normal(8, [9, 9, 9, 2], size=(50, 4)).round(), 0, 16)
    tables = {
        "lengths": lengths,
        "pixels": pixels,
        "words": words,
        "still": np.column_stack([lengths, [[3.0]] * 50]),
    }
    for name, X in tables.items():
        assert np.array_equal(reading.scale(X, "auto"), X), name
    assert np.array_equal(reading.scale(mixed, "auto"), reading.scale(mixed, "standard"))
    # beside columns of 0 and 1, numbers of one unit are not those of the words
    scaled_table = reading.scale(np.column_stack([words, 10 * lengths]), "auto")
    assert np.array_equal(scaled_table, np.column_stack([words, reading.scale(10 * lengths, "standard")]))


@pytest.mark.parametrize("how", ["none", "standard", "minmax", "auto"])
def test_other_rows_are_scaled_as_those_of_the_fit(how: str) -> None:
    rng = np.random.default_rng(4)
    X = np.column_stack([rng.normal(5, [1, 100, 0.01], size=(50, 3)), np.full(50, 0.1), rng.random(50) < 0.5])
    scaling = reading.scaling_of(X, how)
    assert np.array_equal(scaling.of(X), reading.scale(X, how))
    np.testing.assert_allclose(scaling.back(scaling.of(X)), X)
    assert np.array_equal(scaling.of(X[3:5]), scaling.of(X)[3:5])


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
    assert table.rows.n_rows == 6
    assert table.rows.selection.tolist() == [0, 2, 4]
    assert table.rows.names == ("Ann", "Bob", "Eve", "Kim", "Lee", "Zoe")
    assert table.notes == (
        '3 of 6 rows have an empty cell and are left out (missing = "drop"): '
        "Bob (row 2), Kim (row 4), Zoe (row 6)",
        "features used: width, height, colour=pale blue, colour=red (4)",
    )
    # dropping incomplete rows is what their absence is
    whole = "\n".join(line for line in MESSY.split("\n") if line[:1] not in "135" or not line)
    absent = read(write(tmp_path, whole), categories="onehot", **TOLD)
    assert table.X.tobytes() == absent.X.tobytes()
    assert table.checksum() == absent.checksum()


# Columns that count or name rows are said before a run; columns that measure are not.

RNG = np.random.default_rng(3)
MEASURED = RNG.normal(size=40)


def test_columns_that_tell_rows_apart_and_many_features(tmp_path: Path) -> None:
    for column, kind in (
        (RNG.permutation(40) + 1, "is 1 to 40, a number of the row"),
        (RNG.choice(10**6, 40, replace=False), "is another whole number in each row"),
        *((column, "") for column in ([1, 2, 3, 4], [*range(39), 0], RNG.choice(1000, 19, replace=False))),
        ((RNG.normal(size=40) * 100).round(1), ""),
    ):
        lines = "".join(f"{value},{cell!r}\n" for value, cell in zip(column, MEASURED.tolist(), strict=False))
        note = f"column 1 ('a') {kind}: it tells rows apart, not clusters (index_column or drop)"
        options = note.replace(" ('a')", "").replace("index_column or drop", "--index-column or --drop")
        used = "features used: a, b (2)"
        assert read(write(tmp_path, "a,b\n" + lines)).notes == ((note, used) if kind else (used,))
        assert read(write(tmp_path, lines), as_options=True).notes == ((options,) if kind else ())
    rows = "\n".join(",".join(map(repr, row)) for row in RNG.normal(size=(3, 30)).tolist())
    path, first = write(tmp_path, ",".join(f"f{n}" for n in range(30)) + "\n" + rows), range(12)
    assert read(path).notes == (f"features used: {', '.join(f'f{n}' for n in first)}, … (30)",)
    numbers = ", ".join(str(n + 2) for n in first)
    assert read(write(tmp_path, rows), drop=(0,)).notes == (f"features used: columns {numbers}, … (29)",)


# Classes, and files of them.


def test_label_files(tmp_path: Path) -> None:
    for case in CASES["labels"]:
        labels, names = read_labels(write(tmp_path, case["text"]), case.get("n_rows"))
        assert labels.tolist() == case["codes"]
        assert labels.dtype == np.int16
        assert list(names) == case["class_names"]
    for text, words in (
        ("", "no classes"),
        ("1\nnan\n", "line 2: found NaN"),
        ("1,,2\n", "an empty cell"),
        ("1 2 3 4\n", "more than 2 labels, expected 2, one for each row"),
    ):
        with pytest.raises(InputError, match=words):
            read_labels(write(tmp_path, text), 2 if len(text) == 8 else None)
    path = write(tmp_path, "".join(f"{i} c{i}\n" for i in range(32769)))
    assert problems(path, label_column=1)[0] == (
        "FILE, line 1, column 2: found the first of 32769 classes, expected at most 32768 (is it a feature?)"
    )


@given(st.lists(st.sampled_from(["2", "10", "1e1", "a", "-0.0", "0", "inf", "b c"]), min_size=1))
def test_codes_follow_the_sorted_classes(values: list[str]) -> None:
    """Equal classes have equal codes, and classes that are all finite numbers are sorted as numbers."""
    codes, names = encode_classes(values, str)
    numeric = not {"a", "inf", "b c"} & set(values)
    keys = [float(value) if numeric else value for value in values]
    order = sorted(set(keys))
    assert codes.tolist() == [order.index(key) for key in keys]
    assert names == tuple(next(v for v, k in zip(values, keys, strict=True) if k == key) for key in order)
    assert codes.dtype == np.int16


def test_own_table_becomes_a_data_set(tmp_path: Path) -> None:
    path = write(tmp_path, "a,b,kind\n1,2,x\n3,4,y\n5,6.5,x\n")
    data = reading.load_table(path, TableChoice(label_column="kind"))
    assert data.X.tolist() == [[1, 2], [3, 4], [5, 6.5]]
    assert data.n_clusters == 2
    assert data.source == f"file {path}"
    assert reading.load_table(path, TableChoice(label_column=2), n_clusters=3).n_clusters == 3
    path = write(tmp_path, "1 2\n1 2\n3 4\n")
    for n_clusters, words in (
        (None, "neither classes nor n_clusters"),
        (0, "0 for 2"),
        (3, "3 for 2 distinct"),
    ):
        with pytest.raises(InputError, match=words):
            reading.load_table(path, TableChoice(), n_clusters=n_clusters)


PATH = Path("own.csv")


def test_lines_and_cells_and_separators(tmp_path: Path) -> None:
    path = write(tmp_path, "\ufeff first \r\n\n  # remark\n\ta # b\x0cc\n  \nlast")
    lines = [(line.number, line.text) for line in read_lines(path)]
    assert lines == [(1, "first"), (4, "a # b\x0cc"), (6, "last")]
    too_long = '"' + "x" * 200_000 + '",2'  # for the reader
    for case in (*CASES["cells"], {"text": too_long, "cells": [too_long]}):
        assert split_cells(case["text"]) == case["cells"]
    for case in CASES["separator"]:
        assert reading.separator_of(PATH, case["text"].encode()) == case["separator"], case
    assert [to_number(cell) for cell in ("", "1_000", "1,5", "one", "0x10", "1 2", "--1")] == [None] * 7


SEPARATORS = st.sampled_from([",", ";", "\t"])
TEXTS = st.text('ab1,;"\n\t é#', max_size=6).filter(lambda cell: not cell.startswith(" "))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(TEXTS, min_size=2, max_size=2), max_size=8), SEPARATORS)
def test_what_is_written_comes_back_and_as_pandas_reads_it(rows: list[list[str]], separator: str) -> None:
    text, plain, lines = io.StringIO(), io.StringIO(), []
    for number, row in enumerate(rows):
        text.write(["", "# a remark\n", "\n", '\t\n# "\n'][number % 4])
        lines.append(text.getvalue().count("\n") + 1)
        for file in (text, plain):
            csv.writer(file, delimiter=separator, quoting=csv.QUOTE_ALL, lineterminator="\n").writerow(row)
    rows_read = list(reading.rows_of(PATH, text.getvalue().encode(), separator))
    assert rows_read == [
        ([cell.strip().replace("\n", " ") for cell in row], line, "".join(row).count("\n") + 1)
        for row, line in zip(rows, lines, strict=True)
    ]
    if rows:
        plain.seek(0)
        frame = pd.read_csv(plain, sep=separator, header=None, dtype=object, na_filter=False)
        assert frame.to_numpy().tolist() == rows


WIDE = 'a,b,1,b,"x, y"\n1,2,3,4,5\n6,7,8,9,0\n'


def test_columns_by_name_and_position_and_what_is_a_header(tmp_path: Path) -> None:
    for case in CASES["features"]:
        table = read(write(tmp_path, case["text"]))
        assert table.X.tolist() == [[1, 2.5], [-3, 40]], case
        assert table.X.dtype == np.float64
        assert table.labels_true is None
        assert table.class_names == ()
    options: dict[str, Any]
    for text, options, X in (
        *(("a,k,b\n1,u,2\n3,o,4\n", {"label_column": key}, [[1, 2], [3, 4]]) for key in ("k", 1, -2)),
        ("5.1,Iris-setosa\n4.9,Iris-virginica\n", {"label_column": -1}, [[5.1], [4.9]]),
        ("0,1,class\n5,6,a\n7,8,b\n", {"label_column": "class"}, [[5, 6], [7, 8]]),
        ("0,id\n5,6\n7,8\n", {"aside": ("id",)}, [[5], [7]]),
        # a name comes before a position, and one text may name several
        (WIDE, {"columns": ("a", 1, -1, "1")}, [[1, 2, 5, 3], [6, 7, 0, 8]]),
        (WIDE, {"columns": ("x, y", "a,-4")}, [[5, 1, 2], [0, 6, 7]]),
    ):
        assert read(write(tmp_path, text), **options).X.tolist() == X
    path = write(tmp_path, 'name,a,"picture, small",b\n"Ann, B.",1,x.png,2\nBob,3,,4\n')
    table = read(path, aside=("picture, small", "name"))
    assert table.X.tolist() == [[1, 2], [3, 4]]
    assert table.feature_names == ("a", "b")
    assert table.aside == (("x.png", ""), ("Ann, B.", "Bob"))


@pytest.mark.parametrize("case", REFUSED["case"], ids=lambda case: case["problems"][0][:60])
def test_every_problem_of_a_table_is_said(case: dict[str, Any], tmp_path: Path) -> None:
    options = case.get("told", {})
    lists = {key: tuple(value) for key, value in options.items() if isinstance(value, list)}
    assert problems(write(tmp_path, case["text"]), **options | lists) == case["problems"]


def test_paths_and_bytes_that_are_no_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    absent = "FILE: no such file"
    assert problems(tmp_path / "absent.csv") == problems(tmp_path / "absent.npz") == [absent]
    assert problems(tmp_path) == ["FILE: found a folder, expected a readable file"]
    (problem,) = problems(write(tmp_path, b"1,2\r\n\xff\xfe\n"))
    assert problem.startswith("FILE, line 2: found byte 0xff, expected a text file in UTF-8 (save it again")
    problem, *_ = problems(write(tmp_path, '1,2\n3,"4' + "\n5,6" * 100_000))
    assert problem.startswith("FILE, line 2: found a cell that is too long (field larger than")
    path = write(tmp_path, "1,2\n3,4\n")
    monkeypatch.setattr(module, "LONGEST_ROW", 3)
    assert problems(path)[0].startswith("FILE, line 1: found a longer row, expected at most 131,072 columns")
    monkeypatch.setattr("sweep_clustering.sweeps.data.lines.MOST_LINES", 2)
    assert problems(path) == ["FILE: found more than 2 lines, expected at most 2"]
    monkeypatch.setattr(module, "MOST_BYTES", 7)
    assert problems(path) == ["FILE: found 8 bytes, expected at most 7"]


ODD = "+1|1.|.5|1E5|-1e-400|007|1_0|0x1||nan|-inf|x|1 2|1e|--1|e5|+-3|1,5|1,5,2|,|\u0661|1\u00a0|#|1#|1_000,5"
NUMBERS = st.floats(width=64).map(repr) | st.integers(-(10**20), 10**20).map(str)
CELLS = NUMBERS | st.sampled_from(ODD.split("|"))


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(CELLS, CELLS), max_size=12), SEPARATORS)
def test_numbers_taken_many_at_once_are_those_of_the_cells(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]], separator: str
) -> None:
    """The obvious twin reads each cell by itself with Python."""

    def number(cell: str) -> float | None:
        value = to_number(cell)
        decimal_comma = value is None and separator == ";" and cell.count(",") == 1
        return to_number(cell.replace(",", ".")) if decimal_comma else value

    rows = [("0", "0"), *rows]  # this is no header
    text = io.StringIO()
    csv.writer(text, delimiter=separator, quoting=csv.QUOTE_ALL).writerows(rows)
    path, frames = write(tmp_path_factory.getbasetemp(), text.getvalue()), list[Any]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "select", lambda frame, *_: frames.append(frame))
        patch.setattr(module, "separator_of", lambda *_: separator)
        reading.read_text_table(path, TableChoice())
    (frame,) = frames
    numbers = frame.numbers([1, 0])
    expected = [[number(second), number(first)] for first, second in rows]
    assert numbers.values.tobytes() == np.array(expected, dtype=np.float64).tobytes()
    assert numbers.n_others.tolist() == [sum(row[column] is None for row in expected) for column in (0, 1)]
    assert numbers.is_empty.tolist() == [any(map(is_empty, row)) for row in rows]
    assert frame.texts(1) == [cell.strip() for _, cell in rows]


def test_millions_of_problems_are_made_once_and_cut_short(tmp_path: Path) -> None:
    path = write(tmp_path, "1,2\n" + "nan,inf\n" * 50_000)
    with pytest.raises(InputError) as caught:
        reading.read_text_table(path, TableChoice())
    assert len(caught.value.problems) == 2 * (MOST_SINGLE + 1)
    assert caught.value.n_problems == 100_000
    expected = "column {}: found '{}', expected a finite number"
    first, second = problems(path)
    assert first.startswith(f"FILE, lines 2, 3, 4 and 49,997 more, {expected.format(1, 'nan')}")
    assert second == f"FILE, lines 2, 3, 4 and 49,997 more, {expected.format(2, 'inf')}"


def test_a_readable_part_of_a_table_knows_its_rows(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        reading.read_text_table(
            write(tmp_path, "1,1,x\n1,NA,y\n1,1,z\n"), TableChoice(missing="drop", columns=(0, 1))
        )
    table = caught.value.rest
    assert table.rows.n_rows == 3
    assert table.rows.selection.tolist() == [0, 2]
    assert is_empty(" NA ")
    assert not is_empty("no")


def test_problems_that_differ_in_their_line_alone_are_one() -> None:
    def problem(line: int, count: int = 1, value: str = "x") -> Problem:
        return Problem(f"own, line {line}, column 1", value, "a number", count=count)

    few = [problem(1), problem(2), problem(3)]
    assert shortened(Path("own"), few) == few
    # a problem may stand for several lines, and several may be of one line
    (one,) = shortened(
        Path("own"), [problem(1), problem(2), problem(2, value="y"), problem(5), problem(9, 4)]
    )
    assert one.where == "own, lines 1, 2, 5 and 4 more, column 1"
    assert one.value == "x; y"
    assert one.count == 7
    kinds = [
        problem(1),
        *(Problem(f"own, line {line}", "x", str(line)) for line in range(2, 23)),
        problem(30, 9),
    ]
    first, *further, rest = shortened(Path("own"), kinds)
    assert len(further) == 19
    assert first.where == "own, lines 1 and 9 more, column 1"
    assert rest.value == "2 more problems"
    assert rest.count == 2


def test_a_cell_in_quotes_may_have_several_lines(tmp_path: Path) -> None:
    """Comments and blank lines inside belong to the cell, and lines are counted as an editor does."""
    text = '# of 1999\n"name of\nplant","width,\ncm",kind\n\n"a\n\n# no comment",1,"Iris\nsetosa"\nb,x,o\n'
    options = {"index_column": "name of plant", "label_column": "kind"}
    assert problems(write(tmp_path, text), **options) == [
        "FILE, line 10, column 2 (width, cm): found 'x', expected a finite number"
    ]
    table = read(write(tmp_path, text.replace("x", "2")), **options)
    assert table.sample_names == ("a  # no comment", "b")
    assert table.feature_names == ("width, cm",)
    assert table.class_names == ("Iris setosa", "o")
    tabs = write(tmp_path, "\ta\tb\nx\t1\t2\ny\t\t3\nz\t4\t\nu\t5\t7\n")
    table = read(tabs, index_column=0, missing="drop")
    assert table.X.tolist() == [[1, 2], [5, 7]]
    assert table.sample_names == ("x", "u")
