"""The folder beside a cube: what a run needs and readers of results do not, every file of it by its name."""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from sweep_clustering.storage.errors import storage_errors
from sweep_clustering.storage.files import Files, Notes, kind_of
from sweep_clustering.sweeps.errors import InputError, Problem

CUBE_SUFFIX = ".zarr"
LEASE = "lease."
GENERATION = "generation."
# Files that folders of format version 1 had here.
VERSION_1 = ("journal", "head.json", "pilot.json")


def cube_path(results: Path, name: str) -> Path:
    """Path of the cube of a sweep."""
    return results / f"{name}.zarr"


class GenerationFolder:
    """`generation.<n>` in the folder of a run: files that the n-th holder of the lease alone writes.

    `files` is how it writes, there and in the cube, until another process has taken the lease.

    Parameters
    ----------
    run : RunFolder
        Where it is.
    number : int
        Of the lease.
    """

    def __init__(self, run: RunFolder, number: int) -> None:
        self.run = run
        self.number = number
        self.path = path = run.path / f"{GENERATION}{number}"
        # file                                      what it holds             written by       read by
        self.journal = path / "journal"  #          results of open blocks    driver           next driver
        self.pilot = path / "pilot.json"  #         seconds of a restart      driver           drivers, plan
        self.state = path / "state.json"  #         how far the driver is     driver           monitor
        self.failures = path / "failures.jsonl"  #  failures of cells         driver           monitor, report
        self.written = path / "digests"  #          digests of files written   driver           verify, repair
        self.root = path / "root.json"  #           the cube's root file      driver           verify, repair
        self.head = path / "head.json"  #           who runs it, how it ended head             monitor
        self.jobs = path / "jobs.json"  #           worker jobs               job watch        monitor
        self.tls = path / "tls"  #                  keys of one run           head             workers
        self.workers = path / "workers"  #          scratch of local workers  local workers    local workers
        self.writing = path / "writing"  #          what is not complete yet  driver           nobody
        self.closed = path / "closed"  #            the same, taken away by the next holder
        self.files = Files(self.writing, number, Notes(run.cube, self.written, self.root))

    def open(self) -> None:
        """Make the folder, before the lease counts as taken: so a later holder finds it and closes it.

        Raises
        ------
        LeaseLost
            If a later holder has removed it already.
        """
        with suppress(FileExistsError):
            self.path.mkdir(mode=0o700)
        with self.files.fenced():
            self.writing.mkdir(mode=0o700, exist_ok=True)


