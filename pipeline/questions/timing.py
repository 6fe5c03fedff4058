"""Measured seconds of a batch of questions, and what they predict for the batches not asked yet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from pipeline.questions.records import PathPart
from storage.runfolder.records import TimedQuestions
from sweeps.plan import AskedPath, DatasetPlan

Key = tuple[str, str, float]
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

    measured: dict[Key, dict[int, float]] = field(default_factory=dict)
    busy: dict[Key, dict[int, float]] = field(default_factory=dict)

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
        found = _at(self.measured, path, start)
        return UNKNOWN_SECONDS if found is None else found

    def path_seconds(self, path: AskedPath, start: int, batches: int, batch: int) -> float:
        """Predict the seconds of some batches of a path, one after the other."""
        return sum(self.seconds(path, start + number * batch) for number in range(batches))

    def path_cpu_seconds(self, path: AskedPath, start: int, batches: int, batch: int) -> float:
        """Predict the CPU seconds of some batches of a path."""
        starts = (start + number * batch for number in range(batches))
        return sum(self.seconds(path, each) * (_at(self.busy, path, each) or 1.0) for each in starts)

    def _set(self, key: Key, start: int, seconds: float, busy: float) -> None:
        self.measured.setdefault(key, {})[start] = seconds
        self.busy.setdefault(key, {})[start] = busy


def _at(timed: Mapping[Key, Mapping[int, float]], path: AskedPath, start: int) -> float | None:
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
