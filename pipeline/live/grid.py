"""Where each block stands on the map of a sweep: panels of tiles, few enough for a screen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from math import ceil
from typing import Any

from sweeps.plan import ACCURACY, Block, Cell, DatasetPlan

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
        _text(values[0]) if len(values) == 1 else f"{_text(values[0])}–{_text(values[-1])}"
        for values in groups.values()
    )


def _text(value: float) -> str:
    return f"{value:{ACCURACY}}" if isinstance(value, float) else str(value)
