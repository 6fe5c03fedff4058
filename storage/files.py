"""Files that are whole or absent, and stay so through a loss of power."""

import errno
import hashlib
import itertools
import logging
import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from sweep_clustering.storage.errors import LeaseLost
from sweep_clustering.sweeps.errors import refused

logger = logging.getLogger(__name__)

# Suffix of incomplete files; those of a killed process are removed later.
PARTIAL = ".partial"

# Errors of file systems that cannot sync a directory: CIFS, 9p and some of FUSE.
CANNOT_SYNC = frozenset({errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})

# Devices that the log has named already.
unsynced_devices: set[int] = set()

# Largest root file of a store, in bytes. A sweep of 1,000,000 cells needs 30 kB, and each run adds 1 kB.
LONGEST_ROOT = 2**26


class Notes(NamedTuple):
    """Files in which a holder notes what it wrote into its cube.

    These are digests of all files and a copy of the root file. A checksum within a file shows that it has
    changed, but not that it is another whole file.
    """

    cube: Path
    digests: Path
    root: Path


class Files:
    """A writer that replaces files: readers see the old content or the new, never a part.

    A cube has one writer at a time, the holder of its lease. It may be suspended at any point, by a hung
    mount for instance, and wake after another process has taken over. So it writes everything in a folder
    that it alone uses (None outside of a lease), and renames it from there. The next holder renames that
    folder away, and from then on each rename of the former one fails.
    """

    def __init__(self, folder: Path | None = None, generation: int = 0, notes: Notes | None = None) -> None:
        self.generation = generation
        self._folder = folder
        self._notes = notes
        self._number = itertools.count()

    def put(self, path: Path, data: bytes) -> None:
        """Put `data` at `path` in one step; the parent must exist.

        The content is on disk before the name points to it. The name itself is, after `sync_directory` of the
        parent.
        """
        partial = self.partial(path)
        try:
            with self.fenced():
                self.note([(path, data)])
                write_new(partial, data)
                os.replace(partial, path)
        except Exception:
            partial.unlink(missing_ok=True)
            raise

    def put_all(self, root: Path, files: Iterable[tuple[str, bytes]]) -> None:
        """Put files by keys with `/` below an existing `root`, making directories as needed, all durable."""
        changed_folders = set()
        for key, data in files:
            path = root / key
            missing = [above for above in path.parents if above.is_relative_to(root) and not above.exists()]
            for folder in reversed(missing):
                folder.mkdir(exist_ok=True)
            self.put(path, data)
            changed_folders |= {path.parent, *(folder.parent for folder in missing)}
        # Names last: every content is durable by now.
        for folder in sorted(changed_folders):
            sync_directory(folder)

    def build(self, path: Path, files: Iterable[tuple[str, bytes]]) -> None:
        """Put a new directory at `path` in one step, durable: nothing may be there; its parent must exist."""
        building, files = self.partial(path), list(files)
        with self.fenced():
            self.note((path / key, data) for key, data in files)
            remove(building)  # left by a writer that was killed
            building.mkdir()
            # A plain writer suffices: nobody sees the files before the directory has its name.
            Files().put_all(building, files)
            sync_directory(building)
            os.replace(building, path)
        sync_directory(path.parent)

    def remove(self, path: Path) -> None:
        """Remove a file, a link or a whole directory, if it exists."""
        target = path
        if self._folder is not None:
            target = self.partial(path)
            with self.fenced(), suppress(FileNotFoundError):
                try:
                    os.rename(path, target)
                finally:
                    self.check()
        remove(target)

    def check(self) -> None:
        """Raise LeaseLost if a later holder of the lease has closed the folder."""
        if self._folder is not None:
            with self.fenced():
                os.stat(self._folder)

    def note(self, written: Iterable[tuple[Path, bytes]]) -> None:
        """Note the digests of files of the cube before they get their names, and copy the root file."""
        if self._notes is None:
            return
        (cube, digests, root), lines = self._notes, []
        for path, data in written:
            if path.is_relative_to(cube):
                lines.append(f"\n{digest_of(data)} {path.relative_to(cube).as_posix()}\n")
            if path.parent == cube:  # the root file: all others are below
                copy = self.partial(root)
                write_new(copy, data)
                os.replace(copy, root)
        # The first line break ends a line that a kill may have torn.
        if lines:
            with digests.open("ab", buffering=0) as file:
                file.write("".join(lines).encode())

    def settle(self) -> None:
        """Make the notes durable."""
        if self._notes is not None and self._notes.digests.exists():
            with self.fenced(), self._notes.digests.open("rb+") as file:
                os.fsync(file.fileno())

    def partial(self, path: Path) -> Path:
        """Return the name of a file until it is complete; a holder uses no name twice."""
        if self._folder is None:
            return path.with_name(path.name + PARTIAL)
        return self._folder / f"{next(self._number)}.{path.name}"

    @contextmanager
    def fenced(self) -> Iterator[None]:
        """Turn an error that a later holder of the lease has caused into `LeaseLost`."""
        try:
            yield
        except OSError as error:
            folder = self._folder
            # If the folder of the run is missing too, the disk is gone, which is another error.
            if folder is None or folder.is_dir() or not folder.parents[1].is_dir():
                raise
            raise LeaseLost(f"{folder.parents[1]}: another process has taken the lease") from error


