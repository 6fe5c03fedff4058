"""What it costs to call a method in a process of its own: one that does nothing."""

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

SIZES = ((150, 4, 225), (1000, 10, 1500), (5000, 50, 7500))
"""Samples, features and annotations."""

CALLS = 300
ROUNDS = 5
"""Of each; the quickest counts."""

EMPTY = """
import numpy as np

def cluster(X, n_clusters, must_link, cannot_link, *, weights, accuracy, random_state):
    return np.zeros(len(X), dtype=np.int16)
"""


def measure() -> dict[str, str]:
    """The table."""
    with MethodProcess() as methods:
        return {TABLE.name: TABLE.markdown(_row(methods, *size) for size in SIZES)}


def _row(methods: MethodProcess, n_samples: int, n_features: int, m: int) -> tuple[str, ...]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_samples, n_features))
    annotations = np.column_stack([rng.integers(n_samples, size=(m, 2)), rng.integers(2, size=m)])
    links = merged_links(annotations)
    call = MethodCall("empty", "empty.py:cluster", EMPTY)
    fresh = count()

    def milliseconds(*, new: bool) -> tuple[float, float]:
        started, cpu_started = time.perf_counter(), time.process_time()
        for _ in range(CALLS):
            methods.solve(
                call,
                (n_samples, next(fresh) if new else -1),
                X,
                n_clusters=3,
                links=links,
                accuracy=0.9,
                random_state=0,
            )
        passed, cpu_passed = time.perf_counter() - started, time.process_time() - cpu_started
        return 1000 * passed / CALLS, 1000 * cpu_passed / CALLS

    same = [milliseconds(new=False) for _ in range(ROUNDS)]
    new = [milliseconds(new=True) for _ in range(ROUNDS)]
    return (
        f"{n_samples:,} × {n_features}",
        f"{len(links.must_link) + len(links.cannot_link):,}",
        f"{min(each[0] for each in same):.2f}",
        f"{min(each[1] for each in same):.2f}",
        f"{min(each[0] for each in new):.2f}",
    )
