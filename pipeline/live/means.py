"""Scores of cells as they come in: NMI of many at once, and means with their standard errors."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Units = dict[int, tuple[float, int]]
"""Sum and number of the scores of each unit: of a mixture, or of a redraw of the annotations."""


def nmi_of_many(labels_true: NDArray[np.integer], labels: NDArray[np.integer]) -> NDArray[np.float64]:
    """NMI of several solutions of the same data, as `kernels.scores.nmi` has it of one with "min".

    Parameters
    ----------
    labels_true : array of int, shape (n_samples,)
        True classes, from 0.
    labels : array of int, shape (n_cells, n_samples)
        Clusters, from 0.

    Returns
    -------
    array of float64, shape (n_cells,)
        In [0, 1]; docs/model.md, eq. (27).
    """
    n_cells, n_samples = labels.shape
    classes, clusters = int(labels_true.max()) + 1, int(labels.max()) + 1
    size = classes * clusters
    at = (np.arange(n_cells) * size)[:, None] + labels_true.astype(np.int64) * clusters + labels
    joint = np.bincount(at.ravel(), minlength=n_cells * size).reshape(n_cells, classes, clusters) / n_samples
    rows, columns = joint.sum(axis=2), joint.sum(axis=1)
    of_true, of_found = _entropy(rows), _entropy(columns)
    information = of_true + of_found - _entropy(joint.reshape(n_cells, size))
    least = np.minimum(of_true, of_found)
    one_class = (rows > 0).sum(axis=1) == 1, (columns > 0).sum(axis=1) == 1
    with np.errstate(invalid="ignore", divide="ignore"):
        value = np.clip(information / least, 0.0, 1.0)
    value[one_class[0] | one_class[1]] = 0.0
    value[one_class[0] & one_class[1]] = 1.0
    return value


def _entropy(share: NDArray[np.float64]) -> NDArray[np.float64]:
    """Nats, of each row."""
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(share > 0, share * np.log(share), 0.0)
    return -np.asarray(terms.sum(axis=1), dtype=np.float64)


class Means:
    """Mean of a score over units that were drawn independently, and its standard error.

    The unit is the mixture, or the redraw of the annotations where there are no mixtures; the score of a
    unit is the mean over its cells.
    """

    __slots__ = ("_units",)

    def __init__(self) -> None:
        self._units: Units = {}

    def add(self, unit: int, score: float) -> None:
        """Take the score of a cell."""
        total, count = self._units.get(unit, (0.0, 0))
        self._units[unit] = total + score, count + 1

    def summary(self) -> tuple[float, float | None, int]:
        """Mean, its standard error (None of one unit), and the number of units."""
        values = [total / count for total, count in self._units.values()]
        n = len(values)
        mean = math.fsum(values) / n
        if n == 1:
            return mean, None, 1
        variance = math.fsum((value - mean) ** 2 for value in values) / (n - 1)
        return mean, math.sqrt(variance / n), n
