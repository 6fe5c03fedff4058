"""A user's own table as text: what is read, and everything that is said about a wrong one."""

from __future__ import annotations

import csv
import io
import tempfile
import tracemalloc
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from own_tables import problems, write

from sweeps.data import text as module
from sweeps.data.lines import PROBLEMS_SHOWN, Lines, to_number
from sweeps.data.reading import read_table
from sweeps.data.table import TableChoice, is_empty
from sweeps.data.text import Content, read_text_table, separator_of
from sweeps.errors import InputError, Problem

# Rows of a table that is text: their cells, their lines, and what separates them.

PATH = Path("own.csv")
CELLS_OF_ROWS = st.text('ab1,;"\n\t é#', max_size=6).filter(lambda cell: not cell.startswith(" "))


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.lists(CELLS_OF_ROWS, min_size=2, max_size=2), max_size=8), st.sampled_from([",", ";", "\t"])
)
def test_what_is_written_comes_back_and_as_pandas_reads_it(rows: list[list[str]], separator: str) -> None:
    text, lines, offsets = io.StringIO(), [], []
    for number, row in enumerate(rows):
        for skipped in ["", "# a remark\n", "\n", '\t\n# "\n'][number % 4 : number % 4 + 1]:
            text.write(skipped)
        lines.append(text.getvalue().count("\n") + 1)
        offsets.append(len(text.getvalue().encode()))
        csv.writer(text, delimiter=separator, quoting=csv.QUOTE_ALL, lineterminator="\n").writerow(row)
    content = Content(PATH, text.getvalue().encode(), separator)
    found = list(content.rows())
    assert [cells for cells, *_ in found] == rows
    assert [offset for _, offset, _ in found] == offsets
    assert [content.number(offset) for offset in offsets] == lines
    assert [n_lines for *_, n_lines in found] == [1 + sum(cell.count("\n") for cell in row) for row in rows]
    for row, offset in zip(rows, offsets, strict=True):
        assert next(content.rows(offset))[0] == row
    if rows:
        plain = io.StringIO()
        csv.writer(plain, delimiter=separator, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
        frame = pd.read_csv(
            io.StringIO(plain.getvalue()), sep=separator, header=None, dtype=object, na_filter=False
        )
        assert frame.to_numpy().tolist() == rows


@pytest.mark.parametrize(
    ("text", "separator"),
    [
        ("1,2\n3,4\n", ","),
        ("a b\n1 2\n", " "),
        ("1\n2\n", " "),
        ("a;b\n1;2\n3\n5;6\n", ";"),
        ("1,5;2,5;setosa\n3,5;4,5;virginica\n", ";"),
        ("1,5;2,5\n3,5;4,5\n", ";"),
        ("a, b;1\nc, d;2\n", ";"),
        ("1,2,a;b\n3,4,c;d\n", ","),
        ("Ann, B.\t1\t2\nBob, C.\t3\t4\n", "\t"),
        ("1,5\t2\n3,5\t4\n", "\t"),
        ("1,\t2\n3,\t4\n", ","),
        ('"a,b;c" 1\n"d,e;f" 2\n', " "),
        ("1 2\n3,5 4\n5 6\n", " "),
        ("sep=,\n1;2\n", ";"),
        ("", " "),
    ],
)
def test_the_separator_is_told_by_the_first_rows(text: str, separator: str) -> None:
    assert separator_of(PATH, text.encode()) == separator


def test_a_cell_that_does_not_end_is_a_problem_of_its_line() -> None:
    content = Content(PATH, b'1,2\n\n3,"4\n5,6', ",")
    rows = content.rows()
    assert next(rows)[0] == ["1", "2"]
    with pytest.raises(InputError, match=r"line 3: found a cell whose quote is never closed"):
        next(rows)
    long = Content(PATH, b'1,2\n3,"4' + b"\n5,6" * 100_000, ",")
    with pytest.raises(InputError, match=r"line 2: found a cell that is too long \(field larger than"):
        list(long.rows())


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
        "(name it as label_column if it holds the classes, or as index_column if it holds names; "
        'else drop it, or categories = "onehot")',
        "FILE, line 4, column 2 (b): found 'nan', expected a finite number "
        '(missing = "drop" leaves out such rows)',
        "FILE, line 5, column 1 (a): found '-inf', expected a finite number",
        "FILE, line 6, column 1 (a): found 'O.5', expected a finite number",
        "FILE, line 6, column 2 (b): found an empty cell, expected a finite number "
        '(missing = "drop" leaves out such rows)',
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
        ("a\tb\n1,5\t2\n3\t4\n", None, "FILE, line 2, column 1 (a): found '1,5', expected a finite number "
         "(decimal commas are read in text whose cells are separated by semicolons)"),
        ("a\tb\n1,5\t2\n3,5\t4\n", None, "FILE, column 1 (a): found no number, first '1,5', expected numbers "
         "(decimal commas are read in text whose cells are separated by semicolons)"),
        ("sep=;\na;b\n1;2\nsep=;3\n", None, "FILE, line 4, column 1 (a): found 'sep=', expected a "
         "finite number"),
        ("1,2\n3,4\n# x\n5,\"6\n7,8\n", None, "FILE, line 4: found a cell whose quote is never closed, "
         "expected another quote"),
        ("1,2\n\"3\n\n\",5\n6\n", None, "FILE, line 5: found 1 cells, expected 2 as in the other rows"),
        ("1,2\n\"3\n\n4\n6,7\",8,9\n3,3\n", None, "FILE, line 2: found 3 cells, expected 2 as in the other "
         "rows (a cell in quotes goes on to line 5)"),
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
    ).filter(lambda rows: np.ptp(rows, axis=0).max() > 1e-9),
    st.sampled_from([",", "\t", "  ", " , "]),
)
def test_written_floats_are_read_to_the_bit(rows: list[tuple[float, ...]], separator: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "own.txt"
        path.write_text("".join(separator.join(map(repr, row)) + "\n" for row in rows))
        assert np.array_equal(read_table(path).X, np.array(rows))


CELLS = st.one_of(
    st.floats(width=64).map(repr),
    st.integers(-(10**20), 10**20).map(str),
    st.sampled_from(
        ["+1", "1.", ".5", "1E5", "-1e-400", "007", "1_0", "0x1", "", "nan", "-inf", "x", "1 2", "1e"]
    ),
    st.sampled_from(["--1", "e5", "+-3", "1,5", "1,5,2", ",", "\u0661", "1\u00a0", "#", "1#", "1_000,5"]),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(CELLS, CELLS), max_size=12), st.sampled_from([",", ";", "\t"]))
