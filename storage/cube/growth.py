"""The cube on disk, made in one step (`create`) and extended in one step (`grow`).

`differences` lists the reasons why a changed sweep cannot extend a cube, and `align` lays its plans out as
the cube does. Both ways the new state is rendered in memory first, so that nothing is written before
everything is known.
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
from sweep_clustering.storage.files import PLAIN, Files, storage_errors
from sweep_clustering.sweeps.errors import Problem, key_changes, raise_all, refused, text_or_nothing
from sweep_clustering.sweeps.file.search import BY_METHOD, HELD_OUT, Search
from sweep_clustering.sweeps.file.spec import SweepSpec
from sweep_clustering.sweeps.files import shipped_files
from sweep_clustering.sweeps.plan import VARIANTS, DatasetPlan, Dim
from sweep_clustering.sweeps.seeds import accuracy_code
from sweep_clustering.sweeps.shapes import DIMS, widest_dims
from sweep_clustering.sweeps.words import CROWD, asked_of, shape_of

__all__ = ["Inputs", "create", "grow", "open_cube"]

# Arrays in the order of `INPUTS`: X, true labels, annotations of a file, names of the samples. None stands
# for a missing one. X and labels have a leading mixture axis if the plan has mixtures.
InputArrays = tuple[npt.NDArray[Any] | None, ...]

Inputs = Callable[[DatasetPlan], InputArrays]


def create(
    path: Path, plans: Iterable[DatasetPlan], inputs: Inputs, spec: SweepSpec, files: Files = PLAIN
) -> None:
    """Create a cube with nothing done: it is built under another name, then renamed.

    Parameters
    ----------
    path : Path
        path of `<name>.zarr`, whose directory is made if missing
    plans : iterable of DatasetPlan
        grid and chunk lengths of each data set
    inputs : callable
        From a plan to its inputs, see `storage.cube.growth.InputArrays`.
    spec : SweepSpec
        sweep that the cube keeps
    files : Files
        writer of the holder of the lease

    Raises
    ------
    InputError
        If `path` exists.
    StorageError
        If the file system refuses.
    """
    if os.path.lexists(path):
        raise refused(path, "something there already", "a name not in use")
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
    """Extend a cube by new coordinates and data sets; remove incomplete files of an interrupted growth.

    Readers see no change before the root file is replaced. Chunk files of results are never touched. The
    parameters are those of `create`; `inputs` is called for data sets that are new or have new mixtures.

    Raises
    ------
    InputError
        If this is not a cube, or the sweep does not extend the one in it.
    StorageError
        If the file system refuses.
    """
    manifest = read_manifest(path)
    plans = list(plans)
    raise_all(differences(manifest, spec, plans))
    stored_plans = manifest.plans
    grown = stored_plans | {plan.name: plan for plan in align(manifest, plans)}

    def new_inputs(plan: DatasetPlan) -> InputArrays | None:
        # Inputs in the cube never change. New data sets, and more mixtures, bring new ones.
        stored_plan = stored_plans.get(plan.name)
        return None if stored_plan is not None and stored_plan.mixtures == plan.mixtures else inputs(plan)

    metadata, contents = render(grown.values(), manifest.metadata, new_inputs)
    # Existing chunks of inputs stay: another zstd may write the same values in other bytes.
    for key in stored_inputs(manifest, contents):
        if not manifest.chunks.has_values(key, contents.pop(key)):
            location, expected = f"{path}/{key.rpartition('/')[0]}", "the mixtures stored in the cube"
            hint = f"a different numpy may draw different numbers; {HINT}"
            raise refused(location, "other mixtures now", expected, hint)
    new = replace(manifest, spec=spec, plans=grown, metadata=metadata)
    with storage_errors(path, sum(map(len, contents.values()))):
        _remove_uncommitted(path, manifest.metadata, files)
        # Readers take nodes and shapes from the root, so they do not see new files before the commit.
        files.put_all(path, ((key, data) for key, data in contents.items() if _content(path / key) != data))
        if _content(path / chunks.ROOT_FILE) != new.document:
            new.commit(files)


def render(
    plans: Iterable[DatasetPlan],
    committed: chunks.Metadata,
    inputs: Callable[[DatasetPlan], InputArrays | None],
) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return the metadata of the nodes of some data sets by path, and their files by key.

    The files are those of metadata, coordinates and inputs; data sets whose `inputs` are None have no files
    of inputs. `committed` has the metadata of existing arrays, which keep all except their shape.
    """
    metadata: dict[str, Any] = {}
    contents: dict[str, bytes] = {}
    for plan in plans:
        arrays = inputs(plan)
        values = coordinate_values(plan)
        values |= {name: data for name, data in zip(INPUTS, arrays or (), strict=False) if data is not None}
        metadata |= {path: group_entry(attributes) for path, attributes in groups(plan).items()}
        for spec in array_specs(plan):
            # Chunk files that exist fix the chunk lengths: a grown array changes its shape alone.
            entry = {**committed.get(spec.path, array_entry(spec)), "shape": list(spec.shape)}
            metadata[spec.path] = entry
            value = values.get(spec.variable.name)
            if value is None or spec.variable.role not in (Role.COORDINATE, Role.INPUT):
                continue
            lengths = chunks.chunk_lengths(entry)
            for position in np.ndindex(*chunks.chunk_counts(entry)):
                part = tuple(slice(i * n, (i + 1) * n) for i, n in zip(position, lengths, strict=True))
                key = f"{spec.path}/{chunks.chunk_name(position)}"
                contents[key] = chunks.encoded(value[part], lengths, spec.variable)
    files = {f"{path}/{chunks.ROOT_FILE}": json.dumps(entry).encode() for path, entry in metadata.items()}
    return metadata, files | contents


