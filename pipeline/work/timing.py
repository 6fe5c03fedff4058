"""Measured seconds of restarts and of batches of questions, what they predict, and tasks of such a length.

A `Timing` is one table of both. `make_tasks` groups what is left to do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sweep_clustering.pipeline.work.records import Done, Science, Solved, Span, Task
from sweep_clustering.storage.files import PLAIN, Files
from sweep_clustering.storage.runfolder.folder import RunFolder
from sweep_clustering.storage.runfolder.records import Moment, Pilot, TimedQuestions, TimedRestart, read_pilot
from sweep_clustering.sweeps.plan import AskedPath, Cell, DatasetPlan
from sweep_clustering.sweeps.words import asks

# Batches of a path that a pilot times: the first one has no answers to fit, and says little of others.
TIMED = 2


class Key(NamedTuple):
    """What a time depends on.

    Parameters
    ----------
    group : tuple
        Data set, model and search of a restart; data set and design of a question.
    p : float or None
        Accuracy.
    along : int or None
        Number of annotations of a cell, or of answers before a batch of questions.
    """

    group: tuple[Any, ...]
    p: Any
    along: Any

    @classmethod
    def of(cls, unit: Cell | AskedPath | TimedRestart | TimedQuestions, start: int = 0) -> Key:
        """Of a restart of a cell, whichever, or of the batch of a path after so many answers."""
        if isinstance(unit, Cell | TimedRestart):
            return cls((unit.dataset, unit.model, unit.search), unit.p, unit.m)
        return cls((unit.dataset, unit.design), unit.p, start)


class Times(NamedTuple):
    """Seconds of a restart or a batch; before, those of holding annotations out; the share of CPU time."""

    seconds: float
    choosing: float = 0.0
    busy: float = 1.0


# Of what was never timed.
UNKNOWN = Times(1.0)


@dataclass
class Timing:
    """Measured seconds, and what they predict.

    Parameters
    ----------
    measured : dict of Key to Times
        What was timed.
    moment : Moment or None
        When and where the oldest of them was timed; None where nothing was, or it is not known.
    """

    measured: dict[Key, Times] = field(default_factory=dict)
    moment: Moment | None = None
    _predicted: dict[Key, Times] = field(default_factory=dict)

    @classmethod
    def load(cls, run: RunFolder) -> Timing:
        """Read a pilot's timings; a missing or unreadable file is an empty one, measured again."""
        pilot = read_pilot(run)
        measured = {Key.of(row): Times(row.seconds, row.choosing, row.busy) for row in pilot.timed}
        for each in pilot.questions:
            measured[Key.of(each, each.start)] = Times(each.seconds, busy=each.busy)
        return cls(measured, pilot.moment)

    def save(self, path: Path, files: Files = PLAIN) -> None:
        """Write the timings, replacing the file in one step."""
        timed, questions = list[TimedRestart](), list[TimedQuestions]()
        for (group, p, along), times in self.measured.items():
            if len(group) == 2:
                questions.append(TimedQuestions(*group, p, along, times.seconds, times.busy))
            else:
                dataset, model, search = group
                timed.append(TimedRestart(dataset, model, p, along, *times, search))
        Pilot(timed=tuple(timed), questions=tuple(questions), moment=self.moment).write(path, files)

    def note(self, done: Done) -> None:
        """Take the time of what was done: of a restart, or of a batch of questions."""
        key = Key.of(done.span.unit, done.span.start)
        choosing = done.choosing if isinstance(done, Solved) else 0.0
        if not self.measured:
            self.moment = Moment.now()
        each = (done.seconds - choosing) * done.span.step / done.span.size
        # a cell whose choice was known has none now: what it took before counts
        before = self.measured.get(key, UNKNOWN).choosing
        busy = done.cpu_seconds / done.seconds if done.seconds > 0 else 1.0
        self._set(key, Times(each, choosing or before, busy))

    def note_done(self, cell: Cell, seconds: float | None) -> None:
        """Take the seconds of a restart of `cell`, where they are known."""
        if seconds is not None:
            key = Key.of(cell, 0)
            self._set(key, self.measured.get(key, UNKNOWN)._replace(seconds=seconds))

    def missing(self, plan: DatasetPlan) -> list[Cell]:
        """Pilot cells that were not timed yet."""
        return [cell for cell in pilot_cells(plan) if Key.of(cell, 0) not in self.measured]

    def missing_paths(self, plan: DatasetPlan) -> list[AskedPath]:
        """Paths of the extreme accuracies with fewer than `TIMED` timed batches, of the first draws."""
        mixture = plan.dims[0].values[0]
        corners = _ends(plan.p) if plan.asking_designs else []
        paths = [
            AskedPath(plan.name, mixture, p, 0, design) for p in corners for design in plan.asking_designs
        ]
        timed = [key[:2] for key in self.measured]
        return [path for path in paths if timed.count(Key.of(path, 0)[:2]) < TIMED]

    def seconds(self, span: Span[Any], *, of_cpu: bool = False) -> float:
        """Predict the seconds of a span, or its CPU seconds, bilinear in accuracy and number of annotations.

        A restart of a data set, model and search that was never timed is taken to last a second, and so is a
        batch of questions of a data set and design.
        """
        if isinstance(span.unit, Cell):
            times = self.times(span.unit)
            total = span.size * times.seconds + (times.choosing if span.chosen is None else 0.0)
            return total * times.busy if of_cpu else total
        batches = (self.times(span.unit, at) for at in range(span.start, span.stop, span.step))
        return sum(times.seconds * (times.busy if of_cpu else 1.0) for times in batches)

    def times(self, unit: Cell | AskedPath, start: int = 0) -> Times:
        """Predict the times of a restart of a cell, or of the batch of a path after so many answers."""
        key = Key.of(unit, start)
        if key not in self._predicted:
            self._predicted[key] = self._predict(key)
        return self._predicted[key]

    def _set(self, key: Key, times: Times) -> None:
        self.measured[key] = times
        self._predicted.clear()

    def _predict(self, key: Key) -> Times:
        rows: dict[Any, dict[Any, Times]] = {}
        for (group, p, along), times in self.measured.items():
            if group == key.group and (p is None) == (key.p is None):
                rows.setdefault(p, {})[along] = times
        if not rows:
            return UNKNOWN
        if key.p is None:
            return rows[None][None]  # a baseline has neither accuracies nor annotations
        return _between({p: _between(row, key.along) for p, row in rows.items()}, key.p)


