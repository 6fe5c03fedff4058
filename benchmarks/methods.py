"""Measure the cost to call a method in a process of its own: the method does nothing."""

import time
from itertools import count

import numpy as np
from tables import Table

from sweep_clustering.pipeline.methods.contract import merged_links
from sweep_clustering.pipeline.methods.loading import MethodCall
from sweep_clustering.pipeline.methods.process import MethodProcess

TABLE = Table(
    "methods",
    ("samples × features", "links", "ms a call", "of it CPU of the worker", "ms with a new table"),
)
TABLES = (TABLE,)

# Samples, features and annotations.
SIZES = ((150, 4, 225), (1000, 10, 1500), (5000, 50, 7500))

CALLS = 300
# Rounds of each measurement; the quickest counts.
ROUNDS = 5

EMPTY = """
import numpy as np

def cluster(X, n_clusters, must_link, cannot_link, *, weights, accuracy, random_state):
    return np.zeros(len(X), dtype=np.int16)
"""


def measure() -> dict[str, str]:
    """Return the table."""
    with MethodProcess() as methods:
        return {TABLE.name: TABLE.markdown(_row(methods, *size) for size in SIZES)}


def _row(methods: MethodProcess, n_samples: int, n_features: int, m: int) -> tuple[str, ...]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_samples, n_features))
    annotations = np.column_stack([rng.integers(n_samples, size=(m, 2)), rng.integers(2, size=m)])
    links = merged_links(annotations)
    call = MethodCall("empty", "empty.py:cluster", EMPTY)
    numbers = count()

    def milliseconds(*, new: bool) -> tuple[float, float]:
        start_time, cpu_began = time.perf_counter(), time.process_time()
        for _ in range(CALLS):
            methods.solve(
                call,
                (n_samples, next(numbers) if new else -1),
                X,
                n_clusters=3,
                links=links,
                accuracy=0.9,
                random_state=0,
            )
        seconds, cpu_seconds = time.perf_counter() - start_time, time.process_time() - cpu_began
        return 1000 * seconds / CALLS, 1000 * cpu_seconds / CALLS

    same = [milliseconds(new=False) for _ in range(ROUNDS)]
    new = [milliseconds(new=True) for _ in range(ROUNDS)]
    return (
        f"{n_samples:,} × {n_features}",
        f"{len(links.must_link) + len(links.cannot_link):,}",
        f"{min(times[0] for times in same):.2f}",
        f"{min(times[1] for times in same):.2f}",
        f"{min(times[0] for times in new):.2f}",
    )
