"""A cube that another process fills, seen through its files alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from cubes.small import draw_block, draw_inputs, make_plan, make_spec
from cubes.writer import empty, next_generation

from pipeline.live.follow import Follower
from pipeline.monitor.status import read_status
from pipeline.work.merge import to_record
from pipeline.work.records import Partial, Work
from storage.cube.blocks import BlockStore
from storage.cube.growth import grow
from storage.runfolder.folder import RunFolder
from storage.runfolder.journal import Journal
from storage.runfolder.records import HeadRecord
from sweeps.plan import Cell

PLAN = make_plan()
FIRST, SECOND = (Cell("a", None, 0.9, 4, replicate, "likelihood") for replicate in (0, 1))


@pytest.fixture
def cube(tmp_path: Path) -> Path:
    return empty(tmp_path, PLAN)


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every update look at the files, and not every other second."""
    monkeypatch.setattr("pipeline.live.follow.max", lambda *_: 0.0, raising=False)


def journalled(cube: Path, *partials: Partial) -> None:
    generation = next_generation(cube)
    HeadRecord(spec="s", node="n").write(generation.head, generation.files)
    with Journal(generation.journal, generation.files) as journal:
        for partial in partials:
            journal.append(*to_record([partial]))


def partial(cell: Cell, start: int, stop: int) -> Partial:
    labels = np.array([0, 1, 0, 1, 0], np.int16)
    solution = labels, np.zeros((2, 2)), np.ones(2)
    return Partial(Work(cell, start, stop), -np.arange(start, stop, dtype=float), start, *solution, 0.5, 0.1)


def test_blocks_come_in_as_they_are_written(cube: Path, at_once: None) -> None:
    follower = Follower(cube)
    follower.update()
    assert follower.board.datasets() == read_status(cube).datasets
    store = BlockStore(cube)
    for number, block in enumerate(PLAN.blocks(), 1):
        store.write(block, draw_block(PLAN, block))
        follower.update()
        found = read_status(cube)
        assert (follower.board.blocks, follower.board.blocks_done) == (found.blocks, found.blocks_done)
        assert follower.board.blocks_done == number
        assert follower.board.datasets() == found.datasets
    assert follower.board.scored == PLAN.n_cells


def test_cells_that_wait_in_the_journal_are_seen(cube: Path, at_once: None) -> None:
    journalled(cube, partial(FIRST, 0, 2), partial(FIRST, 2, 3), partial(SECOND, 0, 2))
    follower = Follower(cube)
    follower.update()
    assert (follower.board.waiting, follower.board.open_blocks, follower.board.scored) == (1, 1, 1)
    assert follower.board.datasets() == read_status(cube).datasets  # nothing of it is in the cube
    block = PLAN.block_of(FIRST)
    BlockStore(cube).write(block, draw_block(PLAN, block))
    follower.update()
    assert (follower.board.waiting, follower.board.open_blocks, follower.board.scored) == (0, 0, 2)


def test_a_damaged_journal_is_left_to_the_next_driver(cube: Path, at_once: None) -> None:
    journalled(cube, partial(FIRST, 0, 3), partial(SECOND, 0, 3))
    path = RunFolder(cube).last_run.journal
    raw = bytearray(path.read_bytes())
    raw[60] ^= 255
    path.write_bytes(raw)
    follower = Follower(cube)
    follower.update()
    assert follower.board.waiting == 0


def test_a_cube_that_has_grown_needs_a_new_board(cube: Path) -> None:
    follower = Follower(cube)
    assert not follower.outgrown
    plans = [PLAN, make_plan("b")]
    grow(cube, plans, draw_inputs, make_spec("ab"))
    assert follower.outgrown
    assert [row.name for row in Follower(cube).board.datasets()] == ["a", "b"]


def test_a_large_grid_is_not_looked_at_all_the_time(cube: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []
    inner: Callable[..., None] = Follower._look

    def counted(self: Follower) -> None:
        looks.append(1)
        inner(self)

    monkeypatch.setattr(Follower, "_look", counted)
    follower = Follower(cube)
    for _ in range(5):
        follower.update()
    assert len(looks) == 1
