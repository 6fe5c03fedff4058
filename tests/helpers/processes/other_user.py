"""Tests that run as root act here as a second user of the machine."""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

STRANGER, SOMEBODY = 54321, 54322
"""Numbers of users that nobody has: who attacks, and who is attacked."""

needs_root = pytest.mark.skipif(
    os.name != "posix" or os.geteuid() != 0, reason="needs root: acts as two users"
)


@contextmanager
def open_folder() -> Iterator[Path]:
    """Yield a temporary folder that other users can enter, unlike those of pytest."""
    with tempfile.TemporaryDirectory(dir="/tmp") as path:
        folder = Path(path)
        folder.chmod(0o755)
        yield folder


def do_as(user: int, script: str, *arguments: str | Path) -> None:
    """Run a shell script as another user; its arguments are $1, $2, ..."""
    subprocess.run(
        ["sh", "-eu", "-c", script, "sh", *map(str, arguments)],
        check=True,
        user=user,
        group=user,
        extra_groups=[],
    )


@contextmanager
def as_user(number: int) -> Iterator[None]:
    """Act as another user in this process, where files are concerned."""
    groups = os.getgroups()
    os.setgroups([])
    os.setegid(number)
    os.seteuid(number)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups(groups)
