"""What a cube holds: format version, resolved sweep file, grid, data checksums, history of runs.

All of it is kept in the attributes of the root group, in the one file that also holds the consolidated
metadata: a single rename commits the grid and the arrays together.
"""

import json
import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from sweep_clustering.storage.cube.chunks import ROOT_FILE, ChunkFiles, chunk_lengths
from sweep_clustering.storage.cube.schema import SCALED, ArraySpec, Role, array_specs, groups
from sweep_clustering.storage.errors import storage_errors
from sweep_clustering.storage.files import LONGEST_ROOT, PLAIN, Files, kind_of, read_regular, sync_directory
from sweep_clustering.storage.provenance import RunRecord, by_run, software_differences
from sweep_clustering.storage.remote import Place
from sweep_clustering.storage.remote import read as read_remote
from sweep_clustering.storage.runfolder.folder import RunFolder
from sweep_clustering.storage.runfolder.records import Line
from sweep_clustering.sweeps.errors import InputError, Problem, collecting, one_line, refused, shown
from sweep_clustering.sweeps.file.search import unions_of
from sweep_clustering.sweeps.file.spec import SweepSpec, load
from sweep_clustering.sweeps.plan import DatasetPlan
from sweep_clustering.sweeps.records import ABSENT, Listed, Record, marked, read
from sweep_clustering.sweeps.solvers import PREFIX, solver_name
from sweep_clustering.sweeps.words import BASELINES, DEFAULT, MODEL_CODES

FORMAT = "sweep cube"
# The version of a cube is the least that knows all that it holds: 2, or 3 where there are Gaussians in it.
FORMAT_VERSIONS = (2, 3)

# What the root says to people who open a cube without having seen one.
TITLE = "{name}: semi-supervised clustering with inaccurate pairwise annotations, every cell of a sweep"
DOCUMENTATION = "docs/guides/cube.md of sweep-clustering; docs/reference/files.md has every variable"
SCORES = (
    "not in this cube: sweep_clustering.scores computes them, and `sweep export --scores` stores them beside"
    " it; NMI is divided by the smaller of the two entropies (normalizer='min'), as in the source paper"
)

# Cells whose causes the root holds, and characters of a cause; all of both are in the folder of the run.
MOST_FAILED, LONGEST_CAUSE = 1_000, 200

# Plans of a cube as its attributes hold them, never trusted: a cube may come from anywhere.

# What a plan says of names.
NAMES = ("feature_names", "class_names", "sample_names")


def plan_to_json(plan: DatasetPlan) -> dict[str, Any]:
    """Fields of a plan, without those that only some cubes need: cubes older than these stay readable."""
    defaults = {each.name: each.default for each in fields(plan) if each.name != "scale"}
    return {
        name: value
        for name, value in asdict(plan).items()
        if getattr(plan, name) != defaults.get(name, MISSING)
    }


