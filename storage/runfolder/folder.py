"""The directory beside a cube: what a run needs and readers do not."""

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


def run_directory(cube: Path) -> Path:
    """Path of `<name>.run` beside `<name>.zarr`, whether it exists or not."""
    return cube.with_name(cube.name.removesuffix(CUBE_SUFFIX) + ".run")


def make_run_directory(cube: Path) -> Path:
    """Make the directory of a run, for its owner alone: it holds keys and addresses of a compute cluster.

    Parameters
    ----------
    cube : Path
        `<name>.zarr`; the directory it is to stand in is made if missing.

    Returns
    -------
    Path
        `<name>.run`, mode 0700.

    Raises
    ------
    InputError
        If something else stands there, it is another user's, or it holds what no run leaves behind.
    StorageError
        If it cannot be made.
    """
    run = run_directory(cube)
    with storage_errors(run):
        run.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            run.mkdir(mode=0o700)
        check_run_directory(cube)
        found = run.stat()
        if os.geteuid() not in (0, found.st_uid):
            raise InputError([Problem(str(run), f"a directory of user {found.st_uid}", "one of your own")])
        if found.st_mode & 0o077:
            run.chmod(0o700)
    return run


def check_run_directory(cube: Path) -> None:
    """Refuse a directory that came from elsewhere and would lead a run, or a reader, out of it.

    Parameters
    ----------
    cube : Path
        `<name>.zarr`; that there is nothing beside it is fine.

    Raises
    ------
    InputError
        If it is a link or a file, or holds links, pipes or devices.
    """
    problems: list[Problem] = []
    # Nothing beside the cube, or what is another user's own business: nobody is led anywhere.
    with suppress(FileNotFoundError, PermissionError):
        problems += _strange(run_directory(cube))
    if problems:
        raise InputError(problems)


def _strange(run: Path) -> Iterator[Problem]:
    found = run.lstat()
    if not stat.S_ISDIR(found.st_mode):
        kind = "a link" if stat.S_ISLNK(found.st_mode) else "a file"
        yield Problem(str(run), kind, "the directory of a run")
        return
    with os.scandir(run) as entries:
        for entry in entries:
            if not (entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False)):
                kind = "a link" if entry.is_symlink() else "a pipe or a device"
                yield Problem(entry.path, kind, "a file of the run")


def clean_leftovers(cube: Path) -> list[Path]:
    """Remove what killed runs were writing; only the holder of the lease may.

    Parameters
    ----------
    cube : Path
        `<name>.zarr`; it need not exist.

    Returns
    -------
    list of Path
        What was removed: files `*.partial` of the cube and its run, and a cube `*.zarr.new` that was never
        finished.

    Raises
    ------
    StorageError
        If the file system refuses.
    """
    unfinished = cube.with_name(cube.name + BUILDING)
    with storage_errors(cube.parent):
        found = [unfinished] if os.path.lexists(unfinished) else []
        for place in (cube, run_directory(cube)):
            for folder, _, names in os.walk(place):
                found += [Path(folder, name) for name in names if name.endswith(PARTIAL)]
        for path in found:
            remove(path)
    return found
