"""The lease: one writer for each cube, on any machine, without flock.

`<name>.run/lease.<n>` is made by the n-th holder, with `link`, which only one can do. The highest number
counts. No other process removes or replaces it: one that finds its holder gone makes the next number. So a
slow contender can never take away the lease of a quicker one, as it could with one file that is removed and
made again.

Nor can a holder that was suspended do harm when it wakes: the next one has closed its generation, and every
write of it fails.
"""

import errno
import logging
import os
import time
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Thread
from typing import Self

from sweep_clustering.storage.errors import LeaseLost, StorageError, storage_errors
from sweep_clustering.storage.files import PARTIAL, remove, sync_directory, write_new
from sweep_clustering.storage.runfolder.folder import GenerationFolder, RunFolder
from sweep_clustering.storage.runfolder.process import ProcessIdentity, is_alive, this_process
from sweep_clustering.storage.runfolder.records import FileRecord, merged_lines

__all__ = ["Cancelled", "Lease", "LeaseHeld", "LeaseLost", "read_lease"]


# Generations of the lease: closing those before, and taking over what they hold.

logger = logging.getLogger(__name__)


def close_older(run: RunFolder, number: int) -> None:
    """Keep all holders before the n-th from writing: from here on every rename of theirs fails.

    One look at the folder is enough. A holder makes its folder, then makes sure that no higher number is
    taken, and only then writes. So one whose folder appears after this look finds our number, and gives up.

    Parameters
    ----------
    run : RunFolder
        Whose lease the caller has just taken.
    number : int
        Of its lease.
    """
    for generation in _older(run, number):
        with suppress(FileNotFoundError):
            os.rename(generation.writing, generation.closed)
            sync_directory(generation.path, has_note=False)


def inherit(run: RunFolder, generation: GenerationFolder, *, fresh: bool = False) -> None:
    """Take over what older generations hold, then remove them.

    Records of their journals, timings, failures, and notes on files of the cube become files of this
    generation. A kill on the way loses nothing: the older ones are removed last, and what was copied twice is
    found to be the same.

    Parameters
    ----------
    run : RunFolder
        Of the lease.
    generation : GenerationFolder
        Of its holder.
    fresh : bool
        Whether the cube is yet to be made: what is here is then of one that was removed, maybe of another
        sweep, and is removed too. Results would be taken for those of the new one.

    Raises
    ------
    JournalDamaged
        If a journal holds what no kill leaves behind.
    StorageError
        If the file system refuses.
    """
    from sweep_clustering.storage.runfolder.journal import (
        Journal,  # here, so that who only looks at a lease does not load it
    )

    older = _older(run, generation.number)
    with storage_errors(run.path):
        if fresh:
            if any(each.journal.exists() and each.journal.stat().st_size for each in older):
                words = "%s was removed: results in %s that were to go there are dropped"
                logger.warning(words, run.cube, run.path)
        else:
            with Journal(generation.journal, generation.files) as journal:
                journal.copy(each.journal for each in older)
            for name in ("pilot", "root", "failures", "written"):
                *former, own = (getattr(each, name) for each in (*older, generation))
                if name in ("failures", "written"):
                    content = merged_lines([*former, own])
                else:  # the newest counts
                    content = next((file.read_bytes() for file in (own, *former[::-1]) if file.exists()), b"")
                if content:
                    generation.files.put(own, content)
            sync_directory(generation.path, has_note=False)
        for path in (*(each.path for each in older), *run.path.glob(f"*{PARTIAL}")):
            remove(path)


def _older(run: RunFolder, number: int) -> list[GenerationFolder]:
    return [generation for generation in run.generations() if generation.number < number]


# Lease files: who holds a cube, or held it.

# Seconds between heartbeats.
BEAT_EVERY = 10.0

# Seconds without a heartbeat after which a holder that cannot be seen from here counts as gone.
STALE_AFTER = 120.0

# Seconds in which a heartbeat of a living holder is seen, even if it is late.
PATIENCE = 1.5 * BEAT_EVERY

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
        with suppress(FileNotFoundError):
            return cls.parse(path.read_bytes(), path)
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


def read_lease(cube: Path, now: float | None = None) -> LeaseState | None:
    """The lease that counts, and whether its holder lives; takes up to `PATIENCE` seconds.

    A heartbeat that is recent by `now` is believed. Any other may come from a holder that is dead, or from a
    living one on a machine whose clock differs; then the next one is waited for.

    Parameters
    ----------
    cube : Path
        `<name>.zarr`.
    now : float, optional
        Time of a clock that may be that of the file system, but need not; that of this machine by default.

    Returns
    -------
    LeaseState or None
        None if the cube was never written. `alive` is None only where the last heartbeat is recent, of a
        process that cannot be seen from here.

    Raises
    ------
    StorageError
        If the file system refuses.
    """
    run = RunFolder(cube)
    with storage_errors(run.path):
        state = last_lease(run)
        if state is None or state.free or state.alive or 0 <= state.age(now or time.time()) < STALE_AFTER:
            return state
        since, holder = clock(), state.holder or "an unknown process"
        logger.info("waiting up to %.0f s for a heartbeat of %s", PATIENCE, holder)
        while clock() - since < PATIENCE:
            time.sleep(LOOK_EVERY)
            found = last_lease(run)
            if found is None or found.free or found.alive or found.number != state.number:
                return found
            if found.beat != state.beat:
                # A heartbeat since the first look, by this clock alone: its holder lives.
                return replace(found, alive=True)
        return replace(state, alive=False)


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
    # Opened: a network file system asks its server then, and may answer from a cache otherwise.
    with file.open("rb") as opened:
        beat = os.fstat(opened.fileno()).st_mtime_ns
    return LeaseState(number, holder, beat, is_alive(holder.process) if holder else None)


