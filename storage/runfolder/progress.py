"""Progress of the driver, for commands that only read files."""

from __future__ import annotations

import time
from pathlib import Path

from storage.files import PLAIN, Files
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
        Number of workers.
    left : float
        Seconds that the rest will take.
    at : float
        Unix time of this state.
    asked, questions : int
        Questions asked and to be asked in this run, where designs ask.
    """

    restarts: int
    total: int
    workers: int
    left: float
    at: float
    asked: int = 0
    questions: int = 0


class StateFile:
    """Writes the progress of the driver for `sweep status`, which only reads files.

    Parameters
    ----------
    path : Path
        Replaced in one step, every few seconds.
    files : Files
        Of the holder of the lease.
    """

    def __init__(self, path: Path, files: Files = PLAIN) -> None:
        self._path = path
        self._files = files
        self._last = -WRITE_EVERY

    def write(
        self, restarts: int, total: int, workers: int, left: float, questions: tuple[int, int] = (0, 0)
    ) -> None:
        """Write restarts done and wanted in this run, workers, seconds left, questions asked and wanted."""
        now = time.monotonic()
        if now - self._last < WRITE_EVERY and restarts < total:
            return
        self._last = now
        asked, wanted = questions
        progress = Progress(
            restarts=restarts,
            total=total,
            workers=workers,
            left=left,
            at=time.time(),
            asked=asked,
            questions=wanted,
        )
        progress.write(self._path, self._files)
