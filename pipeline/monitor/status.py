"""Who runs a cube, or waits to run it, how far the sweep is, and the logs of its run; from files alone.

`read_status` counts a cube; `counted_status` takes cells that are counted already, as the page of a run has
them; `read_parts_status` counts several cubes. `read_run_state` reads the lease and the records of the head
together. `find_logs` returns the driver's log, that of a detached head or of a worker job; `follow` reads one
until the run ends. `explain` has the facts about one cell, and `failed_causes` those of all failed ones.
"""

import os
import re
import shlex
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, astuple, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweep_clustering.pipeline.common import at_hand, cells_left_out, duration, plural
from sweep_clustering.storage.cube.blocks import BlockStore, failed_cells
from sweep_clustering.storage.cube.manifest import Manifest, read_manifest, read_parts
from sweep_clustering.storage.cube.schema import ANSWERED, DONE, FAILED, NO_SOLUTION, PENDING, STATUS_WORDS
from sweep_clustering.storage.files import storage_errors
from sweep_clustering.storage.runfolder import folder
from sweep_clustering.storage.runfolder.lease import Holder, LeaseState, read_lease
from sweep_clustering.sweeps.errors import did_you_mean, plain_lines, refused
from sweep_clustering.sweeps.file.spec import SweepSpec, part_named
from sweep_clustering.sweeps.plan import AskedPath, find_cell
from sweep_clustering.sweeps.shapes import CODES
from sweep_clustering.sweeps.words import asks, chooses


@dataclass(frozen=True)
class RunState:
    """The files of a run: its lease, and the records of its last driver and of its last detached head.

    `refusal` has the reason why none of these can be read; it is empty if they can.
    """

    lease: LeaseState | None
    head: folder.HeadRecord | None
    submission: folder.Submission | None
    refusal: str = ""

    @property
    def holder(self) -> Holder | None:
        """Process that runs it now, as far as can be seen."""
        return None if self.lease is None or self.lease.is_free else self.lease.holder

    @property
    def queued_job(self) -> str | None:
        """Number of the head's job in the queue, if it has not started according to its files."""
        if self.holder is not None:
            return None
        head, submission = self.head, self.submission
        if submission is not None and (head is None or head.at < submission.at):
            return submission.job if submission.system != "process" else None
        return head.job if head is not None and head.state == folder.REQUEUED else None

    @property
    def dashboard(self) -> str | None:
        """Address of the dashboard of the run in progress."""
        return self.head.dashboard if self.holder is not None and self.head is not None else None

    def to_dict(self) -> dict[str, Any] | None:
        """Return the head for JSON; `since` is the unix time at which its state began."""
        head = self.head
        if self.queued_job is not None:
            start_time = max(record.at for record in (head, self.submission) if record is not None)
            n_restarts = head.restarts + 1 if head is not None and head.state == folder.REQUEUED else 0
            head_job = {"state": "waiting", "job": self.queued_job, "node": "", "how": ""}
            return {**head_job, "since": start_time, "restarts": n_restarts}
        if head is None:
            return None
        has_died = self.holder is None and head.state == folder.RUNNING
        values = head.model_dump(include={"job", "node", "restarts", "how"})
        return {**values, "state": "died" if has_died else head.state, "since": head.at}

    def lines(self) -> list[str]:
        """Return the head as a line, or no line."""
        head = self.to_dict()
        if head is None:
            return []
        process = f"job {head['job']}" if head["job"] else "a process"
        place = f" on {head['node']}" if head["node"] else ""
        restart_text = f", queued again {plural(head['restarts'], 'time')}" if head["restarts"] else ""
        remark = ", according to its files" if head["state"] == "waiting" else ""
        remark = f": {head['how']}" if head["how"] else remark
        state = {folder.ENDED: "ended at", "died": "died, started at"}.get(
            head["state"], f"{head['state']} since"
        )
        return [f"head: {process}{place}, {state} {_clock(head['since'])}{restart_text}{remark}"]

    @property
    def is_over(self) -> bool:
        """Whether it is not running, and not waiting to start."""
        return self.holder is None and self.queued_job is None


