"""What files tell of the head of a run, scheduler and driver: how it was started, and how it ended."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from storage.errors import storage_errors
from storage.files import write_file

HEAD_FILE, SUBMISSION_FILE = "head.json", "submission.json"
"""Written by the head that holds the lease, and by the command that started it and went away."""

HEAD_LOG = "head.log"
"""What a detached head prints."""

RUNNING, REQUEUED, ENDED = "running", "requeued", "ended"


@dataclass(frozen=True)
class HeadRecord:
    """The last driver of a cube; whether it lives is for the lease to say.

    Parameters
    ----------
    spec : str
        Sweep file, an absolute path.
    data_dir : str or None
        Where raw data files lie.
    job : str
        Of a queue; empty outside.
    node : str
        Where it runs.
    restarts : int
        How often its job was queued again.
    dashboard : str or None
        Line that says how to reach the dashboard.
    state : str
        `running`, `requeued` (its job waits in the queue again), `ended`.
    at : float
        Unix time since which it is so.
    how : str
        How it ended.
    """

    spec: str
    data_dir: str | None = None
    job: str = ""
    node: str = ""
    restarts: int = 0
    dashboard: str | None = None
    state: str = RUNNING
    at: float = 0.0
    how: str = ""

    def now(self, state: str, how: str = "") -> HeadRecord:
        """The same driver in another state."""
        return replace(self, state=state, how=how, at=time.time())

    def write(self, run: Path) -> None:
        """Put it into the folder of the run.

        Raises
        ------
        StorageError
            If the file system refuses.
        """
        _write(run / HEAD_FILE, asdict(self))


@dataclass(frozen=True)
class Submission:
    """A head that was started detached.

    Parameters
    ----------
    system : str
        `slurm`, or `process` for one of this machine.
    job : str
        Number in the queue, or of the process.
    host : str
        Where it was submitted.
    at : float
        Unix time of it.
    """

    system: str
    job: str
    host: str
    at: float

    def write(self, run: Path) -> None:
        """Put it into the folder of the run.

        Raises
        ------
        StorageError
            If the file system refuses.
        """
        _write(run / SUBMISSION_FILE, asdict(self))


def read_head(run: Path) -> HeadRecord | None:
    """The last driver's record, None where there is none that can be read."""
    try:
        return HeadRecord(**json.loads((run / HEAD_FILE).read_bytes()))
    except (OSError, ValueError, TypeError):
        return None


def read_submission(run: Path) -> Submission | None:
    """The last detached submission, None where there is none that can be read."""
    try:
        return Submission(**json.loads((run / SUBMISSION_FILE).read_bytes()))
    except (OSError, ValueError, TypeError):
        return None


def _write(path: Path, record: dict[str, Any]) -> None:
    with storage_errors(path):
        write_file(path, json.dumps(record, indent=1).encode())
