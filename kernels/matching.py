"""Matching of two sets of centroids at the least total squared distance."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kernels.data import Floats
from kernels.jit import jit


@jit
def match(cost: Floats) -> NDArray[np.int64]:
    """Assignment of least total cost, by shortest augmenting paths with dual prices: O(K³).

    Parameters
    ----------
    cost : ndarray of shape (n_clusters, n_clusters)
        Finite.

    Returns
    -------
    ndarray of shape (n_clusters,), int64
        Column of each row.
    """
    size = cost.shape[0]
    row_price = np.zeros(size)
    column_price = np.zeros(size)
    row_of = np.full(size, -1, np.int64)
    column_of = np.full(size, -1, np.int64)
    reach = np.empty(size)
    via = np.empty(size, np.int64)
    done = np.empty(size, np.bool_)
    for start in range(size):
        reach[:] = np.inf
        done[:] = False
        row = start
        length = 0.0
        end = -1
        while end < 0:
            nearest = -1
            for column in range(size):
                if not done[column]:
                    through = length + cost[row, column] - row_price[row] - column_price[column]
                    if through < reach[column]:
                        reach[column] = through
                        via[column] = row
                    if nearest < 0 or reach[column] < reach[nearest]:
                        nearest = column
            done[nearest] = True
            length = reach[nearest]
            if row_of[nearest] < 0:
                end = nearest
            else:
                row = row_of[nearest]
        row_price[start] += length
        for column in range(size):
            if done[column] and column != end:
                row_price[row_of[column]] += length - reach[column]
                column_price[column] -= length - reach[column]
        column = end
        while column >= 0:
            row = via[column]
            previous = column_of[row]
            row_of[column] = row
            column_of[row] = column
            column = previous if row != start else -1
    return column_of
