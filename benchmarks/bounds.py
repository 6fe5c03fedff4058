"""What bounds on distances save: `python -m benchmarks bounds [--write]`, two minutes.

The same local searches, from the same partitions and draws, with bounds and by the full scan, in turns. They
end in the same partitions to the bit, or nothing is written. The counted limit is the time that the counted
operations of the search with bounds take in bare loops over its arrays. For each distance these are the
differences, products and sums of all dimensions. For each candidate they are a bound, a gain without a
logarithm, and a comparison.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numba
import numpy as np
from growth import Size, problem, start
from numpy.typing import NDArray
from solving.entries import local_search
from tables import Table

from sweep_clustering.kernels.partition.state import DISTANCES, EVALUATIONS, State, new_state
from sweep_clustering.kernels.problem.data import Data
from sweep_clustering.kernels.search.genetic import warm_up

COLUMNS = ("distances of the full scan's", "time of the full scan's", "time over the counted limit")
TABLE = Table("bounds", ("N × D, K, local search", *COLUMNS))
TABLES = (TABLE,)

CASES = (
    (Size(20_000, 20_000, 8, 10), "posterior"),
    (Size(20_000, 20_000, 20, 10), "posterior"),
    (Size(20_000, 20_000, 20, 10), "conditional"),
    (Size(20_000, 20_000, 20, 64), "conditional"),
    (Size(20_000, 20_000, 100, 10), "conditional"),
    (Size(60_000, 60_000, 100, 10), "conditional"),
    (Size(20_000, 2_000, 20, 10), "posterior"),
    (Size(20_000, 2_000, 100, 10), "posterior"),
)
SEARCHES = 2


class Spent(NamedTuple):
    """Of some local searches: CPU seconds, distances and candidates, and where they ended."""

    seconds: float
    distances: int
    candidates: int
    labels: NDArray[np.int16]


@numba.njit(error_model="numpy")
def distances(Z: NDArray[np.float64], means: NDArray[np.float64], out: NDArray[np.float64]) -> float:
    """Distances of all samples to all centroids, and nothing else."""
    total = 0.0
    for i in range(len(Z)):
        out[:] = 0.0
        for d in range(Z.shape[1]):
            z = Z[i, d]
            for k in range(len(out)):
                step = z - means[d, k]
                out[k] += step * step
        total += out[i % len(out)]
    return total


@numba.njit(error_model="numpy")
def candidates(nearest: NDArray[np.float64], paths: NDArray[np.float64], scale: NDArray[np.float64]) -> int:
    """Bounds of all samples and clusters, as gains that are compared with a limit."""
    n_open = 0
    for i in range(len(nearest)):
        for k in range(len(paths)):
            bound = max(nearest[i, k] - paths[k], 0.0)
            x = bound * bound * scale[k]
            n_open += not (scale[k] - 2.0 * x / (2.0 + x) <= 0.5)
    return n_open


def seconds_of(kernel: Callable[..., Any], *given: Any) -> float:
    """CPU seconds for each sample and cluster: the least of five rounds."""
    found = []
    for _ in range(6):
        begun = time.process_time()
        kernel(*given)
        found.append(time.process_time() - begun)
    return min(found[1:]) / (len(given[0]) * given[-1].shape[-1])


def search(data: Data, state: State, seed: int) -> Spent:
    """A local search from a partition made as those of a search are."""
    rng = np.random.default_rng(seed)
    start(data, state, rng)
    begun = time.process_time()
    local_search(data, state, rng)
    return Spent(
        time.process_time() - begun, *map(int, state.counters[[DISTANCES, EVALUATIONS]]), state.labels.copy()
    )


def row(size: Size, model: str) -> tuple[Any, ...]:
    """Two local searches each way, in turns."""
    data = problem(size, model)
    bounded = new_state(data)
    scan = new_state(data)._replace(nearest=np.zeros((0, data.n_clusters)))
    spent: dict[str, list[Spent]] = {"bounds": [], "scan": []}
    for seed in range(SEARCHES):
        for name, state in (("bounds", bounded), ("scan", scan)):
            spent[name].append(search(data, state, seed))
        if not np.array_equal(spent["bounds"][-1].labels, spent["scan"][-1].labels):
            raise RuntimeError(f"bounds changed a partition: {size}, {model}")
    seconds, n_distances, n_candidates = (
        {name: sum(each[what] for each in found) for name, found in spent.items()} for what in range(3)
    )
    K = data.n_clusters
    limit = n_distances["bounds"] * seconds_of(distances, data.Z, bounded.means, np.zeros(K))
    near = np.random.default_rng(0).random((len(data.Z), K))
    limit += n_candidates["bounds"] * seconds_of(candidates, near, np.zeros(K), np.ones(K))
    some = "" if size.m == size.N else f", {size.m:,} pairs"
    return (
        f"{size.N:,} × {size.D}, {size.K}, {model}{some}",
        f"{n_distances['bounds'] / n_distances['scan']:.2f}",
        f"{seconds['bounds'] / seconds['scan']:.2f}",
        f"{seconds['bounds'] / limit:.1f}",
    )


def measure() -> dict[str, str]:
    """Table for the documents."""
    warm_up()
    row(replace(CASES[0][0], N=500, m=500), "posterior")
    return {TABLE.name: TABLE.markdown([row(*case) for case in CASES])}
