"""The lease: one writer for each cube, on any machine, without flock.

`<name>.run/lease.<n>` is made by the n-th holder, with `link`, which only one can do. The highest number
counts. No other process removes or replaces it: one that finds its holder gone makes the next number. So a
slow contender can never take away the lease of a quicker one, as it could with one file that is removed and
made again.
"""

from __future__ import annotations

import errno
import logging
import os
import time
import uuid
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Thread, current_thread
from types import TracebackType
from typing import Self

from storage.errors import StorageError, storage_errors
from storage.files import remove, sync_directory, write_file
from storage.runfolder.folder import RunFolder
from storage.runfolder.holder import (
    STALE_AFTER,
    Holder,
    LeaseState,
    last_lease,
    read_lease,
)
from storage.runfolder.process import this_process

__all__ = ["Lease", "LeaseHeld", "LeaseLost", "read_lease"]

logger = logging.getLogger(__name__)

BEAT_EVERY = 10.0
"""Seconds between heartbeats."""

KEPT = 8
"""Old leases that stay, so that a contender that was suspended finds the number it wants taken."""

NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS)


class LeaseHeld(Exception):
    """Another process writes this cube."""

    def __init__(self, cube: Path, state: LeaseState, seconds_left: float | None) -> None:
        self.cube = cube
        self.holder = state.holder
        self.seconds_left = seconds_left
        who = str(state.holder) if state.holder else "a lease that cannot be read"
        wait = ""
        if seconds_left is not None:
            wait = f"; last heartbeat {state.age:.0f} s ago, free after {seconds_left:.0f} s more without one"
        super().__init__(f"{cube} is being written by {who}{wait}")


class LeaseLost(Exception):
    """The lease is no longer ours: stop writing."""


class Lease:
    """The right to write one cube, kept by a heartbeat; a context manager.

    Use `acquire`.
    """

    def __init__(self, cube: Path, number: int, holder: Holder, stale_after: float) -> None:
        self.cube = cube
        self.number = number
        self.holder = holder
        self._run = RunFolder(cube)
        self._file = self._run.lease(number)
        self._stale_after = stale_after
        self._last_beat = _clock()
        self._lost = Event()
        self._stop = Event()
        self._thread: Thread | None = None

    @classmethod
    def acquire(
        cls,
        cube: Path,
        *,
        stale_after: float = STALE_AFTER,
        beat_every: float = BEAT_EVERY,
    ) -> Self:
        """Take the lease, or say who has it.

        Parameters
        ----------
        cube : Path
            `<name>.zarr`; it need not exist yet. `<name>.run` is made.
        stale_after : float
            Seconds without a heartbeat after which a holder on another machine counts as gone. One on this
            machine counts as gone as soon as its process is, or is a zombie.
        beat_every : float
            Seconds between heartbeats.

        Raises
        ------
        LeaseHeld
            If its holder lives, or may.
        StorageError
            If the file system refuses, or has no hard links.
        """
        run = RunFolder(cube)
        run.make()
        since = datetime.now(UTC).isoformat(timespec="seconds")
        holder = Holder(token=uuid.uuid4().hex, since=since, released=False, process=this_process())
        with storage_errors(run.path):
            number = _take_number(run, holder, stale_after)
            for old in run.lease_numbers():
                if old < number - KEPT:
                    remove(run.lease(old))
            sync_directory(run.path)
        lease = cls(cube, number, holder, stale_after)
        lease._thread = Thread(target=lease._keep, args=(beat_every,), name="lease", daemon=True)
        lease._thread.start()
        return lease

    @property
    def lost(self) -> bool:
        """Whether the heartbeat found that another process has taken over, or has failed for too long."""
        return self._lost.is_set()

    def check(self) -> None:
        """Make sure of the lease now, before something is written.

        Raises
        ------
        LeaseLost
            If it has been taken over, or its file is gone.
        """
        if not self.lost:
            self.beat()
        if self.lost:
            raise LeaseLost(f"{self.cube}: the lease of {self.holder} has been taken over or removed")

    def beat(self) -> None:
        """One heartbeat: show that the holder lives; called by the thread."""
        try:
            if self._is_ours():
                os.utime(self._file)
                self._last_beat = _clock()
            else:
                self._lost.set()
        except OSError as error:
            logger.warning("heartbeat of %s failed: %s", self._file, error)
            if _clock() - self._last_beat > self._stale_after:
                self._lost.set()

    def release(self) -> None:
        """Give the lease back: the next one need not wait."""
        self._stop.set()
        if self._thread is not None and self._thread is not current_thread():
            self._thread.join()
        with storage_errors(self._file):
            if not self.lost and self._is_ours():
                write_file(self._file, self.holder.model_copy(update={"released": True}).to_json())
                sync_directory(self._file.parent)

    def _is_ours(self) -> bool:
        last = max(self._run.lease_numbers(), default=0)
        found = Holder.read(self._file)
        return last == self.number and found is not None and found.token == self.holder.token

    def _keep(self, beat_every: float) -> None:
        while not self.lost and not self._stop.wait(beat_every):
            self.beat()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def _take_number(run: RunFolder, holder: Holder, stale_after: float) -> int:
    partial = run.unnumbered_lease(holder.token)
    try:
        while True:
            # Written again in every round: its time is that of the file system's clock, as for heartbeats.
            _write(partial, holder.to_json())
            last = last_lease(run, partial.stat().st_mtime)
            left = last.seconds_left(stale_after) if last is not None else 0.0
            if last is not None and left != 0:
                raise LeaseHeld(run.cube, last, left)
            number = last.number + 1 if last is not None else 1
            file = run.lease(number)
            if _link(partial, file, holder):
                if max(run.lease_numbers()) == number:
                    return number
                remove(file)
    finally:
        with suppress(OSError):
            remove(partial)


def _link(partial: Path, file: Path, holder: Holder) -> bool:
    """Whether the number is ours now; False if another process was quicker, or removed our partial file."""
    try:
        os.link(partial, file)
    except (FileExistsError, FileNotFoundError):
        # a network file system may repeat a request that had succeeded
        found = Holder.read(file)
        return found is not None and found.token == holder.token
    except OSError as error:
        if error.errno in NO_LINKS:
            raise StorageError(file, "a file system with hard links", str(error)) from error
        raise
    return True


def _write(path: Path, content: bytes) -> None:
    with open(path, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _clock() -> float:
    """Seconds of a clock that also runs while the machine sleeps, where there is one."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
