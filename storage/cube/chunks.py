"""Chunk files: their names, what they hold, whether they are as they were written; states without zarr.

`ChunkFiles` says of a key which cells and blocks are in it. `fault` tells whether a file is the one that was
written in its place; `CubeStore` asks it of every chunk that zarr reads. `status_chunks` reads the states of
cells from their files alone: `sweep status` is to answer at once, and to load zarr takes longer than all that
it has to read.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, product
from math import ceil, prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import google_crc32c
import numpy as np
from numcodecs import VLenUTF8, Zstd
from numpy.typing import NDArray

from storage.cube.schema import PENDING, ArraySpec, Role, array_specs, result_names
from storage.errors import DamagedChunk, storage_errors
from storage.files import read_regular
from sweeps.errors import given
from sweeps.plan import Block, DatasetPlan

if TYPE_CHECKING:
    from storage.cube.manifest import Manifest

ROOT_FILE = "zarr.json"
CHECKSUM_BYTES = 4
ZSTD, TEXTS = Zstd(), VLenUTF8()
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
SHORTEST_FRAME = 9
LONGEST_TEXTS = 2**20
"""Bytes of the texts of a coordinate: names of models, and fields of annotations."""

LONGEST_TEXT = 1024
"""Bytes of each text beyond: names of samples and of features, which may be many."""


class ChunkFiles:
    """What the chunk files of a cube hold, by their keys.

    Parameters
    ----------
    plans : iterable of DatasetPlan
        Grids of the cube.
    metadata : mapping
        zarr metadata of its arrays, by path: chunks of annotations are as long as at creation.
    """

    def __init__(self, plans: Iterable[DatasetPlan], metadata: Mapping[str, Mapping[str, Any]]) -> None:
        self._arrays = {spec.path: (plan, spec) for plan in plans for spec in array_specs(plan)}
        self._metadata = metadata

    def name(self, key: str) -> str:
        """Path of the array, then how many cells the chunk is of, and the first and the last of them."""
        path, _, file = key.rpartition("/")
        cells = list(chain.from_iterable(block.cells() for block in self.blocks(key)))
        if not cells:
            return f"{path}, chunk {file}"
        ends = f"{cells[0]} to {cells[-1]}" if len(cells) > 1 else str(cells[0])
        return f"{path} of {len(cells)} cell{'s' if len(cells) > 1 else ''}, {ends}"

    def blocks(self, key: str) -> Iterator[Block]:
        """Blocks whose results the chunk holds: several share annotations; inputs are of none."""
        found = self._found(key)
        if found is None or found[1].variable.role in (Role.COORDINATE, Role.INPUT):
            return
        plan, spec, position = found
        path, is_result = spec.path, spec.variable.role is Role.RESULT
        node = next(node for node in plan.nodes if node.path == spec.node)
        # what is not among the dimensions of the array varies over its blocks
        ways = [
            [position[spec.dims.index(dim.name)]] if dim.name in spec.dims else range(len(dim.chunks()))
            for dim in node.stored
        ]
        for chunk in product(*ways):
            block = node.block_at(chunk)
            # of an m that is small nothing is stored in the chunks of annotations beyond the first
            if is_result or position[-2] * chunk_lengths(self._metadata[path])[-2] < given(block.first.m):
                yield block

    def is_expected(self, key: str, there: Callable[[str], bool]) -> bool:
        """Whether the chunk file must be there.

        Parameters
        ----------
        key : str
            Path of a file below the cube.
        there : callable
            From the key of another file to whether that is there. A block writes its results before its
            status: where there is a status, all results are.
        """
        found = self._found(key)
        if found is None:
            return False
        plan, spec, _ = found
        name = spec.variable.name
        if spec.variable.role in (Role.COORDINATE, Role.INPUT):
            return True
        # not all models have all results
        return name != "status" and any(
            there(f"{spec.node}/status/{chunk_name(block.chunk)}")
            for block in self.blocks(key)
            if name == "annotations" or name in result_names(plan, block.models)
        )

    def shape(self, key: str) -> tuple[str, int] | None:
        """Type and number of the values that the chunk holds; None of a file that is no chunk of the cube."""
        found = self._found(key)
        if found is None:
            return None
        return found[1].variable.dtype, prod(chunk_lengths(self._metadata[found[1].path]))

    def _found(self, key: str) -> tuple[DatasetPlan, ArraySpec, tuple[int, ...]] | None:
        path, _, file = key.rpartition("/")
        position = chunk_position(file)
        if path not in self._arrays or position is None:
            return None
        return *self._arrays[path], position


def chunk_position(name: str) -> tuple[int, ...] | None:
    """Chunk position of a file name within an array, or None for any other file."""
    first, *parts = name.split(".")
    return tuple(map(int, parts)) if first == "c" and all(part.isdecimal() for part in parts) else None


def chunk_name(position: tuple[int, ...]) -> str:
    """File name of a chunk within its array."""
    return ".".join(["c", *map(str, position)])


def chunk_lengths(entry: Mapping[str, Any]) -> Sequence[int]:
    """Length of a chunk along each dimension, from the metadata of an array."""
    lengths: Sequence[int] = entry["chunk_grid"]["configuration"]["chunk_shape"]
    return lengths


def chunk_counts(entry: Mapping[str, Any]) -> tuple[int, ...]:
    """Number of chunks along each dimension, from the metadata of an array."""
    lengths = zip(entry["shape"], chunk_lengths(entry), strict=True)
    return tuple(ceil(length / chunk) for length, chunk in lengths)


def fault(content: bytes, dtype: str, n_values: int) -> str:
    """What is wrong, if anything, with a chunk file that should have so many values of a type."""
    if not is_intact(content):
        return "has changed since it was written"
    return "" if holds(content, dtype, n_values) else "is the file of another chunk"


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
    if dtype == "string":
        possible = size is not None and size <= LONGEST_TEXTS + LONGEST_TEXT * n_values
    else:
        possible = size == n_values * np.dtype(dtype).itemsize
    try:
        # A frame may say the right size and still be none, which zarr would not say of a file.
        values = bytes(ZSTD.decode(packed)) if possible else b""
        if dtype != "string":
            return possible and len(values) == size
        # memory is taken for their number, which stands first; written again, nothing may be left over
        counted = values[:4] == n_values.to_bytes(4, "little") and len(values) >= 4 + 4 * n_values
        return possible and counted and bytes(TEXTS.encode(TEXTS.decode(values))) == values
    except (RuntimeError, ValueError):
        return False


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
    cube, path = Path(manifest.path), f"{node}/status"
    entry = manifest.metadata[path]
    lengths = tuple(chunk_lengths(entry))
    with storage_errors(cube):
        os.stat(cube / ROOT_FILE)  # without the cube, all of it would read as pending
    for position in np.ndindex(*chunk_counts(entry)):
        key, states = f"{path}/{chunk_name(position)}", np.full(lengths, PENDING, dtype=np.int8)
        with storage_errors(cube / key), suppress(FileNotFoundError, NotADirectoryError):
            content = read_regular(cube / key)
            if found := fault(content, "int8", states.size):
                raise DamagedChunk(cube / key, manifest.chunks.name(key), found, cube)
            states = np.frombuffer(ZSTD.decode(content[:-CHECKSUM_BYTES]), np.int8).reshape(lengths)
        starts = [place * n for place, n in zip(position, lengths, strict=True)]
        ends = (min(a + n, end) for a, n, end in zip(starts, lengths, entry["shape"], strict=True))
        region = tuple(map(slice, starts, ends))
        yield region, states[tuple(slice(0, part.stop - part.start) for part in region)]
