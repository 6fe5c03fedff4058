"""Chunk files: their names, what they hold, whether they are as they were written; read and encoded here.

`ChunkFiles` says of a key which cells and blocks are in it, and reads files and blocks, each file checked.
zarr checks the same checksums, but cannot say of which file, and takes any chunk that is gone for one that
was never written. `encoded` gives the bytes that zarr would write. So `sweep status`, which is to answer at
once, does not load zarr, and a block costs one call for each of its files.
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

from sweep_clustering.storage.cube.schema import (
    FIELDS,
    VARIABLES,
    ArraySpec,
    Role,
    Variable,
    array_specs,
    result_names,
)
from sweep_clustering.storage.errors import DamagedChunk, storage_errors
from sweep_clustering.storage.files import read_regular
from sweep_clustering.storage.remote import Place
from sweep_clustering.storage.remote import read as read_remote
from sweep_clustering.sweeps.errors import given
from sweep_clustering.sweeps.plan import Block, DatasetPlan

ROOT_FILE = "zarr.json"
CHECKSUM_BYTES = 4
ZSTD, TEXTS = Zstd(), VLenUTF8()
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
SHORTEST_FRAME = 9
# Bytes of the texts of a coordinate: names of models, and fields of annotations.
LONGEST_TEXTS = 2**20

# Bytes of each text beyond: names of samples and of features, which may be many.
LONGEST_TEXT = 1024

# The one variable of which several cells of a block share a row, and a block has several chunks.
ANNOTATIONS = "annotations"

Values = NDArray[Any]


class ChunkFiles:
    """The chunk files of a cube, by their keys: paths below the cube.

    Parameters
    ----------
    place : Path or str
        The cube, or its address.
    plans : iterable of DatasetPlan
        Its grids.
    metadata : mapping
        zarr metadata of its arrays, by path: chunks of annotations are as long as at creation.
    """

    def __init__(
        self, place: Place, plans: Iterable[DatasetPlan], metadata: Mapping[str, Mapping[str, Any]]
    ) -> None:
        self._place = place
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
        node = next(node for node in plan.nodes if node.path == spec.node)
        # what is not among the dimensions of the array varies over its blocks
        ways = [
            [position[spec.dims.index(dim.name)]] if dim.name in spec.dims else range(len(dim.chunks()))
            for dim in node.stored
        ]
        for chunk in product(*ways):
            block = node.block_at(chunk)
            # of an m that is small nothing is stored in the chunks of annotations beyond the first
            if key in self.layout(block, spec.variable.name)[0]:
                yield block

    def layout(self, block: Block, name: str) -> tuple[list[str], tuple[int, ...], tuple[int, ...]]:
        """Where an array of a block is: its chunk files, and its lengths along leading and other dimensions.

        Of annotations these are several files, where they have become more than at creation.
        """
        path = f"{block.node.path}/{name}"
        region, rest = block.region, self._arrays[path][1].shape[len(block.region) :]
        ends = [(0,) * len(rest)]
        if name == ANNOTATIONS:
            region, rest = block.graph_region, (given(block.first.m), len(FIELDS))
            ends = [(part, 0) for part in range(ceil(rest[0] / self._lengths(path)[-2]))]
        keys = [f"{path}/{chunk_name((*block.chunk[: len(region)], *end))}" for end in ends]
        return keys, tuple(part.stop - part.start for part in region), rest

    def read(self, block: Block, name: str) -> Values:
        """An array of a block, its leading axis the cells, of annotations their graphs.

        What is not written yet reads as fill values.
        """
        keys, leading, rest = self.layout(block, name)
        lengths, variable = self._lengths(keys[0].rpartition("/")[0]), VARIABLES[name]
        fill = np.full(lengths, variable.fill, variable.dtype)
        parts = [fill if (found := self.load(key)) is None else found[1].reshape(lengths) for key in keys]
        whole = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-2)
        return whole[tuple(map(slice, leading + rest))].reshape(-1, *rest).copy()

    def contents(self, block: Block, name: str, values: Values) -> dict[str, bytes]:
        """Whole chunk files of an array of a block, by key; `values` as `read` gives them."""
        keys, leading, rest = self.layout(block, name)
        lengths, whole = self._lengths(keys[0].rpartition("/")[0]), values.reshape(leading + rest)
        starts = [number * lengths[-2] for number in range(1, len(keys))]
        parts = np.split(whole, starts, axis=-2) if starts else [whole]
        return {key: encoded(part, lengths, VARIABLES[name]) for key, part in zip(keys, parts, strict=True)}

    def is_expected(self, key: str) -> bool:
        """Whether the chunk file must be there.

        A block writes its results before its status: where there is a status, all results are.
        """
        found = self._found(key)
        if found is None:
            return False
        plan, spec, _ = found
        name = spec.variable.name
        if spec.variable.role in (Role.COORDINATE, Role.INPUT):
            return True
        # not all models have all results; where there is something, even damaged, the block was written
        return name != "status" and any(
            self._content(status) is not None
            for block in self.blocks(key)
            if name == ANNOTATIONS or name in result_names(plan, block.models, block.values("search"))
            for status in self.layout(block, "status")[0]
        )

    def load(self, key: str) -> tuple[bytes, Values] | None:
        """Content of a chunk file and its values, flat; None where there is none, and need not be.

        Raises
        ------
        DamagedChunk
            If it has changed since it was written, or must be there and is not.
        InputError
            If something else than a file is in its place.
        StorageError
            If the file system refuses, or the cube has vanished.
        """
        if (found := self._found(key)) is None:
            return None
        where = self._place / key if isinstance(self._place, Path) else f"{self._place}/{key}"
        dtype, n_values = found[1].variable.dtype, prod(self._lengths(found[1].path))
        with storage_errors(where):
            content = self._content(key)
            if content is None and self.is_expected(key):
                # It may have been written since, and then the status that says so.
                content = self._content(key)
                if content is None:
                    raise DamagedChunk(where, self.name(key), "is missing", self._place)
        try:
            return None if content is None else (content, decoded(content, dtype, n_values))
        except ValueError as error:
            raise DamagedChunk(where, self.name(key), str(error), self._place) from None

    def has_values(self, key: str, content: bytes) -> bool:
        """Whether the values of a chunk file are those of another content."""
        loaded, dtype = self.load(key), given(self._found(key))[1].variable.dtype
        return loaded is not None and np.array_equal(loaded[1], decoded(content, dtype, len(loaded[1])))

    def _content(self, key: str) -> bytes | None:
        place, dtype = self._place, given(self._found(key))[1].variable.dtype
        with suppress(FileNotFoundError, NotADirectoryError):
            if isinstance(place, Path):
                return read_regular(place / key)
            # of another machine no more is taken than the values may take
            size = LONGEST_TEXT if dtype == "string" else np.dtype(dtype).itemsize
            n_values = prod(self._lengths(key.rpartition("/")[0]))
            return read_remote(f"{place}/{key}", LONGEST_TEXTS + 2 * size * n_values)
        if isinstance(place, Path):
            os.stat(place / ROOT_FILE)  # without the cube, all of it would read as pending
        return None

    def _lengths(self, path: str) -> Sequence[int]:
        return chunk_lengths(self._metadata[path])

    def _found(self, key: str) -> tuple[DatasetPlan, ArraySpec, tuple[int, ...]] | None:
        path, _, file = key.rpartition("/")
        position = chunk_position(file)
        if path not in self._arrays or position is None:
            return None
        return *self._arrays[path], position


def variable_of(key: str) -> Variable:
    """Variable of the array that a chunk is of."""
    return VARIABLES[key.split("/")[-2]]


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


def encoded(values: Values, lengths: Sequence[int], variable: Variable) -> bytes:
    """Content of a chunk file of so many values along each dimension, as zarr writes it.

    `values` are those that there are; beyond them, as beyond the end of an array, stand fill values.
    """
    is_text = variable.dtype == "string"
    chunk = np.full(lengths, variable.fill, "O" if is_text else np.dtype(variable.dtype).newbyteorder("<"))
    chunk[tuple(map(slice, values.shape))] = values
    packed = bytes(ZSTD.encode(TEXTS.encode(chunk) if is_text else chunk.tobytes()))
    return packed + checksum(packed)


def decoded(content: bytes, dtype: str, n_values: int) -> Values:
    """Values of a chunk file that should have so many of a type.

    Raises
    ------
    ValueError
        Saying what is wrong with it. What zarr would make of it is an error that names nothing, or takes all
        memory there is.
    """
    packed = content[: len(content) - CHECKSUM_BYTES]
    # The checksum of nothing is 0: a file of four zero bytes would pass for a chunk.
    if not packed or checksum(packed) != content[len(packed) :]:
        raise ValueError("has changed since it was written")
    size, is_text = unpacked_size(packed), dtype == "string"
    least = 4 + 4 * n_values if is_text else n_values * np.dtype(dtype).itemsize
    most = LONGEST_TEXTS + LONGEST_TEXT * n_values if is_text else least
    # A frame may say the right size and still be none, which zarr would not say of a file.
    with suppress(RuntimeError, ValueError):
        data = bytes(ZSTD.decode(packed)) if size is not None and least <= size <= most else b""
        if not is_text and len(data) == least:
            return np.frombuffer(data, np.dtype(dtype).newbyteorder("<"))
        # memory is taken for their number, which stands first; written again, nothing may be left over
        if is_text and data[:4] == n_values.to_bytes(4, "little"):
            texts: Values = TEXTS.decode(data)
            if bytes(TEXTS.encode(texts)) == data:
                return texts
    raise ValueError("is the file of another chunk")


def checksum(packed: bytes) -> bytes:
    """CRC-32C, in which each chunk file ends."""
    found: bytes = google_crc32c.value(packed).to_bytes(CHECKSUM_BYTES, "little")
    return found


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
