"""Which cells need no more work, from the status of the cube alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from pipeline.prepare.sweep import Prepared
from storage.cube.blocks import BlockStore
from storage.cube.manifest import read_manifest
from storage.cube.schema import ANSWERED, FAILED
from sweeps.plan import Block, Cell, DatasetPlan


@dataclass(frozen=True)
class Wanted:
    """What a run is to compute.

    Parameters
    ----------
    retry_failed : bool
        Whether cells that are marked failed are tried again.
    only : frozenset of Cell
        Cells to run, marked failed or not; empty for all.
    """

    retry_failed: bool = False
    only: frozenset[Cell] = frozenset()

    def runs(self, cell: Cell) -> bool:
        """Whether this run may compute a cell."""
        return not self.only or cell in self.only

    def settles(self, cell: Cell, status: int) -> bool:
        """Whether a cell of that `status` needs no more work, by this run or by another one."""
        return status in ANSWERED or (status == FAILED and not self._retries(cell))

    def blocks(self, plan: DatasetPlan) -> Iterable[Block]:
        """Blocks of a data set with cells that this run may compute."""
        if not self.only:
            return plan.blocks()
        return dict.fromkeys(plan.block_of(cell) for cell in self.only if cell.dataset == plan.name)

    def _retries(self, cell: Cell) -> bool:
        return cell in self.only if self.only else self.retry_failed


def is_settled(prepared: Prepared, wanted: Wanted) -> bool:
    """Whether the cube already holds all that is wanted, so that a submit has nothing to do."""
    if not prepared.cube.exists():
        return False
    plans = prepared.inputs.plans
    stored = read_manifest(prepared.cube).plans
    if any(stored.get(plan.name) != plan for plan in plans):
        return False  # the cube is to be grown first
    store = BlockStore(prepared.cube, read_only=True)
    if wanted.only:
        blocks = (block for plan in plans for block in wanted.blocks(plan))
        cells = (pair for block in blocks for pair in zip(block.cells(), store.statuses(block), strict=True))
        return all(wanted.settles(cell, status) for cell, status in cells if wanted.runs(cell))
    settled = ANSWERED if wanted.retry_failed else (*ANSWERED, FAILED)
    statuses = (statuses for plan in plans for _, statuses in store.all_statuses(plan))
    return all(np.isin(values, settled).all() for values in statuses)
