"""What ran. Restarts and times by hand are in `shown/took.txt`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from cubes import toy
from cubes.reported import RUN, content, make, tables, texts

from pipeline.report import effort
from storage.cube.manifest import read_manifest


def test_the_head_counts_cells_and_names_what_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = read_manifest(
        make(tmp_path, toy.plan("iris"), toy.plan("thyroid"), scales=("standard", "none"))
    )
    cells, _, _ = tables(*manifest.plans.values())
    found = content(cells, manifest=manifest, holder="process 7")
    said = effort.state(found)
    assert said[0] == "46 of 51 cells are done, 2 failed, 2 are left."
    assert "This sweep is running: process 7." in said
    assert any("not complete" in text for text in said)
    assert said[-1].startswith("Not at hand: wine; 1 cell of the sweep left out")
    facts, datasets, runs = effort.head(found)
    told = dict(texts(facts))
    assert told["features scaled"] == "iris standard, thyroid none, wine standard"
    assert told["processor"] == "a CPU"
    assert [row[6:9] for row in texts(datasets)] == [["23", "1", "1"]] * 2
    assert texts(runs)[0][:2] == ["1", RUN.started]
    # a data set that came in later is not left out
    assert replace(manifest, plans={**manifest.plans, "wine": toy.plan("wine")}).skipped == {}
    monkeypatch.setattr(effort, "MOST_RUNS", 2)
    *_, runs = effort.head(content(cells, manifest=replace(manifest, runs=manifest.runs * 5)))
    assert [row[0] for row in texts(runs)] == ["4", "5"]
    assert runs.note == "3 earlier runs are left out."