def plan_problems(where: str, spec: SweepSpec, name: str, plan: DatasetPlan) -> list[Problem]:
    """What of a plan this sweep would not have written: a grid in part, other names than those of the sweep.

    Parameters
    ----------
    where : str
        The cube, for messages.
    spec : SweepSpec
        The sweep that the cube holds.
    name : str
        Of the data set, in the table of all of them.
    plan : DatasetPlan
        Of one of its data sets.
    """
    own, n, names = plan.n_annotations, plan.n_features, len(plan.feature_names)
    drawn, methods = plan.mixtures is not None, spec.grid.methods
    most = math.inf if drawn else max(plan.m, default=0)
    part = not bool(plan.p) == bool(plan.m) == plan.supervised
    named = drawn and any(getattr(plan, key) for key in NAMES)
    rows = [
        ("name", plan.name != name, repr(plan.name), repr(name)),
        ("p, m and models", part, "some of them empty", "all of them, or none"),
        ("feature_names", names not in (0, n), f"{names} names", f"none, or one for each of {n}"),
        ("names", named, "some", "none, as the data are drawn"),
        ("n_annotations", own and most > own, str(own), "a real data set with at least the largest m"),
    ]
    known: dict[str, Collection[str]] = {
        "models": MODEL_CODES.keys() - BASELINES | {each.name for each in methods if each.uses == "links"},
        "baselines": {*BASELINES, *(each.name for each in methods if each.uses == "nothing")},
        "designs": spec.grid.design if plan.supervised else DEFAULT,
        "searches": spec.search_names,
    }
    for key, words in known.items():
        found = getattr(plan, key)
        # a data set that was not available when designs, or searches, were added has fewer of them
        other = key in ("designs", "searches") and (len(found) > 1) != (len(words) > 1)
        rows.append((key, other or not set(found) <= set(words), shown(found), f"of {shown(sorted(words))}"))
    wrong = [each for each in plan.methods if each not in [method.plan for method in methods]]
    wrong += [each for each in plan.methods if each.restarts > plan.restarts]
    unnamed = {*plan.models, *plan.baselines} - {each.name for each in plan.methods}
    wrong += [each.plan for each in methods if each.name in unnamed]
    # cubes of earlier releases may have shorter rows
    room = {each.of: (each.components, each.entries) for each in unions_of(spec.search, plan)}
    foreign = [each for each in plan.unions if each.of not in room or each.is_longer(*room[each.of])]
    rows.append(
        ("unions", bool(foreign), shown(foreign), "those of the sweep, with rows no longer than theirs")
    )
    rows += [("methods", True, shown(each.name), "the methods of the sweep") for each in wrong]
    place = f"{where}: data set {name[:100]}:"
    return [Problem(f"{place} {key}", found, expected) for key, bad, found, expected in rows if bad]


# The metadata a cube must have, from its plans: any other could decode objects, or fill the memory.

# Chunks of an array lie side by side: one directory to make durable, none to make while results come in.
CHUNK_KEYS: dict[str, Any] = {"name": "default", "configuration": {"separator": "."}}

SERIALIZERS = {
    "string": {"name": "vlen-utf8", "configuration": {}},
    "int8": {"name": "bytes"},  # one byte has no order
}
BYTES: dict[str, Any] = {"name": "bytes", "configuration": {"endian": "little"}}
COMPRESSION: dict[str, Any] = {"name": "zstd", "configuration": {"level": 0, "checksum": False}}
# Outermost, so that a chunk that has changed is noticed before it is decompressed.
CHECKSUM: dict[str, Any] = {"name": "crc32c"}

# Of a data set: the status of all its cells is held in memory, one byte each.
MOST_CELLS = 10**8

# A chunk is written and read whole, and several copies of it are in memory at once.
MOST_CHUNK_BYTES = 2**32

ROOT: dict[str, Any] = {"zarr_format": 3, "node_type": "group"}
INLINE: dict[str, Any] = {"kind": "inline", "must_understand": False}

# Of an array, with their types. Others could make xarray scale, mask or convert values.
ATTRIBUTES = {"long_name": str, "units": str, "flag_values": list, "flag_meanings": str}


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
    nodes = {path: attributes for plan in plans for path, attributes in groups(plan).items()}
    for key in sorted(metadata.keys() | specs.keys() | nodes.keys()):
        where, found = f"{path}/{key}", metadata.get(key)
        if key not in specs and key not in nodes:
            yield Problem(where, "a node", "no such variable")
        elif not isinstance(found, Mapping):
            yield Problem(where, "no metadata", "a table of those of this variable or group")
        else:
            if key in specs:
                yield from _array_problems(where, found, specs[key])
            else:
                entry = dict(found)
                # as zarr writes it when it consolidates a cube again
                if entry.get("consolidated_metadata") in (None, {**INLINE, "metadata": {}}):
                    entry.pop("consolidated_metadata", None)
                yield from _compared(where, entry, group_entry(nodes[key]))
            # one that is gone is an error where it is read
            with suppress(OSError):
                if (kind := kind_of(Path(where))) != "a directory":
                    yield Problem(where, kind, "a directory of the cube")


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


