"""SLURM's commands: with a timeout, tried again, and never the judge of success."""

from __future__ import annotations

import hashlib
import logging
import os
import re
import subprocess
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from storage.runfolder.folder import RunFolder

# Walltimes as queueing systems write them.

SLURM_TIME = re.compile(
    r"(?:(?P<days>\d+)-(?P<hours>\d+)(?::(?P<minutes>\d+)(?::(?P<seconds>\d+))?)?"
    r"|(?P<h>\d+):(?P<m>\d+):(?P<s>\d+)|(?P<min>\d+)(?::(?P<sec>\d+))?)"
)
CLOCK_TIME = re.compile(r"(?P<h>\d+):(?P<m>\d+):(?P<s>\d+)")
UNITS = {
    **dict.fromkeys(("seconds", "s", "sec"), 1),
    **dict.fromkeys(("minutes", "m", "min"), 60),
    **dict.fromkeys(("hours", "h"), 3600),
    "days": 86400,
}


def walltime_seconds(system: str, text: str) -> float | None:
    """Seconds of a walltime as the system writes it, None where it says no number.

    SLURM reads `minutes`, `minutes:seconds`, `hours:minutes:seconds`, `days-hours[:minutes[:seconds]]`; of
    the other systems only `hours:minutes:seconds` is understood.
    """
    match = (SLURM_TIME if system == "slurm" else CLOCK_TIME).fullmatch(text.strip())
    if match is None:
        return None
    return float(sum(UNITS[unit] * int(number) for unit, number in match.groupdict().items() if number))


# What ends a run because the compute cluster does not work.


class ComputeClusterError(RuntimeError):
    """No worker is available: what was finished is kept."""


logger = logging.getLogger(__name__)

TIMEOUT = 30.0
"""Seconds a command may take; a busy controller answers within ten."""

ATTEMPTS = 3
PAUSE = 2.0

HURRY_SECONDS = 10.0
"""Seconds a command may take, and only once, while a head ends early."""

ending = threading.Event()
"""Set while a head ends early: SLURM kills it soon, or `sweep cancel` waits for it."""

TRANSIENT = re.compile(
    r"timed out|unable to contact|connection (?:refused|reset)|temporarily|try again|zero bytes|"
    r"communication connection failure|unable to establish",
    re.IGNORECASE,
)
"""What SLURM says when its controller is away or busy; any other error would come again."""

SLICE_SECONDS = 0.5
"""Between looks whether the head has begun to end."""

SEPARATOR = "|"


class CommandFailed(RuntimeError):
    """A command did not answer, or refused.

    Parameters
    ----------
    command : sequence of str
        The argument list.
    reason : str
        What it said.
    transient : bool
        Whether it may succeed later.
    """

    def __init__(self, command: Sequence[str], reason: str, *, transient: bool) -> None:
        super().__init__(reason if reason.startswith(command[0]) else f"{command[0]}: {reason}")
        self.transient = transient


@dataclass(frozen=True)
class LiveJob:
    """A job that is in the queue: waiting, running, suspended, or to run again."""

    number: str
    name: str
    state: str
    node: str
    reason: str

    @property
    def running(self) -> bool:
        """Whether it has its node."""
        return self.state == "RUNNING"


def run(
    command: Sequence[str],
    *,
    timeout: float | None = None,
    attempts: int = ATTEMPTS,
    pause: float | None = None,
) -> str:
    """Output of a command, tried again while what stopped it may pass.

    Parameters
    ----------
    command : sequence of str
        Argument list; no shell sees it.
    timeout : float or None
        Seconds of one attempt; None for `TIMEOUT`.
    attempts : int
        How often it is tried.
    pause : float or None
        Seconds between attempts; None for `PAUSE`.

    Raises
    ------
    CommandFailed
        With the last attempt's reason.
    """
    for attempt in range(1, attempts + 1):
        try:
            return _once(command, TIMEOUT if timeout is None else timeout)
        except CommandFailed as error:
            if attempt == attempts or not error.transient or ending.is_set():
                raise
            logger.debug("%s; trying again", error)
        ending.wait(PAUSE if pause is None else pause)
    raise ValueError("attempts must be at least 1")


def live_jobs(prefix: str) -> list[LiveJob]:
    """Own jobs in the queue whose names start with `prefix`, completing ones left out.

    Raises
    ------
    CommandFailed
        If squeue does not answer: nothing is known then.
    """
    shown = SEPARATOR.join(("%i", "%j", "%T", "%N", "%r"))
    output = run(["squeue", "--noheader", f"--user={os.getuid()}", f"--format={shown}"])
    jobs = []
    for line in output.splitlines():
        fields = line.strip().split(SEPARATOR, 4)
        # A completing job has lost its processes; only its node is still being cleaned.
        if len(fields) == 5 and fields[1].startswith(prefix) and fields[2] != "COMPLETING":
            jobs.append(LiveJob(*fields))
    return jobs


