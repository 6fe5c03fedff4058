"""The folder beside a cube: what a run needs and readers of results do not, every file of it by its name."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from storage.errors import storage_errors
from storage.files import BUILDING, PARTIAL, remove
from sweeps.errors import InputError, Problem

CUBE_SUFFIX = ".zarr"
LEASE = "lease."


def cube_path(results: Path, name: str) -> Path:
    """Path of the cube of a sweep."""
    return results / f"{name}.zarr"


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
        self.journal = path / "journal"  #          results of open blocks    driver           driver
        self.pilot = path / "pilot.json"  #         seconds of a restart      driver           driver, plan
        self.state = path / "state.json"  #         how far the driver is     driver           monitor
        self.failures = path / "failures.jsonl"  #  failures of cells         driver           monitor, report
        self.log = path / "log"  #                  what the driver logs      driver           monitor
        self.head = path / "head.json"  #           who runs it, how it ended head, cancel     monitor
        self.jobs = path / "jobs.json"  #           worker jobs               job watch        monitor
        self.job_logs = path / "jobs"  #            logs of worker jobs       worker jobs      watch, monitor
        self.tls = path / "tls"  #                  keys of one run           head             worker jobs
        self.workers = path / "workers"  #          scratch of local workers  local workers    local workers
        self.script = path / "head.sh"  #           the head's job script     submit           the queue
        self.head_log = path / "head.log"  #        what a head prints        detached head    submit, monitor
        self.submission = path / "submission.json"  # a detached head         submit           monitor

    def lease(self, number: int) -> Path:
        """Lease of the n-th holder, `lease.<n>`; written by it, read by all others."""
        return self.path / f"{LEASE}{number}"

    def unnumbered_lease(self, token: str) -> Path:
        """A lease that has no number yet, of a process that wants one; read by no other."""
        return self.path / f"{LEASE}{token}{PARTIAL}"

    def lease_numbers(self) -> list[int]:
        """Numbers of all leases."""
        endings = [name.removeprefix(LEASE) for name in os.listdir(self.path) if name.startswith(LEASE)]
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
            If it is not a directory, belongs to another user, or holds what no run leaves behind.
        StorageError
            If it cannot be made.
        """
        with storage_errors(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileExistsError):
                self.path.mkdir(mode=0o700)
            self.check()
            found = self.path.stat()
            if os.geteuid() not in (0, found.st_uid):
                owner = f"a directory of user {found.st_uid}"
                raise InputError([Problem(str(self.path), owner, "one of your own")])
            if found.st_mode & 0o077:
                self.path.chmod(0o700)
        return self.path

    def check(self) -> None:
        """Refuse a folder that came from elsewhere and would lead a run, or a reader, out of it.

        Raises
        ------
        InputError
            If it is a link or a file, or holds links, pipes or devices.
        """
        problems: list[Problem] = []
        # A folder that is missing, or closed to us, cannot lead anywhere.
        with suppress(FileNotFoundError, PermissionError):
            problems += self._strange()
        if problems:
            raise InputError(problems)

    def clean(self) -> list[Path]:
        """Remove what killed runs were writing; only the holder of the lease may.

        Returns
        -------
        list of Path
            What was removed: files `*.partial` of the cube and its run, and a cube `*.zarr.new` that was
            never finished.

        Raises
        ------
        StorageError
            If the file system refuses.
        """
        unfinished = self.cube.with_name(self.cube.name + BUILDING)
        with storage_errors(self.cube.parent):
            found = [unfinished] if os.path.lexists(unfinished) else []
            for place in (self.cube, self.path):
                for folder, _, names in os.walk(place):
                    found += [Path(folder, name) for name in names if name.endswith(PARTIAL)]
            for path in found:
                remove(path)
        return found

    def _strange(self) -> Iterator[Problem]:
        found = self.path.lstat()
        if not stat.S_ISDIR(found.st_mode):
            kind = "a link" if stat.S_ISLNK(found.st_mode) else "a file"
            yield Problem(str(self.path), kind, "the directory of a run")
            return
        with os.scandir(self.path) as entries:
            for entry in entries:
                if not (entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False)):
                    kind = "a link" if entry.is_symlink() else "a pipe or a device"
                    yield Problem(entry.path, kind, "a file of the run")
