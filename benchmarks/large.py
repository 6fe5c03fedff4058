"""Fits without options of tables of full size, beside k-means: `python -m benchmarks large [--write]`.

Mixtures of spherical Gaussians whose neighbours overlap, and as many pairs as samples, nine in ten of them
right. Each fit is in a process of its own on all cores, after k-means (scikit-learn, one start) in the same
process. Takes five minutes on two cores.
"""

import multiprocessing
import resource
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from tables import Table

from kernels import components
from kernels.scores import adjusted_rand
from pipeline import AnnotatedClustering

RIGHT = 0.9
COLUMNS = ("N × D, K", "k-means, s", "ARI", "fit, s", "ARI", "times k-means", "GiB", "what was chosen")
TABLE = Table("large", COLUMNS)
TABLES = (TABLE,)


class Size(NamedTuple):
    """A table: samples, features and classes, and the deviation of a centre in units of that in a class."""

    n_samples: int
    n_features: int
    n_classes: int
    apart: float


SIZES = (
    Size(20_000, 64, 20, 0.4),
    Size(5_000, 384, 20, 0.25),
    Size(20_000, 768, 20, 0.2),
    Size(60_000, 10, 100, 1.6),
)


class Found(NamedTuple):
    """Seconds and ARI of k-means and of the fit, memory in GiB, and what the classes are made of."""

    kmeans_seconds: float
    kmeans: float
    seconds: float
    ari: float
    memory: float
    chosen: str


def drawn(size: Size) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """Samples, their classes, pairs, and whether each is said to be together."""
    rng = np.random.default_rng(0)
    labels = rng.integers(size.n_classes, size=size.n_samples)
    centers = size.apart * rng.standard_normal((size.n_classes, size.n_features))
    X = rng.standard_normal((size.n_samples, size.n_features)) + centers[labels]
    pairs = rng.integers(size.n_samples, size=(size.n_samples, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    together = labels[pairs[:, 0]] == labels[pairs[:, 1]]
    return X, labels, pairs, together ^ (rng.random(len(pairs)) > RIGHT)


def measured(size: Size) -> Found:
    """One table, in a process that does nothing else."""
    X, labels, pairs, together = drawn(size)
    components.warm_up()
    begun = time.perf_counter()
    found = KMeans(size.n_classes, n_init=1, random_state=0).fit_predict(X)
    kmeans_seconds, begun = time.perf_counter() - begun, time.perf_counter()
    estimator = AnnotatedClustering(size.n_classes, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator.fit(X, must_link=pairs[together], cannot_link=pairs[~together])
    seconds = time.perf_counter() - begun
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    aris = (adjusted_rand(labels, np.asarray(each, np.int64)) for each in (found, estimator.labels_))
    kmeans, ari = aris
    return Found(kmeans_seconds, kmeans, seconds, ari, memory, estimator.choice_.partition(";")[0])


def measure() -> dict[str, str]:
    """The table."""
    rows = []
    for size in SIZES:
        spawn = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(1, mp_context=spawn) as alone:
            found = alone.submit(measured, size).result()
        shape = f"{size.n_samples:,} × {size.n_features}, {size.n_classes}"
        kmeans = f"{found.kmeans_seconds:.1f}", f"{found.kmeans:.3f}"
        ours = f"{found.seconds:.0f}", f"{found.ari:.3f}", f"{found.seconds / found.kmeans_seconds:.0f}"
        rows.append((shape, *kmeans, *ours, f"{found.memory:.1f}", found.chosen))
    return {TABLE.name: TABLE.markdown(rows)}
