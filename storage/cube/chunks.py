"""Chunk files as they were written: their checksums, what they hold, and states of cells read without zarr.

`is_intact` and `holds` tell whether a file is the one that was written in its place; `CubeStore` asks them of
every chunk that zarr reads. `status_chunks` reads the states of cells from their files alone: `sweep status`
is to answer at once, and to load zarr takes longer than all that it has to read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import product
from math import ceil, prod
from pathlib import Path

import google_crc32c
import numpy as np
from numcodecs import Zstd
from numpy.typing import NDArray

from storage.cube.manifest import ROOT_FILE, Manifest
from storage.cube.places import chunk_name
from storage.cube.schema import PENDING
from storage.errors import DamagedChunk, storage_errors
from storage.files import read_regular

CHECKSUM_BYTES = 4
ZSTD = Zstd()
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
SHORTEST_FRAME = 9
LONGEST_TEXTS = 2**20
"""Bytes of the texts of a coordinate: names of models, and fields of annotations."""

LONGEST_TEXT = 1024
"""Bytes of each text beyond: names of samples and of features, which may be many."""


def is_intact(content: bytes) -> bool:
    """Whether the content of a chunk file ends in the CRC-32C of what stands before it."""
    # The checksum of nothing is 0: a file of four zero bytes would pass for a chunk.
    if len(content) <= CHECKSUM_BYTES:
        return False
    checksum = google_crc32c.value(content[:-CHECKSUM_BYTES])
    return bool(checksum.to_bytes(CHECKSUM_BYTES, "little") == content[-CHECKSUM_BYTES:])


def holds(content: bytes, dtype: str, n_values: int) -> bool:
    """Whether an intact chunk file holds so many values of a type: it may be the file of another chunk.

    What zarr would make of it is an error that names nothing, or takes all memory there is.
    """
    packed = content[:-CHECKSUM_BYTES]
    size = unpacked_size(packed)
    expected = n_values * np.dtype(dtype).itemsize if dtype != "string" else None
    if (
        size is None or size > LONGEST_TEXTS + LONGEST_TEXT * n_values
        if expected is None
        else size != expected
    ):
        return False
    try:
        # A frame may say the right size and still be none, which zarr would not say of a file.
        values = bytes(ZSTD.decode(packed))
    except RuntimeError:
        return False
    return len(values) == size and (dtype != "string" or _are_texts(values, n_values))


def _are_texts(values: bytes, n_values: int) -> bool:
    """Whether bytes are so many texts as zarr writes them: their number, and before each its length."""
    if values[:4] != n_values.to_bytes(4, "little"):
        return False
    position = 4
    for _ in range(n_values):
        start = position + 4
        position = start + int.from_bytes(values[position:start], "little")
        try:
            values[start:position].decode()
        except UnicodeDecodeError:
            return False
    return position == len(values)


def unpacked_size(packed: bytes) -> int | None:
    """Bytes that a frame of zstd says it holds (RFC 8878, section 3.1.1.1); None if it does not say."""
    if packed[:4] != ZSTD_MAGIC or len(packed) < SHORTEST_FRAME:
        return None
    flags = packed[4]
    is_single = flags >> 5 & 1
    length = (is_single, 2, 4, 8)[flags >> 6]
    start = 5 + (1 - is_single) + (0, 1, 2, 4)[flags & 3]
    size = int.from_bytes(packed[start : start + length], "little")
    return None if not length else size + 256 if length == 2 else size


def status_chunks(manifest: Manifest, node: str) -> Iterator[tuple[tuple[slice, ...], NDArray[np.int8]]]:
    """States of all cells of a node, block by block.

    Parameters
    ----------
    manifest : Manifest
        Of a cube on this machine.
    node : str
        Path of a node.

    Yields
    ------
    (tuple of slice, array of int8)
        Where the cells are in the array `status`, and their states, pending where nothing is written yet.

    Raises
    ------
    DamagedChunk
        If a file has changed since it was written.
    InputError
        If something else than a file is in its place.
    StorageError
        If the file system refuses, or the cube has vanished.
    """
    metadata = manifest.metadata[f"{node}/status"]
    shape, lengths = metadata["shape"], metadata["chunk_grid"]["configuration"]["chunk_shape"]
    with storage_errors(manifest.path):
        os.stat(Path(manifest.path) / ROOT_FILE)  # without the cube, all of it would read as pending
    for position in product(*(range(ceil(length / n)) for length, n in zip(shape, lengths, strict=True))):
        starts = [place * n for place, n in zip(position, lengths, strict=True)]
        region = tuple(slice(a, min(a + n, end)) for a, n, end in zip(starts, lengths, shape, strict=True))
        found = _status_chunk(manifest, f"{node}/status/{chunk_name(position)}", tuple(lengths))
        yield region, found[tuple(slice(0, part.stop - part.start) for part in region)]


def _status_chunk(manifest: Manifest, key: str, lengths: tuple[int, ...]) -> NDArray[np.int8]:
    path = Path(manifest.path) / key
    with storage_errors(path):
        try:
            content = read_regular(path)
        except (FileNotFoundError, NotADirectoryError):
            return np.full(lengths, PENDING, dtype=np.int8)
    intact = is_intact(content)
    if not intact or not holds(content, "int8", prod(lengths)):
        found = "is the file of another chunk" if intact else "has changed since it was written"
        raise DamagedChunk(path, manifest.chunks.name(key), found, manifest.path)
    return np.frombuffer(ZSTD.decode(content[:-CHECKSUM_BYTES]), dtype=np.int8).reshape(lengths)
