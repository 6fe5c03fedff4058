"""SLURM's commands: with a timeout, tried again, and never the judge of success."""

import hashlib
import logging
import math
import os
import re
import subprocess
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from sweep_clustering.storage.runfolder.folder import RunFolder

# Walltimes as queueing systems write them.

UNITS = {
    # days, hours, minutes and seconds of so many numbers, by what is before and between them
    "": (60,),
    ":": (60, 1),
    "::": (3600, 60, 1),
    "-": (86400, 3600),
    "-:": (86400, 3600, 60),
    "-::": (86400, 3600, 60, 1),
}


def walltime_seconds(system: str, text: str) -> float | None:
    """Seconds of a walltime as the system writes it, None where it says no number.

    SLURM reads `minutes`, `minutes:seconds`, `hours:minutes:seconds`, `days-hours[:minutes[:seconds]]`; of
    the other systems only `hours:minutes:seconds` is understood.
    """
    numbers, marks = re.findall(r"\d+", text), re.sub(r"\d+", "", text.strip())
    units = UNITS.get(marks, ()) if system == "slurm" or marks == "::" else ()
    if not units or len(units) != len(numbers):
        return None
    return float(sum(unit * int(number) for unit, number in zip(units, numbers, strict=True)))


# What ends a run because the compute cluster does not work.


class ComputeClusterError(RuntimeError):
    """No worker is available: what was finished is kept."""


logger = logging.getLogger(__name__)

# Seconds a command may take; a busy controller answers within ten.
TIMEOUT = 30.0

ATTEMPTS = 3
PAUSE = 2.0

# Seconds a command may take, and only once, while a head ends early.
HURRY_SECONDS = 10.0

# Set while a head ends early: SLURM kills it soon, or `sweep cancel` waits for it.
ending = threading.Event()

# What SLURM says when its controller is away or busy; any other error would come again.
TRANSIENT = re.compile(
    r"timed out|unable to contact|connection (?:refused|reset)|temporarily|try again|zero bytes|"
    r"communication connection failure|unable to establish",
    re.IGNORECASE,
)

# Between looks whether the head has begun to end.
SLICE_SECONDS = 0.5

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


def run(command: Sequence[str], *, timeout: float = TIMEOUT, attempts: int = ATTEMPTS) -> str:
    """Output of a command, tried again while what stopped it may pass.

    Parameters
    ----------
    command : sequence of str
        Argument list; no shell sees it.
    timeout : float
        Seconds of one attempt.
    attempts : int
        How often it is tried, at least once.

    Raises
    ------
    CommandFailed
        With the last attempt's reason.
    """
    while True:
        try:
            return _once(command, timeout)
        except CommandFailed as error:
            attempts -= 1
            if not attempts or not error.transient or ending.is_set():
                raise
            logger.debug("%s; trying again", error)
        ending.wait(PAUSE)


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
    attempts = ATTEMPTS
    while True:
        try:
            return run(["sbatch", "--parsable", script], attempts=1).strip().split(";")[0]
        except CommandFailed as error:
            attempts -= 1
            if not error.transient or ending.is_set():
                raise
            ending.wait(PAUSE)
            if found := [job.number for job in live_jobs(name) if job.name == name]:
                return found[0]
            if not attempts:
                raise


def cancel(numbers: Iterable[str]) -> None:
    """End jobs; if one is gone already, or SLURM does not answer, that is only logged."""
    if wanted := list(numbers):
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
    fields = job_fields(number)
    limit, used = (walltime_seconds("slurm", fields.get(key, "")) for key in ("TimeLimit", "RunTime"))
    return limit is not None and used is not None and used >= limit


def restarts(number: str) -> int:
    """How often SLURM has put a job back into the queue, also just now; 0 where it does not say."""
    found = job_fields(number).get("Restarts", "")
    return int(found) if found.isdecimal() else 0


def end_state(number: str) -> str:
    """How a job ended, such as CANCELLED or FAILED; empty where SLURM does not know it any more."""
    return job_fields(number).get("JobState", "")


def job_fields(number: str) -> dict[str, str]:
    """What SLURM tells of a job, which may be about to end: nothing, where it does not answer soon."""
    try:
        output = run(["scontrol", "--oneliner", "show", "job", number], timeout=5, attempts=2)
    except CommandFailed as error:
        # That a job is not known any more is an answer.
        logger.log(logging.WARNING if error.transient else logging.DEBUG, "%s", error)
        return {}
    return dict(re.findall(r"(\w+)=(\S*)", output))


def requeue(number: str) -> None:
    """Put a job back into the queue, as it was submitted; it is ended for that.

    Raises
    ------
    CommandFailed
        If SLURM refuses, or does not answer.
    """
    run(["scontrol", "requeue", number], attempts=10)


def _once(command: Sequence[str], timeout: float) -> str:
    """Output of a command; one under way when the head begins to end gets `HURRY_SECONDS` more."""
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
    began, hurried = time.monotonic(), math.inf
    with process:
        try:
            while process.returncode is None:
                if ending.is_set():
                    hurried = min(hurried, time.monotonic() + HURRY_SECONDS)
                left = min(began + timeout, hurried) - time.monotonic()
                if left <= 0:
                    reason = f"no answer within {time.monotonic() - began:.1f} s"
                    raise CommandFailed(command, reason, transient=True)
                with suppress(subprocess.TimeoutExpired):
                    output, errors = process.communicate(timeout=min(SLICE_SECONDS, left))
        except BaseException:  # also a signal, which is an exception here
            process.kill()
            raise
    if process.returncode:
        reason = " ".join(errors.split()) or f"exit code {process.returncode}"
        raise CommandFailed(command, reason, transient=bool(TRANSIENT.search(reason)))
    return output


def job_prefix(run: RunFolder) -> str:
    """What the names of all jobs of a sweep start with: the same for one cube, and for no other."""
    name = re.sub(r"[^A-Za-z0-9._-]", "_", run.path.stem)
    return f"sweep-{name}-{hashlib.sha256(str(run.path.resolve()).encode()).hexdigest()[:8]}-"


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
