"""Measured seconds of a batch of questions, and what they predict for the batches not asked yet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from pipeline.questions.records import PathPart
from storage.runfolder.pilot import TimedQuestions
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
    """

    measured: dict[Key, dict[int, float]] = field(default_factory=dict)

    @classmethod
    def of(cls, timed: Iterable[TimedQuestions]) -> PathTiming:
        """Take the timings of a file."""
        timing = cls()
        for each in timed:
            timing.measured.setdefault((each.dataset, each.design, each.p), {})[each.start] = each.seconds
        return timing

    def rows(self) -> Iterator[TimedQuestions]:
        """The timings for a file."""
        for key, starts in self.measured.items():
            yield from (TimedQuestions(*key, start, seconds) for start, seconds in starts.items())

    def note(self, part: PathPart, batch: int) -> None:
        """Take the time of batches of so many questions."""
        path = part.path
        starts = self.measured.setdefault((path.dataset, path.design, path.p), {})
        starts[part.start] = part.seconds / max(1, len(part.answers) // batch)

    def missing(self, plan: DatasetPlan) -> list[AskedPath]:
        """Pilot paths of which fewer than `TIMED` batches were timed."""
        return [
            path
            for path in pilot_paths(plan)
            if len(self.measured.get((path.dataset, path.design, path.p), {})) < TIMED
        ]

    def seconds(self, path: AskedPath, start: int) -> float:
        """Predict the seconds of the batch after `start` answers, bilinear in accuracy and start."""
        rows = {
            p: interpolate(starts, start)
            for (dataset, design, p), starts in self.measured.items()
            if (dataset, design) == (path.dataset, path.design)
        }
        return interpolate(rows, path.p) if rows else UNKNOWN_SECONDS

    def path_seconds(self, path: AskedPath, start: int, batches: int, batch: int) -> float:
        """Predict the seconds of some batches of a path, one after the other."""
        return sum(self.seconds(path, start + number * batch) for number in range(batches))


def interpolate(points: Mapping[float, float] | Mapping[int, float], at: float) -> float:
    """Linear between the two points around `at`, constant outside; there is one point at least."""
    ordered = sorted(points.items())
    below = [point for point in ordered if point[0] <= at]
    above = [point for point in ordered if point[0] >= at]
    if not below or not above:
        return (above or below)[0 if above else -1][1]
    (x0, y0), (x1, y1) = below[-1], above[0]
    return y0 if x1 == x0 else y0 + (y1 - y0) * (at - x0) / (x1 - x0)
