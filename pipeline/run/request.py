"""A checked submit: everything that the head of a run needs."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np

from sweep_clustering.pipeline.cluster.profiles import Profile
from sweep_clustering.pipeline.methods.loading import MethodCall
from sweep_clustering.pipeline.work.tasks import method_calls
from sweep_clustering.storage.cube.blocks import BlockStore
from sweep_clustering.storage.cube.growth import align, differences
from sweep_clustering.storage.cube.manifest import read_manifest, size_problems
from sweep_clustering.storage.cube.schema import ANSWERED, FAILED
from sweep_clustering.storage.damage import changed_root
from sweep_clustering.storage.runfolder.folder import CUBE_SUFFIX, RunFolder, cube_path
from sweep_clustering.sweeps.errors import InputError, Problem, collecting, raise_all, refused
from sweep_clustering.sweeps.file.reading import load_sweep
from sweep_clustering.sweeps.file.spec import Mixtures, SweepSpec, numbers_of, part_named, part_of
from sweep_clustering.sweeps.inputs import Inputs, load_inputs, table_problems
from sweep_clustering.sweeps.plan import Block, Cell, DatasetPlan

# Everything that can be checked before a sweep starts.


@dataclass(frozen=True)
class Sweep:
    """A sweep that can run: its file, data, cube and methods.

    The plans of `inputs` are chunked as the cube is. The cube need not exist yet.
    """

    spec: SweepSpec
    inputs: Inputs
    cube: Path
    methods: tuple[MethodCall, ...] = ()

    @property
    def run(self) -> RunFolder:
        """Folder beside the cube: lease, journal, log, timings."""
        return RunFolder(self.cube)


def prepare(path: Path, *, results: Path, data_dir: Path | None, part: str | None = None) -> Sweep:
    """Read a sweep file, or a part of it such as "1/4", its data, and the cube it belongs to.

    Raises
    ------
    InputError
        With every problem; nothing was written. Its `rest` is the plans of all data sets, if there are any.
    """
    problems: list[Problem] = []
    spec: SweepSpec | None = None
    try:
        spec = load_sweep(path)
    except InputError as error:
        problems += [*error.problems, *table_problems(error.rest or ())]
    if part is not None:
        with collecting(problems):
            numbers_of(part)
            spec = spec and _part(spec, part, results)
    if spec is None:
        raise InputError(dict.fromkeys([*problems, *_folder_problems(results)]))
    cube = cube_path(results, spec.name)
    problems += _folder_problems(RunFolder(cube).path, results)
    methods: tuple[MethodCall, ...] = ()
    with collecting(problems):
        methods = method_calls(path.name, spec.grid.methods, is_tried=True)
    try:
        inputs = load_inputs(spec, path.name, data_dir=data_dir)
    except InputError as error:
        problems += error.problems
        inputs = Inputs(error.rest, {}, {})
    for plan in inputs.plans:
        problems += size_problems(f"{path.name} [grid], ", plan)
    sweep = Sweep(spec, inputs, cube, methods)
    with collecting(problems):
        sweep = align_with_cube(sweep)
    if problems:
        is_complete = len(inputs.plans) == len(spec.grid.datasets)
        raise InputError(problems, inputs.plans if is_complete else None)
    return sweep


def _folder_problems(*folders: Path) -> list[Problem]:
    """Return the files that lie where folders are to be made."""
    places = {
        next(filter(Path.exists, (folder.absolute(), *folder.absolute().parents))): folder
        for folder in folders
    }
    return [
        Problem(str(folder), f"{place} is a file", "a directory")
        for place, folder in places.items()
        if not place.is_dir()
    ]


def _part(spec: SweepSpec, text: str, results: Path) -> SweepSpec:
    """Return a part of a sweep, beside the parts that have a cube in the same folder.

    An `InputError` says if one of these could not grow as this part does: nothing of the others may be lost.
    """
    parts, manifests = text.partition("/")[2], {}
    for cube in sorted(results.glob(f"{spec.name}.part-*-of-{parts}{CUBE_SUFFIX}")):
        if (part := part_named(cube.stem)) is not None and part.sweep == spec.name:
            manifests[part.number] = read_manifest(cube)
    specs = {number: manifest.spec for number, manifest in manifests.items()}
    spec_of_part, problems = part_of(spec, text, specs), []
    for number, manifest in manifests.items():
        for entry in part_of(spec, f"{number}/{parts}", specs).grid.datasets:
            plan = manifest.plans.get(entry.name)
            if isinstance(entry, Mixtures) and plan is not None and entry.count % plan.mixture_chunk:
                location = f"{manifest.path}: data set {entry.name}, mixtures"
                expected = f"a multiple of {plan.mixture_chunk}, the length at creation"
                problems.append(Problem(location, f"{entry.count} of {spec.name}", expected))
    raise_all(problems)
    return spec_of_part


def align_with_cube(sweep: Sweep) -> Sweep:
    """Give the plans the chunks of the existing cube, if there is one.

    An `InputError` says that the sweep does not extend the one in the cube, or that the cube is another one.
    """
    if not sweep.cube.exists():
        return sweep
    if (damage := changed_root(sweep.cube)) is not None:
        path = sweep.cube / damage.key
        hint = f"sweep repair puts it back; if this is another cube, remove {sweep.run.path}"
        raise refused(path, f"a file that {damage.problem}", "as it was written", hint)
    manifest = read_manifest(sweep.cube)
    raise_all(differences(manifest, sweep.spec, sweep.inputs.plans))
    plans = tuple(align(manifest, sweep.inputs.plans))
    return replace(sweep, inputs=replace(sweep.inputs, plans=plans))


# Which cells need no more work, from the status of the cube alone.


@dataclass(frozen=True)
class Selection:
    """The cells that a run computes: `cells`, or all if there are none, and with `retry_failed` those
    marked failed.

    Cells of `cells` are run whether they are marked failed or not.
    """

    retry_failed: bool = False
    cells: frozenset[Cell] = frozenset()

    def runs(self, cell: Cell) -> bool:
        """Whether this run may compute a cell."""
        return not self.cells or cell in self.cells

    def settles(self, cell: Cell, status: int) -> bool:
        """Whether a cell of that `status` needs no more work, by this run or by another one."""
        retries = cell in self.cells if self.cells else self.retry_failed
        return status in ANSWERED or (status == FAILED and not retries)

    def blocks(self, plan: DatasetPlan) -> Iterable[Block]:
        """Return the blocks of a data set with cells that this run may compute."""
        if not self.cells:
            return plan.blocks()
        # the grid of a cube that is to be grown lacks some of the cells
        cells = (cell for cell in self.cells if cell.dataset == plan.name and plan.has(cell))
        return dict.fromkeys(map(plan.block_of, cells))


def is_settled(sweep: Sweep, selection: Selection) -> bool:
    """Whether the cube already holds all selected cells, so that a submit has nothing to do."""
    if not sweep.cube.exists():
        return False
    plans = sweep.inputs.plans
    stored_plans = read_manifest(sweep.cube).plans
    if any(stored_plans.get(plan.name) != plan for plan in plans):
        return False  # the cube is to be grown first
    store = BlockStore(sweep.cube, read_only=True)
    return all(
        selection.settles(cell, status)
        for plan in plans
        for block, statuses in store.all_statuses(plan, selection.blocks(plan))
        if not np.isin(statuses, ANSWERED).all()  # cells one by one would take long, where all are done
        for cell, status in zip(block.cells(), statuses, strict=True)
        if selection.runs(cell)
    )


@dataclass(frozen=True)
class Request:
    """A checked submit; without a profile this process computes."""

    spec: Path
    sweep: Sweep
    selection: Selection
    profile: Profile | None
    options: Options


# Flags that are not named like their field.
FLAGS = {"cluster_file": "--cluster"}

# Fields that a head does not need; the folder of results it gets as an absolute path.
NOT_FORWARDED = {"results", "dry_run", "detach"}

# Fields that say where a run has its workers.
CHOOSE_CLUSTER = {"profile", "cluster_file", "workers"}


@dataclass(frozen=True)
class Options:
    """Runtime choices: none of them changes a number.

    Parameters
    ----------
    results : Path
        Folder of the cubes.
    profile : str
        Compute-cluster profile.
    cluster_file : Path or None
        cluster.yaml to take instead of searching.
    workers : int or None
        Worker processes; 0 runs everything in this process, None as many as the profile says.
    detach, dry_run, retry_failed, strict : bool
        As in the command line.
    data_dir : Path or None
        Folder with raw data files.
    only : tuple of str
        Names of the cells to run, marked failed or not; empty for all.
    part : str or None
        Which part of the sweep, such as "1/4"; all of it by default.
    time_limit : float or None
        Seconds a batch may run on a worker; None for a generous default.
    """

    results: Path
    profile: str = "local"
    cluster_file: Path | None = None
    workers: int | None = None
    detach: bool = False
    dry_run: bool = False
    retry_failed: bool = False
    strict: bool = False
    data_dir: Path | None = None
    only: tuple[str, ...] = ()
    time_limit: float | None = None
    part: str | None = None

    def flags(self, omitted: Container[str] = NOT_FORWARDED) -> list[str]:
        """Return the choices that a head needs, as arguments of `sweep submit`; paths are absolute."""
        arguments: list[str] = []
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in omitted or value == field.default:
                continue
            flag = FLAGS.get(field.name, "--" + field.name.replace("_", "-"))
            for item in value if isinstance(value, tuple) else [value]:
                text = str(item.resolve()) if isinstance(item, Path) else str(item)
                arguments += [flag] if item is True else [flag, text]
        return arguments

    def cluster_flags(self) -> list[str]:
        """Return those arguments that choose the compute cluster."""
        return self.flags({field.name for field in fields(self)} - CHOOSE_CLUSTER)
