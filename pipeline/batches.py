"""How restarts are timed, and grouped into batches of a sensible length."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path

from pipeline.tasks import Batch, Partial, Science, Work
from storage.errors import storage_errors
from storage.files import write_file
from sweeps.plan import Cell, DatasetPlan

SHORTEST, LONGEST = 0.5, 60.0
"""Bounds of a batch in seconds: below, the scheduler is busy; above, too much is lost with a worker."""

SECONDS_PER_WORKER = 0.02
"""Of a batch at the least, where there are many: 50 batches a second are half of what a driver can handle."""

logger = logging.getLogger(__name__)

Key = tuple[str, str, float | None, int | None]
"""Data set, model, accuracy and annotation count of a measured restart."""


def pilot_cells(plan: DatasetPlan) -> list[Cell]:
    """Cells timed to predict the others: the corners of each model's grid, first mixture and replicate."""
    mixture = None if plan.mixtures is None else 0
    cells = [Cell(plan.name, mixture, None, None, None, baseline) for baseline in plan.baselines]
    if plan.models:
        corners = product(sorted({min(plan.p), max(plan.p)}), sorted({min(plan.m), max(plan.m)}), plan.models)
        cells += [Cell(plan.name, mixture, p, m, 0, model) for p, m, model in corners]
    return cells


@dataclass
class Timing:
    """Measured seconds of a restart, and what they predict.

    Parameters
    ----------
    measured : dict
        Seconds of one restart by data set, model, accuracy and annotation count.
    """

    measured: dict[Key, float]
    _predicted: dict[Key, float] = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path) -> Timing:
        """Read a pilot's timings; a missing or unreadable file is an empty one, measured again."""
        try:
            rows = json.loads(path.read_text())
            return cls({(d, model, p, m): float(seconds) for d, model, p, m, seconds in rows})
        except FileNotFoundError:
            return cls({})
        except (OSError, ValueError, TypeError) as error:
            logger.warning("%s is not readable (%s): restarts are timed again", path, error)
            return cls({})

    def save(self, path: Path) -> None:
        """Write the timings, replacing the file in one step."""
        rows = [[*key, seconds] for key, seconds in self.measured.items()]
        with storage_errors(path):
            write_file(path, json.dumps(rows).encode())

    def note(self, partial: Partial) -> None:
        """Take the time of a measured cell."""
        self.note_done(partial.work.cell, partial.seconds / (partial.work.stop - partial.work.start))

    def note_done(self, cell: Cell, seconds: float | None) -> None:
        """Take the seconds of a restart of `cell`, where they are known."""
        if seconds is not None:
            self.measured[_key(cell)] = seconds
            self._predicted.clear()

    def missing(self, plan: DatasetPlan) -> list[Cell]:
        """Pilot cells that were not timed yet."""
        return [cell for cell in pilot_cells(plan) if _key(cell) not in self.measured]

    def seconds(self, cell: Cell) -> float:
        """Predict the seconds of one restart of `cell`, bilinear in accuracy and annotation count.

        A cell of a data set and model that was never timed is taken to last a second.
        """
        key = _key(cell)
        if key not in self._predicted:
            self._predicted[key] = self._predict(cell)
        return self._predicted[key]

    def _predict(self, cell: Cell) -> float:
        grid = {
            (p, m): seconds
            for (dataset, model, p, m), seconds in self.measured.items()
            if (dataset, model) == (cell.dataset, cell.model)
        }
        if not grid:
            return 1.0
        if cell.p is None or cell.m is None:
            return grid[None, None]
        rows: dict[float, dict[int, float]] = {}
        for (p, m), seconds in grid.items():
            if p is not None and m is not None:
                rows.setdefault(p, {})[m] = seconds
        return _interpolate({p: _interpolate(row, cell.m) for p, row in rows.items()}, cell.p)


def _key(cell: Cell) -> Key:
    return cell.dataset, cell.model, cell.p, cell.m


def _interpolate(points: Mapping[float, float] | Mapping[int, float], at: float) -> float:
    """Linear between the two points around `at`, constant outside."""
    ordered = sorted(points.items())
    below = [point for point in ordered if point[0] <= at]
    above = [point for point in ordered if point[0] >= at]
    if not below or not above:
        return (above or below)[0 if above else -1][1]
    (x0, y0), (x1, y1) = below[-1], above[0]
    return y0 if x1 == x0 else y0 + (y1 - y0) * (at - x0) / (x1 - x0)


def target_seconds(total: float, workers: int) -> float:
    """Length of a batch: 1/50 of a worker's share, within bounds.

    Many workers take longer batches, so that the driver keeps up, but two each if there is work enough.
    """
    share = total / max(workers, 1)
    shortest = max(SHORTEST, min(SECONDS_PER_WORKER * workers, share / 2))
    return min(max(share / 50, shortest), LONGEST)


def make_batches(
    science: Science,
    work: Iterable[Work],
    timing: Timing,
    *,
    seconds: float,
    restarts: int | None = None,
) -> Iterator[Batch]:
    """Group the work of one data set into batches, in order.

    Parameters
    ----------
    science : Science
        Seed and search parameters.
    work : iterable of Work
        What is left to do, of one data set.
    timing : Timing
        Predictions.
    seconds : float
        Aim for this length.
    restarts : int or None
        Aim for this number of restarts instead.

    Yields
    ------
    Batch
        A cell may be split over batches, its restarts being independent; with an adaptive stop it is not:
        the rule is tested in one task.
    """
    group: list[Work] = []
    filled = predicted = 0.0
    for item in work:
        each = timing.seconds(item.cell)
        size = each / seconds if restarts is None else 1 / restarts
        start = item.start
        while start < item.stop:
            # A sum of shares rounds: what misses a full batch by less than that is full.
            room = int((1 - filled) / size + 1e-9)
            wanted = 1 if science.stop is None else item.stop - start
            if room < wanted and group:
                yield Batch(science, item.cell.dataset, tuple(group), predicted)
                group, filled, predicted = [], 0.0, 0.0
                continue
            stop = min(item.stop, start + max(wanted, room))
            group.append(replace(item, start=start, stop=stop))
            filled += (stop - start) * size
            predicted += (stop - start) * each
            start = stop
    if group:
        yield Batch(science, group[0].cell.dataset, tuple(group), predicted)