def submit(script: str, name: str) -> str:
    """Number of the job made from a script, or of the job of that name that is in the queue.

    An sbatch that did not answer may have succeeded: it is repeated only when squeue shows no such job.

    Raises
    ------
    CommandFailed
        If SLURM refuses, or does not answer.
    """
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return run(["sbatch", "--parsable", script], attempts=1).strip().split(";")[0]
        except CommandFailed as error:
            if not error.transient or ending.is_set():
                raise
            ending.wait(PAUSE)
            found = [job.number for job in live_jobs(name) if job.name == name]
            if found:
                return found[0]
            if attempt == ATTEMPTS:
                raise
    raise AssertionError("the last attempt returns or raises")


def cancel(numbers: Iterable[str]) -> None:
    """End jobs; if one is gone already, or SLURM does not answer, that is only logged."""
    wanted = list(numbers)
    if not wanted:
        return
    try:
        run(["scancel", *wanted])
    except CommandFailed as error:
        logger.debug("%s", error)


def cancel_all(prefix: str, *, keep: str = "") -> int:
    """End own jobs whose names start with `prefix`; their number, 0 where SLURM does not answer.

    A job named `keep` keeps running.
    """
    try:
        jobs = [job for job in live_jobs(prefix) if job.name != keep]
    except CommandFailed as error:
        logger.warning("jobs named %s... may be left in the queue: %s", prefix, error)
        return 0
    cancel(job.number for job in jobs)
    return len(jobs)


def is_out_of_time(number: str) -> bool:
    """Whether a job has used up its walltime; False also where SLURM does not say so."""
    fields = _fields(number)
    limit, used = (walltime_seconds("slurm", fields.get(key, "")) for key in ("TimeLimit", "RunTime"))
    return limit is not None and used is not None and used >= limit


def restarts(number: str) -> int:
    """How often SLURM has put a job back into the queue, also just now; 0 where it does not say."""
    found = _fields(number).get("Restarts", "")
    return int(found) if found.isdecimal() else 0


def end_state(number: str) -> str:
    """How a job ended, such as CANCELLED or FAILED; empty where SLURM does not know it any more."""
    try:
        output = run(["scontrol", "--oneliner", "show", "job", number], attempts=1)
    except CommandFailed:
        return ""
    found = re.search(r"\bJobState=(\w+)", output)
    return found[1] if found else ""


def requeue(number: str) -> None:
    """Put a job back into the queue, as it was submitted; it is ended for that.

    Raises
    ------
    CommandFailed
        If SLURM refuses, or does not answer.
    """
    run(["scontrol", "requeue", number], attempts=5, pause=5.0)


def _fields(number: str) -> dict[str, str]:
    """What SLURM tells of a job that is about to end: nothing, where it does not answer soon."""
    try:
        output = run(["scontrol", "--oneliner", "show", "job", number], timeout=5, attempts=2, pause=0.5)
    except CommandFailed as error:
        logger.warning("%s", error)
        return {}
    return dict(re.findall(r"(\w+)=(\S*)", output))


def _once(command: Sequence[str], timeout: float) -> str:
    try:
        # In its own session, so that Ctrl-C in the terminal does not end a command half-way.
        process = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        raise CommandFailed(command, error.strerror or str(error), transient=False) from error
    with process:
        try:
            output, errors = _communicate(process, command, timeout)
        except BaseException:  # also a signal, which is an exception here
            process.kill()
            raise
    if process.returncode:
        reason = " ".join(errors.split()) or f"exit code {process.returncode}"
        raise CommandFailed(command, reason, transient=bool(TRANSIENT.search(reason)))
    return output


def _communicate(process: subprocess.Popen[str], command: Sequence[str], timeout: float) -> tuple[str, str]:
    """What a command says; one under way when the head begins to end gets `HURRY_SECONDS` more."""
    end = time.monotonic() + timeout
    hurried = False
    while True:
        if ending.is_set() and not hurried:
            hurried, timeout = True, min(timeout, HURRY_SECONDS)
            end = min(end, time.monotonic() + timeout)
        try:
            return process.communicate(timeout=min(SLICE_SECONDS, max(0.0, end - time.monotonic())))
        except subprocess.TimeoutExpired as error:
            if time.monotonic() >= end:
                raise CommandFailed(command, f"no answer within {timeout:g} s", transient=True) from error


def run_id(run: RunFolder) -> str:
    """Name of a sweep's runs in the queue: the same for every run on one cube, and for no other cube."""
    name = re.sub(r"[^A-Za-z0-9._-]", "_", run.path.stem)
    return f"{name}-{hashlib.sha256(str(run.path.resolve()).encode()).hexdigest()[:8]}"


def job_prefix(run: RunFolder) -> str:
    """What the names of all jobs of a sweep start with."""
    return f"sweep-{run_id(run)}-"


def head_name(run: RunFolder) -> str:
    """Name of the job of a detached head; no worker job has it."""
    return f"{job_prefix(run)}head"


def other_head(run: RunFolder) -> str | None:
    """Words for a head of this run whose job is in the queue, None where there is none.

    Raises
    ------
    CommandFailed
        If squeue does not answer.
    """
    name = head_name(run)
    for job in live_jobs(name):
        if job.name == name:
            return f"its head is job {job.number} already: {job.state.lower()} ({job.node or job.reason})"
    return None
