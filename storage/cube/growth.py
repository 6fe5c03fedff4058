"""The cube on disk, made in one step (`create`) and extended in one step (`grow`).

`differences` says what keeps a changed sweep from extending a cube, and `align` lays its plans out as the
cube does; `render` makes the wanted state in memory, to which the disk is then made equal.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from math import ceil
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import zarr
from zarr.core.buffer import Buffer, default_buffer_prototype
from zarr.storage import MemoryStore

from storage.cube.manifest import (
    NAMES,
    ROOT_FILE,
    Manifest,
    array_entry,
    commit,
    group_entry,
    read_manifest,
    root_document,
    to_json,
)
from storage.cube.places import chunk_position
from storage.cube.schema import (
    FIELDS,
    INPUTS,
    Role,
    array_specs,
    coordinate_values,
    groups,
    input_names,
)
from storage.cube.store import CubeStore, open_cube
from storage.errors import storage_errors
from storage.files import PLAIN, Files
from sweeps.errors import InputError, Problem
from sweeps.file.search import BY_METHOD, HELD_OUT, Search
from sweeps.file.spec import SweepSpec
from sweeps.plan import DatasetPlan
from sweeps.seeds import accuracy_code
from sweeps.shapes import DIMS, widest_dims
from sweeps.words import asked_of, shape_of

__all__ = ["Inputs", "create", "grow", "open_cube"]


# A cube in memory: the metadata of every node, and the chunk files of coordinates and inputs.
#
# Creating and growing both render the wanted state here, then make the disk equal to it. zarr encodes into a
# store in memory, so that nothing is written before everything is known.

Features = npt.NDArray[np.floating[Any]]
Whole = npt.NDArray[np.integer[Any]]
Texts = npt.NDArray[np.object_]
InputArrays = (
    tuple[Features, Whole | None]
    | tuple[Features, Whole | None, Whole | None]
    | tuple[Features, Whole | None, Whole | None, Texts | None]
)
"""X, the true labels, annotations of a file, and names of the samples, as `INPUTS` names them.

None stands for what is not there. X and labels have a leading mixture axis where the plan has mixtures.
"""

METADATA_FILE = "zarr.json"


@dataclass
class Template:
    """Wanted state of some nodes of a cube.

    Parameters
    ----------
    metadata : dict
        zarr metadata of each group and array, by path.
    coordinates, inputs : dict
        Chunk files by key.
    """

    metadata: dict[str, dict[str, Any]] = field(default_factory=dict)
    coordinates: dict[str, bytes] = field(default_factory=dict)
    inputs: dict[str, bytes] = field(default_factory=dict)

    def metadata_files(self) -> dict[str, bytes]:
        """Metadata files by key."""
        return {f"{path}/{METADATA_FILE}": to_json(entry) for path, entry in self.metadata.items()}


def render(
    plan: DatasetPlan, committed: Mapping[str, Mapping[str, Any]], inputs: InputArrays | None
) -> Template:
    """Render the nodes of one data set.

    Parameters
    ----------
    plan : DatasetPlan
        Coordinates in order of arrival.
    committed : mapping
        Metadata of arrays that exist, by path: these keep all but their shape.
    inputs : InputArrays or None
        None leaves the chunks of inputs out.

    Returns
    -------
    Template
        Of `/<name>` and of `/<name>/<baseline>` for each baseline.
    """
    template = Template({path: group_entry(of) for path, of in groups(plan).items()})
    coordinates, data = coordinate_values(plan), _input_values(plan, inputs) if inputs else {}
    for spec in array_specs(plan):
        # Chunk files that exist fix the chunk lengths: a grown array changes its shape alone.
        entry = {**committed.get(spec.path, array_entry(spec)), "shape": list(spec.shape)}
        template.metadata[spec.path] = entry
        if spec.variable.role is Role.COORDINATE:
            template.coordinates |= _chunk_files(spec.path, entry, coordinates[spec.variable.name])
        elif spec.variable.role is Role.INPUT and data:
            template.inputs |= _chunk_files(spec.path, entry, data[spec.variable.name])
    return template


def _chunk_files(path: str, entry: Mapping[str, Any], values: npt.NDArray[Any]) -> dict[str, bytes]:
    """Chunk files of an array as zarr encodes them."""
    content = default_buffer_prototype().buffer.from_bytes(to_json(entry))
    files: dict[str, Buffer] = {METADATA_FILE: content}
    with zarr.config.set({"array.write_empty_chunks": True}):
        zarr.open_array(MemoryStore(files), mode="r+")[...] = values
    return {f"{path}/{name}": file.to_bytes() for name, file in files.items() if name != METADATA_FILE}


def chunk_counts(entry: Mapping[str, Any]) -> tuple[int, ...]:
    """Number of chunks along each dimension, from the metadata of an array."""
    lengths = entry["chunk_grid"]["configuration"]["chunk_shape"]
    return tuple(ceil(length / chunk) for length, chunk in zip(entry["shape"], lengths, strict=True))


def is_committed(key: str, committed: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether a chunk file belongs to an array as it was committed."""
    path, _, name = key.rpartition("/")
    entry = committed.get(path)
    position = chunk_position(name)
    if entry is None or position is None or entry["node_type"] != "array":
        return False
    counts = chunk_counts(entry)
    return len(position) == len(counts) and all(i < n for i, n in zip(position, counts, strict=True))


