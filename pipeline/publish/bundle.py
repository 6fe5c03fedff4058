"""One file to publish a cube with all that others need to read, cite and check it: a bundle.

`write_bundle` makes one, and `check_bundle` checks one, which may come from anywhere, against its manifest.
`storage/archive` reads the cube where it stands in the file. A bundle has nothing of the folder of a run, no
name of a machine and no path of one, and its bytes depend on the cube and on the versions of this package
and of the libraries below alone.
"""

import hashlib
import json
import os
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path, PurePath
from typing import Annotated, Any

from pydantic import Field

from sweep_clustering.pipeline.common import Progress, silent
from sweep_clustering.pipeline.publish import description
from sweep_clustering.pipeline.report.write import EXTRA, write_report, write_rows
from sweep_clustering.pipeline.scoring.raw import COLUMNS, SCORES, raw_text, scored_cells
from sweep_clustering.storage.archive import CUBE_SUFFIX, ZIP_SUFFIX, Archive, parts_of, write_zip
from sweep_clustering.storage.cube.chunks import ROOT_FILE
from sweep_clustering.storage.cube.manifest import Manifest, Parts, group_entry, read_manifest
from sweep_clustering.storage.cube.schema import array_specs, groups
from sweep_clustering.storage.cube.store import open_cube
from sweep_clustering.storage.files import LONGEST_ROOT, Place, building, sync_directory
from sweep_clustering.storage.provenance import RunRecord, package_version
from sweep_clustering.sweeps.data.lines import shortened
from sweep_clustering.sweeps.errors import Problem, collecting, raise_all, refused
from sweep_clustering.sweeps.file.reading import as_toml
from sweep_clustering.sweeps.file.spec import load
from sweep_clustering.sweeps.plan import Name
from sweep_clustering.sweeps.records import Record, Text, read

FORMAT = "sweep bundle"
FORMAT_VERSION = 1

MANIFEST = "manifest.json"


class Contents(Record):
    """The manifest of a bundle: what it is, and every other member of it."""

    format: str
    format_version: int
    sweep: Name
    software: Annotated[str, Text(max_length=200)]
    files: dict[str, description.Listing] = Field(min_length=1)


def check_bundle(path: Path) -> None:
    """Check that a bundle holds what its manifest says, byte for byte.

    Raises
    ------
    InputError
        With every problem: a zip that is cut off or could do harm, another format version, members that are
        missing, that are not listed, or that have other bytes than is listed.
    StorageError
        If the file cannot be read.
    """
    archive = Archive(path)
    location = f"{path}, member {MANIFEST}"
    try:
        document = json.loads(archive.read(MANIFEST, LONGEST_ROOT))
    except FileNotFoundError:
        raise refused(path, f"no member {MANIFEST}", "a bundle that `sweep bundle` wrote") from None
    except (ValueError, RecursionError) as error:
        raise refused(location, f"no JSON ({error})", "the manifest of a bundle") from None
    marks = (document.get("format"), document.get("format_version")) if isinstance(document, dict) else ()
    if marks != (FORMAT, FORMAT_VERSION):
        expected = f"{FORMAT!r} of format version {FORMAT_VERSION}"
        raise refused(
            location, " ".join(map(repr, marks)) or "no table", expected, "a newer release may read it"
        )
    contents = read(Contents, document, f"{location}:")
    problems = list[Problem]()
    sizes, cube = archive.sizes, contents.sweep + CUBE_SUFFIX
    for name in sorted({*sizes, *contents.files, SCORES, cube} - {MANIFEST}):
        listing, place = contents.files.get(name), f"{path}, member {name}"
        if listing is None or name not in sizes:
            fault = "nothing" if listing else "a member"
            problems.append(Problem(place, fault, "a member that the manifest lists"))
            continue
        with collecting(problems):
            if (actual := _listing(archive.parts(name))) != listing:
                problems.append(Problem(place, str(actual), f"{listing}, as in the manifest"))
    raise_all(shortened(path, problems))


def write_bundle(cube: Place, path: Path, *, overwrite: bool = False, progress: Progress = silent) -> Path:
    """Write the bundle of a cube in one step, and return its path.

    `progress` goes through the data sets that are scored, and the sections of the report.

    Raises
    ------
    InputError
        If this is no cube, something is at `path`, or a package is missing.
    StorageError
        If the file system refuses, or a file of the cube is damaged.
    """
    problems = list[Problem]()
    if os.path.lexists(path) and not overwrite:
        problems.append(Problem(str(path), "something there already", "a new name", "--force overwrites it"))
    if path.suffix != ZIP_SUFFIX:
        problems.append(Problem("--out", str(path), f"a name that ends with {ZIP_SUFFIX}"))
    if find_spec("pyarrow") is None:
        problems.append(Problem("scores.parquet", "no pyarrow", "pyarrow", EXTRA))
    with collecting(problems):
        manifest = read_manifest(cube)
    raise_all(problems)
    with building(path) as folder:
        bundle = folder / path.name
        write_zip(bundle, _members(manifest, folder, progress).items())
        os.replace(bundle, path)
        sync_directory(path.parent)
    return path


