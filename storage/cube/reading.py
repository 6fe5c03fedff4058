"""The cube as an xarray tree: lazy, sorted, and free of anything that is not done."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from storage.cube.manifest import read_manifest
from storage.cube.schema import DONE, NO_SOLUTION, VARIABLES, Role
from storage.cube.store import CubeStore
from storage.errors import storage_errors
from storage.remote import place_of

if TYPE_CHECKING:
    import xarray as xr

SORTED_DIMS = ("p", "m")

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
        store = CubeStore(path, chunks=manifest.chunks, document=manifest.document, read_only=True)
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
    node = node.isel({dim: _order(node[dim].values) for dim in SORTED_DIMS if dim in node.dims})
    for name in node.coords:
        node[name].load()
    lazy = {}
    status = node["status"].variable.load() if "status" in node else None
    for name, array in node.data_vars.items():
        if name != "status":
            lazy[name] = _mask(str(name), _chunked(str(name), array.variable), status)
    return node.assign(lazy)


def _order(values: np.ndarray[Any, Any]) -> slice | np.ndarray[Any, Any]:
    if (np.diff(values) > 0).all():
        return slice(None)
    return np.argsort(values)


def _chunked(name: str, variable: xr.Variable) -> xr.Variable:
    # The name xarray gives comes from path and modification time of the root, which writing a block does not
    # change: a scheduler that still holds the old chunks would hand them out again.
    return variable.chunk(variable.encoding["preferred_chunks"], name=f"{name}-{uuid.uuid4().hex}")


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
