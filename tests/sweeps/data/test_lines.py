"""Lines, cells and numbers of text files."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeps.data.lines import PROBLEMS_SHOWN, read_lines, shortened, split_cells, to_number
from sweeps.errors import InputError, Problem


def test_lines_with_content_keep_their_numbers(tmp_path: Path) -> None:
    path = tmp_path / "own.txt"
    path.write_bytes("\ufeff first \r\n\n  # remark\n\ta # b\x0cc\n  \nlast".encode())
    lines = list(read_lines(path))
    assert [(line.number, line.text) for line in lines] == [(1, "first"), (4, "a # b\x0cc"), (6, "last")]
    assert lines[1].where == f"{path}, line 4"


@pytest.mark.parametrize(
    ("text", "cells"),
    [
        ("1,2 3,4", ["1", "2 3", "4"]),
        ("1\t2 3", ["1", "2 3"]),
        ("1  2   3", ["1", "2", "3"]),
        ("1,,2,", ["1", "", "2", ""]),
        ("1\t\t2", ["1", "", "2"]),
        ('"a, b", c', ["a, b", "c"]),
        ('"a b" c', ["a b", "c"]),
        ('"say ""x""",2', ['say "x"', "2"]),
        ("", []),
    ],
)
def test_cells_of_a_line(text: str, cells: list[str]) -> None:
    assert split_cells(text) == cells


@given(st.lists(st.text("ab1é #;'").map(str.strip), min_size=2))
def test_cells_between_commas_come_back(cells: list[str]) -> None:
    assert split_cells(",".join(cells)) == cells


def test_a_cell_too_long_for_the_reader_is_one_cell() -> None:
    text = '"' + "x" * 200_000 + '",2'
    assert split_cells(text) == [text]


@given(st.floats())
def test_numbers_come_back(value: float) -> None:
    found = to_number(repr(value))
    assert found == value or (found is not None and math.isnan(found) and math.isnan(value))


@pytest.mark.parametrize("cell", ["", "1_000", "1,5", "one", "0x10", "1 2", "--1"])
def test_what_is_no_number(cell: str) -> None:
    assert to_number(cell) is None


@pytest.mark.parametrize("number", [0, 1, PROBLEMS_SHOWN, PROBLEMS_SHOWN + 1, 500])
def test_problems_beyond_the_first_are_counted(number: int) -> None:
    problems = [Problem(f"line {i}", "this", "that") for i in range(number)]
    found = shortened(Path("own.txt"), iter(problems))
    assert found[:PROBLEMS_SHOWN] == problems[:PROBLEMS_SHOWN]
    assert len(found) == min(number, PROBLEMS_SHOWN + 1)
    if number > PROBLEMS_SHOWN:
        beyond = number - PROBLEMS_SHOWN
        assert str(found[-1]) == f"own.txt: found {beyond} more problems like these, expected none"


def test_a_file_that_cannot_be_read_is_one_problem(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="found Is a directory, expected a readable file"):
        read_lines(tmp_path)
