"""What a cube holds: format version, resolved sweep file, grid, data checksums, history of runs.

All of it is kept in the attributes of the root group, in the one file that also holds the consolidated
metadata: a single rename commits the grid and the arrays together.
"""

from __future__ import annotations

import json
import math
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from storage.cube.places import ChunkFiles
from storage.cube.schema import ArraySpec, Role, array_specs, groups
from storage.errors import storage_errors
from storage.files import LONGEST_ROOT, PLAIN, Files, read_regular, sync_directory
from storage.provenance import RunRecord
from storage.remote import Place
from storage.remote import read as read_remote
from storage.runfolder.folder import RunFolder
from sweeps.errors import InputError, Problem, collecting, shown
from sweeps.file.spec import SweepSpec, load
from sweeps.plan import DatasetPlan
from sweeps.records import ABSENT, marked, read
from sweeps.words import BASELINES, DEFAULT, is_model

# Plans of a cube as its attributes hold them, never trusted: a cube may come from anywhere.

NAMES = ("feature_names", "class_names", "sample_names")
"""What a plan says of names."""


def plan_to_json(plan: DatasetPlan) -> dict[str, Any]:
    """Fields of a plan, without those that only some cubes need: cubes older than these stay readable."""
    defaults = {each.name: each.default for each in fields(plan) if each.name != "scale"}
    return {
        name: value
        for name, value in asdict(plan).items()
        if getattr(plan, name) != defaults.get(name, MISSING)
    }


def read_plans(where: str, records: object, problems: list[Problem]) -> dict[str, DatasetPlan]:
    """Plans by name, from the attributes of a cube.

    Parameters
    ----------
    where : str
        The cube, for messages.
    records : object
        What the attribute `datasets` holds.
    problems : list of Problem
        Grows with everything that no sweep would have written.
    """
    if not isinstance(records, Mapping):
        problems.append(Problem(where, "not a table of data sets", "one record for each"))
        return {}
    known = [field.name for field in fields(DatasetPlan)]
    plans = {}
    for name, record in records.items():
        place = f"{where}: data set {name[:100]}:"
        if not isinstance(record, Mapping):
            problems.append(Problem(place.rstrip(":"), shown(record), "a table"))
            continue
        with collecting(problems):
            # The default of a plan is not one of a cube: every cube says how its features were scaled.
            plans[name] = read(DatasetPlan, {"scale": ABSENT, **marked(record, known)}, place)
            problems += _grid_problems(place, name, plans[name])
    return plans


def _grid_problems(where: str, name: str, plan: DatasetPlan) -> list[Problem]:
    problems = []
    if plan.name != name:
        problems.append(Problem(f"{where} name", repr(plan.name), repr(name)))
    if not bool(plan.p) == bool(plan.m) == plan.supervised:
        problems.append(Problem(f"{where} p, m and models", "some of them empty", "all of them, or none"))
    if plan.feature_names and len(plan.feature_names) != plan.n_features:
        found, expected = f"{len(plan.feature_names)} names", f"none, or one for each of {plan.n_features}"
        problems.append(Problem(f"{where} feature_names", found, expected))
    if plan.mixtures is not None and any(getattr(plan, key) for key in NAMES):
        problems.append(Problem(f"{where} names", "some", "none, as the data are drawn"))
    most = max(plan.m, default=0) if plan.mixtures is None else math.inf
    if plan.n_annotations and most > plan.n_annotations:
        expected = "a real data set with at least as many as the largest m"
        problems.append(Problem(f"{where} n_annotations", str(plan.n_annotations), expected))
    return problems