def _clock(seconds: float) -> str:
    """Return unix time in the local time zone, or as a number: a file may hold a time that does not exist."""
    try:
        return datetime.fromtimestamp(seconds).astimezone().isoformat(sep=" ", timespec="seconds")
    except (ValueError, OverflowError, OSError):
        return f"the time {seconds:g}"


def read_run_state(cube: Path) -> RunState:
    """Read the files of a run beside its cube, which need not exist yet."""
    run = folder.RunFolder(cube)
    if run.access_problem:
        return RunState(None, None, None, run.access_problem)
    return RunState(
        read_lease(cube), folder.HeadRecord.read(run.last_run.head), folder.Submission.read(run.submission)
    )


def submit_words(cube: Path, *options: str, spec: Path | None = None) -> list[str]:
    """Return the command that resumes a sweep: that of a sweep file, or of the one that was submitted last.

    Without options it runs where the last head ran.
    """
    head = folder.HeadRecord.read(folder.RunFolder(cube).last_run.head)
    file = str(spec.resolve()) if spec is not None else head.spec if head is not None else "SPEC"
    data_dir = [] if head is None or head.data_dir is None else ["--data-dir", head.data_dir]
    place = ["--results", str(cube.resolve().parent), *part_words(cube)]
    cluster = [] if head is None or options else head.where
    return ["sweep", "submit", file, *place, *options, *cluster, *data_dir]


def doctor_words(cube: Path) -> tuple[str, ...]:
    """Return the command that tries the compute cluster of the last head, no words if it had workers."""
    head = folder.HeadRecord.read(folder.RunFolder(cube).last_run.head)
    if head is None or not head.lacked_workers:
        return ()
    return ("doctor", *head.where, "--results", str(cube.resolve().parent))


def part_words(cube: Path) -> list[str]:
    """Return the option that names the part of a sweep that a cube holds; no words for a whole sweep."""
    part = part_named(cube.stem)
    return [] if part is None else ["--part", str(part)]


# How far a sweep is.

# States of cells that have ended, in the order of tables.
STATES = (DONE, FAILED, NO_SOLUTION)


def count_states(statuses: NDArray[np.int8]) -> NDArray[np.int64]:
    """Return the number of cells in each of `STATES`."""
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
        return {**asdict(self), "left": self.left}


