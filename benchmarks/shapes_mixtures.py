"""The choice of a shape on mixtures of the paper's kind: `python -m benchmarks shapes_mixtures`.

Mixtures have spherical clusters in ten features and N = 200, so that the right shape is "spherical". The
conditional model has the accuracy, the effective weight of the features and free proportions.
"""

from collections.abc import Iterator
from itertools import product

import numpy as np
from numpy.typing import NDArray
from shapes import TUNED, scores_of
from tables import Table, mean_error

from sweep_clustering.kernels.problem.data import layers_from_annotations
from sweep_clustering.sweeps.annotations.draw import draw_annotations
from sweep_clustering.sweeps.inputs import draw_mixture

CLUSTERS = (2, 4, 6)
ACCURACIES = (0.8, 0.9, 1.0)
COUNTS = (200, 400, 800)
DRAWS = 20
SHAPES = ("conditional", "conditional-diagonal", "conditional-tied", "conditional-full")
AUTO = "conditional-auto"

TABLE = Table(
    "shapes_mixtures",
    ("K", "p", "spherical", "diagonal", "tied", "full", "auto", "auto - best", "spherical chosen"),
)
TABLES = (TABLE,)


def cell(n_clusters: int, p: float) -> tuple[NDArray[np.float64], int]:
    """Return mean NMI over counts of annotations by model and mixture, and choices of spherical."""
    nmis = np.zeros((len(SHAPES) + 1, DRAWS, len(COUNTS)))
    spherical = 0
    for draw, (column, m) in product(range(DRAWS), enumerate(COUNTS)):
        X, truth = draw_mixture(np.random.default_rng([26, n_clusters, draw]), n_clusters=n_clusters)
        rng = np.random.default_rng([27, n_clusters, draw, m, int(100 * p)])
        layers = layers_from_annotations(draw_annotations(rng, truth, p=p, m=m), p)
        for place, model in enumerate((*SHAPES, AUTO)):
            (score, _, _), shape = scores_of((X, truth), layers, model, TUNED)
            nmis[place, draw, column] = score
            spherical += model == AUTO and shape == "spherical"
    return nmis.mean(axis=2), spherical


def rows() -> Iterator[tuple[str, ...]]:
    """Yield a row for each K and p; the best shape has the largest mean."""
    for n_clusters, p in product(CLUSTERS, ACCURACIES):
        nmis, spherical = cell(n_clusters, p)
        best = nmis[: len(SHAPES)].mean(axis=1).argmax()
        cells = (mean_error(row) for row in nmis)
        share = f"{spherical} of {DRAWS * len(COUNTS)}"
        yield str(n_clusters), f"{p:g}", *cells, mean_error(nmis[-1] - nmis[best]), share


def measure() -> dict[str, str]:
    """Measure on all mixtures."""
    return {TABLE.name: TABLE.markdown(rows())}
