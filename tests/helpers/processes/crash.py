"""Crash injection: stop code between any two changes it makes to files, as kill -9 would.

An audit hook sees every opening for writing, rename, link, removal and the like, in any thread, before it
happens. At the wanted one it raises; from then on every further change raises too, so no clean-up code can
tidy the scene.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

Scene = TypeVar("Scene")

CHANGES = {
    "os.rename",
    "os.mkdir",
    "os.rmdir",
    "os.remove",
    "os.truncate",
    "os.link",
    "os.symlink",
    "os.utime",
    "os.chmod",
}
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Crash(BaseException):
    """The process would be dead here."""


class Injector:
    """Counts changes below `root` and crashes before the `at`-th; at 0 it only counts."""

    def __init__(self, root: Path, at: int) -> None:
        self.root = str(root)
        self.at = at
        self.seen: list[str] = []
        self.crashed = False

    def see(self, event: str, args: tuple[object, ...]) -> None:
        if not self._is_change(event, args):
            return
        if self.crashed:
            raise Crash
        self.seen.append(f"{event} {args[1] if event == 'os.rename' else args[0]}")
        if len(self.seen) == self.at:
            self.crashed = True
            raise Crash

    def _is_change(self, event: str, args: tuple[object, ...]) -> bool:
        if event == "open":
            path, _, flags = args
            return self._is_below(path) and isinstance(flags, int) and bool(flags & WRITING)
        return event in CHANGES and (isinstance(args[0], int) or self._is_below(args[0]))

    def _is_below(self, path: object) -> bool:
        if not isinstance(path, str | os.PathLike):
            return False
        # relative names come with the descriptor of an open directory, from shutil.rmtree
        return not os.path.isabs(path) or os.fspath(path).startswith(self.root)


class FullDisk(Injector):
    """From the `at`-th change on, nothing can be made or opened for writing; what is there can be removed."""

    def __init__(self, root: Path, at: int, number: int = errno.ENOSPC) -> None:
        super().__init__(root, at)
        self.number = number

    def see(self, event: str, args: tuple[object, ...]) -> None:
        if not self._is_change(event, args):
            return
        self.seen.append(f"{event} {args[0]}")
        if len(self.seen) >= self.at > 0 and event in ("open", "os.mkdir", "os.link"):
            self.crashed = True
            raise OSError(self.number, os.strerror(self.number), str(args[0]))


_active: Injector | None = None
_installed = False


def _hook(event: str, args: tuple[object, ...]) -> None:
    if _active is not None and (event == "open" or event in CHANGES):
        _active.see(event, args)


@contextmanager
def crashing(root: Path, at: int = 0) -> Iterator[Injector]:
    """Crash the code inside before its `at`-th change below `root`; the crash itself ends here."""
    injector = Injector(root, at)
    try:
        with seen_by(injector):
            yield injector
    except Crash:
        pass


@contextmanager
def seen_by(injector: Injector) -> Iterator[None]:
    """Let it see every change of the code inside."""
    global _active, _installed
    if not _installed:
        sys.addaudithook(_hook)
        _installed = True
    _active = injector
    try:
        yield
    finally:
        _active = None


def crash_everywhere(
    root: Path,
    fresh: Callable[[int], Scene],
    action: Callable[[Scene], object],
    check: Callable[[Scene], None],
) -> list[str]:
    """Crash `action` before its first change, before its second, and so on to its end.

    Parameters
    ----------
    root : Path
        Only changes below it count.
    fresh : callable
        From a number to a scene where the action has not begun.
    action : callable
        What is crashed.
    check : callable
        Looks at the scene afterwards; called once more for the action undisturbed.

    Returns
    -------
    list of str
        The changes of the undisturbed action, a rename by its target: each was crashed before, and so every
        one but the last also after.
    """
    at = 0
    while True:
        at += 1
        scene = fresh(at)
        with crashing(root, at) as injector:
            action(scene)
        try:
            check(scene)
        except Exception as error:
            error.add_note(f"crashed before change {at}: {injector.seen[-1]}")
            raise
        if not injector.crashed:
            return injector.seen
