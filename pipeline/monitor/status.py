"""How far a sweep is, from files alone: `read_status`.

`counted_status` is for who has counted the cells already, as the page of a run does.
"""

from __future__ import annotations

import os
import time
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.common import at_hand, cells_left_out, duration, plural
from pipeline.monitor.runs import RunState, last_lines, read_run_state
from storage.cube.chunks import status_chunks
from storage.cube.manifest import Manifest, read_manifest
from storage.cube.schema import DONE, FAILED, NO_SOLUTION, PENDING
from storage.runfolder.folder import RunFolder
from storage.runfolder.records import JobList, JobRecord, LostJob, Progress
from sweeps.file.spec import SweepSpec

STATES = (DONE, FAILED, NO_SOLUTION)
"""Of cells that have ended, in the order in which they are shown."""


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
    """

    cube: Path
    datasets: tuple[DatasetStatus, ...]
    blocks: int
    blocks_done: int
    skipped: dict[str, list[str]]
    spec: SweepSpec | None
    run: RunState
    jobs: JobList | None
    progress: Progress | None

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
        }

    @property
    def at_hand(self) -> str | None:
        """What data sets that were not available leave out, in one line."""
        return None if self.spec is None else at_hand(self.spec, self.skipped)

    @property
    def total(self) -> DatasetStatus:
        """Cells of all data sets."""
        columns = zip(*(astuple(row)[1:] for row in self.datasets), strict=True)
        return DatasetStatus("total", *(map(sum, columns) if self.datasets else (0, 0, 0)))

    @property
    def eta(self) -> float | None:
        """Seconds left of the run in progress, None when nothing runs."""
        if self.progress is None:
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
        lines += [*filter(None, [self.at_hand]), *self.run.lines()]
        sent = self.run.submission
        if self.run.waiting and sent and output.exists() and output.stat().st_mtime >= sent.at:
            # a head that has not started according to its files may have died at once
            lines += [f"  {output} ends: {line}" for line in last_lines(output, 1)]
        lines += self._job_lines()
        if os.path.exists(log):
            lines.append(f"log: {log}")
        if self.run.dashboard:
            lines.append(f"dashboard: {self.run.dashboard}")
        return [*lines, self.who]

    @property
    def next_step(self) -> tuple[object, ...] | None:
        """The command that comes next; None while a run waits to start, or where no file names the sweep."""
        total = self.total
        if self.run.holder is not None:
            return "logs", self.cube, "--follow"
        if self.run.waiting is not None:
            return None
        if self.run.closed and total.left:
            return "report", self.cube
        if self.datasets and total.left == 0:
            return ("why" if total.failed else "report"), self.cube
        return None if self.run.head is None else ("submit", self.run.head.spec)

    @property
    def who(self) -> str:
        """Who runs it and how far that is, or what to do next."""
        holder, left = self.run.holder, self.total.left or not self.datasets
        if holder is None and self.run.waiting is not None:
            return f"not running yet: its head waits in the queue, job {self.run.waiting}"
        if self.run.closed and left:
            return f"whether it runs cannot be seen: {self.run.closed}"
        if holder is None:
            complete = "complete" if not self.skipped else "complete, but for data sets that are not at hand"
            return "not running: submit again to resume" if left else complete
        if self.progress is None or self.eta is None:
            return f"run by {holder}"
        done = self.progress
        restarts = f"{done.restarts:,} of {done.total:,} restarts of this run"
        if done.questions:
            restarts += f", {done.asked:,} of {done.questions:,} questions asked"
        workers = plural(done.workers, "worker")
        return f"run by {holder}: {restarts}, {workers}, about {duration(self.eta)} left"

    def _job_lines(self) -> list[str]:
        """Worker jobs of a run in progress; those of an ended run no longer exist."""
        if self.jobs is None or self.run.holder is None:
            return []
        counts = f"{self.jobs.wanted} wanted, {self.jobs.running} running, {self.jobs.n_lost} lost"

        def place(job: JobRecord | LostJob) -> str:
            return f"  {job.job or '-':<10}{job.node or '-':<12}"

        return [
            f"worker jobs: {counts}; {self.jobs.workers} workers",
            *(f"{place(job)}{job.workers:>3} workers  {job.state:<24}{job.name}" for job in self.jobs.jobs),
            *(f"{place(job)}{job.how:<36}{job.name}" for job in self.jobs.lost[-5:]),
        ]


def read_status(cube: Path) -> Status:
    """Read the state of a cube, and of the driver that runs it; files only.

    Raises
    ------
    sweeps.errors.InputError
        If there is neither a cube at `cube` nor a trace of a run.
    """
    if not cube.is_dir() and RunFolder(cube).path.is_dir():
        return counted_status(cube, None, (), (0, 0))
    manifest = read_manifest(cube)
    datasets, blocks, done = [], 0, 0
    for plan in manifest.plans.values():
        counts = np.zeros(len(STATES), np.int64)
        for node in plan.nodes:
            for _, states in status_chunks(manifest, node.path):
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
    progress = None if run.holder is None else Progress.read(last.state)
    skipped, spec = ({}, None) if manifest is None else (manifest.skipped, manifest.spec)
    return Status(cube, datasets, *blocks, skipped, spec, run, JobList.read(last.jobs), progress)
