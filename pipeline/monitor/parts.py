"""The state of several cubes that are parts of one sweep, and of the runs that fill them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweep_clustering.pipeline.monitor.status import DatasetStatus, Status, read_status
from sweep_clustering.storage.cube.parts import read_parts
from sweep_clustering.storage.errors import storage_errors
from sweep_clustering.storage.runfolder.folder import RunFolder


@dataclass(frozen=True)
class PartsStatus:
    """State of some parts of a sweep.

    Parameters
    ----------
    parts : tuple of Status
        Of each cube, in the order of the parts.
    missing : str
        Which parts are not among them; empty where none is known to be missing.
    software : str
        Software and processors of the runs of all parts in words, where they differ.
    """

    parts: tuple[Status, ...]
    missing: str
    software: str = ""

    @property
    def datasets(self) -> tuple[DatasetStatus, ...]:
        """Cells of each data set in all parts."""
        rows: dict[str, list[DatasetStatus]] = {}
        for row in (row for part in self.parts for row in part.datasets):
            rows.setdefault(row.name, []).append(row)
        return tuple(_sum(name, each) for name, each in rows.items())

    @property
    def total(self) -> DatasetStatus:
        """Cells of all parts."""
        return _sum("total", self.datasets)

    @property
    def outlook(self) -> tuple[object, ...]:
        """The command that comes next, if any."""
        waiting = next((part for part in self.parts if part.total.left or not part.datasets), None)
        if waiting is not None:
            return waiting.outlook[1]
        return ("report", *(part.cube for part in self.parts))

    def lines(self) -> list[str]:
        """Table for people: all data sets, then a line for each part."""
        lines = [f"{'data set':<20}{'cells':>9}{'done':>9}{'failed':>9}{'left':>9}"]
        for row in (*self.datasets, self.total):
            lines.append(f"{row.name:<20}{row.cells:>9,}{row.done:>9,}{row.failed:>9,}{row.left:>9,}")
        if self.total.no_solution:
            lines.append(f"{self.total.no_solution:,} without a solution")
        lines += [f"{part.cube}: {part.total.left:,} left, {part.outlook[0]}" for part in self.parts]
        return [*lines, *filter(None, [self.missing, self.software])]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        total = self.total.to_dict()
        del total["name"]
        return {
            "complete": not self.missing and all(part.to_dict()["complete"] for part in self.parts),
            "total": total,
            "datasets": [row.to_dict() for row in self.datasets],
            "missing": self.missing,
            "software": self.software,
            "parts": [part.to_dict() for part in self.parts],
        }


def read_parts_status(cubes: Sequence[Path]) -> PartsStatus:
    """Read the state of several cubes, some of which may have a run folder alone; files only.

    Raises
    ------
    sweep_clustering.sweeps.errors.InputError
        If they are not parts of one sweep, or there is neither a cube nor a trace of a run.
    """
    there = [cube for cube in cubes if cube.is_dir() or not RunFolder(cube).path.is_dir()]
    missing = software = ""
    if there:
        parts = read_parts(there)
        # a part that has not begun is there, though it has no cube yet
        missing = parts.missing if len(there) == len(cubes) else ""
        software = parts.manifest.software
        there = [Path(each.path) for each in parts.cubes]
    every = [*there, *(cube for cube in cubes if cube not in there)]
    found = []
    for cube in every:
        with storage_errors(cube):
            found.append(read_status(cube))
    return PartsStatus(tuple(found), missing, software)


def _sum(name: str, rows: Sequence[DatasetStatus]) -> DatasetStatus:
    counts = [(row.cells, row.done, row.failed, row.no_solution) for row in rows]
    return DatasetStatus(name, *(map(sum, zip(*counts, strict=True)) if counts else (0, 0, 0)))