def _between(points: dict[Any, Times], at: float) -> Times:
    """Linear between the two points around `at`, constant outside."""
    known = sorted(points)
    columns = zip(*(points[each] for each in known), strict=True)
    return Times(*(float(np.interp(at, known, column)) for column in columns))


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


def _ends(values: Sequence[Any]) -> Sequence[Any]:
    return sorted({min(values), max(values)})


# Which values of a dimension are timed, where not all of them are.
TIMED_ALONG: dict[str, Callable[[Sequence[Any]], Sequence[Any]]] = {
    "mixture": itemgetter(slice(1)),
    "p": _ends,
    "m": _ends,
    "design": lambda designs: sorted(designs, key=asks)[:1],
    "replicate": itemgetter(slice(1)),
}


# How restarts are grouped into tasks of a sensible length.

# Bounds of a task in seconds: below, the scheduler is busy; above, too much is lost with a worker.
SHORTEST, LONGEST = 0.5, 60.0

# Shortest task for each worker there is: 100 tasks a second take less than half of a driver's core.
SECONDS_PER_WORKER = 0.01


def target_seconds(total: float, workers: int) -> float:
    """Length of a task: 1/50 of a worker's share, within bounds.

    Many workers take longer tasks, so that the driver keeps up, but two each if there is work enough.
    """
    share = total / max(workers, 1)
    shortest = max(SHORTEST, min(SECONDS_PER_WORKER * workers, share / 2))
    return min(max(share / 50, shortest), LONGEST)


def make_batches(
    science: Science, spans: Iterable[Span[Cell]], timing: Timing, *, seconds: float
) -> Iterator[Task]:
    """Group restarts of cells of one data set into tasks, in order.

    Parameters
    ----------
    science : Science
        Of the data set.
    spans : iterable of Span
        What is left to do.
    timing : Timing
        Predictions.
    seconds : float
        Length to aim for.

    Yields
    ------
    Task
        A cell may be split over tasks, its restarts being independent; with an adaptive stop it is not: the
        rule is tested in one task. Neither is one that holds annotations out: it does so once.
    """
    group: list[Span[Cell]] = []
    filled = predicted = 0.0
    for span in spans:
        each, choosing, _ = timing.times(span.unit)
        if span.chosen is not None:
            choosing = 0.0
        size, start = each / seconds, span.start
        whole = science.stop is not None or science.holds_out(span.unit)
        while start < span.stop:
            # A sum of shares rounds: what misses a full task by less than that is full.
            room = int((1 - filled - choosing / seconds) / size + 1e-9)
            wanted = span.stop - start if whole else 1
            if room < wanted and group:
                yield Task(science, span.unit.dataset, tuple(group), predicted)
                group, filled, predicted = [], 0.0, 0.0
                continue
            stop = min(span.stop, start + max(wanted, room))
            group.append(replace(span, start=start, stop=stop))
            filled += (stop - start) * size + choosing / seconds
            predicted += (stop - start) * each + choosing
            start = stop
    if group:
        yield Task(science, group[0].unit.dataset, tuple(group), predicted)
