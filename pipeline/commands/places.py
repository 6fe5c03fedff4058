"""Sweep files, cubes and runs that arguments of commands name, and their completion in a shell.

Storage and the reader of sweep files are loaded where they are needed: help needs neither, and a command on a
cube needs no sweep file.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from sweep_clustering.sweeps.errors import InputError, Problem, collecting, refused
from sweep_clustering.sweeps.files import shipped_files

if TYPE_CHECKING:
    from sweep_clustering.storage.remote import Place
    from sweep_clustering.sweeps.file.spec import SweepSpec

# Number of cells that a shell offers.
MOST_OFFERED = 200
# Number of cells that are searched for them.
MOST_SEARCHED = 50_000


def find_spec(path: Path) -> tuple[Path, bool]:
    """Return the sweep file at a path or the installed one of that name, and whether it is the installed
    one.
    """
    if path.exists():
        return path, False
    installed = {file.name: file for file in shipped_files()}
    if path.name in installed and path.parent in (Path("."), Path("sweeps")):
        return installed[path.name], True
    names = ", ".join(f"sweeps/{name}" for name in installed)
    raise refused(path, "no such file", f"a sweep file, or an installed one: {names}")


def sweep_of(spec: Path, methods: Sequence[str]) -> SweepSpec:
    """Return the sweep of a file that `find_spec` finds, with these methods in place of its own, if any."""
    from sweep_clustering.sweeps.file.methods import entry_of
    from sweep_clustering.sweeps.file.reading import load_sweep

    problems, entries = list[Problem](), list[dict[str, Any]]()
    for text in methods:
        with collecting(problems):
            entries.append(entry_of(text))
    with collecting(problems):
        sweep = load_sweep(find_spec(spec)[0], entries)
    if problems:
        raise InputError(problems)
    return sweep


def cube_of(path: Path, results: Path, part: str | None = None) -> Path:
    """Return the path of a cube, or of the cube of a sweep file or a part of it, which need not exist.

    The ending of a cube, `.zarr`, may be left out.
    """
    from sweep_clustering.storage.runfolder.folder import CUBE_SUFFIX, RunFolder, cube_path

    if path.suffix != ".toml":
        full = path.with_name(path.name + CUBE_SUFFIX) if path.name else path
        is_cube = path.name.endswith(CUBE_SUFFIX) or (path / "zarr.json").exists()
        return path if is_cube or not (full.is_dir() or RunFolder(full).path.is_dir()) else full
    from sweep_clustering.sweeps.file.reading import load_sweep

    spec = load_sweep(find_spec(path)[0])
    if part is not None:
        from sweep_clustering.sweeps.parts import part_of

        spec = part_of(spec, part)
    return cube_path(results, spec.name)


def find_place(path: Path, results: Path) -> Place:
    """Return a cube that is only read: at an address, at a path, or of the sweep file at a path."""
    from sweep_clustering.storage.remote import place_of

    place = place_of(path)
    if isinstance(place, str):
        return place
    cube = cube_of(path, results)
    if cube.is_dir():
        return cube
    if cube == path:
        raise refused(path, "no such directory", "a cube, or a sweep file (.toml)")
    parts = _parts_of(path, results)
    hint = f"its parts are {', '.join(map(str, parts[:8]))}" if parts else 'run "sweep submit" first'
    raise refused(cube, "nothing", f"the cube of {path}", hint)


def find_cube(path: Path, results: Path) -> Path:
    """Return a cube on this machine, as `find_place` does."""
    place = find_place(path, results)
    if isinstance(place, str):
        raise refused(place, "an address", "a cube on this machine")
    return place


def find_run(path: Path, results: Path) -> Path:
    """Return the cube at a path, or of the sweep file there; it need not exist if there is a run folder."""
    from sweep_clustering.storage.runfolder.folder import CUBE_SUFFIX, RunFolder

    cube = cube_of(path, results)
    run = RunFolder(cube)
    run.check()
    has_run = cube.suffix == CUBE_SUFFIX and run.path.is_dir()
    return cube if has_run else find_cube(path, results)


def find_places(paths: Sequence[Path], results: Path) -> tuple[Place, ...]:
    """Return the cubes of `find_place`, or all parts of a sweep file's sweep."""
    return _with_parts(paths, results, find_place)


