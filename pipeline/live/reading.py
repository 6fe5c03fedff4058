"""Time, objective and score of cells: of those that have just ended, and of those that stand in the cube."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from pipeline.live.board import Board, Settled
from pipeline.live.means import nmi_of_many
from pipeline.work.merge import CellResult
from storage.cube.blocks import BlockStore
from storage.cube.schema import ANSWERED, DONE
from sweeps.plan import Block

Truth = Callable[[str, int | None], NDArray[np.int16] | None]
"""True labels by data set and mixture; None where they are not known."""


def settled_of(result: CellResult) -> Settled:
    """What the page shows of a cell that ended."""
    if result.best is None or result.failed:
        return Settled(result.cell, result.status)
    known = result.objectives[result.known]
    best = float(np.fmax.reduce(known)) if len(known) else np.nan
    labels = result.best.labels if result.best.solved else None
    return Settled(result.cell, result.status, result.seconds, best, labels)


def score(board: Board, cells: Iterable[Settled], truth: Truth) -> None:
    """Tell the board the NMI of every cell that has labels, those of the same data at once."""
    alike: dict[tuple[str, int | None], list[Settled]] = {}
    for each in cells:
        if each.labels is not None and each.status == DONE:
            alike.setdefault((each.cell.dataset, each.cell.mixture), []).append(each)
    for where, group in alike.items():
        labels_true = truth(*where)
        if labels_true is None:
            continue
        values = nmi_of_many(labels_true, np.stack([each.labels for each in group]))  # type: ignore[misc]
        for each, value in zip(group, values.tolist(), strict=True):
            board.score(each.cell, value)


class History:
    """Blocks of the cube whose cells are counted and not read yet.

    Parameters
    ----------
    board : Board
        What is told of them.
    truth : callable
        True labels.
    store : BlockStore
        The cube, to read.
    """

    def __init__(self, board: Board, truth: Truth, store: BlockStore) -> None:
        self._board = board
        self._truth = truth
        self._store = store
        self._left: deque[tuple[Block, NDArray[np.bool_]]] = deque()

    @property
    def cells(self) -> int:
        """Cells that are not read yet."""
        return sum(int(wanted.sum()) for _, wanted in self._left)

    def add(self, block: Block, wanted: NDArray[np.bool_]) -> None:
        """Read these cells of a block later."""
        if wanted.any():
            self._left.append((block, wanted))

    def begin(self) -> None:
        """Count every block of the cube on the board, and read the cells that are done later."""
        for plan in self._board.grid.plans.values():
            for block, statuses in self._store.all_statuses(plan):
                self.count(block, statuses)

    def count(self, block: Block, statuses: NDArray[np.int8]) -> None:
        """Count a block on the board, and read its cells that are done later."""
        self._board.begin(block, statuses)
        self.add(block, np.isin(statuses, ANSWERED))

    def read_one(self) -> bool:
        """Read one block; False if none is left."""
        if not self._left:
            return False
        block, wanted = self._left.popleft()
        arrays = self._store.read(block)
        found = []
        for place, cell in enumerate(block.cells()):
            if wanted[place]:
                objectives = arrays["log_likelihood"][place]
                best = float(np.fmax.reduce(objectives)) if len(objectives) else np.nan
                labels = arrays["labels"][place]
                found.append(
                    Settled(
                        cell,
                        int(arrays["status"][place]),
                        float(arrays["seconds"][place]),
                        best,
                        labels if labels.size and labels.min() >= 0 else None,
                    )
                )
        for each in found:
            self._board.note(each)
        score(self._board, found, self._truth)
        return True
