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

# Dimensions of the covariance of one cluster, by shape; clusters that share theirs each have a copy.
#
# Where the shape is chosen there is room for the widest.
DIMS: dict[str, tuple[str, ...]] = {
    "spherical": (),
    "common": (),
    "diagonal": ("feature",),
    "tied": ("feature", "feature_2"),
    "full": ("feature", "feature_2"),
    "auto": ("feature", "feature_2"),
    "any": (),  # of each class one variance, whatever its components have
}

# Shapes that can be chosen, from the simplest on.
CANDIDATES = ("spherical", "diagonal", "tied", "full")

# Shapes that have scores where every model holds annotations out: the other one last.
SCORED = (*CANDIDATES, "common")

# Whole numbers in a cube that stand for shapes.
CODES = {shape: code for code, shape in enumerate(shape for shape in DIMS if shape not in ("auto", "any"))}


def widest_dims(shapes: Iterable[str]) -> tuple[str, ...]:
    """Dimensions of the widest of some shapes."""
    return max((DIMS[shape] for shape in shapes), key=len, default=())


def widened(covariances: Floats, n_axes: int, n_features: int) -> Floats:
    """Covariances in a form of more axes: a variance for all features as a diagonal, that as a matrix.

    Parameters
    ----------
    covariances : ndarray of shape (n_clusters, ...)
        Of a solution, in the form of its shape: no, one or two axes of n_features beside the clusters.
    n_axes : int
        Axes of a cluster that are wanted: 0, 1 or 2.
    n_features : int
        D.

    Returns
    -------
    ndarray of n_axes + 1 axes
        `narrowed` gives back the same bits.

    Raises
    ------
    ValueError
        If the covariances have more axes already.
    """
    wide = np.asarray(covariances)
    if wide.ndim > n_axes + 1:
        raise ValueError(f"covariances of shape {wide.shape}, expected at most {n_axes + 1} axes")
    if wide.ndim == 1 and n_axes > 0:
        wide = np.repeat(wide[:, None], n_features, axis=1)
    if wide.ndim == 2 and n_axes > 1:
        matrices = np.zeros((*wide.shape, n_features))
        diagonal = np.arange(n_features)
        matrices[:, diagonal, diagonal] = wide
        return matrices
    return wide


def narrowed(covariances: Floats, shape: str) -> Floats:
    """Covariances in the form of their own shape, of those in a form that is as wide or wider.

    Parameters
    ----------
    covariances : ndarray of shape (n_clusters, ...)
        As a cube holds them.
    shape : str
        One of `DIMS`.

    Raises
    ------
    ValueError
        If the form is narrower than the shape.
    """
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
