"""Shapes of covariances, and Gaussians of classes as cubes and journals keep them: rows of three arrays.

`to_rows` and `from_rows` go from the `Gaussians` of a cell to its rows and back; `room_for` gives the lengths
of rows that fit all cells of a search. One row has the class of each Gaussian, and one has the proportions.
The third has all other numbers: the codes of the structure, means, covariances (lower triangles of matrices,
row by row), the centre of the features and the axes. So a row has no more numbers than the fit, whatever its
shape and its coordinates. Merged groups have one variance, which is kept once, and any number of Gaussians.
"""

from collections.abc import Iterable, Mapping
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sweep_clustering.kernels.fits import Floats, Gaussians
from sweep_clustering.kernels.settings import ObjectiveSettings
from sweep_clustering.kernels.structure import (
    COVARIANCES,
    LEARNED,
    MERGED_KINDS,
    NONE,
    SHAPES,
    SPACES,
    STRUCTURE,
    Structure,
    largest_structures,
)

__all__ = ["STRUCTURE"]

# Words of a structure that stand for numbers, by its part; the second without those of merged groups alone.
GROUP_CODES: dict[str, dict[str, int]] = {
    "subspace": SPACES,
    "covariance": {shape: code for code, shape in enumerate(SHAPES)},
}
STRUCTURE_CODES = {
    part: {word: code for word, code in words.items() if word not in (*MERGED_KINDS, *LEARNED)}
    for part, words in GROUP_CODES.items()
}

# Dimensions of the covariance of one cluster, by shape. Clusters that share a covariance have a copy each.
# A model that chooses its shape has room for the widest.
DIMS: dict[str, tuple[str, ...]] = {
    "spherical": (),
    "common": (),
    "diagonal": ("feature",),
    "tied": ("feature", "feature_2"),
    "full": ("feature", "feature_2"),
    "auto": ("feature", "feature_2"),
    "any": (),  # one variance for each class, whatever its components have
    "groups": (),
}

# Shapes that can be chosen, from the simplest on.
CANDIDATES = ("spherical", "diagonal", "tied", "full")

# Shapes that have scores if every model holds annotations out; the one that is no candidate is last.
SCORED = (*CANDIDATES, "common")

# Whole numbers in a cube that stand for shapes.
CODES = {shape: code for code, shape in enumerate(COVARIANCES)}


def widest_dims(shapes: Iterable[str]) -> tuple[str, ...]:
    """Return the dimensions of the widest of some shapes."""
    return max((DIMS[shape] for shape in shapes), key=len, default=())


def widened(covariances: Floats, n_axes: int, n_features: int) -> Floats:
    """Return covariances with `n_axes` axes for a cluster, from which `narrowed` gets the same bits back.

    A single variance becomes a diagonal, and a diagonal becomes a matrix. More axes than `n_axes` are a
    `ValueError`.
    """
    wide = np.asarray(covariances)
    if wide.ndim > n_axes + 1:
        raise ValueError(f"covariances of shape {wide.shape}, expected at most {n_axes + 1} axes")
    if wide.ndim == 1 and n_axes > 0:
        wide = np.repeat(wide[:, None], n_features, axis=1)
    if wide.ndim == 2 and n_axes > 1:
        return np.where(np.eye(n_features, dtype=bool), wide[:, :, None], 0.0)
    return wide


def narrowed(covariances: Floats, shape: str) -> Floats:
    """Return covariances that a cube holds in the form of their shape; a narrower form is a `ValueError`."""
    narrow, n_axes = np.asarray(covariances), len(DIMS[shape])
    if narrow.ndim < n_axes + 1:
        raise ValueError(
            f"covariances of shape {narrow.shape}, expected {n_axes + 1} axes of a {shape} shape"
        )
    if narrow.ndim == 3 and n_axes < 2:
        narrow = np.diagonal(narrow, axis1=1, axis2=2)
    if narrow.ndim == 2 and n_axes < 1:
        narrow = narrow[:, 0]
    return narrow


# Rows of a cell, by the names of the variables of a cube.
ROWS = ("component_class", "component_weights", "component_values")


class Room(NamedTuple):
    """Largest number of Gaussians in a row, and of other numbers."""

    components: int
    entries: int


def to_rows(gaussians: Gaussians, room: Room | None = None) -> dict[str, NDArray[Any]]:
    """Return the rows of Gaussians by the names in `ROWS`, with fill values up to the lengths of a room.

    Without a room they are as short as possible. Too little room, as cubes of earlier releases may have, is a
    `ValueError`.
    """
    covariances, axes = gaussians.covariances, gaussians.axes
    if gaussians.structure.covariance in MERGED_KINDS:
        covariances = covariances[:1, :1]
    elif covariances.ndim == 3:
        covariances = covariances[:, *np.tril_indices(covariances.shape[1])]
    codes = np.array(gaussians.structure.codes)
    parts = [codes, gaussians.means, covariances, gaussians.center, np.empty(0) if axes is None else axes]
    values = np.concatenate([np.asarray(part, np.float64).ravel() for part in parts])
    n_gaussians = len(gaussians.class_of)
    components, entries = room or Room(n_gaussians, len(values))
    if components < n_gaussians or entries < len(values):
        fault = f"found {gaussians.structure} in rows of {n_gaussians} and {len(values)}"
        expected = f"expected at most {components} and {entries}"
        raise ValueError(f"{fault}, {expected}: a cube of an earlier release; submit under another name")
    rows = (
        _filled(np.asarray(gaussians.class_of, np.int16), components, -1),
        _filled(gaussians.weights, components, np.nan),
        _filled(values, entries, np.nan),
    )
    return dict(zip(ROWS, rows, strict=True))


