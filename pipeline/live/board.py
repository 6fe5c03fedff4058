"""The map of a sweep and its scores so far, kept up to date cell by cell."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.live.grid import Grid, variant
from pipeline.live.means import Means
from pipeline.monitor.status import DatasetStatus
from storage.cube.schema import DONE, FAILED, NO_SOLUTION, PENDING
from sweeps.plan import ACCURACY, Block, Cell, DatasetPlan

STATES = (DONE, FAILED, NO_SOLUTION)


@dataclass(frozen=True, slots=True)
class Settled:
    """A cell that is finished: state, seconds in the solver, best objective in nats, and its labels.

    What is not known of it is NaN, or None.
    """

    cell: Cell
    status: int
    seconds: float = math.nan
    best: float = math.nan
    labels: NDArray[np.int16] | None = None


class Tally:
    """Cells of one model in one tile.

    Attributes
    ----------
    cells : int
        Of the grid.
    written, waiting : dict of int to int
        Cells by state in the cube, and those that are finished and not in the cube yet.
    seconds, timed : float, int
        Of so many cells together.
    best, where : float, str
        Largest objective, and the cell that has it.
    """

    __slots__ = ("best", "cells", "seconds", "timed", "waiting", "where", "written")

    def __init__(self) -> None:
        self.cells = 0
        self.written = dict.fromkeys(STATES, 0)
        self.waiting = dict.fromkeys(STATES, 0)
        self.seconds, self.timed = 0.0, 0
        self.best, self.where = -math.inf, ""

    def note(self, settled: Settled) -> None:
        """Take time and objective of a cell."""
        if not math.isnan(settled.seconds):
            self.seconds += settled.seconds
            self.timed += 1
        if settled.best > self.best:
            self.best, self.where = settled.best, str(settled.cell)

    def row(self) -> list[object]:
        """For JSON: cells; done, failed and without solution in the cube; the same waiting; seconds; best."""
        seconds = self.seconds / self.timed if self.timed else None
        best = None if math.isinf(self.best) else self.best
        counts = [*self.written.values(), *self.waiting.values()]
        return [self.cells, *counts, seconds, best, self.where]


CurveKey = tuple[str, str | None, str | None, float | None, str]
"""Data set, design, search, accuracy and model of a curve over m."""


class Changes:
    """Texts by key, which know in which version each changed last."""

    def __init__(self) -> None:
        self._texts: dict[object, tuple[int, str]] = {}

    def put(self, key: object, version: int, text: str) -> None:
        """Replace a text."""
        self._texts.pop(key, None)  # the order is that of the versions
        self._texts[key] = version, text

    def since(self, version: int) -> Iterator[str]:
        """Texts that are newer than a version, the newest first."""
        for changed, text in reversed(self._texts.values()):
            if changed <= version:
                return
            yield text


class Board:
    """Counts by tile and model, and means by curve, from what is told of blocks and cells.

    Not for several threads at once.

    Parameters
    ----------
    plans : iterable of DatasetPlan
        Grid of each data set.
    """

    def __init__(self, plans: Iterable[DatasetPlan]) -> None:
        self.grid = Grid(plans)
        self.version = 0
        self.blocks = self.blocks_done = 0
        self.scored = self.unscored = 0
        self._tallies = [
            {model: Tally() for model in self.grid.models(tile)} for tile in range(self.grid.n_tiles)
        ]
        self._totals = {name: [0, 0, 0, 0] for name in self.grid.plans}
        self._waiting: dict[Cell, int] = {}
        self._begun: set[Block] = set()
        self._curves: dict[CurveKey, dict[int | None, Means]] = {}
        self._touched: set[int] = set()
        self._touched_curves: set[CurveKey] = set()
        self._tiles, self._series = Changes(), Changes()

    def begin(self, block: Block, statuses: NDArray[np.int8]) -> None:
        """Count a block as it stands in the cube; each of the grid once."""
        self.blocks += 1
        self.blocks_done += int((statuses != PENDING).all())
        self._note_begun(block, statuses)
        tile, width, total = self.grid.tile(block), len(block.models), self._totals[block.dataset]
        for place, model in enumerate(block.models):
            states = statuses[place::width]
            tally = self._tallies[tile][model]
            tally.cells += len(states)
            total[0] += len(states)
            for column, state in enumerate(STATES, 1):
                count = int(np.count_nonzero(states == state))
                tally.written[state] += count
                total[column] += count
        self._touched.add(tile)

    def settle(self, settled: Settled) -> bool:
        """Take a cell that is finished and waits for its block; False if it was taken before."""
        cell = settled.cell
        if cell in self._waiting:
            return False
        self._waiting[cell] = settled.status
        self._begun.add(self.grid.plans[cell.dataset].block_of(cell))
        tile = self.grid.tile(cell)
        self._tallies[tile][cell.model].waiting[settled.status] += 1
        self.note(settled)
        return True

    def note(self, settled: Settled) -> None:
        """Take time and objective of a cell that is counted already."""
        tile = self.grid.tile(settled.cell)
        self._tallies[tile][settled.cell.model].note(settled)
        self._touched.add(tile)

    def write(self, block: Block, before: NDArray[np.int8], after: NDArray[np.int8]) -> list[Cell]:
        """Take a block that was written; cells whose time and objective were not told before.

        Parameters
        ----------
        block : Block
            Of the grid.
        before, after : array of int8, shape (n_cells,)
            Its statuses.
        """
        tile = self.grid.tile(block)
        unknown = []
        self.blocks_done += int((after != PENDING).all()) - int((before != PENDING).all())
        for cell, old, new in zip(block.cells(), before.tolist(), after.tolist(), strict=True):
            tally, waiting = self._tallies[tile][cell.model], self._waiting.get(cell)
            if waiting is not None:
                # A block is written draw by draw: what is pending still, or as failed as before, waits on.
                if new != PENDING and (old != new or waiting == new):
                    tally.waiting[self._waiting.pop(cell)] -= 1
            elif old != new and new in (DONE, NO_SOLUTION):
                unknown.append(cell)
            if old != new:
                self._move(block.dataset, tally, old, -1)
                self._move(block.dataset, tally, new, 1)
        self._note_begun(block, after)
        if any(cell in self._waiting for cell in block.cells()):
            self._begun.add(block)
        self._touched.add(tile)
        return unknown

    def score(self, cell: Cell, value: float) -> None:
        """Take the NMI of a cell."""
        key = cell.dataset, cell.design, cell.search, cell.p, cell.model
        means = self._curves.setdefault(key, {}).setdefault(cell.m, Means())
        # the unit of replication: what is drawn again on its own
        unit = cell.mixture if cell.mixture is not None else cell.replicate
        means.add(-1 if unit is None else unit, value)
        self.scored += 1
        self._touched_curves.add(key)

    @property
    def waiting(self) -> int:
        """Cells that are finished and not in the cube yet."""
        return len(self._waiting)

    @property
    def open_blocks(self) -> int:
        """Blocks that have a cell that is finished, and one that is not, or not in the cube yet."""
        return len(self._begun)

    def datasets(self) -> tuple[DatasetStatus, ...]:
        """Cells of each data set in the cube, as `sweep status` counts them."""
        return tuple(DatasetStatus(name, *row) for name, row in self._totals.items())

    def advance(self) -> int:
        """Number of this state: one more where anything has changed since the last one was numbered."""
        if self._touched or self._touched_curves:
            self.version += 1
            for tile in self._touched:
                rows = [tally.row() for tally in self._tallies[tile].values()]
                self._tiles.put(tile, self.version, _text([tile, rows]))
            for key in self._touched_curves:
                points = sorted(self._curves[key].items(), key=lambda point: point[0] or 0)
                shown = [[m, *means.summary()] for m, means in points]
                dataset, design, search, p, model = key
                accuracy = None if p is None else f"{p:{ACCURACY}}"
                row = [dataset, variant(design, search), accuracy, model, shown, search]
                self._series.put(key, self.version, _text(row))
            self._touched, self._touched_curves = set(), set()
        return self.version

    def tiles_since(self, version: int) -> str:
        """JSON of the tiles that changed after a version."""
        return f"[{','.join(self._tiles.since(version))}]"

    def series_since(self, version: int) -> str:
        """JSON of the curves that changed after a version."""
        return f"[{','.join(self._series.since(version))}]"

    def _note_begun(self, block: Block, statuses: NDArray[np.int8]) -> None:
        settled = statuses != PENDING
        if settled.all():
            self._begun.discard(block)
        elif settled.any():
            self._begun.add(block)

    def _move(self, dataset: str, tally: Tally, state: int, by: int) -> None:
        if state in STATES:
            tally.written[state] += by
            self._totals[dataset][1 + STATES.index(state)] += by


def _text(document: object) -> str:
    return json.dumps(document, allow_nan=False, separators=(",", ":"))
