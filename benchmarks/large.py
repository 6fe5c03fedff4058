"""Large tables, ours beside others: `python -m benchmarks large [--write]`, three quarters of an hour.

The tables are mixtures of spherical Gaussians whose neighbours overlap, and the sets of the clustering suite
above 3,600 rows that are below ../shared/data/suite. Nine of ten pairs are right. Every run is a process of
its own on all cores, and methods take turns on each table. PCKMeans of active-semi-supervised-clustering
refuses answers that contradict each other, so it gets right answers. It is left out if it is not installed.
"""

import math
import multiprocessing
import resource
import time
import warnings
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

import click
import numpy as np
from checkout import SHARED
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.mixture import GaussianMixture
from suite import LARGEST, read
from tables import Table

from sweep_clustering import AnnotatedClustering
from sweep_clustering.kernels.scores import adjusted_rand
from sweep_clustering.pipeline.methods.shipped.links import pckmeans

RIGHT = 0.9
PATIENCE = 60.0  # seconds after which a run is ended
SUITE = SHARED / "data" / "suite"
PEER = "active_semi_clustering"

SIZES = Table("large", ("N × D, K", "k-means, s", "ARI", "fit, s", "ARI", "GiB", "what was chosen"))
SETS = Table("large/suite", ("set", "N × D, K", "k-means, s", "ARI", "mixture, s", "ARI", "fit, s", "ARI"))
TENFOLD = ("N × 10", "K × 10", "D × 10", "m × 10")
GROWTH = Table("large/growth", ("seconds, ARI", "2,000 × 10, K = 5, m = N", *TENFOLD, "exponents"))
TABLES = (SIZES, SETS, GROWTH)


class Size(NamedTuple):
    """A mixture: samples, features, classes, distance of centres, and pairs a sample.

    `distance` is the deviation of a centre in each feature, in units of the deviation in a class.
    """

    n_samples: int
    n_features: int
    n_classes: int
    distance: float
    pairs: float = 1.0

    def __str__(self) -> str:
        return _shape(self.n_samples, self.n_features, self.n_classes)


LARGE = (
    Size(20_000, 64, 20, 0.4),
    Size(5_000, 384, 20, 0.25),
    Size(20_000, 768, 20, 0.2),
    Size(20_000, 1_536, 20, 0.12),
    Size(60_000, 768, 100, 0.2),
    Size(60_000, 100, 100, 0.35),
    Size(60_000, 10, 100, 1.6),
    Size(1_000_000, 10, 10, 1.0),
)
BASE = Size(2_000, 10, 5, 1.0)
LARGER = (
    BASE._replace(n_samples=20_000),
    BASE._replace(n_classes=50, distance=1.4),
    BASE._replace(n_features=100, distance=0.33),
    BASE._replace(pairs=10.0),
)


class Problem(NamedTuple):
    """A table with answers about pairs."""

    X: NDArray[np.float64]
    labels: NDArray[np.int64]
    must: NDArray[np.int64]
    cannot: NDArray[np.int64]

    @property
    def n_classes(self) -> int:
        """Return the number of classes."""
        return int(self.labels.max()) + 1


