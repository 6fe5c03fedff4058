"""The cube as a tree of xarray, `open_cube`, and the store that zarr reads it through."""

from __future__ import annotations

import asyncio
import uuid
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from zarr.abc.store import Store
from zarr.buffer import default_buffer_prototype
from zarr.storage import LocalStore

from storage.cube.chunks import ROOT_FILE
from storage.cube.manifest import Manifest
from storage.cube.parts import Parts, attributes_of, read_parts
from storage.cube.schema import DONE, NO_SOLUTION, VARIABLES, Role, groups
from storage.errors import storage_errors

if TYPE_CHECKING:
    import xarray as xr
    from zarr.abc.buffer import Buffer, BufferPrototype
    from zarr.abc.store import ByteRequest


class CubeStore(LocalStore):
    """A zarr store of the files of a cube as they were written, read only: no link leads out, no pipe blocks.

    The root file is that of `manifest`: a growth since then, which replaces that file, is not seen.

    Parameters
    ----------
    manifest : Manifest
        Of the cube, here or at an address.
    """

    def __init__(self, manifest: Manifest) -> None:
        super().__init__(manifest.path, read_only=True)
        self._document, self._chunks = manifest.document, manifest.chunks

    async def get(
        self, key: str, prototype: BufferPrototype | None = None, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Content of a file, None where there is none.

        Raises
        ------
        DamagedChunk
            If it is a chunk that has changed since it was written, or one that must be there and is not.
        """
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
        loaded = (self._document, None) if key == ROOT_FILE else self._chunks.load(key)
        buffer = (prototype or default_buffer_prototype()).buffer
        return None if loaded is None else buffer.from_bytes(loaded[0])

    async def _open(self, **options: Any) -> None:
        # an address is no folder that could be looked for
        await Store._open(self)


# The cube as an xarray tree: lazy, sorted, and free of anything that is not done.

# What a cell without a solution has, too.
OF_ANSWERS = ("restarts_done", "seconds", "cpu_seconds")


def open_cube(path: str | Path | Sequence[str | Path]) -> xr.DataTree:
    """Open a cube for reading, or several that are parts of one sweep, also while they are written and grown.

    The status of all cells is read first and everything else is masked by it: what is not done reads NaN, or
    -1 for whole numbers, or 0 restarts. Files are whole or absent, and done cells never change, so what the
    tree shows later is still the state of this moment. Nothing else is read before it is used.

    Parameters
    ----------
    path : str or Path
        The cube, `<name>.zarr`; or its address (http, https, s3), which is read and never written. A sequence
        of cubes is opened as one: of parts that are missing a warning says which.

    Returns
    -------
    xarray.DataTree
        One node per data set, with a child for each baseline, such as `unsupervised`. `p` and `m` rise.

    Raises
    ------
    InputError
        If this is not a cube, or one of another format version; of several, if they are not parts of one
        sweep, or have cells in common.
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
    parts = read_parts(path)
    if parts.missing:
        warnings.warn(parts.missing, stacklevel=2)
    return open_parts(parts)


def open_parts(parts: Parts) -> xr.DataTree:
    """Open cubes whose roots were read, as one; as `open_cube`."""
    import xarray as xr  # here, so that a run, which only writes, does not load it and pandas

    found: dict[str, list[xr.Dataset]] = {}
    mixtures: dict[str, list[int]] = {}
    for cube in parts.cubes:
        for path, node in _nodes(cube).items():
            found.setdefault(path, []).append(node)
        for plan in cube.plans.values():
            for path in groups(plan):
                mixtures.setdefault(f"/{path}", []).extend(plan.dims[0].values)
    nodes = {path: _joined(datasets, mixtures.get(path, [])) for path, datasets in found.items()}
    if len(parts.cubes) > 1:
        nodes["/"] = nodes["/"].assign_attrs(attributes_of(parts.manifest))
    return xr.DataTree.from_dict(nodes)


def _joined(datasets: list[xr.Dataset], mixtures: list[int]) -> xr.Dataset:
    """Return a node of several cubes, which have other mixtures each or a group without values."""
    if len(datasets) == 1 or "mixture" not in datasets[0].dims:
        return datasets[0]
    import xarray as xr

    # `left`: cubes may have grown in another order
    joined = xr.concat(
        datasets,
        "mixture",
        data_vars="minimal",
        coords="minimal",
        compat="override",
        join="left",
        combine_attrs="override",
    )
    # mixtures are dealt to the parts in turn
    order = sorted(range(len(mixtures)), key=mixtures.__getitem__)
    return joined if order == list(range(len(order))) else joined.isel(mixture=order)


def _nodes(manifest: Manifest) -> dict[str, xr.Dataset]:
    """Nodes of a cube by path."""
    import xarray as xr

    with storage_errors(manifest.path):
        # of format 3: else files of format 2 would be looked for as well
        tree = xr.open_datatree(
            CubeStore(manifest),  # type: ignore[arg-type]
            engine="zarr",
            chunks=None,
            consolidated=True,
            zarr_format=3,
        )
        return {node.path: _masked(node.to_dataset(inherit=False)) for node in tree.subtree}


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
