"""Answers about pairs of rows, right or wrong, are layers of annotations."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweep_clustering.kernels.problem.data import CANNOT, MUST, Layer


def are_alike(labels: NDArray[Any], pairs: NDArray[Any]) -> NDArray[np.bool_]:
    """Return whether both rows of each pair are of one class."""
    return np.equal(labels[pairs[:, 0]], labels[pairs[:, 1]])


def layers_of(pairs: NDArray[Any], is_must: NDArray[np.bool_], **fields: Any) -> list[Layer]:
    """Return a layer of must-links and one of cannot-links."""
    return [Layer(MUST, pairs[is_must], **fields), Layer(CANNOT, pairs[~is_must], **fields)]


def answered(
    pairs: NDArray[Any], labels: NDArray[Any], rng: np.random.Generator, *, right: float, **fields: Any
) -> list[Layer]:
    """Draw answers about pairs, a share of which is right."""
    return layers_of(pairs, are_alike(labels, pairs) == (rng.random(len(pairs)) < right), **fields)
