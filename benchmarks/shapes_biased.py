"""Shapes of covariance and pairs not drawn uniformly: `python -m benchmarks shapes_biased`.

Real data, standardised; the samples of the first third of a random order are drawn five times as often. Both
terms with the effective weight and free proportions.
"""

from collections.abc import Iterator
from itertools import product

import numpy as np
from numpy.typing import NDArray
from quality import RAW, REAL, real_data
from shapes import TUNED
from tables import Table, mean_error

from sweep_clustering.kernels.problem.problem import layers_from_annotations
from sweep_clustering.kernels.scores import nmi
from sweep_clustering.kernels.settings import settings_of
from sweep_clustering.pipeline.fit.solve import fit

TABLE = Table("shapes_biased", ("model", "uniform", "biased", "biased - uniform", "with who was drawn often"))
TABLES = (TABLE,)

TERMS, SHAPES = ("posterior", "conditional"), ("spherical", "diagonal", "tied", "full")
ACCURACY, OFTEN, SHARE, DRAWS, RESTARTS = 0.8, 5.0, 2, 5, 2

Labels = NDArray[np.integer]


def draw_pairs(rng: np.random.Generator, truth: Labels, often: NDArray[np.bool_] | None) -> Labels:
    """Annotations of shape (2 N, 3), each right with the accuracy; some samples may be drawn often."""
    weights = np.ones(len(truth)) if often is None else np.where(often, OFTEN, 1.0)
    m = SHARE * len(truth)
    ends = rng.choice(len(truth), size=(m, 2), p=weights / weights.sum())
    apart = truth[ends[:, 0]] != truth[ends[:, 1]]
    wrong = (rng.random(m) >= ACCURACY) & (ends[:, 0] != ends[:, 1])
    return np.column_stack([ends, (apart ^ wrong).astype(np.int64)])


def scores(name: str, draw: int) -> NDArray[np.float64]:
    """NMI of shape (terms, shapes, drawings, 2): with the classes, and with who was drawn often."""
    X, truth = real_data(name)
    rng = np.random.default_rng([31, draw, len(X)])
    often = np.zeros(len(X), dtype=bool)
    often[rng.permutation(len(X))[: len(X) // 3]] = True
    found = np.zeros((len(TERMS), len(SHAPES), 2, 2))
    for drawing, whom in enumerate((None, often)):
        layers = layers_from_annotations(draw_pairs(rng, truth, whom), ACCURACY)
        for (row, term), (column, shape) in product(enumerate(TERMS), enumerate(SHAPES)):
            labels = fit(
                X,
                layers,
                n_clusters=int(truth.max()) + 1,
                model=term,
                covariance=shape,
                restarts=RESTARTS,
                settings=settings_of({"method": "strong", **TUNED}),
                seed=0,
            ).best.labels
            found[row, column, drawing] = nmi(truth, labels), nmi(often.astype(int), labels)
    return found


def rows(found: NDArray[np.float64]) -> Iterator[tuple[str, ...]]:
    """A row for each model; differences are paired."""
    for (row, term), (column, shape) in product(enumerate(TERMS), enumerate(SHAPES)):
        uniform, biased = found[:, row, column, 0], found[:, row, column, 1]
        levels = mean_error(uniform[:, 0]), mean_error(biased[:, 0])
        yield f"{term}, {shape}", *levels, mean_error(biased[:, 0] - uniform[:, 0]), mean_error(biased[:, 1])


def measure() -> dict[str, str]:
    """On the real data sets, which have to be at hand."""
    if not RAW.is_dir():
        return {}
    found = np.array([scores(name, draw) for name, draw in product(REAL, range(DRAWS))])
    return {TABLE.name: TABLE.markdown(rows(found))}
