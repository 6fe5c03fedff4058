"""Lease files: who holds a cube, or held it."""

from __future__ import annotations

import logging
import os
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from storage.errors import storage_errors
from storage.runfolder.folder import RunFolder
from storage.runfolder.process import ProcessIdentity, is_alive
from storage.runfolder.record import FileRecord

logger = logging.getLogger(__name__)

BEAT_EVERY = 10.0
"""Seconds between heartbeats."""

STALE_AFTER = 120.0
"""Seconds without a heartbeat after which a holder that cannot be seen from here counts as gone."""

PATIENCE = 1.5 * BEAT_EVERY
"""Seconds in which a heartbeat of a living holder is seen, even if it is late."""

LOOK_EVERY = 0.5


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
            return cls.parse(path.read_bytes(), path)
        except FileNotFoundError:
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
    beat : int
        Time of the last heartbeat, as the file system has it: to be compared with another one, and never with
        a clock. Clocks of two machines differ.
    alive : bool or None
        Whether the holder's process lives; None if that cannot be seen from here.
    """

    number: int
    holder: Holder | None
    beat: int
    alive: bool | None

    @property
    def free(self) -> bool:
        """Whether it was given back, or its process is seen to be gone."""
        return self.alive is False or (self.holder is not None and self.holder.released)

    def age(self, now: float) -> float:
        """Seconds since the last heartbeat, if `now` and the file system have the same clock."""
        return now - self.beat / 1e9


class Watch:
    """Waits for a heartbeat, by the clock of this process alone.

    Parameters
    ----------
    run : RunFolder
        Whose lease.
    state : LeaseState
        The lease, found just now.
    """

    def __init__(self, run: RunFolder, state: LeaseState) -> None:
        self._run = run
        self._first = state
        self._since = clock()

    @property
    def silent(self) -> float:
        """Seconds that it has been watched for."""
        return clock() - self._since

    def look(self) -> LeaseState | None:
        """The lease as it is now; `alive` is True if there was a heartbeat since the first look."""
        now = last_lease(self._run)
        if now is not None and now.number == self._first.number and now.beat != self._first.beat:
            return replace(now, alive=now.alive is not False)
        return now

    def settle(self, patience: float) -> LeaseState | None:
        """Wait until it is certain whether the holder lives: one without any heartbeat is taken for dead."""
        while self.silent < patience:
            time.sleep(LOOK_EVERY)
            now = self.look()
            if now is None or now.free or now.alive or now.number != self._first.number:
                return now
        return replace(self._first, alive=False)


def read_lease(cube: Path) -> LeaseState | None:
    """The lease of a cube, for readers; takes up to `PATIENCE` seconds, see `settled_lease`.

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
        return settled_lease(run, time.time())


def settled_lease(
    run: RunFolder, now: float, stale_after: float = STALE_AFTER, patience: float | None = None
) -> LeaseState | None:
    """The lease that counts, and whether its holder lives.

    A heartbeat that is recent by `now` is believed. Any other may come from a holder that is dead, or from a
    living one on a machine whose clock differs; then the next one is waited for.

    Parameters
    ----------
    run : RunFolder
        Whose lease.
    now : float
        Time of a clock that may be that of the file system, but need not.
    stale_after : float
        Seconds that a recent heartbeat is old at most.
    patience : float, optional
        Seconds to wait; `PATIENCE` by default.

    Returns
    -------
    LeaseState or None
        `alive` is None only where the last heartbeat is recent, of a process that cannot be seen from here.
    """
    state = last_lease(run)
    if state is None or state.free or state.alive or 0 <= state.age(now) < stale_after:
        return state
    patience = PATIENCE if patience is None else patience
    logger.info("waiting up to %.0f s for a heartbeat of %s", patience, state.holder or "an unknown process")
    return Watch(run, state).settle(patience)


def last_lease(run: RunFolder) -> LeaseState | None:
    """The lease that counts now; None where there is none."""
    if not run.path.is_dir():
        return None
    # Folders first. One is made after its lease, so a process that takes the lease between these two looks
    # is seen with both, or with its lease alone; the other way round its lease would seem to be removed.
    generations = [generation.number for generation in run.generations()]
    leases = run.lease_numbers()
    number = max([0, *leases, *generations])
    if not number:
        return None
    if number not in leases:
        # Somebody has removed the lease, and with it the right to write.
        return LeaseState(number, None, 0, alive=False)
    file = run.lease(number)
    holder = Holder.read(file)
    return LeaseState(number, holder, _heartbeat(file), is_alive(holder.process) if holder else None)


def clock() -> float:
    """Seconds of a clock that also runs while the machine sleeps, where there is one."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def _heartbeat(file: Path) -> int:
    # Opened: a network file system asks its server then, and may answer from a cache otherwise.
    descriptor = os.open(file, os.O_RDONLY)
    try:
        return os.fstat(descriptor).st_mtime_ns
    finally:
        os.close(descriptor)
