"""Errors of the file system, with the path and what is needed there."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sweep_clustering.storage.remote import CREDENTIALS, Place, place_of

NEEDS = {
    errno.ENOSPC: "free space",
    errno.EDQUOT: "room in the disk quota, which is used up",
    errno.EFBIG: "a limit of file sizes that is not reached (ulimit -f)",
    errno.EROFS: "a file system that is not read-only",
    errno.EACCES: "permission to read and write",
    errno.EPERM: "permission to change the file",
    errno.ENOENT: "the directory, which has vanished",
    errno.ENOTDIR: "a directory, but something else is there",
    errno.ESTALE: "the network file system to come back: its handle is stale",
    errno.EMFILE: "more open files (ulimit -n)",
    errno.ENETUNREACH: "a network, and a server that answers",
    errno.EIO: "a disk that works: the system reports an input/output error",
}


@dataclass(eq=False)
class StorageError(Exception):
    """The file system refused an operation: no result is lost, and no cell has failed."""

    path: Place
    need: str  # a condition for the sweep to continue
    reason: str  # message of the system

    def __str__(self) -> str:
        return f"{self.path}: needs {self.need} ({self.reason})"


class DamagedChunk(StorageError):
    """A chunk file of a cube has changed since it was written, or is missing; nothing of it was used."""

    def __init__(self, path: Place, holds: str, problem: str, cube: Place) -> None:
        super().__init__(path, "repair", problem)
        self.holds, self.cube = holds, cube

    def __str__(self) -> str:
        remedy = f"To have it made again: sweep repair {self.cube}"
        return f"{self.path}: {self.reason}; it holds {self.holds}. {remedy}"


class LeaseLost(Exception):
    """The right to write a cube is gone: another process has taken over, or the lease was removed."""


@contextmanager
def storage_errors(path: Place, n_bytes: int | None = None) -> Iterator[None]:
    """Turn every OSError of the block into a StorageError.

    Parameters
    ----------
    path : Path or str
        place to name if the system's error names no file
    n_bytes : int, optional
        size of the write, which is named if the disk is full
    """
    try:
        yield
    except OSError as error:
        code = error.errno or 0
        # The target, if the operation was a rename.
        name = error.filename2 or error.filename
        where = place_of(name) if isinstance(name, str) else path
        need = NEEDS.get(code, "a file system that accepts the operation")
        if code == errno.EACCES and isinstance(where, str):
            need = CREDENTIALS
        if n_bytes is not None and code in (errno.ENOSPC, errno.EDQUOT):
            need = f"{n_bytes:,} bytes of {need}"
        full = "the disk is full: " if code == errno.ENOSPC else ""
        raise StorageError(where, need, full + (error.strerror or str(error))) from error
