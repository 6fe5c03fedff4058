"""Fit one mixture without options, and print the cost as JSON: `python one_fit.py N D K DISTANCE THREADS`.

`versions` runs it with the package of another commit in `PYTHONPATH`, so it needs only the estimator. The
costs are those of the fit alone, because a small fit goes first and loads the compiled code.
"""

import json
import resource
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import adjusted_rand_score

from sweep_clustering import AnnotatedClustering

PAGE = resource.getpagesize()


def measure_fit(n: int, d: int, k: int, distance: float, threads: int) -> dict[str, Any]:
    """Return CPU seconds, memory above the start in copies of the table, and ARI of a fit to a mixture."""
    rng = np.random.default_rng(0)
    labels, centers = rng.integers(k, size=n), distance * rng.standard_normal((k, d))
    X = rng.standard_normal((n, d)) + centers[labels]
    pairs = rng.integers(n, size=(n, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    is_must = (labels[pairs[:, 0]] == labels[pairs[:, 1]]) ^ (rng.random(len(pairs)) > 0.9)
    resident = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * PAGE
    start_time = time.process_time()
    estimator = AnnotatedClustering(k, random_state=0, n_jobs=threads)
    estimator.fit(X, must_link=pairs[is_must], cannot_link=pairs[~is_must])
    seconds = time.process_time() - start_time
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    ari = adjusted_rand_score(labels, estimator.labels_)
    return {"seconds": seconds, "tables": (peak - resident) / X.nbytes, "ari": ari}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    measure_fit(300, 3, 3, 2.0, 1)
    n, d, k, distance, threads = sys.argv[1:]
    print(json.dumps(measure_fit(int(n), int(d), int(k), float(distance), int(threads))))  # noqa: T201
