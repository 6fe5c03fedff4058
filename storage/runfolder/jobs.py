"""The list of worker jobs in the folder of a run, for those who read files only."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from storage.files import write_file

logger = logging.getLogger(__name__)

FILE_NAME = "jobs.json"
KEPT = 20


@dataclass(frozen=True)
class JobRecord:
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


@dataclass(frozen=True)
class LostJob:
    """A worker job that ended, and was replaced: when, in unix time, and how."""

    name: str
    job: str
    node: str
    how: str
    at: float


@dataclass(frozen=True)
class JobList:
    """Worker jobs of the last run.

    Parameters
    ----------
    wanted : int
        How many are kept up.
    jobs : tuple of JobRecord
        Those that stand or wait now.
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
        return {**asdict(self), "running": self.running, "workers": self.workers}


class JobListFile:
    """Writes the list whenever it changes.

    Parameters
    ----------
    run : Path
        Folder of the run.
    wanted : int
        How many jobs are kept up.
    """

    def __init__(self, run: Path, wanted: int) -> None:
        self._path = run / FILE_NAME
        self._wanted = wanted
        self._lost: list[LostJob] = []
        self._written: tuple[object, ...] = ()

    def lose(self, record: JobRecord, how: str) -> None:
        """Note the end of a job."""
        self._lost.append(LostJob(record.name, record.job, record.node, how, time.time()))

    def show(self, jobs: Sequence[JobRecord]) -> None:
        """Write the list if it is another one than before; a disk that refuses is only logged."""
        now = (tuple(jobs), len(self._lost))
        if now == self._written:
            return
        found = JobList(self._wanted, tuple(jobs), len(self._lost), tuple(self._lost[-KEPT:]), time.time())
        try:
            write_file(self._path, json.dumps(asdict(found)).encode())
        except OSError as error:
            logger.debug("%s: %s", self._path, error)
            return
        self._written = now


def read_job_list(run: Path) -> JobList | None:
    """The list last written, None where there is none that can be read."""
    try:
        values = json.loads((run / FILE_NAME).read_bytes())
        jobs = tuple(JobRecord(**job) for job in values.pop("jobs"))
        lost = tuple(LostJob(**job) for job in values.pop("lost"))
        return JobList(jobs=jobs, lost=lost, **values)
    except (OSError, ValueError, TypeError, KeyError):
        return None
