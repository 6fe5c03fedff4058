"""Who runs a cube, or waits to run it, and the logs of its run.

`read_run_state` reads the lease and the records of the head together. `find_logs` finds the driver's log,
that of a detached head or of a worker job; `follow` goes on until the run ends.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from storage.runfolder.folder import RunFolder
from storage.runfolder.lease import Holder, LeaseState, read_lease
from storage.runfolder.records import REQUEUED, RUNNING, HeadRecord, Submission
from sweeps.errors import InputError, Problem, did_you_mean, plain_lines


@dataclass(frozen=True)
class RunState:
    """What its files say about a run.

    Parameters
    ----------
    lease : LeaseState or None
        The lease as it is; None if no process ever held it.
    head : HeadRecord or None
        Of the last driver.
    submission : Submission or None
        Of the last head that was started detached.
    closed : str
        Why none of these can be read, where they cannot.
    """

    lease: LeaseState | None
    head: HeadRecord | None
    submission: Submission | None
    closed: str = ""

    @property
    def holder(self) -> Holder | None:
        """Who runs it now, as far as can be seen."""
        return None if self.lease is None or self.lease.free else self.lease.holder

    @property
    def waiting(self) -> str | None:
        """Number of the head's job in the queue, where files know of one that has not started."""
        if self.holder is not None:
            return None
        if self.head is not None and self.head.state == REQUEUED:
            return self.head.job
        sent = self.submission
        if sent is None or (self.head is not None and self.head.at >= sent.at):
            return None
        return sent.job if sent.system != "process" else None

    @property
    def dashboard(self) -> str | None:
        """How to reach the dashboard of the run in progress."""
        return self.head.dashboard if self.holder is not None and self.head is not None else None

    def to_dict(self) -> dict[str, Any] | None:
        """The head for JSON: state, job, node, unix time since when, how often queued again, how it ended."""
        head = self.head
        if self.waiting is not None:
            at = max(record.at for record in (head, self.submission) if record is not None)
            again = head.restarts + 1 if head is not None and head.state == REQUEUED else 0
            found = {"state": "waiting", "job": self.waiting, "node": "", "how": ""}
            return {**found, "since": at, "restarts": again}
        if head is None:
            return None
        died = self.holder is None and head.state == RUNNING
        found = head.model_dump(include={"job", "node", "restarts", "how"})
        return {**found, "state": "died" if died else head.state, "since": head.at}

    def lines(self) -> list[str]:
        """The head for people, a line or none."""
        found = self.to_dict()
        if found is None:
            return []
        what = f"job {found['job']}" if found["job"] else "a process"
        where = f" on {found['node']}" if found["node"] else ""
        again = f", queued again {found['restarts']} times" if found["restarts"] else ""
        how = ", according to its files" if found["state"] == "waiting" else ""
        how = f": {found['how']}" if found["how"] else how
        return [f"head: {what}{where}, {found['state']} since {_clock(found['since'])}{again}{how}"]

    @property
    def over(self) -> bool:
        """Whether it is not running, and not waiting to start."""
        return self.holder is None and self.waiting is None


def _clock(seconds: float) -> str:
    """Unix time on a clock of this place; of a file that somebody changed it may be no time at all."""
    try:
        return datetime.fromtimestamp(seconds).astimezone().isoformat(sep=" ", timespec="seconds")
    except (ValueError, OverflowError, OSError):
        return f"the time {seconds:g}"


def read_run_state(cube: Path) -> RunState:
    """Read the files of a run beside its cube, which need not exist yet.

    Raises
    ------
    StorageError
        If the file system refuses.
    """
    run = RunFolder(cube)
    if run.closed:
        return RunState(None, None, None, run.closed)
    return RunState(read_lease(cube), HeadRecord.read(run.last_run.head), Submission.read(run.submission))


def submit_words(cube: Path, *options: str, spec: Path | None = None) -> list[str]:
    """The command that resumes a sweep: of a sweep file, or of the one that was submitted last."""
    head = HeadRecord.read(RunFolder(cube).last_run.head)
    file = str(spec.resolve()) if spec is not None else head.spec if head is not None else "SPEC"
    data_dir = [] if head is None or head.data_dir is None else ["--data-dir", head.data_dir]
    return ["sweep", "submit", file, "--results", str(cube.resolve().parent), *options, *data_dir]


