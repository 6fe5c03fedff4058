"""Who runs a cube, or waits to run it: the lease and the files of the head, read together."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from storage.runfolder.folder import RunFolder
from storage.runfolder.lease import Holder, LeaseState, read_lease
from storage.runfolder.records import REQUEUED, RUNNING, HeadRecord, Submission


@dataclass(frozen=True)
class RunState:
    """What its files say about a run.

    Parameters
    ----------
    lease : LeaseState or None
        The lease as it is; None if no process ever held it.
    head : HeadRecord or None
        Of the last driver.
    submission : Submission or None
        Of the last head that was started detached.
    closed : str
        Why none of these can be read, where they cannot.
    """

    lease: LeaseState | None
    head: HeadRecord | None
    submission: Submission | None
    closed: str = ""

    @property
    def holder(self) -> Holder | None:
        """Who runs it now, as far as can be seen."""
        if self.lease is None or self.lease.free:
            return None
        return self.lease.holder

    @property
    def waiting(self) -> str | None:
        """Number of the head's job in the queue, where files know of one that has not started."""
        if self.holder is not None:
            return None
        if self.head is not None and self.head.state == REQUEUED:
            return self.head.job
        sent = self.submission
        if sent is None or (self.head is not None and self.head.at >= sent.at):
            return None
        return sent.job if sent.system != "process" else None

    @property
    def dashboard(self) -> str | None:
        """How to reach the dashboard of the run in progress."""
        return self.head.dashboard if self.holder is not None and self.head is not None else None

    def to_dict(self) -> dict[str, Any] | None:
        """The head for JSON: state, job, node, unix time since when, how often queued again, how it ended."""
        if self.waiting is not None:
            at = max(record.at for record in (self.head, self.submission) if record is not None)
            again = self.head.restarts + 1 if self.head is not None and self.head.state == REQUEUED else 0
            found = {"state": "waiting", "job": self.waiting, "node": "", "how": ""}
            return {**found, "since": at, "restarts": again}
        if self.head is None:
            return None
        state = self.head.state if self.holder is not None or self.head.state != RUNNING else "died"
        found = {key: getattr(self.head, key) for key in ("job", "node", "restarts", "how")}
        return {**found, "state": state, "since": self.head.at}

    def lines(self) -> list[str]:
        """The head for people, a line or none."""
        found = self.to_dict()
        if found is None:
            return []
        since = _clock(found["since"])
        what = f"job {found['job']}" if found["job"] else "a process"
        where = f" on {found['node']}" if found["node"] else ""
        again = f", queued again {found['restarts']} times" if found["restarts"] else ""
        how = f": {found['how']}" if found["how"] else ""
        if found["state"] == "waiting":
            how = ", according to its files"
        return [f"head: {what}{where}, {found['state']} since {since}{again}{how}"]

    @property
    def over(self) -> bool:
        """Whether it is not running, and not waiting to start."""
        return self.holder is None and self.waiting is None


def _clock(seconds: float) -> str:
    """Unix time on a clock of this place; of a file that somebody changed it may be no time at all."""
    try:
        return datetime.fromtimestamp(seconds).astimezone().isoformat(sep=" ", timespec="seconds")
    except (ValueError, OverflowError, OSError):
        return f"the time {seconds:g}"


def read_run_state(cube: Path) -> RunState:
    """Read the files of a run beside its cube, which need not exist yet.

    Raises
    ------
    StorageError
        If the file system refuses.
    """
    run = RunFolder(cube)
    if run.closed:
        return RunState(None, None, None, run.closed)
    return RunState(read_lease(cube), HeadRecord.read(run.last_run.head), Submission.read(run.submission))
