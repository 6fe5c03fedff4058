"""Code is stopped here between any two changes it makes to files, as kill -9 would.

An audit hook sees every opening for writing, rename, link, removal and the like, in any thread, before it
happens. At the wanted one it raises; from then on every further change raises too, so no clean-up code can
tidy the scene.
"""

import errno
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import TypeVar

Scene = TypeVar("Scene")

CALLS = ("rename", "mkdir", "rmdir", "remove", "truncate", "link", "symlink", "utime", "chmod")
CHANGES = {f"os.{call}" for call in CALLS}
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Crash(BaseException):
    """The process would be dead here."""


def changed_file(event: str, args: tuple[object, ...], root: str) -> object:
    """Return the file below `root` that an audit event will change (of a rename its target), or None."""
    if event not in CHANGES and (event != "open" or not isinstance(args[2], int) or not args[2] & WRITING):
        return None
    path = args[0]
    if isinstance(path, int):  # an open file
        return None if event == "open" else path
    # relative names come with the descriptor of an open directory, from shutil.rmtree
    below = isinstance(path, str | os.PathLike) and (
        not os.path.isabs(path) or os.fspath(path).startswith(root)
    )
    return args[1 if event == "os.rename" else 0] if below else None


class Injector:
    """Counts changes below `root` and crashes before the `at`-th; at 0 it only counts."""

    def __init__(self, root: Path, at: int) -> None:
        self.root = str(root)
        self.at = at
        self.seen: list[str] = []
        self.crashed = False

    def note(self, event: str, args: tuple[object, ...]) -> None:
        if (path := changed_file(event, args, self.root)) is not None:
            if not self.crashed:
                self.seen.append(f"{event} {path}")
                self.crashed = len(self.seen) == self.at
            if self.crashed:
                raise Crash


class FullDisk(Injector):
    """From the `at`-th change on, nothing can be made or opened for writing; what is there can be removed."""

    def __init__(self, root: Path, at: int, number: int = errno.ENOSPC) -> None:
        super().__init__(root, at)
        self.number = number

    def note(self, event: str, args: tuple[object, ...]) -> None:
        if (path := changed_file(event, args, self.root)) is not None:
            self.seen.append(f"{event} {path}")
            if len(self.seen) >= self.at > 0 and event in ("open", "os.mkdir", "os.link"):
                self.crashed = True
                raise OSError(self.number, os.strerror(self.number), str(args[0]))


_active: Injector | None = None
_installed = False


def _hook(event: str, args: tuple[object, ...]) -> None:
    if _active is not None:
        _active.note(event, args)


@contextmanager
def crash_inside(root: Path, at: int = 0) -> Iterator[Injector]:
    """Crash the code inside before its `at`-th change below `root`; the crash itself ends here."""
    injector = Injector(root, at)
    with suppress(Crash), seen_by(injector):
        yield injector


@contextmanager
def seen_by(injector: Injector) -> Iterator[None]:
    """Let the injector see every change of the code inside."""
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

    Only changes below `root` count. `fresh` makes a scene where the action has not begun, `check` looks at it
    afterwards, and once more for the action undisturbed. Returns the changes of that, a rename by its target:
    each was crashed before, and so every one but the last also after.
    """
    for at in count(1):
        scene = fresh(at)
        with crash_inside(root, at) as injector:
            action(scene)
        try:
            check(scene)
        except Exception as error:
            error.add_note(f"crashed before change {at}: {injector.seen[-1]}")
            raise
        if not injector.crashed:
            return injector.seen
    raise AssertionError("without end")
