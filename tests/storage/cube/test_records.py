"""Plans of a cube as its attributes hold them: they come back, and nothing else is taken for one."""

from __future__ import annotations

import json
from dataclasses import MISSING, fields, replace
from typing import Any

import pytest
from cubes.small import make_plan

from storage.cube.records import plan_to_json, read_plans
from sweeps.errors import Problem
from sweeps.plan import DatasetPlan, MethodPlan

PLANS = {
    "a": make_plan("a", p=(0.9, 0.1 + 0.2), m=(4, 9), models=("posterior", "likelihood-common")),
    "b": make_plan("b", mixtures=4, mixture_chunk=2, scale="minmax"),
    "c": make_plan("c", models=(), p=(), m=(), has_labels=False),
    "d": make_plan("d", adaptive=True, baselines=()),
    "e": make_plan("e", held_out=True),
    "f": make_plan("f", baselines=("ward",), methods=(MethodPlan("ward", 1),)),
}


def stored(**plans: DatasetPlan) -> dict[str, Any]:
    records = {name: plan_to_json(plan) for name, plan in plans.items()}
    return json.loads(json.dumps(records))  # type: ignore[no-any-return]


def said(records: object) -> list[str]:
    problems: list[Problem] = []
    read_plans("cube", records, problems)
    return [str(problem) for problem in problems]


def test_plans_come_back_from_json_to_the_bit() -> None:
    problems: list[Problem] = []
    assert read_plans("cube", stored(**PLANS), problems) == PLANS
    assert problems == []


def test_a_cube_without_adaptive_stop_is_as_older_versions_wrote_it() -> None:
    assert not {"adaptive", "methods"} & plan_to_json(PLANS["a"]).keys()
    assert plan_to_json(PLANS["d"])["adaptive"] is True
    assert stored(f=PLANS["f"])["f"]["methods"] == [{"name": "ward", "restarts": 1}]


def test_a_cube_that_holds_nothing_out_is_as_older_versions_wrote_it() -> None:
    assert "held_out" not in plan_to_json(PLANS["a"])
    assert plan_to_json(PLANS["e"])["held_out"] is True


def test_a_cube_whose_annotations_are_drawn_is_as_older_versions_wrote_it() -> None:
    assert not {"n_annotations", "annotations_checksum"} & plan_to_json(PLANS["a"]).keys()
    own = replace(PLANS["a"], n_annotations=9, annotations_checksum="c0ffee")
    assert plan_to_json(own)["n_annotations"] == 9
    problems: list[Problem] = []
    assert read_plans("cube", stored(a=own), problems) == {"a": own}
    assert problems == []


@pytest.mark.parametrize("change", [{"n_annotations": 3}, {"mixtures": 2, "mixture_chunk": 2}])
def test_a_file_of_annotations_has_as_many_as_a_cell_draws_and_no_mixtures(change: dict[str, Any]) -> None:
    own = replace(PLANS["a"], **{"n_annotations": 9, "annotations_checksum": "c0ffee", **change})
    (text,) = said(stored(a=own))
    assert "n_annotations" in text
    assert "at least as many as the largest m" in text


REQUIRED = [*(field.name for field in fields(DatasetPlan) if field.default is MISSING), "scale"]


@pytest.mark.parametrize("key", REQUIRED)
def test_every_key_is_needed_and_checked(key: str) -> None:
    records = stored(a=PLANS["a"])
    del records["a"][key]
    missing = said(records)
    assert any(
        "data set a" in text and f"{key}: found nothing, expected this key" in text for text in missing
    )
    records = stored(a=PLANS["a"])
    records["a"][key] = {"no": "value"}
    assert any("data set a" in text and key in text for text in said(records))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"name": "b"}, "name: found 'b', expected 'a'"),
        ({"p": []}, "p, m and models: found some of them empty, expected all of them, or none"),
        ({"models": []}, "p, m and models: found some of them empty"),
        ({"n_samples": 0}, "n_samples: found 0"),
        ({"n_samples": True}, "n_samples: found true"),
        ({"restarts": 10**7}, "restarts: found 10000000"),
        ({"p": [0.9, 0.9 + 1e-12]}, "p"),
        ({"models": ["a/b"]}, "models"),
        ({"baselines": [""]}, "baselines"),
        ({"methods": [{"name": "a", "restarts": 0}]}, "methods[0] restarts: found 0"),
        ({"scale": "log"}, "scale: found 'log', expected one of none, standard, minmax"),
        ({"later": 1}, "unknown key 'later'"),
        ({"name": "../a"}, "name"),
    ],
)
def test_what_no_sweep_would_have_written(change: dict[str, Any], problem: str) -> None:
    records = stored(a=PLANS["a"])
    records["a"] |= change
    assert any(problem in text for text in said(records))


def test_problems_of_all_data_sets_are_collected() -> None:
    records = stored(a=PLANS["a"], b=replace(PLANS["b"], restarts=0), c=PLANS["c"]) | {"d": 3}
    texts = said(records)
    assert len(texts) == 2
    assert "data set b" in texts[0]
    assert "data set d: found 3, expected a table" in texts[1]
    assert said([]) == ["cube: found not a table of data sets, expected one record for each"]
