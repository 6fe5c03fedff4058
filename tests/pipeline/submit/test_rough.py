"""A guess before anything was timed, by hand."""

from __future__ import annotations

import pytest
from cubes.small import SPEC, make_plan

from pipeline.submit.rough import CALL_SECONDS, SEARCH_SECONDS, rough_seconds
from pipeline.work.records import Work
from sweeps.file.search import Search
from sweeps.plan import Cell, DatasetPlan


def guess(plan: DatasetPlan, model: str, restarts: int = 1, **settings: float) -> float:
    search = Search(**{"population": 10, "offspring": 10, "generations": 10, "patience": 0} | settings)
    return rough_seconds(search, plan, Work(Cell(plan.name, None, 0.9, 4, 0, model), 0, restarts))


def test_a_restart_by_hand() -> None:
    plan = make_plan(n_samples=1000, n_features=16, n_clusters=4)
    # ten starts at random worth four offspring each, a hundred offspring, with annotations
    expected = 140 * SEARCH_SECONDS * 2 * 1000**1.22 * 4**1.27 * 2**0.36
    assert guess(plan, "posterior") == pytest.approx(expected)
    assert guess(plan, "posterior", restarts=3) == pytest.approx(3 * expected)
    assert guess(plan, "conditional") == pytest.approx(expected / 2)
    assert guess(plan, "unsupervised-full") == pytest.approx(expected / 2 * 2**1.85)


def test_patience_ends_a_restart_early() -> None:
    plan = make_plan(n_samples=1000, n_features=16, n_clusters=4)
    assert guess(plan, "posterior", patience=4) == guess(plan, "posterior", generations=4)
    assert guess(plan, "posterior", patience=40) == guess(plan, "posterior")
    many = make_plan(n_samples=1000, n_features=16, n_clusters=8)
    assert guess(many, "posterior", patience=4) == guess(many, "posterior", generations=8)


def test_a_method_is_a_call() -> None:
    plan = make_plan()
    assert (
        rough_seconds(SPEC.search[0], plan, Work(Cell("a", None, 0.9, 4, 0, "ward"), 0, 3))
        == 3 * CALL_SECONDS
    )
