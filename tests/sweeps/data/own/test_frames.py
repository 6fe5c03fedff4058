"""Cells of pandas: what is a number, what a text, what is missing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sweeps.data.own.frames import Frame, text_of


def numbers(*columns: object) -> tuple[list[list[float]], list[int]]:
    frame = pd.DataFrame({str(n): column for n, column in enumerate(columns)})

    def parts(chosen: Sequence[int]) -> Iterator[list[object]]:
        for start in range(len(frame)):  # row by row, each of its own type
            yield [frame.iloc[start : start + 1, column] for column in chosen]

    found = Frame(Path("own"), parts, 2, len(columns), [], lambda *place: "").numbers(range(len(columns)))
    return found.values.T.tolist(), found.n_others.tolist()


def test_types_that_are_numbers() -> None:
    values, others = numbers(
        np.array([1, 2], dtype=np.uint8),
        np.array([0.1, 0.2], dtype=np.float32),
        [True, False],
        pd.array([1, None], dtype="Int64"),
        pd.Series(["1.5", "nan"]),
    )
    assert values[:3] == [[1, 2], [float(np.float32(0.1)), float(np.float32(0.2))], [1, 0]]
    assert values[3][0] == 1
    assert np.isnan(values[3][1])
    assert values[4][0] == 1.5
    assert others == [0, 0, 0, 0, 0]


def test_types_that_are_none() -> None:
    dates = pd.to_datetime(["2024-01-01", "2024-01-02"])
    _, others = numbers(["x", "y"], pd.Categorical(["1", "2"]), dates, np.array([1j, 2j]), ["1", "x"])
    assert others == [2, 2, 2, 2, 1]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""), (np.nan, ""), (pd.NA, ""), (pd.NaT, ""), (3.0, "3"), (0.1, "0.1"), (1e300, "1e+300"),
        (np.float64(2.5), "2.5"), (" x ", "x"), (7, "7"), (b"z\xff", "z\ufffd"), (True, "True"),
    ],
)  # fmt: skip
def test_texts_of_cells(value: object, text: str) -> None:
    assert text_of(value) == text
