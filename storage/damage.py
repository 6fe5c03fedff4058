"""Chunk files that have changed or are gone: `scan` finds them, `repair` puts them right.

Blocks are set back to be computed again; inputs and coordinates are made again, and the root file, which
tells what all others are, is put back from the copy in the run folder.
"""

import os
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from sweep_clustering.storage.cube.blocks import BlockStore
from sweep_clustering.storage.cube.chunks import ROOT_FILE, chunk_counts, chunk_name, variable_of
from sweep_clustering.storage.cube.growth import InputArrays, render, stored_inputs
from sweep_clustering.storage.cube.manifest import Manifest, read_manifest
from sweep_clustering.storage.cube.schema import Role
from sweep_clustering.storage.errors import DamagedChunk, storage_errors
from sweep_clustering.storage.files import PLAIN, Files, digest_of, read_regular, sync_directory
from sweep_clustering.storage.runfolder.folder import RunFolder
from sweep_clustering.storage.runfolder.records import merged_lines
from sweep_clustering.sweeps.errors import InputError
from sweep_clustering.sweeps.plan import Block, DatasetPlan

# Passes keys on, and may show how far it is.
Progress = Callable[[list[str]], Iterable[str]]

Inputs = Callable[[Manifest, DatasetPlan], InputArrays]

CHANGED = "has changed since it was written"
MOVED = "is whole, and not what was written there: the file of another chunk, or of another cube"


@dataclass(frozen=True)
class Damage:
    """A file that is not as it was written.

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
    cube : Path
        The cube.
    files, size : int
        Chunk files that were good, and their bytes.
    seconds : float
        Time it took.
    damaged : tuple of Damage
        Files that have changed, stand in the place of others, or are gone, in the order of the arrays.
    unknown : int
        Good files of which the run folder holds no digest: whether they stand in their place was not checked.
    """

    cube: Path
    files: int
    size: int
    seconds: float
    damaged: tuple[Damage, ...]
    unknown: int = 0

    @property
    def good(self) -> bool:
        """Whether nothing is damaged."""
        return not self.damaged

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {**asdict(self), "cube": str(self.cube), "good": self.good}

    def lines(self) -> list[str]:
        """Summary for people."""
        rate = self.size / 1e6 / max(self.seconds, 1e-9)
        read = f"{self.size / 1e6:,.1f} MB in {self.seconds:.1f} s ({rate:,.0f} MB/s)"
        lines = [f"{self.cube}: {self.files:,} files are as they were written, {read}"]
        if self.unknown:
            files = f"{self.unknown:,} file{'s' if self.unknown > 1 else ''}"
            lines.append(f"{files} not checked for being in the right place: no digest in the run folder")
        if self.damaged:
            lines.append(f"damaged files: {len(self.damaged):,}")
            lines += [f"  {damage}" for damage in self.damaged]
            lines.append(f"to have them made again: sweep repair {self.cube}")
        return lines


class Written:
    """What the run folder says of the files of a cube, as the holders of the lease wrote them.

    Parameters
    ----------
    cube : Path
        The cube.
    """

    def __init__(self, cube: Path) -> None:
        self._run = RunFolder(cube)
        self._run.check()
        self.known: dict[str, set[str]] = {}
        self._read()

    def agrees(self, key: str, content: bytes) -> bool:
        """Whether a file is as it was written once, or nothing is known of it.

        Files are noted before they are there, so what is written meanwhile is found at a second look.
        """
        if key in self.known and digest_of(content) not in self.known[key]:
            self._read()
        return key not in self.known or digest_of(content) in self.known[key]

    def root(self) -> bytes | None:
        """The root file that was written last, None where the run folder has none."""
        copies = [each.root for each in self._run.generations() if each.root.exists()]
        return read_regular(copies[-1]) if copies else None

    def _read(self) -> None:
        for line in merged_lines(each.written for each in self._run.generations()).splitlines():
            digest, _, key = line.decode(errors="replace").partition(" ")
            self.known.setdefault(key, set()).add(digest)


def changed_root(path: Path) -> Damage | None:
    """The root file, where it is not one that a run wrote; it tells what all other files are.

    Raises
    ------
    InputError
        If it is not a regular file.
    StorageError
        If the file system refuses.
    """
    content = b""
    with storage_errors(path):
        with suppress(FileNotFoundError, NotADirectoryError):
            content = read_regular(path / ROOT_FILE)
        agrees = Written(path).agrees(ROOT_FILE, content)
    holds = "the sweep, the grid and the metadata of all arrays"
    return None if agrees else Damage(ROOT_FILE, holds, CHANGED if content else "is missing")


