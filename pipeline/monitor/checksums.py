"""Whether every file of a cube is as it was written."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pipeline.common import plural
from storage.damage import Damage, Progress, scan


@dataclass(frozen=True)
class Checksums:
    """What was found in the files of a cube.

    Parameters
    ----------
    cube : Path
        The cube.
    files, size : int
        Files that were good, and their bytes.
    seconds : float
        Time it took.
    damaged : tuple of Damage
        Files that have changed, stand in the place of others, or are gone.
    unknown : int
        Good files of which it is not known whether they stand in their place.
    """

    cube: Path
    files: int
    size: int
    seconds: float
    damaged: tuple[Damage, ...]
    unknown: int = 0

    @property
    def good(self) -> bool:
        """Whether nothing is damaged."""
        return not self.damaged

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {**asdict(self), "cube": str(self.cube), "good": self.good}

    def lines(self) -> list[str]:
        """Summary for people."""
        rate = self.size / 1e6 / max(self.seconds, 1e-9)
        read = f"{self.size / 1e6:,.1f} MB in {self.seconds:.1f} s ({rate:,.0f} MB/s)"
        lines = [f"{self.cube}: {self.files:,} files are as they were written, {read}"]
        if self.unknown:
            files = plural(self.unknown, "file")
            lines.append(f"{files} not checked for being in the right place: no digest in the run folder")
        if self.damaged:
            lines.append(f"damaged files: {len(self.damaged):,}")
            lines += [f"  {damage}" for damage in self.damaged]
            lines.append(f"to have them made again: sweep repair {self.cube}")
        return lines


def check_files(cube: Path, progress: Progress = iter) -> Checksums:
    """Read every file of a cube and compare it with its checksum; a sweep may be writing to it.

    Parameters
    ----------
    cube : Path
        The cube.
    progress : callable, optional
        Called with the names of all files, and passes them on.

    Raises
    ------
    sweeps.errors.InputError
        If this is not a cube.
    storage.errors.StorageError
        If the file system refuses.
    """
    started = time.perf_counter()
    found = scan(cube, progress)
    return Checksums(
        cube, found.files, found.size, time.perf_counter() - started, found.damaged, found.unknown
    )
