"""Lease files: who holds a cube, or held it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from storage.errors import storage_errors
from storage.runfolder.folder import RunFolder
from storage.runfolder.process import ProcessIdentity, is_alive
from storage.runfolder.record import FileRecord

STALE_AFTER = 120.0
"""Seconds without a heartbeat after which a holder that cannot be seen from here counts as gone."""


class Holder(FileRecord):
    """Who holds, or held, a lease.

    Parameters
    ----------
    token : str
        Unique to one acquisition.
    since : str
        Time of it, ISO 8601, UTC.
    released : bool
        Whether it was given back.
    process : ProcessIdentity
        Host, boot, process, batch job.
    """

    token: str
    since: str
    released: bool
    process: ProcessIdentity

    @classmethod
    def read(cls, path: Path) -> Self | None:
        """Holder written in a lease file; None if the file is gone or invalid.

        Other errors of the disk are raised: they do not mean that the lease is gone.
        """
        try:
            return cls.model_validate_json(path.read_bytes())
        except (FileNotFoundError, ValueError):
            return None

    def __str__(self) -> str:
        job = f", job {self.process.job_id}" if self.process.job_id else ""
        return f"process {self.process.pid} on {self.process.host}{job}, since {self.since}"


@dataclass(frozen=True)
class LeaseState:
    """A lease as it is found.

    Parameters
    ----------
    number : int
        Its position among all leases of this cube.
    holder : Holder or None
        None if the file cannot be read.
    age : float
        Seconds since the last heartbeat.
    alive : bool or None
        Whether the holder's process lives; None if that cannot be seen from here.
    """

    number: int
    holder: Holder | None
    age: float
    alive: bool | None

    def seconds_left(self, stale_after: float = STALE_AFTER) -> float | None:
        """Seconds until it may be taken over: 0 if it may, None while its process is seen to live."""
        if self.alive is False or (self.holder is not None and self.holder.released):
            return 0.0
        return None if self.alive else max(0.0, stale_after - self.age)


def read_lease(cube: Path) -> LeaseState | None:
    """The lease of a cube, for readers.

    Parameters
    ----------
    cube : Path
        `<name>.zarr`.

    Returns
    -------
    LeaseState or None
        None if the cube was never written.

    Raises
    ------
    StorageError
        If the file system refuses.
    """
    run = RunFolder(cube)
    with storage_errors(run.path):
        return last_lease(run, time.time()) if run.path.is_dir() else None


def last_lease(run: RunFolder, now: float) -> LeaseState | None:
    """The lease that counts, or None; `now` is the time on the clock of the file system."""
    number = max(run.lease_numbers(), default=0)
    if not number:
        return None
    file = run.lease(number)
    holder = Holder.read(file)
    age = now - file.stat().st_mtime
    return LeaseState(number, holder, age, is_alive(holder.process) if holder else None)