PLAIN = Files()


def digest_of(content: bytes) -> str:
    """Return a digest that differs for other files of the cube, and by all chance for changed ones."""
    return hashlib.blake2b(content, digest_size=12).hexdigest()


def read_regular(path: Path, most: int | None = None) -> bytes:
    """Return the content of a regular file; a link is not followed, and a pipe not awaited.

    Raises InputError for anything else, and for more than `most` bytes.
    """
    if (kind := kind_of(path)) != "a file":
        raise refused(path, kind, "a file of the cube")
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(descriptor, "rb") as file:
        size = os.fstat(descriptor).st_size
        if most is not None and size > most:
            raise refused(path, f"{size:,} bytes", f"at most {most:,}")
        return file.read(-1 if most is None else most)


def kind_of(path: Path) -> str:
    """Return the kind of file at a path, in words; a link is not followed."""
    kinds = {
        stat.S_IFREG: "a file",
        stat.S_IFLNK: "a link",
        stat.S_IFDIR: "a directory",
        stat.S_IFIFO: "a pipe",
    }
    return kinds.get(stat.S_IFMT(os.lstat(path).st_mode), "a device or a socket")


def sync_directory(path: Path, *, has_note: bool = True) -> None:
    """Make the names in a directory durable, or log once that its file system cannot do that.

    `has_note=False` leaves the log to a later call, because it is not open yet.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError as error:
        # some systems open no directory; a directory without permission is another error
        refuses = error.errno in (*CANNOT_SYNC, errno.EACCES, errno.EISDIR)
        if not refuses or not os.path.isdir(path) or not os.access(path, os.R_OK):
            raise
        reason = error.strerror
    else:
        try:
            os.fsync(descriptor)
            return
        except OSError as error:
            if error.errno not in CANNOT_SYNC:
                raise
            reason = error.strerror
        finally:
            os.close(descriptor)
    device = os.stat(path).st_dev
    if has_note and device not in unsynced_devices:
        unsynced_devices.add(device)
        logger.warning(
            "%s: its file system cannot sync a directory (%s). After a loss of power the files written last"
            " may be missing, also of cells that were reported done: sweep verify --checksums finds them",
            path,
            reason,
        )


def write_new(path: Path, data: bytes) -> None:
    """Write a file durably under a name that no reader looks for."""
    # O_NOFOLLOW: a link under this name would lead the write out of the cube.
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    with open(os.open(path, flags, 0o666), "wb") as file:
        file.write(data)
        file.flush()
        # Before the rename: otherwise the name could point to an empty file after a loss of power.
        os.fsync(file.fileno())


def remove(path: Path) -> None:
    """Remove a file, a link or a whole directory, if it exists."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
