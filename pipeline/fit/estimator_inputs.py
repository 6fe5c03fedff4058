"""Checking what the estimator is given."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array, check_random_state

from kernels.problem.problem import CANNOT, MUST, Layer
from kernels.settings import AUTO, COVARIANCES, LARGEST_WEIGHT, TERMS, WEIGHTS, wrong_settings
from sweeps.errors import InputError, Problem, collecting, not_one_of

LARGEST_DRAWN_SEED = np.iinfo(np.int32).max


def draw_seed(random_state: int | np.random.RandomState | None) -> int:
    """Seed of a fit: the number given, else one that is drawn."""
    if random_state is None or isinstance(random_state, np.random.RandomState):
        return int(check_random_state(random_state).randint(LARGEST_DRAWN_SEED))
    return int(random_state)


def check_inputs(
    parameters: Mapping[str, Any],
    must_link: ArrayLike | None,
    cannot_link: ArrayLike | None,
    n_samples: int,
) -> list[Layer]:
    """Check parameters with links, and lay out the links.

    Parameters
    ----------
    parameters : mapping
        As of `AnnotatedClustering.get_params`.
    must_link, cannot_link : array_like of shape (n_links, 2) or (n_links, 3), or None
        As of `AnnotatedClustering.fit`.
    n_samples : int
        Samples the links refer to.

    Returns
    -------
    list of Layer
        One for each of the two that is given, be it empty.

    Raises
    ------
    InputError
        With the problems of all parameters and all links.
    """
    problems = list(_parameter_problems(parameters))
    layers: list[Layer] = []
    # a wrong accuracy has been reported by now, and the layers are not used
    accuracy = None if problems or parameters["accuracy"] is None else float(parameters["accuracy"])
    for name, kind, links in (("must_link", MUST, must_link), ("cannot_link", CANNOT, cannot_link)):
        if links is not None:
            with collecting(problems):
                layers.append(Layer(kind, *_pairs(name, links, n_samples), accuracy))
    if problems:
        raise InputError(problems)
    return layers


def _parameter_problems(parameters: Mapping[str, Any]) -> Iterator[Problem]:
    for name in ("n_clusters", "restarts"):
        if not (_is_whole(parameters[name]) and parameters[name] >= 1):
            yield Problem(name, repr(parameters[name]), "a whole number, 1 or more")
    for setting, found, expected in wrong_settings(parameters):
        yield Problem(setting.name, found, expected)
    model, accuracy = parameters["model"], parameters["accuracy"]
    if not (isinstance(model, str) and model in (AUTO, *TERMS)):
        known = AUTO, *TERMS
        yield not_one_of("model", model, known)
    covariance = parameters["covariance"]
    if not (isinstance(covariance, str) and covariance in (*COVARIANCES, AUTO)):
        yield not_one_of("covariance", covariance, (*COVARIANCES, AUTO))
    if accuracy is None:
        if model == "posterior":
            yield Problem("accuracy", "None", "a number above 0, at most 1", "posterior needs it")
    elif not (_is_real(accuracy) and 0 < accuracy <= 1):
        yield Problem("accuracy", repr(accuracy), "None or a number above 0, at most 1")
    if not isinstance(parameters["confidence"], (bool, np.bool_)):
        yield Problem("confidence", repr(parameters["confidence"]), "True or False")
    state = parameters["random_state"]
    if not (state is None or isinstance(state, np.random.RandomState) or (_is_whole(state) and state >= 0)):
        yield Problem("random_state", repr(state), "None, a RandomState or a whole number, 0 or more")


def _is_whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _is_real(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _pairs(name: str, links: ArrayLike, n_samples: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Pairs of samples, and the annotations each stands for."""
    table = _table(name, links)
    samples, weights = table[:, :2], table[:, 2] if table.shape[1] == 3 else np.ones(len(table))
    in_range = (samples >= 0) & (samples < n_samples) & (np.floor(samples) == samples)
    of_samples = f"whole numbers 0 to {n_samples - 1}"
    problems = [
        *_row_problems(name, samples, ~in_range.all(axis=1), of_samples, "samples are counted from 0"),
        *_row_problems(name, weights[:, None], ~((weights > 0) & (weights <= LARGEST_WEIGHT)), WEIGHTS),
    ]
    if problems:
        raise InputError(problems)
    return samples.astype(np.int64), weights


