"""Every chunk file of a cube, read and compared with its checksum."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from storage.cube.manifest import ROOT_FILE, Manifest, read_manifest
from storage.cube.places import chunk_name
from storage.cube.store import CubeStore
from storage.cube.template import chunk_counts
from storage.errors import DamagedChunk, storage_errors
from storage.files import digest_of, read_regular
from storage.runfolder.failures import merged_lines
from storage.runfolder.folder import RunFolder

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
    chunks = manifest.chunks
    for path, entry in manifest.metadata.items():
        if entry["node_type"] != "array":
            continue
        there = {f"{path}/{name}" for name in os.listdir(manifest.path / path)}
        for position in product(*(range(count) for count in chunk_counts(entry))):
            key = f"{path}/{chunk_name(position)}"
            if key in there or chunks.is_expected(key, lambda other: os.path.lexists(manifest.path / other)):
                yield key
