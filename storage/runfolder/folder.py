"""The folder beside a cube: the name of every file in it, and their records.

Runs need these files; readers of results do not. A record is JSON that is whole or absent, and a reader never
fails because of a broken one. A `FileRecord` is a whole file, with `read` and `write`; failures are lines of
one file (`append_failure`, `read_failures`).
"""

from __future__ import annotations

import json
import logging
import os
import pwd
import re
import socket
import stat
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from sweep_clustering.storage.files import (
    PLAIN,
    Files,
    LeaseLost,
    Notes,
    StorageError,
    kind_of,
    storage_errors,
)
from sweep_clustering.sweeps.errors import Problem, one_line, plain_lines, raise_all, refused, short_text
from sweep_clustering.sweeps.plan import Cell

logger = logging.getLogger(__name__)


CUBE_SUFFIX = ".zarr"
LEASE = "lease."
GENERATION = "generation."
# Files of folders of format version 1.
VERSION_1 = ("journal", "head.json", "pilot.json")


def cube_path(results: Path, name: str) -> Path:
    return results / f"{name}.zarr"


class GenerationFolder:
    """`generation.<n>` in the folder of a run: files that the n-th holder of the lease alone writes.

    Its `files` write there and in the cube, until another process takes the lease.
    """

    def __init__(self, run: RunFolder, number: int) -> None:
        self.run = run
        self.number = number
        self.path = path = run.path / f"{GENERATION}{number}"
        # file                                      what it holds             written by       read by
        self.journal = path / "journal"  #          results of open blocks    driver           next driver
        self.pilot = path / "pilot.json"  #         seconds of a restart      driver           drivers, plan
        self.state = path / "state.json"  #         how far the driver is     driver           monitor
        self.failures = path / "failures.jsonl"  #  failures of cells         driver           monitor, report
        self.digests = path / "digests"  #          digests of files written   driver           verify, repair
        self.root = path / "root.json"  #           the cube's root file      driver           verify, repair
        self.head = path / "head.json"  #           who runs it, how it ended head             monitor
        self.jobs = path / "jobs.json"  #           worker jobs               job watch        monitor
        self.tls = path / "tls"  #                  keys of one run           head             workers
        self.workers = path / "workers"  #          scratch of local workers  local workers    local workers
        self.writing = path / "writing"  #          incomplete files          driver           nobody
        self.closed_writing = path / "closed"  #    the same, renamed by the next holder
        self.files = Files(self.writing, number, Notes(run.cube, self.digests, self.root))

    def open(self) -> None:
        """Make the folder; raise LeaseLost if a later holder has removed it already.

        The lease counts only after this: a later holder then finds the folder and closes it.
        """
        with suppress(FileExistsError):
            self.path.mkdir(mode=0o700)
        with self.files.fenced():
            self.writing.mkdir(mode=0o700, exist_ok=True)


