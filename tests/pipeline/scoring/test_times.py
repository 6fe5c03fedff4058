"""Time of a cell by hand."""

from __future__ import annotations

import pytest
from contests import cell, table

from pipeline.scoring.times import COLUMNS, time_table


def test_means_are_over_cells_with_a_result() -> None:
    rows = [
        cell("iris", "posterior", 0.5, p=0.9, replicate=k, seconds=s, cpu_seconds=s / 4, restarts_done=5)
        for k, s in enumerate((1.0, 2.0, 3.0))
    ]
    rows += [cell("iris", "posterior", 0.5, p=0.9, replicate=3, status="failed"), cell("wine", "ward", 0.5)]
    found = time_table(table(rows)).drop(columns="search").set_index(["dataset", "model"])
    assert list(found.index) == [("iris", "posterior"), ("wine", "ward")]
    expected = [3, 0.5, 2.0, 1.2, 2.0, 2.8, 6 / 15, 1.5 / 3600]
    assert found.loc[("iris", "posterior")].tolist() == pytest.approx(expected)
    assert found.loc[("wine", "ward"), ["n", "cpu_seconds", "seconds"]].tolist() == [1, 0.25, 0.5]


def test_nothing_done_has_no_times() -> None:
    assert list(time_table(table([cell("iris", "ward", 0.5, status="pending")])).columns) == list(COLUMNS)
