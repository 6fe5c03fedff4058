"""Cells and blocks of a grid."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sweeps.plan import Cell, DatasetPlan, MethodPlan

REAL = DatasetPlan(
    name="iris",
    n_samples=150,
    n_features=4,
    n_clusters=3,
    checksum="",
    source="",
    has_labels=True,
    mixtures=None,
    p=(0.8, 1.0),
    m=(75, 150, 225),
    replicates=4,
    models=("likelihood", "posterior"),
    baselines=("unsupervised",),
    restarts=50,
    mixture_chunk=1,
    replicate_chunk=4,
    model_chunk=2,
)
MIXTURES = replace(REAL, name="mixtures_k2", mixtures=6, mixture_chunk=3, replicate_chunk=2, model_chunk=1)

SEARCHED = replace(
    MIXTURES,
    designs=("uniform", "active"),
    searches=("quick", "long"),
    models=("likelihood", "pckmeans"),
    baselines=("unsupervised", "kmeans"),
    methods=(MethodPlan("pckmeans", 2), MethodPlan("kmeans", 3)),
)


@pytest.mark.parametrize("plan", [REAL, MIXTURES], ids=["real", "mixtures"])
def test_blocks_hold_every_cell_once(plan: DatasetPlan) -> None:
    cells = [cell for block in plan.blocks() for cell in block.cells()]
    wanted = {
        Cell(plan.name, mixture, p, m, replicate, model)
        for mixture in ([None] if plan.mixtures is None else range(plan.mixtures))
        for p, m, replicate, model in [
            (None, None, None, "unsupervised"),
            *[(p, m, r, model) for p in plan.p for m in plan.m for r in range(4) for model in plan.models],
        ]
    }
    assert len(cells) == len(set(cells)) == plan.n_cells
    assert set(cells) == wanted


def test_a_block_is_one_chunk_position() -> None:
    assert len(list(REAL.blocks())) == 1 + 2 * 3
    assert len(list(MIXTURES.blocks())) == 2 + 2 * 3 * 2 * 2 * 2
    block = list(MIXTURES.blocks())[-1]
    assert (block.mixtures, block.replicates, block.models) == ((3, 6), (2, 4), ("posterior",))
    assert [(cell.mixture, cell.replicate) for cell in block.cells()] == [
        (3, 2), (3, 3), (4, 2), (4, 3), (5, 2), (5, 3),
    ]  # fmt: skip


def test_searches_are_a_coordinate_of_all_that_searches() -> None:
    cells = [cell for block in SEARCHED.blocks() for cell in block.cells()]
    assert len(cells) == len(set(cells)) == SEARCHED.n_cells == 6 * (2 * 3 * 2 * 4 * 2 * 2 + 2 + 1)
    assert all(map(SEARCHED.has, cells))
    assert {cell.search for cell in cells if cell.model == "unsupervised"} == {"quick", "long"}
    assert {cell.search for cell in cells if cell.model == "kmeans"} == {None}
    calls = {"likelihood": 50, "pckmeans": 2, "unsupervised": 50, "kmeans": 3}
    assert SEARCHED.n_restarts == sum(calls[cell.model] for cell in cells)
    for cell in cells:
        assert not SEARCHED.has(replace(cell, search="other"))
        assert SEARCHED.has(replace(cell, search=None)) == (cell.model == "kmeans")
    assert not REAL.has(Cell("iris", None, 0.8, 75, 0, "posterior", None, "quick"))


@pytest.mark.parametrize("plan", [REAL, MIXTURES, SEARCHED], ids=["real", "mixtures", "searched"])
def test_each_cell_finds_its_block(plan: DatasetPlan) -> None:
    for block in plan.blocks():
        assert block.n_cells == len(list(block.cells()))
        for cell in block.cells():
            assert plan.block_of(cell) == block


def test_a_plan_without_supervised_models_has_the_baseline_alone() -> None:
    plan = replace(REAL, models=(), p=(), m=(), model_chunk=1)
    assert [str(block) for block in plan.blocks()] == ["iris/unsupervised"]
    assert plan.n_cells == 1


def test_cells_and_blocks_have_names_people_can_read() -> None:
    assert str(Cell("iris", None, 0.8, 75, 3, "posterior")) == "iris/p=0.8/m=75/replicate=3/posterior"
    assert str(Cell("mix", 2, None, None, None, "unsupervised")) == "mix/mixture=2/unsupervised"
    searched = Cell("mix", 2, 0.8, 75, 3, "likelihood", "active", "long")
    assert str(searched) == "mix/mixture=2/p=0.8/m=75/design=active/replicate=3/search=long/likelihood"
    assert str(SEARCHED.block_of(searched)).endswith(
        "m=75/design=active/search=long/mixtures=0:3/replicates=2:4"
    )
    alone = Cell("mix", 2, None, None, None, "unsupervised", None, "long")
    assert str(alone) == "mix/mixture=2/search=long/unsupervised"
