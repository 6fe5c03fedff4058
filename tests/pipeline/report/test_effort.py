"""Restarts and times by hand, and what ran."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cubes import toy
from cubes.reported import RUN, content, make, tables, texts

from pipeline.report import effort
from storage.cube.manifest import read_manifest


def test_restarts_by_hand() -> None:
    row = {"dataset": "d", "model": "posterior", "status": "done", "restarts_done": 4, "unseen_mass": np.nan}
    cells = pd.DataFrame([row | {"hits": hits} for hits in (4, 1)])
    (table,) = effort.restart_tables(content(cells))
    assert texts(table) == [["d", "posterior", "2", "4.0", "62.5", "50.0", "4", "4", "-"]]
    assert list(effort.restart_tables(content(cells.assign(hits=0)))) == []


def test_times_by_hand_and_those_of_all_searches() -> None:
    row = {"dataset": "d", "model": "posterior", "restarts_done": 10, "search": np.nan}
    seconds = pd.Series([1.0, 2.0, 3.0, np.nan])
    cells = pd.DataFrame([row] * 4).assign(seconds=seconds, cpu_seconds=0.5 * seconds)
    (table,) = effort.time_tables(content(cells))
    # 6 s for 30 restarts, 3 s of the processor
    assert texts(table) == [["d", "posterior", "3", "1", "2", "1.2", "2", "2.8", "200", "0.0008"]]
    assert list(effort.time_words(content(cells))) == ["0.001 core-hours in kernels, for 3 cells."]
    assert list(effort.time_tables(content(cells[cells["seconds"].isna()]))) == []
    both = pd.concat([cells.assign(search="quick"), cells.assign(search="long")])
    found = content(both.head(4), every=both, chosen={"search": "quick"})
    # those of designs and searches: the first search alone, then all
    assert [line.split()[-2] for line in effort.time_words(found)] == ["3", "6"]


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
    facts, datasets, runs = effort.head_tables(found)
    told = dict(texts(facts))
    assert told["features scaled"] == "iris standard, thyroid none, wine standard"
    assert told["processor"] == "a CPU"
    assert [row[6:9] for row in texts(datasets)] == [["23", "1", "1"]] * 2
    assert texts(runs)[0][:2] == ["1", RUN.started]
    # a data set that came in later is not left out
    assert replace(manifest, plans={**manifest.plans, "wine": toy.plan("wine")}).skipped == {}
    monkeypatch.setattr(effort, "MOST_RUNS", 2)
    *_, runs = effort.head_tables(content(cells, manifest=replace(manifest, runs=manifest.runs * 5)))
    assert [row[0] for row in texts(runs)] == ["4", "5"]
    assert runs.note == "3 earlier runs are left out."
