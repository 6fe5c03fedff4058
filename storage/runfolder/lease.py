"""The lease: one writer for each cube, on any machine, without flock.

`<name>.run/lease.<n>` is made by the n-th holder, with `link`, which only one process can do. The highest
number counts. No other process removes or replaces it: one that finds its holder gone makes the next number.
So a slow contender can never take away the lease of a quicker one. With a single file that is removed and
made again it could.

A holder that was suspended does no harm when it wakes: the next one has closed its generation, and every
write of it fails.
"""

import errno
import logging
import os
import socket
import time
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Thread
from typing import ClassVar, Self

from sweep_clustering.storage import files
from sweep_clustering.storage.runfolder import folder

logger = logging.getLogger(__name__)

PROC = Path("/proc")

# Seconds between heartbeats.
BEAT_EVERY = 10.0

# Seconds without a heartbeat after which a holder on another machine counts as gone.
STALE_AFTER = 120.0

# Seconds within which a living holder shows a heartbeat, even a late one.
PATIENCE = 1.5 * BEAT_EVERY

# Seconds between two looks for a heartbeat.
LOOK_EVERY = 0.5

# Old leases that stay, so that a contender that was suspended finds its number taken.
OLD_LEASES = 8

# Errors of file systems without hard links.
NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS)


@dataclass(frozen=True)
class JobVariables:
    """Names of variables in the environment of a job, empty for what its queueing system does not tell."""

    number: str
    name: str = ""
    # Without it, a restarted job waits for the lease like any other process.
    restarts: str = ""
    end: str = ""  # seconds since the epoch
    node: str = ""


# Set by our scripts of worker jobs where the queueing system does not tell when a job ends.
OWN_END = "SWEEP_JOB_END"

# The variables of each queueing system, by the kind of its profiles. The first whose number is set counts,
# because any program may have set a variable with as plain a name as Grid Engine's.
JOB_VARIABLES = {
    "slurm": JobVariables(
        "SLURM_JOB_ID", "SLURM_JOB_NAME", "SLURM_RESTART_COUNT", "SLURM_JOB_END_TIME", "SLURMD_NODENAME"
    ),
    "pbs": JobVariables("PBS_JOBID", "PBS_JOBNAME", end=OWN_END),
    "lsf": JobVariables("LSB_JOBID", "LSB_JOBNAME", end=OWN_END),
    "sge": JobVariables("JOB_ID", "JOB_NAME", "RESTARTED", end=OWN_END),
}


@dataclass(frozen=True)
class OwnJob:
    """The job that this process runs in, with empty values outside of one, and for what it is not told."""

    system: str = ""
    number: str = ""
    name: str = ""
    restarts: int = 0
    end: float | None = None  # seconds since the epoch
    node: str = ""


def own_job() -> OwnJob:
    """Return the job that this process runs in, according to its environment."""
    for system, names in JOB_VARIABLES.items():
        if number := os.environ.get(names.number):
            restarts, end = os.environ.get(names.restarts, ""), os.environ.get(names.end)
            return OwnJob(
                system=system,
                number=number,
                name=os.environ.get(names.name, ""),
                restarts=int(restarts) if restarts.isdecimal() else 0,
                end=float(end) if end else None,
                node=os.environ.get(names.node, ""),
            )
    return OwnJob()


OnLost = Callable[[files.LeaseLost], None]


class ProcessIdentity(folder.Record):
    """Identity of a process among all machines and all times."""

    host: str  # for people: containers and cloned machines share names
    boot_id: str  # one start of one machine
    pid_namespace: str  # containers of one machine count their processes apart
    pid: int
    process_start: str  # process ids are used again
    job_id: str  # number in the batch system, or empty
    job_restarts: int = 0

    def succeeds(self, former: "ProcessIdentity") -> bool:
        """Whether the batch system has restarted the job of the former process as this one."""
        return bool(self.job_id) and self.job_id == former.job_id and self.job_restarts > former.job_restarts


def this_process() -> ProcessIdentity:
    """Return the identity of the calling process."""
    job = own_job()
    return ProcessIdentity(
        host=socket.gethostname(),
        boot_id=boot_id(),
        pid_namespace=_pid_namespace(),
        pid=os.getpid(),
        process_start=process_start(os.getpid()) or "",
        job_id=job.number,
        job_restarts=job.restarts,
    )


