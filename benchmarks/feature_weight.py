"""The gain of the effective weight of the features: `python -m benchmarks feature_weight`.

Six real data sets, standardised, and mixtures of the paper's kind have m = N uniform pairs. The weight 1 and
the effective one see the same annotations and seeds, so that differences are paired. Standard errors are
those over drawings of all data sets, and over mixtures.
"""

from collections.abc import Iterator
from itertools import product

import numpy as np
from numpy.typing import NDArray
from quality import RAW, REAL, best_run, mixtures, real_data
from tables import Table, mean_error

from sweep_clustering.kernels.problem.data import layers_from_annotations
from sweep_clustering.kernels.problem.problem import build_problem
from sweep_clustering.kernels.scores import adjusted_rand, nmi
from sweep_clustering.kernels.settings import settings_of
from sweep_clustering.sweeps.annotations.draw import draw_annotations

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
DRAWS = 10
MIXTURES = 30
RESTARTS = 3

Instance = tuple[NDArray[np.float64], NDArray[np.int16]]


def scores(instance: Instance, p: float, number: int) -> list[list[tuple[float, float]]]:
    """Return NMI and ARI of every model, with the weight 1 and with the effective one."""
    X, truth = instance
    annotations = draw_annotations(np.random.default_rng([number, int(100 * p)]), truth, p=p, m=len(X))
    table = []
    for model, is_given in MODELS.values():
        layers = layers_from_annotations(annotations, p if is_given else None)
        cells = []
        for weight in (1.0, "effective"):
            settings = settings_of({"method": "strong", "feature_weight": weight})
            n_clusters = int(truth.max()) + 1
            problem = build_problem(X, layers, n_clusters=n_clusters, model=model, settings=settings)
            labels = best_run(problem, settings, RESTARTS).labels
            cells.append((nmi(truth, labels), adjusted_rand(truth, labels)))
        table.append(cells)
    return table


def rows(name: str, tables: list[list[list[tuple[float, float]]]]) -> Iterator[tuple[str, ...]]:
    """Yield a row for each model."""
    table = np.array(tables)  # instances, models, weights, scores
    for number, model in enumerate(MODELS):
        plain, effective = table[:, number, 0], table[:, number, 1]
        change = effective - plain
        n_larger, n_smaller = (change[:, 0] > 1e-9).sum(), (change[:, 0] < -1e-9).sum()
        columns = [text for k in (0, 1) for text in (f"{plain[:, k].mean():.3f}", mean_error(change[:, k]))]
        yield name, model, *columns, f"{n_larger}, {n_smaller} of {len(change)}"


def measure() -> dict[str, str]:
    """Measure on mixtures, and on real data if they are at hand."""
    data = {f"{MIXTURES} mixtures, K = 2, 4, 6": list(enumerate(mixtures(MIXTURES)))}
    if RAW.is_dir():
        sets = [real_data(name) for name in REAL]
        data = {"six real data sets": list(product(range(DRAWS), sets))} | data
    return {
        TABLE.name: TABLE.markdown(
            row
            for name, instances in data.items()
            for row in rows(name, [scores(instance, p, n) for p in ACCURACIES for n, instance in instances])
        )
    }
