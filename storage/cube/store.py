"""The cube as a tree of xarray, `open_cube`, and the store through which zarr reads it."""

from __future__ import annotations

import asyncio
import json
import uuid
import warnings
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import zarr
from numpy.typing import NDArray
from zarr.abc.store import Store

from sweep_clustering.storage.cube import schema
from sweep_clustering.storage.cube.chunks import ROOT_FILE, chunk_counts, chunk_lengths, chunk_name
from sweep_clustering.storage.cube.manifest import Manifest, Parts, attributes_of, read_parts
from sweep_clustering.storage.files import storage_errors
from sweep_clustering.sweeps.plan import DatasetPlan

if TYPE_CHECKING:
    import xarray as xr
    from zarr.abc.buffer import Buffer, BufferPrototype
    from zarr.abc.store import ByteRequest

# Attribute of a group with the names of coordinates that are no dimensions.
COORDINATES = "coordinates"

# Message of every attempt to change a cube through zarr.
READ_ONLY = "a cube is read-only: its run alone writes it"

# Bytes of the cache of files from an address; the status of cells is cached beyond that.
CACHE_BYTES = 2**26

TEXT = np.dtypes.StringDType()

Part = tuple[slice, ...]


class CubeStore(Store):
    """A read-only zarr store of the files of a cube, in which no link leads out and no pipe blocks.

    All metadata are those of `manifest`: a later growth, which replaces the root file, is not visible. Files
    from an address are cached, as long as there is room, so that nothing is requested twice. Those of the
    status of cells are always cached, so that all arrays of a data set show the same moment.
    """

    supports_writes = False
    supports_deletes = False
    supports_listing = False

    def __init__(self, manifest: Manifest) -> None:
        super().__init__(read_only=True)
        self._document, self._chunks, self._metadata = manifest.document, manifest.chunks, manifest.metadata
        self._cache: dict[str, bytes | None] = {}
        self._is_remote, self._free_bytes = isinstance(manifest.path, str), CACHE_BYTES

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = Store.__hash__

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Return the content of a file, or None; a changed or missing chunk is a DamagedChunk."""
        if byte_range is not None:
            raise ValueError("files of a cube are read whole: the checksum is of all of it")
        content = await asyncio.to_thread(self._content, key)
        return None if content is None else prototype.buffer.from_bytes(content)

    def _content(self, key: str) -> bytes | None:
        path, _, name = key.rpartition("/")
        if name == ROOT_FILE:
            entry = self._metadata.get(path)
            return json.dumps(entry).encode() if entry else None if path else self._document
        if key in self._cache:
            return self._cache[key]
        chunk = self._chunks.load(key)
        content = None if chunk is None else chunk[0]
        n_bytes, is_status = len(content or b""), path.rpartition("/")[2] == "status"
        if not self._is_remote or (n_bytes > self._free_bytes and not is_status):
            return content
        self._free_bytes -= n_bytes
        return self._cache.setdefault(key, content)

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> list[Buffer | None]:
        return [await self.get(key, prototype, byte_range) for key, byte_range in key_ranges]

    async def exists(self, key: str) -> bool:
        return await asyncio.to_thread(self._content, key) is not None

    async def set(self, key: str, value: Buffer) -> None:
        raise ValueError(READ_ONLY)

    async def delete(self, key: str) -> None:
        raise ValueError(READ_ONLY)

    def list(self) -> AsyncIterator[str]:
        """Refuse to list files: the root file lists the arrays."""
        raise NotImplementedError

    def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        raise NotImplementedError

    list_dir = list_prefix


@dataclass(eq=False)
class ShownArray:
    """An array as a tree shows it: in rising order, and without the values of cells that are not done.

    Parameters
    ----------
    store : CubeStore
        store of the cube
    spec : ArraySpec
        declaration of the array
    order : mapping of str to ndarray
        Stored positions, for each dimension that is not stored in rising order.
    status : ndarray or ShownArray, optional
        States of the cells of the node; without them nothing is hidden.
    status_dims : sequence of str
        dimensions of the states
    """

    store: CubeStore
    spec: schema.ArraySpec
    order: Mapping[str, NDArray[np.intp]]
    status: NDArray[np.int8] | ShownArray | None = None
    status_dims: Sequence[str] = ()

    def __post_init__(self) -> None:
        self.shape, self.ndim = self.spec.shape, len(self.spec.shape)
        dtype = self.spec.variable.dtype
        self.dtype = TEXT if dtype == "string" else np.dtype(dtype)

    @cached_property
    def _array(self) -> Any:
        return zarr.open_array(self.store, path=self.spec.path, mode="r", zarr_format=3)

    def __getitem__(self, part: Part) -> NDArray[Any]:
        """Read a part, which has a slice without a step for each dimension."""
        dims = self.spec.dims
        rows = tuple(
            self.order[dim][span] if dim in self.order else span for dim, span in zip(dims, part, strict=True)
        )
        is_in_order = all(isinstance(row, slice) for row in rows)
        values = np.asarray(self._array[rows] if is_in_order else self._array.oindex[rows], self.dtype)
        if self.status is None:
            return values
        spans = dict(zip(dims, part, strict=True))
        states = self.status[tuple(spans.get(dim, slice(None)) for dim in self.status_dims)]
        variable = self.spec.variable
        has_values = states == schema.DONE
        if variable.name in OF_ANSWERS or variable.role is schema.Role.ANNOTATION:
            has_values |= states == schema.NO_SOLUTION
        # several cells share annotations, which exist if one of these is done
        shared_axes = tuple(axis for axis, dim in enumerate(self.status_dims) if dim not in dims)
        has_values = has_values.any(shared_axes)
        has_values = has_values.reshape(has_values.shape + (1,) * (values.ndim - has_values.ndim))
        return np.where(has_values, values, np.asarray(variable.fill, self.dtype))


def _part(array: ShownArray, part: Part) -> NDArray[Any]:
    """Read a part; dask does not know this function, and so leaves the slices as they are."""
    return array[part]


# Variables that a cell without a solution has, too.
OF_ANSWERS = ("restarts_done", "seconds", "cpu_seconds")


def open_cube(path: str | Path | Sequence[str | Path]) -> xr.DataTree:
    """Open a cube for reading, or several that are parts of one sweep, also while they are written and grown.

    The status of cells is read first and everything else is masked by it: what is not done reads NaN, or
    -1 for whole numbers, or 0 restarts. Files are whole or absent, and done cells never change, so what the
    tree shows later is still the state of this moment. Nothing else is read before it is used. At an address
    the status is not read before either, so that opening takes one request, whatever the cube holds.

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
    >>> from sweep_clustering import open_cube
    >>> tree = open_cube("results/quick.zarr")
    >>> tree["iris"]["log_likelihood"].dims
    ('p', 'm', 'replicate', 'model', 'restart')
    """
    parts = read_parts(path)
    if parts.missing:
        warnings.warn(parts.missing, stacklevel=2)
    return open_parts(parts)


def open_parts(parts: Parts) -> xr.DataTree:
    """Open cubes whose roots were read, as one; see `open_cube`."""
    # here, so that a run, which only writes, does not load xarray and pandas
    from sweep_clustering.storage.cube.display import DataTree

    by_path: dict[str, list[xr.Dataset]] = {}
    mixtures: dict[str, list[int]] = {}
    for cube in parts.cubes:
        for path, node in _nodes(cube).items():
            by_path.setdefault(path, []).append(node)
        for plan in cube.plans.values():
            for path in schema.groups(plan):
                mixtures.setdefault(f"/{path}", []).extend(plan.dims[0].values)
    nodes = {path: _join(datasets, mixtures.get(path, [])) for path, datasets in by_path.items()}
    if len(parts.cubes) > 1:
        nodes["/"] = nodes["/"].assign_attrs(attributes_of(parts.manifest))
    return DataTree.from_dict(nodes)


def _join(datasets: list[xr.Dataset], mixtures: list[int]) -> xr.Dataset:
    """Return a node of several cubes, which have different mixtures or a group without values."""
    if len(datasets) == 1 or "mixture" not in datasets[0].dims:
        return datasets[0]
    import xarray as xr

    # `left`: cubes may have grown in another order
    dataset = xr.concat(
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
    return dataset if order == list(range(len(order))) else dataset.isel(mixture=order)


def _nodes(manifest: Manifest) -> dict[str, xr.Dataset]:
    """Return the nodes of a cube by path."""
    import xarray as xr

    nodes = {"/": xr.Dataset(attrs=attributes_of(manifest))}
    store = CubeStore(manifest)
    with storage_errors(manifest.path):
        for name in sorted(manifest.plans):
            plan = manifest.plans[name]
            specs: dict[str, list[schema.ArraySpec]] = {path: [] for path in schema.groups(plan)}
            for spec in schema.array_specs(plan):
                specs[spec.node].append(spec)
            for path in sorted(specs):
                nodes[f"/{path}"] = _node(manifest, store, plan, path, specs[path])
    return nodes


def _node(
    manifest: Manifest, store: CubeStore, plan: DatasetPlan, path: str, specs: Iterable[schema.ArraySpec]
) -> xr.Dataset:
    """Return a node of a data set, for which as little as possible is read.

    At an address this is nothing but names of samples: coordinates are in the root, and the status is read
    when values of the data set are requested.
    """
    import dask.array as da
    import xarray as xr

    values, is_remote = schema.coordinate_values(plan), isinstance(manifest.path, str)
    falling = [dim for dim in ("p", "m") if dim in values and (np.diff(values[dim]) < 0).any()]
    order: dict[str, NDArray[np.intp]] = {dim: np.argsort(values[dim], kind="stable") for dim in falling}
    variables: dict[str, xr.Variable] = {}
    status: NDArray[np.int8] | ShownArray | None = None
    status_dims: tuple[str, ...] = ()
    # the status first, because it masks all results
    for spec in sorted(specs, key=lambda spec: (spec.variable.name != "status", spec.path)):
        name, role, entry = spec.variable.name, spec.variable.role, manifest.metadata[spec.path]
        array = ShownArray(store, spec, order, None if role is schema.Role.INPUT else status, status_dims)
        data: Any = array
        if role is schema.Role.COORDINATE:
            for position in () if is_remote else np.ndindex(*chunk_counts(entry)):
                manifest.chunks.load(f"{spec.path}/{chunk_name(position)}")  # an error if it is damaged
            data = values[name].astype(array.dtype)
            data = data[order[spec.dims[0]]] if spec.dims[0] in order else data
        elif name == "sample" or (name == "status" and not is_remote):
            data = array[tuple(map(slice, spec.shape))]
        if name == "status":
            status, status_dims = data, spec.dims
        if data is array:
            # a unique name: a scheduler that still has the chunks of another moment must not use them
            unique, empty = f"{name}-{uuid.uuid4().hex}", np.empty((0,) * array.ndim, array.dtype)
            data = da.from_array(array, tuple(chunk_lengths(entry)), unique, getitem=_part, meta=empty)
        variables[name] = xr.Variable(spec.dims, data, entry["attributes"])
    # the attributes of a group name its coordinates for other readers
    attributes = {
        key: text for key, text in manifest.metadata[path]["attributes"].items() if key != COORDINATES
    }
    node = xr.Dataset({name: variables[name] for name in sorted(variables)}, attrs=attributes)
    return node.set_coords(manifest.metadata[path]["attributes"].get(COORDINATES, "").split())
