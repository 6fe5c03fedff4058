"""The content of a cube's root: format version, resolved sweep file, grid, data checksums, history of runs.

The attributes of the root group are in the file that also has the consolidated metadata: a single rename
commits the grid and the arrays together.
"""

import json
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from itertools import chain, combinations, islice
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from sweep_clustering.storage.archive import is_zip, read_at
from sweep_clustering.storage.cube.chunks import ROOT_FILE, ChunkFiles, chunk_lengths
from sweep_clustering.storage.cube.schema import SCALE_TEXTS, ArraySpec, Role, array_specs, groups
from sweep_clustering.storage.files import (
    LONGEST_ROOT,
    PLAIN,
    Files,
    Place,
    kind_of,
    place_of,
    storage_errors,
    sync_directory,
)
from sweep_clustering.storage.provenance import RunRecord, by_run, software_differences
from sweep_clustering.storage.runfolder.folder import Line, RunFolder
from sweep_clustering.sweeps.errors import (
    InputError,
    Problem,
    collected,
    collecting,
    key_changes,
    one_line,
    raise_all,
    refused,
    short_text,
)
from sweep_clustering.sweeps.file.search import unions_of
from sweep_clustering.sweeps.file.spec import Dataset, Mixtures, SweepSpec, load, part_named
from sweep_clustering.sweeps.plan import DatasetPlan, range_words
from sweep_clustering.sweeps.records import MISSING_VALUE, List, Record, mark_unknown_keys, read
from sweep_clustering.sweeps.words import BASELINES, CROWD, DEFAULT, MODEL_CODES, PREFIX, solver_name

FORMAT = "sweep cube"
# A cube has the lowest version that describes it: 2, or that of the last field below that a plan has, for
# Gaussians, a crowd, and the class of the machine of each cell.
NEEDED_BY = {3: "unions", 4: "answers_each", 5: "machines"}
FORMAT_VERSIONS = (2, *NEEDED_BY)

# Texts of the root for people who open a cube for the first time.
TITLE = "{name}: semi-supervised clustering with inaccurate pairwise annotations, every cell of a sweep"
DOCUMENTATION = "docs/guides/cube.md of sweep-clustering; docs/reference/files.md has every variable"
SCORES = (
    "not in this cube: sweep_clustering.scores computes them, and `sweep export --scores` stores them beside"
    " it; NMI is divided by the smaller of the two entropies (normalizer='min'), as in the source paper"
)

# Cells whose causes the root has; the folder of the run has all of them.
MOST_FAILED = 1_000

# Characters of such a cause.
LONGEST_CAUSE = 200

# Fields of a plan with names.
NAMES = ("feature_names", "class_names", "sample_names")


def plan_to_json(plan: DatasetPlan) -> dict[str, Any]:
    """Return the fields of a plan that differ from their defaults, so that older cubes stay readable."""
    # Every cube says how its features were scaled.
    defaults = {field.name: field.default for field in fields(plan) if field.name != "scale"}
    values = asdict(plan).items()
    return {key: value for key, value in values if key not in defaults or value != defaults[key]}


