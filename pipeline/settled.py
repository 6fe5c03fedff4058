"""Which cells need no more work, from the status of the cube alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from pipeline.prepare import Prepared
from storage.blocks import BlockStore
from storage.manifest import read_manifest
from storage.schema import DONE, FAILED
from sweeps.plan import Block, Cell, DatasetPlan


def settled_states(retry_failed: bool) -> tuple[int, ...]:
    """Values of `status` that need no more work."""
    return (DONE,) if retry_failed else (DONE, FAILED)


def is_settled(prepared: Prepared, *, retry_failed: bool) -> bool:
    """Whether the cube holds the whole sweep already, so that a submit has nothing to do."""
    if not prepared.cube.exists():
        return False
    plans = prepared.inputs.plans
    stored = read_manifest(prepared.cube).plans
    if any(stored.get(plan.name) != plan for plan in plans):
        return False
    store = BlockStore(prepared.cube, read_only=True)
    statuses = (statuses for plan in plans for _, statuses in store.all_statuses(plan))
    return all(np.isin(values, settled_states(retry_failed)).all() for values in statuses)


def cells_in(store: BlockStore, plans: Iterable[DatasetPlan], state: int) -> Iterator[tuple[Block, Cell]]:
    """Cells whose `status` is `state`, each with its block."""
    for plan in plans:
        for block, statuses in store.all_statuses(plan):
            for cell, status in zip(block.cells(), statuses, strict=True):
                if status == state:
                    yield block, cell


def failed_cells(cube: Path, plans: Iterable[DatasetPlan]) -> tuple[Cell, ...]:
    """Cells that the cube marks as failed."""
    return tuple(cell for _, cell in cells_in(BlockStore(cube, read_only=True), plans, FAILED))