def _input_values(plan: DatasetPlan, inputs: InputArrays) -> dict[str, npt.NDArray[Any]]:
    values = named(inputs)
    features, labels = values["X"], values.get("labels_true")
    shape: tuple[int, ...] = (plan.n_samples, plan.n_features)
    if plan.mixtures is not None:
        shape = (plan.mixtures, *shape)
    if features.shape != shape:
        raise ValueError(f"X of {plan.name} has shape {features.shape}, its plan says {shape}")
    if (labels is not None) != plan.has_labels or (labels is not None and labels.shape != shape[:-1]):
        raise ValueError(f"true labels of {plan.name} do not agree with its plan")
    pool = values.get("annotation_pool", np.empty((0, len(FIELDS))))
    if pool.shape != (plan.n_annotations, len(FIELDS)):
        raise ValueError(f"annotations of {plan.name} have shape {pool.shape}, not that of its plan")
    if plan.sample_names and len(values.get("sample", ())) != plan.n_samples:
        raise ValueError(f"names of the samples of {plan.name} do not agree with its plan")
    return {name: values[name] for name in input_names(plan)}


def named(inputs: InputArrays) -> dict[str, npt.NDArray[Any]]:
    """Inputs that are there, by name."""
    pairs = zip(INPUTS, inputs, strict=False)
    return {name: values for name, values in pairs if values is not None}


T = TypeVar("T")

HINT = "use another name"
NAME_HINT = "name them as the cube does, or use another name for it"
GROWING = {
    *("source", "mixtures", "p", "m", "replicates", "models", "baselines", "methods", "designs", "searches")
}
CHUNKS = {"mixture_chunk", "replicate_chunk", "model_chunk"}
FORMS = ("one variance a cluster", "a variance of each feature a cluster", "a matrix a cluster")
"""How covariances are stored, by the axes that each has beside the cluster."""
STATED = {"adaptive", "held_out"}
"""Follow from the sweep file: the difference there is reported instead."""


def differences(manifest: Manifest, spec: SweepSpec, plans: Iterable[DatasetPlan]) -> list[Problem]:
    """All differences that keep a sweep from extending the one in the cube.

    Parameters
    ----------
    manifest : Manifest
        The cube as it is.
    spec : SweepSpec
        The sweep asked for.
    plans : iterable of DatasetPlan
        The grid asked for, of the data sets that are available now.

    Returns
    -------
    list of Problem
        Empty if the sweep may be submitted to this cube.
    """
    new_plans = {plan.name: plan for plan in plans}
    problems = [
        *_changed(manifest, _fixed(manifest.spec), _fixed(spec)),
        *_search_differences(manifest, spec),
        *_changed(manifest, _stop(manifest.spec), _stop(spec)),
        *_method_differences(manifest, spec),
        *_design_differences(manifest, spec),
    ]
    in_file = set(new_plans) | {entry.name for entry in spec.grid.datasets}
    for name, old in manifest.plans.items():
        if name in new_plans:
            problems += _plan_differences(manifest, old, new_plans[name])
        elif name not in in_file:
            where = f"{manifest.path}: grid.datasets"
            problems.append(Problem(where, f"no {name!r}", f"{name!r}, which the cube holds", HINT))
    return problems


