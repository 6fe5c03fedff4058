"""The board of a page: a map of the cells of a sweep and its scores so far, kept up to date cell by cell.

`Board` counts: `write` takes a block as it stands in the cube, `settle` a cell that has ended, and `score`
the NMI and ARI of a cell. `tiles` and `series` hold what changed since some version. `Grid` knows the tile of
each cell on the map. `pipeline.live.site` feeds a board.
"""

import json
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import product, takewhile
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr

from sweep_clustering.kernels.scores import adjusted_rand_of
from sweep_clustering.pipeline.monitor.status import STATES, DatasetStatus, count_states
from sweep_clustering.storage.cube.schema import ANSWERED, PENDING
from sweep_clustering.sweeps.plan import VARIANTS, Block, Cell, DatasetPlan, Node, axis_text

# Tiles of all panels together. Neighbours of a larger grid share a tile, so that the map fits a screen.
MOST_TILES = 3000
# Tiles that a panel may have, however many panels there are.
LEAST_TILES = 24

# A value of each axis in `VARIANTS`.
Way = tuple[str | None, ...]

# Data set, accuracy, number of annotations and variant. A baseline has no accuracy, and its name instead of a
# number.
Key = tuple[str, float | None, int | str, Way]


@dataclass(frozen=True)
class Panel:
    """One data set with one design and search, or the baselines of one data set.

    Parameters
    ----------
    dataset, variant : str
        Data set, and the design and the search, as far as the sweep names them.
    alone : bool
        Whether it has the models without annotations, one in each column, and a row for each search.
    models : tuple of str
        Models of its tiles.
    rows, columns : tuple of str
        Accuracies and numbers of annotations, a range if tiles stand for several.
    """

    dataset: str
    variant: str
    alone: bool
    models: tuple[str, ...]
    rows: tuple[str, ...]
    columns: tuple[str, ...]