def name_problems(where: str, spec: SweepSpec, plan: DatasetPlan) -> list[Problem]:
    """What a plan names that is no model, and no method, design or search of the sweep.

    Parameters
    ----------
    where : str
        The cube, for messages.
    spec : SweepSpec
        The sweep that the cube holds.
    plan : DatasetPlan
        Of one of its data sets.
    """
    methods = {method.plan for method in spec.grid.methods}
    uses = {method.name: method.uses for method in spec.grid.methods}
    place = f"{where}: data set {plan.name}:"
    problems = []
    for key, names, use in (("models", plan.models, "links"), ("baselines", plan.baselines, "nothing")):
        for name in names:
            known = (name in BASELINES) == (use == "nothing") if is_model(name) else uses.get(name) == use
            if not known:
                expected = "a model with annotations" if use == "links" else "a model without annotations"
                problems.append(Problem(f"{place} {key}", shown(name), f"{expected}, or such a method"))
    wrong = [each for each in plan.methods if each not in methods]
    wrong += [each for each in plan.methods if each.restarts > plan.restarts]
    unnamed = {*plan.models, *plan.baselines} - {each.name for each in plan.methods}
    wrong += [each for each in methods if each.name in unnamed]
    # a data set that was not available when designs were added has fewer
    other = [design for design in plan.designs if design not in spec.grid.design]
    if plan.supervised and (other or (len(plan.designs) > 1) != (len(spec.grid.design) > 1)):
        problems.append(Problem(f"{place} designs", shown(plan.designs), f"of {shown(spec.grid.design)}"))
    if not plan.supervised and plan.designs != DEFAULT:
        problems.append(Problem(f"{place} designs", shown(plan.designs), "none without annotations"))
    # and one that was not available when searches were added has fewer of these
    names = spec.search_names
    if any(search not in names for search in plan.searches) or bool(plan.searches) != bool(names):
        expected = f"of {shown(names)}" if names else "none, as the sweep has one"
        problems.append(Problem(f"{place} searches", shown(plan.searches), expected))
    problems += [Problem(f"{place} methods", shown(each.name), "the methods of the sweep") for each in wrong]
    return problems


# The metadata a cube must have, from its plans: any other could decode objects, or fill the memory.

CHUNK_KEYS: dict[str, Any] = {"name": "default", "configuration": {"separator": "."}}
"""Chunks of an array lie side by side: one directory to make durable, none to make while results come in."""

SERIALIZERS = {
    "string": {"name": "vlen-utf8", "configuration": {}},
    "int8": {"name": "bytes"},  # one byte has no order
}
BYTES: dict[str, Any] = {"name": "bytes", "configuration": {"endian": "little"}}
COMPRESSION: dict[str, Any] = {"name": "zstd", "configuration": {"level": 0, "checksum": False}}
CHECKSUM: dict[str, Any] = {"name": "crc32c"}
"""Outermost, so that a chunk that has changed is noticed before it is decompressed."""

MOST_CELLS = 10**8
"""Of a data set: the status of all its cells is held in memory, one byte each."""

MOST_CHUNK_BYTES = 2**32
"""A chunk is written and read whole, and several copies of it are in memory at once."""

FREE = {"chunk_grid", "attributes", "storage_transformers"}
"""Keys of an array that may have one of several values."""

ROOT: dict[str, Any] = {"zarr_format": 3, "node_type": "group"}
INLINE: dict[str, Any] = {"kind": "inline", "must_understand": False}
NO_METADATA: dict[str, Any] = {**INLINE, "metadata": {}}
"""What zarr itself writes to a group below the root when it consolidates a cube again."""

ATTRIBUTES = {"long_name", "units", "flag_values", "flag_meanings"}
"""Others could make xarray scale, mask or convert values."""


def layout_problems(path: Place, plans: Iterable[DatasetPlan], metadata: object) -> Iterator[Problem]:
    """Find metadata of a cube that this version would not have written for these plans.

    Parameters
    ----------
    path : Path or str
        The cube.
    plans : iterable of DatasetPlan
        Its data sets.
    metadata : object
        What the root file holds as consolidated metadata: entries of groups and arrays by path.

    Yields
    ------
    Problem
        With the path of the entry. Of the cube itself, only the types of its directories are looked at.
    """
    if not isinstance(metadata, Mapping):
        yield Problem(str(path), "no consolidated metadata", "an entry for each node")
        return
    plans = list(plans)
    specs = {spec.path: spec for plan in plans for spec in array_specs(plan)}
    nodes = {path: group_entry(of) for plan in plans for path, of in groups(plan).items()}
    for key in sorted(metadata.keys() - specs.keys() - nodes.keys()):
        yield Problem(f"{path}/{key}", f"{_kind(metadata[key])}", "no such variable")
    for key in sorted((specs.keys() | nodes.keys()) - metadata.keys()):
        yield Problem(f"{path}/{key}", "no metadata", "those of this variable or group")
    for key in sorted(metadata.keys() & (specs.keys() | nodes.keys())):
        expected = array_entry(specs[key]) if key in specs else nodes[key]
        yield from _entry_problems(f"{path}/{key}", metadata[key], expected, specs.get(key))
        yield from _directory_problems(Path(path) / key)


