"""The map of a sweep and its scores so far, kept up to date cell by cell."""

from __future__ import annotations

import json
import math
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.monitor.status import DatasetStatus
from pipeline.work.merge import CellResult
from storage.cube.blocks import BlockStore
from storage.cube.schema import ANSWERED, DONE, FAILED, NO_SOLUTION, PENDING
from sweeps.plan import ACCURACY, Block, Cell, DatasetPlan
from sweeps.words import BASELINES, SHIPPED, is_model, split_model

# Where each block stands on the map of a sweep: panels of tiles, few enough for a screen.

MOST_TILES = 3000
"""Of all panels together; neighbours of a larger grid share a tile."""

LEAST_TILES = 24
"""That a panel may have, however many panels there are."""

Key = tuple[float | None, int | str, str | None, str | None]
"""Accuracy, number of annotations, design and search; of a baseline no accuracy, its name, no design."""


@dataclass(frozen=True)
class Panel:
    """One data set, design and search, or the baselines of one data set.

    Parameters
    ----------
    dataset, variant : str
        The design and the search, as far as the sweep names them.
    alone : bool
        Whether it has the models without annotations, one in each column, and a row for each search.
    models : tuple of str
        Of its tiles.
    rows, columns : tuple of str
        Accuracies and numbers of annotations, a range where tiles stand for several.
    """

    dataset: str
    variant: str
    alone: bool
    models: tuple[str, ...]
    rows: tuple[str, ...]
    columns: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "dataset": self.dataset,
            "variant": self.variant,
            "alone": self.alone,
            "models": self.models,
            "rows": self.rows,
            "columns": self.columns,
        }