POLL_SECONDS = 0.5
"""Between looks at a log that is followed."""

QUEUE_SECONDS = 10.0
"""Between questions to the queue."""

TAIL_BYTES = 65536
"""The end of a log is searched in this many bytes, or in 200 a line where that is more."""

JOB_LOG = re.compile(r"(?P<name>.+)(?:-|\.[eo])(?P<number>\d+)(?:\.(?:err|out))?")
"""Names that queueing systems give to the logs of their jobs."""


def find_logs(cube: Path, *, head: bool = False, job: str | None = None) -> list[Path]:
    """Files of one kind of log.

    Parameters
    ----------
    cube : Path
        The cube, which need not exist yet.
    head : bool
        What a detached head printed, in place of the driver's log.
    job : str or None
        Number or name of a worker job, or name of one of its workers, in place of the driver's log.

    Returns
    -------
    list of Path
        At least one, fuller ones first. The driver's and the head's need not exist.

    Raises
    ------
    InputError
        If there is no log of such a job.
    """
    run = RunFolder(cube)
    if run.closed:
        raise InputError([Problem(str(cube), run.closed, "a run of your own")])
    if job is None:
        return [run.head_log if head else run.log]
    wanted, known, found = {job, job.rpartition("-")[0]}, set[str](), list[Path]()
    for path in run.job_logs.glob("*"):
        match = JOB_LOG.fullmatch(path.name)
        if match is not None:
            known.add(match["number"])
            if wanted & {match["number"], match["name"]}:  # or the name of one of its workers
                found.append(path)
    if not found:
        numbers = sorted(known, key=int)
        some = (
            f"one of the worker jobs {', '.join(numbers)}" if numbers else "a worker job, and there was none"
        )
        raise InputError([Problem("--job", repr(job), some, did_you_mean(job, numbers))])
    found.sort(key=lambda path: path.stat().st_size, reverse=True)
    return [path for path in found if path.stat().st_size] or found[:1]


def last_lines(path: Path, count: int) -> list[str]:
    """The end of a file, no line where there is no file."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - max(TAIL_BYTES, 200 * count)))
            return _lines(file.read())[-count:] if count else []
    except OSError:
        return []


def _lines(content: bytes) -> list[str]:
    """Lines of a log; what methods and libraries print into one does nothing to a terminal."""
    text = content.decode("utf-8", errors="replace")
    return plain_lines(text, 4 * len(text)).split("\n") if text else []


def end_of(path: Path, count: int) -> Iterator[str]:
    """The end of a log as one text, nothing where it is empty."""
    if lines := last_lines(path, count):
        yield "\n".join(lines) + "\n"


def follow(path: Path, cube: Path, *, lines: int) -> Iterator[str]:
    """The end of a log, then what is added to it, until the run ends.

    Parameters
    ----------
    path : Path
        The log, which need not exist yet.
    cube : Path
        Whose run is watched: by its files, and by the queue while these say that its head waits there.
    lines : int
        Number of lines to begin with.

    Yields
    ------
    str
        Text as it comes.
    """
    # here, so that `sweep status` does not load what asks a queue
    from pipeline.jobs import slurm

    run, start = RunFolder(cube), path.stat().st_size if path.exists() else 0
    missed, asked, ended = 0, 0.0, False
    yield from end_of(path, lines)
    while not ended:
        # Asked before reading, so that what was written just before the end is not missed.
        state = read_run_state(cube)
        if state.waiting is None:
            missed = 0
        elif time.monotonic() - asked >= QUEUE_SECONDS:
            asked = time.monotonic()
            try:
                missed = missed + 1 if slurm.other_head(run) is None else 0
            except slurm.CommandFailed:
                missed = 0
        # Twice: a job that has just started is no longer waiting, but its files may appear late.
        vanished = state.waiting if missed == 2 else None
        ended = state.over or vanished is not None
        if path.exists():
            with path.open("rb") as file:
                file.seek(start)
                added = file.read()
            if not ended:
                added = added[: added.rfind(b"\n") + 1]  # a line, or a letter, may be half written
            start += len(added)
            if added:
                yield "\n".join(_lines(added)) + "\n"
        if vanished is not None:
            # A job that could not be started writes no file.
            yield f"the head, job {vanished}, has left the queue without running; see {run.head_log}\n"
        elif not ended:
            time.sleep(POLL_SECONDS)