def align(manifest: Manifest, plans: Iterable[DatasetPlan]) -> list[DatasetPlan]:
    """Plans with the layout of the cube.

    Parameters
    ----------
    manifest : Manifest
        The cube as it is.
    plans : iterable of DatasetPlan
        The grid asked for; `differences` must have found nothing.

    Returns
    -------
    list of DatasetPlan
        In the given order, with the chunk lengths and the source of the cube, and with its `p`, `m`,
        designs, searches and models before new ones.
    """
    return [_align(manifest.plans.get(plan.name), plan) for plan in plans]


def _align(old: DatasetPlan | None, new: DatasetPlan) -> DatasetPlan:
    if old is None:
        return new
    new = replace(
        new,
        source=old.source,
        mixture_chunk=old.mixture_chunk,
        baselines=_joined(old.baselines, new.baselines),
        searches=_joined(old.searches, new.searches),
        # a cube keeps the names it was made with, or none: they are in the metadata of what is there already
        **{key: getattr(old, key) for key in NAMES},
    )
    if not old.supervised:
        return new
    stored = {accuracy_code(p) for p in old.p}
    return replace(
        new,
        p=old.p + tuple(p for p in new.p if accuracy_code(p) not in stored),
        m=_joined(old.m, new.m),
        models=_joined(old.models, new.models),
        designs=_joined(old.designs, new.designs),
        replicate_chunk=old.replicate_chunk,
        model_chunk=old.model_chunk,
    )


def _joined(old: tuple[T, ...], new: tuple[T, ...]) -> tuple[T, ...]:
    """What the cube has, then what it has not."""
    return old + tuple(each for each in new if each not in old)


def _changed(manifest: Manifest, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Problem]:
    for key in dict.fromkeys([*old, *new]):
        stored, asked = old.get(key), new.get(key)
        if stored != asked:
            yield Problem(f"{manifest.path}: {key}", _show(asked), f"{_show(stored)}, as in the cube", HINT)


def _search_differences(manifest: Manifest, spec: SweepSpec) -> Iterator[Problem]:
    """Searches gone; several where the cube has no dimension for them; and other settings under one name."""
    where, stored, asked = f"{manifest.path}: search", manifest.spec.search_names, spec.search_names
    gone = [name for name in stored if name not in asked]
    if asked and gone:
        yield Problem(where, _listed(asked), f"also {', '.join(gone)}", _renamed(manifest.spec, spec) or HINT)
    elif bool(asked) != bool(stored):
        also = "also " if stored else "as in the cube, which has no room for more: "
        yield Problem(where, _listed(asked), also + _listed(stored), HINT)
    for search in manifest.spec.search:
        if search.name is None and not asked:
            yield from _setting_differences(where, search, spec.search[0], "[search]")
        elif search.name in asked:
            under = f"the search {search.name!r}"
            yield from _setting_differences(
                f"{where} {search.name}", search, spec.search_of(search.name), under
            )


def _renamed(stored: SweepSpec, asked: SweepSpec) -> str:
    """Searches of the cube that the file has under other names."""
    old = {each.settings: each.name for each in stored.search}
    found = {each.name: old[each.settings] for each in asked.search if each.settings in old}
    same = ", ".join(f"{new} is its {name}" for new, name in found.items() if new != name)
    return f"name them as the cube does: {same}" if same else ""


def _listed(searches: tuple[str, ...]) -> str:
    return f"searches {', '.join(searches)}" if searches else "one search"


