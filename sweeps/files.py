"""Files that a user names: limits of their kinds, their sizes, and the memory to read them."""

from __future__ import annotations

import errno
import io
import os
import resource
import select
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sweep_clustering.sweeps.errors import InputError, Problem, refused

FILE = "a readable file"
NO_FILE = "no such file"

# Bytes that are read at once.
PART = 2**20

# Bytes of memory for one file, whatever size the file declares.
MOST_MEMORY = 2**31

# Seconds after which a pipe without a writer fails.
UNWRITTEN = 5.0

# Seconds after which a silent pipe fails.
SILENCE = 60.0

KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def shipped_files() -> list[Path]:
    """Return the sweep files that are installed with the package, in the order of their names."""
    return sorted(Path(__file__).resolve().parent.glob("*.toml"))


class _Source(io.FileIO):
    """A file that was opened without waiting: its content is awaited here for a limited time."""

    def __init__(self, descriptor: int, path: Path) -> None:
        super().__init__(descriptor, "rb")
        self._is_pipe = stat.S_ISFIFO(os.fstat(descriptor).st_mode)
        # an unnamed pipe had its writer, one with a name may still get one
        self._is_begun = "pipe:[" in os.path.realpath(path)

    def readinto(self, buffer: object, /) -> int:
        start = time.monotonic()
        while True:
            n_bytes: int | None = super().readinto(buffer)  # type: ignore[arg-type]
            if n_bytes or (n_bytes == 0 and (self._is_begun or not self._is_pipe)):
                self._is_begun = True
                return n_bytes
            seconds, limit = time.monotonic() - start, SILENCE if n_bytes is None else UNWRITTEN
            if seconds > limit or not self._is_pipe:
                raise OSError(errno.EAGAIN, f"nothing to read in {seconds:.0f} s")
            if n_bytes is None:
                select.select([self], [], [], limit)
            else:
                time.sleep(0.02)


@contextmanager
def opened(
    path: Path, limit: int, expected: str = FILE, *, pipe: bool = False
) -> Iterator[io.BufferedReader[_Source]]:
    """Open a file for the block; a link is followed.

    Parameters
    ----------
    path : Path
        path of the file
    limit : int
        Largest size in bytes. Callers who read in parts count them as well: a file may grow, and pipes and
        files of /proc have no size.
    expected : str
        words for messages
    pipe : bool
        Whether it may be a pipe.

    Raises
    ------
    InputError
        If it is no regular file, is larger, or cannot be read, here or in the block.
    """

    def check(status: os.stat_result) -> None:
        kind = stat.S_IFMT(status.st_mode)
        if kind != stat.S_IFREG and not (pipe and kind == stat.S_IFIFO):
            raise refused(path, KINDS.get(kind, "no file"), expected)
        if status.st_size > limit:
            raise refused(path, f"{status.st_size:,} bytes", f"at most {limit:,}")

    if "\0" in str(path):
        raise refused(repr(str(path)), "a NUL character", expected)
    try:
        check(path.stat())  # before it is opened, which may start a device
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
        with io.BufferedReader(_Source(descriptor, path)) as file:
            check(os.fstat(descriptor))
            yield file
    except OSError as error:
        raise InputError([unreadable(path, error)]) from error


def unreadable(path: Path, error: OSError) -> Problem:
    """Return the problem of a file that is missing or cannot be read."""
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return Problem(str(path), NO_FILE, "")
    return Problem(str(path), f"cannot be read ({error.strerror or error})", "")


def read_file(path: Path, limit: int, expected: str = FILE, *, pipe: bool = False) -> bytes:
    """Return the content of a file; parameters and errors are those of `opened`."""
    content = io.BytesIO()
    with opened(path, limit, expected, pipe=pipe) as file:
        while part := file.read(PART):
            if content.write(part) and content.tell() > limit:
                raise refused(path, f"more than {limit:,} bytes", f"at most {limit:,}")
    return content.getvalue()


@contextmanager
def bounded(path: Path) -> Iterator[None]:
    """Let the block take `MOST_MEMORY`, or as much as a limit of the process leaves; more is an InputError.

    Declared sizes are checked before anything is unpacked. This is for sizes that a file does not declare, or
    declares wrongly.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    try:
        # the memory that counts for the limit; without this file nothing is bounded
        memory = Path("/proc/self/statm")
        if memory.exists():
            n_bytes = int(memory.read_text().split()[5]) * resource.getpagesize()
            limits = [limit for limit in (soft, hard) if limit != resource.RLIM_INFINITY]
            resource.setrlimit(resource.RLIMIT_DATA, (min([*limits, n_bytes + MOST_MEMORY]), hard))
        yield
    except MemoryError as error:
        size = f"more than can be read in {MOST_MEMORY >> 20:,} MiB of memory, or in the memory that is free"
        raise refused(path, size, "a smaller file") from error
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))
