"""Which cells a run computes, and when there is nothing left to do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from cubes.small import SPEC, draw_block, draw_inputs, fill, make_plan

from pipeline.prepare.sweep import Prepared
from pipeline.prepare.wanted import Wanted, is_settled
from storage.cube.blocks import BlockStore
from storage.cube.growth import create
from storage.cube.schema import DONE, FAILED, NO_SOLUTION, PENDING
from sweeps.inputs import Inputs
from sweeps.plan import Cell, DatasetPlan

PLAN = make_plan()
CELL, OTHER = (Cell("a", None, 0.9, 4, replicate, "likelihood") for replicate in (0, 1))


def prepared(cube: Path, *plans: DatasetPlan) -> Prepared:
    return Prepared(Mock(), Inputs(plans or (PLAN,), {}, {}), cube)


@pytest.fixture
def cube(tmp_path: Path) -> Path:
    """Cube of which one cell failed, and all others are done."""
    path = tmp_path / "tiny.zarr"
    create(path, [PLAN], draw_inputs, SPEC)
    baseline, block = PLAN.blocks()
    store = BlockStore(path)
    store.write(baseline, draw_block(PLAN, baseline))
    store.write(block, draw_block(PLAN, block) | {"status": np.array([FAILED, DONE], np.int8)})
    return path


@pytest.mark.parametrize(
    ("wanted", "of_cell", "of_other"),
    [
        (Wanted(), True, True),
        (Wanted(retry_failed=True), False, False),
        (Wanted(only=frozenset({CELL})), False, True),
        # The cells that are named are tried again, others of their blocks never.
        (Wanted(retry_failed=True, only=frozenset({CELL})), False, True),
    ],
)
def test_a_failed_cell_is_settled_unless_it_is_to_be_tried_again(
    wanted: Wanted, of_cell: bool, of_other: bool
) -> None:
    assert (wanted.settles(CELL, FAILED), wanted.settles(OTHER, FAILED)) == (of_cell, of_other)
    assert wanted.settles(CELL, DONE)
    assert not wanted.settles(CELL, PENDING)


def test_only_the_named_cells_run_and_only_their_blocks_are_read() -> None:
    plan = make_plan(p=(0.9, 0.8))
    assert list(Wanted().blocks(plan)) == list(plan.blocks())
    only = Wanted(only=frozenset({CELL, OTHER}))
    assert list(only.blocks(plan)) == [plan.block_of(CELL)]
    assert list(only.blocks(make_plan("b"))) == []
    assert only.runs(CELL)
    assert not only.runs(replace(CELL, p=0.8))
    assert Wanted().runs(replace(CELL, p=0.8))


def test_a_finished_cube_is_settled_unless_failed_cells_are_wanted(cube: Path) -> None:
    assert is_settled(prepared(cube), Wanted())
    assert not is_settled(prepared(cube), Wanted(retry_failed=True))
    assert is_settled(prepared(cube), Wanted(only=frozenset({OTHER})))
    assert not is_settled(prepared(cube), Wanted(only=frozenset({CELL})))


def test_a_cell_without_a_solution_is_settled_and_never_tried_again(tmp_path: Path) -> None:
    path = tmp_path / "tiny.zarr"
    create(path, [PLAN], draw_inputs, SPEC)
    baseline, block = PLAN.blocks()
    for part, statuses in ((baseline, [NO_SOLUTION]), (block, [NO_SOLUTION, DONE])):
        BlockStore(path).write(part, draw_block(PLAN, part) | {"status": np.array(statuses, np.int8)})
    for wanted in (Wanted(), Wanted(retry_failed=True), Wanted(only=frozenset({CELL}))):
        assert wanted.settles(CELL, NO_SOLUTION)
        assert is_settled(prepared(path), wanted)


def test_a_cube_that_is_missing_or_to_be_grown_is_not_settled(cube: Path, tmp_path: Path) -> None:
    fill(cube, [PLAN])
    assert is_settled(prepared(cube), Wanted(retry_failed=True))
    assert not is_settled(prepared(cube, PLAN, make_plan("b")), Wanted())
    assert not is_settled(prepared(cube, replace(PLAN, p=(0.9, 0.8))), Wanted())
    assert not is_settled(prepared(tmp_path / "none.zarr"), Wanted())