def table_lines(rows: Sequence[DatasetStatus]) -> list[str]:
    """Return a table of cells by data set as lines."""
    return [
        f"{'data set':<20}{'cells':>9}{'done':>9}{'failed':>9}{'left':>9}",
        *(f"{row.name:<20}{row.cells:>9,}{row.done:>9,}{row.failed:>9,}{row.left:>9,}" for row in rows),
    ]


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
        Data sets that were not available to the last run, with the reasons.
    spec : SweepSpec or None
        The sweep, if it can be read; the cells of skipped data sets follow from it.
    run : RunState
        Process that runs it now, and the head.
    jobs : JobList or None
        Worker jobs of the last run, None if it had none.
    progress : Progress or None
        Last record of the driver of the run in progress.
    software : str
        Differences between software and processors of the runs; empty if there are none.
    """

    cube: Path
    datasets: tuple[DatasetStatus, ...]
    blocks: int
    blocks_done: int
    skipped: dict[str, list[str]]
    spec: SweepSpec | None
    run: RunState
    jobs: folder.JobList | None
    progress: folder.Progress | None
    software: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
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
            "log": str(folder.RunFolder(self.cube).log),
            "dashboard": self.run.dashboard,
            "software": self.software,
        }

    @property
    def total(self) -> DatasetStatus:
        """Cells of all data sets."""
        return _sum("total", self.datasets)

    @property
    def eta(self) -> float | None:
        """Seconds left of the run in progress, None if nothing runs or restarts are still timed."""
        if self.progress is None or self.progress.left is None:
            return None
        passed = max(0.0, time.time() - self.progress.at)  # a clock that was set back adds no time
        return max(0.0, self.progress.left - passed)

    def lines(self) -> list[str]:
        """Return a table as lines."""
        total, log, output = self.total, folder.RunFolder(self.cube).log, folder.RunFolder(self.cube).head_log
        lines = [str(self.cube)]
        if self.datasets:
            lines += table_lines((*self.datasets, total))
            if total.no_solution:
                lines.append(f"{plural(total.no_solution, 'cell')} without a solution")
            lines.append(f"{self.blocks_done:,} of {plural(self.blocks, 'block')} complete")
        else:
            lines.append("no cell yet: the cube is created when the first worker has connected")
        left_out = None if self.spec is None else at_hand(self.spec, self.skipped)
        lines += [*filter(None, [left_out, self.software]), *self.run.lines()]
        submission = self.run.submission
        if self.run.queued_job and submission and output.exists() and output.stat().st_mtime >= submission.at:
            # a head that has not started according to its files may have died at once
            lines += [f"  {output} ends: {line}" for line in last_lines(output, 1)]
        lines += self._job_lines()
        lines += [f"log: {log}"] if os.path.exists(log) else []
        lines += [f"dashboard: {self.run.dashboard}"] if self.run.dashboard else []
        return [*lines, self.outlook[0]]

    @property
    def outlook(self) -> tuple[str, tuple[object, ...]]:
        """Words for the run in progress or the next step, and the command that comes next, if any."""
        run, total, progress = self.run, self.total, self.progress
        if run.holder is not None:
            text = f"run by {run.holder}"
            if progress is not None:
                text += f": {progress.restarts:,} of {plural(progress.total, 'restart')}"
                text += f", {progress.earlier:,} of them before this run" if progress.earlier else ""
                questions = plural(progress.questions, "question")
                text += f", {progress.answers:,} of {questions} asked" if progress.questions else ""
                time_left = "timing restarts" if self.eta is None else f"about {duration(self.eta)} left"
                text += f", {plural(progress.workers, 'worker')}, {time_left}"
            return text, ("logs", self.cube, "--follow")
        if run.queued_job is not None:
            return f"not running yet: its head waits in the queue, job {run.queued_job}", ()
        if self.datasets and not total.left:
            failure_text = f"{plural(total.failed, 'cell')} failed" if total.failed else ""
            gap = "some data sets are not at hand" if self.skipped else ""
            text = ", ".join(filter(None, ("complete", failure_text, gap)))
            return text, ("why" if total.failed else "report", self.cube)
        if run.refusal:
            return f"whether it runs cannot be seen: {run.refusal}", ("report", self.cube)
        if words := doctor_words(self.cube):
            return "not running: submit again to resume once its compute cluster has workers", words
        step = () if run.head is None else ("submit", run.head.spec, *part_words(self.cube), *run.head.where)
        return "not running: submit again to resume", step

    def _job_lines(self) -> list[str]:
        """Return lines on worker jobs of a run in progress; those of an ended run no longer exist."""
        if self.jobs is None or self.run.holder is None:
            return []
        counts = f"{self.jobs.n_jobs} wanted, {self.jobs.n_running} running, {self.jobs.n_lost} lost"

        def place(job: folder.JobRecord | folder.LostJob) -> str:
            return f"  {job.job or '-':<10}{job.node or '-':<12}"

        return [
            f"worker jobs: {counts}; {plural(self.jobs.workers, 'worker')}",
            *(f"  {remark}" for remark in self.jobs.remarks),
            *(
                f"{place(job)}{plural(job.workers, 'worker'):<12}{job.state:<24}{job.name}"
                for job in self.jobs.jobs
            ),
            *(f"{place(job)}{job.how:<36}{job.name}" for job in self.jobs.lost[-5:]),
        ]


def read_status(cube: Path) -> Status:
    """Read the state of a cube, and of the driver that runs it, from files only.

    An `InputError` says that there is neither a cube nor a trace of a run.
    """
    if not cube.is_dir() and folder.RunFolder(cube).path.is_dir():
        return counted_status(cube, None, (), (0, 0))
    manifest = read_manifest(cube)
    datasets, is_done = [], list[bool]()
    for plan in manifest.plans.values():
        counts = np.zeros(len(STATES), np.int64)
        for block in plan.blocks():
            states = manifest.chunks.read(block, "status")
            is_done.append(bool((states != PENDING).all()))
            counts += count_states(states)
        datasets.append(DatasetStatus(plan.name, plan.n_cells, *counts.tolist()))
    return counted_status(cube, manifest, tuple(datasets), (len(is_done), sum(is_done)))


def counted_status(
    cube: Path, manifest: Manifest | None, datasets: tuple[DatasetStatus, ...], blocks: tuple[int, int]
) -> Status:
    """Return the state of a cube whose cells and blocks are counted, and of its driver."""
    run, last = read_run_state(cube), folder.RunFolder(cube).last_run
    progress = None if run.holder is None else folder.Progress.read(last.state)
    skipped, spec, software = {}, None, ""
    if manifest is not None:
        skipped, spec, software = manifest.skipped, manifest.spec, manifest.software
    jobs = folder.JobList.read(last.jobs)
    return Status(cube, datasets, *blocks, skipped, spec, run, jobs, progress, software)


# How far the parts of a sweep are.


@dataclass(frozen=True)
class PartsStatus:
    """State of some parts of a sweep, in the order of the parts.

    `missing_parts` names parts that are not among them, and `software` the differences between software and
    processors of their runs; both are empty if there are none.
    """

    parts: tuple[Status, ...]
    missing_parts: str
    software: str = ""

    @property
    def datasets(self) -> tuple[DatasetStatus, ...]:
        """Cells of each data set in all parts."""
        rows: dict[str, list[DatasetStatus]] = {}
        for row in (row for part in self.parts for row in part.datasets):
            rows.setdefault(row.name, []).append(row)
        return tuple(_sum(name, of_dataset) for name, of_dataset in rows.items())

    @property
    def total(self) -> DatasetStatus:
        """Cells of all parts."""
        return _sum("total", self.datasets)

    @property
    def outlook(self) -> tuple[str, tuple[object, ...]]:
        """Words for the first part that is not complete, or for all, and the command that comes next."""
        outlooks = (part.outlook for part in self.parts if part.total.left or not part.datasets)
        return next(outlooks, ("complete", ("report", *(part.cube for part in self.parts))))

    def lines(self) -> list[str]:
        """Return a table of all data sets, then a line for each part."""
        lines = table_lines((*self.datasets, self.total))
        if self.total.no_solution:
            lines.append(f"{self.total.no_solution:,} without a solution")
        lines += [f"{part.cube}: {part.total.left:,} left, {part.outlook[0]}" for part in self.parts]
        return [*lines, *filter(None, [self.missing_parts, self.software])]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        total = self.total.to_dict()
        del total["name"]
        return {
            "complete": not self.missing_parts and all(part.to_dict()["complete"] for part in self.parts),
            "total": total,
            "datasets": [row.to_dict() for row in self.datasets],
            "missing": self.missing_parts,
            "software": self.software,
            "parts": [part.to_dict() for part in self.parts],
        }


def read_parts_status(cubes: Sequence[Path]) -> PartsStatus:
    """Read the state of several cubes, some of which may have a run folder alone, from files only.

    An `InputError` says that they are not parts of one sweep, or that there is neither a cube nor a trace of
    a run.
    """
    started_cubes = [cube for cube in cubes if cube.is_dir() or not folder.RunFolder(cube).path.is_dir()]
    missing_parts = software = ""
    if started_cubes:
        parts = read_parts(started_cubes)
        # a part that has not begun is there, though it has no cube yet
        missing_parts = parts.missing if len(started_cubes) == len(cubes) else ""
        software = parts.manifest.software
        started_cubes = [Path(part.path) for part in parts.cubes]
    states = []
    for cube in (*started_cubes, *(cube for cube in cubes if cube not in started_cubes)):
        with storage_errors(cube):
            states.append(read_status(cube))
    return PartsStatus(tuple(states), missing_parts, software)


def _sum(name: str, rows: Sequence[DatasetStatus]) -> DatasetStatus:
    columns = zip(*(astuple(row)[1:] for row in rows), strict=True)
    return DatasetStatus(name, *(map(sum, columns) if rows else (0, 0, 0)))


# Logs.

# Seconds between two looks at a log that is followed.
POLL_SECONDS = 0.5

# Seconds between two questions to the queue.
QUEUE_SECONDS = 10.0

# Bytes that are read of the end of a log, or 200 for each line if that is more.
TAIL_BYTES = 65536

# Names that queueing systems give to the logs of their jobs.
JOB_LOG = re.compile(r"(?P<name>.+)(?:-|\.[eo])(?P<number>\d+)(?:\.(?:err|out))?")


def find_logs(cube: Path, *, head: bool = False, job: str | None = None) -> list[Path]:
    """Return the files of one kind of log, at least one, and fuller ones first.

    With `head` it is the output of a detached head, with `job`, which is the number or name of a worker job
    or the name of one of its workers, the log of that job, and otherwise the driver's. The driver's and the
    head's need not exist. An `InputError` says that there is no log of such a job.
    """
    run = folder.RunFolder(cube)
    if run.access_problem:
        raise refused(cube, run.access_problem, "a run of your own")
    if job is None:
        return [run.head_log if head else run.log]
    logs = _logs_of_jobs(run)
    names = {job, job.rpartition("-")[0]}  # or the name of one of its workers
    paths = [path for path, match in logs.items() if names & {match["number"], match["name"]}]
    if not paths:
        numbers = sorted({match["number"] for match in logs.values()}, key=int)
        expected = (
            f"one of the worker jobs {', '.join(numbers)}" if numbers else "no worker job: there was none"
        )
        raise refused("--job", repr(job), expected, did_you_mean(job, numbers))
    return [path for path in paths if path.stat().st_size] or paths[:1]


def _logs_of_jobs(run: folder.RunFolder) -> dict[Path, re.Match[str]]:
    """Return the logs of worker jobs, fuller ones first, with the parts of their names."""
    paths = sorted(run.job_logs.glob("*"), key=lambda path: path.stat().st_size, reverse=True)
    return {path: match for path in paths if (match := JOB_LOG.fullmatch(path.name))}


def last_lines(path: Path, count: int) -> list[str]:
    """Return the end of a file, no line if there is no file."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - max(TAIL_BYTES, 200 * count)))
            return _lines(file.read())[-count:] if count else []
    except OSError:
        return []


