"""Measured seconds of a restart, and what they predict for the cells not run yet."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pipeline.work.records import Batch, Partial, PathPart, Science, Work
from storage.files import PLAIN, Files
from storage.runfolder.folder import RunFolder
from storage.runfolder.records import Moment, Pilot, TimedQuestions, TimedRestart, read_pilot
from sweeps.plan import AskedPath, Cell, DatasetPlan
from sweeps.words import asks

# Measured seconds of a batch of questions, and what they predict for the batches not asked yet.

PathKey = tuple[str, str, float]
"""Data set, design and accuracy of a measured batch."""

TIMED = 2
"""Batches of a path that a pilot times: the first one has no answers to fit, and says little of others."""

UNKNOWN_SECONDS = 1.0
"""Of a batch of a data set and design that was never timed."""


def pilot_paths(plan: DatasetPlan) -> list[AskedPath]:
    """Paths timed to predict the others: of the extreme accuracies, first mixture and replicate."""
    mixture = None if plan.mixtures is None else 0
    corners = sorted({min(plan.p), max(plan.p)}) if plan.asked else []
    return [AskedPath(plan.name, mixture, p, 0, design) for p in corners for design in plan.asked]


@dataclass
class PathTiming:
    """Measured seconds of batches of questions.

    Parameters
    ----------
    measured : dict
        Seconds of one batch by data set, design and accuracy, and then by the number of answers before.
    busy : dict
        CPU time as a share of them, likewise.
    """

    measured: dict[PathKey, dict[int, float]] = field(default_factory=dict)
    busy: dict[PathKey, dict[int, float]] = field(default_factory=dict)

    @classmethod
    def of(cls, timed: Iterable[TimedQuestions]) -> PathTiming:
        """Take the timings of a file."""
        timing = cls()
        for each in timed:
            timing._set((each.dataset, each.design, each.p), each.start, each.seconds, each.busy)
        return timing

    def rows(self) -> Iterator[TimedQuestions]:
        """The timings for a file."""
        for key, starts in self.measured.items():
            busy = self.busy[key]
            for start, seconds in starts.items():
                yield TimedQuestions(*key, start, seconds, busy[start])

    def note(self, part: PathPart, batch: int) -> None:
        """Take the time of batches of so many questions."""
        path = part.path
        seconds = part.seconds / max(1, len(part.answers) // batch)
        busy = part.cpu_seconds / part.seconds if part.seconds > 0 else 1.0
        self._set((path.dataset, path.design, path.p), part.start, seconds, busy)

    def missing(self, plan: DatasetPlan) -> list[AskedPath]:
        """Pilot paths of which fewer than `TIMED` batches were timed."""
        return [
            path
            for path in pilot_paths(plan)
            if len(self.measured.get((path.dataset, path.design, path.p), {})) < TIMED
        ]

    def seconds(self, path: AskedPath, start: int) -> float:
        """Predict the seconds of the batch after `start` answers, bilinear in accuracy and start."""
        found = _value_at(self.measured, path, start)
        return UNKNOWN_SECONDS if found is None else found

    def path_seconds(self, path: AskedPath, start: int, batches: int, batch: int) -> float:
        """Predict the seconds of some batches of a path, one after the other."""
        return sum(self.seconds(path, start + number * batch) for number in range(batches))

    def path_cpu_seconds(self, path: AskedPath, start: int, batches: int, batch: int) -> float:
        """Predict the CPU seconds of some batches of a path."""
        starts = (start + number * batch for number in range(batches))
        return sum(self.seconds(path, each) * (_value_at(self.busy, path, each) or 1.0) for each in starts)

    def _set(self, key: PathKey, start: int, seconds: float, busy: float) -> None:
        self.measured.setdefault(key, {})[start] = seconds
        self.busy.setdefault(key, {})[start] = busy


def _value_at(timed: Mapping[PathKey, Mapping[int, float]], path: AskedPath, start: int) -> float | None:
    """A value of the batch after `start` answers from those of its data set and design; None without any."""
    rows = {
        p: interpolate(starts, start)
        for (dataset, design, p), starts in timed.items()
        if (dataset, design) == (path.dataset, path.design)
    }
    return interpolate(rows, path.p) if rows else None


def interpolate(points: Mapping[float, float] | Mapping[int, float], at: float) -> float:
    """Linear between the two points around `at`, constant outside; there is one point at least."""
    ordered = sorted(points.items())
    below = [point for point in ordered if point[0] <= at]
    above = [point for point in ordered if point[0] >= at]
    if not below or not above:
        return (above or below)[0 if above else -1][1]
    (x0, y0), (x1, y1) = below[-1], above[0]
    return y0 if x1 == x0 else y0 + (y1 - y0) * (at - x0) / (x1 - x0)


Key = tuple[str, str, float | None, int | None, str | None]
"""Data set, model, accuracy, annotation count and search of a measured restart."""


def pilot_cells(plan: DatasetPlan) -> list[Cell]:
    """Cells timed to predict the others: the corners of each model's grid, for each search.

    They are of the first mixture and replicate.

    How pairs were chosen hardly changes the time: a design that need not ask for them first is taken if there
    is one.
    """
    return [
        cell
        for node in plan.nodes
        for cell in node.cells(
            {dim.name: TIMED_ALONG[dim.name](dim.values) for dim in node.dims if dim.name in TIMED_ALONG}
        )
    ]


def _first(values: Sequence[Any]) -> Sequence[Any]:
    return values[:1]


def _ends(values: Sequence[Any]) -> Sequence[Any]:
    return sorted({min(values), max(values)})


TIMED_ALONG: dict[str, Callable[[Sequence[Any]], Sequence[Any]]] = {
    "mixture": _first,
    "p": _ends,
    "m": _ends,
    "design": lambda designs: sorted(designs, key=asks)[:1],
    "replicate": _first,
}
"""Which values of a dimension are timed, where not all of them are."""


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


# How restarts are timed, and grouped into batches of a sensible length.

SHORTEST, LONGEST = 0.5, 60.0
"""Bounds of a batch in seconds: below, the scheduler is busy; above, too much is lost with a worker."""

SECONDS_PER_WORKER = 0.01
"""Shortest batch for each worker there is: 100 batches a second take less than half of a driver's core."""

