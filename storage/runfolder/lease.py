"""The lease: one writer for each cube, on any machine, without flock.

`<name>.run/lease.<n>` is made by the n-th holder, with `link`, which only one can do. The highest number
counts. No other process removes or replaces it: one that finds its holder gone makes the next number. So a
slow contender can never take away the lease of a quicker one, as it could with one file that is removed and
made again.

Nor can a holder that was suspended do harm when it wakes: the next one has closed its generation, and every
write of it fails.
"""

from __future__ import annotations

import errno
import logging
import os
import uuid
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Thread, current_thread
from types import TracebackType
from typing import Self

from storage.errors import LeaseLost, StorageError, storage_errors
from storage.files import remove, sync_directory
from storage.runfolder.folder import RunFolder
from storage.runfolder.generation import Generation, close_older
from storage.runfolder.holder import (
    BEAT_EVERY,
    STALE_AFTER,
    Holder,
    LeaseState,
    clock,
    last_lease,
    read_lease,
    settled_lease,
)
from storage.runfolder.process import this_process

__all__ = ["Cancelled", "Lease", "LeaseHeld", "LeaseLost", "read_lease"]

logger = logging.getLogger(__name__)

KEPT = 8
"""Old leases that stay, so that a contender that was suspended finds the number it wants taken."""

OnLost = Callable[[LeaseLost], None]

NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS)


class LeaseHeld(Exception):
    """Another process writes this cube."""

    def __init__(self, cube: Path, state: LeaseState, silent: float | None = None) -> None:
        self.cube = cube
        self.holder = state.holder
        self.silent = silent
        who = str(state.holder) if state.holder else "a lease that cannot be read"
        seen = ""
        if silent is not None:
            seen = f"; last heartbeat {silent:.0f} s ago, free after {STALE_AFTER:.0f} s without one"
        super().__init__(f"{cube} is being written by {who}{seen}")


class Cancelled(LeaseLost):
    """`sweep cancel` has asked every head of this cube to end."""


class Lease:
    """The right to write one cube, kept by a heartbeat; a context manager.

    Use `acquire`.
    """

    def __init__(
        self, generation: Generation, run: RunFolder, holder: Holder, stale_after: float, on_lost: OnLost
    ) -> None:
        self.cube = run.cube
        self.number = generation.number
        self.holder = holder
        self.generation = generation
        self.files = generation.files
        self._run = run
        self._file = run.lease(self.number)
        self._stale_after = stale_after
        self._last_beat = clock()
        self._on_lost = on_lost
        self._why: LeaseLost | None = None
        self._stop = Event()
        self._thread: Thread | None = None

    @classmethod
    def acquire(
        cls,
        cube: Path,
        *,
        stale_after: float = STALE_AFTER,
        patience: float | None = None,
        beat_every: float = BEAT_EVERY,
        on_lost: OnLost = lambda why: None,
    ) -> Self:
        """Take the lease, or say who has it.

        Parameters
        ----------
        cube : Path
            `<name>.zarr`; it need not exist yet. `<name>.run` is made.
        stale_after : float
            Seconds without a heartbeat after which a holder on another machine counts as gone. One on this
            machine counts as gone as soon as its process is, or is a zombie; one that the batch system has
            started again as this process, at once.
        patience : float, optional
            Seconds in which no heartbeat must come before such a holder is taken over, see `settled_lease`.
        beat_every : float
            Seconds between heartbeats.
        on_lost : callable
            Called with the reason when a heartbeat finds that the lease is lost, in the thread of heartbeats.

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
            generation = _take_generation(run, holder, stale_after, patience)
            close_older(run, generation.number)
            for old in run.lease_numbers():
                if old < generation.number - KEPT:
                    remove(run.lease(old))
            sync_directory(run.path)
        lease = cls(generation, run, holder, stale_after, on_lost)
        lease._thread = Thread(target=lease._keep, args=(beat_every,), name="lease", daemon=True)
        lease._thread.start()
        return lease

    @property
    def lost(self) -> bool:
        """Whether another process has taken over, a cancel was asked for, or heartbeats fail for too long."""
        return self._why is not None

    def check(self) -> None:
        """Make sure of the lease now, before something is written or started.

        Raises
        ------
        LeaseLost
            If it has been taken over, or its file is gone.
        Cancelled
            If the run is to end.
        """
        if not self.lost:
            self.beat()
        if self._why is not None:
            raise self._why

    def beat(self) -> None:
        """One heartbeat: show that the holder lives; called by the thread."""
        try:
            if not self._is_ours():
                self._lose(LeaseLost(f"{self.cube}: {self.holder} has lost the lease"))
                return
            if self._run.stop.exists():
                self._lose(Cancelled(f"{self.cube}: cancelled"))
            os.utime(self._file)
            self._last_beat = clock()
        except OSError as error:
            logger.warning("heartbeat of %s failed: %s", self._file, error)
            if clock() - self._last_beat > self._stale_after:
                self._lose(LeaseLost(f"{self.cube}: no heartbeat was possible for {self._stale_after:.0f} s"))

    def _lose(self, why: LeaseLost) -> None:
        if self._why is None:
            self._why = why

    def release(self) -> None:
        """Give the lease back: the next one need not wait."""
        self._stop.set()
        if self._thread is not None and self._thread is not current_thread():
            self._thread.join()
        if self.lost and not isinstance(self._why, Cancelled):
            return
        # Fenced like every write: a lease that was taken over needs no release.
        with storage_errors(self._file), suppress(LeaseLost):
            self.holder.model_copy(update={"released": True}).write(self._file, self.files)
            sync_directory(self._file.parent)

    def _is_ours(self) -> bool:
        last = max(self._run.lease_numbers(), default=0)
        found = Holder.read(self._file)
        return last == self.number and found is not None and found.token == self.holder.token

    def _keep(self, beat_every: float) -> None:
        # Also after a cancel, until the run has ended: a holder that winds up still lives.
        told = False
        while not self._stop.wait(beat_every):
            self.beat()
            if self._why is not None and not told:
                told = True
                self._on_lost(self._why)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def _take_generation(
    run: RunFolder, holder: Holder, stale_after: float, patience: float | None
) -> Generation:
    partial = run.unnumbered_lease(holder.token)
    try:
        while True:
            # Written again in every round: its time is that of the file system's clock, as for heartbeats.
            _write(partial, holder.to_text(0).encode())
            now = partial.stat().st_mtime
            state = last_lease(run)
            if state is not None and not _succeeds(holder, state):
                state = settled_lease(run, now, stale_after, patience)
                if state is not None and not state.free:
                    raise LeaseHeld(run.cube, state, None if state.alive else state.age(now))
            # The one after that which was judged: any other may be of a living holder.
            number = 1 if state is None else state.number + 1
            file = run.lease(number)
            if _link(partial, file, holder):
                generation = Generation(run, number)
                with suppress(LeaseLost):
                    generation.open()
                    # After its folder was made, see `close_older`.
                    if max(run.lease_numbers()) == number:
                        return generation
                remove(generation.path)
                remove(file)
    finally:
        with suppress(OSError):
            remove(partial)


def _succeeds(holder: Holder, state: LeaseState) -> bool:
    return state.holder is not None and holder.process.succeeds(state.holder.process)


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