def _lines(content: bytes) -> list[str]:
    """Return the lines of a log; output of methods and libraries in it does nothing to a terminal."""
    text = content.decode("utf-8", errors="replace")
    return plain_lines(text, 4 * len(text)).split("\n") if text else []


def end_of(path: Path, count: int) -> Iterator[str]:
    """Yield the end of a log as one text, nothing if it is empty."""
    if lines := last_lines(path, count):
        yield "\n".join(lines) + "\n"


def follow(path: Path, cube: Path, *, lines: int) -> Iterator[str]:
    """Yield the end of a log, with so many lines, and then what is added to it, until the run ends.

    The log need not exist yet. The run of the cube is watched by its files, and by the queue while these say
    that its head waits there.
    """
    # here, so that `sweep status` does not load what asks a queue
    from sweep_clustering.pipeline.jobs import queues

    run, start = folder.RunFolder(cube), path.stat().st_size if path.exists() else 0
    n_missed, asked_at, has_ended = 0, 0.0, False
    yield from end_of(path, lines)
    while not has_ended:
        # The state is read before the log, so that its last lines are not missed.
        state = read_run_state(cube)
        if state.queued_job is None:
            n_missed = 0
        elif time.monotonic() - asked_at >= QUEUE_SECONDS:
            asked_at, queue = time.monotonic(), queues.used_queue(run)
            try:
                n_missed = n_missed + 1 if queue is not None and queue.other_head(run) is None else 0
            except queues.CommandFailed:
                n_missed = 0
        # Twice: a job that has just started is no longer waiting, but its files may appear late.
        lost_job = state.queued_job if n_missed == 2 else None
        has_ended = state.is_over or lost_job is not None
        if path.exists():
            with path.open("rb") as file:
                file.seek(start)
                content = file.read()
            if not has_ended:
                content = content[: content.rfind(b"\n") + 1]  # a line, or a letter, may be half written
            start += len(content)
            if content:
                yield "\n".join(_lines(content)) + "\n"
        if lost_job is not None:
            # A job that could not be started writes no file.
            yield f"the head, job {lost_job}, has left the queue without running; see {run.head_log}\n"
        elif not has_ended:
            time.sleep(POLL_SECONDS)


