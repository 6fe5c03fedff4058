"""Matching of two sets of centroids at the least total squared distance."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernels.bypointer import by_pointer
from kernels.interrupt import new_flag
from kernels.jit import jit_inner
from kernels.problem.data import Floats


@by_pointer
class Matching(NamedTuple):
    """Costs, the columns matched to the rows, and scratch memory; all axes have n_clusters places."""

    cost: Floats  # (rows, columns), finite
    column_of: NDArray[np.int64]  # result: column of each row
    row_of: NDArray[np.int64]
    row_price: Floats
    column_price: Floats
    reach: Floats
    via: NDArray[np.int64]
    done: NDArray[np.bool_]
    stop: NDArray[np.int64]  # (1,): as of `State`


def new_matching(n_clusters: int, stop: NDArray[np.int64] | None = None) -> Matching:
    """Memory for matchings of `n_clusters` rows and columns."""
    floats = [np.zeros(n_clusters) for _ in range(3)]
    whole = [np.zeros(n_clusters, dtype=np.int64) for _ in range(3)]
    return Matching(
        cost=np.zeros((n_clusters, n_clusters)),
        column_of=whole[0],
        row_of=whole[1],
        row_price=floats[0],
        column_price=floats[1],
        reach=floats[2],
        via=whole[2],
        done=np.zeros(n_clusters, dtype=np.bool_),
        stop=new_flag() if stop is None else stop,
    )


@jit_inner
def match(matching: Matching) -> None:
    """Set `column_of` to the assignment of least cost: shortest augmenting paths, dual prices, O(K³)."""
    cost, column_of, row_of = matching.cost, matching.column_of, matching.row_of
    row_price, column_price = matching.row_price, matching.column_price
    reach, via, done = matching.reach, matching.via, matching.done
    size = cost.shape[0]
    row_price[:] = 0.0
    column_price[:] = 0.0
    row_of[:] = -1
    column_of[:] = -1
    for start in range(size):
        if matching.stop[0] != 0:
            break
        reach[:] = np.inf
        via[:] = start  # for costs that are no numbers, too, the way back ends here
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
            # Prices keep all reduced costs at 0 or more: no later path to this column is shorter.
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
