"""Who runs a cube, or waits to run it, how far the sweep is, and the logs of its run; from files alone.

`read_status` counts a cube; `counted_status` is for who has counted the cells already, as the page of a run
does. `read_run_state` reads the lease and the records of the head together. `find_logs` finds the driver's
log, that of a detached head or of a worker job; `follow` goes on until the run ends.
"""

import os
import re
import time
from collections.abc import Iterator
from dataclasses import asdict, astuple, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweep_clustering.pipeline.common import at_hand, cells_left_out, duration, plural
from sweep_clustering.storage.cube.manifest import Manifest, read_manifest
from sweep_clustering.storage.cube.schema import DONE, FAILED, NO_SOLUTION, PENDING
from sweep_clustering.storage.runfolder import records
from sweep_clustering.storage.runfolder.folder import RunFolder
from sweep_clustering.storage.runfolder.lease import Holder, LeaseState, read_lease
from sweep_clustering.sweeps.errors import InputError, Problem, did_you_mean, plain_lines
from sweep_clustering.sweeps.file.spec import SweepSpec
from sweep_clustering.sweeps.parts import part_named


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
    head: records.HeadRecord | None
    submission: records.Submission | None
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
        if self.head is not None and self.head.state == records.REQUEUED:
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
            again = head.restarts + 1 if head is not None and head.state == records.REQUEUED else 0
            found = {"state": "waiting", "job": self.waiting, "node": "", "how": ""}
            return {**found, "since": at, "restarts": again}
        if head is None:
            return None
        died = self.holder is None and head.state == records.RUNNING
        found = head.model_dump(include={"job", "node", "restarts", "how"})
        return {**found, "state": "died" if died else head.state, "since": head.at}

    def lines(self) -> list[str]:
        """The head for people, a line or none."""
        found = self.to_dict()
        if found is None:
            return []
        what = f"job {found['job']}" if found["job"] else "a process"
        where = f" on {found['node']}" if found["node"] else ""
        again = f", queued again {plural(found['restarts'], 'time')}" if found["restarts"] else ""
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
    return RunState(
        read_lease(cube), records.HeadRecord.read(run.last_run.head), records.Submission.read(run.submission)
    )


def submit_words(cube: Path, *options: str, spec: Path | None = None) -> list[str]:
    """The command that resumes a sweep: of a sweep file, or of the one that was submitted last.

    Without options it runs where the last head ran.
    """
    head = records.HeadRecord.read(RunFolder(cube).last_run.head)
    file = str(spec.resolve()) if spec is not None else head.spec if head is not None else "SPEC"
    data_dir = [] if head is None or head.data_dir is None else ["--data-dir", head.data_dir]
    where = ["--results", str(cube.resolve().parent), *part_words(cube)]
    cluster = [] if head is None or options else head.where
    return ["sweep", "submit", file, *where, *options, *cluster, *data_dir]


def part_words(cube: Path) -> list[str]:
    """The option that names the part of a sweep whose cube it is; none of a whole one."""
    part = part_named(cube.stem)
    return [] if part is None else ["--part", str(part)]


# How far a sweep is.

# Of cells that have ended, in the order in which they are shown.
STATES = (DONE, FAILED, NO_SOLUTION)


def count_states(statuses: NDArray[np.int8]) -> NDArray[np.int64]:
    """Cells in each of `STATES`."""
    return np.array([np.count_nonzero(statuses == state) for state in STATES])


@dataclass(frozen=True)
class DatasetStatus:
    """Cells of one data set."""

    name: str
    cells: int
    done: int
    failed: int
    no_solution: int = 0

    @property
    def left(self) -> int:
        """Cells that are pending."""
        return self.cells - self.done - self.failed - self.no_solution

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {**asdict(self), "left": self.left}


