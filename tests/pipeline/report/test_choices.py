"""Shapes that cells chose, as the page shows them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cubes import toy
from cubes.reported import make, tables

from kernels.choice.held_out import LEAST_PAIRS
from pipeline.report.choices import UNABLE, chosen_tables, draw_choices, predicted_table
from pipeline.report.write import write_report
from pipeline.scoring.tables import prediction_table
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
    overall, each = chosen_tables(TABLE, {("iris", 12): "0.5N"})
    (row,) = overall.rows
    assert [value.text for value in row] == [
        "iris", "posterior-auto", "8", "4", "1", "0", "3", "3", "84.0", "0.420",
    ]  # fmt: skip
    assert [row[2].text for row in each.rows] == ["0.5N", "24", "5"]
    assert [row[-1].text for row in each.rows] == ["0.500", "0.300", "-"]


def test_a_row_says_how_well_a_model_predicted() -> None:
    row = {"dataset": "iris", "p": 0.9, "m": 12, "m_over_n": 0.5, "model": "posterior"}
    values = [{"n": 4, "too_few": 1, "predicted": 0.8125, "log_loss": 0.5}]
    values += [{"n": 2, "too_few": 2, "predicted": np.nan, "log_loss": np.nan, "m": 5}]
    table = predicted_table(pd.DataFrame([row | each for each in values]), {("iris", 12): "0.5N"})
    assert [[value.text for value in each] for each in table.rows] == [
        ["iris", "0.9", "0.5N", "posterior", "4", "1", "81.2", "0.500"],
        ["iris", "0.9", "5", "posterior", "2", "2", "-", "-"],
    ]
    assert len(table.columns) == 8
    assert f"fewer than {LEAST_PAIRS} annotated pairs" in table.note


@pytest.mark.usefixtures("page_alone")
def test_the_report_of_a_cube_with_annotations_held_out_has_a_table_of_all_models(tmp_path: Path) -> None:
    fixed = toy.plan("wine", models=("likelihood", "posterior-common"), held_out=True)
    both = toy.plan("iris", models=("likelihood", "conditional-auto"), held_out=True)
    for plans, title in (
        ((fixed,), "Held-out annotations"),
        ((both, fixed), "Shapes chosen, held-out annotations"),
    ):
        report = write_report(make(tmp_path / title, *plans), tmp_path / title / "out")
        stored = pd.read_csv(tmp_path / title / "out" / "predictions.csv")
        cells, _, _ = tables(*plans)
        pd.testing.assert_frame_equal(stored, prediction_table(cells), check_dtype=False)
        assert set(stored["model"]) == {model for plan in plans for model in plan.models}
        page = report.page.read_text(encoding="utf-8")
        assert f">{title}</h2>" in page
        assert "Held-out annotations predicted" in page
        assert any(file.name == "choices.csv" for file in report.files) == (len(plans) == 2)
        lines = report.text.splitlines()
        start = next(number for number, line in enumerate(lines) if line.startswith("held-out annotations"))
        assert len(lines) - start == 2 + len(stored)
        assert max(map(len, lines[start:])) <= 100
        assert lines[start + 2].split()[-1] == f"{stored.iloc[0]['log_loss']:.3f}"