def stored_inputs(manifest: Manifest, contents: Iterable[str]) -> list[str]:
    """Return the keys of chunks of inputs that the cube has."""
    committed_keys = (key for key in contents if is_committed(key, manifest.metadata))
    return [key for key in committed_keys if chunks.variable_of(key).role is Role.INPUT]


def is_committed(key: str, committed: chunks.Metadata) -> bool:
    """Whether a chunk file belongs to an array as it was committed."""
    path, _, name = key.rpartition("/")
    entry, position = committed.get(path, {}), chunks.chunk_position(name)
    if position is None or entry.get("node_type") != "array":
        return False
    counts = chunks.chunk_counts(entry)
    return len(position) == len(counts) and all(i < n for i, n in zip(position, counts, strict=True))


def _remove_uncommitted(path: Path, metadata: Mapping[str, Any], files: Files) -> None:
    """Remove nodes and chunks that the root does not list: an interrupted growth left them."""
    for folder, subfolders, names in os.walk(path):
        directory = Path(folder)
        for name in [name for name in subfolders if not name.startswith(".")]:
            if (directory / name).relative_to(path).as_posix() not in metadata:
                files.remove(directory / name)
                subfolders.remove(name)
        for name in names:
            key = (directory / name).relative_to(path).as_posix()
            if chunks.chunk_position(name) is not None and not is_committed(key, metadata):
                files.remove(directory / name)


def _content(file: Path) -> bytes | None:
    return file.read_bytes() if file.exists() else None


HINT = "use another name"
NAME_HINT = "name them as the cube does, or use another name for it"
# Fields of a plan by which a cube has the arrays that it has.
LAYOUT = ("short", "machines", "left_out")
# Fields of a plan that may differ, or are compared apart: those that grow, those that are taken from the
# cube, those whose difference is reported for the sweep file, and those that a cube may lack.
FREE = {
    *("mixtures", "p", "m", "replicates", "models", "baselines", "methods", "designs", "searches"),
    *("source", "mixture_chunk", "replicate_chunk", "model_chunk"),
    *("adaptive", "held_out", "unions", "answers_each"),
    *NAMES,
    *LAYOUT,
}
# Forms of stored covariances, by the number of axes after the cluster.
FORMS = ("one variance a cluster", "a variance of each feature a cluster", "a matrix a cluster")


def differences(manifest: Manifest, spec: SweepSpec, plans: Iterable[DatasetPlan]) -> list[Problem]:
    """Return all differences by which a sweep cannot extend the one in the cube.

    `plans` is the grid of the new sweep, without data sets that are unavailable now.
    """
    stored_spec, prefix, by_name = manifest.spec, f"{manifest.path}: ", {plan.name: plan for plan in plans}
    problems = list(science_differences(prefix, manifest, spec, by_name, "the cube"))
    # if all models with annotations are removed, that alone is reported
    supervised = spec.grid.supervised and any(plan.supervised for plan in manifest.plans.values())
    names_by_key = [("search", stored_spec.search_names, spec.search_names)]
    names_by_key += [("grid.design", stored_spec.grid.design, spec.grid.design)] if supervised else []
    for key, stored_names, names in names_by_key:
        missing_names = [name for name in stored_names if name not in names]
        # a single value has no dimension to which others could be added
        if missing_names or (len(stored_names) > 1) != (len(names) > 1):
            room = f"as in the cube, which has no room for more: {', '.join(stored_names) or 'one'}"
            expected = f"also {', '.join(missing_names)}" if len(stored_names) > 1 else room
            problems.append(Problem(prefix + key, ", ".join(names) or "one", expected, HINT))
    for name, plan in manifest.plans.items():
        if name in by_name:
            problems += _room_differences(f"{prefix}data set {name}, ", plan, by_name[name])
    expected_names = by_name.keys() | {entry.name for entry in spec.grid.datasets}
    removed_names = [name for name in manifest.plans if name not in expected_names]
    if removed_names:
        text = ", ".join(map(repr, removed_names))
        expected = f"also {text}, which the cube holds"
        problems.append(Problem(f"{prefix}grid.datasets", f"no {text}", expected, _removal_hint(stored_spec)))
    return problems


