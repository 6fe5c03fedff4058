"""Cells and blocks of a grid."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sweeps.plan import Cell, DatasetPlan

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


@pytest.mark.parametrize("plan", [REAL, MIXTURES], ids=["real", "mixtures"])
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
