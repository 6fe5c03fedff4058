"""Chunk files: their names, their cells, and their content, read, checked and encoded here.

zarr checks the same checksums, but cannot name the file, and takes a missing chunk for one that was never
written. `encoded` returns the bytes that zarr would write. So `sweep status`, which has to answer at once,
does not load zarr, and a block costs one call for each of its files.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, product
from math import ceil, prod
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
from numcodecs import VLenUTF8, Zstd
from numpy.typing import NDArray

from sweep_clustering.storage.archive import is_zip, read_at
from sweep_clustering.storage.cube import schema
from sweep_clustering.storage.files import DamagedChunk, Place, storage_errors
from sweep_clustering.sweeps.errors import present
from sweep_clustering.sweeps.plan import Block, DatasetPlan

ROOT_FILE = "zarr.json"
CHECKSUM_BYTES = 4
ZSTD = Zstd()
TEXTS = VLenUTF8()
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
SHORTEST_FRAME = 9
# Largest texts of a coordinate in bytes: names of models, and fields of annotations.
LONGEST_TEXTS = 2**20

# Additional bytes for each text: names of samples and features may be many.
LONGEST_TEXT = 1024

# The one variable with rows that several cells of a block share, and with several chunks for a block.
ANNOTATIONS = "annotations"

Values = NDArray[Any]

# Metadata of zarr for every node below the root, by path.
Metadata = Mapping[str, Mapping[str, Any]]


class ChunkFiles:
    """The chunk files of a cube, by their keys, which are paths below the cube."""

    def __init__(self, place: Place, plans: Iterable[DatasetPlan], metadata: Metadata) -> None:
        self._place = place
        self._arrays = {spec.path: (plan, spec) for plan in plans for spec in schema.array_specs(plan)}
        self._metadata = metadata

    def name(self, key: str) -> str:
        """Describe a chunk by the path of its array, the number of its cells, the first and the last one."""
        path, _, file = key.rpartition("/")
        cells = list(chain.from_iterable(block.cells() for block in self.blocks(key)))
        if not cells:
            return f"{path}, chunk {file}"
        ends = f"{cells[0]} to {cells[-1]}" if len(cells) > 1 else str(cells[0])
        return f"{path} of {len(cells)} cell{'s' if len(cells) > 1 else ''}, {ends}"

    def blocks(self, key: str) -> Iterator[Block]:
        """Yield the blocks whose results a chunk holds: several share annotations; inputs belong to none."""
        place = self._array_of(key)
        if place is None or place[1].variable.role in (schema.Role.COORDINATE, schema.Role.INPUT):
            return
        plan, spec, position = place
        node = next(node for node in plan.nodes if node.path == spec.node)
        # dimensions that the array lacks vary over its blocks
        ways = [
            [position[spec.dims.index(dim.name)]] if dim.name in spec.dims else range(len(dim.chunks()))
            for dim in node.stored
        ]
        for chunk in product(*ways):
            block = node.block_at(chunk)
            # a small m has annotations in the first chunk alone
            if key in self.layout(block, spec.variable.name)[0]:
                yield block

    def layout(self, block: Block, name: str) -> tuple[list[str], tuple[int, ...], tuple[int, ...]]:
        """Return the chunk files of an array of a block, and its lengths along leading and other axes."""
        path = f"{block.node.path}/{name}"
        region, lengths = block.region, self._arrays[path][1].shape[len(block.region) :]
        ends = [(0,) * len(lengths)]
        if name == ANNOTATIONS:  # several files, if there are more annotations than at creation
            region, lengths = block.graph_region, (present(block.first.m), len(schema.FIELDS))
            ends = [(part, 0) for part in range(ceil(lengths[0] / self._lengths(path)[-2]))]
        keys = [f"{path}/{chunk_name((*block.chunk[: len(region)], *end))}" for end in ends]
        return keys, tuple(part.stop - part.start for part in region), lengths

    def read(self, block: Block, name: str) -> Values:
        """Return an array of a block, whose leading axis is the cells, or their annotation graphs.

        Values that are not written yet are fill values.
        """
        keys, outer_shape, inner_shape = self.layout(block, name)
        lengths, variable = self._lengths(keys[0].rpartition("/")[0]), schema.VARIABLES[name]
        fill = np.full(lengths, variable.fill, variable.dtype)
        parts = [fill if (chunk := self.load(key)) is None else chunk[1].reshape(lengths) for key in keys]
        array = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-2)
        return array[tuple(map(slice, outer_shape + inner_shape))].reshape(-1, *inner_shape).copy()

    def contents(self, block: Block, name: str, values: Values) -> dict[str, bytes]:
        """Return the chunk files of an array of a block, by key; `values` are in the layout of `read`."""
        keys, outer_shape, inner_shape = self.layout(block, name)
        lengths, array = self._lengths(keys[0].rpartition("/")[0]), values.reshape(outer_shape + inner_shape)
        starts = [number * lengths[-2] for number in range(1, len(keys))]
        parts = np.split(array, starts, axis=-2) if starts else [array]
        return {
            key: encoded(part, lengths, schema.VARIABLES[name]) for key, part in zip(keys, parts, strict=True)
        }

    def keys(self) -> Iterator[str]:
        """Yield the keys of all chunks of the arrays, whether they are written or not."""
        for path in self._arrays:
            for position in np.ndindex(*chunk_counts(self._metadata[path])):
                yield f"{path}/{chunk_name(position)}"

    def is_expected(self, key: str) -> bool:
        """Whether the chunk file must exist.

        A block writes its results before its status: if there is a status, all results exist.
        """
        place = self._array_of(key)
        if place is None:
            return False
        plan, spec, _ = place
        name = spec.variable.name
        if spec.variable.role in (schema.Role.COORDINATE, schema.Role.INPUT):
            return True
        # Not all models have all results. A status, even a damaged one, says that the block was written.
        return name != "status" and any(
            self._content(status) is not None
            for block in self.blocks(key)
            if name == ANNOTATIONS or name in schema.result_names(plan, block.models, block.values("search"))
            for status in self.layout(block, "status")[0]
        )

    def load(self, key: str) -> tuple[bytes, Values] | None:
        """Return the content of a chunk file and its flat values, None if it need not exist and does not.

        Raises
        ------
        DamagedChunk
            If it has changed since it was written, or is missing.
        InputError
            If something else than a file is in its place.
        StorageError
            If the file system refuses, or the cube has vanished.
        """
        if (place := self._array_of(key)) is None:
            return None
        location = self._place / key if isinstance(self._place, Path) else f"{self._place}/{key}"
        dtype, n_values = place[1].variable.dtype, prod(self._lengths(place[1].path))
        with storage_errors(location):
            content = self._content(key)
            if content is None and self.is_expected(key):
                # It, and the status, may have been written since.
                content = self._content(key)
                if content is None:
                    raise DamagedChunk(location, self.name(key), "is missing", self._place)
        try:
            return None if content is None else (content, decoded(content, dtype, n_values))
        except ValueError as error:
            raise DamagedChunk(location, self.name(key), str(error), self._place) from None

    def has_values(self, key: str, content: bytes) -> bool:
        """Whether the values of a chunk file are those of another content."""
        chunk, dtype = self.load(key), present(self._array_of(key))[1].variable.dtype
        return chunk is not None and np.array_equal(chunk[1], decoded(content, dtype, len(chunk[1])))

    def _content(self, key: str) -> bytes | None:
        place, limit = self._place, None
        if isinstance(place, str):
            # from another machine no more bytes are taken than the values may need
            dtype = present(self._array_of(key))[1].variable.dtype
            size = LONGEST_TEXT if dtype == "string" else np.dtype(dtype).itemsize
            limit = LONGEST_TEXTS + 2 * size * prod(self._lengths(key.rpartition("/")[0]))
        with suppress(FileNotFoundError, NotADirectoryError):
            return read_at(place, key, limit)
        if isinstance(place, Path) and not is_zip(place):
            os.stat(place / ROOT_FILE)  # otherwise all cells of a cube that vanished would be pending
        return None

    def _lengths(self, path: str) -> Sequence[int]:
        return chunk_lengths(self._metadata[path])

    def _array_of(self, key: str) -> tuple[DatasetPlan, schema.ArraySpec, tuple[int, ...]] | None:
        path, _, file = key.rpartition("/")
        position = chunk_position(file)
        if path not in self._arrays or position is None:
            return None
        return *self._arrays[path], position


def variable_of(key: str) -> schema.Variable:
    """Return the variable to whose array a chunk belongs."""
    return schema.VARIABLES[key.split("/")[-2]]


def chunk_position(name: str) -> tuple[int, ...] | None:
    """Return the chunk position of a file name within an array, None for any other file."""
    first, *parts = name.split(".")
    return tuple(map(int, parts)) if first == "c" and all(part.isdecimal() for part in parts) else None


def chunk_name(position: tuple[int, ...]) -> str:
    return ".".join(["c", *map(str, position)])


def chunk_lengths(entry: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the length of a chunk along each dimension, from the metadata of an array."""
    return tuple(entry["chunk_grid"]["configuration"]["chunk_shape"])