# Lines of the end of a traceback.
TRACEBACK_LINES = 12

NOT_KNOWN = "unknown"
NO_FAILURE = "no failure is recorded"


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """The facts about one cell.

    Parameters
    ----------
    cell : str
        Name of the cell.
    state : str
        `done`, `failed`, `pending` or `no solution`.
    restarts, seconds : int and float, or None
        Restarts of a cell that is done, and the solver's seconds for all of them.
    failures : tuple of FailureRecord
        All recorded failures, oldest first.
    log : str
        Command that shows the log of the job, or of the driver, with the last failure; empty if the cell is
        done or never failed.
    command : str
        Command that runs the cell alone.
    covariance : str or None
        Shape of covariances that a cell that is done has chosen; None if its model has one.
    questions : str
        Path whose answers the cell waits for; empty if it waits for none.
    closed : str
        Reason why failures cannot be read; empty if they can.
    """

    cell: str
    state: str
    restarts: int | None = None
    seconds: float | None = None
    failures: tuple[folder.FailureRecord, ...]
    log: str = ""
    command: str
    covariance: str | None = None
    questions: str = ""
    closed: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        failures = [
            {**record.model_dump(exclude={"work"}), "restarts": (record.work.start, record.work.stop)}
            for record in self.failures
        ]
        return {**asdict(self), "failures": failures}

    def lines(self) -> list[str]:
        """Return lines for people."""
        last = self.failures[-1] if self.failures else None
        if self.restarts is not None:
            text = f"done, {plural(self.restarts, 'restart')} in"
            if self.state == STATUS_WORDS[NO_SOLUTION]:
                text = f"the method found no solution in {self.restarts} calls,"
            text = f"{self.cell}: {text} {self.seconds:.3g} s"
            text += f"; it chose {self.covariance} covariances" if self.covariance else ""
            if last is None:
                return [text]
            times = f"failed {plural(len(self.failures), 'time')} before, last at {last.at or NOT_KNOWN}"
            return [text, f"{times}: {last.cause}"]
        lines = [f"{self.cell}: {'pending: not finished yet' if self.state == 'pending' else self.state}"]
        lines += [self.questions] if self.questions else []
        if last is not None:
            facts = {
                "cause": last.cause,
                "when": last.at or NOT_KNOWN,
                ("restarts" if last.work.cell else "questions"): f"{last.work.start}..{last.work.stop - 1}",
                "node": last.node or NOT_KNOWN,
                "job": last.job or "none",
                "attempts": f"{len(self.failures)} failed",
            }
            lines += [f"  {key + ':':<10}{value}" for key, value in facts.items()]
            if trace := last.traceback.strip().splitlines()[-TRACEBACK_LINES:]:
                lines += ["", "the end of the traceback:", *(f"  {line}" for line in trace)]
            lines += ["", "to see the log:", f"  {self.log}"]
        elif self.state == "failed":
            lines.append(self.closed or NO_FAILURE)
        return [*lines, "", "to run it alone:", f"  {self.command}"]


