"""Gaussians that classes are unions of, as cubes and journals keep them: rows of three arrays.

`to_rows` and `from_rows` go from the `Gaussians` of a cell to its rows and back; `room_for` says how long the
rows of all cells of a search are. One row has the class of each Gaussian, one its proportion, and one all
other numbers, one after the other: the codes of the structure, means, covariances (of a matrix the lower
triangle, row by row), the centre of the features and the axes. So a row is no longer than what was fitted,
whatever its shape and its coordinates.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sweep_clustering.kernels.fits import Gaussians
from sweep_clustering.kernels.settings import ObjectiveSettings
from sweep_clustering.kernels.structure import (
    ANY,
    DISCRIMINATIVE,
    MOST_DIMS,
    NONE,
    SHAPES,
    STRUCTURE,
    Structure,
    most_components,
    named_structure,
    part_size,
    wide_dims,
)

Floats = NDArray[np.float64]

# The rows, by the names of the variables of a cube.
ROWS = ("component_class", "component_weights", "component_values")


class Room(NamedTuple):
    """Lengths of rows: Gaussians at most, and other numbers."""

    components: int
    entries: int


def to_rows(gaussians: Gaussians, room: Room | None = None) -> dict[str, NDArray[Any]]:
    """Return rows by `ROWS`, with fill values up to the lengths of a room, or no longer than they have to be.

    Raises
    ------
    ValueError
        If the room is less than they take, as that of cubes of earlier releases may be.
    """
    covariances, axes = gaussians.covariances, gaussians.axes
    if covariances.ndim == 3:
        covariances = covariances[:, *np.tril_indices(covariances.shape[1])]
    codes = np.array(gaussians.structure.codes)
    parts = [codes, gaussians.means, covariances, gaussians.center, np.empty(0) if axes is None else axes]
    values = np.concatenate([np.asarray(part, np.float64).ravel() for part in parts])
    many = len(gaussians.class_of)
    components, entries = room or Room(many, len(values))
    if components < many or entries < len(values):
        least = f"found {gaussians.structure} in rows of {many} and {len(values)}"
        most = f"expected at most {components} and {entries}"
        raise ValueError(f"{least}, {most}: a cube of an earlier release; submit under another name")
    rows = (
        _filled(np.asarray(gaussians.class_of, np.int16), components, -1),
        _filled(gaussians.weights, components, np.nan),
        _filled(values, entries, np.nan),
    )
    return dict(zip(ROWS, rows, strict=True))


def from_rows(rows: Mapping[str, NDArray[Any]], n_features: int, n_classes: int) -> Gaussians | None:
    """Return the Gaussians of rows, None of those of a cell that has none.

    Raises
    ------
    ValueError
        If nothing that was fitted has such rows.
    """
    class_of, weights, values = (rows[name] for name in ROWS)
    if (class_of == -1).all() and np.isnan(values).all():
        return None
    codes = values[: len(STRUCTURE)].tolist()
    if not all(map(float.is_integer, codes)):
        raise ValueError(f"codes {codes} of what classes are made of")
    structure = Structure.of(codes)
    shapes = _shapes(structure, n_features, n_classes)
    many, ends = structure.components * n_classes, np.cumsum(list(map(prod, shapes.values()))).tolist()
    if many > len(class_of) or ends[-1] > len(values):
        raise ValueError(f"rows of {len(class_of)} and {len(values)} for {structure}")
    right = {
        "classes": (class_of[:many] >= 0) & (class_of[:many] < n_classes),
        "proportions": weights[:many] > 0,
        "numbers": np.isfinite(values[: ends[-1]]),
        "fill values": np.append(class_of[many:] == -1, np.isnan(values[ends[-1] :])),
    }
    for name, are_right in right.items():
        if not are_right.all():
            raise ValueError(f"{int((~are_right).sum())} {name} of Gaussians that cannot be: {structure}")
    # copies: a view would keep the arrays of a whole block, or of a record, in memory
    parts = {
        name: part.reshape(shapes[name]).copy()
        for name, part in zip(shapes, np.split(values[: ends[-1]], ends[:-1]), strict=True)
    }
    n_dims, covariances = parts["means"].shape[1], parts["covariances"]
    if structure.covariance in ("tied", "full"):
        at, packed = np.tril_indices(n_dims), covariances
        covariances = np.empty((len(packed), n_dims, n_dims))
        covariances[:, *at] = covariances[:, *at[::-1]] = packed
    return Gaussians(
        structure=structure,
        class_of=class_of[:many].copy(),
        weights=weights[:many].copy(),
        means=parts["means"],
        covariances=covariances,
        center=parts["center"],
        axes=None if structure.subspace == NONE else parts["axes"],
    )


def _filled(values: NDArray[Any], length: int, fill: float) -> NDArray[Any]:
    return np.pad(values, (0, length - len(values)), constant_values=fill)


def _shapes(structure: Structure, n_features: int, n_classes: int) -> dict[str, tuple[int, ...]]:
    """Shapes of what a row has of a structure, in its order."""
    n_dims = n_features
    if structure.subspace == DISCRIMINATIVE:
        n_dims = min(n_classes - 1, n_features) or 1
    elif structure.subspace != NONE:
        n_dims = min(int(structure.subspace), n_features)
    many, triangle = structure.components * n_classes, n_dims * (n_dims + 1) // 2
    matrices = {"tied": (1, triangle), "full": (many, triangle)}
    return {
        "codes": (len(STRUCTURE),),
        "means": (many, n_dims),
        "covariances": matrices.get(structure.covariance, (many, n_dims)),
        "center": (n_features,),
        "axes": (0 if structure.subspace == NONE else n_features, n_dims),
    }


def room_for(
    covariance: str, settings: ObjectiveSettings, n_samples: int, n_features: int, n_classes: int
) -> Room:
    """Lengths of rows that hold whatever cells of a search may be made of.

    Where that is chosen, what is tried takes at most `DEAREST` operations a step: rows have about
    `DEAREST` / (2 N) numbers of covariances at most, beside means and axes of few dimensions. Where
    structures are compared on a part of the rows, N is the number of those.

    Parameters
    ----------
    covariance : str
        Shape of the model; "any" where everything is chosen.
    settings : ObjectiveSettings
        With the names of components and subspace where it is not.
    n_samples, n_features, n_classes : int
        N, D and K.
    """
    every: Iterable[Structure] = [named_structure(settings.subspace, settings.components, covariance)]
    if covariance == ANY:
        every = _largest(n_samples, n_features, n_classes)
    lengths = [
        (each.components * n_classes, sum(map(prod, _shapes(each, n_features, n_classes).values())))
        for each in every
    ]
    return Room(*map(max, zip(*lengths, strict=True)))


def _largest(n_samples: int, n_features: int, n_classes: int) -> Iterator[Structure]:
    """Of each shape and coordinates the structure of the most Gaussians that a choice tries."""
    part = part_size(n_classes)
    compared = part if n_samples >= 2 * part else n_samples  # a part affords more than the whole
    few = (*range(1, min(MOST_DIMS, n_features) + 1), *wide_dims(n_features, n_classes))
    for subspace in (*few, NONE, DISCRIMINATIVE):
        n_dims = n_features if isinstance(subspace, str) else subspace
        for shape in SHAPES:
            # where all are too dear, one spherical Gaussian a class is tried all the same
            least = int(shape == "spherical")
            many = max(most_components(shape, compared, n_dims, n_classes), least)
            if many:
                yield Structure(subspace, many, shape)
