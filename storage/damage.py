"""Chunk files that have changed or are gone: `scan` finds them, `repair` puts them right.

Blocks are set back to be computed again; inputs and coordinates are made again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
import zarr

from storage.cube.blocks import BlockStore
from storage.cube.growth import InputArrays, chunk_counts, named, render
from storage.cube.manifest import ROOT_FILE, Manifest, read_manifest
from storage.cube.places import chunk_name
from storage.cube.schema import VARIABLES, Role
from storage.cube.store import CubeStore
from storage.errors import DamagedChunk, storage_errors
from storage.files import PLAIN, Files, digest_of, read_regular, sync_directory
from storage.runfolder.folder import RunFolder
from storage.runfolder.records import merged_lines
from sweeps.errors import InputError
from sweeps.plan import Block, DatasetPlan

# Every chunk file of a cube, read and compared with its checksum.

Progress = Callable[[list[str]], Iterable[str]]
"""Passes keys on, and may show how far it is."""


CHANGED = "has changed since it was written"
MOVED = "is whole, and not what was written there: the file of another chunk, or of another cube"


@dataclass(frozen=True)
class Damage:
    """A chunk file that is not as it was written.

    Parameters
    ----------
    key : str
        Path below the cube.
    holds, found : str
        Array and cells it is of, and what is wrong with it.
    """

    key: str
    holds: str
    found: str

    def __str__(self) -> str:
        return f"{self.key}: {self.found}; it holds {self.holds}"


@dataclass(frozen=True)
class Scan:
    """What was found in the files of a cube.

    Parameters
    ----------
    files, size : int
        Chunk files that were read, and their bytes.
    damaged : tuple of Damage
        In the order of the arrays.
    unknown : int
        Files of which the run folder holds no digest: whether they stand in their place was not checked.
    """

    files: int
    size: int
    damaged: tuple[Damage, ...]
    unknown: int = 0


class Written:
    """What the run folder says of the files of a cube, as the holders of the lease wrote them.

    Parameters
    ----------
    cube : Path
        The cube.
    """

    def __init__(self, cube: Path) -> None:
        self._known: dict[str, set[str]] = {}
        self._run = RunFolder(cube)
        self._run.check()
        self._read()

    def knows(self, key: str) -> bool:
        """Whether there is a digest of a file."""
        return key in self._known

    def agrees(self, key: str, content: bytes) -> bool:
        """Whether a file is as it was written once, or nothing is known of it.

        Files are noted before they are there, so what is written meanwhile is found at a second look.
        """
        for _ in range(2):
            known = self._known.get(key)
            if known is None or digest_of(content) in known:
                return True
            self._read()
        return False

    def root(self) -> bytes | None:
        """The root file that was written last, None where the run folder has none."""
        copies = [each.root for each in self._run.generations() if each.root.exists()]
        return read_regular(copies[-1]) if copies else None

    def _read(self) -> None:
        for line in merged_lines(each.written for each in self._run.generations()).splitlines():
            digest, _, key = line.decode(errors="replace").partition(" ")
            self._known.setdefault(key, set()).add(digest)


def changed_root(path: Path) -> Damage | None:
    """The root file, where it is not one that a run wrote; it tells what all other files are.

    Raises
    ------
    InputError
        If it is not a regular file.
    StorageError
        If the file system refuses.
    """
    with storage_errors(path):
        try:
            content = read_regular(path / ROOT_FILE)
        except (FileNotFoundError, NotADirectoryError):
            content = b""
        agrees = Written(path).agrees(ROOT_FILE, content)
    holds = "the sweep, the grid and the metadata of all arrays"
    return None if agrees else Damage(ROOT_FILE, holds, CHANGED if content else "is missing")


def scan(path: Path, progress: Progress = iter) -> Scan:
    """Read every chunk file of a cube; a sweep may be writing to it.

    Where the root file has changed, it alone is damaged: until it is put right nothing says what others are.

    Parameters
    ----------
    path : Path
        The cube.
    progress : callable, optional
        Called with all keys.

    Raises
    ------
    InputError
        If this is not a cube.
    StorageError
        If the file system refuses.
    """
    root = changed_root(path)
    if root is not None:
        return Scan(0, 0, (root,))
    manifest, written = read_manifest(path), Written(path)
    store = CubeStore(path, chunks=manifest.chunks, document=manifest.document, read_only=True)
    files, size, unknown, damaged = 0, 0, 0, []
    with storage_errors(path):
        for key in progress(list(_keys(manifest))):
            try:
                content = store.get_sync(key)
            except DamagedChunk as damage:
                damaged.append(Damage(key, damage.holds, damage.reason))
                continue
            if content is None:
                continue
            if not written.agrees(key, content.to_bytes()):
                damaged.append(Damage(key, manifest.chunks.name(key), MOVED))
                continue
            files += 1
            size += len(content)
            unknown += not written.knows(key)
    return Scan(files, size, tuple(damaged), unknown)


def _keys(manifest: Manifest) -> Iterator[str]:
    """Keys of all chunk files that are there, or must be."""
    cube, chunks = Path(manifest.path), manifest.chunks
    for path, entry in manifest.metadata.items():
        if entry["node_type"] != "array":
            continue
        there = {f"{path}/{name}" for name in os.listdir(cube / path)}
        for position in product(*(range(count) for count in chunk_counts(entry))):
            key = f"{path}/{chunk_name(position)}"
            if key in there or chunks.is_expected(key, lambda other: os.path.lexists(cube / other)):
                yield key


Inputs = Callable[[DatasetPlan], InputArrays]


@dataclass(frozen=True)
class Repair:
    """What is done about damaged chunks.

    Parameters
    ----------
    blocks : tuple of Block
        Set back: their cells are pending; what of them is intact is compared when they are computed again.
    remade : tuple of str
        Keys of coordinates and inputs that are made again.
    removed : tuple of str
        Keys of chunks of blocks that were not finished.
    lost : tuple of (str, str)
        Keys of inputs that cannot be made again, and why.
    """

    blocks: tuple[Block, ...]
    remade: tuple[str, ...]
    removed: tuple[str, ...]
    lost: tuple[tuple[str, str], ...]


def repair(
    path: Path, damaged: Iterable[Damage], inputs: Inputs, files: Files = PLAIN, *, dry_run: bool = False
) -> Repair:
    """Set damaged chunks right; only the holder of the lease may.

    It may be stopped at any moment and called again: a block is pending before anything of it is replaced.

    Parameters
    ----------
    path : Path
        The cube.
    damaged : iterable of Damage
        As `scan` finds them.
    inputs : callable
        From a plan to its inputs, as for `storage.cube.cube.create`. It raises `InputError` where
        they are not to be had, or are of other data.
    files : Files
        Of the holder of the lease.
    dry_run : bool
        Only say what would be done.

    Raises
    ------
    InputError
        If this is not a cube.
    StorageError
        If the file system refuses.
    """
    manifest = read_manifest(path)
    keys = [damage.key for damage in damaged]
    results = [key for key in keys if VARIABLES[_name(key)].role in (Role.RESULT, Role.ANNOTATION)]
    remade, lost = _remade(manifest, [key for key in keys if key not in results], inputs)
    store = BlockStore(path, read_only=dry_run, files=files)
    finished = {
        key: [block for block in manifest.chunks.blocks(key) if store.has_status(block)] for key in results
    }
    blocks = tuple(dict.fromkeys(block for found in finished.values() for block in found))
    removed = tuple(key for key, found in finished.items() if not found)
    if not dry_run:
        with storage_errors(path):
            _set_back(store, finished, blocks)
            for key in removed:
                files.remove(path / key)
                sync_directory((path / key).parent)
            files.put_all(path, remade.items())
    return Repair(blocks, tuple(remade), removed, tuple(lost.items()))


def repair_root(path: Path, files: Files = PLAIN, *, dry_run: bool = False) -> Repair:
    """Put the root file of a cube back as it was written last, from the copy in the run folder.

    Parameters
    ----------
    path, files, dry_run
        As for `repair`.
    """
    content = Written(path).root()
    if content is None:
        return Repair((), (), (), ((ROOT_FILE, "the run folder has no copy of it"),))
    if not dry_run:
        with storage_errors(path, len(content)):
            files.put(path / ROOT_FILE, content)
            sync_directory(path)
    return Repair((), (ROOT_FILE,), (), ())


def _set_back(store: BlockStore, finished: dict[str, list[Block]], blocks: Iterable[Block]) -> None:
    for block in blocks:
        store.set_back(block)
    for key, found in finished.items():
        name = _name(key)
        if found and name != "status":
            store.clear(found[0], name)


def _remade(manifest: Manifest, keys: list[str], inputs: Inputs) -> tuple[dict[str, bytes], dict[str, str]]:
    """Content of chunks of coordinates and inputs, and why some cannot be had."""
    files: dict[str, bytes] = {}
    lost: dict[str, str] = {}
    for plan in manifest.plans.values():
        own = [key for key in keys if key.rpartition("/")[0].rpartition("/")[0] == plan.name]
        made = render(plan, manifest.metadata, None).coordinates if own else {}
        files |= {key: made[key] for key in own if key in made}
        missing = [key for key in own if key not in made]
        if missing:
            try:
                data = inputs(plan)
                made = render(plan, manifest.metadata, data).inputs
                reason = _disagreement(manifest, plan, data, missing)
            except InputError as error:
                reason = "; ".join(map(str, error.problems))
            if reason:
                lost |= dict.fromkeys(missing, reason)
            else:
                files |= {key: made[key] for key in missing}
    return files, lost


def _disagreement(manifest: Manifest, plan: DatasetPlan, data: InputArrays, damaged: list[str]) -> str:
    """Where inputs differ from those in the cube, as far as these are intact."""
    store = CubeStore(manifest.path, chunks=manifest.chunks, document=manifest.document, read_only=True)
    root = zarr.open_group(store, mode="r", use_consolidated=True)
    for name, values in named(data).items():
        path = f"{plan.name}/{name}"
        array = root[path]
        if not isinstance(array, zarr.Array):
            raise TypeError(f"{path} is no array")
        for rows in _chunks(array):
            key = f"{path}/{chunk_name((rows.start // array.chunks[0], *(0,) * (array.ndim - 1)))}"
            if key not in damaged and not np.array_equal(np.asarray(array[rows]), values[rows]):
                return f"{path} has other values now than in the cube"
    return ""


def _chunks(array: zarr.Array) -> Iterator[slice]:  # type: ignore[type-arg]
    """Chunks along the first dimension: inputs are whole along all others."""
    for start in range(0, array.shape[0], array.chunks[0]):
        yield slice(start, min(start + array.chunks[0], array.shape[0]))


def _name(key: str) -> str:
    return key.split("/")[-2]