def explain(cube: Path, name: str, spec: Path | None = None) -> Explanation:
    """Collect the facts about a cell, from files only.

    The command runs `spec`, or the sweep file that was submitted last. An `InputError` says that there is no
    such cell, or no cube.
    """
    plans, run, store = read_manifest(cube).plans, folder.RunFolder(cube), BlockStore(cube, read_only=True)
    cell = find_cell(name, list(plans.values()))
    names = {str(cell), str(AskedPath.of(cell))} if asks(cell.design) else {str(cell)}
    failures = tuple(record for record in folder.read_failures(run) if record.cell in names)
    block = plans[cell.dataset].block_of(cell)
    position = block.position(cell)
    status = int(store.statuses(block)[position])
    explanation = Explanation(
        cell=str(cell),
        state=STATUS_WORDS.get(status, "pending"),
        failures=failures,
        command=shlex.join([*submit_words(cube, "--workers", "0", spec=spec), "--only", str(cell)]),
        closed=run.access_problem,
    )
    if status not in ANSWERED:
        job = ["--job", failures[-1].job] if failures and failures[-1].job else []
        return replace(
            explanation,
            log=shlex.join(["sweep", "logs", str(cube), *job]) if failures else "",
            questions=f"its annotations are answers of {AskedPath.of(cell)}" if asks(cell.design) else "",
        )
    arrays, covariance = store.read(block), None
    restarts, seconds = int(arrays["restarts_done"][position]), float(arrays["seconds"][position])
    if chooses(cell.model):
        code = int(arrays["covariance_shape"][position])
        # the code of a shape that no solver writes is shown as it is
        covariance = {value: shape for shape, value in CODES.items()}.get(code, str(code))
    return replace(explanation, restarts=restarts, seconds=seconds, covariance=covariance)


