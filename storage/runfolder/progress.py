"""How far the driver is, for those who read files only."""

from __future__ import annotations

import time
from pathlib import Path

from storage.runfolder.record import FileRecord

WRITE_EVERY = 2.0
"""Seconds between two states."""


class Progress(FileRecord):
    """State of the driver.

    Parameters
    ----------
    restarts, total : int
        Done and wanted in this run.
    workers : int
        How many there are.
    left : float
        Seconds that the rest will take.
    at : float
        Unix time at which it was so.
    """

    restarts: int
    total: int
    workers: int
    left: float
    at: float


class StateFile:
    """Tells `sweep status`, which reads only files, how far the driver is.

    Parameters
    ----------
    path : Path
        Replaced in one step, now and then.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._last = -WRITE_EVERY

    def write(self, restarts: int, total: int, workers: int, left: float) -> None:
        """Note restarts done and wanted in this run, workers, and seconds left."""
        now = time.monotonic()
        if now - self._last < WRITE_EVERY and restarts < total:
            return
        self._last = now
        progress = Progress(restarts=restarts, total=total, workers=workers, left=left, at=time.time())
        progress.write(self._path)
