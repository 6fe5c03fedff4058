"""Compiled arithmetic on eight lanes has the bits of numpy."""

import numpy as np
from solving.entries import plain_kernel

from sweep_clustering.kernels.jit import jit, jit_part
from sweep_clustering.kernels.lanes import LANES, are_all, choose, load, look_up, spread, store


@jit_part
def double(row: np.ndarray, first: int) -> np.ndarray:
    return load(row, first) * 2.0


@jit
def evaluate(rows: np.ndarray, table: np.ndarray, results: np.ndarray) -> None:
    left, right = double(rows[0], 0), load(rows[0], LANES)
    store(results[0], 0, choose(left < right, left - 1.0, right))
    store(results[0], LANES, choose(right <= left, 0.5, right))
    store(results[1], 0, look_up(table, load(rows[1], 0)))
    store(results[1], LANES, spread(3.0) / right)
    left += 1.0 / right
    left -= right
    left *= right
    store(results[2], 0, choose(load(rows[1], 0) == 3.0, left, -1.0))
    store(results[2], LANES, 0.25)
    results[3, 0] = are_all(left < spread(np.inf))
    results[3, 1] = are_all(right <= right)
    results[3, 2] = are_all(right < right)


def test_lanes_have_the_bits_of_numpy() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(2, 2 * LANES))
    rows[1, :LANES] = rng.permutation(LANES)
    table = rng.normal(size=LANES)
    compiled, expected = np.zeros((2, 4, 2 * LANES))
    evaluate(rows, table, compiled)
    plain_kernel(evaluate)(rows, table, expected)
    np.testing.assert_array_equal(compiled, expected)
    assert compiled[3, :3].tolist() == [1.0, 1.0, 0.0]
