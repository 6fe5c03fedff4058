"""How far a sweep is, from files alone."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.progress import StateFile, duration
from storage.blocks import BlockStore
from storage.lease import read_lease
from storage.manifest import read_manifest
from storage.rundir import run_directory
from storage.schema import DONE, FAILED


@dataclass(frozen=True)
class DatasetStatus:
    """Cells of one data set."""

    name: str
    cells: int
    done: int
    failed: int

    @property
    def left(self) -> int:
        """Cells that are neither done nor failed."""
        return self.cells - self.done - self.failed


@dataclass(frozen=True)
class Status:
    """State of a cube.

    Parameters
    ----------
    cube : Path
        The cube.
    datasets : tuple of DatasetStatus
        In the order of the sweep file.
    skipped : dict of str to list of str
        Data sets the last run could not have, and why.
    holder : str or None
        Who runs it now.
    running : dict or None
        What the driver wrote last of the run under way: restarts done and wanted, seconds left when written.
    """

    cube: Path
    datasets: tuple[DatasetStatus, ...]
    skipped: dict[str, list[str]]
    holder: str | None
    running: dict[str, Any] | None

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        datasets = [{**asdict(d), "left": d.left} for d in self.datasets]
        total = {key: sum(row[key] for row in datasets) for key in ("cells", "done", "failed", "left")}
        return {
            "cube": str(self.cube),
            "complete": total["left"] == 0,
            "total": total,
            "datasets": datasets,
            "skipped": self.skipped,
            "holder": self.holder,
            "eta_seconds": self.eta,
            "run": self.running,
        }

    @property
    def eta(self) -> float | None:
        """Seconds left of the run under way, None when nothing runs."""
        if self.running is None:
            return None
        return max(0.0, float(self.running["left"]) - (time.time() - float(self.running["at"])))

    def lines(self) -> list[str]:
        """Table for people."""
        total = self.to_dict()["total"]
        head = f"{'data set':<20}{'cells':>9}{'done':>9}{'failed':>9}{'left':>9}"
        rows = [f"{d.name:<20}{d.cells:>9,}{d.done:>9,}{d.failed:>9,}{d.left:>9,}" for d in self.datasets]
        foot = "{:<20}{cells:>9,}{done:>9,}{failed:>9,}{left:>9,}".format("total", **total)
        skipped = [f"SKIPPED {name}: {'; '.join(reasons)}" for name, reasons in self.skipped.items()]
        return [str(self.cube), head, *rows, foot, *skipped, self._who(total["left"])]

    def _who(self, left: int) -> str:
        if self.holder is None:
            return "complete" if left == 0 else "nobody runs it: submit again to go on"
        if self.running is None or self.eta is None:
            return f"run by {self.holder}"
        restarts = f"{self.running['restarts']:,} of {self.running['total']:,} restarts of this run"
        workers = self.running["workers"]
        return f"run by {self.holder}: {restarts}, {workers} workers, about {duration(self.eta)} left"


def read_status(cube: Path) -> Status:
    """Read the state of a cube, and of the driver that runs it.

    Raises
    ------
    sweeps.errors.InputError
        If there is no cube at `cube`.
    """
    manifest = read_manifest(cube)
    store = BlockStore(cube, read_only=True)
    datasets = []
    for plan in manifest.plans.values():
        statuses = np.concatenate([cells for _, cells in store.all_statuses(plan)])
        counts = [int(np.count_nonzero(statuses == state)) for state in (DONE, FAILED)]
        datasets.append(DatasetStatus(plan.name, plan.n_cells, *counts))
    lease = read_lease(cube)
    holder = lease.holder if lease is not None and lease.seconds_left() != 0 else None
    return Status(
        cube=cube,
        datasets=tuple(datasets),
        skipped=manifest.runs[-1].get("skipped", {}) if manifest.runs else {},
        holder=None if holder is None else str(holder),
        running=None if holder is None else StateFile.read(run_directory(cube) / "state.json"),
    )
