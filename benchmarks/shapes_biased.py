"""Shapes of covariance and pairs not drawn uniformly: `python -m benchmarks shapes_biased`.

Real data are standardised. The samples of the first third of a random order are drawn five times as often.
Both terms have the effective weight and free proportions.
"""

from collections.abc import Iterator
from itertools import product

import numpy as np
from biased_pairs import ACCURACY, draw_pairs
from numpy.typing import NDArray
from quality import RAW, REAL, real_data
from shapes import TUNED
from tables import Table, mean_error

from sweep_clustering.kernels.problem.data import layers_from_annotations
from sweep_clustering.kernels.scores import nmi
from sweep_clustering.kernels.settings import settings_of
from sweep_clustering.pipeline.fit.solve import fit

TABLE = Table("shapes_biased", ("model", "uniform", "biased", "biased - uniform", "with who was drawn often"))
TABLES = (TABLE,)

TERMS = ("posterior", "conditional")
SHAPES = ("spherical", "diagonal", "tied", "full")
SHARE = 2  # annotations for each sample
DRAWS = 5
RESTARTS = 2


def scores(name: str, draw: int) -> NDArray[np.float64]:
    """Return NMI of shape (terms, shapes, drawings, 2): with the classes, and with frequent samples."""
    X, truth = real_data(name)
    rng = np.random.default_rng([31, draw, len(X)])
    often = np.zeros(len(X), dtype=bool)
    often[rng.permutation(len(X))[: len(X) // 3]] = True
    nmis = np.zeros((len(TERMS), len(SHAPES), 2, 2))
    for drawing, mask in enumerate((None, often)):
        layers = layers_from_annotations(draw_pairs(rng, truth, SHARE * len(X), mask), ACCURACY)
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
            nmis[row, column, drawing] = nmi(truth, labels), nmi(often.astype(int), labels)
    return nmis


def rows(nmis: NDArray[np.float64]) -> Iterator[tuple[str, ...]]:
    """Yield a row for each model; differences are paired."""
    for (row, term), (column, shape) in product(enumerate(TERMS), enumerate(SHAPES)):
        uniform, biased = nmis[:, row, column, 0], nmis[:, row, column, 1]
        levels = mean_error(uniform[:, 0]), mean_error(biased[:, 0])
        yield f"{term}, {shape}", *levels, mean_error(biased[:, 0] - uniform[:, 0]), mean_error(biased[:, 1])


def measure() -> dict[str, str]:
    """Measure on the real data sets, if they are at hand."""
    if not RAW.is_dir():
        return {}
    nmis = np.array([scores(name, draw) for name, draw in product(REAL, range(DRAWS))])
    return {TABLE.name: TABLE.markdown(rows(nmis))}
