"""Columns by name and by position: what is meant, and what is none of them."""

from __future__ import annotations

import pytest

from sweeps.data.own.choice import Column, TableChoice, position, positions
from sweeps.errors import InputError

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
