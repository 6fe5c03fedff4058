"""Shapes of covariance and the choice among them, on real data: `python -m benchmarks shapes`.

Six real data sets are standardised, with N / 2 to 3 N / 2 uniform pairs. The accuracy is given to the models
that take one, and every model sees the same annotations. "auto" is the conditional model with the shape that
the annotations choose, the effective weight of the features and free proportions. The shapes below it have
the same settings. "any" also chooses components and a subspace. The others have the shipped settings, and a
full Gaussian mixture of scikit-learn sees no annotations.
"""

import time
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from quality import RAW, REAL, real_data
from sklearn.mixture import GaussianMixture
from tables import Table, mean_error

from sweep_clustering.kernels.problem.data import layers_from_annotations
from sweep_clustering.kernels.problem.problem import Layer
from sweep_clustering.kernels.scores import adjusted_rand, nmi
from sweep_clustering.kernels.settings import settings_of
from sweep_clustering.pipeline.fit.solve import fit
from sweep_clustering.sweeps.annotations.draw import draw_annotations
from sweep_clustering.sweeps.words import split_model

ACCURACIES = (0.8, 0.9, 1.0)
SHARES = (0.5, 1.0, 1.5)
DRAWS = 3
RESTARTS = 10
SKLEARN = "full mixture of scikit-learn"
TUNED = {"feature_weight": "effective", "proportions": "free"}
SHIPPED = tuple(
    term + shape
    for shape in ("", "-common")
    for term in ("unsupervised", "likelihood", "posterior", "conditional")
)
SHAPES = ("conditional", "conditional-diagonal", "conditional-tied", "conditional-full", "conditional-auto")

COLUMNS = ("model", "m = N / 2", *(f"m = N, p = {p:g}" for p in ACCURACIES), "m = N", "m = 3 N / 2", "CPU s")
OVERALL = Table("shapes/overall", COLUMNS)
BY_SET = Table(
    "shapes/sets", ("data", "p", "mixture", "posterior", "diagonal", "tied", "full", "auto", "chosen")
)
TABLES = (OVERALL, BY_SET)

Instance = tuple[NDArray[np.float64], NDArray[np.int16]]
Scores = tuple[float, float, float]


def scores_of(
    instance: Instance, layers: list[Layer], model: str, tuned: dict[str, Any]
) -> tuple[Scores, str]:
    """Return NMI, ARI and CPU seconds of a fit, and its shape."""
    X, truth = instance
    start_time = time.process_time()
    if model == SKLEARN:
        mixture = GaussianMixture(int(truth.max()) + 1, n_init=RESTARTS, random_state=0)
        labels, shape = mixture.fit_predict(X), "full"
    else:
        term, shape = (model.removesuffix("-auto"), "auto") if model.endswith("-auto") else split_model(model)
        result = fit(
            X,
            layers,
            n_clusters=int(truth.max()) + 1,
            model=term,
            covariance=shape,
            restarts=RESTARTS,
            settings=settings_of({"method": "strong", **tuned}),
            seed=0,
        )
        labels, shape = result.best.labels, result.covariance
    seconds = time.process_time() - start_time
    return (nmi(truth, labels), adjusted_rand(truth, labels), seconds), shape


def measure_models(
    data: dict[str, Instance],
) -> tuple[dict[str, NDArray[np.float64]], dict[tuple[str, float], list[str]]]:
    """Return scores of shape (sets, accuracies, shares, draws, 3) by model, and shapes at m = N."""
    models = {SKLEARN: {}, **{model: {} for model in SHIPPED}, **{f"{model} *": TUNED for model in SHAPES}}
    models["conditional-any"] = {}
    shape = (len(data), len(ACCURACIES), len(SHARES), DRAWS, 3)
    table = {model: np.zeros(shape) for model in models}
    choices: dict[tuple[str, float], list[str]] = {}
    grid = product(enumerate(data), enumerate(ACCURACIES), enumerate(SHARES), range(DRAWS))
    for (row, name), (level, p), (column, share), draw in grid:
        X, truth = data[name]
        rng = np.random.default_rng([2026, row, level, column, draw])
        layers = layers_from_annotations(draw_annotations(rng, truth, p=p, m=int(share * len(X))), p)
        for model, tuned in models.items():
            scores, covariance = scores_of((X, truth), layers, model.removesuffix(" *"), tuned)
            table[model][row, level, column, draw] = scores
            if model == "conditional-auto *" and share == 1.0:
                choices.setdefault((name, p), []).append(covariance)
    return table, choices


def pair(scores: NDArray[np.float64]) -> str:
    """Return the mean NMI and ARI as text."""
    first, second = scores[..., :2].reshape(-1, 2).mean(axis=0)
    return f"{first:.3f} / {second:.3f}"


def rows(table: dict[str, NDArray[np.float64]]) -> Iterator[tuple[str, ...]]:
    """Yield a row for each model."""
    for model, scores in table.items():
        levels = (pair(scores[:, level, 1]) for level in range(len(ACCURACIES)))
        cells = pair(scores[:, :, 0]), *levels, pair(scores[:, :, 1]), pair(scores[:, :, 2])
        yield model, *cells, f"{scores[..., 2].mean():.2f}"


def set_rows(
    names: list[str], table: dict[str, NDArray[np.float64]], choices: dict[tuple[str, float], list[str]]
) -> Iterator[tuple[str, ...]]:
    """Yield NMI of the sets at m = N."""
    models = (
        SKLEARN,
        "posterior",
        *(f"conditional-{shape} *" for shape in ("diagonal", "tied", "full", "auto")),
    )
    for (row, name), (level, p) in product(enumerate(names), enumerate(ACCURACIES)):
        cells = (mean_error(table[model][row, level, 1, :, 0]) for model in models)
        yield name, f"{p:g}", *cells, ", ".join(choices[name, p])


def measure() -> dict[str, str]:
    """Measure on the real data sets, if they are at hand."""
    if not RAW.is_dir():
        return {}
    table, choices = measure_models({name: real_data(name) for name in REAL})
    return {
        OVERALL.name: OVERALL.markdown(rows(table)),
        BY_SET.name: BY_SET.markdown(set_rows(list(REAL), table, choices)),
    }