def root_problems(path: Place, document: Mapping[str, Any]) -> Iterator[Problem]:
    """Find what of the root is not as this version writes it, attributes and entries of nodes aside."""
    for key in sorted(document.keys() - ROOT.keys() - {"attributes", "consolidated_metadata"}):
        yield Problem(str(path), f"a key {key[:60]!r}", "none of that name")
    for key, wanted in ROOT.items():
        if _text(document.get(key)) != _text(wanted):
            yield Problem(str(path), f"{key} {_text(document.get(key))}", _text(wanted))
    inline = document.get("consolidated_metadata")
    if isinstance(inline, Mapping):
        frame = {key: value for key, value in inline.items() if key != "metadata"}
        if _text(frame) != _text(INLINE):
            yield Problem(str(path), f"consolidated_metadata {_text(frame)}", _text(INLINE))


def size_problems(where: str, plan: DatasetPlan) -> Iterator[Problem]:
    """Find what of a plan is too large for memory: the status of all cells, or a chunk."""
    if plan.n_cells > MOST_CELLS:
        yield Problem(f"{where}{plan.name}", f"{plan.n_cells:,} cells", f"at most {MOST_CELLS:,}")
    for spec in array_specs(plan):
        dtype = spec.variable.dtype
        n_bytes = math.prod(spec.chunks) * (8 if dtype == "string" else np.dtype(dtype).itemsize)
        if n_bytes > MOST_CHUNK_BYTES:
            found = f"chunks of {n_bytes:,} bytes"
            hint = "fewer replicates or mixtures at creation; both may grow"
            yield Problem(f"{where}{spec.path}", found, f"at most {MOST_CHUNK_BYTES:,}", hint)


def _entry_problems(
    where: str, entry: object, expected: Mapping[str, Any], spec: ArraySpec | None
) -> Iterator[Problem]:
    if not isinstance(entry, Mapping):
        yield Problem(where, "metadata that are not a table", "zarr metadata")
        return
    known = expected.keys() | (FREE if spec else {"consolidated_metadata"})
    for key in sorted(entry.keys() - known):
        yield Problem(where, f"a key {key[:60]!r}", f"one of {', '.join(sorted(known))}")
    for key in sorted(expected.keys() - FREE if spec else expected.keys()):
        found, wanted = entry.get(key), expected[key]
        if key == "codecs":
            found, wanted = _codecs(found), _codecs(wanted)
        if _text(found) != _text(wanted):
            name = "type" if key == "data_type" else key
            yield Problem(where, f"{name} {_text(found)}", _text(wanted))
    if spec is not None:
        yield from _free_problems(where, entry, spec)
    elif entry.get("consolidated_metadata", NO_METADATA) not in (None, NO_METADATA):
        found = f"consolidated_metadata {_text(entry['consolidated_metadata'])}"
        yield Problem(where, found, "none: the root has them")


def _free_problems(where: str, entry: Mapping[str, Any], spec: ArraySpec) -> Iterator[Problem]:
    """Problems of keys that may have one of several values."""
    grid = entry.get("chunk_grid")
    if not _is_grid(grid, spec):
        yield Problem(where, f"chunk_grid {_text(grid)}", f"chunks of shape {_text(spec.chunks)}")
    attributes = entry.get("attributes", {})
    if not _are_attributes(attributes):
        yield Problem(where, f"attributes {_text(attributes)}", f"only {', '.join(sorted(ATTRIBUTES))}")
    if entry.get("storage_transformers"):
        yield Problem(where, "storage transformers", "none")


def _are_attributes(found: object) -> bool:
    if not isinstance(found, Mapping) or found.keys() - ATTRIBUTES:
        return False
    flags = found.get("flag_values", [])
    texts = (value for key, value in found.items() if key != "flag_values")
    return (
        all(isinstance(text, str) for text in texts)
        and isinstance(flags, list)
        and all(_is_length(flag, 0, 127) for flag in flags)
    )


def _is_grid(grid: object, spec: ArraySpec) -> bool:
    shape = grid.get("configuration", {}) if isinstance(grid, Mapping) else {}
    found = shape.get("chunk_shape") if isinstance(shape, Mapping) else None
    if grid != {"name": "regular", "configuration": {"chunk_shape": found}}:
        return False
    if not isinstance(found, list) or len(found) != len(spec.chunks):
        return False
    return all(_is_length(n, *pair) for n, pair in zip(found, _chunk_bounds(spec), strict=True))


def _chunk_bounds(spec: ArraySpec) -> Iterator[tuple[int, int]]:
    """Least and largest length of a chunk along each dimension.

    Coordinates and the longest row of annotations may have grown since; their chunks never do.
    """
    for dim, length in zip(spec.dims, spec.chunks, strict=True):
        grows = spec.variable.role is Role.COORDINATE or dim == "annotation"
        yield (1 if grows else length), length


