"""Files that are whole or absent, and stay so through a loss of power."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterable
from pathlib import Path

from sweeps.errors import InputError, Problem

PARTIAL = ".partial"
"""Suffix of a file while it is written; one left by a killed process is removed later."""

BUILDING = ".new"
"""Suffix of a cube while it is created; one left by a killed process is removed later."""


def write_file(path: Path, data: bytes) -> None:
    """Put `data` at `path` in one step: readers see the old content or the new, never a part.

    The content is on disk before the name points to it; the name is, after `sync_directory` of the parent.
    There must be one writer at a time.

    Parameters
    ----------
    path : Path
        Its parent must exist: a directory that has vanished is an error and is not created.
    data : bytes
        The whole content.
    """
    partial = path.with_name(path.name + PARTIAL)
    try:
        # O_NOFOLLOW: a link under this name would lead the write out of the cube.
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
        with open(os.open(partial, flags, 0o666), "wb") as file:
            file.write(data)
            file.flush()
            # Before the rename: otherwise the name could point to an empty file after a loss of power.
            os.fsync(file.fileno())
        os.replace(partial, path)
    except Exception:
        partial.unlink(missing_ok=True)
        raise


def read_regular(path: Path, most: int | None = None) -> bytes:
    """Content of a regular file.

    Parameters
    ----------
    path : Path
        A link is not followed, and a pipe not waited for.
    most : int, optional
        Largest size in bytes.

    Raises
    ------
    InputError
        If it is anything else, or larger.
    """
    check_regular(path)
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(descriptor, "rb") as file:
        size = os.fstat(descriptor).st_size
        if most is not None and size > most:
            raise InputError([Problem(str(path), f"{size:,} bytes", f"at most {most:,}")])
        return file.read()


def check_regular(path: Path) -> None:
    """Refuse what is there, if anything, but is no regular file.

    Raises
    ------
    InputError
        If it is a link, a pipe, a device or a directory.
    FileNotFoundError
        If there is nothing.
    """
    mode = os.lstat(path).st_mode
    if not stat.S_ISREG(mode):
        kinds = {stat.S_IFLNK: "a link", stat.S_IFDIR: "a directory", stat.S_IFIFO: "a pipe"}
        found = kinds.get(stat.S_IFMT(mode), "a device or a socket")
        raise InputError([Problem(str(path), found, "a file of the cube")])


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_files(root: Path, files: Iterable[tuple[str, bytes]]) -> None:
    """Write files below `root`, making directories as needed, and make all of it durable.

    Parameters
    ----------
    root : Path
        An existing directory.
    files : iterable of (str, bytes)
        Keys with `/` below `root`, and contents.
    """
    touched = set()
    for key, data in files:
        path = root / key
        missing = [folder for folder in path.parents if folder.is_relative_to(root) and not folder.exists()]
        for folder in reversed(missing):
            folder.mkdir()
            touched.add(folder.parent)
        write_file(path, data)
        touched.add(path.parent)
    # Names last: every content is durable by now.
    for folder in sorted(touched):
        sync_directory(folder)


def remove(path: Path) -> None:
    """Remove a file, a link or a whole directory, if there is one."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