def _members(manifest: Manifest, folder: Path, progress: Progress) -> dict[str, bytes | Path]:
    """Return all members of the bundle of a cube; files are made in a folder."""
    name = manifest.spec.name
    is_public = {name: bool(origin.licence) for name, origin in description.data_origins(manifest).items()}
    hidden = [name for name, plan in manifest.plans.items() if plan.left_out or not is_public.get(name, True)]
    plain, public = public_state(manifest), public_state(manifest, hidden)
    full_cube, published_cube = folder / f"whole{CUBE_SUFFIX}", folder / f"{name}{CUBE_SUFFIX}"
    _write_cube(plain, full_cube)
    if hidden:
        _write_cube(public, published_cube)
    else:
        full_cube = full_cube.rename(published_cube)
    cells = scored_cells(open_cube(full_cube), plain.plans, [manifest.path], progress)
    scores = cells[list(COLUMNS)]
    write_rows(folder / "scores.parquet", [scores])
    parts = Parts((read_manifest(full_cube),), replace(public, path=published_cube.relative_to(folder)))
    report = write_report(parts, folder / "report", cells=cells, progress=progress)
    version = package_version()
    members: dict[str, bytes | Path] = {
        "README.md": description.readme(public, scores, version).encode(),
        "CITATION.bib": description.bibliography(public).encode(),
        "provenance.json": _json(provenance(public)),
        "report.html": report.page,
        SCORES: raw_text(scores, plain).encode(),
        "scores.parquet": folder / "scores.parquet",
        "sweep.toml": as_toml(public.spec).encode(),
        published_cube.name: published_cube,
    }
    listings = {member: _listing(parts_of(content)) for member, content in members.items()}
    descriptions = {"croissant.json": description.croissant(public, listings, scores)}
    descriptions["ro-crate-metadata.json"] = description.ro_crate(public, listings)
    members |= {member: _json(document) for member, document in descriptions.items()}
    listings |= {member: _listing(parts_of(members[member])) for member in descriptions}
    contents = Contents(
        format=FORMAT, format_version=FORMAT_VERSION, sweep=name, software=version, files=listings
    )
    members[MANIFEST] = _json(contents.model_dump(mode="json"))
    return {name: members.pop(name) for name in description.MEMBERS if name in members} | members


def _json(value: object) -> bytes:
    return (json.dumps(value, indent=1, ensure_ascii=False) + "\n").encode()


def _listing(parts: Iterable[bytes]) -> description.Listing:
    size, digest = 0, hashlib.sha256()
    for part in parts:
        size += len(part)
        digest.update(part)
    return description.Listing(size=size, sha256=digest.hexdigest())


def provenance(cube: Manifest) -> dict[str, Any]:
    """Return the software, the machines and the data with which a cube was made."""
    facts = ("checksum", "annotations_checksum", "source", "left_out")
    return {
        "runs": [run.dump() for run in cube.runs],
        "data": {name: {fact: getattr(plan, fact) for fact in facts} for name, plan in cube.plans.items()},
    }


def _write_cube(cube: Manifest, target: Path) -> None:
    """Write a cube as a zip, with what a sweep wrote and nothing else."""
    chunks = cube.chunks
    # a status says that results are there, so it is read before them while a sweep may be writing
    keys = sorted(chunks.keys(), key=lambda key: (key.split("/")[-2] != "status", key))
    nodes = [(f"{path}/{ROOT_FILE}", json.dumps(entry).encode()) for path, entry in cube.metadata.items()]
    chunk_pairs = ((key, chunks.load(key)) for key in keys)
    contents = ((key, chunk[0]) for key, chunk in chunk_pairs if chunk is not None)
    write_zip(target, [(ROOT_FILE, cube.document), *sorted(nodes), *contents])


# An absolute path in a text: not the path of an address, nor a fraction.
HOST_PATH = re.compile(r"(?<![\w:/.])(?:/[^\s/:'\",;()]+)+/([^\s/:'\",;()]+)")


def public_state(cube: Manifest, left_out: Collection[str] = ()) -> Manifest:
    """Return the state of a cube as it is published: without hosts, paths of hosts, and some inputs.

    `left_out` are the data sets whose inputs are left out. The path is that of the cube, whose chunks it has.
    """
    plans = {
        name: replace(plan, source=_local(plan.source), left_out=plan.left_out or name in left_out)
        for name, plan in cube.plans.items()
    }
    metadata = {spec.path: cube.metadata[spec.path] for plan in plans.values() for spec in array_specs(plan)}
    metadata |= {path: group_entry(group) for plan in plans.values() for path, group in groups(plan).items()}
    runs = [{key: value for key, value in run.dump().items() if key != "host"} for run in cube.runs]
    return replace(
        cube,
        spec=load(str(cube.path), _local(cube.spec.dump())),
        plans=plans,
        runs=tuple(read(RunRecord, _local(run), f"{cube.path}: run") for run in runs),
        metadata=dict(sorted(metadata.items())),
        causes=_local(cube.causes),
    )


def _local(value: Any) -> Any:
    """Return values of JSON in which the last name stands for each absolute path."""
    if isinstance(value, Mapping):
        return {key: _local(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_local(item) for item in value]
    if not isinstance(value, str):
        return value
    return PurePath(value).name if value.startswith("/") else HOST_PATH.sub(r"\1", value)