def find_runs(paths: Sequence[Path], results: Path) -> tuple[Path, ...]:
    """Return the cubes of `find_run`, or those of all parts of a sweep file's sweep."""
    return _with_parts(paths, results, find_run)


def _with_parts(paths: Sequence[Path], results: Path, find: Callable[[Path, Path], Place]) -> tuple[Any, ...]:
    problems: list[Problem] = []
    places: list[Place] = []
    for path in paths:
        with collecting(problems):
            places += _parts_of(path, results) or [find(path, results)]
    if problems:
        raise InputError(problems)
    return tuple(dict.fromkeys(places))


def _parts_of(path: Path, results: Path) -> list[Path]:
    """Return the cubes of the parts of the sweep file at a path, if there is none of the whole."""
    if path.suffix != ".toml":
        return []
    from sweep_clustering.storage.runfolder.folder import CUBE_SUFFIX
    from sweep_clustering.sweeps.parts import part_named

    whole = cube_of(path, results)
    if whole.exists():
        return []
    cubes = {cube: part_named(cube.stem) for cube in results.glob(f"*.part-*{CUBE_SUFFIX}")}
    parts = {cube: part for cube, part in cubes.items() if part is not None and part.sweep == whole.stem}
    return sorted(parts, key=lambda cube: (parts[cube].of, parts[cube].number))


def whole_of(places: Sequence[Place]) -> Place:
    """Return the only cube, or the place of the whole of several that are parts of one sweep."""
    from sweep_clustering.sweeps.parts import part_named

    first = places[0]
    part = part_named(Path(first).stem)
    if len(places) == 1 or part is None:
        return first
    return (Path() if isinstance(first, str) else first.parent) / f"{part.sweep}.zarr"


def beside(cube: Place, suffix: str) -> Path:
    """Return the path for files about a cube: beside it, or in the working directory if it is at an
    address.
    """
    return (cube if isinstance(cube, Path) else Path(Path(cube).name)).with_suffix(suffix)


def complete_datasets(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of data sets that begin like this."""
    from sweep_clustering.sweeps.data.registry import BUILTIN

    return [name for name in BUILTIN if name.startswith(incomplete)]


def complete_methods(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the names of shipped methods that begin like this, or else files."""
    from sweep_clustering.sweeps.words import SHIPPED

    names = [CompletionItem(name, help=SHIPPED[name].text) for name in SHIPPED if name.startswith(incomplete)]
    return names or [CompletionItem(incomplete, "file")]


def complete_cells(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return the cells of the cube of this command that begin like this, failed ones first."""
    values = [ctx.params.get(name) for name in ("cube_or_spec", "cubes", "cube", "spec")]
    # click has not yet given arguments their names when an option lacks its value
    arguments = [value for value in values if value] + ctx.args
    if not arguments:
        return []
    from sweep_clustering.storage.cube.blocks import failed_cells
    from sweep_clustering.storage.cube.manifest import read_manifest

    try:
        first = Path(arguments[0][0] if isinstance(arguments[0], tuple) else arguments[0])
        cube = find_cube(first, Path(ctx.params.get("results") or "results"))
        plans = [plan for plan in read_manifest(cube).plans.values() if _may_begin(plan.name, incomplete)]
        cells = (cell for plan in plans for block in plan.blocks() for cell in block.cells())
        names = map(str, itertools.chain(failed_cells(cube, plans), itertools.islice(cells, MOST_SEARCHED)))
        matches = (name for name in names if name.startswith(incomplete))
        # a failed cell comes twice
        return list(dict.fromkeys(itertools.islice(matches, 2 * MOST_OFFERED)))[:MOST_OFFERED]
    except (InputError, OSError, ValueError):
        return []  # a shell has no place for a message


def _may_begin(dataset: str, incomplete: str) -> bool:
    """Whether the name of a cell of a data set may begin like this."""
    return dataset.startswith(incomplete) or f"{incomplete}/".startswith(f"{dataset}/")