class RunFolder:
    """`<name>.run` beside `<name>.zarr`, whether it exists or not.

    Who writes and who reads each file. *Head*: the process with scheduler and driver, which holds the lease;
    *submit*: the command that starts a detached head; *monitor*: status, logs, cancel, why, on any machine.

    Parameters
    ----------
    cube : Path
        `<name>.zarr`; it need not exist.
    """

    def __init__(self, cube: Path) -> None:
        self.cube = cube
        self.path = path = cube.with_name(cube.name.removesuffix(CUBE_SUFFIX) + ".run")
        # file                                      what it holds             written by       read by
        self.log = path / "log"  #                  what drivers log          drivers, added   monitor
        self.job_logs = path / "jobs"  #            logs of worker jobs       worker jobs      watch, monitor
        self.script = path / "head.sh"  #           the head's job script     submit           the queue
        self.head_log = path / "head.log"  #        what a head prints        detached head    submit, monitor
        self.submission = path / "submission.json"  # a detached head         submit           monitor
        self.stop = path / "stop.json"  #           asks every head to end    cancel, submit   head, job watch

    def lease(self, number: int | str) -> Path:
        """Lease of the n-th holder, `lease.<n>`; written by it, read by all others."""
        return self.path / f"{LEASE}{number}"

    def lease_numbers(self) -> list[int]:
        """Numbers of all leases."""
        return self._numbers(LEASE)

    def generations(self) -> list[GenerationFolder]:
        """Folders of all holders that have one, oldest first; none where no folder can be read."""
        with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
            return [GenerationFolder(self, number) for number in sorted(self._numbers(GENERATION))]
        return []

    @property
    def closed(self) -> str:
        """Why nothing of the run can be read: it is another user's; empty where it is ours, or not there."""
        with suppress(FileNotFoundError, NotADirectoryError):
            try:
                os.scandir(self.path).close()
            except PermissionError:
                owner = _user(self.path.lstat().st_uid)
                return f"{self.path} belongs to {owner}, and is closed to others"
        return ""

    @property
    def last_run(self) -> GenerationFolder:
        """Folder of the last holder that was a head; that of no holder where there was none.

        Commands that hold the lease for a moment, without running anything, leave no record of a head.
        """
        ran = [generation for generation in self.generations() if generation.head.exists()]
        return ran[-1] if ran else GenerationFolder(self, 0)

    def _numbers(self, prefix: str) -> list[int]:
        endings = [name.removeprefix(prefix) for name in os.listdir(self.path) if name.startswith(prefix)]
        return [int(ending) for ending in endings if ending.isdecimal()]

    def make(self) -> Path:
        """Make the folder, for its owner alone: it holds keys and addresses of a compute cluster.

        Its parent is made if missing.

        Returns
        -------
        Path
            Mode 0700.

        Raises
        ------
        InputError
            If it is not a directory, is where others may replace it, holds what belongs to another user, or
            what no run leaves behind.
        StorageError
            If it cannot be made.
        """
        with storage_errors(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileExistsError):
                self.path.mkdir(mode=0o700)
            self.check()
            if problems := list(self._untrusted()):
                raise InputError(problems)
            if self.path.stat().st_mode & 0o077:
                self.path.chmod(0o700)
        return self.path

    def check(self) -> None:
        """Refuse a folder that came from elsewhere and would lead a run, or a reader, out of it.

        Raises
        ------
        InputError
            If it is a link or a file, or holds links, pipes or devices.
        """
        # A folder that is missing, or closed to us, cannot lead anywhere.
        with suppress(FileNotFoundError, PermissionError):
            if problems := list(self._strange()):
                raise InputError(problems)

    def _untrusted(self) -> Iterator[Problem]:
        """What another user has made, or could put in the place of the folder: job scripts run from it."""
        parent = self.path.parent
        mode = parent.stat().st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            found = f"a directory in which everybody may replace folders (mode {mode & 0o7777:04o})"
            yield Problem(str(parent), found, "one that others may not write to", f"chmod o-w {parent}")
        ours, hint = (0, os.geteuid()), "submit as that user, or use another directory for results"
        # what lies in a folder of another user is theirs as well, and maybe closed to us
        folders = [self.path, *(each.path for each in self.generations() if each.path.is_dir())]
        inside = (path for folder in folders for path in folder.iterdir())
        for path in [self.path] if self.path.lstat().st_uid not in ours else inside:
            with suppress(FileNotFoundError):  # of a holder that removes it now
                if (user := path.lstat().st_uid) not in ours:
                    found = f"a file or directory of {_user(user)}"
                    yield Problem(str(path), found, "one of your own", hint)

    def _strange(self) -> Iterator[Problem]:
        if (kind := kind_of(self.path)) != "a directory":
            yield Problem(str(self.path), kind, "the directory of a run")
            return
        if old := [name for name in VERSION_1 if os.path.lexists(self.path / name)]:
            files = f"{', '.join(old)} of format version 1"
            hint = "resume it with the release that wrote it, or remove the folder and its cube"
            yield Problem(str(self.path), files, "a folder of format version 2", hint)
        for folder in (self.path, *(generation.path for generation in self.generations())):
            # A folder that its holder removes meanwhile, or a file in its place, an entry of the one above.
            with suppress(FileNotFoundError, NotADirectoryError):
                for path in folder.iterdir():
                    with suppress(FileNotFoundError):
                        if (kind := kind_of(path)) not in ("a file", "a directory"):
                            yield Problem(str(path), kind, "a file of the run")


def _user(number: int) -> str:
    try:
        return f"user {pwd.getpwuid(number).pw_name} ({number})"
    except KeyError:
        return f"user {number}"