class Grid:
    """Panels of a sweep, and the tile of each block.

    Tiles are numbered through all panels, in each by row and column. `models` are those of each tile.
    """

    def __init__(self, plans: Iterable[DatasetPlan]) -> None:
        self.plans = {plan.name: plan for plan in plans}
        self.panels: list[Panel] = []
        self.models: list[tuple[str, ...]] = []
        self._tiles: dict[Key, int] = {}
        n_panels = sum(len(_variants(plan.nodes[-1])) for plan in self.plans.values() if plan.supervised)
        limit = max(LEAST_TILES, MOST_TILES // max(n_panels, 1))
        for plan in self.plans.values():
            if plan.baselines:
                self._add_baselines(plan)
            if plan.supervised:
                self._add_supervised(plan, limit)

    def tile(self, cell: Cell) -> int:
        """Return the number of the tile that holds a cell, and its block."""
        return self._tiles[cell.dataset, cell.p, cell.model if cell.m is None else cell.m, way_of(cell)]

    def _add_baselines(self, plan: DatasetPlan) -> None:
        # a method, which has no search, is in the first row
        ways = {name: _variants(plan.node_of[name]) for name in plan.baselines}
        longest: list[Way] = max(ways.values(), key=len)
        rows = tuple(map(variant, longest))
        first = self._add(Panel(plan.name, "", True, (), rows, plan.baselines))
        for column, name in enumerate(plan.baselines):
            for row, way in enumerate(ways[name]):
                tile = self._tiles[plan.name, None, name, way] = first + row * len(ways) + column
                self.models[tile] = (name,)

    def _add_supervised(self, plan: DatasetPlan, limit: int) -> None:
        n_p, n_m, p_per_tile, m_per_tile = len(plan.p), len(plan.m), 1, 1
        while ceil(n_p / p_per_tile) * ceil(n_m / m_per_tile) > limit:
            # the longer side loses first, so that tiles stay about as fine in both directions
            if n_m / m_per_tile >= n_p / p_per_tile:
                m_per_tile += 1
            else:
                p_per_tile += 1
        places, rows = _ranges(sorted(plan.p), p_per_tile)
        places_m, columns = _ranges(sorted(plan.m), m_per_tile)
        for way in _variants(plan.nodes[-1]):
            first = self._add(Panel(plan.name, variant(way), False, plan.models, rows, columns))
            for (p, row), (m, column) in product(places.items(), places_m.items()):
                self._tiles[plan.name, p, m, way] = first + row * len(columns) + column

    def _add(self, panel: Panel) -> int:
        """Add a panel and return the number of its first tile."""
        first = len(self.models)
        self.panels.append(panel)
        self.models += [panel.models] * (len(panel.rows) * len(panel.columns))
        return first


def way_of(cell: Cell) -> Way:
    """Return the variant that a cell is of."""
    return tuple(getattr(cell, axis) for axis in VARIANTS)


def variant(way: Way) -> str:
    """Return the title of a variant, as far as the sweep names its parts."""
    return ", ".join(filter(None, way))


def _variants(node: Node) -> list[Way]:
    return list(product(*(dim.values for dim in node.dims if dim.name in VARIANTS)))


def _ranges(values: Sequence[Any], n: int) -> tuple[dict[Any, int], tuple[str, ...]]:
    """Return the row or column of each value if n neighbours share one, and the labels of these ranges."""
    groups = [values[start : start + n] for start in range(0, len(values), n)]
    places = {value: place for place, group in enumerate(groups) for value in group}
    return places, tuple("–".join(dict.fromkeys(map(axis_text, (group[0], group[-1])))) for group in groups)


# Sums and number of the scores of each unit, which is a mixture or a redraw of the annotations.
Units = dict[int | None, tuple[NDArray[np.float64], int]]


def scores_of_many(labels_true: NDArray[np.integer], labels: NDArray[np.integer]) -> NDArray[np.float64]:
    """Return NMI and ARI of several solutions of the same data, which `kernels.scores` has for one solution.

    Parameters
    ----------
    labels_true, labels : array of int, shape (n_samples,) and (n_cells, n_samples)
        True classes and clusters, from 0.

    Returns
    -------
    array of float64, shape (n_cells, 2)
        NMI with "min", docs/model.md, eq. (27), and adjusted Rand index.
    """
    n_cells, n_samples = labels.shape
    shape = n_cells, int(labels_true.max()) + 1, int(labels.max()) + 1
    # one count of all cells together is sixty times as fast as one cell after the other
    places = np.ravel_multi_index((np.arange(n_cells)[:, None], labels_true, labels), shape)
    joint = np.bincount(places.ravel(), minlength=math.prod(shape)).reshape(shape)
    # from whole numbers, so that the entropy of one class is 0 and nothing near it
    h_true, h_labels = (entr(joint.sum(axis=axis) / n_samples).sum(axis=1) for axis in (2, 1))
    information = h_true + h_labels - entr(joint / n_samples).sum(axis=(1, 2))
    minimum = np.minimum(h_true, h_labels)
    both_one = (h_true == h_labels).astype(np.float64)
    shares: NDArray[np.float64] = np.divide(information, minimum, out=both_one, where=minimum > 0)
    return np.stack([shares.clip(0.0, 1.0), adjusted_rand_of(joint)], axis=1)


Statuses = NDArray[np.int8]


@dataclass(frozen=True, slots=True)
class CellOutcome:
    """A finished cell: state, seconds in the solver, best objective in nats, and labels, or NaN and None."""

    cell: Cell
    status: int
    seconds: float = math.nan
    best: float = math.nan
    labels: NDArray[np.int16] | None = None


@dataclass(slots=True)
class Tally:
    """Cells of one model in one tile.

    Parameters
    ----------
    cells : int
        All cells of the grid.
    counts : array of int64, shape (3,)
        Cells in the cube for each of `STATES`.
    waiting_counts : Counter of int
        Cells by state that are finished and not in the cube yet.
    seconds, timed : float, int
        Seconds of so many cells together.
    best, best_cell : float, str
        Largest objective, and the cell that has it.
    """

    cells: int = 0
    counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(len(STATES), np.int64))
    waiting_counts: Counter[int] = field(default_factory=Counter)
    seconds: float = 0.0
    timed: int = 0
    best: float = -math.inf
    best_cell: str = ""

    def row(self) -> list[object]:
        """Return for JSON cells.

        Done, failed and without solution in the cube; the same waiting; seconds; best.
        """
        numbers = [self.cells, *self.counts.tolist(), *(self.waiting_counts[state] for state in STATES)]
        seconds = self.seconds / self.timed if self.timed else None
        return [*numbers, seconds, None if math.isinf(self.best) else self.best, self.best_cell]


# Data set, variant, accuracy and model of a curve over m.
CurveKey = tuple[str, Way, float | None, str]


class Changes:
    """Texts of JSON by key, with the version in which each changed last."""

    def __init__(self) -> None:
        self._texts: dict[object, tuple[int, str]] = {}

    def put(self, key: object, version: int, document: object) -> None:
        """Replace a text."""
        self._texts.pop(key, None)  # the order is that of the versions
        self._texts[key] = version, to_json(document)

    def newer_than(self, version: int) -> str:
        """Return JSON of the texts that are newer than a version, the newest first."""
        newer = takewhile(lambda entry: entry[0] > version, reversed(self._texts.values()))
        return f"[{','.join(text for _, text in newer)}]"