@dataclass(frozen=True)
class Status:
    """State of a cube, and of the run that fills it.

    Parameters
    ----------
    cube : Path
        The cube, which need not exist yet.
    datasets : tuple of DatasetStatus
        In the order of the sweep file.
    blocks, blocks_done : int
        Blocks of the cube, and those without a pending cell.
    skipped : dict of str to list of str
        Data sets that were not available to the last run, and why.
    spec : SweepSpec or None
        The sweep, where it is known: it says what those leave out.
    run : RunState
        Who runs it now, and the head.
    jobs : JobList or None
        Worker jobs of the last run, None where it had none.
    progress : Progress or None
        What the driver of the run in progress wrote last.
    software : str
        Software and processors of the runs in words, where they differ.
    """

    cube: Path
    datasets: tuple[DatasetStatus, ...]
    blocks: int
    blocks_done: int
    skipped: dict[str, list[str]]
    spec: SweepSpec | None
    run: RunState
    jobs: records.JobList | None
    progress: records.Progress | None
    software: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        total = self.total.to_dict()
        del total["name"]
        return {
            "cube": str(self.cube),
            "complete": bool(self.datasets) and self.total.left == 0,
            "total": total,
            "blocks": {"total": self.blocks, "done": self.blocks_done},
            "datasets": [row.to_dict() for row in self.datasets],
            "skipped": self.skipped,
            "cells_left_out": 0 if self.spec is None else cells_left_out(self.spec, self.skipped),
            "holder": None if self.run.holder is None else str(self.run.holder),
            "eta_seconds": self.eta,
            "run": None if self.progress is None else self.progress.model_dump(),
            "head": self.run.to_dict(),
            "jobs": None if self.jobs is None else self.jobs.to_dict(),
            "log": str(RunFolder(self.cube).log),
            "dashboard": self.run.dashboard,
            "software": self.software,
        }

    @property
    def total(self) -> DatasetStatus:
        """Cells of all data sets."""
        columns = zip(*(astuple(row)[1:] for row in self.datasets), strict=True)
        return DatasetStatus("total", *(map(sum, columns) if self.datasets else (0, 0, 0)))

    @property
    def eta(self) -> float | None:
        """Seconds left of the run in progress, None when nothing runs or restarts are still timed."""
        if self.progress is None or self.progress.left is None:
            return None
        passed = max(0.0, time.time() - self.progress.at)  # a clock that was set back adds no time
        return max(0.0, self.progress.left - passed)

    def lines(self) -> list[str]:
        """Table for people."""
        total, log, output = self.total, RunFolder(self.cube).log, RunFolder(self.cube).head_log
        lines = [str(self.cube)]
        if self.datasets:
            lines.append(f"{'data set':<20}{'cells':>9}{'done':>9}{'failed':>9}{'left':>9}")
            for row in (*self.datasets, total):
                lines.append(f"{row.name:<20}{row.cells:>9,}{row.done:>9,}{row.failed:>9,}{row.left:>9,}")
            if total.no_solution:
                lines.append(f"{plural(total.no_solution, 'cell')} without a solution")
            lines.append(f"{self.blocks_done:,} of {plural(self.blocks, 'block')} complete")
        else:
            lines.append("no cell yet: the cube is created when the first worker has connected")
        left_out = None if self.spec is None else at_hand(self.spec, self.skipped)
        lines += [*filter(None, [left_out, self.software]), *self.run.lines()]
        sent = self.run.submission
        if self.run.waiting and sent and output.exists() and output.stat().st_mtime >= sent.at:
            # a head that has not started according to its files may have died at once
            lines += [f"  {output} ends: {line}" for line in last_lines(output, 1)]
        lines += self._job_lines()
        lines += [f"log: {log}"] if os.path.exists(log) else []
        lines += [f"dashboard: {self.run.dashboard}"] if self.run.dashboard else []
        return [*lines, self.outlook[0]]

    @property
    def outlook(self) -> tuple[str, tuple[object, ...]]:
        """Who runs it and how far that is, or what to do next; and the command that comes next, if any."""
        run, total, done = self.run, self.total, self.progress
        if run.holder is not None:
            text = f"run by {run.holder}"
            if done is not None:
                text += f": {done.restarts:,} of {plural(done.total, 'restart')}"
                text += f", {done.earlier:,} of them before this run" if done.earlier else ""
                questions = plural(done.questions, "question")
                text += f", {done.answers:,} of {questions} asked" if done.questions else ""
                left = "timing restarts" if self.eta is None else f"about {duration(self.eta)} left"
                text += f", {plural(done.workers, 'worker')}, {left}"
            return text, ("logs", self.cube, "--follow")
        if run.waiting is not None:
            return f"not running yet: its head waits in the queue, job {run.waiting}", ()
        if self.datasets and not total.left:
            failed = f"{plural(total.failed, 'cell')} failed" if total.failed else ""
            without = "some data sets are not at hand" if self.skipped else ""
            text = ", ".join(filter(None, ("complete", failed, without)))
            return text, ("why" if total.failed else "report", self.cube)
        if run.closed:
            return f"whether it runs cannot be seen: {run.closed}", ("report", self.cube)
        again = () if run.head is None else ("submit", run.head.spec, *part_words(self.cube), *run.head.where)
        return "not running: submit again to resume", again

    def _job_lines(self) -> list[str]:
        """Worker jobs of a run in progress; those of an ended run no longer exist."""
        if self.jobs is None or self.run.holder is None:
            return []
        counts = f"{self.jobs.n_jobs} wanted, {self.jobs.running} running, {self.jobs.n_lost} lost"

        def place(job: records.JobRecord | records.LostJob) -> str:
            return f"  {job.job or '-':<10}{job.node or '-':<12}"

        return [
            f"worker jobs: {counts}; {plural(self.jobs.workers, 'worker')}",
            *(f"{place(job)}{job.workers:>3} workers  {job.state:<24}{job.name}" for job in self.jobs.jobs),
            *(f"{place(job)}{job.how:<36}{job.name}" for job in self.jobs.lost[-5:]),
        ]


