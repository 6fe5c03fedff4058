"""What a cube holds: format version, resolved sweep file, grid, data checksums, history of runs.

All of it is kept in the attributes of the root group, in the one file that also holds the consolidated
metadata: a single rename commits the grid and the arrays together.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from storage.cube.layout import INLINE, ROOT, layout_problems, root_problems, size_problems
from storage.cube.places import ChunkFiles
from storage.cube.records import name_problems, plan_to_json, read_plans
from storage.errors import storage_errors
from storage.files import PLAIN, Files, read_regular, sync_directory
from storage.provenance import RunRecord
from storage.remote import Url
from storage.runfolder.folder import RunFolder
from sweeps.errors import InputError, Problem, collecting, shown
from sweeps.file.spec import SweepSpec, load
from sweeps.plan import DatasetPlan
from sweeps.records import read

FORMAT = "sweep cube"
FORMAT_VERSION = 2
ROOT_FILE = "zarr.json"
LONGEST_ROOT = 2**26
"""Bytes. A sweep of 1,000,000 cells needs 30 kB, and each run adds 1 kB."""


@dataclass(frozen=True)
class Manifest:
    """The committed state of a cube.

    Parameters
    ----------
    path : Path
        The cube.
    spec : SweepSpec
        The sweep as it was understood.
    plans : dict of str to DatasetPlan
        Grid and chunk lengths of each data set, coordinates in order of arrival.
    runs : tuple of RunRecord
        One record of each run, oldest first.
    metadata : dict
        zarr metadata of every node below the root, by path.
    """

    path: Path
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


def read_manifest(path: Path) -> Manifest:
    """Read and check the root of a cube: one small file, whatever is being written meanwhile.

    Parameters
    ----------
    path : Path
        The cube, `<name>.zarr`.

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
    if not isinstance(path, Url):  # whose run, if there is one, is elsewhere
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


def _read_document(path: Path) -> dict[str, Any]:
    with storage_errors(path):
        if not isinstance(path, Url) and not path.is_dir():
            raise _not_a_cube(path, "a file" if path.exists() else "nothing")
        try:
            content = read_regular(path / ROOT_FILE, LONGEST_ROOT)
        except FileNotFoundError as error:
            where = (
                f"no zarr.json ({error.strerror})"
                if isinstance(path, Url)
                else "a directory without zarr.json"
            )
            raise _not_a_cube(path, where) from None
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise _not_a_cube(path, f"a zarr.json that is not JSON ({error})") from error
    if not isinstance(document, dict):
        raise _not_a_cube(path, "a zarr.json that is not a table")
    return document


def _checked(path: Path, attributes: Mapping[str, Any], document: Mapping[str, Any]) -> Manifest:
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


def _not_a_cube(path: Path, found: str) -> InputError:
    hint = "" if isinstance(path, Url) else "use another name or directory"
    return InputError([Problem(str(path), found, "a cube written by a sweep", hint)])
