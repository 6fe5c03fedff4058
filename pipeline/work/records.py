"""What goes to a worker, and what comes back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from pipeline.methods.loading import MethodCall
from pipeline.questions.records import Failed, PathBatch, PathFailure, PathPart
from storage.runfolder.records import FailedWork, FailureRecord
from sweeps.file.search import Search
from sweeps.file.spec import Stop
from sweeps.plan import Cell
from sweeps.words import holds_out, shape_of


@dataclass(frozen=True, slots=True)
class Chosen:
    """The shape of covariances that a cell chose, or has, and how well it predicts held-out annotations.

    Parameters
    ----------
    covariance : str
        One of `sweeps.shapes.CANDIDATES` if the cell chose it.
    held_out, right : tuple of float
        Of each candidate: minus the mean log-probability of held-out annotations, in nats, and the share of
        them that were predicted. NaN where there were too few annotations to tell. Where every model holds
        annotations out they are of all of `sweeps.shapes.SCORED`, and NaN for shapes that were not tried.
    """

    covariance: str
    held_out: tuple[float, ...]
    right: tuple[float, ...]

    def is_same(self, other: Chosen) -> bool:
        """Whether another choice has the same bits; NaN is the same missing value."""
        mine, its = (np.array([each.held_out, each.right]) for each in (self, other))
        return self.covariance == other.covariance and mine.tobytes() == its.tobytes()


@dataclass(frozen=True, slots=True)
class Work:
    """Some restarts `start..stop-1` of one cell.

    With an adaptive stop `stop` is the most there may be, and `known` holds the objectives of the restarts
    before `start`. What held-out annotations said of the cell before is in `chosen`. Annotations that were
    asked for come along, as a worker could not draw them again.
    """

    cell: Cell
    start: int
    stop: int
    known: tuple[float, ...] = ()
    chosen: Chosen | None = None
    annotations: NDArray[np.int32] | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Science:
    """What every result depends on besides coordinates and data."""

    seed: int
    searches: tuple[Search, ...]
    n_clusters: int
    stop: Stop | None = None
    methods: tuple[MethodCall, ...] = ()

    def method(self, name: str) -> MethodCall | None:
        """The method of a name; None for a model."""
        return next((each for each in self.methods if each.name == name), None)

    def search(self, cell: Cell) -> Search:
        """Settings for a cell of a model."""
        return next(each for each in self.searches if each.name == cell.search)

    def holds_out(self, cell: Cell) -> bool:
        """Whether a cell holds annotations out, before its first restart."""
        return holds_out(cell.model, self.searches[0].held_out)


@dataclass(frozen=True, slots=True)
class Batch:
    """The unit of a task: restarts of cells of one data set, and the seconds predicted for them."""

    science: Science
    dataset: str
    work: tuple[Work, ...]
    predicted: float

    def __str__(self) -> str:
        others = len({item.cell for item in self.work}) - 1
        first = str(self.work[0].cell)
        return f"{first} and {others} other cells" if others else first


@dataclass(frozen=True, slots=True, eq=False)
class Partial:
    """Result of one `Work`.

    Parameters
    ----------
    work : Work
        What was done.
    objectives : ndarray of shape (stop - start,)
        Objective of each restart, in nats; of a method its own, NaN where it gave none or found no solution.
    best_restart : int
        Restart of the largest objective, the lowest on ties; -1 if no restart has a solution.
    labels, centroids : ndarray of shape (n_samples,), (n_clusters, n_features)
        Its solution.
    covariances : ndarray of shape (n_clusters, ...)
        Of its clusters: the rest is no, one or two axes of n_features, by the model's shape.
    seconds, cpu_seconds : float
        Time spent in the solver: elapsed, and of the processor.
    chosen : Chosen or None
        Of a cell that holds annotations out.
    choosing : float
        Seconds of those that this took; 0 if it was known.
    """

    work: Work
    objectives: NDArray[np.float64]
    best_restart: int
    labels: NDArray[np.int16]
    centroids: NDArray[np.float64]
    covariances: NDArray[np.float64]
    seconds: float
    cpu_seconds: float
    chosen: Chosen | None = None
    choosing: float = 0.0

    @property
    def solved(self) -> bool:
        """Whether there is a solution: a method may find none."""
        return self.best_restart >= 0

    @property
    def shape(self) -> str:
        """Shape of the covariances."""
        return shape_of(self.work.cell.model) if self.chosen is None else self.chosen.covariance


@dataclass(frozen=True, slots=True)
class Failure(Failed):
    """A `Work` that raised: what, where, and the traceback."""

    work: Work
    cause: str
    node: str
    job: str
    traceback: str

    def record(self, attempt: int) -> FailureRecord:
        """What is written of it, now; `attempt` counts the failures of its cell in this run, from 1."""
        return FailureRecord(
            work=FailedWork.model_validate(self.work, from_attributes=True),
            cause=self.cause,
            node=self.node,
            job=self.job,
            traceback=self.traceback,
            cell=str(self.work.cell),
            at=datetime.now(UTC).isoformat(timespec="seconds"),
            attempt=attempt,
        )


Task = Batch | PathBatch
"""What a worker is given."""

Results = Sequence[Partial | Failure | PathPart | PathFailure]
"""What comes back of a task that ended."""
