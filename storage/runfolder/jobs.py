"""The list of worker jobs in the folder of a run, for commands that only read files."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from storage.errors import LeaseLost, StorageError
from storage.files import PLAIN, Files
from storage.runfolder.record import FileRecord, Record

logger = logging.getLogger(__name__)

KEPT = 20
"""Jobs that ended and are still listed."""


class JobRecord(Record):
    """A worker job that is wanted.

    Parameters
    ----------
    name, job : str
        Name and number in the queue; no number before it is submitted.
    node : str
        Where it runs, where that is known.
    state : str
        `running` once workers came; before, what the queue says.
    workers : int
        Worker processes that are connected.
    """

    name: str
    job: str
    node: str
    state: str
    workers: int


class LostJob(Record):
    """A worker job that ended, and was replaced: when, in unix time, and how."""

    name: str
    job: str
    node: str
    how: str
    at: float


class JobList(FileRecord):
    """Worker jobs of the last run.

    Parameters
    ----------
    wanted : int
        Number of jobs the run maintains.
    jobs : tuple of JobRecord
        Those that run or wait now.
    n_lost : int
        How many ended and were replaced.
    lost : tuple of LostJob
        The last of those.
    at : float
        Unix time of the last change.
    """

    wanted: int
    jobs: tuple[JobRecord, ...]
    n_lost: int
    lost: tuple[LostJob, ...]
    at: float

    @property
    def running(self) -> int:
        """Jobs with workers."""
        return sum(1 for job in self.jobs if job.workers)

    @property
    def workers(self) -> int:
        """Worker processes of all jobs."""
        return sum(job.workers for job in self.jobs)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {**self.model_dump(), "running": self.running, "workers": self.workers}


class JobListFile:
    """Writes the list whenever it changes.

    Parameters
    ----------
    path : Path
        Replaced in one step.
    wanted : int
        Number of jobs the run maintains.
    files : Files
        Of the holder of the lease.
    """

    def __init__(self, path: Path, wanted: int, files: Files = PLAIN) -> None:
        self._path = path
        self._files = files
        self._wanted = wanted
        self._lost: list[LostJob] = []
        self._written: tuple[object, ...] = ()

    def lose(self, record: JobRecord, how: str) -> None:
        """Record the end of a job."""
        lost = LostJob(name=record.name, job=record.job, node=record.node, how=how, at=time.time())
        self._lost.append(lost)

    def show(self, jobs: Sequence[JobRecord]) -> None:
        """Write the list if it has changed; an error of the disk is only logged."""
        now = (tuple(jobs), len(self._lost))
        if now == self._written:
            return
        found = JobList(
            wanted=self._wanted,
            jobs=tuple(jobs),
            n_lost=len(self._lost),
            lost=tuple(self._lost[-KEPT:]),
            at=time.time(),
        )
        try:
            found.write(self._path, self._files)
        except (StorageError, LeaseLost) as error:
            logger.debug("%s", error)
            return
        self._written = now
