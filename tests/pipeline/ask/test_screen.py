"""A question as lines of a terminal."""

from __future__ import annotations

import numpy as np
import pytest
from rich.cells import cell_len

from pipeline.ask.screen import BESIDE, Rows, by_difference, fitted, one_line, question_lines

VALUES = np.array([[1.0, 5.0, 0.0], [1.5, 5.0, 100.0], [3.0, 5.0, 110.0]])


def rows(n_features: int = 3, **columns: list[str]) -> Rows:
    rng = np.random.default_rng(0)
    values = VALUES if n_features == 3 else rng.normal(size=(3, n_features))
    names = ["width", "flat", "height"] if n_features == 3 else [f"feature {n}" for n in range(n_features)]
    return Rows(values, names, ["Ann", "Bob", "Eve"], dict(columns))


def test_two_rows_side_by_side_those_that_differ_most_first() -> None:
    assert question_lines(rows(picture=["a.png", "b.png", "c.png"]), 0, 1, 56, 24) == [
        "         row 1 Ann               row 2 Bob",
        "picture  a.png                   b.png",
        "height   0                       100",
        "width    1                       1.5",
        "flat     5                       5",
    ]
    # in standard deviations: 110 against 100 is little
    assert by_difference(VALUES, 1, 2) == [0, 2, 1]


@pytest.mark.parametrize(("width", "height"), [(80, 24), (40, 12), (20, 5), (200, 60)])
@pytest.mark.parametrize("n_features", [3, 100])
def test_every_size_fits(width: int, height: int, n_features: int) -> None:
    long = ["many words " * 40, "x" * 300, "\u6f22\u5b57" * 100]
    for first, second in ((0, 1), (1, 2)):
        lines = question_lines(rows(n_features, text=long), first, second, width, height)
        assert all(cell_len(line) <= width for line in lines)
        assert len(lines) <= max(height - BESIDE, 4) + 4


def test_what_does_not_fit_is_counted() -> None:
    lines = question_lines(rows(100), 0, 1, 80, 24)
    assert len(lines) == 24 - BESIDE
    assert lines[-1] == f"and {100 - (24 - BESIDE - 2)} features that differ less"


def test_long_texts_have_three_lines_cut_between_words() -> None:
    lines = question_lines(rows(text=["many words " * 40, "short", ""]), 0, 1, 80, 24)
    assert [line.split("  ")[0] for line in lines[1:4]] == ["text", "", ""]
    assert lines[1].startswith("text    many words many words many")
    assert lines[3].endswith("…")
    assert lines[4].startswith("height")


def test_text_that_a_terminal_would_obey_is_harmless() -> None:
    assert one_line("a\x1b[2Jb\n\tc") == "a [2Jb c"
    assert fitted("abcdef", 4) == "abc…"
    assert fitted("ab", 4) == "ab  "
    assert fitted("abc", 0) == ""
