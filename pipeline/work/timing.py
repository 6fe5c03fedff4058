"""Measured seconds of a restart, and what they predict for the cells not run yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

from pipeline.questions.timing import PathTiming, interpolate
from pipeline.work.records import Partial, Work
from storage.files import PLAIN, Files
from storage.runfolder.folder import RunFolder
from storage.runfolder.records import Moment, Pilot, TimedRestart, read_pilot
from sweeps.plan import Cell, DatasetPlan
from sweeps.words import asks

Key = tuple[str, str, float | None, int | None, str | None]
"""Data set, model, accuracy, annotation count and search of a measured restart."""


def pilot_cells(plan: DatasetPlan) -> list[Cell]:
    """Cells timed to predict the others: the corners of each model's grid, for each search.

    They are of the first mixture and replicate.

    How pairs were chosen hardly changes the time: a design that need not ask for them first is taken if there
    is one.
    """
    mixture = None if plan.mixtures is None else 0
    cells = [
        Cell(plan.name, mixture, None, None, None, baseline, None, search)
        for baseline in plan.baselines
        for search in plan.searches_of(baseline)
    ]
    if plan.models:
        corners = product(
            sorted({min(plan.p), max(plan.p)}),
            sorted({min(plan.m), max(plan.m)}),
            plan.models,
            plan.cell_searches,
        )
        design = sorted(plan.cell_designs, key=asks)[0]
        cells += [Cell(plan.name, mixture, p, m, 0, model, design, search) for p, m, model, search in corners]
    return cells


@dataclass
class Timing:
    """Measured seconds of a restart, and what they predict.

    Parameters
    ----------
    measured : dict
        Seconds of one restart by data set, model, accuracy, annotation count and search.
    choices : dict
        Seconds in which a cell held annotations out, before its first restart.
    busy : dict
        CPU time as a share of both, 1 where it is not known.
    moment : Moment or None
        When and where the oldest of them was timed; None where nothing was, or it is not known.
    questions : PathTiming
        Seconds of batches of questions.
    """

    measured: dict[Key, float]
    choices: dict[Key, float] = field(default_factory=dict)
    busy: dict[Key, float] = field(default_factory=dict)
    moment: Moment | None = None
    questions: PathTiming = field(default_factory=PathTiming)
    _predicted: dict[Key, float] = field(default_factory=dict)

    @classmethod
    def load(cls, run: RunFolder) -> Timing:
        """Read a pilot's timings; a missing or unreadable file is an empty one, measured again."""
        pilot = read_pilot(run)
        rows = {(row.dataset, row.model, row.p, row.m, row.search): row for row in pilot.timed}
        choices = {key: row.choosing for key, row in rows.items() if row.choosing > 0}
        measured = {key: row.seconds for key, row in rows.items()}
        busy = {key: row.busy for key, row in rows.items()}
        return cls(measured, choices, busy, pilot.moment, PathTiming.of(pilot.questions))

    def save(self, path: Path, files: Files = PLAIN) -> None:
        """Write the timings, replacing the file in one step."""
        timed = (
            TimedRestart(*key[:-1], seconds, self.choices.get(key, 0.0), self.busy.get(key, 1.0), key[-1])
            for key, seconds in self.measured.items()
        )
        questions = tuple(self.questions.rows())
        Pilot(timed=tuple(timed), questions=questions, moment=self.moment).write(path, files)

    def note(self, partial: Partial) -> None:
        """Take the time of a measured cell."""
        cell, restarts = partial.work.cell, partial.work.stop - partial.work.start
        if partial.choosing > 0:
            self.choices[_key(cell)] = partial.choosing
        self.busy[_key(cell)] = partial.cpu_seconds / partial.seconds if partial.seconds > 0 else 1.0
        if not self.measured:
            self.moment = Moment.now()
        self.note_done(cell, (partial.seconds - partial.choosing) / restarts)

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

        A cell of a data set, model and search that was never timed is taken to last a second.
        """
        key = _key(cell)
        if key not in self._predicted:
            self._predicted[key] = self._predict(cell)
        return self._predicted[key]

    def choosing(self, work: Work) -> float:
        """Predict the seconds before the first restart of a work, in which its cell holds annotations out."""
        return 0.0 if work.chosen is not None else _at(self.choices, work.cell) or 0.0

    def work_seconds(self, work: Work) -> float:
        """Predict the seconds of a work, of all of its restarts and of what is before them."""
        return (work.stop - work.start) * self.seconds(work.cell) + self.choosing(work)

    def work_cpu_seconds(self, work: Work) -> float:
        """Predict the CPU seconds of a work."""
        busy = _at(self.busy, work.cell)
        return self.work_seconds(work) * (1.0 if busy is None else busy)

    def longest(self, restarts: int) -> float:
        """Seconds of the longest unit that is never split, 0 if nothing was timed.

        It is a restart, or a cell of so many restarts that holds annotations out.
        """
        whole = [restarts * self.measured[key] + seconds for key, seconds in self.choices.items()]
        return max([0.0, *self.measured.values(), *whole])

    def _predict(self, cell: Cell) -> float:
        found = _at(self.measured, cell)
        return 1.0 if found is None else found


def _key(cell: Cell) -> Key:
    return cell.dataset, cell.model, cell.p, cell.m, cell.search


def _at(timed: Mapping[Key, float], cell: Cell) -> float | None:
    """Seconds of a cell from those that were timed of its data set, model and search; None if none were."""
    grid = {
        (p, m): seconds
        for (dataset, model, p, m, search), seconds in timed.items()
        if (dataset, model, search) == (cell.dataset, cell.model, cell.search)
    }
    if not grid:
        return None
    if cell.p is None or cell.m is None:
        return grid.get((None, None))
    rows: dict[float, dict[int, float]] = {}
    for (p, m), seconds in grid.items():
        if p is not None and m is not None:
            rows.setdefault(p, {})[m] = seconds
    return interpolate({p: interpolate(row, cell.m) for p, row in rows.items()}, cell.p)
