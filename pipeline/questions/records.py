"""What goes to a worker that asks questions, and what comes back."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from storage.runfolder.records import FailedWork, FailureRecord
from sweeps.errors import one_line, plain_lines
from sweeps.file.spec import SweepSpec
from sweeps.plan import AskedPath, DatasetPlan

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