def scan(path: Path, progress: Progress = iter) -> Scan:
    """Read every chunk file of a cube and compare it with its checksum; a sweep may be writing to it.

    Where the root file has changed, it alone is damaged: until it is put right nothing says what others are.

    Parameters
    ----------
    path : Path
        The cube.
    progress : callable, optional
        Called with the keys of all files, and passes them on.

    Raises
    ------
    InputError
        If this is not a cube.
    StorageError
        If the file system refuses.
    """
    started = time.perf_counter()
    if (root := changed_root(path)) is not None:
        return Scan(path, 0, 0, 0.0, (root,))
    manifest, written = read_manifest(path), Written(path)
    keys = (
        f"{array}/{chunk_name(position)}"
        for array, entry in manifest.metadata.items()
        if entry["node_type"] == "array"
        for position in np.ndindex(*chunk_counts(entry))
    )
    files, size, unknown, damaged = 0, 0, 0, []
    with storage_errors(path):
        there = [key for key in keys if os.path.lexists(path / key) or manifest.chunks.is_expected(key)]
        for key in progress(there):
            try:
                loaded = manifest.chunks.load(key)
            except DamagedChunk as damage:
                damaged.append(Damage(key, damage.holds, damage.reason))
                continue
            if loaded is not None and not written.agrees(key, loaded[0]):
                damaged.append(Damage(key, manifest.chunks.name(key), MOVED))
            elif loaded is not None:
                files += 1
                size += len(loaded[0])
                unknown += key not in written.known
    return Scan(path, files, size, time.perf_counter() - started, tuple(damaged), unknown)


@dataclass(frozen=True)
class Repair:
    """What is done about damaged files, or would be.

    Parameters
    ----------
    damaged : tuple of Damage
        What was found.
    blocks : tuple of Block
        Set back: their cells are pending; what of them is intact is compared when they are computed again.
    remade : tuple of str
        Keys of the root file, coordinates and inputs that are made again.
    removed : tuple of str
        Keys of chunks of blocks that were not finished.
    lost : dict of str to str
        Keys of what cannot be made again, and why.
    """

    damaged: tuple[Damage, ...]
    blocks: tuple[Block, ...] = ()
    remade: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    lost: dict[str, str] = field(default_factory=dict)


def repair(
    path: Path, inputs: Inputs, files: Files = PLAIN, *, dry_run: bool = False, progress: Progress = iter
) -> Repair:
    """Find what is damaged and set it right; only the holder of the lease may.

    It may be stopped at any moment and called again: a block is pending before anything of it is replaced.

    Parameters
    ----------
    path : Path
        The cube.
    inputs : callable
        From the cube and a plan of it to inputs, as for `storage.cube.growth.create`. It raises `InputError`
        where they are not to be had, or are of other data.
    files : Files
        Of the holder of the lease.
    dry_run : bool
        Only say what would be done.
    progress : callable, optional
        As for `scan`.

    Raises
    ------
    InputError
        If this is not a cube.
    StorageError
        If the file system refuses.
    """
    damaged = scan(path, progress).damaged
    if [damage.key for damage in damaged] == [ROOT_FILE]:
        content = Written(path).root()
        if content is None:
            return Repair(damaged, lost={ROOT_FILE: "the run folder has no copy of it"})
        if dry_run:
            return Repair(damaged, remade=(ROOT_FILE,))
        with storage_errors(path, len(content)):
            files.put(path / ROOT_FILE, content)
            sync_directory(path)
        done = repair(path, inputs, files, progress=progress)
        return replace(done, damaged=damaged + done.damaged, remade=(ROOT_FILE, *done.remade))
    manifest, store = read_manifest(path), BlockStore(path, read_only=dry_run, files=files)
    finished, made_again = {}, []
    for key in (damage.key for damage in damaged):
        if variable_of(key).role in (Role.RESULT, Role.ANNOTATION):
            finished[key] = [block for block in manifest.chunks.blocks(key) if store.has_status(block)]
        else:
            made_again.append(key)
    remade, lost = _remade(manifest, made_again, inputs)
    blocks = tuple(dict.fromkeys(block for found in finished.values() for block in found))
    removed = tuple(key for key, found in finished.items() if not found)
    if not dry_run:
        with storage_errors(path):
            for block in blocks:
                store.clear(block, "status")
            for key, found in finished.items():
                if found and variable_of(key).name != "status":
                    store.clear(found[0], variable_of(key).name)
            for key in removed:
                files.remove(path / key)
                sync_directory((path / key).parent)
            files.put_all(path, remade.items())
    return Repair(damaged, blocks, tuple(remade), removed, lost)


def _remade(manifest: Manifest, keys: list[str], inputs: Inputs) -> tuple[dict[str, bytes], dict[str, str]]:
    """Content of chunks of coordinates and inputs, and why some cannot be had."""
    files: dict[str, bytes] = {}
    lost: dict[str, str] = {}
    for plan in manifest.plans.values():
        own = [key for key in keys if key.startswith(f"{plan.name}/")]
        missing = [key for key in own if variable_of(key).role is Role.INPUT]
        data, reason = None, ""
        try:
            data = inputs(manifest, plan) if missing else None
        except InputError as error:
            reason = "; ".join(map(str, error.problems))
        _, made = render([plan] if own else [], manifest.metadata, {plan: data}.get)
        for key in stored_inputs(manifest, made.keys() - missing):
            if not manifest.chunks.has_values(key, made[key]):
                reason = f"{key.rpartition('/')[0]} has other values now than in the cube"
        lost |= dict.fromkeys(missing if reason else (), reason)
        files |= {key: made[key] for key in own if key not in lost}
    return files, lost
