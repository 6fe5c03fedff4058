"""The cube on disk, made in one step (`create`) and extended in one step (`grow`).

`differences` says what keeps a changed sweep from extending a cube, and `align` lays its plans out as the
cube does. Both ways the wanted state is rendered in memory, where zarr encodes it, and then the disk is made
equal to it: nothing is written before everything is known.
"""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sweep_clustering.storage.cube import chunks
from sweep_clustering.storage.cube.manifest import NAMES, Manifest, array_entry, group_entry, read_manifest
from sweep_clustering.storage.cube.schema import INPUTS, Role, array_specs, coordinate_values, groups, room
from sweep_clustering.storage.cube.store import open_cube
from sweep_clustering.storage.errors import storage_errors
from sweep_clustering.storage.files import PLAIN, Files
from sweep_clustering.sweeps.errors import InputError, Problem
from sweep_clustering.sweeps.file.search import BY_METHOD, HELD_OUT, Search
from sweep_clustering.sweeps.file.spec import SweepSpec
from sweep_clustering.sweeps.files import shipped_files
from sweep_clustering.sweeps.plan import VARIANTS, DatasetPlan, Dim
from sweep_clustering.sweeps.seeds import accuracy_code
from sweep_clustering.sweeps.shapes import DIMS, widest_dims
from sweep_clustering.sweeps.words import asked_of, shape_of

__all__ = ["Inputs", "create", "grow", "open_cube"]

# X, the true labels, annotations of a file, and names of the samples, as `INPUTS` names them.
#
# None stands for what is not there. X and labels have a leading mixture axis where the plan has mixtures.
InputArrays = tuple[npt.NDArray[Any] | None, ...]

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
    by_name = {plan.name: plan for plan in plans}
    metadata, contents = render(by_name.values(), {}, inputs)
    contents[chunks.ROOT_FILE] = Manifest(path, spec, by_name, (), metadata).document
    with storage_errors(path, sum(map(len, contents.values()))):
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
    if problems := differences(manifest, spec, plans):
        raise InputError(problems)
    there = manifest.plans
    grown = there | {plan.name: plan for plan in align(manifest, plans)}

    def new_inputs(plan: DatasetPlan) -> InputArrays | None:
        # those in the cube never change: new are those of new data sets, and of more mixtures
        known = there.get(plan.name)
        return None if known is not None and known.mixtures == plan.mixtures else inputs(plan)

    metadata, contents = render(grown.values(), manifest.metadata, new_inputs)
    # Chunks of inputs that are there stay: another zstd may write the same values in other bytes.
    for key in stored_inputs(manifest, contents):
        if not manifest.chunks.has_values(key, contents.pop(key)):
            where, hint = f"{path}/{key.rpartition('/')[0]}", "a different numpy may draw different numbers"
            expected, hint = "the mixtures stored in the cube", f"{hint}; use another name"
            raise InputError([Problem(where, "other mixtures now", expected, hint)])
    new = replace(manifest, spec=spec, plans=grown, metadata=metadata)
    with storage_errors(path, sum(map(len, contents.values()))):
        _remove_uncommitted(path, manifest.metadata, files)
        # Readers take nodes and shapes from the root: what is new lies beyond them until the commit.
        files.put_all(path, ((key, data) for key, data in contents.items() if _content(path / key) != data))
        if _content(path / chunks.ROOT_FILE) != new.document:
            new.commit(files)


