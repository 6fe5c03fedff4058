"""The board against its slow twin: the states of all cells, counted anew each time."""

from __future__ import annotations

import json
import random
from collections import Counter

import numpy as np
import pytest
from cubes.small import make_plan

from pipeline.live.board import Board, Settled
from storage.cube.schema import DONE, FAILED, NO_SOLUTION, PENDING
from sweeps.plan import Cell

PLANS = (
    make_plan("a", p=(0.8, 0.9), m=(4, 8), models=("likelihood", "posterior")),
    make_plan("b", mixtures=3, mixture_chunk=2, replicates=2),
)
ENDS = (DONE, FAILED, NO_SOLUTION)


class Twin:
    """State of each cell in the cube, and of those that wait."""

    def __init__(self) -> None:
        self.written = {cell: PENDING for plan in PLANS for block in plan.blocks() for cell in block.cells()}
        self.waiting: dict[Cell, int] = {}


def assert_same(board: Board, twin: Twin, seen: dict[int, list[list[object]]]) -> None:
    """Everything on the board, of tiles what its changes add up to."""
    for row in board.datasets():
        counts = Counter(state for cell, state in twin.written.items() if cell.dataset == row.name)
        assert (row.cells, row.done, row.failed, row.no_solution) == (
            counts.total(),
            *(counts[state] for state in ENDS),
        )
        assert row.left == counts[PENDING]
    blocks = [block for plan in PLANS for block in plan.blocks()]
    whole = [all(twin.written[cell] != PENDING for cell in block.cells()) for block in blocks]
    assert (board.blocks, board.blocks_done) == (len(blocks), sum(whole))
    assert board.waiting == len(twin.waiting)
    begun = 0
    for block in blocks:
        settled = [twin.written[cell] != PENDING for cell in block.cells()]
        begun += any(cell in twin.waiting for cell in block.cells()) or (any(settled) and not all(settled))
    assert board.open_blocks == begun
    for tile, rows in seen.items():
        for model, found in zip(board.grid.models(tile), rows, strict=True):
            mine = [c for c in twin.written if board.grid.tile(c) == tile and c.model == model]
            expected = [sum(twin.written[cell] == state for cell in mine) for state in ENDS]
            expected += [sum(twin.waiting.get(cell) == state for cell in mine) for state in ENDS]
            assert found[:7] == [len(mine), *expected]
    assert set(seen) == set(range(board.grid.n_tiles))


@pytest.mark.parametrize("seed", range(5))
def test_counts_are_those_of_all_cells(seed: int) -> None:
    rng, twin, board = random.Random(seed), Twin(), Board(PLANS)
    blocks = [block for plan in PLANS for block in plan.blocks()]
    for block in blocks:
        start = rng.choice([[PENDING], [DONE], [DONE, FAILED, PENDING]])
        for cell in block.cells():
            twin.written[cell] = rng.choice(start)
        board.begin(block, np.array([twin.written[cell] for cell in block.cells()], np.int8))
    seen: dict[int, list[list[object]]] = {}
    version = 0
    for _ in range(60):
        block = rng.choice(blocks)
        cells = [cell for cell in block.cells() if twin.written[cell] in (PENDING, FAILED)]
        for cell in rng.sample(cells, len(cells) // 2):
            state = rng.choice(ENDS)
            told = board.settle(Settled(cell, state, 1.0, -2.0))
            assert told == (cell not in twin.waiting)
            twin.waiting.setdefault(cell, state)
        if rng.random() < 0.3:
            before = [twin.written[cell] for cell in block.cells()]
            unknown = set()
            for cell in rng.sample(cells, rng.randint(0, len(cells))):  # some draws of the block
                if cell not in twin.waiting:
                    unknown.add(cell)
                twin.written[cell] = twin.waiting.pop(cell, DONE)
            # one that failed again, and was not among them, is taken for written: both say the same of it
            for cell in cells:
                if twin.written[cell] == twin.waiting.get(cell) == FAILED:
                    del twin.waiting[cell]
            after = [twin.written[cell] for cell in block.cells()]
            assert set(board.write(block, np.array(before), np.array(after))) == unknown
        if rng.random() < 0.5:  # a page does not see every state
            board.advance()
            seen |= dict(json.loads(board.tiles_since(version)))
            version = board.version
    board.advance()
    seen |= dict(json.loads(board.tiles_since(version)))
    assert_same(board, twin, seen)
    assert dict(json.loads(board.tiles_since(-1))) == seen


def test_time_and_best_objective_of_a_tile() -> None:
    board = Board([PLANS[0]])
    cells = [Cell("a", None, 0.8, 4, replicate, "posterior") for replicate in (0, 1)]
    for block in PLANS[0].blocks():
        board.begin(block, np.zeros(block.n_cells, np.int8))
    board.settle(Settled(cells[0], DONE, 2.0, -7.0))
    board.settle(Settled(cells[1], DONE, 4.0, -3.0))
    board.settle(Settled(Cell("a", None, 0.8, 4, 0, "likelihood"), FAILED))
    board.advance()
    rows = dict(json.loads(board.tiles_since(0)))[board.grid.tile(cells[0])]
    assert rows[1][7:] == [3.0, -3.0, str(cells[1])]
    assert rows[0][7:] == [None, None, ""]


def test_nothing_new_is_no_new_version() -> None:
    board = Board(PLANS)
    before = board.advance()
    assert board.advance() == before
    assert board.tiles_since(before) == board.series_since(before) == "[]"
    board.score(Cell("b", 1, 0.9, 4, 0, "likelihood"), 0.25)
    board.score(Cell("b", 1, 0.9, 4, 1, "likelihood"), 0.75)
    board.score(Cell("b", None, None, None, None, "unsupervised"), 0.5)
    assert board.advance() == before + 1
    found = sorted(json.loads(board.series_since(before)), key=lambda curve: curve[3])
    assert found == [
        ["b", "", "0.9", "likelihood", [[4, 0.5, None, 1]], None],  # one mixture
        ["b", "", None, "unsupervised", [[None, 0.5, None, 1]], None],
    ]
