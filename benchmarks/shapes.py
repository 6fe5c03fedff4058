"""Shapes of covariance and the choice among them, on real data: `python -m benchmarks shapes`.

Six real data sets, standardised; uniform pairs, N / 2 to 3 N / 2 of them; the accuracy is given to the models
that take one. Every model sees the same annotations. "auto" is the conditional model with the shape that the
annotations choose, the effective weight of the features and free proportions; so are the shapes below it.
"any" chooses components and subspace, too. The others are as they ship, and a full Gaussian mixture of
scikit-learn sees no annotations.
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

from sweep_clustering.kernels.problem.problem import Layer, layers_from_annotations
from sweep_clustering.kernels.scores import adjusted_rand, nmi
from sweep_clustering.kernels.settings import settings_of
from sweep_clustering.pipeline.fit.solve import fit
from sweep_clustering.sweeps.annotations.draw import draw_annotations
from sweep_clustering.sweeps.words import split_model

ACCURACIES = (0.8, 0.9, 1.0)
SHARES = (0.5, 1.0, 1.5)
DRAWS, RESTARTS = 3, 10
SKLEARN = "full mixture of scikit-learn"
TUNED = {"feature_weight": "effective", "proportions": "free"}
SHIPPED = tuple(
    term + shape
    for shape in ("", "-common")
    for term in ("unsupervised", "likelihood", "posterior", "conditional")
)
CHOSEN = ("conditional", "conditional-diagonal", "conditional-tied", "conditional-full", "conditional-auto")

COLUMNS = ("model", "m = N / 2", *(f"m = N, p = {p:g}" for p in ACCURACIES), "m = N", "m = 3 N / 2", "CPU s")
OVERALL = Table("shapes/overall", COLUMNS)
EACH = Table(
    "shapes/sets", ("data", "p", "mixture", "posterior", "diagonal", "tied", "full", "auto", "chosen")
)
TABLES = (OVERALL, EACH)

Instance = tuple[NDArray[np.float64], NDArray[np.int16]]
Scores = tuple[float, float, float]


def scored(instance: Instance, layers: list[Layer], model: str, tuned: dict[str, Any]) -> tuple[Scores, str]:
    """NMI, ARI and CPU seconds of a fit, and its shape."""
    X, truth = instance
    began = time.process_time()
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
    seconds = time.process_time() - began
    return (nmi(truth, labels), adjusted_rand(truth, labels), seconds), shape


def measured(
    data: dict[str, Instance],
) -> tuple[dict[str, NDArray[np.float64]], dict[tuple[str, float], list[str]]]:
    """Scores of shape (sets, accuracies, shares, draws, 3) by model, and the shapes chosen at m = N."""
    models = {SKLEARN: {}, **{model: {} for model in SHIPPED}, **{f"{model} *": TUNED for model in CHOSEN}}
    models["conditional-any"] = {}
    shape = (len(data), len(ACCURACIES), len(SHARES), DRAWS, 3)
    found = {model: np.zeros(shape) for model in models}
    chosen: dict[tuple[str, float], list[str]] = {}
    grid = product(enumerate(data), enumerate(ACCURACIES), enumerate(SHARES), range(DRAWS))
    for (at, name), (place, p), (column, share), draw in grid:
        X, truth = data[name]
        rng = np.random.default_rng([2026, at, place, column, draw])
        layers = layers_from_annotations(draw_annotations(rng, truth, p=p, m=int(share * len(X))), p)
        for model, tuned in models.items():
            scores, covariance = scored((X, truth), layers, model.removesuffix(" *"), tuned)
            found[model][at, place, column, draw] = scores
            if model == "conditional-auto *" and share == 1.0:
                chosen.setdefault((name, p), []).append(covariance)
    return found, chosen


def pair(scores: NDArray[np.float64]) -> str:
    """Mean NMI and ARI."""
    first, second = scores[..., :2].reshape(-1, 2).mean(axis=0)
    return f"{first:.3f} / {second:.3f}"


def rows(found: dict[str, NDArray[np.float64]]) -> Iterator[tuple[str, ...]]:
    """A row for each model."""
    for model, scores in found.items():
        of_accuracies = (pair(scores[:, place, 1]) for place in range(len(ACCURACIES)))
        cells = pair(scores[:, :, 0]), *of_accuracies, pair(scores[:, :, 1]), pair(scores[:, :, 2])
        yield model, *cells, f"{scores[..., 2].mean():.2f}"


def set_rows(
    names: list[str], found: dict[str, NDArray[np.float64]], chosen: dict[tuple[str, float], list[str]]
) -> Iterator[tuple[str, ...]]:
    """NMI of the sets at m = N."""
    models = (
        SKLEARN,
        "posterior",
        *(f"conditional-{shape} *" for shape in ("diagonal", "tied", "full", "auto")),
    )
    for (at, name), (place, p) in product(enumerate(names), enumerate(ACCURACIES)):
        cells = (mean_error(found[model][at, place, 1, :, 0]) for model in models)
        yield name, f"{p:g}", *cells, ", ".join(chosen[name, p])


def measure() -> dict[str, str]:
    """On the real data sets, which have to be at hand."""
    if not RAW.is_dir():
        return {}
    found, chosen = measured({name: real_data(name) for name in REAL})
    return {
        OVERALL.name: OVERALL.markdown(rows(found)),
        EACH.name: EACH.markdown(set_rows(list(REAL), found, chosen)),
    }