def is_alive(process: ProcessIdentity) -> bool | None:
    """Whether a process lives; a zombie is dead. None if it is on another machine, boot or container."""
    if (process.boot_id, process.pid_namespace) != (boot_id(), _pid_namespace()):
        return None
    return process_start(process.pid) == process.process_start


def boot_id() -> str:
    """Return the identity of this boot of this machine."""
    try:
        return (PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        import psutil  # not needed on Linux

        return f"{socket.gethostname()} {psutil.boot_time():.0f}"


def _pid_namespace() -> str:
    try:
        return os.readlink(PROC / "self/ns/pid")
    except OSError:
        return ""


def process_start(pid: int) -> str | None:
    """Return the start of a process, None if it does not live."""
    # Ticks since boot do not move when the clock is set, unlike psutil's time of day.
    if (PROC / "self/stat").exists():
        try:
            fields = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            return None
        state, start = fields[0], fields[19]
        return None if state in "ZXx" else start
    import psutil

    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else f"{process.create_time():.2f}"
    except psutil.NoSuchProcess:
        return None


def close_older(run: folder.RunFolder, number: int) -> None:
    """Close the generations before a number: from here on every rename of their holders fails.

    A holder makes its folder, checks that no higher number is taken, and only then writes. So one look
    suffices: a holder whose folder appears later finds our number, and gives up.
    """
    for generation in _older(run, number):
        with suppress(FileNotFoundError):
            os.rename(generation.writing, generation.closed_writing)
            files.sync_directory(generation.path, has_note=False)


def inherit(run: folder.RunFolder, generation: folder.GenerationFolder, *, fresh: bool = False) -> None:
    """Copy what older generations hold into this one, then remove them.

    A kill on the way loses nothing: the older ones are removed last, and copying twice changes nothing.
    `fresh` says that the cube is yet to be made: the older results are those of a removed cube, and are
    dropped. Raises JournalDamaged for content that no kill leaves behind, or StorageError.
    """
    # Imported here, so that commands that only look at a lease do not load it.
    from sweep_clustering.storage.runfolder.journal import Journal

    older = _older(run, generation.number)
    with files.storage_errors(run.path):
        if fresh:
            if any(former.journal.exists() and former.journal.stat().st_size for former in older):
                words = "%s was removed: results in %s that were to go there are dropped"
                logger.warning(words, run.cube, run.path)
        else:
            with Journal(generation.journal, generation.files) as journal:
                journal.copy(former.journal for former in older)
            for name in ("pilot", "root", "failures", "digests"):
                *copies, target = (getattr(holder, name) for holder in (*older, generation))
                if name in ("failures", "digests"):
                    content = folder.merged_lines([*copies, target])
                else:  # the newest counts
                    newest = next((file for file in (target, *copies[::-1]) if file.exists()), None)
                    content = newest.read_bytes() if newest else b""
                if content:
                    generation.files.put(target, content)
            files.sync_directory(generation.path, has_note=False)
        for path in (*(former.path for former in older), *run.path.glob(f"*{files.PARTIAL}")):
            files.remove(path)


def _older(run: folder.RunFolder, number: int) -> list[folder.GenerationFolder]:
    return [generation for generation in run.generations() if generation.number < number]


class Holder(folder.FileRecord):
    """A process that holds, or held, the lease."""

    absence: ClassVar[type[OSError]] = FileNotFoundError

    token: str  # unique to one acquisition
    since: str  # ISO 8601, UTC
    released: bool
    process: ProcessIdentity

    def __str__(self) -> str:
        job = f", job {self.process.job_id}" if self.process.job_id else ""
        return f"process {self.process.pid} on {self.process.host}{job}, since {self.since}"


@dataclass(frozen=True)
class LeaseState:
    """State of a lease at one look."""

    number: int  # position among all leases of this cube
    holder: Holder | None  # None if the file cannot be read
    # Time of the last heartbeat, in ns of the file system's clock. It is compared with other heartbeats
    # alone, as clocks of two machines differ.
    beat: int
    is_alive: bool | None  # None for a process on another machine

    @property
    def is_free(self) -> bool:
        """Whether the lease was given back, or its process is gone."""
        return self.is_alive is False or (self.holder is not None and self.holder.released)

    def age(self, current_time: float) -> float:
        """Return the seconds since the last heartbeat, by a time of the same clock as the file system's."""
        return current_time - self.beat / 1e9


def read_lease(cube: Path, moment: float | None = None) -> LeaseState | None:
    """Return the lease that counts, None if there was none; this takes up to `PATIENCE` seconds.

    A heartbeat that is recent by `moment`, the time of any clock, is believed. Another one may come from a
    dead holder, or from a living one on a machine whose clock differs; then the next one is awaited. So
    `is_alive` is None only for a recent heartbeat of a process on another machine.
    """
    run = folder.RunFolder(cube)
    with files.storage_errors(run.path):
        state = last_lease(run)
        moment = moment or time.time()
        if state is None or state.is_free or state.is_alive or 0 <= state.age(moment) < STALE_AFTER:
            return state
        start, holder = clock(), state.holder or "an unknown process"
        logger.info("waiting up to %.0f s for a heartbeat of %s", PATIENCE, holder)
        while clock() - start < PATIENCE:
            time.sleep(LOOK_EVERY)
            look = last_lease(run)
            if look is None or look.is_free or look.is_alive or look.number != state.number:
                return look
            if look.beat != state.beat:
                # A heartbeat since the first look, by this clock alone: its holder lives.
                return replace(look, is_alive=True)
        return replace(state, is_alive=False)


def last_lease(run: folder.RunFolder) -> LeaseState | None:
    """Return the lease that counts now, None if there is none."""
    if not run.path.is_dir():
        return None
    # Folders first. A folder is made after its lease, so a process that takes the lease between these two
    # looks shows both, or its lease alone; the other way round its lease would seem to be removed.
    generations = [generation.number for generation in run.generations()]
    leases = run.lease_numbers()
    number = max([0, *leases, *generations])
    if not number:
        return None
    if number not in leases:
        # The lease was removed, and with it the right to write.
        return LeaseState(number, None, 0, is_alive=False)
    file = run.lease(number)
    holder = Holder.read(file)
    # Opening makes a network file system ask its server instead of a cache.
    with file.open("rb") as stream:
        beat = os.fstat(stream.fileno()).st_mtime_ns
    return LeaseState(number, holder, beat, is_alive(holder.process) if holder else None)


def clock() -> float:
    """Return the seconds of a clock that also runs while the machine sleeps, if there is one."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


@dataclass(eq=False)
class LeaseHeld(Exception):
    """Another process writes this cube: it lives, or its last heartbeat is `silent` seconds old."""

    cube: Path
    holder: Holder | None
    silent: float | None

    def __str__(self) -> str:
        holder = str(self.holder or "a lease that cannot be read")
        if self.silent is not None:
            holder += f"; last heartbeat {self.silent:.0f} s ago, free after {STALE_AFTER:.0f} s without one"
        return f"{self.cube} is being written by {holder}"


class Cancelled(files.LeaseLost):
    """`sweep cancel` has requested that every head of this cube ends."""


class Lease(AbstractContextManager["Lease"]):
    """The right to write one cube, kept by a heartbeat; a context manager. Use `acquire`."""

    def __init__(self, generation: folder.GenerationFolder, holder: Holder, on_lost: OnLost) -> None:
        self.generation, self.holder = generation, holder
        self.cube, self.number, self.files = generation.run.cube, generation.number, generation.files
        self._run = generation.run
        self._file = self._run.lease(self.number)
        self._last_beat = clock()
        self._on_lost = on_lost
        self._loss: files.LeaseLost | None = None
        self._stop = Event()
        self.thread = Thread(target=self.keep_beating, name="lease", daemon=True)

    @classmethod
    def acquire(cls, cube: Path, *, on_lost: OnLost = lambda loss: None) -> Self:
        """Take the lease, or raise LeaseHeld if its holder lives, or may live.

        A holder on this machine counts as gone as soon as its process is, or is a zombie; a holder that the
        batch system has restarted as this process, at once; any other after `STALE_AFTER` seconds without a
        heartbeat, and `PATIENCE` seconds in which none came. The thread of heartbeats calls `on_lost` with
        the reason of a loss. Raises StorageError if the file system refuses, or has no hard links.
        """
        run = folder.RunFolder(cube)
        run.make()
        start = datetime.now(UTC).isoformat(timespec="seconds")
        holder = Holder(token=uuid.uuid4().hex, since=start, released=False, process=this_process())
        with files.storage_errors(run.path):
            generation = _take_generation(run, holder)
            close_older(run, generation.number)
            for old in run.lease_numbers():
                if old < generation.number - OLD_LEASES:
                    files.remove(run.lease(old))
            files.sync_directory(run.path, has_note=False)
        lease = cls(generation, holder, on_lost)
        lease.thread.start()
        return lease

    def check(self) -> None:
        """Raise LeaseLost if the lease is gone, `Cancelled` if the run is to end; called before a write."""
        if self._loss is None:
            self.beat()
        if self._loss is not None:
            raise self._loss

    def beat(self) -> None:
        """Show that the holder lives; the thread calls this."""
        try:
            last, holder = max(self._run.lease_numbers(), default=0), Holder.read(self._file)
            if last != self.number or holder is None or holder.token != self.holder.token:
                self._loss = self._loss or files.LeaseLost(f"{self.cube}: {self.holder} has lost the lease")
                return
            if self._run.stop.exists():
                self._loss = self._loss or Cancelled(f"{self.cube}: cancelled")
            os.utime(self._file)
            self._last_beat = clock()
        except OSError as error:
            logger.warning("heartbeat of %s failed: %s", self._file, error)
            if clock() - self._last_beat > STALE_AFTER:
                reason = f"{self.cube}: no heartbeat was possible for {STALE_AFTER:.0f} s"
                self._loss = self._loss or files.LeaseLost(reason)

    def release(self) -> None:
        """Give the lease back, so that the next holder need not wait."""
        self._stop.set()
        self.thread.join()
        if self._loss is not None and not isinstance(self._loss, Cancelled):
            return
        # Fenced like every write: a lease that was taken over needs no release.
        with files.storage_errors(self._file), suppress(files.LeaseLost):
            self.holder.model_copy(update={"released": True}).write(self._file, self.files)
            files.sync_directory(self._file.parent, has_note=False)

    def keep_beating(self) -> None:
        # Heartbeats go on after a cancel until the run has ended: a holder that winds up still lives.
        is_reported = False
        while not self._stop.wait(BEAT_EVERY):
            self.beat()
            if self._loss is not None and not is_reported:
                is_reported = True
                self._on_lost(self._loss)

    def __exit__(self, *error: object) -> None:
        self.release()


def _take_generation(run: folder.RunFolder, holder: Holder) -> folder.GenerationFolder:
    partial = run.lease(f"{holder.token}{files.PARTIAL}")  # its name until it has a number
    try:
        while True:
            # Written again in every round: its time comes from the file system's clock, as that of
            # heartbeats.
            files.write_new(partial, holder.to_text(0).encode())
            file_time = partial.stat().st_mtime
            state = last_lease(run)
            former_holder = state.holder if state is not None else None
            if former_holder is None or not holder.process.succeeds(former_holder.process):
                state = read_lease(run.cube, file_time)
                if state is not None and not state.is_free:
                    raise LeaseHeld(run.cube, state.holder, None if state.is_alive else state.age(file_time))
            # The number after the judged one: any other may belong to a living holder.
            number = 1 if state is None else state.number + 1
            file = run.lease(number)
            if _link(partial, file, holder):
                generation = folder.GenerationFolder(run, number)
                with suppress(files.LeaseLost):
                    generation.open()
                    # After its folder was made, see `close_older`.
                    if max(run.lease_numbers()) == number:
                        return generation
                files.remove(generation.path)
                files.remove(file)
    finally:
        with suppress(OSError):
            files.remove(partial)


def _link(partial: Path, file: Path, holder: Holder) -> bool:
    """Whether the number is ours now; False if another process was quicker, or removed our partial file."""
    try:
        os.link(partial, file)
    except (FileExistsError, FileNotFoundError):
        # a network file system may repeat a request that had succeeded
        holder_of_file = Holder.read(file)
        return holder_of_file is not None and holder_of_file.token == holder.token
    except OSError as error:
        if error.errno in NO_LINKS:
            raise files.StorageError(file, "a file system with hard links", str(error)) from error
        raise
    return True
