"""Classes by scikit-learn's conventions as methods."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pipeline.methods.contract import Links, Method, Solution, Weights
from pipeline.methods.signatures import (
    Wrong,
    needed_names,
    option_problems,
    parameters_of,
    takes_any_name,
)

NUMBERS = ("n_clusters", "n_components")
"""What a class may call the number of clusters, the first one it has."""

SEED = "random_state"


def class_problems(cls: type, options: Mapping[str, Any]) -> Iterator[Wrong]:
    """What keeps a class from being a method with these options."""
    if not callable(getattr(cls, "fit", None)) and not callable(getattr(cls, "fit_predict", None)):
        yield f"class {cls.__name__}", "a class with fit or fit_predict, or a function", ""
    parameters = parameters_of(cls)
    if parameters is None:
        return
    form = f"class {cls.__name__}({', '.join(parameters)})"
    number = _number(parameters)
    if number is None:
        yield form, "a parameter n_clusters or n_components", ""
    taken = {name for name in (SEED, number) if name in parameters}
    known = set(parameters) - taken - set(NUMBERS)
    yield from option_problems(options, known, takes_any_name(parameters), taken)
    needed = [name for name in needed_names(parameters) if name not in {*taken, *options}]
    if needed:
        yield form, f"options {', '.join(needed)}", "they have no default"


def method_of_class(cls: type, options: Mapping[str, Any]) -> Method:
    """A class as a method: an instance for each call, which is fitted.

    The constructor gets the number of clusters as `n_clusters` or `n_components`, and `random_state`, where
    it has them; `fit` gets `must_link`, `cannot_link`, `weights` and `accuracy` where it names them. Labels
    are `labels_`, else what `predict` says of the samples. The objective is `-inertia_`, else `lower_bound_`,
    where there is one; centroids are `cluster_centers_`, else `means_`, where there is one for each cluster.

    Parameters
    ----------
    cls : type
        With `fit`, or `fit_predict` alone.
    options : mapping of str to Any
        For the constructor.

    Returns
    -------
    Method
        To be called with the arguments of the contract.
    """
    parameters = parameters_of(cls) or {}
    number = _number(parameters)
    seeded = SEED in parameters
    fits: Any = getattr(cls, "fit", None) or getattr(cls, "fit_predict", None)
    seen = {"must_link", "cannot_link", "weights", "accuracy"} & set(parameters_of(fits) or ())

    def fitted(
        X: NDArray[np.float64],
        n_clusters: int,
        must_link: Links,
        cannot_link: Links,
        *,
        weights: Weights,
        accuracy: float | None,
        random_state: int,
    ) -> ArrayLike | Solution:
        settings = {**options}
        if number is not None:
            settings[number] = n_clusters
        if seeded:
            settings[SEED] = random_state
        links = {
            "must_link": must_link,
            "cannot_link": cannot_link,
            "weights": weights,
            "accuracy": accuracy,
        }
        estimator = cls(**settings)
        given = {name: links[name] for name in seen}
        if hasattr(estimator, "fit"):
            estimator.fit(X, **given)
            labels = estimator.labels_ if hasattr(estimator, "labels_") else estimator.predict(X)
        else:
            labels = estimator.fit_predict(X, **given)
        centroids = _centroids(estimator, (n_clusters, X.shape[1]))
        return Solution(labels, _objective(estimator), centroids)

    return fitted


def _number(parameters: Mapping[str, Any]) -> str | None:
    return next((name for name in NUMBERS if name in parameters), None)


def _objective(estimator: Any) -> float | None:
    with suppress(AttributeError):
        return -float(estimator.inertia_)
    with suppress(AttributeError):
        return float(estimator.lower_bound_)
    return None


def _centroids(estimator: Any, shape: tuple[int, int]) -> NDArray[np.float64] | None:
    for name in ("cluster_centers_", "means_"):
        found = getattr(estimator, name, None)
        if found is not None and np.shape(found) == shape:
            return np.asarray(found, dtype=np.float64)
    return None
