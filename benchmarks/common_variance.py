"""The gain of one variance for all clusters: `python -m benchmarks common_variance`, a minute.

Mixtures have three and four clusters in ten features, and means as in model.md, eq. (25). Their cluster
variances are equal, differ by half, or are drawn as there. The small real data sets are standardised, if they
are at hand. There are m = 2N uniform pairs of accuracy 0.8. On real data the standard error is that of five
drawings.
"""

from collections.abc import Iterator
from itertools import product

import numpy as np
from biased_pairs import ACCURACY, N_FEATURES
from numpy.typing import NDArray
from quality import PUBLISHED, RAW, REAL, best_run, real_data
from tables import Table, mean_error

from sweep_clustering.kernels.problem.data import layers_from_annotations
from sweep_clustering.kernels.problem.problem import SPHERES, build_problem
from sweep_clustering.kernels.scores import nmi
from sweep_clustering.sweeps.annotations.draw import draw_annotations

COLUMNS = ("data", "model", "spherical", "common", "common - spherical")
MIXTURE_DATA = Table("common_variance/mixtures", COLUMNS)
REAL_DATA = Table("common_variance/real", COLUMNS)
TABLES = (MIXTURE_DATA, REAL_DATA)

MODELS = ("unsupervised", "posterior", "conditional")
SPREADS = {"equal, 2": (2.0, 2.0), "1.5 to 2.5": (1.5, 2.5), "0 to 5": (0.0, 5.0)}
SIZES = (40, 200)
MIXTURES = 40
DRAWS = 5
RESTARTS = 2


Mixture = tuple[NDArray[np.float64], NDArray[np.int16]]


def draw(n_samples: int, spread: tuple[float, float], number: int) -> Mixture:
    """Draw features and classes of one mixture."""
    rng = np.random.default_rng([n_samples, number])
    n_clusters = 3 + number % 2
    truth = rng.permutation(np.arange(n_samples) % n_clusters).astype(np.int16)
    deviations = np.sqrt(rng.uniform(*spread, size=n_clusters))
    means = rng.uniform(-1.0, 1.0, size=(n_clusters, N_FEATURES))
    return means[truth] + rng.normal(size=(n_samples, N_FEATURES)) * deviations[truth, None], truth


def scores(X: NDArray[np.float64], truth: NDArray[np.int16], number: int) -> list[float]:
    """Return NMI of every model, free before common, with one drawing of annotations."""
    annotations = draw_annotations(np.random.default_rng(number), truth, p=ACCURACY, m=2 * len(X))
    layers = layers_from_annotations(annotations, ACCURACY)
    nmis = []
    for model, covariance in product(MODELS, SPHERES):
        problem = build_problem(
            X, layers, n_clusters=int(truth.max()) + 1, model=model, covariance=covariance
        )
        nmis.append(nmi(truth, best_run(problem, PUBLISHED, RESTARTS).labels))
    return nmis


def rows(name: str, nmis: list[list[float]]) -> Iterator[tuple[str, ...]]:
    """Yield a row per model; differences are paired."""
    table = np.array(nmis).T
    for model, free, common in zip(MODELS, table[::2], table[1::2], strict=True):
        yield name, model, mean_error(free), mean_error(common), mean_error(common - free)


def measure() -> dict[str, str]:
    """Measure on mixtures, and on real data if they are at hand."""
    mixture_rows = [
        row
        for n_samples, (name, spread) in product(SIZES, SPREADS.items())
        for row in rows(
            f"N = {n_samples}, variances {name}",
            [scores(*draw(n_samples, spread, number), number) for number in range(MIXTURES)],
        )
    ]
    texts = {MIXTURE_DATA.name: MIXTURE_DATA.markdown(mixture_rows)}
    if RAW.is_dir():
        texts[REAL_DATA.name] = REAL_DATA.markdown(
            row for name in REAL for row in rows(name, real_scores(name))
        )
    return texts


def real_scores(name: str) -> list[list[float]]:
    """Return scores on one real data set, one list for each drawing of annotations."""
    return [scores(*real_data(name), number) for number in range(DRAWS)]
