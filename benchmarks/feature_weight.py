"""What the effective weight of the features is worth: `python -m benchmarks feature_weight`.

Six real data sets, standardised, and mixtures of the paper's kind; m = N uniform pairs. The same annotations
and seeds with the weight 1 and with the effective one, so that differences are paired. Standard errors are
those over drawings of all data sets, and over mixtures.
"""

from collections.abc import Iterator
from itertools import product

import numpy as np
from numpy.typing import NDArray
from quality import RAW, REAL, real_data
from tables import Table, mean_error

from sweep_clustering.kernels.problem.problem import build_problem, layers_from_annotations
from sweep_clustering.kernels.scores import adjusted_rand, nmi
from sweep_clustering.kernels.search.genetic import run_restart
from sweep_clustering.kernels.settings import settings_of
from sweep_clustering.sweeps.annotations.draw import draw_annotations
from sweep_clustering.sweeps.inputs import draw_mixture

TABLE = Table(
    "feature_weight", ("data", "model", "NMI", "effective - 1", "ARI", "effective - 1", "larger, smaller NMI")
)
TABLES = (TABLE,)

MODELS = {
    "likelihood": ("likelihood", True),
    "posterior": ("posterior", True),
    "conditional, accuracy given": ("conditional", True),
    "conditional, accuracy unknown": ("conditional", False),
}
ACCURACIES = (0.8, 0.9, 1.0)
DRAWS, MIXTURES, RESTARTS = 10, 30, 3

Instance = tuple[NDArray[np.float64], NDArray[np.int16]]


def scores(instance: Instance, p: float, number: int) -> list[list[tuple[float, float]]]:
    """NMI and ARI of every model, with the weight 1 and with the effective one."""
    X, truth = instance
    annotations = draw_annotations(np.random.default_rng([number, int(100 * p)]), truth, p=p, m=len(X))
    found = []
    for model, is_given in MODELS.values():
        layers = layers_from_annotations(annotations, p if is_given else None)
        pair = []
        for weight in (1.0, "effective"):
            settings = settings_of({"method": "strong", "feature_weight": weight})
            n_clusters = int(truth.max()) + 1
            problem = build_problem(X, layers, n_clusters=n_clusters, model=model, settings=settings)
            runs = [run_restart(problem, settings, np.random.default_rng(r)) for r in range(RESTARTS)]
            labels = max(runs, key=lambda run: run.objective).labels
            pair.append((nmi(truth, labels), adjusted_rand(truth, labels)))
        found.append(pair)
    return found


def rows(name: str, found: list[list[list[tuple[float, float]]]]) -> Iterator[tuple[str, ...]]:
    """A row for each model."""
    table = np.array(found)  # instances, models, weights, scores
    for number, model in enumerate(MODELS):
        plain, effective = table[:, number, 0], table[:, number, 1]
        change = effective - plain
        more, less = (change[:, 0] > 1e-9).sum(), (change[:, 0] < -1e-9).sum()
        columns = [text for k in (0, 1) for text in (f"{plain[:, k].mean():.3f}", mean_error(change[:, k]))]
        yield name, model, *columns, f"{more}, {less} of {len(change)}"


def measure() -> dict[str, str]:
    """Mixtures, and real data where they are at hand."""
    mixtures = [
        draw_mixture(np.random.default_rng([7, number]), n_clusters=(2, 4, 6)[number % 3])
        for number in range(MIXTURES)
    ]
    given = {f"{MIXTURES} mixtures, K = 2, 4, 6": list(enumerate(mixtures))}
    if RAW.is_dir():
        sets = [real_data(name) for name in REAL]
        given = {"six real data sets": list(product(range(DRAWS), sets))} | given
    return {
        TABLE.name: TABLE.markdown(
            row
            for name, instances in given.items()
            for row in rows(name, [scores(each, p, n) for p in ACCURACIES for n, each in instances])
        )
    }
