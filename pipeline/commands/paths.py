"""What the arguments of commands name: a sweep file, a cube, a run."""

from __future__ import annotations

from pathlib import Path

from storage.remote import Url, place_of
from storage.runfolder.folder import CUBE_SUFFIX, RunFolder, cube_path
from sweeps.errors import InputError, Problem


def find_spec(path: Path) -> tuple[Path, bool]:
    """Sweep file at `path`, or the installed one of that name; whether the installed one was taken.

    Raises
    ------
    InputError
        If there is neither.
    """
    if path.exists():
        return path, False
    shipped = Path(__file__).resolve().parents[2] / "sweeps"
    if (
        path.suffix == ".toml"
        and path.parent in (Path("."), Path("sweeps"))
        and (shipped / path.name).is_file()
    ):
        return shipped / path.name, True
    names = ", ".join(sorted(f"sweeps/{file.name}" for file in shipped.glob("*.toml")))
    raise InputError([Problem(str(path), "no such file", f"a sweep file, or an installed one: {names}")])


def find_cube(path: Path, results: Path, *, remote: bool = False) -> Path:
    """Cube at `path`, or the cube of the sweep file at `path`; an address, where it is only read.

    Raises
    ------
    InputError
        If there is neither.
    """
    place = place_of(path)
    if isinstance(place, Url):
        if remote:
            return place
        raise InputError([Problem(str(place), "an address", "a cube on this machine")])
    if path.suffix != ".toml":
        if path.is_dir():
            return path
        raise InputError([Problem(str(path), "no such directory", "a cube, or a sweep file (.toml)")])
    cube = cube_of(path, results)
    if not cube.is_dir():
        raise InputError([Problem(str(cube), "nothing", f"the cube of {path}", 'run "sweep submit" first')])
    return cube


def beside(cube: Path, suffix: str) -> Path:
    """Where files on a cube go: beside it, or, of one at an address, into the working directory."""
    return Path(cube.name).with_suffix(suffix) if isinstance(cube, Url) else cube.with_suffix(suffix)


def find_run(path: Path, results: Path) -> Path:
    """Cube at `path`, or of the sweep file at `path`; it need not exist where there is a run folder.

    Raises
    ------
    InputError
        If there is neither a cube nor a run, or if the run folder leads out of its directory.
    """
    cube = path
    if path.suffix == ".toml":
        cube = cube_of(path, results)
    run = RunFolder(cube)
    run.check()
    known = cube.suffix == CUBE_SUFFIX and run.path.is_dir()
    return cube if known else find_cube(path, results)


def cube_of(path: Path, results: Path) -> Path:
    """Where the cube of a sweep file is, or would be.

    Raises
    ------
    InputError
        If there is no such file, or it is no sweep file.
    """
    # Loaded here: a command that is given a cube does not need what reads sweep files.
    from sweeps.file.reading import load_sweep

    spec, _ = find_spec(path)
    return cube_path(results, load_sweep(spec).name)
