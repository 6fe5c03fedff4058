"""Measured seconds of restarts and of batches of questions, predictions from them, and tasks of equal length.

A `Timing` is a table of both. `make_batches` groups the restarts that are still to be run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sweep_clustering.pipeline.work.records import Science, Solved, Span, Success, Task
from sweep_clustering.storage.files import PLAIN, Files
from sweep_clustering.storage.runfolder import folder
from sweep_clustering.sweeps.plan import AskedPath, Cell, DatasetPlan
from sweep_clustering.sweeps.words import asks

# Number of batches of a path that a pilot times. The first one has no answers to fit, and predicts no others.
TIMED = 2


class Key(NamedTuple):
    """Coordinates that a time depends on."""

    # Data set, model and search of a restart, or data set and design of a question.
    group: tuple[Any, ...]
    p: Any
    # Number of annotations of a cell, or number of answers before a batch of questions.
    n_annotations: Any

    @classmethod
    def of(cls, unit: Cell | AskedPath | folder.TimedRestart | folder.TimedQuestions, start: int = 0) -> Key:
        """Return the key of any restart of a cell, or of the batch of a path after `start` answers."""
        if isinstance(unit, Cell | folder.TimedRestart):
            return cls((unit.dataset, unit.model, unit.search), unit.p, unit.m)
        return cls((unit.dataset, unit.design), unit.p, start)


class Times(NamedTuple):
    """Times of a restart or a batch."""

    seconds: float
    # Seconds that the choice by held-out annotations takes before.
    choosing: float = 0.0
    # CPU time as a share of the elapsed time.
    busy: float = 1.0


# Times of a restart or a batch if none of its group was timed.
DEFAULT_TIMES = Times(1.0)


@dataclass
class Timing:
    """Measured times and predictions from them, with the time and place of the oldest one if it is known."""

    measured_times: dict[Key, Times] = field(default_factory=dict)
    moment: folder.Moment | None = None
    _predictions: dict[Key, Times] = field(default_factory=dict)

    @classmethod
    def load(cls, run: folder.RunFolder) -> Timing:
        """Read the timings of a pilot, none from a missing or unreadable file."""
        pilot = folder.read_pilot(run)
        measured_times = {Key.of(row): Times(row.seconds, row.choosing, row.busy) for row in pilot.timed}
        for row in pilot.questions:
            measured_times[Key.of(row, row.start)] = Times(row.seconds, busy=row.busy)
        return cls(measured_times, pilot.moment)

    def save(self, path: Path, files: Files = PLAIN) -> None:
        """Write the timings, replacing the file in one step."""
        timed, questions = list[folder.TimedRestart](), list[folder.TimedQuestions]()
        for (group, p, n_annotations), times in self.measured_times.items():
            if len(group) == 2:
                questions.append(folder.TimedQuestions(*group, p, n_annotations, times.seconds, times.busy))
            else:
                dataset, model, search = group
                timed.append(folder.TimedRestart(dataset, model, p, n_annotations, *times, search))
        folder.Pilot(timed=tuple(timed), questions=tuple(questions), moment=self.moment).write(path, files)

    def note(self, result: Success) -> None:
        """Take the time of some restarts, or of a batch of questions."""
        key = Key.of(result.span.unit, result.span.start)
        choosing = result.choosing if isinstance(result, Solved) else 0.0
        if not self.measured_times:
            self.moment = folder.Moment.measure()
        seconds = (result.seconds - choosing) * result.span.step / result.span.size
        # A cell that made its choice before takes no time for it now, and the time measured then counts.
        earlier_choosing = self.measured_times.get(key, DEFAULT_TIMES).choosing
        busy = result.cpu_seconds / result.seconds if result.seconds > 0 else 1.0
        self._set(key, Times(seconds, choosing or earlier_choosing, busy))

    def note_done(self, cell: Cell, seconds: float | None) -> None:
        """Take the seconds of a restart of a cell, if they are known."""
        if seconds is not None:
            key = Key.of(cell, 0)
            self._set(key, self.measured_times.get(key, DEFAULT_TIMES)._replace(seconds=seconds))

    def untimed_cells(self, plan: DatasetPlan) -> list[Cell]:
        """Return the cells of the pilot that were not timed yet."""
        return [cell for cell in pilot_cells(plan) if Key.of(cell, 0) not in self.measured_times]

    def untimed_paths(self, plan: DatasetPlan) -> list[AskedPath]:
        """Return paths of the first draw and the extreme accuracies with fewer than `TIMED` timed batches."""
        mixture = plan.dims[0].values[0]
        corners = _ends(plan.p) if plan.asking_designs else []
        paths = [
            AskedPath(plan.name, mixture, p, 0, design) for p in corners for design in plan.asking_designs
        ]
        timed = [key[:2] for key in self.measured_times]
        return [path for path in paths if timed.count(Key.of(path, 0)[:2]) < TIMED]

    def seconds(self, span: Span[Any], *, of_cpu: bool = False) -> float:
        """Predict the seconds of a span, or its CPU seconds, bilinear in accuracy and number of annotations.

        A restart lasts a second if none of its data set, model and search was timed, and so does a batch of
        questions if none of its data set and design was.
        """
        if isinstance(span.unit, Cell):
            times = self.times(span.unit)
            total = span.size * times.seconds + (times.choosing if span.chosen is None else 0.0)
            return total * times.busy if of_cpu else total
        batches = (self.times(span.unit, start) for start in range(span.start, span.stop, span.step))
        return sum(times.seconds * (times.busy if of_cpu else 1.0) for times in batches)

    def times(self, unit: Cell | AskedPath, start: int = 0) -> Times:
        """Predict the times of a restart of a cell, or of the batch of a path after so many answers."""
        key = Key.of(unit, start)
        if key not in self._predictions:
            self._predictions[key] = self._predict(key)
        return self._predictions[key]

    def _set(self, key: Key, times: Times) -> None:
        self.measured_times[key] = times
        self._predictions.clear()

    def _predict(self, key: Key) -> Times:
        rows: dict[Any, dict[Any, Times]] = {}
        for (group, p, n_annotations), times in self.measured_times.items():
            if group == key.group and (p is None) == (key.p is None):
                rows.setdefault(p, {})[n_annotations] = times
        if not rows:
            return DEFAULT_TIMES
        if key.p is None:
            return rows[None][None]  # a baseline has neither accuracies nor annotations
        return _interpolate({p: _interpolate(row, key.n_annotations) for p, row in rows.items()}, key.p)


def _interpolate(points: dict[Any, Times], position: float) -> Times:
    """Interpolate linearly between the two points around a position; beyond the last point it is constant."""
    places = sorted(points)
    columns = zip(*(points[place] for place in places), strict=True)
    return Times(*(float(np.interp(position, places, column)) for column in columns))


def pilot_cells(plan: DatasetPlan) -> list[Cell]:
    """Return the cells that are timed to predict the others: corners of the grid of each model and search.

    The design hardly changes the time, so one that asks no questions is preferred.
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


