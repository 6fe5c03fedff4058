"""What a page shows of the cells of a sweep, kept up to date cell by cell: its map, and its scores so far.

`Board` counts: `write` takes a block as it stands in the cube, `settle` a cell that has ended, `score` the
NMI and ARI of a cell; `tiles` and `series` say what changed since some version. `Grid` says on which tile of
the map a cell is, `look` how a model is drawn. What tells a board is in `pipeline.live.state`.
"""

import json
import math
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import product, takewhile
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr

from sweep_clustering.pipeline.monitor.status import STATES, DatasetStatus, count_states
from sweep_clustering.storage.cube.schema import ANSWERED, PENDING
from sweep_clustering.sweeps.plan import ACCURACY, VARIANTS, Block, Cell, DatasetPlan, Node
from sweep_clustering.sweeps.words import BASELINES, SHIPPED, is_model, split_model

# The map: panels of tiles, few enough for a screen.

# Of all panels together; neighbours of a larger grid share a tile.
MOST_TILES = 3000

# That a panel may have, however many panels there are.
LEAST_TILES = 24

# A value of each of `VARIANTS`.
Way = tuple[str | None, ...]

# Data set, accuracy, number of annotations and variant; of a baseline no accuracy, its name, its variant.
Key = tuple[str, float | None, int | str, Way]


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