class RunFolder:
    """`<name>.run` beside the cube `<name>.zarr`, whether it exists or not.

    The comments say who writes and who reads each file. *Head*: the process with scheduler and driver, which
    holds the lease; *submit*: the command that starts a detached head; *monitor*: status, logs, cancel, why,
    on any machine.
    """

    def __init__(self, cube: Path) -> None:
        self.cube = cube
        self.path = path = cube.with_name(cube.name.removesuffix(CUBE_SUFFIX) + ".run")
        # file                                      what it holds             written by       read by
        self.log = path / "log"  #                  what drivers log          drivers, added   monitor
        self.job_logs = path / "jobs"  #            logs of worker jobs       worker jobs      watch, monitor
        self.script = path / "head.sh"  #           the head's job script     submit           the queue
        self.head_log = path / "head.log"  #        what a head prints        detached head    submit, monitor
        self.submission = path / "submission.json"  # a detached head         submit           monitor
        self.notified = path / "notified"  #        a long wait was reported head             next head
        self.stop = path / "stop.json"  #           asks every head to end    cancel, submit   head, job watch

    def lease(self, number: int | str) -> Path:
        """Return the path of the lease of the n-th holder, which alone writes it."""
        return self.path / f"{LEASE}{number}"

    def lease_numbers(self) -> list[int]:
        return self._numbers(LEASE)

    def generations(self) -> list[GenerationFolder]:
        """Return the folders of all holders, oldest first; none if they cannot be read."""
        with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
            return [GenerationFolder(self, number) for number in sorted(self._numbers(GENERATION))]
        return []

    @property
    def access_problem(self) -> str:
        """Explain why the run cannot be read, if it belongs to another user; empty otherwise."""
        with suppress(FileNotFoundError, NotADirectoryError):
            try:
                os.scandir(self.path).close()
            except PermissionError:
                owner = _user(self.path.lstat().st_uid)
                return f"{self.path} belongs to {owner}, and is closed to others"
        return ""

    @property
    def last_run(self) -> GenerationFolder:
        """Folder of the last holder that was a head, and so recorded one; number 0 if there was none."""
        ran = [generation for generation in self.generations() if generation.head.exists()]
        return ran[-1] if ran else GenerationFolder(self, 0)

    def _numbers(self, prefix: str) -> list[int]:
        endings = [name.removeprefix(prefix) for name in os.listdir(self.path) if name.startswith(prefix)]
        return [int(ending) for ending in endings if ending.isdecimal()]

    def make(self) -> Path:
        """Make the folder and its parents; its mode is 0700, because it has keys of a compute cluster.

        An `InputError` says that it is not a directory, that others may replace it, or that it has files of
        another user or of no run, and a `StorageError` that it cannot be made.
        """
        with storage_errors(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileExistsError):
                self.path.mkdir(mode=0o700)
            self.check()
            raise_all(self._untrusted())
            if self.path.stat().st_mode & 0o077:
                self.path.chmod(0o700)
        return self.path

    def check(self) -> None:
        """Raise InputError for a link, or a folder with links, pipes or devices, which lead out of it."""
        # A missing or closed folder leads nowhere.
        with suppress(FileNotFoundError, PermissionError):
            raise_all(self._strange())

    def _untrusted(self) -> Iterator[Problem]:
        """Yield what another user has made, or could put here: job scripts run from this folder."""
        parent = self.path.parent
        mode = parent.stat().st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            description = f"a directory in which everybody may replace folders (mode {mode & 0o7777:04o})"
            yield Problem(str(parent), description, "one that others may not write to", f"chmod o-w {parent}")
        trusted, hint = (0, os.geteuid()), "submit as that user, or use another directory for results"
        # The content of another user's folder is theirs too, and may be closed to us.
        folders = [self.path, *(holder.path for holder in self.generations() if holder.path.is_dir())]
        paths = (path for folder in folders for path in folder.iterdir())
        for path in [self.path] if self.path.lstat().st_uid not in trusted else paths:
            with suppress(FileNotFoundError):  # its holder may remove it at this moment
                if (owner := path.lstat().st_uid) not in trusted:
                    description = f"a file or directory of {_user(owner)}"
                    yield Problem(str(path), description, "one of your own", hint)

    def _strange(self) -> Iterator[Problem]:
        if (kind := kind_of(self.path)) != "a directory":
            yield Problem(str(self.path), kind, "the directory of a run")
            return
        if old_files := [name for name in VERSION_1 if os.path.lexists(self.path / name)]:
            description = f"{', '.join(old_files)} of format version 1"
            hint = "resume it with the release that wrote it, or remove the folder and its cube"
            yield Problem(str(self.path), description, "a folder of format version 2", hint)
        for folder in (self.path, *(generation.path for generation in self.generations())):
            # Its holder may remove the folder meanwhile; a file in its place is an entry of the folder above.
            with suppress(FileNotFoundError, NotADirectoryError):
                for path in folder.iterdir():
                    with suppress(FileNotFoundError):
                        if (kind := kind_of(path)) not in ("a file", "a directory"):
                            yield Problem(str(path), kind, "a file of the run")


def _user(number: int) -> str:
    try:
        return f"user {pwd.getpwuid(number).pw_name} ({number})"
    except KeyError:
        return f"user {number}"


# Format version of every record; other versions are refused with a message.
VERSION = 2

# A text for people: it becomes one line, even if an older release or a stranger wrote several.
Line = Annotated[str, AfterValidator(one_line)]

# File names that are not UTF-8 contain halves of characters. JSON allows them; pydantic's parser does not.
HALVES = re.compile("[\ud800-\udfff]")


class Record(BaseModel):
    """A frozen record that programs write and read.

    Its problems are not reported, unlike those of users' files.
    """

    # Validators are built at the first use, because `sweep status` reads few of the records.
    # A field whose key in the file is no noun has the key as its alias.
    model_config = ConfigDict(
        frozen=True,
        strict=True,
        extra="forbid",
        defer_build=True,
        populate_by_name=True,
        serialize_by_alias=True,
    )

    # Whether a text with infinities or NaN is refused: readers calculate with times and print JSON.
    is_finite: ClassVar[bool] = False

    @classmethod
    def parse(cls, text: bytes | str, path: Path) -> Self | None:
        """Return the record in a JSON text, None if it has none; another format version is an InputError."""
        try:
            values = json.loads(text)
            version = values.pop("version")
            del values["generation"]
        except (ValueError, RecursionError, TypeError, KeyError, AttributeError):
            return None
        if version != VERSION:
            hint = "use the release that wrote it, or remove the folder of the run to begin again"
            raise refused(path, f"format version {short_text(version)}", str(VERSION), hint)
        try:
            plain = json.dumps(values, allow_nan=not cls.is_finite, ensure_ascii=False)
            if HALVES.search(plain):
                return cls.model_validate(values, strict=False)  # lists for tuples, as JSON has them
            return cls.model_validate_json(plain)
        except ValueError:
            return None

    def to_text(self, generation: int, indent: int | None = None) -> str:
        """Return the record as JSON, with the format version and the generation of the writer's lease."""
        values: dict[str, Any] = {"version": VERSION, "generation": generation}
        return json.dumps(values | self.model_dump(), indent=indent)