class Grid:
    """Panels of a sweep, and the tile of each block.

    Tiles are numbered through all panels, in each by row and column.

    Parameters
    ----------
    plans : iterable of DatasetPlan
        In the order of the file.
    """

    def __init__(self, plans: Iterable[DatasetPlan]) -> None:
        self.plans = {plan.name: plan for plan in plans}
        self.panels: list[Panel] = []
        self._tiles: dict[str, dict[Key, int]] = {}
        self._panel_of: list[int] = []
        n_panels = sum(
            len(plan.designs) * len(plan.cell_searches) for plan in self.plans.values() if plan.supervised
        )
        most = max(LEAST_TILES, MOST_TILES // max(n_panels, 1))
        for plan in self.plans.values():
            self._tiles[plan.name] = {}
            if plan.baselines:
                alone = Panel(plan.name, "", True, (), plan.searches or ("",), plan.baselines)
                first = self._add(alone)
                for (column, name), (row, search) in product(
                    enumerate(plan.baselines), enumerate(plan.cell_searches)
                ):
                    # a method, which has no search, is in the first row
                    search = search if search in plan.searches_of(name) else None
                    place = first + row * len(alone.columns) + column
                    self._tiles[plan.name].setdefault((None, name, None, search), place)
            if plan.supervised:
                rows, columns = _shared(sorted(plan.p), sorted(plan.m), most)
                for design, search in product(plan.cell_designs, plan.cell_searches):
                    labels = _labels(rows), _labels(columns)
                    panel = Panel(plan.name, variant(design, search), False, plan.models, *labels)
                    first = self._add(panel)
                    for (p, row), (m, column) in product(rows.items(), columns.items()):
                        place = first + row * len(panel.columns) + column
                        self._tiles[plan.name][p, m, design, search] = place

    @property
    def n_tiles(self) -> int:
        """Tiles of all panels."""
        return len(self._panel_of)

    def tile(self, where: Block | Cell) -> int:
        """Number of the tile that holds a block, or a cell."""
        if where.p is None or where.m is None:
            model = where.model if isinstance(where, Cell) else where.models[0]
            return self._tiles[where.dataset][None, model, None, where.search]
        return self._tiles[where.dataset][where.p, where.m, where.design, where.search]

    def panel(self, tile: int) -> Panel:
        """Panel of a tile."""
        return self.panels[self._panel_of[tile]]

    def models(self, tile: int) -> tuple[str, ...]:
        """Models whose cells a tile holds."""
        panel = self.panel(tile)
        if not panel.alone:
            return panel.models
        row, column = divmod(tile - self._panel_of.index(self._panel_of[tile]), len(panel.columns))
        name = panel.columns[column]
        return (name,) if row < len(self.plans[panel.dataset].searches_of(name)) else ()

    def _add(self, panel: Panel) -> int:
        """Number of the first tile of a new panel."""
        first = self.n_tiles
        self.panels.append(panel)
        self._panel_of += [len(self.panels) - 1] * (len(panel.rows) * len(panel.columns))
        return first


def variant(design: str | None, search: str | None) -> str:
    """Title of a design and a search, as far as the sweep names them."""
    return ", ".join(filter(None, [design, search]))


def _shared(p: Sequence[float], m: Sequence[int], most: int) -> tuple[dict[Any, int], dict[Any, int]]:
    """Row of each accuracy and column of each count, at most so many tiles in all."""
    across = down = 1
    while ceil(len(p) / down) * ceil(len(m) / across) > most:
        # the longer side loses first: tiles stay about as fine in both directions
        if len(m) / across >= len(p) / down:
            across += 1
        else:
            down += 1
    rows = {value: place // down for place, value in enumerate(p)}
    return rows, {value: place // across for place, value in enumerate(m)}


def _labels(places: dict[Any, int]) -> tuple[str, ...]:
    """Value of each row or column, or the first and the last of those that share one."""
    groups: dict[int, list[Any]] = {}
    for value, place in places.items():
        groups.setdefault(place, []).append(value)
    return tuple(
        _text_of_grid(values[0])
        if len(values) == 1
        else f"{_text_of_grid(values[0])}–{_text_of_grid(values[-1])}"
        for values in groups.values()
    )


def _text_of_grid(value: float) -> str:
    return f"{value:{ACCURACY}}" if isinstance(value, float) else str(value)


# Scores of cells as they come in: NMI of many at once, and means with their standard errors.

Units = dict[int, tuple[float, int]]
"""Sum and number of the scores of each unit: of a mixture, or of a redraw of the annotations."""


def nmi_of_many(labels_true: NDArray[np.integer], labels: NDArray[np.integer]) -> NDArray[np.float64]:
    """NMI of several solutions of the same data, as `kernels.scores.nmi` has it of one with "min".

    Parameters
    ----------
    labels_true : array of int, shape (n_samples,)
        True classes, from 0.
    labels : array of int, shape (n_cells, n_samples)
        Clusters, from 0.

    Returns
    -------
    array of float64, shape (n_cells,)
        In [0, 1]; docs/model.md, eq. (27).
    """
    n_cells, n_samples = labels.shape
    classes, clusters = int(labels_true.max()) + 1, int(labels.max()) + 1
    size = classes * clusters
    at = (np.arange(n_cells) * size)[:, None] + labels_true.astype(np.int64) * clusters + labels
    joint = np.bincount(at.ravel(), minlength=n_cells * size).reshape(n_cells, classes, clusters) / n_samples
    rows, columns = joint.sum(axis=2), joint.sum(axis=1)
    of_true, of_found = _entropy(rows), _entropy(columns)
    information = of_true + of_found - _entropy(joint.reshape(n_cells, size))
    least = np.minimum(of_true, of_found)
    one_class = (rows > 0).sum(axis=1) == 1, (columns > 0).sum(axis=1) == 1
    with np.errstate(invalid="ignore", divide="ignore"):
        value = np.clip(information / least, 0.0, 1.0)
    value[one_class[0] | one_class[1]] = 0.0
    value[one_class[0] & one_class[1]] = 1.0
    return value


def _entropy(share: NDArray[np.float64]) -> NDArray[np.float64]:
    """Nats, of each row."""
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(share > 0, share * np.log(share), 0.0)
    return -np.asarray(terms.sum(axis=1), dtype=np.float64)


class Means:
    """Mean of a score over units that were drawn independently, and its standard error.

    The unit is the mixture, or the redraw of the annotations where there are no mixtures; the score of a
    unit is the mean over its cells.
    """

    __slots__ = ("_units",)

    def __init__(self) -> None:
        self._units: Units = {}

    def add(self, unit: int, score: float) -> None:
        """Take the score of a cell."""
        total, count = self._units.get(unit, (0.0, 0))
        self._units[unit] = total + score, count + 1

    def summary(self) -> tuple[float, float | None, int]:
        """Mean, its standard error (None of one unit), and the number of units."""
        values = [total / count for total, count in self._units.values()]
        n = len(values)
        mean = math.fsum(values) / n
        if n == 1:
            return mean, None, 1
        variance = math.fsum((value - mean) ** 2 for value in values) / (n - 1)
        return mean, math.sqrt(variance / n), n


# Colours of models on the page: those that the report has, without what draws its figures.

TERMS = {"posterior": "var(--blue)", "likelihood": "var(--vermillion)", "conditional": "var(--green)"}
"""Variables of the style sheet, of each annotation term."""

ALONE = "var(--grey)"
METHODS = ("#a6761d", "#cc79a7", "#b0605a", "#4d9bc7", "#7a6fb0")
SHAPES = {
    "spherical": "",
    "common": "1.5 3",
    "diagonal": "8 2",
    "tied": "6 2 1.5 2",
    "full": "5 1.5 1 1.5 1 1.5",
}
"""Dashes of a line, by shape of covariances; others as `auto`."""

AUTO = "1 1.5 1 1.5 1 4"


def look(model: str) -> dict[str, str]:
    """Colour and dashes of a model's line, or of a method's."""
    if not is_model(model):
        names = list(SHIPPED)
        place = names.index(model) if model in names else zlib.crc32(model.encode())
        return {"color": METHODS[place % len(METHODS)], "dash": ("", "6 3", "1.5 3")[place % 3]}
    term, shape = split_model(model)
    if model in BASELINES:
        return {"color": ALONE, "dash": SHAPES.get(shape, AUTO) or "6 3"}
    return {"color": TERMS[term], "dash": SHAPES.get(shape, AUTO)}


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


# Time, objective and score of cells: of those that have just ended, and of those that stand in the cube.

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
