"""Cubes of parts of one sweep, read as one: each has data sets, or mixtures, that no other has."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations
from pathlib import Path
from typing import Any

from sweep_clustering.storage.cube.manifest import Manifest, read_manifest
from sweep_clustering.storage.files import Place, place_of
from sweep_clustering.sweeps.errors import InputError, Problem, collected, refused
from sweep_clustering.sweeps.file.spec import Dataset, Mixtures, SweepSpec
from sweep_clustering.sweeps.parts import part_named
from sweep_clustering.sweeps.plan import DatasetPlan, range_words

Places = Place | Sequence[Place]

# Software for which equal bits are promised; parts may be computed on several machines.
SOFTWARE = ("sweep", "numba", "numpy")


@dataclass(frozen=True)
class Parts:
    """Cubes that are read as one."""

    cubes: tuple[Manifest, ...]  # one or more, in the order of their mixtures
    manifest: Manifest  # state of all cubes together; no cube could be written with it
    missing: str = ""  # the missing parts, in words


def read_parts(places: Places) -> Parts:
    """Read the root of a cube, or of several that are parts of one sweep.

    Raises
    ------
    InputError
        With all reasons why they are not parts of one sweep: other sweeps, seeds or versions, cells that two
        of them have; or the reasons of `read_manifest`.
    """
    places = [places] if isinstance(places, (Path, str)) else places
    if not places:
        raise refused("cubes", "none", "at least one")
    manifests = collected(lambda place: read_manifest(place_of(place)), places)
    first, *others = cubes = sorted(manifests, key=_order)
    if not others:
        return Parts((first,), first)
    if problems := [*chain(*(_differences(first, other) for other in others)), *_overlaps(cubes)]:
        raise InputError(problems)
    missing, plans = _missing(cubes), dict[str, DatasetPlan]()
    for name, plan in ((name, plan) for cube in cubes for name, plan in cube.plans.items()):
        plans[name] = _joined(plans[name], plan) if name in plans else plan
    names = ", ".join(str(cube.path) for cube in cubes)
    grid = first.spec.grid.model_copy(update={"datasets": _entries(cubes)})
    spec = first.spec.model_copy(update={"name": _whole(first.spec.name), "grid": grid})
    runs = tuple(sorted((run for cube in cubes for run in cube.runs), key=lambda run: run.started))
    skipped = {name: tuple(reasons) for cube in cubes for name, reasons in cube.skipped.items()}
    if runs:
        runs = (*runs[:-1], runs[-1].model_copy(update={"skipped": skipped}))
    path = f"{names} ({missing})" if missing else names
    failed = {cell: cause for cube in cubes for cell, cause in cube.failed.items()}
    return Parts(tuple(cubes), Manifest(path, spec, plans, runs, {}, failed), missing)


def attributes_of(manifest: Manifest) -> dict[str, Any]:
    """Return the attributes of the root of a cube."""
    attributes: dict[str, Any] = json.loads(manifest.document)["attributes"]
    return attributes


def _order(cube: Manifest) -> tuple[Any, ...]:
    part = part_named(cube.spec.name)
    first = min((plan.first_mixture for plan in cube.plans.values()), default=0)
    return (0, part.number / part.of) if part else (1, first)


def _missing(cubes: Iterable[Manifest]) -> str:
    """List the missing parts, as far as the names of the cubes count them."""
    parts = [part for cube in cubes if (part := part_named(cube.spec.name)) is not None]
    if not parts or len({part.of for part in parts}) > 1:
        return ""
    there, of = {part.number for part in parts}, parts[0].of
    missing = [number for number in range(1, of + 1) if number not in there]
    numbers = ", ".join(map(str, missing[:10])) + (", ..." if len(missing) > 10 else "")
    return f"{len(missing)} of {of} parts are missing: {numbers}" if missing else ""


def _whole(name: str) -> str:
    """Return the name of the sweep to which a part with a name belongs."""
    part = part_named(name)
    return name if part is None else part.sweep


def _settings(spec: SweepSpec) -> dict[str, Any]:
    """Return the values that all parts of a sweep have in common, by key."""
    dump = spec.dump() | {"name": _whole(spec.name)}
    grid: Mapping[str, Any] = dump.pop("grid")
    dump.pop("data")  # changes no number
    return dump | {f"grid.{key}": value for key, value in grid.items() if key != "datasets"}


def _differences(first: Manifest, other: Manifest) -> Iterator[Problem]:
    """Yield the differences that show that two cubes belong to different sweeps."""
    for where, reference, values in (
        ("", _settings(first.spec), _settings(other.spec)),
        ("last run, version of ", _software(first), _software(other)),
        ("data set ", _recipes(first), _recipes(other)),
    ):
        keys = set(reference) & set(values) if where == "data set " else set(reference) | set(values)
        for key in sorted(key for key in keys if reference.get(key) != values.get(key)):
            value, expected = (json.dumps(source.get(key))[:200] for source in (values, reference))
            place, hint = f"{other.path}: {where}{key}", "cubes read as one are parts of one sweep"
            yield Problem(place, value, f"{expected}, as in {first.path}", hint)


def _software(cube: Manifest) -> dict[str, str]:
    versions = cube.runs[-1].fingerprint if cube.runs else {}
    return {name: versions[name] for name in SOFTWARE if name in versions}


def _recipes(cube: Manifest) -> dict[str, Any]:
    """Return the data sets of a cube without their mixtures, as plain values."""
    return {
        entry.name: entry.model_dump(mode="json", exclude={"count", "first", "step"})
        for entry in cube.spec.grid.datasets
        if entry.name in cube.plans
    }


def _overlaps(cubes: Sequence[Manifest]) -> Iterator[Problem]:
    """Yield the data sets, or mixtures, that two of the cubes have."""
    plans: dict[str, list[tuple[DatasetPlan, Manifest]]] = {}
    for cube in cubes:
        for plan in cube.plans.values():
            plans.setdefault(plan.name, []).append((plan, cube))
    for name, parts in plans.items():
        for (part, before), (plan, cube) in combinations(
            sorted(parts, key=lambda row: row[0].first_mixture), 2
        ):
            if common := sorted(set(part.dims[0].values) & set(plan.dims[0].values)):
                mixtures = "" if plan.mixtures is None else f", mixtures {_listed(common)}"
                expected = f"cells that {before.path} does not have"
                yield Problem(f"{cube.path}: data set {name}{mixtures}", "there as well", expected)


def _listed(numbers: Sequence[int]) -> str:
    """Return ascending numbers in words, as a range or the first ten."""
    whole = range(numbers[0], numbers[-1] + 1)
    if len(whole) == len(numbers):
        return range_words(whole)
    return ", ".join(map(str, numbers[:10])) + (", ..." if len(numbers) > 10 else "")


def _joined(plan: DatasetPlan, part: DatasetPlan) -> DatasetPlan:
    """Return the grid of a data set with the mixtures of one more part."""
    mixtures = [*plan.dims[0].values, *part.dims[0].values]
    n, first = max(mixtures) - min(mixtures) + 1, min(mixtures)
    return replace(plan, mixtures=n, first_mixture=first, mixture_step=1, mixture_chunk=n)


def _entries(cubes: Iterable[Manifest]) -> tuple[Dataset, ...]:
    """Return the data sets of all cubes, with all mixtures of each."""
    by_name: dict[str, Dataset] = {}
    for entry in (entry for cube in cubes for entry in cube.spec.grid.datasets):
        before = by_name.setdefault(entry.name, entry)
        if before is not entry and isinstance(before, Mixtures) and isinstance(entry, Mixtures):
            first = min(before.first, entry.first)
            count = max(mixtures.draws[-1] for mixtures in (before, entry)) + 1 - first
            by_name[entry.name] = before.model_copy(update={"first": first, "count": count, "step": 1})
    return tuple(by_name.values())
