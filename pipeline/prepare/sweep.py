"""Everything that can be checked before a sweep starts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from pipeline.methods.loading import MethodCall
from pipeline.work.tasks import check_calls, method_calls
from pipeline.work.timing import LONGEST, Timing
from storage.cube.growth import align, differences
from storage.cube.manifest import read_manifest, size_problems
from storage.damage import changed_root
from storage.runfolder.folder import RunFolder, cube_path
from sweeps.errors import InputError, Problem, collecting
from sweeps.file.reading import load_sweep
from sweeps.file.spec import SweepSpec
from sweeps.inputs import Inputs, load_inputs


@dataclass(frozen=True)
class Prepared:
    """A sweep that can run.

    Parameters
    ----------
    spec : SweepSpec
        The sweep file.
    inputs : Inputs
        Data sets and plans, chunked as the cube is.
    cube : Path
        Where results are written; it need not exist yet.
    methods : tuple of MethodCall
        Of the sweep, as workers get them.
    """

    spec: SweepSpec
    inputs: Inputs
    cube: Path
    methods: tuple[MethodCall, ...] = ()

    @property
    def run(self) -> RunFolder:
        """Folder beside the cube: lease, journal, log, timings."""
        return RunFolder(self.cube)


def prepare(path: Path, *, results: Path, data_dir: Path | None) -> Prepared:
    """Read a sweep file, its data, and the cube it belongs to.

    Raises
    ------
    InputError
        With every problem found; nothing was written.
    """
    spec = load_sweep(path)
    cube = cube_path(results, spec.name)
    problems = _results_problems(results, RunFolder(cube).path)
    with collecting(problems):
        methods = method_calls(path.name, spec.grid.methods)
        with collecting(problems):
            check_calls(path.name, methods)
        inputs = load_inputs(spec, path.name, data_dir=data_dir)
        for plan in inputs.plans:
            problems += size_problems(f"{path.name} [grid], ", plan)
    if problems:
        raise InputError(problems)
    return aligned(Prepared(spec, inputs, cube, methods))


def aligned(prepared: Prepared) -> Prepared:
    """Give the plans the chunks of the existing cube, if there is one.

    Raises
    ------
    InputError
        If the sweep does not extend the one in the cube, or that is not the one that was written there.
    """
    if not prepared.cube.exists():
        return prepared
    if (damage := changed_root(prepared.cube)) is not None:
        where = prepared.cube / damage.key
        hint = f"sweep repair puts it back; if this is another cube, remove {prepared.run.path}"
        raise InputError([Problem(str(where), f"a file that {damage.found}", "as it was written", hint)])
    manifest = read_manifest(prepared.cube)
    problems = differences(manifest, prepared.spec, prepared.inputs.plans)
    if problems:
        raise InputError(problems)
    plans = tuple(align(manifest, prepared.inputs.plans))
    return replace(prepared, inputs=replace(prepared.inputs, plans=plans))


def _results_problems(results: Path, run: Path) -> list[Problem]:
    problems = []
    for place in (results, run):
        if place.exists() and not place.is_dir():
            problems.append(Problem(str(place), "a file", "a directory"))
    parent = next(folder for folder in (results, *results.absolute().parents) if folder.exists())
    if not problems and not parent.is_dir():
        problems.append(Problem(str(results), f"{parent} is a file", "a directory"))
    return problems


def longest_batch(prepared: Prepared) -> float:
    """Seconds a batch of a sweep may last: some units of work are never split."""
    return max(LONGEST, Timing.load(prepared.run).longest(prepared.spec.grid.restarts))
