"""Gaussians that classes are unions of, as cubes and journals keep them: rows of three arrays.

`Gaussians` are those of one cell, `room_for` says how long the rows of all cells of a search are. One row has
the class of each Gaussian, one its proportion, and one all other numbers, one after the other: the codes of
the structure, means, covariances (of a matrix the lower triangle, row by row), the centre of the features and
the axes. So a row is no longer than what was fitted, whatever its shape and its coordinates.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

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


@dataclass(frozen=True, slots=True, eq=False)
class Gaussians:
    """Gaussians that the classes of a cell are unions of, in the coordinates that were chosen.

    Parameters
    ----------
    structure : Structure
        What was fitted.
    class_of : ndarray of shape (n_components,)
        Class of each.
    weights : ndarray of shape (n_components,)
        Proportions.
    means : ndarray of shape (n_components, n_dims)
        In units of the coordinates.
    covariances : ndarray of shape (n_components, n_dims) or (n_components, n_dims, n_dims)
        Variances, or matrices; one matrix if tied.
    center : ndarray of shape (n_features,)
        Means of the features.
    axes : ndarray of shape (n_features, n_dims), or None
        Directions of the coordinates; None for the features themselves.
    """

    structure: Structure
    class_of: NDArray[np.integer]
    weights: Floats
    means: Floats
    covariances: Floats
    center: Floats
    axes: Floats | None

    def place(self, X: Floats) -> Floats:
        """Coordinates of samples, of shape (n_samples, n_dims)."""
        return X - self.center if self.axes is None else (X - self.center) @ self.axes

    @property
    def matrices(self) -> Floats:
        """Covariances as a matrix for each, of shape (n_components, n_dims, n_dims)."""
        if self.covariances.ndim == 2:
            return self.covariances[:, :, None] * np.eye(self.means.shape[1])
        return np.array(np.broadcast_to(self.covariances, (len(self.means), *self.covariances.shape[1:])))

    def rows(self, room: Room | None = None) -> dict[str, NDArray[Any]]:
        """Rows by `ROWS`, with fill values up to the lengths of a room, or no longer than they have to be.

        Raises
        ------
        ValueError
            If the room is less than they take, as that of cubes of earlier releases may be.
        """
        covariances, axes = self.covariances, np.empty(0) if self.axes is None else self.axes
        if covariances.ndim == 3:
            covariances = covariances[:, *np.tril_indices(covariances.shape[1])]
        parts = [np.array(self.structure.codes), self.means, covariances, self.center, axes]
        values = np.concatenate([np.asarray(each, np.float64).ravel() for each in parts])
        components, entries = room or Room(len(self.class_of), len(values))
        if components < len(self.class_of) or entries < len(values):
            least = f"found {self.structure} in rows of {len(self.class_of)} and {len(values)}"
            most = f"expected at most {components} and {entries}"
            raise ValueError(f"{least}, {most}: a cube of an earlier release; submit under another name")
        found = (
            _filled(np.asarray(self.class_of, np.int16), components, -1),
            _filled(self.weights, components, np.nan),
            _filled(values, entries, np.nan),
        )
        return dict(zip(ROWS, found, strict=True))

    @classmethod
    def of(cls, rows: Mapping[str, NDArray[Any]], n_features: int, n_classes: int) -> Gaussians | None:
        """The Gaussians of rows; None of those of a cell that has none.

        Raises
        ------
        ValueError
            If they are rows of nothing that was fitted.
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
        for name, each in right.items():
            if not each.all():
                raise ValueError(f"{int((~each).sum())} {name} of Gaussians that cannot be: {structure}")
        parts = np.split(values[: ends[-1]], ends[:-1])
        found = {name: part.reshape(shapes[name]) for name, part in zip(shapes, parts, strict=True)}
        n_dims, covariances = found["means"].shape[1], found["covariances"]
        if structure.covariance in ("tied", "full"):
            at, packed = np.tril_indices(n_dims), covariances
            covariances = np.empty((len(packed), n_dims, n_dims))
            covariances[:, *at] = covariances[:, *at[::-1]] = packed
        # copies: a view would keep the arrays of a whole block, or of a record, in memory
        return cls(
            structure=structure,
            class_of=class_of[:many].copy(),
            weights=weights[:many].copy(),
            means=found["means"].copy(),
            covariances=covariances.copy(),
            center=found["center"].copy(),
            axes=None if structure.subspace == NONE else found["axes"].copy(),
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