def clock() -> float:
    """Seconds of a clock that also runs while the machine sleeps, where there is one."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


# Old leases that stay, so that a contender that was suspended finds the number it wants taken.
KEPT = 8

OnLost = Callable[[LeaseLost], None]

NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS)


@dataclass(eq=False)
class LeaseHeld(Exception):
    """Another process writes this cube, `silent` seconds without a heartbeat, or seen to live."""

    cube: Path
    holder: Holder | None
    silent: float | None

    def __str__(self) -> str:
        who = str(self.holder or "a lease that cannot be read")
        if self.silent is not None:
            who += f"; last heartbeat {self.silent:.0f} s ago, free after {STALE_AFTER:.0f} s without one"
        return f"{self.cube} is being written by {who}"


class Cancelled(LeaseLost):
    """`sweep cancel` has asked every head of this cube to end."""


class Lease(AbstractContextManager["Lease"]):
    """The right to write one cube, kept by a heartbeat; a context manager.

    Use `acquire`.
    """

    def __init__(self, generation: GenerationFolder, holder: Holder, on_lost: OnLost) -> None:
        self.generation, self.holder = generation, holder
        self.cube, self.number, self.files = generation.run.cube, generation.number, generation.files
        self._run = generation.run
        self._file = self._run.lease(self.number)
        self._last_beat = clock()
        self._on_lost = on_lost
        self._why: LeaseLost | None = None
        self._stop = Event()
        self._thread = Thread(target=self._keep, name="lease", daemon=True)

    @classmethod
    def acquire(cls, cube: Path, *, on_lost: OnLost = lambda why: None) -> Self:
        """Take the lease, or say who has it.

        A holder on this machine counts as gone as soon as its process is, or is a zombie; one that the batch
        system has started again as this process, at once; any other after `STALE_AFTER` seconds without a
        heartbeat, and `PATIENCE` seconds in which none came.

        Parameters
        ----------
        cube : Path
            `<name>.zarr`; it need not exist yet. `<name>.run` is made.
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
            generation = _take_generation(run, holder)
            close_older(run, generation.number)
            for old in run.lease_numbers():
                if old < generation.number - KEPT:
                    remove(run.lease(old))
            sync_directory(run.path, has_note=False)
        lease = cls(generation, holder, on_lost)
        lease._thread.start()
        return lease

    def check(self) -> None:
        """Make sure of the lease now, before something is written or started.

        Raises
        ------
        LeaseLost
            If it has been taken over, or its file is gone.
        Cancelled
            If the run is to end.
        """
        if self._why is None:
            self.beat()
        if self._why is not None:
            raise self._why

    def beat(self) -> None:
        """One heartbeat: show that the holder lives; called by the thread."""
        try:
            last, found = max(self._run.lease_numbers(), default=0), Holder.read(self._file)
            if last != self.number or found is None or found.token != self.holder.token:
                self._why = self._why or LeaseLost(f"{self.cube}: {self.holder} has lost the lease")
                return
            if self._run.stop.exists():
                self._why = self._why or Cancelled(f"{self.cube}: cancelled")
            os.utime(self._file)
            self._last_beat = clock()
        except OSError as error:
            logger.warning("heartbeat of %s failed: %s", self._file, error)
            if clock() - self._last_beat > STALE_AFTER:
                why = f"{self.cube}: no heartbeat was possible for {STALE_AFTER:.0f} s"
                self._why = self._why or LeaseLost(why)

    def release(self) -> None:
        """Give the lease back: the next one need not wait."""
        self._stop.set()
        self._thread.join()
        if self._why is not None and not isinstance(self._why, Cancelled):
            return
        # Fenced like every write: a lease that was taken over needs no release.
        with storage_errors(self._file), suppress(LeaseLost):
            self.holder.model_copy(update={"released": True}).write(self._file, self.files)
            sync_directory(self._file.parent, has_note=False)

    def _keep(self) -> None:
        # Also after a cancel, until the run has ended: a holder that winds up still lives.
        told = False
        while not self._stop.wait(BEAT_EVERY):
            self.beat()
            if self._why is not None and not told:
                told = True
                self._on_lost(self._why)

    def __exit__(self, *error: object) -> None:
        self.release()


def _take_generation(run: RunFolder, holder: Holder) -> GenerationFolder:
    partial = run.lease(f"{holder.token}{PARTIAL}")  # until it has a number
    try:
        while True:
            # Written again in every round: its time is that of the file system's clock, as for heartbeats.
            write_new(partial, holder.to_text(0).encode())
            now = partial.stat().st_mtime
            state = last_lease(run)
            former = state.holder if state is not None else None
            if former is None or not holder.process.succeeds(former.process):
                state = read_lease(run.cube, now)
                if state is not None and not state.free:
                    raise LeaseHeld(run.cube, state.holder, None if state.alive else state.age(now))
            # The one after that which was judged: any other may be of a living holder.
            number = 1 if state is None else state.number + 1
            file = run.lease(number)
            if _link(partial, file, holder):
                generation = GenerationFolder(run, number)
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