def _setting_differences(where: str, stored: Search, asked: Search, under: str) -> Iterator[Problem]:
    """Settings that another search has, the method first."""
    of_cube, of_file = stored.written(), asked.written()
    told = of_cube["method"] != of_file["method"]
    if told:
        expected = f"{_settings(of_cube, stored)}, as in the cube"
        yield Problem(f"{where}.method", _settings(of_file, asked), expected, _to_grow(of_cube, under))
    for name in sorted([*vars(stored.settings), HELD_OUT]):
        old, new = getattr(stored, name), getattr(asked, name)
        if old != new and not (told and name in BY_METHOD):
            # what was left out may go by another method now, so that nothing in the file has to have changed
            hint = _to_grow({name: old}, under) if name in (*BY_METHOD, HELD_OUT) else HINT
            yield Problem(f"{where}.{name}", _show(new), f"{_show(old)}, as in the cube", hint)


def _method_differences(manifest: Manifest, spec: SweepSpec) -> Iterator[Problem]:
    """Methods that kept their name but not their code, options or calls: their cells would not compare."""
    asked = {method.name: method.science for method in spec.grid.methods}
    for method in manifest.spec.grid.methods:
        new = asked.get(method.name, method.science)
        for key, stored in method.science.items():
            if stored != new[key]:
                where = f"{manifest.path}: method {method.name}, {key}"
                hint = "give the method another name"
                yield Problem(where, _show(new[key]), f"{_show(stored)}, as in the cube", hint)


def _design_differences(manifest: Manifest, spec: SweepSpec) -> Iterator[Problem]:
    """Designs gone; several of them where the cube has no dimension for them; and other questions."""
    if not any(plan.supervised for plan in manifest.plans.values()):
        return
    where, stored, asked = f"{manifest.path}: grid.design", manifest.spec.grid.design, spec.grid.design
    if not spec.grid.supervised:
        return  # that all models are gone is reported
    gone = [design for design in stored if design not in asked]
    if gone or (len(asked) > 1) != (len(stored) > 1):
        room = f"as in the cube, which has no room for more: {', '.join(stored)}"
        yield Problem(where, ", ".join(asked), f"also {', '.join(gone)}" if len(stored) > 1 else room, HINT)
    if asked_of(stored):
        old, new = (
            {f"ask.{key}": getattr(value, "text", value) for key, value in each.ask}
            for each in (manifest.spec, spec)
        )
        yield from _changed(manifest, old, new)


def _settings(written: Mapping[str, Any], search: Search) -> str:
    """The method with all that goes by it."""
    values = ", ".join(f"{name} {_show(getattr(search, name))}" for name in BY_METHOD)
    return f"{_show(written['method'])} ({values})"


def _to_grow(stored: Mapping[str, Any], under: str) -> str:
    """What a sweep file has to say for the search of the cube."""
    keys = ", ".join(f"{name} = {json.dumps(value)}" for name, value in stored.items())
    return f"to grow this cube write {keys} under {under}, and no key that says otherwise; or {HINT}"


def _fixed(spec: SweepSpec) -> dict[str, Any]:
    """What of a sweep may not change, by table and key; `[data]` changes no number."""
    return {"name": spec.name, "seed": spec.seed, "grid.restarts": spec.grid.restarts}


def _stop(spec: SweepSpec) -> dict[str, Any]:
    stop = dict(spec.stop or ())
    return {f"stop.{key}": stop[key] for key in sorted(stop)}