def test_numbers_taken_many_at_once_are_those_of_the_cells(
    rows: list[tuple[str, str]], separator: str
) -> None:
    """The obvious twin: each cell by itself, as Python reads it."""

    def number(cell: str) -> float | None:
        found = to_number(cell)
        decimal_comma = found is None and separator == ";" and cell.count(",") == 1
        return to_number(cell.replace(",", ".")) if decimal_comma else found

    rows = [("0", "0"), *rows]  # which is no header
    text = io.StringIO()
    csv.writer(text, delimiter=separator, quoting=csv.QUOTE_ALL).writerows(rows)
    content = Content(Path("own.csv"), text.getvalue().encode(), separator)
    problems: list[Problem] = []
    with patch.object(module, "ROWS", 5):
        grid = module._grid(content, [], problems)
        found = grid.numbers([1, 0])
    expected = [[number(second), number(first)] for first, second in rows]
    assert problems == []
    assert found.values.tobytes() == np.array(expected, dtype=np.float64).tobytes()
    assert found.n_others.tolist() == [sum(row[column] is None for row in expected) for column in (0, 1)]
    assert found.is_empty.tolist() == [any(map(is_empty, row)) for row in rows]
    assert grid.texts(1) == [cell.strip() for _, cell in rows]


def test_a_large_table_takes_little_more_memory_than_its_text(tmp_path: Path) -> None:
    path = write(tmp_path, "".join(f"{i},{i / 7!r},{i / 3!r}\n" for i in range(200_000)))
    tracemalloc.start()
    table = read_text_table(path, TableChoice())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * path.stat().st_size + table.X.nbytes


