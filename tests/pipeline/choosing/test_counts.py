"""Numbers of clusters as they are written."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.choosing.counts import option_problems, read_counts


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("5", (5,)), ("0", (0,)), ("2..4", (2, 3, 4)), ("3..3", (3,)), ("5,2,3", (2, 3, 5)),
        ("2..3, 6..7", (2, 3, 6, 7)),
    ],
)  # fmt: skip
def test_counts_are_read(text: str, counts: tuple[int, ...]) -> None:
    assert read_counts(text) == (counts, [])


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("x", ["'x'"]), ("", ["''"]), ("2.5", ["'2.5'"]), ("2..", ["'2..'"]), ("2..3..4", ["'2..3..4'"]),
        ("1..0", ["1..0", "0"]), ("0..2,x,9..8", ["0", "'x'", "9..8"]),
        ("2,3,3,2..2", ["2, 3 more than once"]),
        ("2,32768", ["32768"]), ("-1,2,", ["-1", "'-1,2,'"]),
    ],
)  # fmt: skip
def test_all_that_is_wrong_is_said(text: str, found: list[str]) -> None:
    counts, problems = read_counts(text)
    assert counts == (1,)
    assert [problem.found for problem in problems] == found
    assert {problem.where for problem in problems} == {"-k"}


def test_figure_needs_a_name_a_place_and_several_numbers(tmp_path: Path) -> None:
    def found(path: Path | None, counts: tuple[int, ...] = (2, 3), **more: object) -> list[str]:
        given = {"out": None, "overwrite": False} | more
        return [each.where for each in option_problems(counts, figure=path, **given)]  # type: ignore[arg-type]

    there = tmp_path / "there.svg"
    there.touch()
    assert found(None) == found(tmp_path / "new.PNG") == found(there, overwrite=True) == []
    assert found(there) == found(tmp_path / "new.png", (2,)) == ["--figure"]
    assert found(tmp_path / "no" / "new.jpg") == ["--figure", "--figure"]
    assert found(there, out=there, overwrite=True) == ["--figure"]
    assert found(None, overwrite=True) == ["--force"]
