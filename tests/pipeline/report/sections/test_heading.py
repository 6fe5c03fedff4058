"""The head of a page: what ran, and how much of it is there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cubes import toy
from cubes.reported import RUN, make, tables

from pipeline.report.sections import heading
from pipeline.report.sections.heading import scaling, section, state
from storage.cube.manifest import Manifest, read_manifest


@pytest.fixture
def manifest(tmp_path: Path) -> Manifest:
    return read_manifest(make(tmp_path, toy.plan("iris"), toy.plan("thyroid"), scales=("standard", "none")))


def test_the_head_counts_cells_and_names_what_is_left_out(manifest: Manifest) -> None:
    cells, _, _ = tables(*manifest.plans.values())
    content: Any = SimpleNamespace(manifest=manifest, all_cells=cells, every=None, holder="process 7")
    texts, found = state(content), section(content)
    assert texts[0] == "46 of 51 cells are done, 2 failed, 2 are left."
    assert "This sweep is running: process 7." in texts
    assert any("not complete" in text for text in texts)
    assert texts[-1].startswith("Not at hand: wine; 1 cell of the sweep left out")
    facts, datasets, runs = found.tables
    told = {row[0].text: row[1].text for row in facts.rows}
    assert told["features scaled"] == "iris standard, thyroid none, wine standard"
    assert told["search"].startswith("method published, population 10, offspring 10, generations 10, ")
    assert [row[0].text for row in datasets.rows] == ["iris", "thyroid"]
    assert [value.text for value in datasets.rows[0][6:9]] == ["23", "1", "1"]
    assert [value.text for value in runs.rows[0][:3]] == ["1", RUN.started, RUN.host]


def test_one_scaling_for_all_is_said_once(manifest: Manifest, tmp_path: Path) -> None:
    assert scaling(manifest) == "iris standard, thyroid none, wine standard"
    (tmp_path / "other").mkdir()
    same = read_manifest(make(tmp_path / "other", toy.plan("iris"), toy.plan("thyroid")))
    assert scaling(same) == "standard"


def test_a_data_set_that_came_in_later_is_not_left_out(manifest: Manifest) -> None:
    assert set(manifest.skipped) == {"wine"}
    later = replace(manifest, plans={**manifest.plans, "wine": toy.plan("wine")})
    assert later.skipped == {}
    assert replace(manifest, runs=()).skipped == {}


def test_a_long_history_is_cut(manifest: Manifest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heading, "MOST_RUNS", 2)
    table = heading._runs(replace(manifest, runs=manifest.runs * 5))
    assert [row[0].text for row in table.rows] == ["4", "5"]
    assert table.note == "3 earlier runs are left out."