logger = logging.getLogger(__name__)


def target_seconds(total: float, workers: int) -> float:
    """Length of a batch: 1/50 of a worker's share, within bounds.

    Many workers take longer batches, so that the driver keeps up, but two each if there is work enough.
    """
    share = total / max(workers, 1)
    shortest = max(SHORTEST, min(SECONDS_PER_WORKER * workers, share / 2))
    return min(max(share / 50, shortest), LONGEST)


def make_batches(
    science: Science, work: Iterable[Work], timing: Timing, *, seconds: float
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
        Length to aim for.

    Yields
    ------
    Batch
        A cell may be split over batches, its restarts being independent; with an adaptive stop it is not:
        the rule is tested in one task. Neither is one that holds annotations out: it does so once.
    """
    group: list[Work] = []
    filled = predicted = 0.0
    for item in work:
        each = timing.seconds(item.cell)
        size = each / seconds
        start = item.start
        whole = science.stop is not None or science.holds_out(item.cell)
        choosing = timing.choosing(item)
        while start < item.stop:
            # A sum of shares rounds: what misses a full batch by less than that is full.
            room = int((1 - filled - choosing / seconds) / size + 1e-9)
            wanted = item.stop - start if whole else 1
            if room < wanted and group:
                yield Batch(science, item.cell.dataset, tuple(group), predicted)
                group, filled, predicted = [], 0.0, 0.0
                continue
            stop = min(item.stop, start + max(wanted, room))
            group.append(replace(item, start=start, stop=stop))
            filled += (stop - start) * size + choosing / seconds
            predicted += (stop - start) * each + choosing
            start = stop
    if group:
        yield Batch(science, group[0].cell.dataset, tuple(group), predicted)
