"""Raw scores come with what they depend on, and are read as they were written."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from cubes import small, toy

from sweep_clustering.pipeline.scoring.raw import COLUMNS, RAW, differences, head_of, raw_text, read_raw
from sweep_clustering.pipeline.scoring.tables import cell_table

PLANS = {
    "a": small.make_plan(),
    "b": small.make_plan("b", scale="standard", annotations_checksum="f00", n_annotations=9),
}


def test_a_head_has_all_that_scores_depend_on() -> None:
    head = head_of(small.SPEC, PLANS)
    assert head["data"] == {
        "a": f"c0ffee, scale {PLANS['a'].scale}, 2 clusters",
        "b": "c0ffee, scale standard, 2 clusters, annotations f00",
    }
    assert head["methods"] == {}
    assert head["settings"]["restarts"] == 3
    assert head["settings"]["seed"] == 7
    assert not {"name", "data", "grid"} & {*head["settings"]}


def test_scores_come_back_and_differ_from_those_of_another_sweep() -> None:
    plan = toy.plan("a", replicates=1)
    cells = cell_table(toy.tree(plan), {"a": plan})[[*COLUMNS]]
    runs = [{"sweep": "1"}, {"sweep": "2"}, {"sweep": "1"}]
    cube: Any = SimpleNamespace(spec=small.SPEC, plans=PLANS, made_with=runs)
    scores = read_raw(Path("raw.csv"), raw_text(cells, cube).encode())
    assert scores.head.made_with == runs[:2]
    assert [cell.cell.m for cell in scores.cells] == [
        None if m is None else int(m) for m in cells["m"].astype(object).where(cells["m"].notna(), None)
    ]
    values = np.array([[cell.scores[name] for name in RAW] for cell in scores.cells], float)
    np.testing.assert_array_equal(values, cells[[*RAW]].to_numpy(float))
    assert [cell.status for cell in scores.cells] == cells["status"].tolist()
    assert differences(scores, small.SPEC, PLANS, "other") == []
    other = {"b": replace(PLANS["b"], n_clusters=3)}
    (seed, data) = differences(scores, small.make_spec(seed=8), other, "other")
    assert (seed.where, seed.value, seed.expected) == ("raw.csv, head: settings.seed", "7", "8, as in other")
    assert data.where == "raw.csv, head: data.b"