def _plan_differences(manifest: Manifest, old: DatasetPlan, new: DatasetPlan) -> Iterator[Problem]:
    where = f"{manifest.path}: data set {old.name}"
    for key in sorted({each.name for each in fields(DatasetPlan)} - GROWING - CHUNKS - STATED - {*NAMES}):
        stored, asked = getattr(old, key), getattr(new, key)
        if stored != asked:
            yield Problem(f"{where}, {key}", _show(asked), f"{_show(stored)}, as in the cube", HINT)
    for key in NAMES:
        stored, asked = getattr(old, key), getattr(new, key)
        if stored and asked and stored != asked:
            yield Problem(f"{where}, {key}", _show(asked), f"{_show(stored)}, as in the cube", NAME_HINT)
    for gone in old.baselines:
        if gone not in new.baselines:
            yield Problem(f"{where}, models", f"no {gone!r}", f"{gone!r}, which the cube holds", HINT)
    yield from _length(where, "mixtures", old.mixtures, new.mixtures, old.mixture_chunk)
    if old.supervised:
        yield from _removed(where, "p", _by_code(old.p), _by_code(new.p))
        yield from _removed(where, "m", {m: m for m in old.m}, {m: m for m in new.m})
        yield from _removed(where, "models", {m: m for m in old.models}, {m: m for m in new.models})
        yield from _length(where, "replicates", old.replicates, new.replicates)
        yield from _length(where, "number of models", len(old.models), len(new.models), old.model_chunk)
        yield from _wider(where, old.models, new.models)


def _by_code(accuracies: Iterable[float]) -> dict[int, float]:
    return {accuracy_code(p): p for p in accuracies}


def _removed(where: str, key: str, old: Mapping[Any, Any], new: Mapping[Any, Any]) -> Iterator[Problem]:
    gone = [_show(old[code]) for code in old if code not in new]
    if gone:
        found = ", ".join(_show(value) for value in new.values()) or "none"
        yield Problem(f"{where}, {key}", found, f"also {', '.join(gone)}, which the cube holds", HINT)


def _wider(where: str, old: tuple[str, ...], new: tuple[str, ...]) -> Iterator[Problem]:
    """Models whose covariances the cube has no room for: its chunks would have to be written again."""
    n_axes = len(widest_dims(map(shape_of, old)))
    if wider := [model for model in new if len(DIMS[shape_of(model)]) > n_axes]:
        found = f"{', '.join(map(repr, wider))} with {FORMS[len(widest_dims(map(shape_of, wider)))]}"
        yield Problem(f"{where}, models", found, f"{FORMS[n_axes]}, as in the cube", HINT)


def _length(where: str, key: str, old: int | None, new: int | None, chunk: int = 1) -> Iterator[Problem]:
    if old is None or new is None:
        if old != new:
            yield Problem(f"{where}, {key}", _show(new), f"{_show(old)}, as in the cube", HINT)
    elif new < old:
        yield Problem(f"{where}, {key}", str(new), f"at least the {old} in the cube", HINT)
    elif new % chunk:
        expected = f"a multiple of {chunk}, the length at creation"
        yield Problem(f"{where}, {key}", str(new), expected, HINT)


def _show(value: object) -> str:
    if isinstance(value, bool):
        return json.dumps(value)
    return "nothing" if value is None else repr(value)


# The cube on disk: created in one step, extended in one step.

Inputs = Callable[[DatasetPlan], InputArrays]


def create(
    path: Path, plans: Iterable[DatasetPlan], inputs: Inputs, spec: SweepSpec, files: Files = PLAIN
) -> None:
    """Create a cube with nothing done: built under another name, then renamed.

    Parameters
    ----------
    path : Path
        `<name>.zarr`; its directory is made if missing.
    plans : iterable of DatasetPlan
        The grid of each data set; chunk lengths are taken from them.
    inputs : callable
        From a plan to its inputs, see `storage.cube.growth.InputArrays`.
    spec : SweepSpec
        The sweep; the cube keeps its dump.
    files : Files
        Of the holder of the lease.

    Raises
    ------
    InputError
        If `path` exists.
    StorageError
        If the file system refuses.
    """
    if os.path.lexists(path):
        raise InputError([Problem(str(path), "something there already", "a name not in use")])
    plans = list(plans)
    template = _merged(render(plan, {}, inputs(plan)) for plan in plans)
    document = root_document(spec, plans, [], template.metadata)
    contents = template.metadata_files() | template.coordinates | template.inputs
    contents[ROOT_FILE] = to_json(document)
    with storage_errors(path, _size(contents)):
        path.parent.mkdir(parents=True, exist_ok=True)
        # The rename is the commit: before it, readers find no cube.
        files.build(path, contents.items())


