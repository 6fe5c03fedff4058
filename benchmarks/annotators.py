"""The gain of one accuracy for each annotator: `python -m benchmarks annotators`.

Three annotators of accuracy 0.95, 0.7 and 0.5 make a third of the annotations of every mixture each. A model
is fitted with two layers for every annotator, with the answers of all annotators pooled, and with the best
annotator alone.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from quality import PUBLISHED, best_run
from tables import Table, mean_error

from sweep_clustering.kernels.problem.data import layers_from_annotations
from sweep_clustering.kernels.problem.problem import Layer, build_problem
from sweep_clustering.kernels.scores import nmi
from sweep_clustering.sweeps.annotations.draw import draw_annotations
from sweep_clustering.sweeps.inputs import draw_mixture

TABLE = Table(
    "annotators", ("m", "model", "apart", "pooled", "best alone", "apart - pooled", "apart - best alone")
)
TABLES = (TABLE,)

ACCURACIES = 0.95, 0.7, 0.5

Layout = Callable[[Sequence[np.ndarray], bool], list[Layer]]


def separate_layers(tables: Sequence[np.ndarray], is_known: bool) -> list[Layer]:
    """Return two layers for every annotator."""
    return [
        replace(layer, annotator=number)
        for number, (table, p) in enumerate(zip(tables, ACCURACIES, strict=True))
        for layer in layers_from_annotations(table, p if is_known else None)
    ]


def pooled_layers(tables: Sequence[np.ndarray], is_known: bool) -> list[Layer]:
    """Return two layers, with the mean accuracy."""
    return layers_from_annotations(np.concatenate(tables), float(np.mean(ACCURACIES)) if is_known else None)


def best_layers(tables: Sequence[np.ndarray], is_known: bool) -> list[Layer]:
    """Return two layers of the first annotator, who has a third of the annotations."""
    return layers_from_annotations(tables[0], ACCURACIES[0] if is_known else None)


LAYOUTS: dict[str, Layout] = {"apart": separate_layers, "pooled": pooled_layers, "best alone": best_layers}
# Title of each model, its name, and whether the accuracies are given to it.
MODELS = {
    "likelihood": ("likelihood", False),
    "posterior": ("posterior", True),
    "conditional, accuracies unknown": ("conditional", False),
    "conditional, accuracies given": ("conditional", True),
}


def scores(mixture: int, m: int, n_clusters: int, restarts: int) -> dict[tuple[str, str], float]:
    """Return NMI of every model and layout on one mixture. All see the same annotations."""
    data, drawing = (np.random.SeedSequence(20210405, spawn_key=(mixture, part)) for part in range(2))
    X, labels_true = draw_mixture(np.random.default_rng(data), n_clusters=n_clusters)
    rng = np.random.default_rng(drawing)
    tables = [draw_annotations(rng, labels_true, p=p, m=m // 3) for p in ACCURACIES]
    nmis = {}
    for title, (model, is_known) in MODELS.items():
        for name, layout in LAYOUTS.items():
            problem = build_problem(X, layout(tables, is_known), n_clusters=n_clusters, model=model)
            nmis[title, name] = nmi(labels_true, best_run(problem, PUBLISHED, restarts).labels)
    return nmis


def measure(
    mixtures: int = 60, counts: tuple[int, ...] = (300, 400, 600), n_clusters: int = 3, restarts: int = 3
) -> dict[str, str]:
    """Measure mean NMI ± standard error over mixtures of 200 samples in 10 dimensions, with paired
    differences.
    """
    rows = []
    for m in counts:
        nmis = [scores(mixture, m, n_clusters, restarts) for mixture in range(mixtures)]
        for title in MODELS:
            column = {name: np.array([row[title, name] for row in nmis]) for name in LAYOUTS}
            levels = [mean_error(column[name]) for name in LAYOUTS]
            gains = [mean_error(column["apart"] - column[name]) for name in ("pooled", "best alone")]
            rows.append((m, title, *levels, *gains))
    return {TABLE.name: TABLE.markdown(rows)}