class Grid:
    """Panels of a sweep, and the tile of each block.

    Tiles are numbered through all panels, in each by row and column; `models` are those of each tile, whose
    cells it holds.

    Parameters
    ----------
    plans : iterable of DatasetPlan
        In the order of the file.
    """

    def __init__(self, plans: Iterable[DatasetPlan]) -> None:
        self.plans = {plan.name: plan for plan in plans}
        self.panels: list[Panel] = []
        self.models: list[tuple[str, ...]] = []
        self._tiles: dict[Key, int] = {}
        n_panels = sum(len(_variants(plan.nodes[-1])) for plan in self.plans.values() if plan.supervised)
        most = max(LEAST_TILES, MOST_TILES // max(n_panels, 1))
        for plan in self.plans.values():
            if plan.baselines:
                # a method, which has no search, is in the first row
                ways = {name: _variants(plan.node_of[name]) for name in plan.baselines}
                longest: list[Way] = max(ways.values(), key=len)
                rows = tuple(map(variant, longest))
                first = self._add(Panel(plan.name, "", True, (), rows, plan.baselines))
                for column, name in enumerate(plan.baselines):
                    for row, way in enumerate(ways[name]):
                        tile = self._tiles[plan.name, None, name, way] = first + row * len(ways) + column
                        self.models[tile] = (name,)
            if plan.supervised:
                n_p, n_m, down, across = len(plan.p), len(plan.m), 1, 1
                while ceil(n_p / down) * ceil(n_m / across) > most:
                    # the longer side loses first: tiles stay about as fine in both directions
                    if n_m / across >= n_p / down:
                        across += 1
                    else:
                        down += 1
                places, rows = _shared(sorted(plan.p), down)
                places_m, columns = _shared(sorted(plan.m), across)
                for way in _variants(plan.nodes[-1]):
                    first = self._add(Panel(plan.name, variant(way), False, plan.models, rows, columns))
                    for (p, row), (m, column) in product(places.items(), places_m.items()):
                        self._tiles[plan.name, p, m, way] = first + row * len(columns) + column

    def tile(self, cell: Cell) -> int:
        """Number of the tile that holds a cell, and its block."""
        return self._tiles[cell.dataset, cell.p, cell.model if cell.m is None else cell.m, way_of(cell)]

    def _add(self, panel: Panel) -> int:
        """Number of the first tile of a new panel."""
        first = len(self.models)
        self.panels.append(panel)
        self.models += [panel.models] * (len(panel.rows) * len(panel.columns))
        return first


def way_of(cell: Cell) -> Way:
    """The variant that a cell is of."""
    return tuple(getattr(cell, axis) for axis in VARIANTS)


def variant(way: Way) -> str:
    """Title of a variant, as far as the sweep names its parts."""
    return ", ".join(filter(None, way))


def _variants(node: Node) -> list[Way]:
    return list(product(*(dim.values for dim in node.dims if dim.name in VARIANTS)))


def _shared(values: Sequence[Any], n: int) -> tuple[dict[Any, int], tuple[str, ...]]:
    """Row or column of each value where n neighbours share one, and their labels: the first and the last."""
    groups = [values[start : start + n] for start in range(0, len(values), n)]
    places = {value: place for place, group in enumerate(groups) for value in group}
    return places, tuple("–".join(dict.fromkeys(map(_name, (group[0], group[-1])))) for group in groups)


def _name(value: float) -> str:
    return f"{value:{ACCURACY}}" if isinstance(value, float) else str(value)


# Scores of cells as they come in: those of many at once, and means with their standard errors.

# Sums and number of the scores of each unit: of a mixture, or of a redraw of the annotations.
Units = dict[int | None, tuple[NDArray[np.float64], int]]


def scores_of_many(labels_true: NDArray[np.integer], labels: NDArray[np.integer]) -> NDArray[np.float64]:
    """NMI and ARI of several solutions of the same data, as `kernels.scores` has them of one; NMI with "min".

    Parameters
    ----------
    labels_true : array of int, shape (n_samples,)
        True classes, from 0.
    labels : array of int, shape (n_cells, n_samples)
        Clusters, from 0.

    Returns
    -------
    array of float64, shape (n_cells, 2)
        NMI in [0, 1], docs/model.md, eq. (27); adjusted Rand index, at most 1.
    """
    n_cells, n_samples = labels.shape
    shape = n_cells, int(labels_true.max()) + 1, int(labels.max()) + 1
    # one count of all cells together: sixty times as fast as one cell after the other
    places = np.ravel_multi_index((np.arange(n_cells)[:, None], labels_true, labels), shape)
    joint = np.bincount(places.ravel(), minlength=math.prod(shape)).reshape(shape)
    # from whole numbers, so that the entropy of one class is 0 and nothing near it
    of_true, of_found = (entr(joint.sum(axis=axis) / n_samples).sum(axis=1) for axis in (2, 1))
    information = of_true + of_found - entr(joint / n_samples).sum(axis=(1, 2))
    least = np.minimum(of_true, of_found)
    both_one = (of_true == of_found).astype(np.float64)
    shares: NDArray[np.float64] = np.divide(information, least, out=both_one, where=least > 0)
    # pairs of samples that are together, as `kernels.scores.adjusted_rand` counts them
    together = _pairs(joint).sum(axis=(1, 2))
    in_true, in_found = (_pairs(joint.sum(axis=axis)).sum(axis=1) for axis in (2, 1))
    pairs = float(_pairs(np.int64(n_samples)))
    expected = in_true * in_found / max(pairs, 1.0)
    most = 0.5 * (in_true + in_found)
    # both one class, or both all alone: there is nothing to adjust
    alike = (in_true == in_found) & ((in_true == 0.0) | (in_true == pairs))
    rand = np.divide(together - expected, most - expected, out=np.ones(n_cells), where=~alike)
    return np.stack([shares.clip(0.0, 1.0), rand], axis=1)


def _pairs(counts: Any) -> Any:
    return counts * (counts - 1) / 2


# Colours of models on the page: those that the report has, without what draws its figures.

# Variables of the style sheet, of each annotation term.
TERMS = {"posterior": "var(--blue)", "likelihood": "var(--vermillion)", "conditional": "var(--green)"}

METHODS = ("#a6761d", "#cc79a7", "#b0605a", "#4d9bc7", "#7a6fb0")
# Dashes of a line, by shape of covariances; others as `auto`.
SHAPES = {
    "spherical": "",
    "common": "1.5 3",
    "diagonal": "8 2",
    "tied": "6 2 1.5 2",
    "full": "5 1.5 1 1.5 1 1.5",
    "any": "3 1 3 4",
}

AUTO = "1 1.5 1 1.5 1 4"


def look(model: str) -> dict[str, str]:
    """Colour and dashes of a model's line, or of a method's."""
    if not is_model(model):
        names = list(SHIPPED)
        place = names.index(model) if model in names else zlib.crc32(model.encode())
        return {"color": METHODS[place % len(METHODS)], "dash": ("", "6 3", "1.5 3")[place % 3]}
    term, shape = split_model(model)
    color, dash = TERMS.get(term, "var(--grey)"), SHAPES.get(shape, AUTO)
    return {"color": color, "dash": dash or "6 3" if model in BASELINES else dash}


# The board: counts by tile and model, and means by curve.

Statuses = NDArray[np.int8]


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


@dataclass(slots=True)
class Tally:
    """Cells of one model in one tile.

    Parameters
    ----------
    cells : int
        All of the grid.
    written : array of int64, shape (3,)
        Those of each of `STATES` in the cube.
    waiting : Counter of int
        Cells by state that are finished and not in the cube yet.
    seconds, timed : float, int
        Of so many cells together.
    best, where : float, str
        Largest objective, and the cell that has it.
    """

    cells: int = 0
    written: NDArray[np.int64] = field(default_factory=lambda: np.zeros(len(STATES), np.int64))
    waiting: Counter[int] = field(default_factory=Counter)
    seconds: float = 0.0
    timed: int = 0
    best: float = -math.inf
    where: str = ""

    def row(self) -> list[object]:
        """For JSON: cells; done, failed and without solution in the cube; the same waiting; seconds; best."""
        counts = [self.cells, *self.written.tolist(), *(self.waiting[state] for state in STATES)]
        seconds = self.seconds / self.timed if self.timed else None
        return [*counts, seconds, None if math.isinf(self.best) else self.best, self.where]


# Data set, variant, accuracy and model of a curve over m.
CurveKey = tuple[str, Way, float | None, str]


class Changes:
    """Texts of JSON by key, which know in which version each changed last."""

    def __init__(self) -> None:
        self._texts: dict[object, tuple[int, str]] = {}

    def put(self, key: object, version: int, document: object) -> None:
        """Replace a text."""
        self._texts.pop(key, None)  # the order is that of the versions
        self._texts[key] = version, to_json(document)

    def since(self, version: int) -> str:
        """JSON of those that are newer than a version, the newest first."""
        newer = takewhile(lambda changed: changed[0] > version, reversed(self._texts.values()))
        return f"[{','.join(text for _, text in newer)}]"


class Board:
    """Counts by tile and model, and means by curve, from what is told of blocks and cells.

    Not for several threads at once. `statuses` are those of each block as it was told last, pending at first;
    `waiting` cells that are finished and not in the cube yet, with their state; `open_blocks` those with a
    cell that is finished, and one that is not, or not in the cube yet; `tiles` and `series` what a page has
    to know of each tile and curve.

    Parameters
    ----------
    plans : iterable of DatasetPlan
        Grid of each data set.
    """

    def __init__(self, plans: Iterable[DatasetPlan]) -> None:
        self.grid = Grid(plans)
        self.version = 0
        self.blocks_done = self.scored = 0
        self.statuses: dict[Block, Statuses] = {}
        self.waiting: dict[Cell, int] = {}
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

    def settle(self, settled: Settled) -> bool:
        """Take a cell that is finished and waits for its block; False if it was taken before."""
        cell = settled.cell
        if cell in self.waiting:
            return False
        self.waiting[cell] = settled.status
        self.open_blocks.add(self.grid.plans[cell.dataset].block_of(cell))
        self._tallies[self.grid.tile(cell)][cell.model].waiting[settled.status] += 1
        self.note(settled)
        return True

    def note(self, settled: Settled) -> None:
        """Take time and objective of a cell that is counted already."""
        tile = self.grid.tile(settled.cell)
        tally = self._tallies[tile][settled.cell.model]
        if not math.isnan(settled.seconds):
            tally.seconds += settled.seconds
            tally.timed += 1
        if settled.best > tally.best:
            tally.best, tally.where = settled.best, str(settled.cell)
        self._touched.add(tile)

    def write(self, block: Block, after: Statuses) -> NDArray[np.bool_]:
        """Take a block as it stands in the cube; which cells have an answer that nothing was told of before.

        Parameters
        ----------
        block : Block
            Of the grid.
        after : array of int8, shape (n_cells,)
            Its statuses now.
        """
        before, tile = self.statuses[block], self.grid.tile(block.first)
        self.statuses[block] = after.copy()
        tallies, width = self._tallies[tile], len(block.models)
        for place, model in enumerate(block.models):
            moved = count_states(after[place::width]) - count_states(before[place::width])
            tallies[model].written += moved
            self._totals[block.dataset] += moved
        self.blocks_done += int((after != PENDING).all()) - int((before != PENDING).all())
        unknown: NDArray[np.bool_] = (before != after) & np.isin(after, ANSWERED)
        is_open = len(np.unique(after == PENDING)) == 2
        for place, cell in enumerate(block.cells() if self.waiting else ()):
            if cell in self.waiting:
                unknown[place] = False
                # A block is written draw by draw: what is pending still, or as failed as before, waits on.
                is_new = after[place] != PENDING and after[place] != before[place]
                if is_new or after[place] == self.waiting[cell]:
                    tallies[cell.model].waiting[self.waiting.pop(cell)] -= 1
                else:
                    is_open = True
        (self.open_blocks.add if is_open else self.open_blocks.discard)(block)
        self._touched.add(tile)
        return unknown

    def score(self, cell: Cell, values: NDArray[np.float64]) -> None:
        """Take the scores of a cell, NMI and ARI."""
        key = cell.dataset, way_of(cell), cell.p, cell.model
        units = self._curves.setdefault(key, {}).setdefault(cell.m, {})
        # the unit of replication: what is drawn again on its own
        unit = cell.mixture if cell.mixture is not None else cell.replicate
        total, count = units.get(unit, (np.zeros(len(values)), 0))
        units[unit] = total + values, count + 1
        self.scored += 1
        self._touched_curves.add(key)

    def datasets(self) -> tuple[DatasetStatus, ...]:
        """Cells of each data set in the cube, as `sweep status` counts them."""
        rows = self._totals.items()
        return tuple(DatasetStatus(name, self.grid.plans[name].n_cells, *row.tolist()) for name, row in rows)

    def advance(self) -> int:
        """Number of this state: one more where anything has changed since the last one was numbered."""
        self.version += bool(self._touched or self._touched_curves)
        for tile in self._touched:
            self.tiles.put(tile, self.version, [tile, [each.row() for each in self._tallies[tile].values()]])
        for key in self._touched_curves:
            # number of units, which are drawn independently, then of each score the mean over them and the
            # standard error (None of one)
            shown: list[list[object]] = []
            for m, units in sorted(self._curves[key].items(), key=lambda point: point[0] or 0):
                values, n = np.array([total / count for total, count in units.values()]), len(units)
                errors = np.std(values, axis=0, ddof=1) / math.sqrt(n) if n > 1 else np.full(2, None)
                shown.append([m, n, np.column_stack([values.mean(axis=0), errors]).tolist()])
            dataset, way, p, model = key
            row = [dataset, variant(way), None if p is None else _name(p), model, shown, way]
            self.series.put(key, self.version, row)
        self._touched.clear()
        self._touched_curves.clear()
        return self.version


def to_json(document: object) -> str:
    """As short as JSON can be; a number that is none is an error, which a browser would not read."""
    return json.dumps(document, allow_nan=False, separators=(",", ":"))
