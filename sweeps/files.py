"""Files that a user names: what may be read, how much of it, and how much memory that may take."""

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

FILE, NO_FILE = "a readable file", "no such file"

# Bytes that are read at once.
PART = 2**20

# Bytes that reading one file may take, whatever the file says of its size.
MOST_MEMORY = 2**31

# Seconds after which a pipe is given up: one that nobody opens to write, and one that brings nothing.
UNWRITTEN, SILENCE = 5.0, 60.0

KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def shipped_files() -> list[Path]:
    """List the sweep files that are installed with the package, in the order of their names."""
    return sorted(Path(__file__).resolve().parent.glob("*.toml"))


class _Source(io.FileIO):
    """A file that was opened without waiting: what is not there yet is waited for here, and not for ever."""

    def __init__(self, descriptor: int, path: Path) -> None:
        super().__init__(descriptor, "rb")
        self._is_pipe = stat.S_ISFIFO(os.fstat(descriptor).st_mode)
        # of a pipe between two processes the writer was there, one with a name may still get one
        self._is_begun = "pipe:[" in os.path.realpath(path)

    def readinto(self, buffer: object, /) -> int:
        start = time.monotonic()
        while True:
            found: int | None = super().readinto(buffer)  # type: ignore[arg-type]
            if found or (found == 0 and (self._is_begun or not self._is_pipe)):
                self._is_begun = True
                return found
            waited, most = time.monotonic() - start, SILENCE if found is None else UNWRITTEN
            if waited > most or not self._is_pipe:
                raise OSError(errno.EAGAIN, f"nothing to read in {waited:.0f} s")
            if found is None:
                select.select([self], [], [], most)
            else:
                time.sleep(0.02)


@contextmanager
def opened(
    path: Path, most: int, expected: str = FILE, *, pipe: bool = False
) -> Iterator[io.BufferedReader[_Source]]:
    """Open a file for the block; a link is followed.

    Parameters
    ----------
    path : Path
        The file.
    most : int
        Largest size in bytes. Who reads in parts counts them as well: a file may grow, and those of /proc and
        pipes have no size.
    expected : str
        For messages.
    pipe : bool
        Whether it may be a pipe.

    Raises
    ------
    InputError
        If it is no regular file, is larger, or cannot be read, here or in the block.
    """

    def checked(found: os.stat_result) -> None:
        kind = stat.S_IFMT(found.st_mode)
        if kind != stat.S_IFREG and not (pipe and kind == stat.S_IFIFO):
            raise refused(path, KINDS.get(kind, "no file"), expected)
        if found.st_size > most:
            raise refused(path, f"{found.st_size:,} bytes", f"at most {most:,}")

    if "\0" in str(path):
        raise refused(repr(str(path)), "a NUL character", expected)
    try:
        checked(path.stat())  # before it is opened, which a device may take as an order
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
        with io.BufferedReader(_Source(descriptor, path)) as file:
            checked(os.fstat(descriptor))
            yield file
    except OSError as error:
        raise InputError([unreadable(path, error)]) from error


def unreadable(path: Path, error: OSError) -> Problem:
    """Return the problem of a file that is not there, or that cannot be read."""
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return Problem(str(path), NO_FILE, "")
    return Problem(str(path), f"cannot be read ({error.strerror or error})", "")


def read_file(path: Path, most: int, expected: str = FILE, *, pipe: bool = False) -> bytes:
    """Content of a file.

    Parameters
    ----------
    path, most, expected, pipe
        As of `opened`.

    Raises
    ------
    InputError
        As `opened`.
    """
    content = io.BytesIO()
    with opened(path, most, expected, pipe=pipe) as file:
        while part := file.read(PART):
            if content.write(part) and content.tell() > most:
                raise refused(path, f"more than {most:,} bytes", f"at most {most:,}")
    return content.getvalue()


@contextmanager
def bounded(path: Path) -> Iterator[None]:
    """Let the block take `MOST_MEMORY`, or what a limit of the process leaves, and no more.

    Sizes that a file tells are checked before anything is unpacked; this holds for what it does not tell, and
    for those that are not true.

    Raises
    ------
    InputError
        In place of a MemoryError.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    try:
        # what counts for the limit; a system that does not say it bounds nothing
        memory = Path("/proc/self/statm")
        if memory.exists():
            taken = int(memory.read_text().split()[5]) * resource.getpagesize()
            limits = [limit for limit in (soft, hard) if limit != resource.RLIM_INFINITY]
            resource.setrlimit(resource.RLIMIT_DATA, (min([*limits, taken + MOST_MEMORY]), hard))
        yield
    except MemoryError as error:
        found = f"more than can be read in {MOST_MEMORY >> 20:,} MiB of memory, or in the memory that is free"
        raise refused(path, found, "a smaller file") from error
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))