class Board:
    """Counts by tile and model, and means by curve, from blocks and cells. It is not safe for threads.

    `statuses` are the last known ones of each block, pending at first. `waiting_cells` are the states of
    finished cells that are not in the cube yet, and `open_blocks` the blocks with a finished cell and one
    that is not, or not in the cube yet. `tiles` and `series` have the rows of each tile and curve for a page.
    """

    def __init__(self, plans: Iterable[DatasetPlan]) -> None:
        self.grid = Grid(plans)
        self.version = 0
        self.blocks_done = self.n_scored = 0
        self.statuses: dict[Block, Statuses] = {}
        self.waiting_cells: dict[Cell, int] = {}
        self.open_blocks: set[Block] = set()
        self.tiles, self.series = Changes(), Changes()
        self._tallies = [{model: Tally() for model in models} for models in self.grid.models]
        self._totals = {name: np.zeros(len(STATES), np.int64) for name in self.grid.plans}
        self._curves: dict[CurveKey, dict[int | None, Units]] = {}
        self._touched: set[int] = set()
        self._touched_curves: set[CurveKey] = set()
        for plan in self.grid.plans.values():
            for block in plan.blocks():
                tile = self.grid.tile(block.first)
                self.statuses[block] = np.full(block.n_cells, PENDING, np.int8)
                for model in block.models:
                    self._tallies[tile][model].cells += block.n_cells // len(block.models)
                self._touched.add(tile)

    def settle(self, outcome: CellOutcome) -> bool:
        """Take a finished cell that waits for its block, and return whether it is new."""
        cell = outcome.cell
        if cell in self.waiting_cells:
            return False
        self.waiting_cells[cell] = outcome.status
        self.open_blocks.add(self.grid.plans[cell.dataset].block_of(cell))
        self._tallies[self.grid.tile(cell)][cell.model].waiting_counts[outcome.status] += 1
        self.note(outcome)
        return True

    def note(self, outcome: CellOutcome) -> None:
        """Take time and objective of a cell that is counted already."""
        tile = self.grid.tile(outcome.cell)
        tally = self._tallies[tile][outcome.cell.model]
        if not math.isnan(outcome.seconds):
            tally.seconds += outcome.seconds
            tally.timed += 1
        if outcome.best > tally.best:
            tally.best, tally.best_cell = outcome.best, str(outcome.cell)
        self._touched.add(tile)

    def write(self, block: Block, statuses: Statuses) -> NDArray[np.bool_]:
        """Take the statuses of a block in the cube, and return which cells have an answer that is news."""
        old_statuses, tile = self.statuses[block], self.grid.tile(block.first)
        self.statuses[block] = statuses.copy()
        tallies, width = self._tallies[tile], len(block.models)
        for place, model in enumerate(block.models):
            change = count_states(statuses[place::width]) - count_states(old_statuses[place::width])
            tallies[model].counts += change
            self._totals[block.dataset] += change
        self.blocks_done += int((statuses != PENDING).all()) - int((old_statuses != PENDING).all())
        is_news: NDArray[np.bool_] = (old_statuses != statuses) & np.isin(statuses, ANSWERED)
        is_open = len(np.unique(statuses == PENDING)) == 2
        for place, cell in enumerate(block.cells() if self.waiting_cells else ()):
            if cell in self.waiting_cells:
                is_news[place] = False
                # A block is written draw by draw. A cell that is still pending, or failed as before, waits
                # on.
                is_new = statuses[place] != PENDING and statuses[place] != old_statuses[place]
                if is_new or statuses[place] == self.waiting_cells[cell]:
                    tallies[cell.model].waiting_counts[self.waiting_cells.pop(cell)] -= 1
                else:
                    is_open = True
        (self.open_blocks.add if is_open else self.open_blocks.discard)(block)
        self._touched.add(tile)
        return is_news

    def score(self, cell: Cell, values: NDArray[np.float64]) -> None:
        """Take NMI and ARI of a cell."""
        key = cell.dataset, way_of(cell), cell.p, cell.model
        units = self._curves.setdefault(key, {}).setdefault(cell.m, {})
        # the unit of replication is what is drawn again on its own
        unit = cell.mixture if cell.mixture is not None else cell.replicate
        total, count = units.get(unit, (np.zeros(len(values)), 0))
        units[unit] = total + values, count + 1
        self.n_scored += 1
        self._touched_curves.add(key)

    def datasets(self) -> tuple[DatasetStatus, ...]:
        """Return the cells of each data set in the cube, as `sweep status` counts them."""
        rows = self._totals.items()
        return tuple(DatasetStatus(name, self.grid.plans[name].n_cells, *row.tolist()) for name, row in rows)

    def advance(self) -> int:
        """Return the number of this state, which is a new one if anything has changed since the last call."""
        self.version += bool(self._touched or self._touched_curves)
        for tile in self._touched:
            rows = [tally.row() for tally in self._tallies[tile].values()]
            self.tiles.put(tile, self.version, [tile, rows])
        for key in self._touched_curves:
            dataset, way, p, model = key
            name = None if p is None else axis_text(p)
            row = [dataset, variant(way), name, model, self._points(key), way]
            self.series.put(key, self.version, row)
        self._touched.clear()
        self._touched_curves.clear()
        return self.version

    def _points(self, key: CurveKey) -> list[list[object]]:
        """Return m, the number of units, and each mean with its standard error, for each point of a curve."""
        points: list[list[object]] = []
        for m, units in sorted(self._curves[key].items(), key=lambda point: point[0] or 0):
            values, n = np.array([total / count for total, count in units.values()]), len(units)
            errors = np.std(values, axis=0, ddof=1) / math.sqrt(n) if n > 1 else np.full(2, None)
            points.append([m, n, np.column_stack([values.mean(axis=0), errors]).tolist()])
        return points


def to_json(document: object) -> str:
    """Return JSON without blanks.

    A number that is NaN or infinite raises, because a browser would not read it.
    """
    return json.dumps(document, allow_nan=False, separators=(",", ":"))
