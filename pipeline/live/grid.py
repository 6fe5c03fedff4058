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

Key = tuple[float | None, int | str, str | None]
"""Accuracy, number of annotations and design; of a baseline no accuracy, its name and no design."""


@dataclass(frozen=True)
class Panel:
    """One data set and design, or the baselines of one data set.

    Parameters
    ----------
    dataset, design : str
        The design is empty where the sweep names none.
    alone : bool
        Whether it has the models without annotations, one in each column, and a single row.
    models : tuple of str
        Of its tiles.
    rows, columns : tuple of str
        Accuracies and numbers of annotations, a range where tiles stand for several.
    """

    dataset: str
    design: str
    alone: bool
    models: tuple[str, ...]
    rows: tuple[str, ...]
    columns: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "dataset": self.dataset,
            "design": self.design,
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
        n_panels = sum(len(plan.designs) for plan in self.plans.values() if plan.supervised)
        most = max(LEAST_TILES, MOST_TILES // max(n_panels, 1))
        for plan in self.plans.values():
            self._tiles[plan.name] = {}
            if plan.baselines:
                columns = {name: at for at, name in enumerate(plan.baselines)}
                self._add(
                    plan, None, {None: 0}, columns, Panel(plan.name, "", True, (), ("",), plan.baselines)
                )
            if plan.supervised:
                rows, columns_ = _shared(sorted(plan.p), sorted(plan.m), most)
                for design in plan.cell_designs:
                    labels = _labels(rows), _labels(columns_)
                    panel = Panel(plan.name, design or "", False, plan.models, *labels)
                    self._add(plan, design, rows, columns_, panel)

    @property
    def n_tiles(self) -> int:
        """Tiles of all panels."""
        return len(self._panel_of)

    def tile(self, where: Block | Cell) -> int:
        """Number of the tile that holds a block, or a cell."""
        if where.p is None or where.m is None:
            model = where.model if isinstance(where, Cell) else where.models[0]
            return self._tiles[where.dataset][None, model, None]
        return self._tiles[where.dataset][where.p, where.m, where.design]

    def panel(self, tile: int) -> Panel:
        """Panel of a tile."""
        return self.panels[self._panel_of[tile]]

    def models(self, tile: int) -> tuple[str, ...]:
        """Models whose cells a tile holds."""
        panel = self.panel(tile)
        if not panel.alone:
            return panel.models
        return (panel.columns[tile - self._panel_of.index(self._panel_of[tile])],)

    def _add(
        self,
        plan: DatasetPlan,
        design: str | None,
        rows: dict[Any, int],
        columns: dict[Any, int],
        panel: Panel,
    ) -> None:
        first = self.n_tiles
        self.panels.append(panel)
        self._panel_of += [len(self.panels) - 1] * (len(panel.rows) * len(panel.columns))
        for (p, row), (m, column) in product(rows.items(), columns.items()):
            self._tiles[plan.name][p, m, design] = first + row * len(panel.columns) + column


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
