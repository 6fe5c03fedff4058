"""What features must be for their squares to be numbers: one check for every door."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

LARGEST, LEAST = 1e304, 1e-300
"""Of the sum of all squared deviations, and of their mean: between them squares and sums keep digits."""

MARGIN = 1e6


def spread_problem(X: NDArray[np.float64]) -> tuple[str, str, str] | None:
    """What keeps a table from being clustered.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Features, finite, at least one.

    Returns
    -------
    tuple of str, or None
        What was found, what was expected, and a remedy.
    """
    if (X[0] == X).all():
        return f"{len(X)} rows without any variance", "samples that differ", ""
    # Almost every table is far from both bounds, and told so without copies of it.
    width = max(1, 2**20 // len(X))
    with np.errstate(all="ignore"):
        starts = range(0, X.shape[1], width)
        variance = sum(float(X[:, start : start + width].var(axis=0).sum()) for start in starts) / X.shape[1]
        if variance > LEAST * MARGIN and variance * X.size < LARGEST / MARGIN:
            return None
    # All in units of powers of two, which round nothing: of each column for its mean, of all for the squares.
    halves = 0.5 * X
    exponents = np.frexp(np.abs(halves).max(axis=0))[1]
    means = np.ldexp(_in_units(halves, exponents).mean(axis=0), exponents)
    deviations = halves - means
    exponent = np.frexp(np.abs(deviations).max())[1]
    total = float(np.square(_in_units(deviations, exponent)).sum())
    logs = 2.0 * float(exponent + 1) * math.log(2.0)
    if total > 0.0 and math.log(total) + logs > math.log(LARGEST):
        return "values whose squares overflow", "smaller values", "use another unit"
    if total == 0.0 or math.log(total / X.size) + logs < math.log(LEAST):
        return "values whose squares underflow", "larger values", "use another unit"
    return None


def _in_units(values: NDArray[np.float64], exponents: NDArray[np.intc]) -> NDArray[np.float64]:
    """Values over powers of two; in two steps, as 2^1074 is no number."""
    first = exponents // 2
    found: NDArray[np.float64] = np.ldexp(np.ldexp(values, -first), first - exponents)
    return found
