"""What links say of each other: samples that must-links join, and cannot-links between such sets."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from pipeline.methods.contract import Links


def must_components(n_samples: int, must_link: Links) -> NDArray[np.int64]:
    """Number of the set of each sample: those that a chain of must-links joins.

    Parameters
    ----------
    n_samples : int
        Of all samples; one without must-links is a set of its own.
    must_link : ndarray of shape (n_pairs, 2)
        Pairs.

    Returns
    -------
    ndarray of shape (n_samples,)
        From 0.
    """
    ones = np.ones(len(must_link), dtype=np.int8)
    joined = coo_array((ones, (must_link[:, 0], must_link[:, 1])), shape=(n_samples, n_samples))
    return np.asarray(connected_components(joined, directed=False)[1], dtype=np.int64)


def contradicted(components: NDArray[np.int64], cannot_link: Links) -> Links:
    """Cannot-links within a set that must-links join: no clusters keep all of these links."""
    within: Links = cannot_link[components[cannot_link[:, 0]] == components[cannot_link[:, 1]]]
    return within
