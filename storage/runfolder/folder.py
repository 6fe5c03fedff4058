"""The folder beside a cube, and the name of every file in it.

Runs need these files; readers of results do not.
"""

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
# Files of folders of format version 1.
VERSION_1 = ("journal", "head.json", "pilot.json")


def cube_path(results: Path, name: str) -> Path:
    return results / f"{name}.zarr"


class GenerationFolder:
    """`generation.<n>` in the folder of a run: files that the n-th holder of the lease alone writes.

    Its `files` write there and in the cube, until another process takes the lease.
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
        self.writing = path / "writing"  #          incomplete files          driver           nobody
        self.closed = path / "closed"  #            the same, renamed by the next holder
        self.files = Files(self.writing, number, Notes(run.cube, self.written, self.root))

    def open(self) -> None:
        """Make the folder; raise LeaseLost if a later holder has removed it already.

        The lease counts only after this: a later holder then finds the folder and closes it.
        """
        with suppress(FileExistsError):
            self.path.mkdir(mode=0o700)
        with self.files.fenced():
            self.writing.mkdir(mode=0o700, exist_ok=True)


class RunFolder:
    """`<name>.run` beside the cube `<name>.zarr`, whether it exists or not.

    The comments say who writes and who reads each file. *Head*: the process with scheduler and driver, which
    holds the lease; *submit*: the command that starts a detached head; *monitor*: status, logs, cancel, why,
    on any machine.
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
        """Return the path of the lease of the n-th holder, which alone writes it."""
        return self.path / f"{LEASE}{number}"

    def lease_numbers(self) -> list[int]:
        return self._numbers(LEASE)

    def generations(self) -> list[GenerationFolder]:
        """Return the folders of all holders, oldest first; none if they cannot be read."""
        with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
            return [GenerationFolder(self, number) for number in sorted(self._numbers(GENERATION))]
        return []

    @property
    def closed(self) -> str:
        """Explain why the run cannot be read, if it belongs to another user; empty otherwise."""
        with suppress(FileNotFoundError, NotADirectoryError):
            try:
                os.scandir(self.path).close()
            except PermissionError:
                owner = _user(self.path.lstat().st_uid)
                return f"{self.path} belongs to {owner}, and is closed to others"
        return ""

    @property
    def last_run(self) -> GenerationFolder:
        """Folder of the last holder that was a head, and so recorded one; number 0 if there was none."""
        ran = [generation for generation in self.generations() if generation.head.exists()]
        return ran[-1] if ran else GenerationFolder(self, 0)

    def _numbers(self, prefix: str) -> list[int]:
        endings = [name.removeprefix(prefix) for name in os.listdir(self.path) if name.startswith(prefix)]
        return [int(ending) for ending in endings if ending.isdecimal()]

    def make(self) -> Path:
        """Make the folder and its parents; its mode is 0700, because it has keys of a compute cluster.

        Raises
        ------
        InputError
            If it is not a directory, if others may replace it, or if it has files of another user or of no
            run.
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
        """Raise InputError for a link, or a folder with links, pipes or devices, which lead out of it."""
        # A missing or closed folder leads nowhere.
        with suppress(FileNotFoundError, PermissionError):
            if problems := list(self._strange()):
                raise InputError(problems)

    def _untrusted(self) -> Iterator[Problem]:
        """Yield what another user has made, or could put here: job scripts run from this folder."""
        parent = self.path.parent
        mode = parent.stat().st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            description = f"a directory in which everybody may replace folders (mode {mode & 0o7777:04o})"
            yield Problem(str(parent), description, "one that others may not write to", f"chmod o-w {parent}")
        trusted, hint = (0, os.geteuid()), "submit as that user, or use another directory for results"
        # The content of another user's folder is theirs too, and may be closed to us.
        folders = [self.path, *(holder.path for holder in self.generations() if holder.path.is_dir())]
        inside = (path for folder in folders for path in folder.iterdir())
        for path in [self.path] if self.path.lstat().st_uid not in trusted else inside:
            with suppress(FileNotFoundError):  # its holder may remove it at this moment
                if (owner := path.lstat().st_uid) not in trusted:
                    description = f"a file or directory of {_user(owner)}"
                    yield Problem(str(path), description, "one of your own", hint)

    def _strange(self) -> Iterator[Problem]:
        if (kind := kind_of(self.path)) != "a directory":
            yield Problem(str(self.path), kind, "the directory of a run")
            return
        if old_files := [name for name in VERSION_1 if os.path.lexists(self.path / name)]:
            description = f"{', '.join(old_files)} of format version 1"
            hint = "resume it with the release that wrote it, or remove the folder and its cube"
            yield Problem(str(self.path), description, "a folder of format version 2", hint)
        for folder in (self.path, *(generation.path for generation in self.generations())):
            # Its holder may remove the folder meanwhile; a file in its place is an entry of the folder above.
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
