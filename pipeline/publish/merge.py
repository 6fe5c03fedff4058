"""Cubes that several people computed of one sweep, joined: other methods, data sets, p or m.

The joined cube is laid out as that of a run of the whole sweep. Cells that several cubes have are compared,
so it does not matter who computed what.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import combinations
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sweep_clustering.pipeline.common import Progress, plural, silent
from sweep_clustering.pipeline.scoring.raw import SCORES_SUFFIX, raw_text, scored_cells
from sweep_clustering.storage.cube.blocks import Arrays, BlockStore, CellMismatch, compare_cells
from sweep_clustering.storage.cube.chunks import ANNOTATIONS
from sweep_clustering.storage.cube.growth import InputArrays, create, open_cube, science_differences
from sweep_clustering.storage.cube.manifest import Manifest, joint_manifest, read_manifest, software_problems
from sweep_clustering.storage.cube.schema import ANSWERED, INPUTS, PENDING, VARIABLES
from sweep_clustering.storage.damage import loaded_again
from sweep_clustering.storage.files import PLAIN, building, sync_directory, write_new
from sweep_clustering.storage.runfolder.folder import CUBE_SUFFIX
from sweep_clustering.sweeps.errors import InputError, Problem, collected, collecting, raise_all
from sweep_clustering.sweeps.file.spec import Mixtures
from sweep_clustering.sweeps.inputs import MixtureSource, plan_of
from sweep_clustering.sweeps.plan import Block, DatasetPlan
from sweep_clustering.sweeps.seeds import accuracy_code
from sweep_clustering.sweeps.shapes import widened

T = TypeVar("T")

# Fields of a plan that follow from the data, and not from the grid.
FACTS = (
    *("n_samples", "n_features", "n_clusters", "source", "checksum", "has_labels", "short"),
    *("feature_names", "class_names", "sample_names", "n_annotations", "annotations_checksum"),
)

# Cells of different values that are named.
MOST_SHOWN = 20

# Blocks of a cube that are kept: those of one joined block.
MOST_KEPT = 64


@dataclass(frozen=True)
class MergedCube:
    """Outcome of a merge: all cells, those with an answer, and those that several cubes had.

    `left_out` are data sets whose features and classes no cube has, and which are not on this machine.
    """

    cube: Path
    n_cubes: int
    n_all: int
    n_cells: int
    n_common: int
    left_out: tuple[str, ...] = ()

    def __str__(self) -> str:
        cells = f"{plural(self.n_all, 'cell')} {'is' if self.n_cells == 1 else 'are'} done"
        text = f"{self.cube}: {self.n_cells:,} of {cells}, from {plural(self.n_cubes, 'cube')}"
        if self.n_common:
            were = "was" if self.n_common == 1 else "were"
            text += f"; {self.n_common:,} of them {were} in several cubes, with equal values"
        if self.left_out:
            text += (
                f"\nscores of {', '.join(self.left_out)} are those of the bundles, because data were left out"
            )
            text += f" (--data-dir finds them); they stand in {self.cube.with_suffix(SCORES_SUFFIX)}"
        return text


def merge(
    places: Sequence[Path], target: Path, *, data_dir: Path | None = None, progress: Progress = silent
) -> MergedCube:
    """Write a cube with the cells of several cubes or bundles, in one step; `progress` goes through blocks.

    Data that bundles leave out are taken from their source, files in `data_dir` first.

    Raises
    ------
    InputError
        With every reason why they do not belong together: other seeds, settings, data or solvers, and cells
        of which two have different values; or if something is at `target`.
    StorageError
        If the file system refuses, or a file of a cube is damaged.
    """
    problems, cubes = list[Problem](), list[Manifest]()
    problems += [
        Problem(str(path), "something there already", "a name not in use")
        for path in (target, target.with_suffix(SCORES_SUFFIX))
        if os.path.lexists(path)
    ]
    if target.suffix != CUBE_SUFFIX:
        problems.append(Problem("--out", str(target), f"a name that ends with {CUBE_SUFFIX}"))
    with collecting(problems):
        cubes = collected(read_manifest, places)
        problems += differences(cubes)
    raise_all(problems)
    state = joined_state(cubes)
    problems += _equal_counts(state)
    raise_all(problems)
    reloaded = dict[str, InputArrays]()
    for plan in [plan for plan in state.plans.values() if plan.left_out]:
        with suppress(InputError):
            reloaded[plan.name] = loaded_again(state, plan, data_dir).stored(plan)
            state = replace(state, plans=state.plans | {plan.name: replace(plan, left_out=False)})
    left_out = tuple(plan.name for plan in state.plans.values() if plan.left_out)
    with building(target) as folder:
        new_cube = folder / target.name
        create(new_cube, state.plans.values(), partial(_inputs, cubes, state, reloaded), state.spec)
        outcome = _copy(cubes, state, new_cube, progress)
        root = replace(read_manifest(new_cube), runs=state.runs, causes=state.causes)
        replace(root, machines=state.machines).commit(PLAIN)
        if left_out:
            cells = scored_cells(open_cube(new_cube), state.plans, places)
            text = raw_text(cells, state)
            write_new(target.with_suffix(SCORES_SUFFIX), text.encode())
        os.rename(new_cube, target)
        sync_directory(target.parent)
    return replace(outcome, cube=target, left_out=left_out)


def differences(cubes: Sequence[Manifest]) -> Iterator[Problem]:
    """Yield the reasons why cubes are not of one sweep."""
    for first, other in combinations(cubes, 2):
        yield from software_problems(first, other)
    state = cubes[0]
    for cube in cubes[1:]:
        spec = cube.spec.model_copy(update={"name": state.spec.name})  # a name changes no number
        # parts have other mixtures
        plans = {
            name: replace(plan, first_mixture=own_plan.first_mixture, mixture_step=own_plan.mixture_step)
            for name, plan in cube.plans.items()
            if (own_plan := state.plans.get(name)) is not None
        }
        for problem in science_differences(f"{cube.path}: ", state, spec, plans, cubes[0].path):
            yield replace(problem, hint="cubes that are joined are of one sweep")
        for key, names, other_names in (
            ("search", spec.search_names, state.spec.search_names),
            ("grid.design", spec.grid.design, state.spec.grid.design),
        ):
            # a single one has no coordinate that tells it from others
            if min(len(names), len(other_names)) < 2 and names != other_names:
                expected = f"{', '.join(other_names) or 'one'}, as in {cubes[0].path}"
                yield Problem(f"{cube.path}: {key}", ", ".join(names) or "one", expected)
        state = joined_state([state, cube])


def joined_state(cubes: Sequence[Manifest]) -> Manifest:
    """Return the state of a cube with all cells of several, laid out as that of one run."""
    state, grids = joint_manifest(cubes), [cube.spec.grid for cube in cubes]
    values = {
        "p": _union((grid.p for grid in grids), accuracy_code),
        "m": _union((grid.m for grid in grids), lambda count: count.text),
        "design": _union(grid.design for grid in grids),
        "models": _union(grid.models for grid in grids),
        "methods": _union((grid.methods for grid in grids), lambda method: method.name),
        "replicates": max(grid.replicates for grid in grids),
    }
    searches = _union((cube.spec.search for cube in cubes), lambda search: search.name)
    grid = state.spec.grid.model_copy(update=values)
    spec = state.spec.model_copy(update={"grid": grid, "search": searches})
    plans = dict[str, DatasetPlan]()
    for entry in (entry for entry in spec.grid.datasets if entry.name in state.plans):
        facts = {name: getattr(state.plans[entry.name], name) for name in FACTS}
        left_out = all(cube.plans[entry.name].left_out for cube in cubes if entry.name in cube.plans)
        plans[entry.name] = plan_of(spec, entry, facts | {"left_out": left_out})
    return replace(state, path=cubes[0].path, spec=spec, plans=plans)


def _union(values: Iterable[Sequence[T]], key: Callable[[T], object] = lambda value: value) -> tuple[T, ...]:
    """Return all values, in the order in which they come, each once."""
    by_key: dict[object, T] = {}
    for value in (value for sequence in values for value in sequence):
        by_key.setdefault(key(value), value)
    return tuple(by_key.values())


def _equal_counts(state: Manifest) -> Iterator[Problem]:
    for plan in state.plans.values():
        if repeated := [m for m in dict.fromkeys(plan.m) if plan.m.count(m) > 1]:
            texts = ", ".join(count.text for count in state.spec.grid.m)
            expected = "each number of annotations written in one way"
            yield Problem(f"data set {plan.name}: m", f"{texts}, two of which are {repeated[0]}", expected)


def _inputs(
    cubes: Sequence[Manifest], state: Manifest, reloaded: Mapping[str, InputArrays], plan: DatasetPlan
) -> InputArrays:
    if plan.name in reloaded:
        return reloaded[plan.name]
    entry = next(entry for entry in state.spec.grid.datasets if entry.name == plan.name)
    if isinstance(entry, Mixtures):
        source = MixtureSource(entry, state.spec.seed)
        draws = zip(*(source.arrays(mixture) for mixture in plan.dims[0].values), strict=True)
        return tuple(map(np.stack, draws))
    if plan.left_out:
        return ()
    has_data = (cube for cube in cubes if plan.name in cube.plans and not cube.plans[plan.name].left_out)
    node = open_cube(next(has_data).path)[plan.name].to_dataset()
    return tuple(node[name].values if name in node.variables else None for name in INPUTS)


def _copy(cubes: Sequence[Manifest], state: Manifest, target: Path, progress: Progress) -> MergedCube:
    """Write all blocks; an InputError names the cells of which two cubes have different values."""
    store, problems, n_all, n_cells, n_common = BlockStore(target), list[Problem](), 0, 0, 0
    stores = (BlockStore(Path(cube.path), read_only=True) for cube in cubes)
    sources = [(cube, lru_cache(MOST_KEPT)(source.read)) for cube, source in zip(cubes, stores, strict=True)]
    blocks = [block for plan in state.plans.values() for block in plan.blocks()]
    for block in progress(blocks, "blocks"):
        values = store.read(block)  # fill values
        for cube, read in sources:
            part = _laid_out(cube, read, block, store.read(block), state.plans[block.dataset].n_features)
            try:
                n_common += _add(block, values, part)
            except CellMismatch as mismatch:
                fault = f"other {', '.join(mismatch.values)}"
                fault += f", and {mismatch.n_others} more cells of this kind" if mismatch.n_others else ""
                place = f"{cube.path}: cell {mismatch.cell}"
                problems.append(Problem(place, fault, "the values of the cubes before it"))
                if len(problems) == MOST_SHOWN:
                    raise_all(problems)
        if (values["status"] != PENDING).any() and not problems:
            store.write(block, values)
        n_all += values["status"].size
        n_cells += int(np.isin(values["status"], ANSWERED).sum())
    raise_all(problems)
    return MergedCube(target, len(cubes), n_all, n_cells, n_common)


def _laid_out(
    cube: Manifest, read: Callable[[Block], Arrays], block: Block, values: Arrays, n_features: int
) -> Arrays:
    """Lay the cells that a cube has into the empty arrays of a joined block."""
    plan = cube.plans.get(block.dataset)
    for row, cell in enumerate(block.cells()):
        if plan is None or not plan.has(cell):
            continue
        source = plan.block_of(cell)
        arrays, position = read(source), source.position(cell)
        if arrays["status"][position] == PENDING:
            continue
        for name in values.keys() & arrays.keys() - {ANNOTATIONS}:
            values[name][row] = _fitted(name, arrays[name][position], values[name].shape[1:], n_features)
        if ANNOTATIONS in values:
            values[ANNOTATIONS][block.graph(cell)] = arrays[ANNOTATIONS][source.graph(cell)]
    return values


def _fitted(name: str, value: NDArray[Any], shape: tuple[int, ...], n_features: int) -> NDArray[Any]:
    """Return a value in the shape of its array, with fill values where it is shorter."""
    if name == "covariances":
        value = widened(value, len(shape) - 1, n_features)
    filled = np.full(shape, VARIABLES[name].fill, value.dtype)
    filled[tuple(map(slice, value.shape))] = value
    return filled


def _add(block: Block, values: Arrays, part: Arrays) -> int:
    """Add cells of another cube to those of a block, and return how many both have.

    Raises CellMismatch if one of these has other bits.
    """
    is_answered, is_new = (np.isin(arrays["status"], ANSWERED) for arrays in (values, part))
    is_written = np.asarray(is_answered.reshape(-1, block.per_graph).any(axis=1))
    # a cell that failed in one cube, and not in the other, is no contradiction
    compare_cells(block, values, part | {"status": np.where(is_new, part["status"], PENDING)}, is_written)
    rows = ~is_answered & (is_new | (values["status"] == PENDING)) & (part["status"] != PENDING)
    for name in values:
        blocks = rows.reshape(-1, block.per_graph).any(axis=1) & ~is_written
        replaced = blocks if name == ANNOTATIONS else rows
        values[name][replaced] = part[name][replaced]
    return int((is_answered & is_new).sum())
