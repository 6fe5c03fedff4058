"""Shapes of covariances: the dimensions of each, and one shape in the form of a wider one."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from sweep_clustering.kernels.structure import SHAPES, SPACES, STRUCTURE

__all__ = ["STRUCTURE"]

Floats = NDArray[np.float64]

# Words of a structure that stand for numbers, by its part.
STRUCTURE_CODES: dict[str, dict[str, int]] = {
    "subspace": SPACES,
    "covariance": {shape: code for code, shape in enumerate(SHAPES)},
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
}

# Shapes that can be chosen, from the simplest on.
CANDIDATES = ("spherical", "diagonal", "tied", "full")

# Shapes that have scores if every model holds annotations out; the one that is no candidate is last.
SCORED = (*CANDIDATES, "common")

# Whole numbers in a cube that stand for shapes.
CODES = {shape: code for code, shape in enumerate(shape for shape in DIMS if shape not in ("auto", "any"))}


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
