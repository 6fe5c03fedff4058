"""Rows of a table that is text: their cells, their lines, and what separates them."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweeps.data.own.rows import Content, separator_of
from sweeps.errors import InputError

PATH = Path("own.csv")
CELLS = st.text('ab1,;"\n\t é#', max_size=6).filter(lambda cell: not cell.startswith(" "))


@settings(max_examples=300, deadline=None)
@given(st.lists(st.lists(CELLS, min_size=2, max_size=2), max_size=8), st.sampled_from([",", ";", "\t"]))
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