# Values that are timed of a dimension, if these are not all.
TIMED_ALONG: dict[str, Callable[[Sequence[Any]], Sequence[Any]]] = {
    "mixture": itemgetter(slice(1)),
    "p": _ends,
    "m": _ends,
    "design": lambda designs: sorted(designs, key=asks)[:1],
    "replicate": itemgetter(slice(1)),
}


# Tasks of restarts.

# Seconds of the shortest task: shorter ones keep the scheduler busy.
SHORTEST = 0.5

# Seconds of the longest task: of longer ones too much is lost with a worker.
LONGEST = 60.0

# Seconds of the shortest task for each worker: 100 tasks a second take less than half of a driver's core.
SECONDS_PER_WORKER = 0.01


def target_seconds(total: float, workers: int) -> float:
    """Return the length of a task: 1/50 of a worker's share, within bounds.

    Many workers get longer tasks, so that the driver keeps up, but at least two of them if possible.
    """
    share = total / max(workers, 1)
    shortest = max(SHORTEST, min(SECONDS_PER_WORKER * workers, share / 2))
    return min(max(share / 50, shortest), LONGEST)


def make_batches(
    science: Science, spans: Iterable[Span[Cell]], timing: Timing, *, seconds: float
) -> Iterator[Task]:
    """Group restarts of cells of one data set into tasks of about so many seconds, in order.

    The restarts of a cell are independent and may go to several tasks. Those of a cell with an adaptive stop
    do not, because one task tests the rule, nor those of a cell that holds annotations out once.
    """
    group: list[Span[Cell]] = []
    filled = predicted_seconds = 0.0
    for span in spans:
        restart_seconds, choosing, _ = timing.times(span.unit)
        if span.chosen is not None:
            choosing = 0.0
        size, start = restart_seconds / seconds, span.start
        is_whole = science.stop is not None or science.holds_out(span.unit)
        while start < span.stop:
            # Sums of shares round, so a task that misses less than the rounding is full.
            room = int((1 - filled - choosing / seconds) / size + 1e-9)
            fewest = span.stop - start if is_whole else 1
            if room < fewest and group:
                yield Task(science, span.unit.dataset, tuple(group), predicted_seconds)
                group, filled, predicted_seconds = [], 0.0, 0.0
                continue
            stop = min(span.stop, start + max(fewest, room))
            group.append(replace(span, start=start, stop=stop))
            filled += (stop - start) * size + choosing / seconds
            predicted_seconds += (stop - start) * restart_seconds + choosing
            start = stop
    if group:
        yield Task(science, group[0].unit.dataset, tuple(group), predicted_seconds)
