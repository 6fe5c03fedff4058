"""What goes to a worker, and what comes back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from pipeline.methods.loading import MethodCall
from storage.runfolder.records import FailedWork, FailureRecord
from sweeps.errors import cause_of, one_line, plain_lines
from sweeps.file.search import Search
from sweeps.file.spec import Stop, SweepSpec
from sweeps.plan import AskedPath, Cell, DatasetPlan
from sweeps.words import holds_out, shape_of

# What goes to a worker that asks questions, and what comes back.

Answers = NDArray[np.int32]
"""Of shape (n_answers, 3), in the order of asking: columns i, j and kind."""

NO_ANSWERS: Answers = np.empty((0, 3), dtype=np.int32)


@dataclass(frozen=True, slots=True)
class Asking:
    """What every path of a data set depends on besides coordinates and data.

    Parameters
    ----------
    seed, n_clusters : int
        Of the sweep, and K.
    batch : int
        Questions of a batch.
    restarts : int
        Of the search before each batch.
    covariance : str
        Shape of the covariances of the model that asks.
    """

    seed: int
    n_clusters: int
    batch: int
    restarts: int
    covariance: str

    @classmethod
    def of(cls, spec: SweepSpec, plan: DatasetPlan) -> Asking:
        """What a sweep says of the questions about a data set."""
        ask = spec.ask
        return cls(
            spec.seed, plan.n_clusters, ask.batch.resolve(plan.n_samples), ask.restarts, ask.covariance
        )

    def batches(self, start: int, stop: int) -> int:
        """How many batches lead from `start` answers, the end of a batch, to at least `stop`."""
        return max(0, -(-(stop - start) // self.batch))


@dataclass(frozen=True, slots=True, eq=False)
class PathBatch:
    """The unit of a task of questions: some batches of one path, one after the other.

    Parameters
    ----------
    asking : Asking
        How to ask.
    path : AskedPath
        Which path.
    known : ndarray of shape (start, 3)
        The answers before, up to the end of a batch.
    batches : int
        How many batches to ask.
    predicted : float
        Seconds predicted for them.
    """

    asking: Asking
    path: AskedPath
    known: Answers
    batches: int
    predicted: float

    @property
    def dataset(self) -> str:
        """Name of the data set."""
        return self.path.dataset

    @property
    def start(self) -> int:
        """Number of answers before."""
        return len(self.known)

    def __str__(self) -> str:
        return f"{self.path}, questions {self.start}..{self.start + self.batches * self.asking.batch - 1}"


@dataclass(frozen=True, slots=True, eq=False)
class PathPart:
    """Answers of whole batches of a path, and the seconds it took to ask: elapsed, and of the processor."""

    path: AskedPath
    start: int
    answers: Answers
    seconds: float
    cpu_seconds: float

    @property
    def stop(self) -> int:
        """Number of answers of the path with these."""
        return self.start + len(self.answers)


class Failed:
    """Why something failed, in words that can be logged, shown and stored, wherever it comes from."""

    __slots__ = ()
    cause: str
    traceback: str

    def __post_init__(self) -> None:
        for name, written in (("cause", one_line), ("traceback", plain_lines)):
            object.__setattr__(self, name, written(getattr(self, name)))


@dataclass(frozen=True, slots=True)
class PathFailure(Failed):
    """Questions that could not be asked: which, why, where, and the traceback."""

    path: AskedPath
    start: int
    stop: int
    cause: str
    node: str
    job: str
    traceback: str

    def record(self, attempt: int) -> FailureRecord:
        """What is written of it, now; `attempt` counts the failures of its path in this run, from 1."""
        return FailureRecord(
            work=FailedWork(start=self.start, stop=self.stop),
            cause=self.cause,
            node=self.node,
            job=self.job,
            traceback=self.traceback,
            cell=str(self.path),
            at=datetime.now(UTC).isoformat(timespec="seconds"),
            attempt=attempt,
        )


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


# Batches that are given up: lost with their worker, or answered with what is of another.


class BatchLost(Exception):
    """A batch is given up: it ended its worker.

    Parameters
    ----------
    cause : str
        What happened.
    node, job : str
        Where.
    """

    def __init__(self, cause: str, node: str = "", job: str = "") -> None:
        super().__init__(cause)
        self.node = node
        self.job = job


def lost_with_its_worker(work: Work, error: BaseException) -> Failure:
    """Failure of a work whose worker died while running it."""
    return Failure(work, *_how(error), "")


def lost_while_asking(task: PathBatch, error: BaseException) -> PathFailure:
    """Failure of questions whose worker died while it asked them."""
    stop = task.start + task.batches * task.asking.batch
    return PathFailure(task.path, task.start, stop, *_how(error), "")


def checked(task: Task, outcome: Results | BaseException) -> Results | BaseException:
    """What came of a task, where all of it is of this task: an answer to another one is none."""
    if isinstance(outcome, BaseException) or all(_is_of(task, result) for result in outcome):
        return outcome
    return BatchLost("what came back was the answer to another batch")


def _is_of(task: Task, result: Partial | Failure | PathPart | PathFailure) -> bool:
    if isinstance(result, (PathPart, PathFailure)):
        if not isinstance(task, PathBatch) or result.path != task.path:
            return False
        return task.start <= result.start < result.stop <= task.start + task.batches * task.asking.batch
    if isinstance(task, PathBatch):
        return False
    done, wanted = result.work, {(work.cell, work.start): work.stop for work in task.work}
    return done.start < done.stop <= wanted.get((done.cell, done.start), 0)


def _how(error: BaseException) -> tuple[str, str, str]:
    """Cause, node and job."""
    node, job = "", ""
    last = getattr(error, "last_worker", None)  # of distributed's KilledWorker
    if isinstance(error, BatchLost):
        node, job = error.node, error.job
    elif last is not None:
        node, job = last.host, last.name if isinstance(last.name, str) else ""
    return cause_of(error), node, job
