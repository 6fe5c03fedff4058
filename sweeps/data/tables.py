"""A table of samples with their classes: its checksum, its scaling."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sweeps.scales import SCALES

SMALL = 1e-140
"""Range of a column that is scaled in another unit."""


class SampleRows(NamedTuple):
    """The rows of a file that samples come from.

    Parameters
    ----------
    n_rows : int
        Rows of the file.
    kept : array of int, or None
        Positions of the rows that are samples, ascending; None if all are.
    names : tuple of str
        Name of every row of the file; empty if it has no names.
    """

    n_rows: int
    kept: NDArray[np.intp] | None = None
    names: tuple[str, ...] = ()

    @property
    def kept_names(self) -> tuple[str, ...]:
        """Names of the samples."""
        if self.kept is None or not self.names:
            return self.names
        return tuple(self.names[row] for row in self.kept.tolist())


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
    rows : SampleRows or None
        What the samples are in the file; None where they are its rows, one after the other, without names.
    notes : tuple of str
        What to know of the columns before the table is used.
    """

    X: NDArray[np.float64]
    labels_true: NDArray[np.int16] | None
    class_names: tuple[str, ...]
    feature_names: tuple[str, ...] = ()
    aside: tuple[tuple[str, ...], ...] = ()
    rows: SampleRows | None = None
    notes: tuple[str, ...] = ()

    @property
    def sample_names(self) -> tuple[str, ...]:
        """Names of the samples; empty if the table has none."""
        return self.rows.kept_names if self.rows else ()

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
    # Of values this small the squares vanish. By a power of two, which rounds nothing.
    small = ~constant & (highest - lowest < SMALL)
    X, lowest, highest = (np.ldexp(values, np.where(small, 900, 0)) for values in (X, lowest, highest))
    if how == "standard":
        offset, width = X.mean(axis=0), X.std(axis=0)
    else:
        offset, width = lowest, highest - lowest
    scaled: NDArray[np.float64] = (X - offset) / np.where(constant, 1.0, width)
    scaled[:, constant] = 0.0
    return scaled
