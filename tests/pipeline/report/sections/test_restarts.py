"""Gaps of restarts, and how many would have been enough."""

from __future__ import annotations

import numpy as np
import pandas as pd
from cubes import toy
from cubes.reported import tables, tips, titles

from pipeline.report.sections.restarts import draw_chances, draw_gaps, entries
from pipeline.scoring.tables import gap_table


def test_restarts_are_drawn_from_the_cells() -> None:
    plan = toy.plan("iris")
    cells, _, _ = tables(plan)
    for figure in (
        draw_gaps(gap_table(toy.tree(plan), {"iris": plan.baselines})),
        draw_chances(cells),
    ):
        assert figure is not None
        assert len(tips(figure)) >= 3 * 3
    nothing = cells.assign(status="pending")
    assert draw_chances(nothing) is None


def test_a_method_without_an_objective_has_no_line_of_gaps() -> None:
    row = {"dataset": "d", "gap": 1.0}
    gaps = pd.DataFrame([row | {"model": "posterior", "share": 0.5}, row | {"model": "mine", "share": 0.0}])
    figure = draw_gaps(gaps)
    assert figure is not None
    assert {text.get_text() for text in figure.legends[0].get_texts()} == {"posterior"}
    assert draw_gaps(gaps[gaps["model"] == "mine"]) is None


def test_words_on_points_are_those_of_the_line() -> None:
    row = {"dataset": "d", "model": "posterior", "status": "done", "restarts_done": 40, "hits": 10}
    figure = draw_chances(pd.DataFrame([row]))
    assert figure is not None
    words = tips(figure)
    assert len(words) == 12
    assert words[0] == "posterior, 1 restart: 0.250"
    assert words[-1] == "posterior, 40 restarts: 1.000"


def test_each_of_many_shapes_has_a_panel_of_its_own() -> None:
    models = ("likelihood", "posterior-full", "posterior-diagonal")
    cells, _, _ = tables(toy.plan("iris", models=models, model_chunk=3))
    figure = draw_chances(cells)
    assert figure is not None
    assert titles(figure) == ["iris, spherical", "iris, diagonal", "iris, full"]
    drawn = [{str(line.get_label()) for line in axes.get_lines()} - {"0.95"} for axes in figure.axes]
    assert drawn == [{"likelihood", "unsupervised"}, {"posterior-diagonal"}, {"posterior-full"}]


def test_cells_that_a_rule_ended_are_called_so() -> None:
    row = {"dataset": "d", "model": "posterior", "status": "done", "restarts_done": 10, "hits": 10}
    for unseen, said in ((float("nan"), False), (0.02, True)):
        text, _ = entries(pd.DataFrame([row | {"unseen_mass": unseen}]))
        assert any("ended by a rule" in words for words in text) is said


def test_the_table_of_restarts_by_hand() -> None:
    row = {"dataset": "d", "model": "posterior", "status": "done", "restarts_done": 4, "unseen_mass": np.nan}
    text, (table,) = entries(pd.DataFrame([row | {"hits": hits} for hits in (4, 1)]))
    assert text
    assert table.rows[0][0].text == "d"
    assert entries(pd.DataFrame([row | {"hits": 0}]))[1] == ()
