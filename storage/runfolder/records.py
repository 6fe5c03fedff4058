"""Records in the folder of a run: JSON that is whole or absent, and never a reason for a reader to fail.

A `FileRecord` is a file of its own, read by `read` and written by `write`; `folder` names the files.
Failures are lines of one file, by `append_failure` and `read_failures`. `JobListFile` writes the
jobs when they have changed, for commands that only read files.
"""

from __future__ import annotations

import json
import logging
import os
import re
import socket
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple, Self

from pydantic import AfterValidator, BaseModel, ConfigDict

from sweep_clustering.storage.errors import LeaseLost, StorageError, storage_errors
from sweep_clustering.storage.files import PLAIN, Files
from sweep_clustering.storage.runfolder.folder import RunFolder
from sweep_clustering.sweeps.errors import InputError, Problem, one_line, plain_lines, shown
from sweep_clustering.sweeps.plan import Cell

# Of every record; those of another version are refused with a message.
VERSION = 2

# A text that is shown: one line, also where an older release or somebody else wrote more.
Line = Annotated[str, AfterValidator(one_line)]

# Of characters, of file names that are not UTF-8: JSON holds them, and pydantic refuses them there.
HALVES = re.compile("[\ud800-\udfff]")


class Record(BaseModel):
    """Values of the very types declared, without any other key, never changed.

    Programs write and read these: problems of one are not reported, in contrast to those of files that people
    write.
    """

    # built when first used: `sweep status` reads few of these
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", defer_build=True)

    # Whether infinities and NaN make a text no record: readers do sums with times, and print JSON.
    finite: ClassVar[bool] = False

    @classmethod
    def parse(cls, text: bytes | str, where: Path) -> Self | None:
        """The record in a JSON text of `to_text`, None where there is none.

        Raises
        ------
        InputError
            If it is one of another format version.
        """
        try:
            values = json.loads(text)
            version = values.pop("version")
            del values["generation"]
        except (ValueError, RecursionError, TypeError, KeyError, AttributeError):
            return None
        if version != VERSION:
            hint = "use the release that wrote it, or remove the folder of the run to begin again"
            raise InputError([Problem(str(where), f"format version {shown(version)}", str(VERSION), hint)])
        try:
            plain = json.dumps(values, allow_nan=not cls.finite, ensure_ascii=False)
            if HALVES.search(plain):
                return cls.model_validate(values, strict=False)  # lists for tuples, as JSON has them
            return cls.model_validate_json(plain)
        except ValueError:
            return None

    def to_text(self, generation: int, indent: int | None = None) -> str:
        """The record as JSON, with the format version and the generation of the lease that writes it."""
        values: dict[str, Any] = {"version": VERSION, "generation": generation}
        return json.dumps(values | self.model_dump(), indent=indent)


class FileRecord(Record):
    """A record that is a file of its own."""

    finite: ClassVar[bool] = True

    @classmethod
    def read(cls, path: Path) -> Self | None:
        """The record at `path`, None where there is none.

        Raises
        ------
        InputError
            If it is one of another format version.
        """
        with suppress(OSError):
            return cls.parse(path.read_bytes(), path)
        return None

    def write(self, path: Path, files: Files = PLAIN) -> None:
        """Put it at `path` in one step.

        Raises
        ------
        StorageError
            If the file system refuses.
        LeaseLost
            If `files` are those of a holder of the lease that has been taken over.
        """
        with storage_errors(path):
            files.put(path, self.to_text(files.generation, indent=1).encode())


# Records of the head of a run (scheduler and driver): how it was started, and how it ended.

RUNNING, REQUEUED, ENDED = "running", "requeued", "ended"


class HeadRecord(FileRecord):
    """The last driver of a cube; the lease tells whether it is alive.

    Parameters
    ----------
    spec : str
        Sweep file, an absolute path.
    data_dir : str or None
        Directory of raw data files.
    job : str
        Of a queue; empty outside.
    node : str
        Where it runs.
    restarts : int
        How often its job was queued again.
    dashboard : str or None
        Line that says how to reach the dashboard.
    state : str
        `running`, `requeued` (its job waits in the queue again), `ended`.
    at : float
        Unix time since when.
    how : str
        How it ended.
    where : list of str
        Options of `sweep submit` that choose the compute cluster.
    """

    spec: str
    data_dir: str | None = None
    where: list[str] = []
    job: str = ""
    node: Line = ""
    restarts: int = 0
    dashboard: Line | None = None
    state: str = RUNNING
    at: float = 0.0
    how: Line = ""

    def now(self, state: str, how: str = "") -> HeadRecord:
        """The same driver in another state."""
        return self.model_copy(update={"state": state, "how": one_line(how), "at": time.time()})


class Submission(FileRecord):
    """A head that was started detached.

    Parameters
    ----------
    system : str
        `slurm`, or `process` for one of this machine.
    job : str
        Number in the queue, or of the process.
    host : str
        Where it was submitted.
    at : float
        Unix time of it.
    """

    system: str
    job: str
    host: str
    at: float


class StopRequest(FileRecord):
    """Asks every head of a cube to end: one that runs, one that waits, and one nobody can reach.

    Parameters
    ----------
    host : str
        Where it was asked for.
    at : float
        Unix time of it.
    """

    host: str
    at: float


# The list of worker jobs in the folder of a run, for commands that only read files.

logger = logging.getLogger(__name__)

