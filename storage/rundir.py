"""The directory beside a cube: what a run needs and readers do not."""

from __future__ import annotations

import os
from pathlib import Path

from storage.errors import storage_errors
from storage.files import BUILDING, PARTIAL, remove

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
    StorageError
        If it cannot be made, or belongs to someone else.
    """
    run = run_directory(cube)
    with storage_errors(run):
        run.parent.mkdir(parents=True, exist_ok=True)
        run.mkdir(mode=0o700, exist_ok=True)
        if run.stat().st_mode & 0o077:
            run.chmod(0o700)
    return run


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
