"""Time, objective and NMI of the cells of a cube, against the tables of the report."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from pipeline.live.board import Board
from pipeline.live.follow import Follower
from pipeline.live.means import Means
from pipeline.live.reading import History, settled_of
from pipeline.scoring.tables import cell_table
from pipeline.work.merge import CellResult
from pipeline.work.records import Partial, Work
from storage.cube.blocks import BlockStore
from storage.cube.growth import open_cube
from storage.cube.manifest import read_manifest
from storage.cube.schema import DONE, FAILED
from sweeps.plan import Cell

CELL = Cell("a", None, 0.9, 4, 0, "likelihood")


def result(*, failed: bool = False, solved: bool = True) -> CellResult:
    found = CellResult(CELL, 3)
    if failed:
        found.failed = True
        return found
    labels = np.array([0, 1, 0, 1, 0], np.int16)
    best = 1 if solved else -1
    objectives = np.array([-3.0, -1.0, np.nan])
    found.add(Partial(Work(CELL, 0, 3), objectives, best, labels, np.zeros((2, 2)), np.ones(2), 1.5, 1.0))
    return found


def test_what_is_shown_of_a_cell_that_ended() -> None:
    done = settled_of(result())
    assert (done.cell, done.status, done.seconds, done.best) == (CELL, DONE, 1.5, -1.0)
    assert done.labels is not None
    assert settled_of(result(solved=False)).labels is None
    assert settled_of(result(failed=True)).status == FAILED


def test_scores_and_times_are_those_of_the_report(finished: Path) -> None:
    cube = finished / "tiny.zarr"
    follower = Follower(cube)
    while follower.unread:
        follower.update()
    board = follower.board
    board.advance()
    table = cell_table(open_cube(cube), read_manifest(cube).plans)
    curves = {tuple(curve[:4]): curve[4] for curve in json.loads(board.series_since(-1))}
    keys = table.assign(
        p=table["p"].map(lambda p: "" if np.isnan(p) else f"{p:.9g}"),
        m=table["m"].fillna(-1),
        unit=table["mixture"].fillna(table["replicate"]).fillna(-1),
    )
    n_points = 0
    for (dataset, p, model), rows in keys.groupby(["dataset", "p", "model"], sort=False):
        points = curves[dataset, "", p or None, model]
        expected = {}
        for m, cells in rows.groupby("m"):
            means = Means()
            for row in cells.itertuples():
                means.add(int(row.unit), row.nmi)
            expected[None if m < 0 else int(m)] = means.summary()
        for m, *summary in points:
            assert [each or 0.0 for each in summary] == pytest.approx([each or 0.0 for each in expected[m]])
        assert len(points) == len(expected)
        n_points += len(points)
    assert n_points == sum(len(points) for points in curves.values())
    for tile, rows in json.loads(board.tiles_since(-1)):
        for model, row in zip(board.grid.models(tile), rows, strict=True):
            panel = board.grid.panel(tile)
            cells = table[(table["dataset"] == panel.dataset) & (table["model"] == model)]
            if not panel.alone:
                at = tile - min(t for t in range(board.grid.n_tiles) if board.grid.panel(t) is panel)
                p, m = panel.rows[at // len(panel.columns)], panel.columns[at % len(panel.columns)]
                cells = cells[(cells["p"] == float(p)) & (cells["m"] == int(m))]
            assert row[:2] == [len(cells), (cells["status"] == "done").sum()]
            assert row[7:9] == pytest.approx([cells["seconds"].mean(), cells["objective"].max()])


def test_a_block_is_read_once(finished: Path) -> None:
    cube = finished / "tiny.zarr"
    plans = read_manifest(cube).plans
    board = Board(plans.values())
    history = History(board, lambda dataset, mixture: None, BlockStore(cube, read_only=True))
    history.begin()
    assert history.cells == sum(plan.n_cells for plan in plans.values())
    turns = 0
    while history.read_one():
        turns += 1
    assert (turns, history.cells, board.scored) == (board.blocks, 0, 0)  # without truth there is no score