def render(
    plans: Iterable[DatasetPlan],
    committed: Mapping[str, Mapping[str, Any]],
    inputs: Callable[[DatasetPlan], InputArrays | None],
) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Render the nodes of some data sets.

    Parameters
    ----------
    plans : iterable of DatasetPlan
        Coordinates in order of arrival.
    committed : mapping
        Metadata of arrays that exist, by path: these keep all but their shape.
    inputs : callable
        From a plan to its inputs; None leaves their chunks out.

    Returns
    -------
    metadata : dict
        zarr metadata of each group and array of `/<name>` and of `/<name>/<baseline>`, by path.
    files : dict of str to bytes
        Their files, and chunk files of coordinates and inputs, by key.
    """
    metadata: dict[str, Any] = {}
    contents: dict[str, bytes] = {}
    for plan in plans:
        found = inputs(plan)
        values = coordinate_values(plan)
        values |= {name: each for name, each in zip(INPUTS, found or (), strict=False) if each is not None}
        metadata |= {path: group_entry(of) for path, of in groups(plan).items()}
        for spec in array_specs(plan):
            # Chunk files that exist fix the chunk lengths: a grown array changes its shape alone.
            entry = {**committed.get(spec.path, array_entry(spec)), "shape": list(spec.shape)}
            metadata[spec.path] = entry
            value = values.get(spec.variable.name)
            if value is None or spec.variable.role not in (Role.COORDINATE, Role.INPUT):
                continue
            lengths = chunks.chunk_lengths(entry)
            for position in np.ndindex(*chunks.chunk_counts(entry)):
                part = tuple(slice(at * n, (at + 1) * n) for at, n in zip(position, lengths, strict=True))
                key = f"{spec.path}/{chunks.chunk_name(position)}"
                contents[key] = chunks.encoded(value[part], lengths, spec.variable)
    files = {f"{path}/{chunks.ROOT_FILE}": json.dumps(entry).encode() for path, entry in metadata.items()}
    return metadata, files | contents


def stored_inputs(manifest: Manifest, contents: Iterable[str]) -> list[str]:
    """Keys that are those of chunks of inputs in the cube."""
    there = (key for key in contents if is_committed(key, manifest.metadata))
    return [key for key in there if chunks.variable_of(key).role is Role.INPUT]


def is_committed(key: str, committed: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether a chunk file belongs to an array as it was committed."""
    path, _, name = key.rpartition("/")
    entry, position = committed.get(path, {}), chunks.chunk_position(name)
    if position is None or entry.get("node_type") != "array":
        return False
    counts = chunks.chunk_counts(entry)
    return len(position) == len(counts) and all(i < n for i, n in zip(position, counts, strict=True))


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
            if chunks.chunk_position(name) is not None and not is_committed(key, metadata):
                files.remove(here / name)


def _content(file: Path) -> bytes | None:
    return file.read_bytes() if file.exists() else None


# What may change, and what may not.

HINT = "use another name"
NAME_HINT = "name them as the cube does, or use another name for it"
# Fields of a plan that may be other ones, or are compared in a way of their own.
#
# In this order: what grows, what is taken from the cube, what follows from the sweep file, where the
# difference is reported, and Gaussians, names and short features, which a cube may lack.
FREE = {
    *("mixtures", "p", "m", "replicates", "models", "baselines", "methods", "designs", "searches"),
    *("source", "mixture_chunk", "replicate_chunk", "model_chunk"),
    *("adaptive", "held_out", "unions"),
    *NAMES,
    "short",
}
# How covariances are stored, by the axes that each has beside the cluster.
FORMS = ("one variance a cluster", "a variance of each feature a cluster", "a matrix a cluster")


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
    stored, where, by_name = manifest.spec, f"{manifest.path}: ", {plan.name: plan for plan in plans}
    # where all models with annotations are gone, that alone is reported
    supervised = spec.grid.supervised and any(plan.supervised for plan in manifest.plans.values())
    asking = bool(supervised and asked_of(stored.grid.design))
    problems = list(_changed(where, _fixed(stored, asking), _fixed(spec, asking), HINT))
    named = [("search", stored.search_names, spec.search_names)]
    named += [("grid.design", stored.grid.design, spec.grid.design)] if supervised else []
    for key, there, names in named:
        gone = [name for name in there if name not in names]
        # of one there is no dimension, in which others could be
        if gone or (len(there) > 1) != (len(names) > 1):
            room = f"as in the cube, which has no room for more: {', '.join(there) or 'one'}"
            expected = f"also {', '.join(gone)}" if len(there) > 1 else room
            problems.append(Problem(where + key, ", ".join(names) or "one", expected, HINT))
    for old in stored.search:
        for new in (each for each in spec.search if each.name == old.name):
            problems += _setting_differences(where, old, new)
    for method in stored.grid.methods:
        for other in (each for each in spec.grid.methods if each.name == method.name):
            hint = "give the method another name"
            problems += _changed(f"{where}method {method.name}, ", method.science, other.science, hint)
    for name, plan in manifest.plans.items():
        if name in by_name:
            problems += _plan_differences(f"{where}data set {name}, ", plan, by_name[name])
    wanted = by_name.keys() | {entry.name for entry in spec.grid.datasets}
    removed = [name for name in manifest.plans if name not in wanted]
    if removed:
        text = ", ".join(map(repr, removed))
        expected = f"also {text}, which the cube holds"
        problems.append(Problem(f"{where}grid.datasets", f"no {text}", expected, _of_removed(stored)))
    return problems


