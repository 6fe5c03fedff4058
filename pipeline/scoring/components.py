"""Gaussians of a cell whose classes are unions of them, as a cube of format 3 holds them."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from sweep_clustering.kernels.fits import Gaussians
from sweep_clustering.storage.cube.schema import DONE
from sweep_clustering.sweeps.errors import refused
from sweep_clustering.sweeps.unions import ROWS, from_rows

# Scores of the chosen structure, which become attributes.
CHOICE = ("held_out", "held_out_right", "base_rate")


def gaussians_of(cell: xr.Dataset) -> Gaussians | None:
    """Return the Gaussians of a cell from the node of its model, None if it has none; raise `InputError`
    if they are damaged.
    """
    if any(name not in cell for name in ROWS):
        return None
    sizes = cell["centroids"].sizes
    try:
        return from_rows({name: cell[name].values for name in ROWS}, sizes["feature"], sizes["cluster"])
    except ValueError as error:
        hint = "compute it again: sweep verify says which cells differ"
        raise refused(", ".join(ROWS), str(error), "Gaussians of a cell", hint) from None


def components(tree: xr.DataTree, dataset: str, **cell: Any) -> xr.Dataset:
    """Return the Gaussians that the classes of a cell are unions of, and how well they predicted
    annotations.

    Parameters
    ----------
    tree : xarray.DataTree
        cube from `open_cube`
    dataset : str
        name of its node
    **cell : int, float or str
        coordinates of the cell, such as p, m, replicate and model

    Returns
    -------
    xarray.Dataset
        `class_of` and `weights` (component), `means` (component, axis), `covariances` (component, axis,
        axis_2), `axes` (feature, axis) and `center` (feature). Means and covariances are in the coordinates
        ``(X - center) @ axes``. Attributes: `structure`, in words; `held_out`, minus the mean
        log-probability of held-out annotations in nats; `base_rate`, the same when only the share of
        must-links is known; and `held_out_right`, the share predicted. They are NaN if no annotations were
        held out.

    Raises
    ------
    InputError
        If coordinates are missing, or the cube has no Gaussians of the cell: it is not done or has another
        model, or the cube has format 2.
    KeyError
        If there is no such data set or value.

    Examples
    --------
    >>> from sweep_clustering import components, open_cube
    >>> tree = open_cube("results/shapes.zarr")
    >>> gaussians = components(tree, "iris", p=0.9, m=75, replicate=0, model="conditional-any")
    >>> gaussians.attrs["structure"]
    '2 full in 2 principal components'
    >>> dict(gaussians.covariances.sizes)
    {'component': 6, 'axis': 2, 'axis_2': 2}
    """
    node, where = tree[dataset], "/".join([dataset, *(f"{name}={value}" for name, value in cell.items())])
    if cell.get("model") in node.children:
        node = node[cell["model"]]
        del cell["model"]
    selection = node.to_dataset().sel(cell)
    if many := [dim for dim in selection["status"].dims if selection.sizes[dim] > 1]:
        raise refused(where, f"no {', '.join(map(str, many))}", "the coordinates of a cell")
    selection = selection.isel(dict.fromkeys(selection["status"].dims, 0))
    gaussians = gaussians_of(selection) if selection["status"] == DONE else None
    if gaussians is None:
        expected = "a cell that is done, whose classes are unions of Gaussians, in a cube of format 3"
        raise refused(where, "no Gaussians", expected)
    axes = np.eye(len(gaussians.center)) if gaussians.axes is None else gaussians.axes
    return xr.Dataset(
        {
            "class_of": ("component", gaussians.class_of),
            "weights": ("component", gaussians.weights),
            "means": (("component", "axis"), gaussians.means),
            "covariances": (("component", "axis", "axis_2"), gaussians.matrices),
            "axes": (("feature", "axis"), axes),
            "center": ("feature", gaussians.center),
        },
        coords={"feature": selection["feature"]} if "feature" in selection.coords else {},
        attrs={"structure": str(gaussians.structure), **{name: _score(selection, name) for name in CHOICE}},
    )


def _score(cell: xr.Dataset, name: str) -> float:
    """Return the one value of a score of the choice: unions have scores at their own shape alone."""
    values = cell[name].values.ravel() if name in cell else np.empty(0)
    finite = values[~np.isnan(values)]
    return float(finite[0]) if len(finite) else float("nan")