def problem_of(source: Size | str) -> Problem:
    """Return a mixture, or a set of the suite by its name, with uniform pairs."""
    rng = np.random.default_rng(0)
    if isinstance(source, str):
        X, classes = read(SUITE, source)
        labels, share = classes.astype(np.int64), 1.0
    else:
        labels, share = rng.integers(source.n_classes, size=source.n_samples), source.pairs
        centers = source.distance * rng.standard_normal((source.n_classes, source.n_features))
        X = rng.standard_normal((source.n_samples, source.n_features)) + centers[labels]
    pairs = rng.integers(len(X), size=(int(share * len(X)), 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    is_must = (labels[pairs[:, 0]] == labels[pairs[:, 1]]) ^ (rng.random(len(pairs)) > RIGHT)
    return Problem(X, labels, pairs[is_must], pairs[~is_must])


# Methods return the labels of a problem, and the choice.


def fit_ours(problem: Problem, **settings: Any) -> tuple[NDArray[np.integer], str]:
    """Fit our estimator."""
    estimator = AnnotatedClustering(problem.n_classes, random_state=0, **settings)
    estimator.fit(problem.X, must_link=problem.must, cannot_link=problem.cannot)
    return estimator.labels_, (estimator.choice_ or "").partition(";")[0]


def fit_mixture(problem: Problem, shape: str) -> tuple[NDArray[np.integer], str]:
    """Fit a mixture of scikit-learn, which sees no pairs."""
    return GaussianMixture(problem.n_classes, covariance_type=shape, random_state=0).fit_predict(
        problem.X
    ), ""


def fit_pckmeans(problem: Problem) -> tuple[NDArray[np.integer], str]:
    """Fit the shipped method "pckmeans"."""
    weights = np.ones(len(problem.must)), np.ones(len(problem.cannot))
    data = (problem.X, problem.n_classes, problem.must, problem.cannot)
    return np.asarray(pckmeans(*data, weights=weights, random_state=0).labels), ""


def fit_peer(problem: Problem) -> tuple[NDArray[np.integer], str]:
    """Fit PCKMeans of active-semi-supervised-clustering, with the right answer to each pair."""
    PCKMeans = import_module(f"{PEER}.semi_supervised.pairwise_constraints").PCKMeans
    pairs = np.concatenate([problem.must, problem.cannot])
    is_must = problem.labels[pairs[:, 0]] == problem.labels[pairs[:, 1]]
    must, cannot = ([tuple(pair) for pair in pairs[is_kind].tolist()] for is_kind in (is_must, ~is_must))
    model = PCKMeans(n_clusters=problem.n_classes)
    model.fit(problem.X, ml=must, cl=cannot)
    return np.asarray(model.labels_), ""


METHODS: dict[str, Callable[[Problem], tuple[NDArray[np.integer], str]]] = {
    "no options": lambda problem: fit_ours(problem),
    "conditional, full": lambda problem: fit_ours(problem, model="conditional", covariance="full"),
    "conditional, spherical": lambda problem: fit_ours(problem, model="conditional", covariance="spherical"),
    "posterior": lambda problem: fit_ours(problem, model="posterior", accuracy=RIGHT),
    "pckmeans": fit_pckmeans,
    "PCKMeans of active-semi-supervised-clustering, right answers": fit_peer,
    "gaussian mixture, full, of scikit-learn": lambda problem: fit_mixture(problem, "full"),
    "gaussian mixture, spherical, of scikit-learn": lambda problem: fit_mixture(problem, "spherical"),
    "k-means of scikit-learn": lambda problem: (
        KMeans(problem.n_classes, n_init=1, random_state=0).fit_predict(problem.X),
        "",
    ),
}
OURS = "no options"
KMEANS = "k-means of scikit-learn"
MIXTURE = "gaussian mixture, full, of scikit-learn"


class Cost(NamedTuple):
    """Seconds, ARI, memory of the process in GiB, and what the classes are made of."""

    seconds: float
    ari: float
    memory: float
    structure: str


def _run(method: str, source: Size | str, answer: Any) -> None:
    """Send the cost of a fit. A small fit goes first, so that imports and compiled code are loaded."""
    warnings.simplefilter("ignore")
    problem, small = problem_of(source), problem_of(Size(300, 3, 3, 2.0))
    METHODS[method](small)
    start_time = time.perf_counter()
    labels, choice = METHODS[method](problem)
    seconds = time.perf_counter() - start_time
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    answer.send(Cost(seconds, adjusted_rand(problem.labels, labels.astype(np.int64)), memory, choice))


def measure_fit(method: str, source: Size | str, patience: float = math.inf) -> Cost | None:
    """Return the cost of a fit in a process of its own, or None if it takes too long."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe()
    process = context.Process(target=_run, args=(method, source, sender))
    process.start()
    sender.close()
    try:
        # The process also reads, draws and loads.
        is_done = receiver.poll(None if math.isinf(patience) else patience + 30.0)
        cost: Cost | None = receiver.recv() if is_done else None
    except EOFError:
        cost = None
    process.kill()
    process.join()
    return cost if cost is not None and cost.seconds <= patience else None


# Tables.


def sizes() -> Iterator[tuple[str, ...]]:
    """Yield a row for each goal of one fit without options."""
    for size in LARGE:
        kmeans, fit = measure_fit(KMEANS, size), measure_fit(OURS, size)
        assert kmeans is not None
        assert fit is not None
        yield str(size), *_pair(kmeans), *_pair(fit), f"{fit.memory:.1f}", fit.structure


def sets() -> Iterator[tuple[str, ...]]:
    """Yield a row for each set of the suite that its own benchmark leaves out for its size."""
    for path in sorted(SUITE.glob("*/*.data.gz")):
        name = f"{path.parent.name}/{path.name.removesuffix('.data.gz')}"
        problem = problem_of(name)
        if len(problem.X) <= LARGEST:
            continue
        costs = [measure_fit(method, name) for method in (KMEANS, MIXTURE, OURS)]
        n_samples, n_features = problem.X.shape
        shape = _shape(n_samples, n_features, problem.n_classes)
        yield name, shape, *(text for cost in costs for text in _pair(cost))


def growth() -> Iterator[tuple[str, ...]]:
    """Yield a row for each method on one table, and on tables that are ten times as large in one way."""
    names = [name for name in METHODS if METHODS[name] is not fit_peer or find_spec(PEER)]
    if len(names) < len(METHODS):
        click.echo(f"left out because it is not installed: {PEER}")
    costs = {(name, size): measure_fit(name, size, PATIENCE) for size in (BASE, *LARGER) for name in names}
    for name in names:
        base, *larger = (costs[name, size] for size in (BASE, *LARGER))
        yield name, *map(_text, (base, *larger)), ", ".join(_exponent(base, cost) for cost in larger)


def _shape(n_samples: int, n_features: int, n_classes: int) -> str:
    return f"{n_samples:,} × {n_features:,}, {n_classes}"


def _digits(seconds: float) -> str:
    return f"{seconds:.2g}" if seconds < 100.0 else f"{seconds:.0f}"


def _pair(cost: Cost | None) -> tuple[str, str]:
    return ("–", "–") if cost is None else (_digits(cost.seconds), f"{cost.ari:.3f}")


def _text(cost: Cost | None) -> str:
    return f"> {PATIENCE:.0f}" if cost is None else f"{_digits(cost.seconds)}, {cost.ari:.3f}"


def _exponent(base: Cost | None, larger: Cost | None) -> str:
    if base is None:
        return "–"
    seconds = PATIENCE if larger is None else larger.seconds
    return f"{'> ' if larger is None else ''}{math.log10(seconds / base.seconds):.1f}"


def measure() -> dict[str, str]:
    """Return the tables."""
    return {
        SIZES.name: SIZES.markdown(sizes()),
        SETS.name: SETS.markdown(sets()),
        GROWTH.name: GROWTH.markdown(growth()),
    }
