"""Shapes that cells chose, as the page shows them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from cubes import toy
from cubes.reported import make, tables

from pipeline.report.sections.choices import UNABLE, draw_choices, entries
from pipeline.report.write import write_report
from pipeline.scoring.choices import choice_table
from sweeps.shapes import CANDIDATES

PLAN = toy.plan("iris", models=("likelihood", "posterior-auto"))
ROW = {"dataset": "iris", "p": 0.9, "m_over_n": 0.5, "model": "posterior-auto"}
TABLE = pd.DataFrame(
    [
        {**ROW, "m": 12, "n": 4, **dict(zip(CANDIDATES, (2, 1, 0, 1), strict=True)), "too_few": 1}
        | {"predicted": 0.8, "log_loss": 0.5},
        {**ROW, "m": 24, "n": 2, **dict(zip(CANDIDATES, (0, 0, 0, 2), strict=True)), "too_few": 0}
        | {"predicted": 0.9, "log_loss": 0.3},
        {**ROW, "m": 5, "n": 2, **dict(zip(CANDIDATES, (2, 0, 0, 0), strict=True)), "too_few": 2}
        | {"predicted": np.nan, "log_loss": np.nan},
    ]
)


def test_bars_are_shares_that_sum_to_one() -> None:
    figure = draw_choices(TABLE, {("iris", 12): "0.5N"})
    assert figure is not None
    (axes,) = figure.axes
    assert axes.get_title() == "iris, posterior-auto"
    assert [label.get_text() for label in axes.get_xticklabels()] == ["5", "0.5N", "24"]
    heights = {bars.get_label(): [bar.get_height() for bar in bars.patches] for bars in axes.containers}
    assert heights == {
        UNABLE: [1.0, 0.25, 0.0],
        "spherical": [0.0, 0.25, 0.0],
        "diagonal": [0.0, 0.25, 0.0],
        "tied": [0.0, 0.0, 0.0],
        "full": [0.0, 0.25, 1.0],
    }
    assert draw_choices(TABLE.iloc[:0], {}) is None


def test_a_data_set_is_summed_up_over_the_cells_that_could_choose() -> None:
    overall, each = entries(TABLE, {("iris", 12): "0.5N"})
    (row,) = overall.rows
    assert [value.text for value in row] == [
        "iris", "posterior-auto", "8", "4", "1", "0", "3", "3", "84.0", "0.420",
    ]  # fmt: skip
    assert [row[2].text for row in each.rows] == ["12 (0.5N)", "24", "5"]
    assert [row[-1].text for row in each.rows] == ["0.500", "0.300", "-"]


def test_the_report_of_a_cube_with_such_a_model_has_them(tmp_path: Path) -> None:
    report = write_report(make(tmp_path, PLAN, toy.plan("other")), tmp_path / "out")
    cells, _, _ = tables(PLAN)
    stored = pd.read_csv(tmp_path / "out" / "choices.csv")
    pd.testing.assert_frame_equal(stored, choice_table(cells), check_dtype=False)
    assert "Shapes chosen" in report.page.read_text(encoding="utf-8")
    figures = {file.stem for file in report.files if file.suffix == ".svg"}
    assert {"choices-p0.8", "choices-p0.9"} < figures
    lines = report.text.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("shapes of covariances"))
    assert len(lines) - start == 2 + len(stored)
    assert max(map(len, lines[start:])) <= 100
    first = stored.iloc[0]
    assert lines[start + 2].split()[-1] == f"{first['log_loss']:.3f}"
    without = write_report(make(tmp_path / "b", toy.plan("other")), tmp_path / "b" / "out")
    assert not any("choices" in file.name for file in without.files)
    assert "Shapes chosen" not in without.page.read_text(encoding="utf-8")
