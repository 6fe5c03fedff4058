"""What every table is asked for: one that is text and one of a frame say the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from sweeps.data.own import text as module
from sweeps.data.own.columns import Columns
from sweeps.data.own.frames import Frame
from sweeps.data.own.rows import Content

PATH = Path("own.csv")
CELLS = [["a", "1.5", "x"], ["b", "NA", ""], ["", "-2", "y"], ["d", "", "1_0"]]


def test_text_and_frame_say_the_same() -> None:
    header = ["name", "width", "kind"]
    lines = "".join(",".join(row) + "\n" for row in [header, *CELLS])
    as_text: Columns = module._grid(Content(PATH, lines.encode(), ","), (), [])
    frame = pd.DataFrame(CELLS, dtype=object)
    as_frame: Columns = Frame(
        PATH,
        lambda columns: iter([[frame.iloc[part, i] for i in columns] for part in (slice(3), slice(3, 9))]),
        *frame.shape,
        header,
        lambda row, column: f"{PATH}, line {row + 2}, {as_text.named(column)}",
    )
    for table in (as_text, as_frame):
        assert (table.path, table.header, table.width, table.n_rows, table.index) == (PATH, header, 3, 4, ())
        numbers = table.numbers([1, 2])
        expected = [[1.5, np.nan], [np.nan, np.nan], [-2, np.nan], [np.nan, np.nan]]
        assert np.array_equal(numbers.values, expected, equal_nan=True)
        assert numbers.n_others.tolist() == [2, 4]
        assert table.texts(0) == ["a", "b", "", "d"]
        assert numbers.is_empty.tolist() == [False, True, False, True]
        assert table.numbers([1]).is_empty.tolist() == [False, True, False, True]
        assert (table.cell(3, 0), table.shown(3, 2), table.shown(3, 1)) == ("d", "'1_0'", "an empty cell")
        assert table.where(3, 2) == "own.csv, line 5, column 3 (kind)"
        assert table.named(0) == "column 1 (name)"
