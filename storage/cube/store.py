"""The store that zarr reads and writes a cube through, and `open_cube`, the cube as a tree of xarray.

A `CubeStore` reads, on this machine or at an address, checks each chunk file, and writes durably.
"""

from __future__ import annotations

import asyncio
import errno
import os
import uuid
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import zarr
from zarr.abc.store import Store
from zarr.core.buffer import default_buffer_prototype
from zarr.storage import LocalStore

from storage.cube.chunks import LONGEST_TEXT, LONGEST_TEXTS, ROOT_FILE, ChunkFiles, fault
from storage.cube.manifest import Manifest, read_manifest
from storage.cube.schema import DONE, NO_SOLUTION, VARIABLES, Role
from storage.errors import DamagedChunk, storage_errors
from storage.files import PLAIN, Files, read_regular
from storage.remote import Place, place_of
from storage.remote import read as read_remote

if TYPE_CHECKING:
    import xarray as xr
    from zarr.abc.store import ByteRequest
    from zarr.core.buffer import Buffer, BufferPrototype
    from zarr.core.common import AccessModeLiteral


class CubeStore(LocalStore):
    """A zarr store of regular files as they were written: no link leads out of the cube, no pipe blocks.

    zarr checks the same checksums when it decodes, but cannot say of which file, and takes any chunk that is
    gone for one that was never written. Nor does its own store make durable what it writes: after a loss of
    power a name may point to an empty file, even where a good one was before. A chunk that holds failed cells
    beside done ones is rewritten on a retry.

    Parameters
    ----------
    root : Path or str
        The cube, or its address.
    chunks : ChunkFiles
        What its files hold.
    document : bytes, optional
        Content of the root file that `chunks` stem from: a growth since then, which replaces that file, is
        not seen. Without it the file is read.
    files : Files, optional
        Of the holder of the lease; without it nothing may be written.
    """

    def __init__(
        self, root: Place, *, chunks: ChunkFiles, document: bytes | None = None, files: Files | None = None
    ) -> None:
        super().__init__(root, read_only=files is None)
        self._place = root
        self._chunks = chunks
        self._document = document
        self._files = files or PLAIN  # which nobody may use where it is read only

    async def get(
        self, key: str, prototype: BufferPrototype | None = None, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Content of a file, None where there is none.

        Raises
        ------
        DamagedChunk
            If it is a chunk that has changed since it was written, or one that must be there and is not.
        """
        if not self._is_open:
            await self._open()
        return await asyncio.to_thread(self.get_sync, key, prototype=prototype, byte_range=byte_range)

    def get_sync(
        self,
        key: str,
        *,
        prototype: BufferPrototype | None = None,
        byte_range: ByteRequest | None = None,
    ) -> Buffer | None:
        """Content of a file as `get` has it, without the event loop."""
        if byte_range is not None:
            raise ValueError("files of a cube are read whole: the checksum is of all of it")
        content = self._document if key == ROOT_FILE and self._document else self._read(key)
        if content is None and self._chunks.is_expected(key, self._is_there):
            # It may have been written since, and then the status that says so.
            content = self._read(key)
            if content is None:
                raise self._damaged(key, "is missing")
        if content is None:
            return None
        shape = self._chunks.shape(key)
        if shape is not None and (found := fault(content, *shape)):
            raise self._damaged(key, found)
        return (prototype or default_buffer_prototype()).buffer.from_bytes(content)

    async def set(self, key: str, value: Buffer) -> None:
        """Write one chunk; directories are never made, so that a vanished cube is noticed."""
        self.set_sync(key, value)

    def set_sync(self, key: str, value: Buffer) -> None:
        """Write one chunk, without the event loop."""
        self._check_writable()
        self._files.put(self.root / key, value.to_bytes())

    async def _open(self, *, mode: AccessModeLiteral | None = None) -> None:
        # no folder is made, and one that has vanished is noticed
        if isinstance(self._place, Path) and not self._place.is_dir():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self._place))
        await Store._open(self)

    def _damaged(self, key: str, found: str) -> DamagedChunk:
        where = self._place / key if isinstance(self._place, Path) else f"{self._place}/{key}"
        return DamagedChunk(where, self._chunks.name(key), found, self._place)

    def _is_there(self, key: str) -> bool:
        if isinstance(self._place, Path):
            return os.path.lexists(self._place / key)
        return self._read(key) is not None

    def _read(self, key: str) -> bytes | None:
        try:
            if isinstance(self._place, Path):
                return read_regular(self._place / key)
            # of another machine no more is taken than the values may take
            dtype, n_values = self._chunks.shape(key) or ("int8", 0)
            size = LONGEST_TEXT if dtype == "string" else np.dtype(dtype).itemsize
            return read_remote(f"{self._place}/{key}", LONGEST_TEXTS + 2 * size * n_values)
        except (FileNotFoundError, NotADirectoryError):
            return None


def open_arrays(manifest: Manifest, files: Files | None = None) -> Callable[[str], zarr.Array[Any]]:
    """From the path of an array of a cube to the array, as of `manifest`; `files` as of `CubeStore`."""
    store = CubeStore(manifest.path, chunks=manifest.chunks, document=manifest.document, files=files)
    with storage_errors(manifest.path):
        root = zarr.open_group(store, mode="r" if files is None else "r+", use_consolidated=True)

    @cache
    def array(path: str) -> zarr.Array[Any]:
        # Chunks of fill values are written too: one that is missing has been lost.
        with zarr.config.set({"array.write_empty_chunks": True}):
            return cast("zarr.Array[Any]", root[path])

    return array


# The cube as an xarray tree: lazy, sorted, and free of anything that is not done.

OF_ANSWERS = ("restarts_done", "seconds", "cpu_seconds")
"""What a cell without a solution has, too."""


def open_cube(path: str | Path) -> xr.DataTree:
    """Open a cube for reading, at any moment, also while it is written and grown.

    The status of all cells is read first and everything else is masked by it: what is not done reads NaN, or
    -1 for whole numbers, or 0 restarts. Files are whole or absent, and done cells never change, so what the
    tree shows later is still the state of this moment. Nothing else is read before it is used.

    Parameters
    ----------
    path : str or Path
        The cube, `<name>.zarr`; or its address (http, https, s3), which is read and never written.

    Returns
    -------
    xarray.DataTree
        One node per data set, with a child for each baseline, such as `unsupervised`. `p` and `m` rise.

    Raises
    ------
    InputError
        If this is not a cube, or one of another format version.
    StorageError
        If the file system refuses. `DamagedChunk`, which is one, if a file has changed since it was written,
        or is gone: from here for status and coordinates, for anything else when it is computed.

    Examples
    --------
    >>> from pipeline import open_cube
    >>> tree = open_cube("results/quick.zarr")
    >>> tree["iris"]["log_likelihood"].dims
    ('p', 'm', 'replicate', 'model', 'restart')
    """
    import xarray as xr  # here, so that a run, which only writes, does not load it and pandas

    path = place_of(path)
    manifest = read_manifest(path)
    with storage_errors(path):
        store = CubeStore(path, chunks=manifest.chunks, document=manifest.document)
        # of format 3: else files of format 2 would be looked for as well
        tree = xr.open_datatree(
            store,  # type: ignore[arg-type]
            engine="zarr",
            chunks=None,
            consolidated=True,
            zarr_format=3,
        )
        nodes = {node.path: _masked(node.to_dataset(inherit=False)) for node in tree.subtree}
    return xr.DataTree.from_dict(nodes)


def _masked(node: xr.Dataset) -> xr.Dataset:
    falling = [
        dim for dim in ("p", "m") if dim in node.dims and not node.indexes[dim].is_monotonic_increasing
    ]
    node = node.sortby(falling)
    for name in node.coords:
        node[name].load()
    status = node["status"].variable.load() if "status" in node else None
    lazy = {}
    for name, array in node.drop_vars("status", errors="ignore").data_vars.items():
        # The name xarray gives comes from path and modification time of the root, which writing a block does
        # not change: a scheduler that still holds the old chunks would hand them out again.
        unique, chunks = f"{name}-{uuid.uuid4().hex}", array.encoding["preferred_chunks"]
        lazy[name] = _mask(str(name), array.variable.chunk(chunks, name=unique), status)
    return node.assign(lazy)


def _mask(name: str, variable: xr.Variable, status: xr.Variable | None) -> xr.Variable:
    declared = VARIABLES[name]
    if status is None or declared.role is Role.INPUT:
        return variable
    of_answers = name in OF_ANSWERS or declared.role is Role.ANNOTATION
    cells = (status == DONE) | (of_answers & (status == NO_SOLUTION))
    if bool(cells.all()):
        return variable
    if declared.role is Role.ANNOTATION:
        cells = cells.any([dim for dim in cells.dims if dim not in variable.dims])
    fill = np.asarray(declared.fill, dtype=declared.dtype)
    masked: xr.Variable = variable.where(cells, fill)  # type: ignore[no-untyped-call]
    return masked
