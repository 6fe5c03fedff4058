"""Features in units that can be compared: how columns are scaled, and what is left as it is."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sweep_clustering.kernels.structure import AUTO

# Range of a column that is scaled in another unit.
SMALL = 1e-140


class Scaling(NamedTuple):
    """Offset and width by which columns are scaled, also those of another table."""

    offset: NDArray[np.float64]
    width: NDArray[np.float64]

    def of(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        """Scale features."""
        return np.asarray((X - self.offset) / self.width)

    def back(self, scaled: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the features that were scaled."""
        return np.asarray(scaled * self.width + self.offset)


def scaling_of(X: NDArray[np.float64], how: str) -> Scaling:
    """Find offset and width of each column.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        Finite features.
    how : {"none", "standard", "minmax", "auto"}
        Leave alone; mean 0 and standard deviation 1 (ddof 0); minimum 0 and maximum 1. The last two
        turn a constant column into zeros. "auto" is "standard" except for the columns of `left_alone`.
    """
    offset, width = np.zeros(X.shape[1]), np.ones(X.shape[1])
    if how == "none":
        return Scaling(offset, width)
    lowest, highest = X.min(axis=0), X.max(axis=0)
    # From the range: rounding gives a constant column a tiny standard deviation above 0.
    constant = lowest == highest
    stays = left_alone(X) if how == AUTO else np.zeros(X.shape[1], bool)
    if how == "minmax":
        offset, width = lowest, highest - lowest
    else:
        # The squares of values this small vanish. By a power of two, which rounds nothing.
        shift = np.where(~constant & (highest - lowest < SMALL), 900, 0)
        larger = np.ldexp(X, shift)
        offset, width = (np.ldexp(value, -shift) for value in (larger.mean(axis=0), larger.std(axis=0)))
    # Zeros of both signs less -0 are 0: a constant column has one bit pattern.
    still = np.where(lowest == 0.0, -0.0, lowest)
    offset, width = np.where(constant, still, offset), np.where(constant, 1.0, width)
    return Scaling(np.where(stays, 0.0, offset), np.where(stays, 1.0, width))


def scale(X: NDArray[np.float64], how: str) -> NDArray[np.float64]:
    """Scale the columns of a table into a new array, see `scaling_of`."""
    return scaling_of(X, how).of(X)


# Standard deviations of columns of one unit are within this factor of each other, such as lengths of petals.
ONE_UNIT = 3.0


def left_alone(X: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Say for each column whether the scale "auto" leaves it as it is.

    Columns of nothing but 0 and 1, which stand for words, stay. So do all others if they seem to have one
    unit: half of them have the same least and the same largest value, as pixels and grades do, or there is
    none of 0 and 1, and their standard deviations are within `ONE_UNIT`.
    """
    lowest, highest = X.min(axis=0), X.max(axis=0)
    coded = ((X == 0.0) | (X == 1.0)).all(axis=0)
    others = np.flatnonzero(~coded & (lowest < highest))
    if len(others) == 0:
        return np.ones(X.shape[1], bool)
    ends = Counter(zip(lowest[others].tolist(), highest[others].tolist(), strict=True))
    are_alike = len(others) > 1 and 2 * ends.most_common(1)[0][1] >= len(others)
    with np.errstate(over="ignore", under="ignore"):
        deviations = X[:, others].std(axis=0)
    is_near = not coded.any() and bool(deviations.max() <= ONE_UNIT * deviations.min())
    return np.asarray(coded | are_alike | is_near)