def test_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, "1,2\n3,4\n")
    monkeypatch.setattr(module, "MOST_BYTES", 7)
    assert problems(path) == ["FILE: found 8 bytes, expected at most 7"]
    monkeypatch.setattr(module, "MOST_BYTES", 8)
    monkeypatch.setattr("sweeps.data.lines.MOST_LINES", 2)
    assert problems(path) == ["FILE: found more than 2 lines, expected at most 2"]
    assert Lines(path, b"").first is None


def test_millions_of_problems_are_made_once(tmp_path: Path) -> None:
    path = write(tmp_path, "1,2\n" + "nan,inf\n" * 100_000)
    with pytest.raises(InputError) as caught:
        read_text_table(path, TableChoice())
    assert len(caught.value.problems) == PROBLEMS_SHOWN + 1
    assert sum(each.count for each in caught.value.problems) == 200_000


def test_columns_left_out_are_texts(tmp_path: Path) -> None:
    path = write(tmp_path, 'name,a,"picture, small",b\n"Ann, B.",1,x.png,2\nBob,3,,4\n')
    table = read_table(path, aside=("picture, small", "name"))
    assert table.X.tolist() == [[1, 2], [3, 4]]
    assert table.feature_names == ("a", "b")
    assert table.aside == (("x.png", ""), ("Ann, B.", "Bob"))
    assert read_table(write(tmp_path, "1,2\n3,4\n")).feature_names == ()


def test_a_header_of_numbers_is_known_by_a_column_left_out(tmp_path: Path) -> None:
    assert read_table(write(tmp_path, "0,id\n5,6\n7,8\n"), aside=("id",)).X.tolist() == [[5], [7]]


def test_columns_left_out_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        read_table(write(tmp_path, "name,a,a\nAnn,1,2\nBob,3,4\n"), aside=("nam", "a", "name"))
    first, second = (str(problem).partition("found ")[2] for problem in caught.value.problems)
    assert first == "'nam', expected one of name, a, a (did you mean 'name'?)"
    assert second == "'a', expected one of name, a, a (several columns have that name; give a position)"
    with pytest.raises(InputError) as caught:
        read_table(write(tmp_path, "1,2\n3,4\n"), aside=("a",))
    assert str(caught.value).endswith(
        "'a', expected one of -2 to 1 (the file has no header; give a position)"
    )


def test_a_cell_in_quotes_may_have_several_lines(tmp_path: Path) -> None:
    """Comments and blank lines inside it are its own; lines are still counted as an editor does."""
    text = '# of 1999\n"name of\nplant","width,\ncm",kind\n\n"a\n\n# no comment",1,"Iris\nsetosa"\nb,x,o\n'
    choice = TableChoice(index_column="name of plant", label_column="kind")
    with pytest.raises(
        InputError, match=r"line 10, column 2 \(width, cm\): found 'x', expected a finite number"
    ):
        read_table(write(tmp_path, text), choice)
    table = read_table(write(tmp_path, text.replace("x", "2")), choice)
    assert table.sample_names == ("a  # no comment", "b")
    assert table.feature_names == ("width, cm",)
    assert table.class_names == ("Iris setosa", "o")


def test_an_empty_cell_at_the_end_of_a_line_of_tabs_is_one(tmp_path: Path) -> None:
    table = read_table(
        write(tmp_path, "\ta\tb\nx\t1\t2\ny\t\t3\nz\t4\t\nu\t5\t7\n"),
        TableChoice(index_column=0, missing="drop"),
    )
    assert table.X.tolist() == [[1, 2], [5, 7]]
    assert table.sample_names == ("x", "u")


def test_empty_cells_of_thousands_of_columns_are_looked_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [[str(row * column % 7) for column in range(2000)] for row in range(20)]
    for row in range(0, 20, 2):
        rows[row][row * 31] = "NA"
    path = write(tmp_path, "".join(",".join(row) + "\n" for row in rows))
    passes = []
    whole = Content.rows
    monkeypatch.setattr(Content, "rows", lambda *of: passes.append(of) or whole(*of))
    table = read_table(path, TableChoice(missing="drop"))
    assert table.X.shape == (10, 2000)
    assert len(passes) < 8
