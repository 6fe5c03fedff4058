"""Time in kernels, as boxes and as a table."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pandas as pd
from cubes import toy
from cubes.reported import tables

from pipeline.report.sections.content import Content
from pipeline.report.sections.times import draw_times, entries, section


def test_times_are_drawn_where_there_are_any() -> None:
    cells, _, _ = tables(toy.plan("iris"))
    figure = draw_times(cells)
    assert figure is not None
    (axes,) = figure.axes
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert names == ["iris, unsupervised", "iris, likelihood", "iris, posterior"]
    assert draw_times(cells.assign(status="pending", seconds=np.nan)) is None


def test_the_table_of_times_by_hand() -> None:
    row = {"dataset": "d", "model": "posterior", "restarts_done": 10}
    cells = pd.DataFrame(
        [row | {"seconds": seconds, "cpu_seconds": 0.5 * seconds} for seconds in (1.0, 2.0, 3.0, np.nan)]
    )
    (total,), (table,) = entries(cells)
    assert total == "0.001 core-hours in kernels, for 3 cells."
    ((dataset, model, count, cpu, mean, quick, median, slow, restart, hours),) = table.rows
    assert [value.text for value in (dataset, model, count)] == ["d", "posterior", "3"]
    assert [value.text for value in (cpu, mean)] == ["1", "2"]
    assert [value.text for value in (quick, median, slow)] == ["1.2", "2", "2.8"]
    assert (restart.text, hours.text) == ("200", "0.0008")  # 6 s for 30 restarts, 3 s of the processor
    assert len(table.columns) == 10
    assert entries(cells[cells["seconds"].isna()]) == (("No cell is done.",), ())


def test_the_time_of_all_searches_is_told(tmp_path: Path) -> None:
    cells, summary, _ = tables(toy.plan("iris", searches=("quick", "long")))
    first = cells[cells["search"].isna() | cells["search"].eq("quick")]
    chosen = {"search": "quick"}
    found = section(
        Content(Mock(), Mock(), first, summary, None, None, (), None, tmp_path, every=cells, chosen=chosen)
    )
    one, both = found.text
    assert [one, both] == [entries(first)[0][0], f"All searches together: {entries(cells)[0][0]}"]
    assert int(both.split()[-2]) > int(one.split()[-2])
