"""The map: every block has its tile, and a large grid no more of them than a screen holds."""

from __future__ import annotations

import pytest
from cubes.small import make_plan

from pipeline.live.grid import LEAST_TILES, MOST_TILES, Grid
from sweeps.plan import MethodPlan

DESIGNS = ("uniform", "active")


def test_each_place_has_a_tile_of_its_own_where_there_is_room() -> None:
    plan = make_plan(p=(0.9, 0.8), m=(24, 12), mixtures=3, mixture_chunk=2, designs=DESIGNS)
    grid = Grid([make_plan("b"), plan])
    places: dict[int, set[object]] = {}
    for each in grid.plans.values():
        for block in each.blocks():
            tile = grid.tile(block)
            places.setdefault(tile, set()).add((block.dataset, block.p, block.m, block.design))
            assert {grid.tile(cell) for cell in block.cells()} == {tile}
            assert set(block.models) <= set(grid.models(tile))
    assert sorted(places) == list(range(grid.n_tiles))
    assert all(len(found) == 1 for found in places.values())
    panel = grid.panel(grid.tile(next(b for b in plan.blocks() if b.design == "active")))
    assert (panel.dataset, panel.variant) == ("a", "active")
    assert (panel.rows, panel.columns) == (("0.8", "0.9"), ("12", "24"))


def test_a_baseline_has_a_column() -> None:
    names = ("unsupervised", "unsupervised-full")
    grid = Grid([make_plan(baselines=names)])
    assert (grid.panels[0].alone, grid.panels[0].columns) == (True, names)
    assert [grid.models(tile) for tile in (0, 1)] == [names[:1], names[1:]]


def test_searches_have_panels_and_baselines_rows() -> None:
    methods = (MethodPlan("k-means", 1),)
    baselines = ("unsupervised", "k-means")
    plan = make_plan(designs=DESIGNS, searches=("quick", "long"), baselines=baselines, methods=methods)
    grid = Grid([plan])
    alone, *others = grid.panels
    assert (alone.rows, alone.columns) == (("quick", "long"), baselines)
    assert [panel.variant for panel in others] == [
        "uniform, quick", "uniform, long", "active, quick", "active, long",
    ]  # fmt: skip
    tiles = [grid.tile(block) for block in plan.blocks()]
    assert len(set(tiles)) == len(tiles) == grid.n_tiles - 1
    (nothing,) = set(range(grid.n_tiles)) - set(tiles)
    assert grid.models(nothing) == (), "a method has no search, and stands in the first row"
    for block in plan.blocks():
        assert set(block.models) <= set(grid.models(grid.tile(block)))


@pytest.mark.parametrize(("n_p", "n_m"), [(100, 100), (2, 5000), (500, 1)])
def test_neighbours_of_a_large_grid_share_a_tile(n_p: int, n_m: int) -> None:
    p = tuple(round(0.5 + 0.5 * (k + 1) / n_p, 6) for k in range(n_p))
    plan = make_plan(p=p, m=tuple(range(1, n_m + 1)), baselines=())
    grid = Grid([plan])
    assert LEAST_TILES < grid.n_tiles <= MOST_TILES
    tiles = [grid.tile(block) for block in plan.blocks()]
    assert set(tiles) == set(range(grid.n_tiles))
    (panel,) = grid.panels
    assert len(panel.rows) * len(panel.columns) == grid.n_tiles
    first = panel.columns[0].split("–")
    assert first[0] == "1"
    assert int(first[-1]) == -(-n_m // len(panel.columns)) or len(panel.columns) == n_m