class FileRecord(Record):
    """A record that is a whole file."""

    is_finite: ClassVar[bool] = True

    # Error of the system that stands for the absence of the file; any other is raised.
    absence: ClassVar[type[OSError]] = OSError

    @classmethod
    def read(cls, path: Path) -> Self | None:
        """Return the record at `path`, None if there is none; another format version is an InputError."""
        with suppress(cls.absence):
            return cls.parse(path.read_bytes(), path)
        return None

    def write(self, path: Path, files: Files = PLAIN) -> None:
        """Put the record at `path` in one step; raise StorageError, or LeaseLost if the lease is gone."""
        with storage_errors(path):
            files.put(path, self.to_text(files.generation, indent=1).encode())


# States of a head. The job of a requeued one waits in the queue again.
RUNNING = "running"
REQUEUED = "requeued"
ENDED = "ended"


class HeadRecord(FileRecord):
    """How the head of a run (scheduler and driver) was started, and how it ended.

    The lease tells whether it is alive.
    """

    spec: str  # absolute path of the sweep file
    data_dir: str | None = None
    where: list[str] = []  # options of `sweep submit` that choose the compute cluster
    # Kind of the profile, empty without workers; folders without it are from when SLURM was the only queue.
    system: str = "slurm"
    job: str = ""  # number in the queue
    node: Line = ""
    restarts: int = 0  # how often its job was queued again
    dashboard: Line | None = None  # how to reach the dashboard
    state: str = RUNNING
    at: float = 0.0  # unix time of the state
    how: Line = ""
    lacked_workers: bool = False  # whether it ended because its compute cluster had none

    def in_state(self, state: str, reason: str = "", *, lacked_workers: bool = False) -> HeadRecord:
        """Return the record of the same driver in another state."""
        changes = {"state": state, "how": one_line(reason), "lacked_workers": lacked_workers}
        return self.model_copy(update=changes | {"at": time.time()})


class Submission(FileRecord):
    """A head that was started detached."""

    system: str  # kind of its queue, or `process` for a process of this machine
    job: str  # number of the job or process
    host: str
    at: float  # unix time


class StopRequest(FileRecord):
    """A request to end, for every head of a cube: running, waiting, or out of anyone's reach."""

    host: str
    at: float  # unix time


# Jobs that ended and are still listed.
JOBS_LISTED = 100


class JobRecord(Record):
    """A worker job that runs or waits."""

    name: Line
    job: Line  # number in the queue; empty before it is submitted
    node: Line
    state: Line  # `running` once workers are connected; before that the word of the queue
    workers: int  # connected worker processes


class LostJob(Record):
    """A worker job that ended and was replaced."""

    name: Line
    job: Line
    node: Line
    how: Line
    at: float  # unix time


class JobList(FileRecord):
    """Worker jobs of the last run, for commands that only read files."""

    n_jobs: int = Field(alias="wanted")  # number that the run maintains
    jobs: tuple[JobRecord, ...]
    n_lost: int
    lost: tuple[LostJob, ...]  # the last `JOBS_LISTED` of them
    at: float  # unix time of the last change
    refusal: Line = ""  # number of accepted jobs, and why the queue takes no more for a while
    excluded: tuple[Line, ...] = ()  # nodes on which jobs died

    @property
    def n_running(self) -> int:
        """Number of jobs with workers."""
        return sum(job.workers > 0 for job in self.jobs)

    @property
    def workers(self) -> int:
        """Number of worker processes of all jobs."""
        return sum(job.workers for job in self.jobs)

    @property
    def remarks(self) -> list[str]:
        """Lines on what keeps jobs from running."""
        nodes = f"excluded nodes, on which jobs died: {', '.join(self.excluded)}" if self.excluded else ""
        return [*filter(None, (self.refusal, nodes))]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        values = {"running": self.n_running, "workers": self.workers, "remarks": self.remarks}
        return self.model_dump() | values


