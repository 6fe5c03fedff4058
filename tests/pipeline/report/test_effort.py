"""Restarts, times, and what ran."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cubes import toy
from cubes.reported import RUN, content, make, tables, texts, tips, titles

from pipeline.report import effort
from pipeline.report.effort import draw_chances, draw_gaps, draw_times, scaling, state
from pipeline.scoring.tables import gap_table
from storage.cube.manifest import Manifest, read_manifest


def test_restarts_are_drawn_from_the_cells() -> None:
    plan = toy.plan("iris")
    cells, _, _ = tables(plan)
    for figure in (draw_gaps(gap_table(toy.tree(plan), {"iris": plan.baselines})), draw_chances(cells)):
        assert figure is not None
        assert len(tips(figure)) >= 3 * 3
    assert draw_chances(cells.assign(status="pending")) is None


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
    assert (len(words), words[0]) == (12, "posterior, 1 restart: 0.250")
    assert words[-1] == "posterior, 40 restarts: 1.000"


def test_each_of_many_shapes_has_a_panel_of_its_own() -> None:
    models = ("likelihood", "posterior-full", "posterior-diagonal")
    cells, _, _ = tables(toy.plan("iris", models=models, model_chunk=3))
    figure = draw_chances(cells)
    assert figure is not None
    assert titles(figure) == ["iris, spherical", "iris, diagonal", "iris, full"]
    drawn = [{str(line.get_label()) for line in axes.get_lines()} - {"0.95"} for axes in figure.axes]
    assert drawn == [{"likelihood", "unsupervised"}, {"posterior-diagonal"}, {"posterior-full"}]


def test_restarts_by_hand_and_cells_that_a_rule_ended() -> None:
    row = {"dataset": "d", "model": "posterior", "status": "done", "restarts_done": 4, "unseen_mass": np.nan}
    cells = pd.DataFrame([row | {"hits": hits} for hits in (4, 1)])
    (table,) = effort.restart_tables(content(cells))
    assert texts(table) == [["d", "posterior", "2", "4.0", "62.5", "50.0", "4", "4", "-"]]
    for unseen, said in ((np.nan, False), (0.02, True)):
        words = effort.restart_words(content(cells.assign(unseen_mass=unseen)))
        assert any("ended by a rule" in line for line in words) is said
    nothing = content(cells.assign(hits=0))
    assert (list(effort.restart_words(nothing)), list(effort.restart_tables(nothing))) == (
        ["No cell is done."],
        [],
    )


def test_times_by_hand() -> None:
    row = {"dataset": "d", "model": "posterior", "restarts_done": 10, "search": np.nan}
    seconds = pd.Series([1.0, 2.0, 3.0, np.nan])
    cells = pd.DataFrame([row] * 4).assign(seconds=seconds, cpu_seconds=0.5 * seconds)
    (table,) = effort.time_tables(content(cells))
    # 6 s for 30 restarts, 3 s of the processor
    assert texts(table) == [["d", "posterior", "3", "1", "2", "1.2", "2", "2.8", "200", "0.0008"]]
    assert list(effort.time_words(content(cells))) == ["0.001 core-hours in kernels, for 3 cells."]
    nothing = content(cells[cells["seconds"].isna()])
    assert (list(effort.time_words(nothing)), list(effort.time_tables(nothing))) == (["No cell is done."], [])
    figure = draw_times(cells)
    assert figure is not None
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["d, posterior"]
    assert draw_times(cells.assign(seconds=np.nan)) is None


def test_the_time_of_all_searches_is_told() -> None:
    cells, _, _ = tables(toy.plan("iris", searches=("quick", "long")))
    first = cells[cells["search"].isna() | cells["search"].eq("quick")]
    one, both = effort.time_words(content(first, every=cells, chosen={"search": "quick"}))
    assert one == next(effort.time_words(content(first)))
    assert both == f"All searches together: {next(effort.time_words(content(cells)))}"
    assert int(both.split()[-2]) > int(one.split()[-2])


@pytest.fixture
def manifest(tmp_path: Path) -> Manifest:
    return read_manifest(make(tmp_path, toy.plan("iris"), toy.plan("thyroid"), scales=("standard", "none")))


def test_the_head_counts_cells_and_names_what_is_left_out(manifest: Manifest) -> None:
    cells, _, _ = tables(*manifest.plans.values())
    found = content(cells, manifest=manifest, holder="process 7")
    said = state(found)
    assert said[0] == "46 of 51 cells are done, 2 failed, 2 are left."
    assert "This sweep is running: process 7." in said
    assert any("not complete" in text for text in said)
    assert said[-1].startswith("Not at hand: wine; 1 cell of the sweep left out")
    facts, datasets, runs = effort.head_tables(found)
    told = dict(texts(facts))
    assert told["features scaled"] == scaling(manifest) == "iris standard, thyroid none, wine standard"
    assert told["search"].startswith("method published, population 10, offspring 10, generations 10, ")
    assert [row[:1] + row[6:9] for row in texts(datasets)] == [
        ["iris", "23", "1", "1"],
        ["thyroid", "23", "1", "1"],
    ]
    assert texts(runs)[0][:3] == ["1", RUN.started, RUN.host]


def test_a_data_set_that_came_in_later_is_not_left_out(manifest: Manifest) -> None:
    assert set(manifest.skipped) == {"wine"}
    later = replace(manifest, plans={**manifest.plans, "wine": toy.plan("wine")})
    assert later.skipped == {}
    assert replace(manifest, runs=()).skipped == {}


def test_a_long_history_is_cut(manifest: Manifest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(effort, "MOST_RUNS", 2)
    cells, _, _ = tables(*manifest.plans.values())
    *_, runs = effort.head_tables(content(cells, manifest=replace(manifest, runs=manifest.runs * 5)))
    assert [row[0] for row in texts(runs)] == ["4", "5"]
    assert runs.note == "3 earlier runs are left out."