def failed_causes(cube: Path) -> dict[str, str]:
    """Return the last cause of each cell that is marked failed, by name, from files only."""
    cells = failed_cells(cube, read_manifest(cube).plans.values())
    causes = {record.cell: record.cause for record in folder.read_failures(folder.RunFolder(cube))}
    of_paths = {cell: causes.get(str(AskedPath.of(cell))) for cell in cells if asks(cell.design)}
    no_cause = folder.RunFolder(cube).access_problem or NO_FAILURE
    return {str(cell): causes.get(str(cell)) or of_paths.get(cell) or no_cause for cell in cells}


def job_remarks(cube: Path) -> list[str]:
    """Return lines on the worker jobs of the last run: what keeps them from running, and how they ended."""
    jobs = folder.JobList.read(folder.RunFolder(cube).last_run.jobs)
    if jobs is None:
        return []
    last, counts = {job.how: job for job in jobs.lost}, Counter(job.how for job in jobs.lost)
    remarks = jobs.remarks if read_run_state(cube).holder is not None else []
    for ending, job in last.items():
        place = f"the last is job {job.job} on {job.node or NOT_KNOWN}" if job.job else "none has a number"
        times = f", {counts[ending]} times" if counts[ending] > 1 else ""
        remarks.append(f"a worker job {ending}{times}; {place}")
    return remarks


def job_lines(cube: Path) -> list[str]:
    """Return a line for each worker job of a cube: its number and node, how it is or ended, and its log."""
    run = folder.RunFolder(cube)
    if run.access_problem:
        raise refused(cube, run.access_problem, "a run of your own")
    jobs, is_over = folder.JobList.read(run.last_run.jobs), read_run_state(cube).is_over
    # the fullest one is last, and counts
    logs = {match["number"]: str(path) for path, match in reversed(_logs_of_jobs(run).items())}
    rows = dict.fromkeys(logs, ("", "ended in an earlier run, or forgotten"))
    if jobs is not None:
        end = " when the run ended" if is_over else ""
        rows |= {job.job: (job.node, job.state + end) for job in jobs.jobs if job.job}
        rows |= {job.job or f"none, {job.name}": (job.node, job.how) for job in jobs.lost}
    lines = [(number, node or NOT_KNOWN, state) for number, (node, state) in rows.items()]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        "  ".join([*map(str.ljust, line, widths), logs.get(line[0], "no log")])
        for line in sorted(lines, key=lambda line: (len(line[0]), line[0]))
    ] or ["no worker job is recorded"]
