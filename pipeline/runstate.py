"""Who runs a cube, or is about to: the lease and the files of the head, read together."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pipeline.headfile import REQUEUED, HeadRecord, Submission, read_head, read_submission
from storage.holder import Holder, LeaseState, read_lease
from storage.rundir import run_directory


@dataclass(frozen=True)
class RunState:
    """What files tell of a run.

    Parameters
    ----------
    lease : LeaseState or None
        The lease as it is; None if nobody ever wrote the cube.
    head : HeadRecord or None
        Of the last driver.
    submission : Submission or None
        Of the last head that was started detached.
    """

    lease: LeaseState | None
    head: HeadRecord | None
    submission: Submission | None

    @property
    def holder(self) -> Holder | None:
        """Who runs it now, as far as can be seen."""
        if self.lease is None or self.lease.seconds_left() == 0:
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
    def over(self) -> bool:
        """Whether nobody runs it, and nobody waits to."""
        return self.holder is None and self.waiting is None


def read_run_state(cube: Path) -> RunState:
    """Read what there is beside a cube, which need not exist yet.

    Raises
    ------
    StorageError
        If the file system refuses.
    """
    run = run_directory(cube)
    return RunState(read_lease(cube), read_head(run), read_submission(run))
