"""Scores beside their cube, for those who have only xarray: computed again when the cube has changed."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import warnings
from importlib.metadata import version
from pathlib import Path

import numpy as np
import xarray as xr
from zarr.errors import ZarrUserWarning

from pipeline.scoring.catalogue import SCORES
from pipeline.scoring.lazy import all_baseline_scores, relative_nmi, scores
from storage.cube.manifest import LONGEST_ROOT
from storage.errors import storage_errors
from storage.files import read_regular
from sweeps.errors import InputError, Problem

SUFFIX = ".scores.zarr"
FORMAT = "sweep scores"
FINGERPRINT = "fingerprint"
"""Attribute of the root: sha256 of all that the scores follow from."""


def scores_path(cube: Path) -> Path:
    """Where the scores of a cube are stored: `<name>.scores.zarr` beside `<name>.zarr`."""
    return cube.with_name(cube.name.removesuffix(".zarr") + SUFFIX)


def fingerprint(tree: xr.DataTree) -> str:
    """Sha256 of what scores follow from: the sweep, its data, which cells are done, and this release.

    Done cells never change, so that their status stands for what is in them.

    Parameters
    ----------
    tree : xarray.DataTree
        The opened cube.
    """
    of_cube = [tree.attrs.get(key) for key in ("format_version", "spec", "datasets")]
    told = [version("sweep-clustering"), SCORES, *of_cube]
    digest = hashlib.sha256(json.dumps(told, sort_keys=True).encode())
    for node in tree.subtree:
        if "status" in node.data_vars:
            digest.update(node.path.encode() + b"\0")
            digest.update(np.ascontiguousarray(node["status"].values, dtype=np.int8).tobytes())
    return digest.hexdigest()


def score_datasets(tree: xr.DataTree, dataset: str) -> dict[str, xr.Dataset]:
    """Scores of a data set by the path of their node: those of models with annotations, and of each baseline.

    Parameters
    ----------
    tree : xarray.DataTree
        An opened cube.
    dataset : str
        Name of its node.

    Returns
    -------
    dict of str to xarray.Dataset
        Lazy; without nodes that have no scores.
    """
    found, baselines = scores(tree, dataset), all_baseline_scores(tree, dataset)
    if "nmi" in found and baselines:
        found["relative_nmi"] = relative_nmi(found, baselines)
    nodes = {dataset: found, **{f"{dataset}/{model}": of for model, of in baselines.items()}}
    return {path: plain(each) for path, each in nodes.items() if each.data_vars}


def store_scores(cube: Path, tree: xr.DataTree) -> tuple[Path, bool]:
    """Store all scores of a cube beside it, unless those that are there are of the same cells.

    Parameters
    ----------
    cube : Path
        `<name>.zarr`.
    tree : xarray.DataTree
        The same, opened.

    Returns
    -------
    path : Path
        The store: `xarray.open_datatree(path, engine="zarr")` has one node for each data set.
    is_new : bool
        Whether it was computed now.

    Raises
    ------
    InputError
        If something else has its name.
    StorageError
        If the file system refuses.
    """
    path, wanted = scores_path(cube), fingerprint(tree)
    found = _attributes(path)
    if found is not None and found.get(FINGERPRINT) == wanted:
        return path, False
    nodes = {name: each for data in tree.children for name, each in score_datasets(tree, data).items()}
    attributes = {"format": FORMAT, FINGERPRINT: wanted, "cube": cube.name}
    stored = xr.DataTree.from_dict({"/": xr.Dataset(attrs=attributes), **nodes})
    making = path.with_name(f".{path.name}.{os.getpid()}")
    old = path.with_name(f"{making.name}.old")
    with storage_errors(path):
        try:
            with warnings.catch_warnings():
                # zarr says of consolidated metadata that other readers may not know them: they lose nothing
                warnings.filterwarnings("ignore", message="Consolidated metadata", category=ZarrUserWarning)
                stored.to_zarr(making, mode="w", consolidated=True)
            if found is not None:
                path.rename(old)
            making.rename(path)
        finally:
            for folder in (making, old):
                shutil.rmtree(folder, ignore_errors=True)
    return path, True


def _attributes(path: Path) -> dict[str, object] | None:
    """Attributes of stored scores; None where there is nothing."""
    if not os.path.lexists(path):
        return None
    try:
        document = json.loads(read_regular(path / "zarr.json", LONGEST_ROOT))
        attributes = document["attributes"]
        if attributes["format"] == FORMAT and not path.is_symlink():
            return dict(attributes)
    except (OSError, ValueError, KeyError, TypeError):
        pass
    raise InputError([Problem(str(path), "something else", "scores of a cube, or nothing", "move it away")])


def plain(found: xr.Dataset) -> xr.Dataset:
    """Scores with coordinates that any reader takes, and none that they do not lie on."""
    kept = {dim for array in found.data_vars.values() for dim in array.dims}
    kept |= {name for name, each in found.coords.items() if each.dims and set(each.dims) <= kept}
    found = found.drop_vars([name for name in found.coords if name not in kept])
    texts = {
        name: (each.dims, np.array([str(text) for text in each.values.tolist()], dtype=object))
        for name, each in found.coords.items()
        if each.dtype.kind in "TOU"
    }
    return found.assign_coords(texts).drop_encoding()
