"""Folders that nobody but the user and root can change or replace, opened once and held.

A path alone is not enough: who can write to any folder on the way can put another folder in its place. So a
path is walked from the root, each step relative to the open folder before it, and what lies in the last one
is reached through its descriptor: nothing done to the path afterwards leads elsewhere.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePath

POSIX = os.name == "posix"
"""Elsewhere folders are reached by their paths, and their owners are not looked at."""

MOST_LINKS = 40

# O_PATH, where there is one: a folder on the way may be searched and not read (mode 0711).
_STEP = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_FILE = _NO_LINK | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


class OwnFolder:
    """A folder of the user's alone (mode 0700), and the files in it.

    Parameters
    ----------
    root : Path
        Absolute; the folder that holds it. Made, with those above it, if missing.
    name : str
        Its name in `root`; made if missing.

    Raises
    ------
    PermissionError
        If somebody else could change or replace it; the text names the place, its owner and mode, and what
        helps.
    OSError
        If it cannot be made, or holds no file.
    """

    def __init__(self, root: Path, name: str) -> None:
        self.path = root / name
        self._folder: int | None = None
        if POSIX:
            self._folder = _open_own(root, name)
        else:
            self.path.mkdir(parents=True, exist_ok=True)
        probe = f"probe-{secrets.token_hex(8)}"
        self.write(probe, b"")
        self.remove(probe)

    def holds(self, name: str) -> bool:
        """Whether `read` would give something."""
        place, folder = self._at(name)
        try:
            return _is_ours(os.stat(place, dir_fd=folder, follow_symlinks=False))
        except FileNotFoundError:
            return False

    def read(self, name: str) -> bytes | None:
        """Content of a file; None if there is none, or one that somebody else may have written."""
        if not self.holds(name):
            return None
        with self.opened(name, os.O_RDONLY) as descriptor, open(descriptor, "rb", closefd=False) as file:
            return file.read()

    def write(self, name: str, content: bytes) -> None:
        """Write a file in one step: readers see it whole or not at all."""
        partial = f"{name}.{secrets.token_hex(8)}.partial"
        descriptor = self._open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        try:
            with open(descriptor, "wb") as file:
                file.write(content)
            source, folder = self._at(partial)
            os.replace(source, self._at(name)[0], src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(OSError):
                self.remove(partial)
            raise

    def remove(self, name: str) -> None:
        """Remove a file, if there is one."""
        place, folder = self._at(name)
        with suppress(FileNotFoundError):
            os.unlink(place, dir_fd=folder)

    @contextmanager
    def opened(self, name: str, flags: int) -> Iterator[int]:
        """Descriptor of a file, opened with `flags`.

        Raises
        ------
        PermissionError
            If it is not a file of the user's alone.
        """
        descriptor = self._open(name, flags)
        try:
            found = os.fstat(descriptor)
            if not _is_ours(found):
                raise PermissionError(f"{self.path / name} {_state(found)}")
            yield descriptor
        finally:
            os.close(descriptor)

    def _open(self, name: str, flags: int) -> int:
        place, folder = self._at(name)
        return os.open(place, flags | _FILE, 0o600, dir_fd=folder)

    def _at(self, name: str) -> tuple[str, int | None]:
        return (str(self.path / name), None) if self._folder is None else (name, self._folder)


def _is_ours(found: os.stat_result) -> bool:
    if not stat.S_ISREG(found.st_mode):
        return False
    return not POSIX or (found.st_uid == os.geteuid() and not found.st_mode & 0o022)


def _open_own(root: Path, name: str) -> int:
    above = open_trusted(root)
    try:
        with suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=above)
        if stat.S_ISLNK(os.stat(name, dir_fd=above, follow_symlinks=False).st_mode):
            raise PermissionError(f"{root / name} is a link")
        folder = os.open(name, _STEP | _NO_LINK, dir_fd=above)
    finally:
        os.close(above)
    found = os.fstat(folder)
    problem = None
    if found.st_uid != os.geteuid():
        problem = "remove it if you can"
    elif found.st_mode & 0o077:
        problem = f"chmod 700 {root / name}"
    if problem:
        os.close(folder)
        raise PermissionError(f"{root / name} {_state(found)}: {problem}")
    return folder


def open_trusted(path: Path) -> int:
    """Open a folder that nobody but the user and root can change or replace; made if missing, as its parents.

    Each folder on the way, and each link, belongs to the user or to root, and others cannot write there. A
    sticky folder such as /tmp may be passed: only owners can rename what lies in it, and the owner of that is
    looked at next. The last one may not be: anybody could put files there. Links are followed step by step,
    under the same rule.

    Parameters
    ----------
    path : Path
        One that is relative is walked from the root as well.

    Returns
    -------
    int
        A descriptor, to be closed by the caller.

    Raises
    ------
    PermissionError
        With the place, its owner and mode, and what helps.
    OSError
        If a folder can be neither found nor made.
    """
    here, ahead, links = Path("/"), list(reversed(path.absolute().parts)), 0
    folder: int | None = None
    try:
        while ahead:
            name = ahead.pop()
            found = _look(name, folder)
            if stat.S_ISLNK(found.st_mode):
                _check_owner(here / name, found)
                links += 1
                if links > MOST_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
                # A target that is absolute begins with "/", which leads back to the root.
                ahead += reversed(PurePath(os.readlink(name, dir_fd=folder)).parts)
                continue
            step = os.open(name, _STEP | _NO_LINK, dir_fd=folder)
            if folder is not None:
                os.close(folder)
            folder = step
            here = here / name
            _check(here, os.fstat(folder), is_last=not ahead)
    except BaseException:
        if folder is not None:
            os.close(folder)
        raise
    if folder is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    return folder


def _look(name: str, folder: int | None) -> os.stat_result:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        with suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=folder)
        return os.stat(name, dir_fd=folder, follow_symlinks=False)


def _check(place: Path, found: os.stat_result, *, is_last: bool) -> None:
    _check_owner(place, found)
    mode = found.st_mode
    if mode & 0o022 and (is_last or not mode & stat.S_ISVTX):
        who = "go" if mode & 0o002 else "g"
        raise PermissionError(f"{place} {_state(found)}: chmod {who}-w {place}")


def _check_owner(place: Path, found: os.stat_result) -> None:
    if found.st_uid not in (0, os.geteuid()):
        raise PermissionError(f"{place} {_state(found)}: neither yours (user {os.geteuid()}) nor root's")


def _state(found: os.stat_result) -> str:
    mode = stat.S_IMODE(found.st_mode)
    return f"belongs to user {found.st_uid} and group {found.st_gid}, mode {mode:04o}"
