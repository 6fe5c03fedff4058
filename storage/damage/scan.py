"""Every chunk file of a cube, read and compared with its checksum."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from storage.cube.manifest import Manifest, read_manifest
from storage.cube.places import chunk_name
from storage.cube.store import CubeStore
from storage.cube.template import chunk_counts
from storage.errors import DamagedChunk, storage_errors

Progress = Callable[[list[str]], Iterable[str]]
"""Passes keys on, and may show how far it is."""


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
    """

    files: int
    size: int
    damaged: tuple[Damage, ...]


def scan(path: Path, progress: Progress = iter) -> Scan:
    """Read every chunk file of a cube; a sweep may be writing to it.

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
    manifest = read_manifest(path)
    store = CubeStore(path, chunks=manifest.chunks, document=manifest.document, read_only=True)
    files, size, damaged = 0, 0, []
    with storage_errors(path):
        for key in progress(list(_keys(manifest))):
            try:
                content = store.get_sync(key)
            except DamagedChunk as damage:
                damaged.append(Damage(key, damage.holds, damage.reason))
                continue
            if content is not None:
                files += 1
                size += len(content)
    return Scan(files, size, tuple(damaged))


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