def plan_problems(location: str, spec: SweepSpec, name: str, plan: DatasetPlan) -> list[Problem]:
    """Return the parts of a plan that this sweep would not have written: a partial grid, or foreign names."""
    n, n_pooled, n_names = plan.n_features, plan.n_annotations, len(plan.feature_names)
    is_drawn, methods = plan.mixtures is not None, spec.grid.methods
    limit = math.inf if is_drawn else max(plan.m, default=0)
    is_partial = not bool(plan.p) == bool(plan.m) == plan.supervised
    has_names = is_drawn and any(getattr(plan, key) for key in NAMES)
    has_too_few = 0 < n_pooled < limit
    answers = spec.crowd.answers if CROWD in plan.designs else 0
    rows = [
        ("name", plan.name != name, repr(plan.name), repr(name)),
        ("p, m and models", is_partial, "some of them empty", "all of them, or none"),
        ("feature_names", n_names not in (0, n), f"{n_names} names", f"none, or one for each of {n}"),
        ("names", has_names, "some", "none, as the data are drawn"),
        ("n_annotations", has_too_few, str(n_pooled), "a real data set with at least the largest m"),
        ("answers_each", plan.answers_each != answers, str(plan.answers_each), f"{answers}, as in the sweep"),
    ]
    names: dict[str, Collection[str]] = {
        "models": MODEL_CODES.keys() - BASELINES
        | {method.name for method in methods if method.uses == "links"},
        "baselines": {*BASELINES, *(method.name for method in methods if method.uses == "nothing")},
        "designs": spec.grid.design if plan.supervised else DEFAULT,
        "searches": spec.search_names,
    }
    for key, words in names.items():
        values = getattr(plan, key)
        # a data set that was not available when designs, or searches, were added has fewer of them
        has_other_dim = key in ("designs", "searches") and (len(values) > 1) != (len(words) > 1)
        is_foreign = has_other_dim or not set(values) <= set(words)
        rows.append((key, is_foreign, short_text(values), f"of {short_text(sorted(words))}"))
    # cubes of earlier releases may have shorter rows
    room = {union.key: (union.components, union.entries) for union in unions_of(spec.search, plan)}
    unions = [union for union in plan.unions if union.key not in room or union.is_longer(*room[union.key])]
    expected = "those of the sweep, with rows no longer than theirs"
    rows.append(("unions", bool(unions), short_text(unions), expected))
    plans = [method.plan for method in methods]
    wrong = [method for method in plan.methods if method not in plans]
    wrong += [method for method in plan.methods if method.restarts > plan.restarts]
    absent_names = {*plan.models, *plan.baselines} - {method.name for method in plan.methods}
    wrong += [method for method in plans if method.name in absent_names]
    rows += [("methods", True, short_text(method.name), "the methods of the sweep") for method in wrong]
    place = f"{location}: data set {name[:100]}:"
    return [Problem(f"{place} {key}", value, expected) for key, is_bad, value, expected in rows if is_bad]


# All chunks of an array are in one directory: only one has to be made durable, and it exists before results.
CHUNK_KEYS: dict[str, Any] = {"name": "default", "configuration": {"separator": "."}}

SERIALIZERS = {
    "string": {"name": "vlen-utf8", "configuration": {}},
    "int8": {"name": "bytes"},  # one byte has no order
}
BYTES: dict[str, Any] = {"name": "bytes", "configuration": {"endian": "little"}}
COMPRESSION: dict[str, Any] = {"name": "zstd", "configuration": {"level": 0, "checksum": False}}
# Outermost, so that a chunk that has changed is noticed before it is decompressed.
CHECKSUM: dict[str, Any] = {"name": "crc32c"}

# Most cells of a data set: the status of all of them is in memory, one byte for each.
MOST_CELLS = 10**8

# Largest chunk in bytes: a chunk is written and read whole, with several copies in memory.
MOST_CHUNK_BYTES = 2**32

ROOT: dict[str, Any] = {"zarr_format": 3, "node_type": "group"}
INLINE: dict[str, Any] = {"kind": "inline", "must_understand": False}

# Attributes of an array, with their types. Others could make xarray scale, mask or convert values.
ATTRIBUTES = {"long_name": str, "units": str, "flag_values": list, "flag_meanings": str}


def layout_problems(path: Place, plans: Iterable[DatasetPlan], metadata: object) -> Iterator[Problem]:
    """Yield the metadata of a cube that this version would not have written for these plans.

    `metadata` are the consolidated metadata of the root file, which may be anything. Only the types of the
    directories in the cube are read.
    """
    if not isinstance(metadata, Mapping):
        yield Problem(str(path), "no consolidated metadata", "an entry for each node")
        return
    plans = list(plans)
    specs = {spec.path: spec for plan in plans for spec in array_specs(plan)}
    nodes = {path: attributes for plan in plans for path, attributes in groups(plan).items()}
    for key in sorted(metadata.keys() | specs.keys() | nodes.keys()):
        location, stored_entry = f"{path}/{key}", metadata.get(key)
        if key not in specs and key not in nodes:
            yield Problem(location, "a node", "no such variable")
        elif not isinstance(stored_entry, Mapping):
            yield Problem(location, "no metadata", "a table of those of this variable or group")
        else:
            if key in specs:
                yield from _array_problems(location, stored_entry, specs[key])
            else:
                entry = dict(stored_entry)
                # as zarr writes it when it consolidates a cube again
                if entry.get("consolidated_metadata") in (None, {**INLINE, "metadata": {}}):
                    entry.pop("consolidated_metadata", None)
                yield from _key_problems(location, entry, group_entry(nodes[key]))
            # the read of a missing directory is an error
            with suppress(OSError):
                if (kind := kind_of(Path(location))) != "a directory":
                    yield Problem(location, kind, "a directory of the cube")


