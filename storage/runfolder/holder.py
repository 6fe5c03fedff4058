"""Lease files: who holds a cube, or held it."""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from storage.errors import storage_errors
from storage.runfolder.folder import run_directory
from storage.runfolder.process import ProcessIdentity, is_alive

STALE_AFTER = 120.0
"""Seconds without a heartbeat after which a holder that cannot be seen from here counts as gone."""


@dataclass(frozen=True)
class Holder:
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

    def __str__(self) -> str:
        job = f", job {self.process.job_id}" if self.process.job_id else ""
        return f"process {self.process.pid} on {self.process.host}{job}, since {self.since}"


@dataclass(frozen=True)
class LeaseState:
    """A lease as it is found.

    Parameters
    ----------
    number : int
        Its place in the row of all leases of this cube.
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
    """The lease of a cube as it is, for those who only look.

    Parameters
    ----------
    cube : Path
        `<name>.zarr`.

    Returns
    -------
    LeaseState or None
        None if nobody ever wrote it.

    Raises
    ------
    StorageError
        If the file system refuses.
    """
    run = run_directory(cube)
    with storage_errors(run):
        return last_lease(run, time.time()) if run.is_dir() else None


def last_lease(run: Path, now: float) -> LeaseState | None:
    """The lease that counts, or None; `now` is the time on the clock of the file system."""
    number = max(lease_numbers(run), default=0)
    if not number:
        return None
    file = lease_file(run, number)
    holder = read_holder(file)
    age = now - file.stat().st_mtime
    return LeaseState(number, holder, age, is_alive(holder.process) if holder else None)


def lease_numbers(run: Path) -> list[int]:
    """Numbers of all leases in a run's directory."""
    endings = [name.removeprefix("lease.") for name in os.listdir(run) if name.startswith("lease.")]
    return [int(ending) for ending in endings if ending.isdecimal()]


def lease_file(run: Path, number: int) -> Path:
    """Path of a lease."""
    return run / f"lease.{number}"


def read_holder(file: Path) -> Holder | None:
    """Holder written in a lease file, or None if it is gone or makes no sense."""
    try:
        record = json.loads(file.read_bytes())
        return Holder(**{**record, "process": ProcessIdentity(**record["process"])})
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        return None


def holder_to_json(holder: Holder) -> bytes:
    """Content of a lease file."""
    return json.dumps(asdict(holder), indent=1).encode()