def from_rows(rows: Mapping[str, NDArray[Any]], n_features: int, n_classes: int) -> Gaussians | None:
    """Return the Gaussians of rows, or None if the cell has none; impossible rows are a `ValueError`."""
    class_of, weights, values = (rows[name] for name in ROWS)
    if (class_of == -1).all() and np.isnan(values).all():
        return None
    codes = values[: len(STRUCTURE)].tolist()
    if not all(map(float.is_integer, codes)):
        raise ValueError(f"codes {codes} of what classes are made of")
    structure = Structure.from_codes(codes)
    is_merged, n_gaussians = structure.covariance in MERGED_KINDS, structure.components * n_classes
    if is_merged:
        n_gaussians = int((class_of != -1).sum())
    n_dims = structure.n_dims(n_features, n_classes)
    if structure.subspace in LEARNED:  # as many as fill the row
        numbers = int(np.flatnonzero(~np.isnan(values))[-1]) - len(STRUCTURE) - n_features
        n_dims = max(numbers // (n_gaussians + n_features), 1)
    shapes = _shapes(structure, n_features, n_gaussians, n_dims)
    ends = np.cumsum(list(map(prod, shapes.values()))).tolist()
    if n_gaussians > len(class_of) or ends[-1] > len(values):
        raise ValueError(f"rows of {len(class_of)} and {len(values)} for {structure}")
    checks = {
        "classes": (class_of[:n_gaussians] >= 0) & (class_of[:n_gaussians] < n_classes),
        "proportions": weights[:n_gaussians] > 0,
        "numbers": np.isfinite(values[: ends[-1]]),
        "fill values": np.append(class_of[n_gaussians:] == -1, np.isnan(values[ends[-1] :])),
    }
    for name, is_right in checks.items():
        if not is_right.all():
            raise ValueError(f"{int((~is_right).sum())} {name} of Gaussians that cannot be: {structure}")
    # Copies, because a view would keep the arrays of a whole block or record in memory.
    parts = {
        name: part.reshape(shapes[name]).copy()
        for name, part in zip(shapes, np.split(values[: ends[-1]], ends[:-1]), strict=True)
    }
    covariances = parts["covariances"]
    if is_merged:
        covariances = np.full(shapes["means"], covariances.item())
    elif structure.covariance in ("tied", "full"):
        triangle, triangles = np.tril_indices(n_dims), covariances
        covariances = np.empty((len(triangles), n_dims, n_dims))
        covariances[:, *triangle] = covariances[:, *triangle[::-1]] = triangles
    return Gaussians(
        structure=structure,
        class_of=class_of[:n_gaussians].copy(),
        weights=weights[:n_gaussians].copy(),
        means=parts["means"],
        covariances=covariances,
        center=parts["center"],
        axes=None if structure.subspace == NONE else parts["axes"],
    )


def _filled(values: NDArray[Any], length: int, fill: float) -> NDArray[Any]:
    return np.pad(values, (0, length - len(values)), constant_values=fill)


def _shapes(structure: Structure, n_features: int, count: int, n_dims: int) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the arrays in a row with so many Gaussians, in their order."""
    triangle = n_dims * (n_dims + 1) // 2
    shape_of_covariances = {
        "tied": (1, triangle),
        "full": (count, triangle),
        **dict.fromkeys(MERGED_KINDS, (1,)),
    }
    return {
        "codes": (len(STRUCTURE),),
        "means": (count, n_dims),
        "covariances": shape_of_covariances.get(structure.covariance, (count, n_dims)),
        "center": (n_features,),
        "axes": (0 if structure.subspace == NONE else n_features, n_dims),
    }


def room_for(
    covariance: str, settings: ObjectiveSettings, n_samples: int, n_features: int, n_classes: int
) -> Room:
    """Return the lengths of rows that hold every structure that cells of a search may have.

    The shape "any" is that of a model that chooses its structure. Candidates take at most `DEAREST`
    operations a step, so rows have about `DEAREST` / (2 N) numbers of covariances at most, beside means and
    axes of few dimensions. If structures are compared on a part of the rows, N is the size of that part.
    The shape "groups" has merged groups beside these, at most `MOST_GROUPS` or some for each class, in at
    most `MOST_LEARNED` dimensions.
    """
    sizes = list(largest_structures(covariance, settings, n_samples, n_features, n_classes))
    largest = max(
        sum(map(prod, _shapes(structure, n_features, n_gaussians, dims).values()))
        for structure, n_gaussians in sizes
        for dims in [structure.n_dims(n_features, n_classes)]
    )
    return Room(max(n_gaussians for _, n_gaussians in sizes), largest)