class JobListFile:
    """Writer of the list of jobs, which replaces the file whenever the list changes."""

    def __init__(self, path: Path, n_jobs: int, files: Files = PLAIN) -> None:
        self._path, self._n_jobs, self._files = path, n_jobs, files
        self._lost_jobs: list[LostJob] = []
        self._list: JobList | None = None

    def lose(self, record: JobRecord, reason: str) -> None:
        """Record the end of a job."""
        job = record.model_dump(include={"name", "job", "node"})
        self._lost_jobs.append(LostJob(**job, how=reason, at=time.time()))

    def show(self, jobs: Sequence[JobRecord], refusal: str = "", excluded_nodes: Sequence[str] = ()) -> None:
        """Write the list if it has changed; an error of the disk is only logged."""
        job_list = JobList(
            n_jobs=self._n_jobs,
            jobs=tuple(jobs),
            n_lost=len(self._lost_jobs),
            lost=tuple(self._lost_jobs[-JOBS_LISTED:]),
            at=time.time(),
            refusal=one_line(refusal),
            excluded=tuple(excluded_nodes),
        )
        if self._list is None or self._list != job_list.model_copy(update={"at": self._list.at}):
            try:
                job_list.write(self._path, self._files)
                self._list = job_list
            except (StorageError, LeaseLost) as error:
                logger.debug("%s", error)


class TimedRestart(NamedTuple):
    """Time of a restart; kept for the next run and for `sweep plan`."""

    dataset: str
    model: str
    p: float | None
    m: int | None
    seconds: float  # elapsed
    choosing: float = 0.0  # seconds before it in which its cell chose a shape of covariances
    busy: float = 1.0  # CPU time as a share of all seconds
    search: str | None = None  # None if the sweep has one search


class TimedQuestions(NamedTuple):
    """Time of a batch of questions."""

    dataset: str
    design: str
    p: float
    start: int  # answers before the batch
    seconds: float
    busy: float = 1.0


class Moment(NamedTuple):
    """Time and place of a measurement."""

    at: float  # unix time
    host: str
    load: float  # load of the machine for each core

    @classmethod
    def measure(cls) -> Moment:
        """Return the present moment on this machine."""
        # The load is that of the whole machine, so it is divided by all cores of the machine.
        return cls(time.time(), socket.gethostname(), os.getloadavg()[0] / (os.cpu_count() or 1))

    @property
    def age(self) -> float:
        """Seconds since the moment."""
        return time.time() - self.at


class Pilot(FileRecord):
    """Times that a run measured."""

    timed: tuple[TimedRestart, ...] = ()
    questions: tuple[TimedQuestions, ...] = ()
    moment: Moment | None = None


def read_pilot(run: RunFolder) -> Pilot:
    """Read the times of the last holder; if there are none, restarts are timed again."""
    paths = [generation.pilot for generation in run.generations() if generation.pilot.exists()]
    pilot = Pilot.read(paths[-1]) if paths else Pilot()
    if pilot is None:
        logger.warning("%s is not readable: restarts are timed again", paths[-1])
    return pilot or Pilot()


class Progress(FileRecord):
    """Progress of the driver, for commands that only read files."""

    restarts: int  # done, also by earlier runs
    total: int
    workers: int
    left: float | None  # seconds for the rest; None while restarts are timed
    at: float  # unix time
    answers: int = Field(0, alias="asked")
    questions: int = 0  # all questions of designs that ask
    earlier: int = 0  # restarts that were done before this run


class FailedWork(Record, extra="ignore"):
    """The restarts `start..stop-1` that failed, with the objectives of those before them."""

    cell: Cell | None = None
    start: int
    stop: int
    objectives: tuple[float, ...] = Field((), alias="known")


class FailureRecord(Record, extra="ignore"):
    """One failure of a cell; keys of later versions are ignored."""

    work: FailedWork
    cause: Line
    node: Line
    job: Line  # number or name in the queue; empty if unknown
    traceback: Annotated[str, AfterValidator(plain_lines)]  # empty if the worker died
    cell: str
    at: Line = ""  # ISO 8601, UTC; empty in records of older versions
    attempt: int = 0  # number of the failure of this cell in its run, from 1; 0 in records of older versions


def append_failure(path: Path, record: FailureRecord, files: Files = PLAIN) -> None:
    """Add one failure; raise StorageError, or LeaseLost if a later holder has removed the folder."""
    with storage_errors(path), files.fenced(), path.open("a", encoding="utf-8") as file:
        file.write(record.to_text(files.generation) + "\n")


def read_failures(run: RunFolder) -> list[FailureRecord]:
    """Read all failures, oldest first, without a torn line; another format version is an InputError."""
    text = merged_lines(holder.failures for holder in run.generations()).decode(errors="replace")
    records = (FailureRecord.parse(line, run.path) for line in text.splitlines())
    return [record for record in records if record is not None]


def merged_lines(paths: Iterable[Path]) -> bytes:
    """Return the distinct lines of several files: a holder of the lease copies those of former holders."""
    lines: dict[bytes, None] = {}
    for path in paths:
        with storage_errors(path), suppress(FileNotFoundError):
            lines |= dict.fromkeys(path.read_bytes().splitlines())
    return b"".join(line + b"\n" for line in lines if line)
