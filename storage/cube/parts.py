"""Cubes of parts of one sweep, read as one: each has data sets, or mixtures, that no other has."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

from sweep_clustering.storage.cube.manifest import Manifest, read_manifest
from sweep_clustering.storage.remote import Place, place_of
from sweep_clustering.sweeps.errors import InputError, Problem, collecting
from sweep_clustering.sweeps.file.spec import Dataset, Mixtures, SweepSpec
from sweep_clustering.sweeps.parts import part_named
from sweep_clustering.sweeps.plan import DatasetPlan, range_words

Places = Place | Sequence[Place]

# What the same bits are promised for, beside the machine: parts may be computed on several.
SOFTWARE = ("sweep", "numba", "numpy")


@dataclass(frozen=True)
class Parts:
    """Cubes that are read as one.

    Parameters
    ----------
    cubes : tuple of Manifest
        One or more, in the order of their mixtures.
    manifest : Manifest
        Of all of them together, which is no cube that could be written to.
    missing : str
        Which parts are not among them, in words; empty where none is known to be missing.
    """

    cubes: tuple[Manifest, ...]
    manifest: Manifest
    missing: str = ""


def read_parts(places: Places) -> Parts:
    """Read the root of a cube, or of several that are parts of one sweep.

    Parameters
    ----------
    places : Path, str or sequence of them
        Cubes, or their addresses.

    Raises
    ------
    InputError
        With all that keeps them from being parts of one sweep: other sweeps, seeds or versions, cells that
        two of them have; or as `read_manifest`.
    """
    every = [places] if isinstance(places, (Path, str)) else list(places)
    problems, cubes = list[Problem](), list[Manifest]()
    for place in every:
        with collecting(problems):
            cubes.append(read_manifest(place_of(place)))
    if not every:
        problems = [Problem("cubes", "none", "at least one")]
    if problems:
        raise InputError(problems)
    if len(cubes) == 1:
        return Parts(tuple(cubes), cubes[0])
    cubes.sort(key=_order)
    first = cubes[0]
    for other in cubes[1:]:
        problems += _differences(first, other)
    problems += _overlaps(cubes)
    if problems:
        raise InputError(problems)
    missing, plans = _missing(cubes), dict[str, DatasetPlan]()
    for plan in (plan for cube in cubes for plan in cube.plans.values()):
        plans[plan.name] = _joined(plans.get(plan.name), plan)
    named = ", ".join(str(cube.path) for cube in cubes)
    part = part_named(first.spec.name)
    spec = first.spec.model_copy(
        update={
            "name": first.spec.name if part is None else part.sweep,
            "grid": first.spec.grid.model_copy(update={"datasets": _entries(cubes)}),
        }
    )
    runs = tuple(sorted((run for cube in cubes for run in cube.runs), key=lambda run: run.started))
    skipped = {name: tuple(reasons) for cube in cubes for name, reasons in cube.skipped.items()}
    if runs:
        runs = (*runs[:-1], runs[-1].model_copy(update={"skipped": skipped}))
    path = f"{named} ({missing})" if missing else named
    failed = {cell: cause for cube in cubes for cell, cause in cube.failed.items()}
    return Parts(tuple(cubes), Manifest(path, spec, plans, runs, {}, failed), missing)


def attributes_of(manifest: Manifest) -> dict[str, Any]:
    """Attributes that the root of a cube has."""
    attributes: dict[str, Any] = json.loads(manifest.document)["attributes"]
    return attributes


def _order(cube: Manifest) -> tuple[Any, ...]:
    part = part_named(cube.spec.name)
    first = min((plan.first_mixture for plan in cube.plans.values()), default=0)
    return (0, part.number / part.of) if part else (1, first)


def _missing(cubes: Iterable[Manifest]) -> str:
    """Which of the parts that the names of cubes speak of are not there."""
    parts = [part for cube in cubes if (part := part_named(cube.spec.name)) is not None]
    if not parts or len({part.of for part in parts}) > 1:
        return ""
    there, of = {part.number for part in parts}, parts[0].of
    gone = [number for number in range(1, of + 1) if number not in there]
    shown = ", ".join(map(str, gone[:10])) + (", ..." if len(gone) > 10 else "")
    return f"{len(gone)} of {of} parts are missing: {shown}" if gone else ""


def _settings(spec: SweepSpec) -> dict[str, Any]:
    """What all parts of a sweep have in common, by key."""
    dump = spec.dump()
    part = part_named(spec.name)
    grid: Mapping[str, Any] = dump.pop("grid")
    dump["name"] = spec.name if part is None else part.sweep
    dump.pop("data")  # changes no number
    return dump | {f"grid.{key}": value for key, value in grid.items() if key != "datasets"}


def _differences(first: Manifest, other: Manifest) -> list[Problem]:
    """What keeps a cube from being of the same sweep as another one."""
    problems = []
    for where, ours, theirs in (
        ("", _settings(first.spec), _settings(other.spec)),
        ("last run, version of ", _software(first), _software(other)),
        ("data set ", _recipes(first), _recipes(other)),
    ):
        both = ours.keys() & theirs.keys() if where.startswith("data set") else ours.keys() | theirs.keys()
        for key in sorted(both):
            if ours.get(key) != theirs.get(key):
                found, expected = (json.dumps(each.get(key))[:200] for each in (theirs, ours))
                place, hint = (
                    f"{other.path}: {where}{key}",
                    "cubes read as one are parts of one sweep",
                )
                problems.append(Problem(place, found, f"{expected}, as in {first.path}", hint))
    return problems


def _software(cube: Manifest) -> dict[str, str]:
    found = cube.runs[-1].fingerprint if cube.runs else {}
    return {name: found[name] for name in SOFTWARE if name in found}


def _recipes(cube: Manifest) -> dict[str, Any]:
    """Data sets of a cube without their mixtures, as plain values."""
    return {
        entry.name: entry.model_dump(mode="json", exclude={"count", "first", "step"})
        for entry in cube.spec.grid.datasets
        if entry.name in cube.plans
    }


def _overlaps(cubes: Sequence[Manifest]) -> list[Problem]:
    """Data sets, or mixtures, that two of the cubes have."""
    problems, found = list[Problem](), dict[str, list[tuple[range, Manifest]]]()
    for cube in cubes:
        for plan in cube.plans.values():
            mixtures = plan.dims[0].values
            found.setdefault(plan.name, []).append(
                (mixtures if isinstance(mixtures, range) else range(1), cube)
            )
    for name, parts in found.items():
        for (one, before), (two, cube) in combinations(sorted(parts, key=lambda each: each[0].start), 2):
            if common := sorted(set(one) & set(two)):
                drawn = cube.plans[name].mixtures is not None
                shown = f", mixtures {_listed(common)}" if drawn else ""
                expected = f"cells that {before.path} does not have"
                problems.append(Problem(f"{cube.path}: data set {name}{shown}", "there as well", expected))
    return problems


def _listed(numbers: Sequence[int]) -> str:
    """Return ascending numbers in words: as a range, or the first ten."""
    whole = range(numbers[0], numbers[-1] + 1)
    if len(whole) == len(numbers):
        return range_words(whole)
    return ", ".join(map(str, numbers[:10])) + (", ..." if len(numbers) > 10 else "")


def _joined(there: DatasetPlan | None, plan: DatasetPlan) -> DatasetPlan:
    """Return the grid of a data set with the mixtures of one more part."""
    if there is None:
        return plan
    every = [number for each in (there, plan) for number in each.dims[0].values]
    n = max(every) - min(every) + 1
    return replace(there, mixtures=n, first_mixture=min(every), mixture_step=1, mixture_chunk=n)


def _entries(cubes: Iterable[Manifest]) -> tuple[Dataset, ...]:
    """Return the data sets of all cubes, with all mixtures of each."""
    found: dict[str, Dataset] = {}
    for entry in (entry for cube in cubes for entry in cube.spec.grid.datasets):
        before = found.setdefault(entry.name, entry)
        if before is not entry and isinstance(before, Mixtures) and isinstance(entry, Mixtures):
            first = min(before.first, entry.first)
            count = max(each.draws[-1] for each in (before, entry)) + 1 - first
            found[entry.name] = before.model_copy(update={"first": first, "count": count, "step": 1})
    return tuple(found.values())
