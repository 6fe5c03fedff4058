"""A table of samples with their classes: its checksum, its scaling."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sweeps.scales import SCALES


class LabelledTable(NamedTuple):
    """Samples, unscaled.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        Features.
    labels_true : array of shape (n_samples,) or None
        Positions in `class_names`.
    class_names : tuple of str
        Sorted classes; empty without labels.
    feature_names : tuple of str
        By the header of the file; empty if it has none.
    aside : tuple of (tuple of str)
        Texts of the columns left out of the features, one for each row; of each column asked for.
    """

    X: NDArray[np.float64]
    labels_true: NDArray[np.int16] | None
    class_names: tuple[str, ...]
    feature_names: tuple[str, ...] = ()
    aside: tuple[tuple[str, ...], ...] = ()

    def checksum(self) -> str:
        """Sha256 over the shape, the features and the class codes, all little-endian.

        The names of the classes are left out: sources of one table spell them differently.
        """
        digest = hashlib.sha256(np.array(self.X.shape, dtype="<i8").tobytes())
        digest.update(np.ascontiguousarray(self.X, dtype="<f8").tobytes())
        if self.labels_true is not None:
            digest.update(np.ascontiguousarray(self.labels_true, dtype="<i2").tobytes())
        return digest.hexdigest()


def scale(X: NDArray[np.float64], how: str) -> NDArray[np.float64]:
    """Scale the columns of a table.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        Finite features.
    how : {"none", "standard", "minmax"}
        Leave alone; mean 0 and standard deviation 1 (ddof 0); minimum 0 and maximum 1. The last two
        turn a constant column into zeros.

    Returns
    -------
    array of shape (n_samples, n_features)
        A new array.

    Raises
    ------
    ValueError
        If `how` is none of these.
    """
    if how not in SCALES:
        raise ValueError(f"scale = {how!r}, expected one of {', '.join(SCALES)}")
    if how == "none":
        return X.astype(np.float64)
    lowest, highest = X.min(axis=0), X.max(axis=0)
    # From the range: rounding gives a constant column a tiny standard deviation above 0.
    constant = lowest == highest
    if how == "standard":
        offset, width = X.mean(axis=0), X.std(axis=0)
    else:
        offset, width = lowest, highest - lowest
    scaled: NDArray[np.float64] = (X - offset) / np.where(constant, 1.0, width)
    scaled[:, constant] = 0.0
    return scaled
