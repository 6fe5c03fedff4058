"""Gaussians of a cell whose classes are unions of them, as a cube of format 3 holds them."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from sweep_clustering.storage.cube.schema import DONE
from sweep_clustering.sweeps.errors import refused
from sweep_clustering.sweeps.unions import ROWS, Gaussians

# Of the choice, as attributes.
CHOICE = ("held_out", "held_out_right", "base_rate")


def gaussians_of(one: xr.Dataset) -> Gaussians | None:
    """The Gaussians of a cell, of what the node of its model has of it; None if it has none.

    Raises
    ------
    InputError
        If its values are those of none.
    """
    if any(name not in one for name in ROWS):
        return None
    sizes = one["centroids"].sizes
    try:
        return Gaussians.of({name: one[name].values for name in ROWS}, sizes["feature"], sizes["cluster"])
    except ValueError as error:
        hint = "compute it again: sweep verify says which cells differ"
        raise refused(", ".join(ROWS), str(error), "Gaussians of a cell", hint) from None


def components(tree: xr.DataTree, dataset: str, **cell: Any) -> xr.Dataset:
    """Gaussians that the classes of a cell are unions of, and what spoke for them.

    Parameters
    ----------
    tree : xarray.DataTree
        From `open_cube`.
    dataset : str
        Name of its node.
    **cell : int, float or str
        Coordinates of the cell, such as p, m, replicate and model.

    Returns
    -------
    xarray.Dataset
        `class_of` and `weights` (component), `means` (component, axis), `covariances` (component, axis,
        axis_2), `axes` (feature, axis) and `center` (feature). The coordinates of samples, in which the first
        three are, are ``(X - center) @ axes``. Attributes: `structure`, in words; `held_out`, minus the mean
        log-probability of held-out annotations in nats, with `base_rate`, that of how often they are
        must-links, and `held_out_right`, the share predicted. NaN where nobody looked.

    Raises
    ------
    InputError
        If coordinates are missing, or the cube has no Gaussians of the cell: it is not done, of another
        model, or the cube of format 2.
    KeyError
        If there is no such data set or value.

    Examples
    --------
    >>> from sweep_clustering import components, open_cube
    >>> tree = open_cube("results/shapes.zarr")
    >>> made = components(tree, "iris", p=0.9, m=75, replicate=0, model="conditional-any")
    >>> made.attrs["structure"]
    '2 full in 2 principal components'
    >>> dict(made.covariances.sizes)
    {'component': 6, 'axis': 2, 'axis_2': 2}
    """
    node, where = tree[dataset], "/".join([dataset, *(f"{name}={value}" for name, value in cell.items())])
    if cell.get("model") in node.children:
        node = node[cell["model"]]
        del cell["model"]
    one = node.to_dataset().sel(cell)
    if many := [dim for dim in one["status"].dims if one.sizes[dim] > 1]:
        raise refused(where, f"no {', '.join(map(str, many))}", "the coordinates of a cell")
    one = one.isel(dict.fromkeys(one["status"].dims, 0))
    found = gaussians_of(one) if one["status"] == DONE else None
    if found is None:
        expected = "a cell that is done, whose classes are unions of Gaussians, in a cube of format 3"
        raise refused(where, "no Gaussians", expected)
    axes = np.eye(len(found.center)) if found.axes is None else found.axes
    return xr.Dataset(
        {
            "class_of": ("component", found.class_of),
            "weights": ("component", found.weights),
            "means": (("component", "axis"), found.means),
            "covariances": (("component", "axis", "axis_2"), found.matrices),
            "axes": (("feature", "axis"), axes),
            "center": ("feature", found.center),
        },
        coords={"feature": one["feature"]} if "feature" in one.coords else {},
        attrs={"structure": str(found.structure), **{name: _score(one, name) for name in CHOICE}},
    )


def _score(one: xr.Dataset, name: str) -> float:
    """What spoke for a cell: what has components has scores at its own shape alone."""
    values = one[name].values.ravel() if name in one else np.empty(0)
    known = values[~np.isnan(values)]
    return float(known[0]) if len(known) else float("nan")