def science_differences(
    prefix: str, cube: Manifest, spec: SweepSpec, plans: Mapping[str, DatasetPlan], origin: object
) -> Iterator[Problem]:
    """Yield the differences by which cells of a sweep do not belong beside those of a cube.

    Messages call the cube `origin`.
    """
    stored_spec = cube.spec
    supervised = spec.grid.supervised and any(plan.supervised for plan in cube.plans.values())
    designs = stored_spec.grid.design if supervised else ()
    fixed_values, stored_values = _fixed_values(spec, designs), _fixed_values(stored_spec, designs)
    yield from key_changes(prefix, fixed_values, stored_values, origin, HINT)
    for old in stored_spec.search:
        for new in (search for search in spec.search if search.name == old.name):
            yield from _setting_differences(prefix, old, new, origin)
    for method in stored_spec.grid.methods:
        for new_method in (search for search in spec.grid.methods if search.name == method.name):
            location, hint = f"{prefix}method {method.name}, ", "give the method another name"
            yield from key_changes(location, new_method.science, method.science, origin, hint)
    for name, plan in cube.plans.items():
        if name in plans:
            yield from _plan_differences(f"{prefix}data set {name}, ", plan, plans[name], origin)


def _removal_hint(stored_spec: SweepSpec) -> str:
    """Return a remedy for a sweep file without data sets of the cube; it names a shipped file with them."""
    hint = (
        "to continue this cube, add them to a copy of the file; for a new cube, choose a folder by --results"
    )
    hint += f", or {HINT}"
    files = shipped_files()
    if stored_spec.name not in {path.stem for path in files}:
        return hint
    # Imported here, because only this message needs the reader of sweep files.
    from sweep_clustering.sweeps.file.reading import load_sweep

    names = {entry.name for entry in stored_spec.grid.datasets}
    sweeps = (path for path in files if names <= {entry.name for entry in load_sweep(path).grid.datasets})
    notes = (f"the shipped sweeps/{path.name} has all of them, and its own cube" for path in sweeps)
    return "; ".join([hint, *notes])


def _fixed_values(spec: SweepSpec, designs: Iterable[str]) -> dict[str, Any]:
    """Return the values of a sweep with some designs that may not change, by table and key.

    `[data]` changes no number.
    """
    return {
        "name": spec.name,
        "seed": spec.seed,
        "grid": {"restarts": spec.grid.restarts},
        "stop": dict(spec.stop or ()),
        "ask": {key: getattr(value, "text", value) for key, value in spec.ask} if asked_of(designs) else {},
        "crowd": dict(spec.crowd) if CROWD in designs else {},
    }


def _setting_differences(
    location: str, stored_search: Search, new_search: Search, origin: object
) -> Iterator[Problem]:
    """Yield the settings that another search has; if the method differs, not those that it names."""
    table, prefix = "[search]", "search."
    if stored_search.name is not None:
        table, prefix = f"the search {stored_search.name!r}", f"search {stored_search.name}."
    old, new = (
        {"method": search.shortest_keys()["method"]}
        | {name: getattr(search, name) for name in sorted([*vars(search.settings), HELD_OUT])}
        for search in (stored_search, new_search)
    )
    if old["method"] != new["method"]:
        for name in BY_METHOD:
            del old[name], new[name]
    # what was left out may go by another method now, so that nothing in the file has to have changed
    keys = stored_search.shortest_keys() | {name: value for name, value in old.items() if value != new[name]}
    settings = ", ".join(f"{name} = {json.dumps(value)}" for name, value in keys.items())
    hint = f"to grow this cube write {settings} under {table}, and no key that says otherwise; or {HINT}"
    yield from key_changes(location + prefix, new, old, origin, hint)