def grow(
    path: Path, plans: Iterable[DatasetPlan], inputs: Inputs, spec: SweepSpec, files: Files = PLAIN
) -> None:
    """Extend a cube by new coordinates and data sets; remove what an interrupted growth left behind.

    Nothing that readers see changes before the root file is replaced. Chunk files of results are never
    touched. With nothing new the cube stays as it is.

    Parameters
    ----------
    path : Path
        The cube.
    plans, inputs, spec, files
        As for `create`. `inputs` is called for data sets that are new or have new mixtures.

    Raises
    ------
    InputError
        If this is not a cube, or the sweep does not extend the one in it.
    StorageError
        If the file system refuses.
    """
    manifest = read_manifest(path)
    plans = list(plans)
    problems = differences(manifest, spec, plans)
    if problems:
        raise InputError(problems)
    grown = manifest.plans | {plan.name: plan for plan in align(manifest, plans)}
    template = _merged(_render_growth(manifest, plan, inputs) for plan in grown.values())
    document = root_document(spec, grown.values(), manifest.runs, template.metadata)
    contents = template.metadata_files() | template.coordinates
    contents |= {
        key: data for key, data in template.inputs.items() if not is_committed(key, manifest.metadata)
    }
    with storage_errors(path, _size(contents)):
        _remove_uncommitted(path, manifest.metadata, files)
        # Readers take nodes and shapes from the root: what is new lies beyond them until the commit.
        files.put_all(path, _changed_files(path, contents))
        unchanged = (path / ROOT_FILE).read_bytes() == to_json(document)
    if not unchanged:
        commit(path, document, files)


def _render_growth(manifest: Manifest, plan: DatasetPlan, inputs: Inputs) -> Template:
    old = manifest.plans.get(plan.name)
    if old is not None and old.mixtures == plan.mixtures:
        return render(plan, manifest.metadata, None)
    data = inputs(plan)
    if old is not None:
        _compare_inputs(manifest, old, data)
    return render(plan, manifest.metadata, data)


def _compare_inputs(manifest: Manifest, old: DatasetPlan, inputs: InputArrays) -> None:
    path = manifest.path
    store = CubeStore(path, chunks=manifest.chunks, document=manifest.document, read_only=True)
    node = zarr.open_group(store, mode="r", use_consolidated=True)[old.name]
    if not isinstance(node, zarr.Group):
        raise TypeError(f"{path}/{old.name} is no group")
    for name, values in named(inputs).items():
        if not np.array_equal(np.asarray(node[name]), values[: old.mixtures]):
            where = f"{path}/{old.name}/{name}"
            hint = "a different numpy may draw different numbers; use another name"
            raise InputError([Problem(where, "other mixtures now", "the mixtures stored in the cube", hint)])


def _remove_uncommitted(path: Path, metadata: Mapping[str, Any], files: Files) -> None:
    """Remove nodes and chunks that the root does not list: all were left by an interrupted growth."""
    for folder, subfolders, names in os.walk(path):
        here = Path(folder)
        for name in [name for name in subfolders if not name.startswith(".")]:
            if (here / name).relative_to(path).as_posix() not in metadata:
                files.remove(here / name)
                subfolders.remove(name)
        for name in names:
            key = (here / name).relative_to(path).as_posix()
            if chunk_position(name) is not None and not is_committed(key, metadata):
                files.remove(here / name)


def _changed_files(path: Path, files: Mapping[str, bytes]) -> Iterator[tuple[str, bytes]]:
    for key, data in files.items():
        file = path / key
        if not file.exists() or file.read_bytes() != data:
            yield key, data


def _merged(templates: Iterable[Template]) -> Template:
    merged = Template()
    for template in templates:
        merged.metadata |= template.metadata
        merged.coordinates |= template.coordinates
        merged.inputs |= template.inputs
    return merged


def _size(files: Mapping[str, bytes]) -> int:
    return sum(map(len, files.values()))