def size_problems(prefix: str, plan: DatasetPlan) -> Iterator[Problem]:
    """Yield the parts of a plan that are too large for memory: the status of all cells, or a chunk."""
    if plan.n_cells > MOST_CELLS:
        yield Problem(f"{prefix}{plan.name}", f"{plan.n_cells:,} cells", f"at most {MOST_CELLS:,}")
    for spec in array_specs(plan):
        dtype = spec.variable.dtype
        n_bytes = math.prod(spec.chunks) * (8 if dtype == "string" else np.dtype(dtype).itemsize)
        if n_bytes > MOST_CHUNK_BYTES:
            size = f"chunks of {n_bytes:,} bytes"
            hint = "fewer replicates or mixtures at creation; both may grow"
            yield Problem(f"{prefix}{spec.path}", size, f"at most {MOST_CHUNK_BYTES:,}", hint)


def _key_problems(location: str, entry: Mapping[str, Any], reference: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield a problem for every key that is not as this version writes it."""
    for key in sorted(entry.keys() | reference.keys()):
        # as texts: JSON true is a bool, which Python takes for the whole number 1
        text, expected = (json.dumps(table.get(key), sort_keys=True) for table in (entry, reference))
        if key not in reference:
            yield Problem(location, f"a key {key[:60]!r}", f"one of {', '.join(sorted(reference))}")
        elif text != expected:
            name = "type" if key == "data_type" else key
            yield Problem(location, f"{name} {text[:200]}", expected[:200])


def _array_problems(place: str, stored_entry: Mapping[str, Any], spec: ArraySpec) -> Iterator[Problem]:
    # Coordinates and the longest row of annotations grow, but not their chunks.
    grow = [spec.variable.role is Role.COORDINATE or dim == "annotation" for dim in spec.dims]
    with suppress(KeyError, TypeError, ValueError):
        lengths = chunk_lengths(stored_entry)
        if all(
            type(n) is int and (n == length or (grows and 0 < n < length))
            for n, length, grows in zip(lengths, spec.chunks, grow, strict=True)
        ):
            spec = replace(spec, chunks=lengths)
    attributes = stored_entry.get("attributes", {})
    if not (
        isinstance(attributes, Mapping)
        and all(type(value) is ATTRIBUTES.get(key) for key, value in attributes.items())
        and all(type(flag) is int for flag in attributes.get("flag_values", []))
    ):
        yield Problem(place, f"attributes {str(attributes)[:200]}", f"only {', '.join(sorted(ATTRIBUTES))}")
    entry = {"storage_transformers": [], **stored_entry, "attributes": {}}
    yield from _key_problems(place, entry, array_entry(spec) | {"attributes": {}})


def array_entry(spec: ArraySpec) -> dict[str, Any]:
    """Return the metadata of an array, as zarr writes them."""
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
    """Return the metadata of a group."""
    return {"zarr_format": 3, "node_type": "group", "attributes": dict(attributes)}


@dataclass(frozen=True)
class Manifest:
    """The committed state of a cube."""

    path: Place
    spec: SweepSpec
    plans: dict[str, DatasetPlan]  # by name, with coordinates in order of arrival
    runs: tuple[RunRecord, ...]  # oldest first
    metadata: dict[str, dict[str, Any]]  # zarr metadata of every node below the root, by path
    causes: dict[str, str] = field(default_factory=dict)  # last causes of failed cells, by name
    machines: dict[str, str] = field(default_factory=dict)  # classes of machines, by code

    @property
    def skipped(self) -> dict[str, list[str]]:
        """Data sets that the last run did not have, and why; none of these is in the cube."""
        data_sets = self.runs[-1].skipped if self.runs else {}
        return {name: list(reasons) for name, reasons in data_sets.items() if name not in self.plans}

    @cached_property
    def made_with(self) -> tuple[dict[str, str], ...]:
        """Fingerprint of each run, as far as it is recorded."""
        # Releases that recorded no solvers used the first one, which kept no Gaussians of unions.
        first_solvers = {
            solver_name(*union.key): "1"
            for plan in self.plans.values()
            for union in unions_of(self.spec.search, plan)
            if union.key not in [stored_union.key for stored_union in plan.unions]
        }
        return tuple(
            run.made_with | ({} if any(key.startswith(PREFIX) for key in run.fingerprint) else first_solvers)
            for run in self.runs
        )

    @property
    def software(self) -> str:
        """Differences between the software and processors of the runs in words, or an empty text."""
        note = software_differences(by_run(self.made_with))
        return note and f"runs with different software or processors: {note}"

    @property
    def format_version(self) -> int:
        """Version that a release must support to read the cube."""
        plans = self.plans.values()
        minima = (version for version, key in NEEDED_BY.items() if any(getattr(plan, key) for plan in plans))
        return max(minima, default=FORMAT_VERSIONS[0])

    @cached_property
    def document(self) -> bytes:
        """Content of the root file: zarr metadata of the root group, with consolidated metadata."""
        attributes = {
            "format": FORMAT,
            "format_version": self.format_version,
            "spec": self.spec.dump(),
            "datasets": {name: plan_to_json(plan) for name, plan in self.plans.items()},
            "runs": [run.dump() for run in self.runs],
            "title": TITLE.format(name=self.spec.name),
            "documentation": DOCUMENTATION,
            "scores": SCORES,
            "scale": {name: SCALE_TEXTS.get(plan.scale, plan.scale) for name, plan in self.plans.items()},
            "failed": self.causes,
            **({"machines": self.machines} if self.machines else {}),
        }
        inline = {**INLINE, "metadata": dict(sorted(self.metadata.items()))}
        root = {**ROOT, "attributes": attributes, "consolidated_metadata": inline}
        return json.dumps(root).encode()

    @cached_property
    def chunks(self) -> ChunkFiles:
        return ChunkFiles(self.path, self.plans.values(), self.metadata)

    def commit(self, files: Files) -> None:
        """Replace the root file: readers see the old cube or the new one."""
        path = Path(self.path)
        with storage_errors(path, len(self.document)):
            files.put(path / ROOT_FILE, self.document)
            sync_directory(path)


def read_manifest(path: Place) -> Manifest:
    """Read and check the root of a cube, which is one small file.

    Raises
    ------
    InputError
        If this is no cube, a cube of another format version, or a cube with anything that this version would
        not have written: other arrays, types, shapes, chunks or codecs, values out of range, links in the
        place of directories or in the folder of its run. Nothing was decoded then, and no memory taken for
        declared sizes.
    StorageError
        If the file cannot be read.
    """
    document = _read_document(path)
    if isinstance(path, Path):
        RunFolder(path).check()
    attributes = document.get("attributes")
    if not isinstance(attributes, dict) or attributes.get("format") != FORMAT:
        raise _not_a_cube(path, "zarr data that no sweep has written")
    if (version := attributes.get("format_version")) not in FORMAT_VERSIONS:
        expected = f"format version {' or '.join(map(str, FORMAT_VERSIONS))}"
        hint = "read it with the release that wrote it, or use another name"
        raise refused(path, f"format version {version!r}", expected, hint)
    problems: list[Problem] = []
    plans, field_names = {}, [field.name for field in fields(DatasetPlan)]
    with collecting(problems):
        spec = load(f"{path}: spec", attributes.get("spec"))
    with collecting(problems):
        contents_values = {key: value for key, value in attributes.items() if key in Contents.model_fields}
        contents = read(Contents, contents_values, f"{path}:")
        for name, record in contents.datasets.items():
            with collecting(problems):
                # A plan has a default scale, but every cube has to declare its own.
                values = {"scale": MISSING_VALUE, **mark_unknown_keys(record, field_names)}
                plans[name] = read(DatasetPlan, values, f"{path}: data set {name[:100]}:")
    for name, plan in () if problems else plans.items():
        problems += plan_problems(str(path), spec, name, plan)
        problems += size_problems(f"{path}/", plan)
    raise_all(problems)
    metadata: Any = None
    if isinstance(inline := document.pop("consolidated_metadata", None), dict):
        metadata = inline.pop("metadata", None)
        problems += _key_problems(f"{path}: consolidated_metadata", inline, INLINE)
    problems += _key_problems(str(path), {**document, "attributes": {}}, {**ROOT, "attributes": {}})
    problems += layout_problems(path, plans.values(), metadata)
    manifest = Manifest(path, spec, plans, contents.runs, metadata, contents.failed, contents.machines)
    if manifest.format_version != version:
        expected = f"format version {manifest.format_version}, as its data sets say"
        problems.append(Problem(str(path), f"format version {version}", expected))
    raise_all(problems)
    return manifest


class Contents(Record):
    """Attributes of the root file beside the sweep: its history, and its data sets by name."""

    runs: Annotated[tuple[RunRecord, ...], List()]
    datasets: dict[str, dict[str, Any]]
    failed: dict[str, Line] = Field(default_factory=dict)
    machines: dict[str, Line] = Field(default_factory=dict)


def append_run(path: Path, record: RunRecord, files: Files = PLAIN) -> None:
    """Add a record to the history of runs; only the holder of the lease may."""
    manifest = read_manifest(path)
    replace(manifest, runs=(*manifest.runs, record)).commit(files)


def keep_causes(path: Path, causes: Mapping[str, str], files: Files = PLAIN) -> None:
    """Replace the causes of failed cells, by name, in the root."""
    manifest = read_manifest(path)
    texts = {cell: one_line(cause, LONGEST_CAUSE) for cell, cause in islice(causes.items(), MOST_FAILED)}
    if texts != manifest.causes:
        replace(manifest, causes=texts).commit(files)


def _read_document(path: Place) -> dict[str, Any]:
    with storage_errors(path):
        try:
            content = read_at(path, ROOT_FILE, LONGEST_ROOT)
        except (FileNotFoundError, NotADirectoryError) as error:
            description = f"no {ROOT_FILE} ({error.strerror})"
            if isinstance(path, Path) and not path.is_dir() and not is_zip(path):
                description = "a file" if path.exists() else "nothing"
            raise _not_a_cube(path, description) from None
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise _not_a_cube(path, f"a {ROOT_FILE} that is not JSON ({error})") from error
    return document if isinstance(document, dict) else {}


def _not_a_cube(path: Place, description: str) -> InputError:
    return refused(path, description, "a cube written by a sweep", "use another name or directory")


# Cubes of parts of one sweep, read as one: each has data sets, or mixtures, that no other has.

Places = Place | Sequence[Place]

# Software for which equal bits are promised; parts may be computed on several machines.
SOFTWARE = ("sweep", "numba", "numpy")


@dataclass(frozen=True)
class Parts:
    """Cubes that are read as one."""

    cubes: tuple[Manifest, ...]  # one or more, in the order of their mixtures
    manifest: Manifest  # state of all cubes together; no cube could be written with it
    missing: str = ""  # the missing parts, in words

    @property
    def paths(self) -> tuple[Place, ...]:
        """Place of each cube."""
        return tuple(cube.path for cube in self.cubes)


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
    first, *other_cubes = cubes = sorted(manifests, key=_order)
    if not other_cubes:
        return Parts((first,), first)
    raise_all(chain(*(_differences(first, other) for other in other_cubes), _overlaps(cubes)))
    missing_parts, manifest = _missing_parts(cubes), joint_manifest(cubes)
    path = f"{manifest.path} ({missing_parts})" if missing_parts else manifest.path
    return Parts(tuple(cubes), replace(manifest, path=path), missing_parts)


def joint_manifest(cubes: Sequence[Manifest]) -> Manifest:
    """Return the state of several cubes as one, with the data sets, mixtures, runs and causes of all."""
    first, plans = cubes[0], dict[str, DatasetPlan]()
    for name, plan in ((name, plan) for cube in cubes for name, plan in cube.plans.items()):
        plans[name] = _join(plans[name], plan) if name in plans else plan
    grid = first.spec.grid.model_copy(update={"datasets": _entries(cubes)})
    spec = first.spec.model_copy(update={"name": _sweep_name(first.spec.name), "grid": grid})
    runs = tuple(sorted((run for cube in cubes for run in cube.runs), key=lambda run: run.started))
    reasons_by_name = {name: tuple(reasons) for cube in cubes for name, reasons in cube.skipped.items()}
    if runs:
        runs = (*runs[:-1], runs[-1].model_copy(update={"skipped": reasons_by_name}))
    causes = {cell: cause for cube in cubes for cell, cause in cube.causes.items()}
    machines = {code: text for cube in cubes for code, text in cube.machines.items()}
    path = ", ".join(str(cube.path) for cube in cubes)
    return Manifest(path, spec, plans, runs, {}, causes, machines)


def attributes_of(manifest: Manifest) -> dict[str, Any]:
    """Return the attributes of the root of a cube."""
    return dict(json.loads(manifest.document)["attributes"])


def _order(cube: Manifest) -> tuple[Any, ...]:
    part = part_named(cube.spec.name)
    first = min((plan.first_mixture for plan in cube.plans.values()), default=0)
    return (0, part.number / part.of) if part else (1, first)


def _missing_parts(cubes: Iterable[Manifest]) -> str:
    """List the missing parts, as far as the names of the cubes count them."""
    parts = [part for cube in cubes if (part := part_named(cube.spec.name)) is not None]
    if not parts or len({part.of for part in parts}) > 1:
        return ""
    numbers_of_cubes, n_parts = {part.number for part in parts}, parts[0].of
    missing_numbers = [number for number in range(1, n_parts + 1) if number not in numbers_of_cubes]
    numbers = ", ".join(map(str, missing_numbers[:10])) + (", ..." if len(missing_numbers) > 10 else "")
    return f"{len(missing_numbers)} of {n_parts} parts are missing: {numbers}" if missing_numbers else ""


def _sweep_name(name: str) -> str:
    """Return the name of the sweep to which a part with a name belongs."""
    part = part_named(name)
    return name if part is None else part.sweep


def _settings(spec: SweepSpec) -> dict[str, Any]:
    """Return the values that all parts of a sweep have in common, by key."""
    dump = spec.dump() | {"name": _sweep_name(spec.name)}
    grid: Mapping[str, Any] = dump.pop("grid")
    dump.pop("data")  # changes no number
    return dump | {f"grid.{key}": value for key, value in grid.items() if key != "datasets"}


def _differences(first: Manifest, other: Manifest) -> Iterator[Problem]:
    """Yield the differences that show that two cubes belong to different sweeps."""
    hint = "cubes read as one are parts of one sweep"
    settings, recipes = (_settings(other.spec), _settings(first.spec)), (_recipes(other), _recipes(first))
    yield from key_changes(f"{other.path}: ", *settings, first.path, hint)
    for name in (name for name in recipes[0] if name in recipes[1]):
        values, expected = (recipe[name] for recipe in recipes)
        yield from key_changes(f"{other.path}: data set {name}, ", values, expected, first.path, hint)
    yield from software_problems(first, other)


def software_problems(first: Manifest, other: Manifest) -> Iterator[Problem]:
    """Yield the versions by which the last runs of two cubes need not give the same bits."""
    versions, expected = (dict(cube.made_with[-1]) if cube.runs else {} for cube in (other, first))
    shared_names = sorted(versions.keys() & expected.keys())
    names = [name for name in shared_names if name in SOFTWARE or name.startswith(PREFIX)]
    values, reference = ({name: source[name] for name in names} for source in (versions, expected))
    yield from key_changes(f"{other.path}: last run, version of ", values, reference, first.path)


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
        for (part, former_cube), (plan, cube) in combinations(
            sorted(parts, key=lambda row: row[0].first_mixture), 2
        ):
            if common := sorted(set(part.dims[0].values) & set(plan.dims[0].values)):
                mixtures = "" if plan.mixtures is None else f", mixtures {_number_words(common)}"
                expected = f"cells that {former_cube.path} does not have"
                yield Problem(f"{cube.path}: data set {name}{mixtures}", "there as well", expected)


def _number_words(numbers: Sequence[int]) -> str:
    """Return ascending numbers in words, as a range or the first ten."""
    full_range = range(numbers[0], numbers[-1] + 1)
    if len(full_range) == len(numbers):
        return range_words(full_range)
    return ", ".join(map(str, numbers[:10])) + (", ..." if len(numbers) > 10 else "")


def _join(plan: DatasetPlan, part: DatasetPlan) -> DatasetPlan:
    """Return the grid of a data set with the mixtures of one more part."""
    mixtures = [*plan.dims[0].values, *part.dims[0].values]
    if plan.mixtures is None or plan.dims[0].values == part.dims[0].values:
        return plan
    n, first = max(mixtures) - min(mixtures) + 1, min(mixtures)
    return replace(plan, mixtures=n, first_mixture=first, mixture_step=1, mixture_chunk=n)


def _entries(cubes: Iterable[Manifest]) -> tuple[Dataset, ...]:
    """Return the data sets of all cubes, with all mixtures of each."""
    by_name: dict[str, Dataset] = {}
    for entry in (entry for cube in cubes for entry in cube.spec.grid.datasets):
        former_entry = by_name.setdefault(entry.name, entry)
        if former_entry != entry and isinstance(former_entry, Mixtures) and isinstance(entry, Mixtures):
            first = min(former_entry.first, entry.first)
            count = max(mixtures.draws[-1] for mixtures in (former_entry, entry)) + 1 - first
            by_name[entry.name] = former_entry.model_copy(update={"first": first, "count": count, "step": 1})
    return tuple(by_name.values())