def chunk_counts(entry: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the number of chunks along each dimension, from the metadata of an array."""
    lengths = zip(entry["shape"], chunk_lengths(entry), strict=True)
    return tuple(ceil(length / chunk) for length, chunk in lengths)


def encoded(values: Values, lengths: Sequence[int], variable: schema.Variable) -> bytes:
    """Return the content of a chunk file as zarr writes it, with fill values beyond the values."""
    is_text = variable.dtype == "string"
    chunk = np.full(lengths, variable.fill, "O" if is_text else np.dtype(variable.dtype).newbyteorder("<"))
    chunk[tuple(map(slice, values.shape))] = values
    compressed = bytes(ZSTD.encode(TEXTS.encode(chunk) if is_text else chunk.tobytes()))
    return compressed + checksum(compressed)


def decoded(content: bytes, dtype: str, n_values: int) -> Values:
    """Return the values of a chunk file; raise ValueError with the fault of the file.

    From a faulty file zarr makes an error that names nothing, or it takes all memory.
    """
    compressed = content[: len(content) - CHECKSUM_BYTES]
    # The checksum of nothing is 0: a file of four zero bytes would pass for a chunk.
    if not compressed or checksum(compressed) != content[len(compressed) :]:
        raise ValueError("has changed since it was written")
    size, is_text = unpacked_size(compressed), dtype == "string"
    min_size = 4 + 4 * n_values if is_text else n_values * np.dtype(dtype).itemsize
    max_size = LONGEST_TEXTS + LONGEST_TEXT * n_values if is_text else min_size
    # A frame may declare the right size and still be none.
    with suppress(RuntimeError, ValueError):
        data = bytes(ZSTD.decode(compressed)) if size is not None and min_size <= size <= max_size else b""
        if not is_text and len(data) == min_size:
            return np.frombuffer(data, np.dtype(dtype).newbyteorder("<"))
        # Memory is taken for the number of texts, which stands first. Encoded again they must give all bytes.
        if is_text and data[:4] == n_values.to_bytes(4, "little"):
            texts: Values = TEXTS.decode(data)
            if bytes(TEXTS.encode(texts)) == data:
                return texts
    raise ValueError("is the file of another chunk")


def checksum(compressed: bytes) -> bytes:
    """Return the CRC-32C in which a chunk file ends."""
    return int(google_crc32c.value(compressed)).to_bytes(CHECKSUM_BYTES, "little")


def unpacked_size(compressed: bytes) -> int | None:
    """Return the unpacked bytes that a zstd frame declares, or None (RFC 8878, section 3.1.1.1)."""
    if compressed[:4] != ZSTD_MAGIC or len(compressed) < SHORTEST_FRAME:
        return None
    flags = compressed[4]
    is_single = flags >> 5 & 1
    length = (is_single, 2, 4, 8)[flags >> 6]
    start = 5 + (1 - is_single) + (0, 1, 2, 4)[flags & 3]
    size = int.from_bytes(compressed[start : start + length], "little")
    return None if not length else size + 256 if length == 2 else size