def _of_removed(stored: SweepSpec) -> str:
    """Say what to do when a sweep file lacks data sets of the cube; a shipped file that has them is named."""
    hint = (
        "to continue this cube, add them to a copy of the file; for a new cube, choose a folder by --results"
    )
    hint += f", or {HINT}"
    files = shipped_files()
    if stored.name not in {path.stem for path in files}:
        return hint
    # Imported here, because only this message needs the reader of sweep files.
    from sweep_clustering.sweeps.file.reading import load_sweep

    names = {entry.name for entry in stored.grid.datasets}
    whole = (path for path in files if names <= {entry.name for entry in load_sweep(path).grid.datasets})
    return "; ".join(
        [hint, *(f"the shipped sweeps/{path.name} has all of them, and its own cube" for path in whole)]
    )


def _fixed(spec: SweepSpec, asking: bool) -> dict[str, Any]:
    """What of a sweep may not change, by table and key; `[data]` changes no number."""
    fixed = {"name": spec.name, "seed": spec.seed, "grid.restarts": spec.grid.restarts}
    fixed |= {f"stop.{key}": value for key, value in spec.stop or ()}
    asked = spec.ask if asking else ()
    return fixed | {f"ask.{key}": getattr(value, "text", value) for key, value in asked}


def _changed(where: str, old: Mapping[str, Any], new: Mapping[str, Any], hint: str) -> Iterator[Problem]:
    for key in dict.fromkeys([*old, *new]):
        stored, asked = old.get(key), new.get(key)
        if stored != asked:
            yield Problem(where + key, _show(asked), f"{_show(stored)}, as in the cube", hint)


def _setting_differences(where: str, stored: Search, asked: Search) -> Iterator[Problem]:
    """Settings that another search has; where the method is another one, not those that it names."""
    under, prefix = "[search]", "search."
    if stored.name is not None:
        under, prefix = f"the search {stored.name!r}", f"search {stored.name}."
    old, new = (
        {"method": each.written()["method"]}
        | {name: getattr(each, name) for name in sorted([*vars(each.settings), HELD_OUT])}
        for each in (stored, asked)
    )
    if old["method"] != new["method"]:
        for name in BY_METHOD:
            del old[name], new[name]
    # what was left out may go by another method now, so that nothing in the file has to have changed
    keys = stored.written() | {name: value for name, value in old.items() if value != new[name]}
    written = ", ".join(f"{name} = {json.dumps(value)}" for name, value in keys.items())
    hint = f"to grow this cube write {written} under {under}, and no key that says otherwise; or {HINT}"
    yield from _changed(where + prefix, old, new, hint)


