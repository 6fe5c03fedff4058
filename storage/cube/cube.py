"""The cube on disk: created in one step, extended in one step."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import zarr

from storage.cube.growth import align, differences
from storage.cube.manifest import ROOT_FILE, Manifest, commit, read_manifest, root_document, to_json
from storage.cube.places import chunk_position
from storage.cube.reading import open_cube
from storage.cube.store import CubeStore
from storage.cube.template import InputArrays, Template, is_committed, named, render
from storage.errors import storage_errors
from storage.files import PLAIN, Files
from sweeps.errors import InputError, Problem
from sweeps.file.spec import SweepSpec
from sweeps.plan import DatasetPlan

__all__ = ["Inputs", "create", "grow", "open_cube"]

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
        From a plan to its inputs, see `storage.cube.template.InputArrays`.
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
        files.put_all(path, _changed(path, contents))
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


def _changed(path: Path, files: Mapping[str, bytes]) -> Iterator[tuple[str, bytes]]:
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
