"""Models on pairs that were not drawn uniformly: `python -m benchmarks biased_pairs`.

Mixtures are those of docs/model.md, eq. (25). The objects of the first third of a random order are drawn five
times as often.
"""

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from quality import PUBLISHED, best_run
from tables import Table, mean_error

from sweep_clustering.kernels.partition.objective import objective_terms
from sweep_clustering.kernels.problem.data import layers_from_annotations
from sweep_clustering.kernels.problem.problem import SPHERES, build_problem
from sweep_clustering.kernels.scores import nmi

TABLE = Table(
    "biased_pairs",
    ("m", "model", "uniform", "biased", "biased - uniform", "with who was drawn often"),
)
TABLES = (TABLE,)

MODELS = ("unsupervised", "likelihood", "posterior", "conditional")
DRAWINGS = ("uniform", "biased")
N_SAMPLES = 200
N_FEATURES = 10
ACCURACY = 0.8
OFTEN = 5.0

Labels = NDArray[np.int64]


class Fit(NamedTuple):
    """NMI of one solution with the classes and with the often drawn objects; objective above the truth's."""

    nmi: float
    drawing: float
    excess: float


class Instance(NamedTuple):
    """A mixture, and the objects that are drawn often."""

    X: NDArray[np.float64]
    truth: Labels
    often: Labels


def draw_instance(rng: np.random.Generator, n_clusters: int) -> Instance:
    """Draw a mixture of docs/model.md, eq. (25); the first third of a random order is drawn often."""
    means = rng.uniform(-1.0, 1.0, size=(n_clusters, N_FEATURES))
    deviations = np.sqrt(rng.uniform(0.0, 5.0, size=n_clusters))
    truth = rng.integers(0, n_clusters, size=N_SAMPLES)
    X = means[truth] + rng.normal(size=(N_SAMPLES, N_FEATURES)) * deviations[truth, None]
    often = np.zeros(N_SAMPLES, dtype=np.int64)
    often[rng.permutation(N_SAMPLES)[: N_SAMPLES // 3]] = 1
    return Instance(X, truth, often)


def draw_pairs(
    rng: np.random.Generator, truth: NDArray[np.integer], m: int, often: NDArray[np.generic] | None
) -> Labels:
    """Draw annotations of shape (m, 3), each right with the accuracy; some samples may be drawn often."""
    weights = np.ones(len(truth)) if often is None else np.where(often, OFTEN, 1.0)
    ends = rng.choice(len(truth), size=(m, 2), p=weights / weights.sum())
    is_apart = truth[ends[:, 0]] != truth[ends[:, 1]]
    is_wrong = (rng.random(m) >= ACCURACY) & (ends[:, 0] != ends[:, 1])
    return np.column_stack([ends, (is_apart ^ is_wrong).astype(np.int64)])


def fit(
    instance: Instance,
    annotations: NDArray[np.int64],
    n_clusters: int,
    model: str,
    covariance: str,
    restarts: int,
) -> Fit:
    """Return the best of some restarts."""
    layers = layers_from_annotations(annotations, ACCURACY)
    problem = build_problem(instance.X, layers, n_clusters=n_clusters, model=model, covariance=covariance)
    best = best_run(problem, PUBLISHED, restarts)
    truth = sum(objective_terms(problem, instance.truth))
    return Fit(nmi(instance.truth, best.labels), nmi(instance.often, best.labels), best.objective - truth)


def scores(mixtures: int, m: int, restarts: int) -> dict[tuple[str, str, str], NDArray[np.float64]]:
    """Return scores of shape (mixtures, 3) by model, covariance and drawing."""
    fits: dict[tuple[str, str, str], list[Fit]] = {}
    for number in range(mixtures):
        n_clusters = 3 + number % 2
        instance = draw_instance(np.random.default_rng([1, number]), n_clusters)
        for drawing in DRAWINGS:
            often = instance.often if drawing == "biased" else None
            annotations = draw_pairs(np.random.default_rng([2, number]), instance.truth, m, often)
            for model, covariance in product(MODELS, SPHERES):
                result = fit(instance, annotations, n_clusters, model, covariance, restarts)
                fits.setdefault((model, covariance, drawing), []).append(result)
    return {key: np.array(group) for key, group in fits.items()}


def rows(m: int, tables: dict[tuple[str, str, str], NDArray[np.float64]]) -> Iterator[tuple[object, ...]]:
    """Yield a row per model; differences are paired."""
    for covariance, model in product(SPHERES, MODELS):
        uniform, biased = (tables[model, covariance, drawing] for drawing in DRAWINGS)
        name = model if covariance == "spherical" else f"{model}-common"
        levels = mean_error(uniform[:, 0]), mean_error(biased[:, 0])
        yield m, name, *levels, mean_error(biased[:, 0] - uniform[:, 0]), mean_error(biased[:, 1])


def asides(m: int, tables: dict[tuple[str, str, str], NDArray[np.float64]]) -> Iterator[str]:
    """Yield lines with the figures that the text below the table quotes."""
    for covariance, model in product(SPHERES, MODELS):
        uniform, biased = (tables[model, covariance, drawing][:, 2].mean() for drawing in DRAWINGS)
        excess_text = f"nats above the true classes: uniform {uniform:.0f}, biased {biased:.0f}"
        yield f"m = {m}, {model}, covariance {covariance}: {excess_text}"
    for covariance in SPHERES:
        posterior, conditional = (tables[model, covariance, "uniform"] for model in MODELS[2:])
        gain = mean_error(conditional[:, 0] - posterior[:, 0])
        yield f"m = {m}, uniform, covariance {covariance}: conditional - posterior = {gain}"


def measure(mixtures: int = 40, counts: tuple[int, ...] = (400, 800), restarts: int = 2) -> dict[str, str]:
    """Measure NMI of every model under both drawings."""
    tables = {m: scores(mixtures, m, restarts) for m in counts}
    lines = [line for m in counts for line in asides(m, tables[m])]
    return {
        TABLE.name: TABLE.markdown(row for m in counts for row in rows(m, tables[m])),
        "beside the table": "\n".join(lines),
    }
