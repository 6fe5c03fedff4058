"""Logs of a run: the driver's, a detached head's, and those of the worker jobs."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pipeline.jobs.slurm import CommandFailed, other_head
from pipeline.monitor.state import read_run_state
from storage.runfolder.folder import RunFolder
from sweeps.errors import InputError, Problem, did_you_mean, plain_lines

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
        Number or name of a worker job, in place of the driver's log.

    Returns
    -------
    list of Path
        At least one. The driver's and the head's need not exist.

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
    found = job_logs(run, job)
    if not found:
        known = sorted({number for number, _ in _jobs(run)}, key=int)
        expected = (
            f"one of the worker jobs {', '.join(known)}" if known else "a worker job, and there was none"
        )
        raise InputError([Problem("--job", repr(job), expected, did_you_mean(job, known))])
    return [path for path in found if path.stat().st_size] or found[:1]


def job_logs(run: RunFolder, job: str) -> list[Path]:
    """Logs of a worker job by number or by name, also the name of one of its workers; fuller ones first."""
    wanted = {job, job.rpartition("-")[0]}
    found = [path for names, paths in _jobs(run).items() if wanted & set(names) for path in paths]
    return sorted(found, key=lambda path: path.stat().st_size, reverse=True)


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
    lines = last_lines(path, count)
    if lines:
        yield "\n".join(lines) + "\n"


def follow(path: Path, cube: Path, *, lines: int) -> Iterator[str]:
    """The end of a log, then what is added to it, until the run ends.

    Parameters
    ----------
    path : Path
        The log, which need not exist yet.
    cube : Path
        Whose run is watched.
    lines : int
        Number of lines to begin with.

    Yields
    ------
    str
        Text as it comes.
    """
    start = path.stat().st_size if path.exists() else 0
    yield from end_of(path, lines)
    end = _End(cube)
    yield from _added(path, start, end.reached)
    if end.vanished:
        printed = RunFolder(cube).head_log
        yield f"the head, job {end.vanished}, has left the queue without running; see {printed}\n"


@dataclass
class _End:
    """Detects the end of a run: from files, and from the queue while they say that its head waits there.

    A job that could not be started writes no file.
    """

    cube: Path
    vanished: str = ""
    _missed: int = 0
    _asked: float = 0.0

    def reached(self) -> bool:
        """Whether it is not running, and not waiting to start."""
        state = read_run_state(self.cube)
        if state.waiting is None:
            self._missed = 0
        elif time.monotonic() - self._asked >= QUEUE_SECONDS:
            self._asked = time.monotonic()
            # Twice: a job that has just started is no longer waiting, but its files may appear late.
            self._missed = self._missed + 1 if self._not_queued() else 0
            self.vanished = state.waiting if self._missed == 2 else ""
        return state.over or bool(self.vanished)

    def _not_queued(self) -> bool:
        try:
            return other_head(RunFolder(self.cube)) is None
        except CommandFailed:
            return False


def _added(path: Path, start: int, over: Callable[[], bool]) -> Iterator[str]:
    while True:
        # Asked before reading, so that what was written just before the end is not missed.
        ended = over()
        if path.exists():
            with path.open("rb") as file:
                file.seek(start)
                added = file.read()
            if not ended:
                added = added[: added.rfind(b"\n") + 1]  # a line, or a letter, may be half written
            start += len(added)
            if added:
                yield "\n".join(_lines(added)) + "\n"
        if ended:
            return
        time.sleep(POLL_SECONDS)


def _jobs(run: RunFolder) -> dict[tuple[str, str], list[Path]]:
    """Logs by number and name of the job."""
    found: dict[tuple[str, str], list[Path]] = {}
    for path in run.job_logs.glob("*"):
        match = JOB_LOG.fullmatch(path.name)
        if match is not None:
            found.setdefault((match["number"], match["name"]), []).append(path)
    return found