def _plan_differences(where: str, old: DatasetPlan, new: DatasetPlan) -> Iterator[Problem]:
    fixed = sorted({each.name for each in fields(old)} - FREE)
    if None in (old.mixtures, new.mixtures):
        fixed.append("mixtures")
    if old.mixtures == 1:
        fixed.remove("mixture_step")  # that of one alone is no step yet
    named = [key for key in NAMES if getattr(old, key) and getattr(new, key)]
    for keys, hint in ((fixed, HINT), (named, NAME_HINT)):
        of_cube, of_file = ({key: getattr(plan, key) for key in keys} for plan in (old, new))
        yield from _changed(where, of_cube, of_file, hint)
    yield from _dim_differences(f"{where}models", Dim("model", old.baselines), Dim("model", new.baselines))
    for dim, asked in zip(old.dims, new.dims, strict=True):
        # a cube without models that use annotations takes in any, and with them these dimensions
        is_new = dim.values[0] is None or (dim.name == "mixture" and new.mixtures is None)
        if not is_new and dim.name not in VARIANTS:
            yield from _dim_differences(f"{where}{dim.name}{'s' if dim.ranged else ''}", dim, asked)
    # wider covariances have no room: their chunks would have to be written again
    n_axes = len(widest_dims(map(shape_of, old.models)))
    wider = [model for model in new.models if old.supervised and len(DIMS[shape_of(model)]) > n_axes]
    if wider:
        found = f"{', '.join(map(repr, wider))} with {FORMS[len(widest_dims(map(shape_of, wider)))]}"
        yield Problem(f"{where}models", found, f"{FORMS[n_axes]}, as in the cube", HINT)
    # and so have longer rows; those of what the cube has keep their length, also if later releases want more
    there, known = room(old), {each.of for each in old.unions}
    longer = [each for each in new.unions if each.of not in known and each.is_longer(*there)]
    for each in longer if old.unions else ():
        found = f"{each.model!r} of up to {each.components} Gaussians in {each.entries:,} numbers"
        of_search = "models" if each.search is None else f"search {each.search}, models"
        expected = f"at most {there.components} in {there.entries:,}, as the cube has room for"
        yield Problem(f"{where}{of_search}", found, expected, HINT)


def _dim_differences(where: str, old: Dim, new: Dim) -> Iterator[Problem]:
    """What keeps the values of the cube along a dimension from being the first of others."""
    gone = [value for value in old.values if new.index(value) is None]
    if gone and isinstance(old.values, range):
        yield Problem(where, str(len(new.values)), f"at least the {len(old.values)} in the cube", HINT)
    elif gone:
        found, also = (", ".join(map(_show, values)) for values in (new.values, gone))
        yield Problem(where, found, f"also {also}, which the cube holds", HINT)
    elif old.name != "replicate" and len(new.values) % old.chunk:
        expected = f"a multiple of {old.chunk}, the length at creation"
        yield Problem(where, str(len(new.values)), expected, HINT)


def _show(value: object) -> str:
    if isinstance(value, bool):
        return json.dumps(value)
    return "nothing" if value is None else repr(value)


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
    aligned = []
    for new in plans:
        # one that is new keeps what it has
        old = manifest.plans.get(new.name, new)
        # a cube keeps the names it was made with, or none, and the type of its features: they are in the
        # metadata of what is there already
        kept, joined = ["source", "mixture_chunk", *NAMES, "short"], ["baselines", "searches"]
        if old.supervised:
            kept += ["replicate_chunk", "model_chunk"]
            joined += ["p", "m", "models", "designs"]
        changes = {key: getattr(old, key) for key in kept}
        for key in joined:
            code, there = accuracy_code if key == "p" else str, getattr(old, key)
            known = set(map(code, there))
            changes[key] = there + tuple(each for each in getattr(new, key) if code(each) not in known)
        # cells of a cube of format 2 stay without Gaussians, and so do those that it grows by of their kind
        known = set(product(old.node_of, old.searches or (None,)))
        added = tuple(each for each in new.unions if each.of not in known)
        changes["unions"] = old.unions + added
        aligned.append(replace(new, **changes))
    return aligned
