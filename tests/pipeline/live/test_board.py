"""The board against its slow twin: the states of all cells, counted anew each time."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from dataclasses import replace
from importlib.resources import files
from itertools import compress
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cubes.small import make_plan

from kernels.scores import nmi
from pipeline.live.board import MOST_TILES, Board, Grid, Settled, look, nmi_of_many
from pipeline.live.state import Follower
from pipeline.report import look as report_look
from pipeline.scoring.tables import cell_table
from storage.cube.growth import open_cube
from storage.cube.manifest import read_manifest
from storage.cube.schema import DONE, FAILED, NO_SOLUTION, PENDING
from sweeps.plan import Cell, MethodPlan
from sweeps.words import BASELINES, MODEL_CODES, SHIPPED

# The map: every block has its tile, and a large grid no more of them than a screen holds.


def test_each_place_has_a_tile_of_its_own_where_there_is_room() -> None:
    methods, baselines = (MethodPlan("k-means", 1),), ("unsupervised", "k-means")
    designs = ("uniform", "active")
    searched = make_plan(
        "s", searches=("quick", "long"), baselines=baselines, methods=methods, designs=designs
    )
    plan = make_plan(p=(0.9, 0.8), m=(24, 12), mixtures=3, mixture_chunk=2, designs=designs)
    grid = Grid([make_plan("b"), plan, searched])
    places: dict[int, set[object]] = {}
    for each in grid.plans.values():
        for block in each.blocks():
            (tile,) = {grid.tile(cell) for cell in block.cells()}
            # blocks of one tile differ in mixture, replicate and model alone, those of a baseline not in this
            first = replace(block.first, mixture=None, replicate=None)
            places.setdefault(tile, set()).add(first if first.p is None else replace(first, model=""))
            assert set(block.models) <= set(grid.models[tile])
    assert all(len(found) == 1 for found in places.values())
    (nothing,) = set(range(len(grid.models))) - set(places)
    assert grid.models[nothing] == (), "a method has no search, and stands in the first row"
    panels = {(panel.dataset, panel.variant): panel for panel in grid.panels}
    assert (panels["s", ""].rows, panels["s", ""].columns) == (("quick", "long"), baselines)
    assert [variant for dataset, variant in panels if dataset == "s"] == [
        "", "uniform, quick", "uniform, long", "active, quick", "active, long",
    ]  # fmt: skip
    panel = panels["a", "active"]
    assert (panel.rows, panel.columns) == (("0.8", "0.9"), ("12", "24"))
    lower = next(block.first for block in plan.blocks() if block.first.design == "active")
    assert (lower.p, lower.m) == (0.9, 24)
    assert grid.tile(replace(lower, p=0.8)) == grid.tile(lower) - len(panel.columns)  # the row above
    assert grid.tile(replace(lower, m=12)) == grid.tile(lower) - 1


@pytest.mark.parametrize(("n_p", "n_m"), [(80, 60), (2, 4000)])
def test_neighbours_of_a_large_grid_share_a_tile(n_p: int, n_m: int) -> None:
    p = tuple((np.arange(1, n_p + 1) / n_p).tolist())
    plan = make_plan(p=p, m=tuple(range(1, n_m + 1)), baselines=())
    grid = Grid([plan])
    assert MOST_TILES / 2 < len(grid.models) <= MOST_TILES
    tiles = [grid.tile(block.first) for block in plan.blocks()]
    assert set(tiles) == set(range(len(grid.models)))
    (panel,) = grid.panels
    assert len(panel.rows) * len(panel.columns) == len(grid.models)
    first = panel.columns[0].split("–")
    assert first[0] == "1"
    assert int(first[-1]) == -(-n_m // len(panel.columns)) or len(panel.columns) == n_m


# Scores of many cells at once, and bands, against one cell after the other.


def test_nmi_of_many_is_that_of_each() -> None:
    for seed in range(8):
        rng = np.random.default_rng(seed)
        n, k = int(rng.integers(1, 60)), int(rng.integers(1, 6))
        truth = rng.integers(0, k, n).astype(np.int16)
        labels = rng.integers(0, k + 2, (7, n)).astype(np.int16)
        labels[0], labels[1], labels[2] = truth, 0, (truth + 1) % k
        truth[:] = truth if seed else 0  # one class
        expected = [nmi(truth, each) for each in labels]
        assert nmi_of_many(truth, labels) == pytest.approx(expected, abs=1e-12)


def test_a_model_has_the_colour_that_it_has_in_the_report() -> None:
    for model in (*MODEL_CODES, *BASELINES, *SHIPPED, "one-of-mine"):
        color = report_look.mark(model).color
        variable = report_look.VARIABLES.get(color)
        assert look(model)["color"] == (f"var({variable})" if variable else color)
    looks = [tuple(look(model).values()) for model in MODEL_CODES if model not in BASELINES]
    assert len(set(looks)) == len(looks)
    shades = []
    for package in ("pipeline.live", "pipeline.report"):
        text = files(package).joinpath("page.css").read_text(encoding="utf-8")
        blocks = re.findall(r"\{([^{}]*--ink: [^{}]*)\}", text)  # light, dark, and dark by choice
        shades.append([dict(re.findall(r"(--\w+): (#\w+);", block)) for block in blocks])
    assert [other.items() <= mine.items() for mine, other in zip(*shades, strict=True)] == [True] * 3


PLANS = (
    make_plan("a", p=(0.8, 0.9), m=(4, 8), models=("likelihood", "posterior")),
    make_plan("b", mixtures=3, mixture_chunk=2, replicates=2),
)
BLOCKS = [block for plan in PLANS for block in plan.blocks()]
ENDS = (DONE, FAILED, NO_SOLUTION)


def tiles_of(board: Board, since: int = -1) -> dict[int, list[list[object]]]:
    """Rows of the tiles that changed after a version."""
    return dict(json.loads(board.tiles.since(since)))


Cells = dict[Cell, int]


def assert_same(board: Board, written: Cells, waiting: Cells, seen: dict[int, list[list[object]]]) -> None:
    """Everything on the board, of tiles what its changes add up to."""
    for row in board.datasets():
        counts = Counter(state for cell, state in written.items() if cell.dataset == row.name)
        found = (row.cells, row.done, row.failed, row.no_solution, row.left)
        assert found == (counts.total(), *(counts[state] for state in (*ENDS, PENDING)))
    ended = [[written[cell] != PENDING for cell in block.cells()] for block in BLOCKS]
    assert (len(board.statuses), board.blocks_done) == (len(BLOCKS), sum(map(all, ended)))
    assert len(board.waiting) == len(waiting)
    begun = [any(cell in waiting for cell in block.cells()) for block in BLOCKS]
    begun = [one or (any(other) and not all(other)) for one, other in zip(begun, ended, strict=True)]
    assert len(board.open_blocks) == sum(begun)
    for tile, rows in seen.items():
        for model, found_row in zip(board.grid.models[tile], rows, strict=True):
            mine = [c for c in written if board.grid.tile(c) == tile and c.model == model]
            expected = [
                sum(states.get(cell) == end for cell in mine) for states in (written, waiting) for end in ENDS
            ]
            assert found_row[:7] == [len(mine), *expected]
    assert set(seen) == set(range(len(board.grid.models)))


@pytest.mark.parametrize("seed", range(3))
def test_counts_are_those_of_all_cells(seed: int) -> None:
    rng, board, waiting = random.Random(seed), Board(PLANS), Cells()
    written = {cell: PENDING for block in BLOCKS for cell in block.cells()}
    for block in BLOCKS:
        start = rng.choice([[PENDING], [DONE], [DONE, FAILED, PENDING]])
        written |= {cell: rng.choice(start) for cell in block.cells()}
        board.write(block, np.array([written[cell] for cell in block.cells()], np.int8))
    seen: dict[int, list[list[object]]] = {}
    version = 0
    for _ in range(60):
        block = rng.choice(BLOCKS)
        cells = [cell for cell in block.cells() if written[cell] in (PENDING, FAILED)]
        for cell in rng.sample(cells, len(cells) // 2):
            state = rng.choice(ENDS)
            assert board.settle(Settled(cell, state, 1.0, -2.0)) == (cell not in waiting)
            waiting.setdefault(cell, state)
        if rng.random() < 0.3:
            unknown = set()
            for cell in rng.sample(cells, rng.randint(0, len(cells))):  # some draws of the block
                if cell not in waiting:
                    unknown.add(cell)
                written[cell] = waiting.pop(cell, DONE)
            # one that failed again, and was not among them, is taken for written: both say the same of it
            for cell in cells:
                if written[cell] == waiting.get(cell) == FAILED:
                    del waiting[cell]
            found = board.write(block, np.array([written[cell] for cell in block.cells()], np.int8))
            assert set(compress(block.cells(), found)) == unknown
        if rng.random() < 0.5:  # a page does not see every state
            board.advance()
            seen |= tiles_of(board, version)
            version = board.version
    board.advance()
    seen |= tiles_of(board, version)
    assert_same(board, written, waiting, seen)
    assert tiles_of(board) == seen


def test_nothing_new_is_no_new_version() -> None:
    board = Board(PLANS)
    before = board.advance()
    assert board.advance() == before
    assert board.tiles.since(before) == board.series.since(before) == "[]"
    best = Cell("b", 1, 0.9, 4, 0, "likelihood")
    for cell, seconds, objective in ((best, 2.0, -3.0), (replace(best, replicate=1), 4.0, -7.0)):
        assert board.settle(Settled(cell, DONE, seconds, objective))
    board.settle(Settled(replace(best, mixture=0), FAILED))
    board.score(best, 0.25)
    board.score(Cell("b", 1, 0.9, 4, 1, "likelihood"), 0.75)
    board.score(Cell("b", None, None, None, None, "unsupervised"), 0.5)
    assert board.advance() == before + 1
    assert tiles_of(board, before) == {board.grid.tile(best): [[6, 0, 0, 0, 2, 1, 0, 3.0, -3.0, str(best)]]}
    found = sorted(json.loads(board.series.since(before)), key=lambda curve: curve[3])
    assert found == [
        ["b", "", "0.9", "likelihood", [[4, 0.5, None, 1]], [None, None]],  # one mixture
        ["b", "", None, "unsupervised", [[None, 0.5, None, 1]], [None, None]],
    ]


# Time, objective and NMI of the cells of a cube, against the tables of the report.


def test_scores_and_times_are_those_of_the_report(finished: Path) -> None:
    cube = finished / "tiny.zarr"
    follower = Follower(cube)
    while follower.unread:
        follower.update()
    board = follower.board
    board.advance()
    table = cell_table(open_cube(cube), read_manifest(cube).plans)
    table["unit"] = table["mixture"].fillna(table["replicate"]).fillna(-1)
    table["curve"] = table["p"].map(lambda p: None if np.isnan(p) else f"{p:.9g}")
    curves = {tuple(curve[:4]): curve[4] for curve in json.loads(board.series.since(-1))}
    expected: dict[tuple[object, ...], list[list[object]]] = {}
    keys = ["dataset", "curve", "model", "m"]
    for (dataset, p, model, m), cells in table.groupby(keys, dropna=False):
        units = cells.groupby("unit")["nmi"].mean()
        summary = units.mean(), units.sem() if len(units) > 1 else None, len(units)
        points = expected.setdefault((dataset, "", None if pd.isna(p) else p, model), [])
        points.append([None if pd.isna(m) else int(m), *summary])
    assert curves.keys() == expected.keys()
    for key, points in curves.items():
        for found, wanted in zip(points, expected[key], strict=True):
            assert [each or 0.0 for each in found] == pytest.approx([each or 0.0 for each in wanted])
    rows_of = tiles_of(board)
    for plan in board.grid.plans.values():
        for block in plan.blocks():
            for model, row in zip(block.models, rows_of[board.grid.tile(block.first)], strict=True):
                cells = table[(table["dataset"] == block.dataset) & (table["model"] == model)]
                if block.first.m is not None:
                    cells = cells[(cells["p"] == block.first.p) & (cells["m"] == block.first.m)]
                assert row[:2] == [len(cells), (cells["status"] == "done").sum()]
                assert row[7:9] == pytest.approx([cells["seconds"].mean(), cells["objective"].max()])
