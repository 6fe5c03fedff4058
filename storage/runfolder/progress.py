"""How far the driver is, for those who read files only."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from storage.errors import storage_errors
from storage.files import write_file


class StateFile:
    """Tells `sweep status`, which reads only files, how far the driver is.

    Parameters
    ----------
    path : Path
        Replaced in one step, at most once in two seconds.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._last = -2.0

    def write(self, restarts: int, total: int, workers: int, left: float) -> None:
        """Note restarts done and wanted in this run, workers, and seconds left."""
        now = time.monotonic()
        if now - self._last < 2.0 and restarts < total:
            return
        self._last = now
        state = {"restarts": restarts, "total": total, "workers": workers, "left": left, "at": time.time()}
        with storage_errors(self._path):
            write_file(self._path, json.dumps(state).encode())

    @staticmethod
    def read(path: Path) -> dict[str, Any] | None:
        """Last state written, None if there is none."""
        try:
            state: dict[str, Any] = json.loads(path.read_text())
        except (OSError, ValueError):
            return None
        return state