def read_status(cube: Path) -> Status:
    """Read the state of a cube, and of the driver that runs it; files only.

    Raises
    ------
    sweep_clustering.sweeps.errors.InputError
        If there is neither a cube at `cube` nor a trace of a run.
    """
    if not cube.is_dir() and RunFolder(cube).path.is_dir():
        return counted_status(cube, None, (), (0, 0))
    manifest = read_manifest(cube)
    datasets, blocks, done = [], 0, 0
    for plan in manifest.plans.values():
        counts = np.zeros(len(STATES), np.int64)
        for block in plan.blocks():
            states = manifest.chunks.read(block, "status")
            blocks += 1
            done += bool((states != PENDING).all())
            counts += count_states(states)
        datasets.append(DatasetStatus(plan.name, plan.n_cells, *counts.tolist()))
    return counted_status(cube, manifest, tuple(datasets), (blocks, done))


def counted_status(
    cube: Path, manifest: Manifest | None, datasets: tuple[DatasetStatus, ...], blocks: tuple[int, int]
) -> Status:
    """State of a cube whose cells and blocks are counted already, and of the driver that runs it."""
    run, last = read_run_state(cube), RunFolder(cube).last_run
    progress = None if run.holder is None else records.Progress.read(last.state)
    skipped, spec, software = {}, None, ""
    if manifest is not None:
        skipped, spec, software = manifest.skipped, manifest.spec, manifest.software
    jobs = records.JobList.read(last.jobs)
    return Status(cube, datasets, *blocks, skipped, spec, run, jobs, progress, software)


# Logs.

# Between looks at a log that is followed.
POLL_SECONDS = 0.5

# Between questions to the queue.
QUEUE_SECONDS = 10.0

# The end of a log is searched in this many bytes, or in 200 a line where that is more.
TAIL_BYTES = 65536

# Names that queueing systems give to the logs of their jobs.
JOB_LOG = re.compile(r"(?P<name>.+)(?:-|\.[eo])(?P<number>\d+)(?:\.(?:err|out))?")


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
    logs = {path: match for path in run.job_logs.glob("*") if (match := JOB_LOG.fullmatch(path.name))}
    wanted = {job, job.rpartition("-")[0]}  # or the name of one of its workers
    found = [path for path, match in logs.items() if wanted & {match["number"], match["name"]}]
    if not found:
        numbers = sorted({match["number"] for match in logs.values()}, key=int)
        some = f"one of the worker jobs {', '.join(numbers)}" if numbers else "no worker job: there was none"
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
    from sweep_clustering.pipeline.jobs import slurm

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
