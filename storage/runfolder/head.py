"""Records of the head of a run (scheduler and driver): how it was started, and how it ended."""

from __future__ import annotations

import time

from storage.runfolder.record import FileRecord, Line
from sweeps.errors import one_line

RUNNING, REQUEUED, ENDED = "running", "requeued", "ended"


class HeadRecord(FileRecord):
    """The last driver of a cube; the lease tells whether it is alive.

    Parameters
    ----------
    spec : str
        Sweep file, an absolute path.
    data_dir : str or None
        Directory of raw data files.
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
        Unix time since when.
    how : str
        How it ended.
    """

    spec: str
    data_dir: str | None = None
    job: str = ""
    node: Line = ""
    restarts: int = 0
    dashboard: Line | None = None
    state: str = RUNNING
    at: float = 0.0
    how: Line = ""

    def now(self, state: str, how: str = "") -> HeadRecord:
        """The same driver in another state."""
        return self.model_copy(update={"state": state, "how": one_line(how), "at": time.time()})


class Submission(FileRecord):
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


class StopRequest(FileRecord):
    """Asks every head of a cube to end: one that runs, one that waits, and one nobody can reach.

    Parameters
    ----------
    host : str
        Where it was asked for.
    at : float
        Unix time of it.
    """

    host: str
    at: float