def _compared(where: str, found: Mapping[str, Any], wanted: Mapping[str, Any]) -> Iterator[Problem]:
    """Every key that is not as this version writes it."""
    for key in sorted(found.keys() | wanted.keys()):
        # as texts: JSON true is a bool, which Python takes for the whole number 1
        text, expected = (json.dumps(entry.get(key), sort_keys=True) for entry in (found, wanted))
        if key not in wanted:
            yield Problem(where, f"a key {key[:60]!r}", f"one of {', '.join(sorted(wanted))}")
        elif text != expected:
            name = "type" if key == "data_type" else key
            yield Problem(where, f"{name} {text[:200]}", expected[:200])


def _array_problems(where: str, found: Mapping[str, Any], spec: ArraySpec) -> Iterator[Problem]:
    # Coordinates and the longest row of annotations may have grown since; their chunks never do.
    grow = [spec.variable.role is Role.COORDINATE or dim == "annotation" for dim in spec.dims]
    with suppress(KeyError, TypeError, ValueError):
        lengths = tuple(chunk_lengths(found))
        if all(
            type(n) is int and (n == most or (grows and 0 < n < most))
            for n, most, grows in zip(lengths, spec.chunks, grow, strict=True)
        ):
            spec = replace(spec, chunks=lengths)
    attributes = found.get("attributes", {})
    if not (
        isinstance(attributes, Mapping)
        and all(type(value) is ATTRIBUTES.get(key) for key, value in attributes.items())
        and all(type(flag) is int for flag in attributes.get("flag_values", []))
    ):
        yield Problem(where, f"attributes {str(attributes)[:200]}", f"only {', '.join(sorted(ATTRIBUTES))}")
    yield from _compared(
        where, {"storage_transformers": [], **found, "attributes": {}}, array_entry(spec) | {"attributes": {}}
    )


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
    failed : dict of str to str
        Last causes of cells that are marked failed, by name, as of the end of the last run.
    """

    path: Place
    spec: SweepSpec
    plans: dict[str, DatasetPlan]
    runs: tuple[RunRecord, ...]
    metadata: dict[str, dict[str, Any]]
    failed: dict[str, str] = field(default_factory=dict)

    @property
    def skipped(self) -> dict[str, list[str]]:
        """Data sets that the last run did not have, and why; none of these is in the cube."""
        found = self.runs[-1].skipped if self.runs else {}
        return {name: list(reasons) for name, reasons in found.items() if name not in self.plans}

    @cached_property
    def made_with(self) -> tuple[dict[str, str], ...]:
        """Return the fingerprint of each run, as far as it is known."""
        # A run of a release that recorded no solvers left unions without their Gaussians: the first solver.
        earlier = {
            solver_name(*each.of): "1"
            for plan in self.plans.values()
            for each in unions_of(self.spec.search, plan)
            if each.of not in [kept.of for kept in plan.unions]
        }
        return tuple(
            run.made_with | ({} if any(key.startswith(PREFIX) for key in run.fingerprint) else earlier)
            for run in self.runs
        )

    @property
    def software(self) -> str:
        """Return what differs between the software and processors of the runs in words, or nothing."""
        note = software_differences(by_run(self.made_with))
        return note and f"runs with different software or processors: {note}"

    @property
    def format_version(self) -> int:
        """Version that a release must know to read it."""
        return FORMAT_VERSIONS[any(plan.unions for plan in self.plans.values())]

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
            "scale": {name: SCALED.get(plan.scale, plan.scale) for name, plan in self.plans.items()},
            "failed": self.failed,
        }
        inline = {**INLINE, "metadata": dict(sorted(self.metadata.items()))}
        root = {**ROOT, "attributes": attributes, "consolidated_metadata": inline}
        return json.dumps(root).encode()

    @cached_property
    def chunks(self) -> ChunkFiles:
        """What the chunk files of the cube hold."""
        return ChunkFiles(self.path, self.plans.values(), self.metadata)

    def commit(self, files: Files) -> None:
        """Replace the root file: readers see the cube as it was, or as it is now."""
        path = Path(self.path)
        with storage_errors(path, len(self.document)):
            files.put(path / ROOT_FILE, self.document)
            sync_directory(path)


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
    if (version := attributes.get("format_version")) not in FORMAT_VERSIONS:
        expected = f"format version {' or '.join(map(str, FORMAT_VERSIONS))}"
        hint = "read it with the release that wrote it, or use another name"
        raise InputError([Problem(str(path), f"format version {version!r}", expected, hint)])
    problems: list[Problem] = []
    plans, known = {}, [field.name for field in fields(DatasetPlan)]
    with collecting(problems):
        spec = load(f"{path}: spec", attributes.get("spec"))
    with collecting(problems):
        kept = {key: value for key, value in attributes.items() if key in Contents.model_fields}
        contents = read(Contents, kept, f"{path}:")
        for name, record in contents.datasets.items():
            with collecting(problems):
                # The default of a plan is not one of a cube: every cube says how its features were scaled.
                values = {"scale": ABSENT, **marked(record, known)}
                plans[name] = read(DatasetPlan, values, f"{path}: data set {name[:100]}:")
    for name, plan in () if problems else plans.items():
        problems += plan_problems(str(path), spec, name, plan)
        problems += size_problems(f"{path}/", plan)
    if problems:
        raise InputError(problems)
    metadata: Any = None
    if isinstance(inline := document.pop("consolidated_metadata", None), dict):
        metadata = inline.pop("metadata", None)
        problems += _compared(f"{path}: consolidated_metadata", inline, INLINE)
    problems += _compared(str(path), {**document, "attributes": {}}, {**ROOT, "attributes": {}})
    problems += layout_problems(path, plans.values(), metadata)
    manifest = Manifest(path, spec, plans, contents.runs, metadata, contents.failed)
    if manifest.format_version != version:
        expected = f"format version {manifest.format_version}, as its data sets say"
        problems.append(Problem(str(path), f"format version {version}", expected))
    if problems:
        raise InputError(problems)
    return manifest


class Contents(Record):
    """What the root file holds beside the sweep: its history, and its data sets by name."""

    runs: Annotated[tuple[RunRecord, ...], Listed()]
    datasets: dict[str, dict[str, Any]]
    failed: dict[str, Line] = Field(default_factory=dict)


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
    replace(manifest, runs=(*manifest.runs, record)).commit(files)


def keep_causes(path: Path, causes: Mapping[str, str], files: Files = PLAIN) -> None:
    """Keep in the root why cells failed, in place of what an earlier run left there.

    Parameters
    ----------
    path : Path
        The cube.
    causes : mapping of str to str
        Last causes of the cells that are marked failed, by name.
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
    failed = {cell: one_line(cause, LONGEST_CAUSE) for cell, cause in islice(causes.items(), MOST_FAILED)}
    if failed != manifest.failed:
        replace(manifest, failed=failed).commit(files)


def _read_document(path: Place) -> dict[str, Any]:
    with storage_errors(path):
        try:
            if isinstance(path, str):
                content = read_remote(f"{path}/{ROOT_FILE}", LONGEST_ROOT)
            else:
                content = read_regular(path / ROOT_FILE, LONGEST_ROOT)
        except (FileNotFoundError, NotADirectoryError) as error:
            found = f"no {ROOT_FILE} ({error.strerror})"
            if isinstance(path, Path) and not path.is_dir():
                found = "a file" if path.exists() else "nothing"
            raise _not_a_cube(path, found) from None
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise _not_a_cube(path, f"a {ROOT_FILE} that is not JSON ({error})") from error
    return document if isinstance(document, dict) else {}


def _not_a_cube(path: Place, found: str) -> InputError:
    return refused(path, found, "a cube written by a sweep", "use another name or directory")