def _is_length(value: object, least: int, most: int) -> bool:
    # JSON true is a bool, which Python takes for the whole number 1.
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def array_entry(spec: ArraySpec) -> dict[str, Any]:
    """Metadata of an array, as zarr writes them."""
    fill = spec.variable.fill
    return {
        "shape": list(spec.shape),
        "data_type": spec.variable.dtype,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(spec.chunks)}},
        "chunk_key_encoding": CHUNK_KEYS,
        "fill_value": "NaN" if isinstance(fill, float) else fill,
        "codecs": [SERIALIZERS.get(spec.variable.dtype, BYTES), COMPRESSION, CHECKSUM],
        "attributes": spec.variable.attributes,
        **({"dimension_names": list(spec.dims)} if spec.dims else {}),
        "zarr_format": 3,
        "node_type": "array",
        "storage_transformers": [],
    }


def group_entry(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Metadata of a group."""
    return {"zarr_format": 3, "node_type": "group", "attributes": dict(attributes)}


def _directory_problems(path: Path) -> Iterator[Problem]:
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return  # gone: reading from it is an error of its own
    if not stat.S_ISDIR(mode):
        yield Problem(
            str(path), "a link" if stat.S_ISLNK(mode) else "not a directory", "a directory of the cube"
        )


def _codecs(found: object) -> object:
    """Codecs as they are compared: a configuration that is empty may be left out."""
    if not isinstance(found, list):
        return found
    return [
        {key: value for key, value in codec.items() if key != "configuration" or value != {}}
        if isinstance(codec, Mapping)
        else codec
        for codec in found
    ]


def _kind(entry: object) -> str:
    kind = entry.get("node_type") if isinstance(entry, Mapping) else None
    return "an array" if kind == "array" else "a node"


def _text(value: object) -> str:
    text = json.dumps(value, sort_keys=True)
    return text if len(text) <= 200 else text[:197] + "..."


FORMAT = "sweep cube"
FORMAT_VERSION = 2
ROOT_FILE = "zarr.json"


@dataclass(frozen=True)
class Manifest:
    """The committed state of a cube.

    Parameters
    ----------
    path : Path or str
        The cube, or its address.
    spec : SweepSpec
        The sweep as it was understood.
    plans : dict of str to DatasetPlan
        Grid and chunk lengths of each data set, coordinates in order of arrival.
    runs : tuple of RunRecord
        One record of each run, oldest first.
    metadata : dict
        zarr metadata of every node below the root, by path.
    """

    path: Place
    spec: SweepSpec
    plans: dict[str, DatasetPlan]
    runs: tuple[RunRecord, ...]
    metadata: dict[str, dict[str, Any]]

    @property
    def skipped(self) -> dict[str, list[str]]:
        """Data sets that the last run did not have, and why; none of these is in the cube."""
        found = self.runs[-1].skipped if self.runs else {}
        return {name: list(reasons) for name, reasons in found.items() if name not in self.plans}

    @property
    def document(self) -> bytes:
        """Content of the root file."""
        return to_json(root_document(self.spec, self.plans.values(), self.runs, self.metadata))

    @property
    def chunks(self) -> ChunkFiles:
        """What the chunk files of the cube hold."""
        return ChunkFiles(self.plans.values(), self.metadata)


def read_manifest(path: Place) -> Manifest:
    """Read and check the root of a cube: one small file, whatever is being written meanwhile.

    Parameters
    ----------
    path : Path or str
        The cube, `<name>.zarr`, or its address.

    Returns
    -------
    Manifest
        The state of the last commit.

    Raises
    ------
    InputError
        If this is no cube, one of another format version, or one with anything in it that this version would
        not have written: other arrays, types, shapes, chunks or codecs, values out of range, links in the
        place of directories or in the directory of its run. Nothing was decoded then, and no memory taken for
        what it claims to be.
    StorageError
        If the file cannot be read.
    """
    document = _read_document(path)
    if isinstance(path, Path):  # whose run, if there is one, is elsewhere
        RunFolder(path).check()
    attributes = document.get("attributes")
    if not isinstance(attributes, dict) or attributes.get("format") != FORMAT:
        raise _not_a_cube(path, "zarr data that no sweep has written")
    if attributes.get("format_version") != FORMAT_VERSION:
        found = f"format version {attributes.get('format_version')!r}"
        hint = "read it with the release that wrote it, or use another name"
        raise InputError([Problem(str(path), found, f"format version {FORMAT_VERSION}", hint)])
    missing = [key for key in ("spec", "datasets", "runs") if key not in attributes]
    if missing:
        raise _not_a_cube(path, f"a damaged manifest without {', '.join(missing)}")
    return _checked(path, attributes, document)


def root_document(
    spec: SweepSpec,
    plans: Iterable[DatasetPlan],
    runs: Iterable[RunRecord],
    metadata: Mapping[str, Mapping[str, Any]],
) -> dict[str, Any]:
    """Content of the root file of a cube.

    Parameters
    ----------
    spec, plans, runs, metadata
        As in `Manifest`.

    Returns
    -------
    dict
        zarr metadata of the root group, with consolidated metadata.
    """
    return {
        **ROOT,
        "attributes": {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "spec": spec.dump(),
            "datasets": {plan.name: plan_to_json(plan) for plan in plans},
            "runs": [run.dump() for run in runs],
        },
        "consolidated_metadata": consolidated(metadata),
    }


def consolidated(metadata: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Consolidated metadata in the form that zarr reads."""
    ordered = {key: metadata[key] for key in sorted(metadata)}
    return {**INLINE, "metadata": ordered}


def to_json(document: Mapping[str, Any]) -> bytes:
    """Bytes of a metadata file; tuples are lists there, keys keep their order."""
    return json.dumps(document).encode()


def commit(path: Path, document: Mapping[str, Any], files: Files) -> None:
    """Replace the root file: readers see the cube as it was, or as it is now."""
    content = to_json(document)
    with storage_errors(path, len(content)):
        files.put(path / ROOT_FILE, content)
        sync_directory(path)


def append_run(path: Path, record: RunRecord, files: Files = PLAIN) -> None:
    """Add one record to the history of runs; only the holder of the lease may.

    Parameters
    ----------
    path : Path
        The cube.
    record : RunRecord
        Of a run that starts.
    files : Files
        Of the holder of the lease.

    Raises
    ------
    InputError
        As `read_manifest`.
    StorageError
        If the root file cannot be replaced.
    """
    manifest = read_manifest(path)
    runs = [*manifest.runs, record]
    commit(path, root_document(manifest.spec, manifest.plans.values(), runs, manifest.metadata), files)


def _read_document(path: Place) -> dict[str, Any]:
    with storage_errors(path):
        try:
            if isinstance(path, str):
                content = read_remote(f"{path}/{ROOT_FILE}", LONGEST_ROOT)
            else:
                content = read_regular(path / ROOT_FILE, LONGEST_ROOT)
        except (FileNotFoundError, NotADirectoryError) as error:
            if isinstance(path, str):
                found = f"no zarr.json ({error.strerror})"
            elif path.is_dir():
                found = "a directory without zarr.json"
            else:
                found = "a file" if path.exists() else "nothing"
            raise _not_a_cube(path, found) from None
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise _not_a_cube(path, f"a zarr.json that is not JSON ({error})") from error
    if not isinstance(document, dict):
        raise _not_a_cube(path, "a zarr.json that is not a table")
    return document


def _checked(path: Place, attributes: Mapping[str, Any], document: Mapping[str, Any]) -> Manifest:
    """The manifest, when every entry is one that a sweep would have written."""
    problems: list[Problem] = []
    with collecting(problems):
        spec = load(f"{path}: spec", attributes["spec"])
    runs = list(_runs(str(path), attributes["runs"], problems))
    plans = read_plans(str(path), attributes["datasets"], problems)
    if not problems:
        problems += [problem for plan in plans.values() for problem in name_problems(str(path), spec, plan)]
        problems += [problem for plan in plans.values() for problem in size_problems(f"{path}/", plan)]
    if problems:
        raise InputError(problems)
    problems += root_problems(path, document)
    inline = document.get("consolidated_metadata")
    metadata = inline.get("metadata") if isinstance(inline, Mapping) else None
    problems += layout_problems(path, plans.values(), metadata)
    if problems or not isinstance(metadata, dict):
        raise InputError(problems)
    return Manifest(path, spec, plans, tuple(runs), metadata)


def _runs(where: str, records: object, problems: list[Problem]) -> Iterator[RunRecord]:
    if not isinstance(records, list):
        problems.append(Problem(f"{where}: runs", shown(records), "a list of records"))
        return
    for position, record in enumerate(records):
        with collecting(problems):
            yield read(RunRecord, record, f"{where}: runs[{position}]")


def _not_a_cube(path: Place, found: str) -> InputError:
    hint = "" if isinstance(path, str) else "use another name or directory"
    return InputError([Problem(str(path), found, "a cube written by a sweep", hint)])