def _plan_differences(prefix: str, old: DatasetPlan, new: DatasetPlan, origin: object) -> Iterator[Problem]:
    field_names = sorted({union.name for union in fields(old)} - FREE)
    if None in (old.mixtures, new.mixtures):
        field_names.append("mixtures")
    if old.mixtures == 1:
        field_names.remove("mixture_step")  # a single mixture has no step yet
    name_keys = [key for key in NAMES if getattr(old, key) and getattr(new, key)]
    for keys, hint in ((field_names, HINT), (name_keys, NAME_HINT)):
        of_cube, of_file = ({key: getattr(plan, key) for key in keys} for plan in (old, new))
        yield from key_changes(prefix, of_file, of_cube, origin, hint)


def _room_differences(prefix: str, old: DatasetPlan, new: DatasetPlan) -> Iterator[Problem]:
    """Yield what a cube has no room for."""
    yield from _dim_differences(f"{prefix}models", Dim("model", old.baselines), Dim("model", new.baselines))
    for dim, new_dim in zip(old.dims, new.dims, strict=True):
        # a cube without models that use annotations accepts any, and with them these dimensions
        is_new = dim.values[0] is None or (dim.name == "mixture" and new.mixtures is None)
        if not is_new and dim.name not in VARIANTS:
            yield from _dim_differences(f"{prefix}{dim.name}{'s' if dim.ranged else ''}", dim, new_dim)
    # wider covariances have no room: their chunks would have to be written again
    n_axes = len(widest_dims(map(shape_of, old.models)))
    wider = [model for model in new.models if old.supervised and len(DIMS[shape_of(model)]) > n_axes]
    if wider:
        description = f"{', '.join(map(repr, wider))} with {FORMS[len(widest_dims(map(shape_of, wider)))]}"
        yield Problem(f"{prefix}models", description, f"{FORMS[n_axes]}, as in the cube", HINT)
    # Longer rows have no room either. Rows of cells in the cube keep their length, even if later releases
    # would have longer ones.
    lengths, stored_unions = room(old), {union.key for union in old.unions}
    longer = [union for union in new.unions if union.key not in stored_unions and union.is_longer(*lengths)]
    for union in longer if old.unions else ():
        description = f"{union.model!r} of up to {union.components} Gaussians in {union.entries:,} numbers"
        of_search = "models" if union.search is None else f"search {union.search}, models"
        expected = f"at most {lengths.components} in {lengths.entries:,}, as the cube has room for"
        yield Problem(f"{prefix}{of_search}", description, expected, HINT)


def _dim_differences(location: str, old: Dim, new: Dim) -> Iterator[Problem]:
    """Yield a problem if the values of the cube along a dimension are not the first of the new ones."""
    missing_values = [value for value in old.values if new.index(value) is None]
    if missing_values and isinstance(old.values, range):
        yield Problem(location, str(len(new.values)), f"at least the {len(old.values)} in the cube", HINT)
    elif missing_values:
        words, missing_words = (
            ", ".join(map(text_or_nothing, values)) for values in (new.values, missing_values)
        )
        yield Problem(location, words, f"also {missing_words}, which the cube holds", HINT)
    elif old.name != "replicate" and len(new.values) % old.chunk:
        expected = f"a multiple of {old.chunk}, the length at creation"
        yield Problem(location, str(len(new.values)), expected, HINT)


def align(manifest: Manifest, plans: Iterable[DatasetPlan]) -> list[DatasetPlan]:
    """Return plans, for which `differences` is empty, with the layout of the cube.

    They have the chunk lengths and the source of the cube, and its `p`, `m`, designs, searches and models
    before new ones.
    """
    aligned = []
    for new in plans:
        # a new data set keeps its layout
        old = manifest.plans.get(new.name, new)
        # A cube keeps the names of its creation, or none, and the type of its features, because existing
        # metadata contain them.
        stored_keys, joined_keys = ["source", "mixture_chunk", *NAMES, *LAYOUT], ["baselines", "searches"]
        if old.supervised:
            stored_keys += ["replicate_chunk", "model_chunk"]
            joined_keys += ["p", "m", "models", "designs"]
        changes = {key: getattr(old, key) for key in stored_keys}
        for key in joined_keys:
            code, stored_values = accuracy_code if key == "p" else str, getattr(old, key)
            codes = set(map(code, stored_values))
            new_values = (value for value in getattr(new, key) if code(value) not in codes)
            changes[key] = (*stored_values, *new_values)
        # cells of a cube of format 2 stay without Gaussians, and so do those that it grows by of their kind
        codes = set(product(old.node_of, old.searches or (None,)))
        new_unions = tuple(value for value in new.unions if value.key not in codes)
        changes["unions"] = old.unions + new_unions
        aligned.append(replace(new, **changes))
    return aligned