def check_pairs(pairs: ArrayLike, n_samples: int) -> NDArray[np.int64]:
    """Pairs of samples as a table, of shape (n_pairs, 2).

    Raises
    ------
    InputError
        If they are no such table, or name a sample that does not exist.
    """
    table = _table("pairs", pairs)
    if table.shape[1] != 2:
        raise InputError([Problem("pairs", f"shape {table.shape}", "shape (n_pairs, 2)")])
    return _pairs("pairs", table, n_samples)[0]


def _table(name: str, links: ArrayLike) -> NDArray[np.float64]:
    expected = "shape (n_links, 2) or (n_links, 3)"
    try:
        table = np.asarray(links, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(
            [Problem(name, f"a {type(links).__name__} that makes no table of numbers", expected)]
        ) from None
    if table.shape == (0,):
        return table.reshape(0, 2)
    if table.ndim != 2 or table.shape[1] not in (2, 3):
        raise InputError([Problem(name, f"shape {table.shape}", expected)])
    return table


def _row_problems(
    name: str, cells: NDArray[np.float64], bad: NDArray[np.bool_], expected: str, hint: str = ""
) -> Iterator[Problem]:
    """The first bad row, with the number of those that follow."""
    rows = np.flatnonzero(bad)
    if len(rows):
        others = f", and {len(rows) - 1} more such rows" if len(rows) > 1 else ""
        found = ", ".join(f"{cell:.15g}" for cell in cells[rows[0]])
        yield Problem(f"{name}, row {rows[0]}", found + others, expected, hint)


def check_features(estimator: object, X: ArrayLike, min_samples: int = 1) -> NDArray[np.float64]:
    """Features as a table of finite numbers.

    Raises
    ------
    ValueError, TypeError
        As of `sklearn.utils.check_array`.
    """
    checked: NDArray[np.float64] = check_array(
        X, dtype=np.float64, ensure_min_samples=min_samples, estimator=estimator, input_name="X"
    )
    return checked


def feature_names(X: object) -> NDArray[np.object_] | None:
    """Names of the columns of a data frame; None for anything else, or if they are not texts.

    Raises
    ------
    TypeError
        If only some of the names are texts.
    """
    names = np.asarray(getattr(X, "columns", ()), dtype=object)
    texts = [isinstance(name, str) for name in names]
    if any(texts) and not all(texts):
        kinds = sorted({type(name).__name__ for name in names})
        raise TypeError(f"columns of X have names of kinds {', '.join(kinds)}, expected texts only or none")
    return names if any(texts) else None


def check_same_features(estimator: Any, X: ArrayLike) -> NDArray[np.float64]:
    """Features of the kind the estimator was fitted to.

    Raises
    ------
    ValueError
        If their number or their names differ.
    """
    owner = type(estimator).__name__
    fitted, given = getattr(estimator, "feature_names_in_", None), feature_names(X)
    if fitted is not None and given is not None:
        _check_names(list(given), list(fitted))
    elif fitted is not None or given is not None:
        named, nameless = ("the fit", "X") if given is None else ("X", "the fit")
        text = f"{owner}: columns of {named} have names, those of {nameless} have none; taken in order"
        warnings.warn(text, UserWarning, stacklevel=4)
    features = check_features(estimator, X)
    found, expected = features.shape[1], estimator.n_features_in_
    if found != expected:
        # the wording is what check_estimator looks for
        raise ValueError(f"X has {found} features, but {owner} is expecting {expected} features as input")
    return features


def _check_names(given: list[str], fitted: list[str]) -> None:
    if given == fitted:
        return
    differences = []
    for title, names in (("unknown", set(given) - set(fitted)), ("missing", set(fitted) - set(given))):
        if names:
            differences.append(f"{title}: {', '.join(sorted(names))}")
    text = "; ".join(differences) or f"found {', '.join(given)}, expected the order {', '.join(fitted)}"
    raise ValueError(f"columns of X are not those of the fit: {text}")
