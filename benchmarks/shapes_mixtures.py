"""The choice of a shape on mixtures of the paper's kind: `python -m benchmarks shapes_mixtures`.

Spherical clusters in ten features, N = 200: the shape to be chosen is "spherical". The conditional model with
the accuracy given, the effective weight of the features and free proportions.
"""

from collections.abc import Iterator
from itertools import product

import numpy as np
from numpy.typing import NDArray
from shapes import TUNED, scored
from tables import Table, mean_error

from sweep_clustering.kernels.problem.problem import layers_from_annotations
from sweep_clustering.sweeps.annotations.draw import draw_annotations
from sweep_clustering.sweeps.inputs import draw_mixture

CLUSTERS, ACCURACIES, COUNTS, DRAWS = (2, 4, 6), (0.8, 0.9, 1.0), (200, 400, 800), 20
SHAPES = ("conditional", "conditional-diagonal", "conditional-tied", "conditional-full")
AUTO = "conditional-auto"

TABLE = Table(
    "shapes_mixtures",
    ("K", "p", "spherical", "diagonal", "tied", "full", "auto", "auto - best", "spherical chosen"),
)
TABLES = (TABLE,)


def cell(n_clusters: int, p: float) -> tuple[NDArray[np.float64], int]:
    """NMI of shape (models, mixtures), the mean over the numbers of annotations, and choices of spherical."""
    found = np.zeros((len(SHAPES) + 1, DRAWS, len(COUNTS)))
    spherical = 0
    for draw, (column, m) in product(range(DRAWS), enumerate(COUNTS)):
        X, truth = draw_mixture(np.random.default_rng([26, n_clusters, draw]), n_clusters=n_clusters)
        rng = np.random.default_rng([27, n_clusters, draw, m, int(100 * p)])
        layers = layers_from_annotations(draw_annotations(rng, truth, p=p, m=m), p)
        for place, model in enumerate((*SHAPES, AUTO)):
            (score, _, _), shape = scored((X, truth), layers, model, TUNED)
            found[place, draw, column] = score
            spherical += model == AUTO and shape == "spherical"
    return found.mean(axis=2), spherical


def rows() -> Iterator[tuple[str, ...]]:
    """A row for each K and p; the best shape is that of the largest mean."""
    for n_clusters, p in product(CLUSTERS, ACCURACIES):
        found, spherical = cell(n_clusters, p)
        best = found[: len(SHAPES)].mean(axis=1).argmax()
        cells = (mean_error(each) for each in found)
        share = f"{spherical} of {DRAWS * len(COUNTS)}"
        yield str(n_clusters), f"{p:g}", *cells, mean_error(found[-1] - found[best]), share


def measure() -> dict[str, str]:
    """All mixtures."""
    return {TABLE.name: TABLE.markdown(rows())}
