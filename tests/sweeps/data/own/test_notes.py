"""Columns that count or name rows are said before a run; columns that measure are not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from own_tables import write

from sweeps.data.own.choice import TableChoice
from sweeps.data.own.reading import read_table

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