# Jobs that ended and are still listed.
KEPT = 20


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
        return sum(job.workers > 0 for job in self.jobs)

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
        self._path, self._wanted, self._files = path, wanted, files
        self._lost: list[LostJob] = []
        self._written: JobList | None = None

    def lose(self, record: JobRecord, how: str) -> None:
        """Record the end of a job."""
        self._lost.append(
            LostJob(name=record.name, job=record.job, node=record.node, how=how, at=time.time())
        )

    def show(self, jobs: Sequence[JobRecord]) -> None:
        """Write the list if it has changed; an error of the disk is only logged."""
        shown, n_lost, lost = tuple(jobs), len(self._lost), tuple(self._lost[-KEPT:])
        found = JobList(wanted=self._wanted, jobs=shown, n_lost=n_lost, lost=lost, at=time.time())
        if self._written is None or self._written != found.model_copy(update={"at": self._written.at}):
            try:
                found.write(self._path, self._files)
                self._written = found
            except (StorageError, LeaseLost) as error:
                logger.debug("%s", error)


# Seconds of the restarts that were timed, kept for the next run and for `sweep plan`.


class TimedRestart(NamedTuple):
    """Data set, model, accuracy and annotation count of a restart, and the seconds elapsed meanwhile.

    `choosing` are those before it, in which its cell chose its shape of covariances; `busy` is the CPU time
    as a share of both. `search` is its search, where the sweep has several.
    """

    dataset: str
    model: str
    p: float | None
    m: int | None
    seconds: float
    choosing: float = 0.0
    busy: float = 1.0
    search: str | None = None


class TimedQuestions(NamedTuple):
    """Data set, design and accuracy of a batch of questions, the answers before it, and its seconds."""

    dataset: str
    design: str
    p: float
    start: int
    seconds: float
    busy: float = 1.0


class Moment(NamedTuple):
    """When (unix time) and where something was timed, and the load of the machine for each core."""

    at: float
    host: str
    load: float

    @classmethod
    def now(cls) -> Moment:
        """The moment it is, on this machine."""
        # The load is that of the whole machine, and so are the cores, whatever this process may use of them.
        return cls(time.time(), socket.gethostname(), os.getloadavg()[0] / (os.cpu_count() or 1))

    @property
    def age(self) -> float:
        """Seconds since then."""
        return time.time() - self.at


class Pilot(FileRecord):
    """What was timed, and when; a file of a version that asked no questions has none."""

    timed: tuple[TimedRestart, ...] = ()
    questions: tuple[TimedQuestions, ...] = ()
    moment: Moment | None = None


def read_pilot(run: RunFolder) -> Pilot:
    """Read what the last holder has timed; a missing or unreadable file is an empty one, measured again."""
    found = [generation.pilot for generation in run.generations() if generation.pilot.exists()]
    pilot = Pilot.read(found[-1]) if found else Pilot()
    if pilot is None:
        logger.warning("%s is not readable: restarts are timed again", found[-1])
    return pilot or Pilot()


# Progress of the driver, for commands that only read files.


class Progress(FileRecord):
    """State of the driver.

    Parameters
    ----------
    restarts, total : int
        Restarts that are done, those of earlier runs included, and all of them.
    workers : int
        Number of workers.
    left : float or None
        Seconds that the rest will take; None while restarts are timed.
    at : float
        Unix time of this state.
    asked, questions : int
        Questions that were asked and all of them, where designs ask.
    earlier : int
        Restarts that were done before this run.
    """

    restarts: int
    total: int
    workers: int
    left: float | None
    at: float
    asked: int = 0
    questions: int = 0
    earlier: int = 0


class FailedWork(Record, extra="ignore"):
    """The restarts `start..stop-1` that failed; `known` are the objectives of those before them."""

    cell: Cell | None = None
    start: int
    stop: int
    known: tuple[float, ...] = ()


class FailureRecord(Record, extra="ignore"):
    """One failure of a cell; keys of later versions are left out.

    Parameters
    ----------
    work : FailedWork
        What failed.
    cause : str
        Error and message, on one line.
    node, job : str
        Where it ran, and number or name of its job in a queue; empty where that is not known.
    traceback : str
        Empty where the worker died.
    cell : str
        Its name.
    at : str
        When, ISO 8601, UTC; empty in records of older versions.
    attempt : int
        Which failure of this cell in its run it is, from 1; 0 in records of older versions.
    """

    work: FailedWork
    cause: Line
    node: Line
    job: Line
    traceback: Annotated[str, AfterValidator(plain_lines)]
    cell: str
    at: Line = ""
    attempt: int = 0


def append_failure(path: Path, record: FailureRecord, files: Files = PLAIN) -> None:
    """Add one failure.

    Raises
    ------
    StorageError
        If the file system refuses.
    LeaseLost
        If a later holder of the lease has removed the folder.
    """
    with storage_errors(path), files.fenced(), path.open("a", encoding="utf-8") as file:
        file.write(record.to_text(files.generation) + "\n")


def read_failures(run: RunFolder) -> list[FailureRecord]:
    """All failures recorded, oldest first; a line torn by a kill is left out.

    Raises
    ------
    InputError
        If one is of another format version.
    """
    lines = merged_lines(generation.failures for generation in run.generations())
    text = lines.decode(errors="replace")
    records = (FailureRecord.parse(line, run.path) for line in text.splitlines())
    return [record for record in records if record is not None]


def merged_lines(paths: Iterable[Path]) -> bytes:
    """Lines of several files, each once: a holder of the lease copies those of former ones into its own."""
    lines: dict[bytes, None] = {}
    for path in paths:
        with storage_errors(path), suppress(FileNotFoundError):
            lines |= dict.fromkeys(path.read_bytes().splitlines())
    return b"".join(line + b"\n" for line in lines if line)
