"""Checking what the estimator is given."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array, check_random_state

from kernels.settings import AUTO, COVARIANCES, TERMS, wrong_settings
from kernels.spread import spread_problem
from pipeline.fit.estimating.links import Given, LinkTables, Reader, annotator_problems, joined
from pipeline.fit.estimating.names import Names, names_of, unmasked
from sweeps.errors import InputError, Problem, collecting, not_one_of

OUTSIDE = ("error", "drop")
"""What may become of links of samples that X does not have."""

LARGEST_DRAWN_SEED = np.iinfo(np.int32).max


def draw_seed(random_state: int | np.random.RandomState | None) -> int:
    """Seed of a fit: the number given, else one that is drawn."""
    if random_state is None or isinstance(random_state, np.random.RandomState):
        return int(check_random_state(random_state).randint(LARGEST_DRAWN_SEED))
    return int(random_state)


def check_inputs(
    parameters: Mapping[str, Any],
    must_link: LinkTables | None,
    cannot_link: LinkTables | None,
    n_samples: int,
    *,
    X: object = None,
    samples: ArrayLike | None = None,
    before: Given | None = None,
) -> tuple[Given, Names | None]:
    """Check parameters with links, and lay out the links.

    Parameters
    ----------
    parameters : mapping
        As of `AnnotatedClustering.get_params`.
    must_link, cannot_link : links
        As of `AnnotatedClustering.fit`.
    n_samples : int
        Samples the links refer to.
    X : object
        The table as it was given: a data frame has the names of its rows.
    samples : array_like of shape (n_samples,), optional
        Names of the rows, before those of X.
    before : Given, optional
        Annotations that these are added to.

    Returns
    -------
    given : Given
        The links, with those before.
    names : Names or None
        What links call samples.

    Raises
    ------
    InputError
        With the problems of all parameters and all links.
    """
    problems = list(_parameter_problems(parameters))
    # wrong accuracies have been reported by now, and the layers are not used
    right = not problems
    accuracy, own = (parameters["accuracy"], parameters["annotator_accuracy"]) if right else (None, None)
    names: Names | None = None
    given = Given()
    with collecting(problems):
        unmasked("samples", samples)
        names = names_of(X, samples, n_samples)
        reader = Reader(n_samples, names, drop=parameters["links_outside"] == "drop")
        given = reader.read(must_link, cannot_link, None if accuracy is None else float(accuracy), own)
    if before is not None:
        given = joined(before, given)
    if right and not problems:
        needs_all = parameters["model"] == "posterior" or (parameters["model"] == AUTO and bool(own))
        # an annotator may come with later links
        mentioned = own if before is None else {}
        problems += annotator_problems(given, accuracy, own, mentioned or (), needs_all=needs_all)
    if problems:
        raise InputError(problems)
    return given, names


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
    own = parameters["annotator_accuracy"]
    if accuracy is None:
        if model == "posterior" and own is None:
            yield Problem("accuracy", "None", "a number above 0, at most 1", "posterior needs it")
    elif not (_is_real(accuracy) and 0 < accuracy <= 1):
        yield Problem("accuracy", repr(accuracy), "None or a number above 0, at most 1")
    yield from _annotator_accuracy_problems(own)
    if parameters["links_outside"] not in OUTSIDE:
        yield not_one_of("links_outside", parameters["links_outside"], OUTSIDE)
    n_jobs = parameters["n_jobs"]
    if n_jobs is not None and not (_is_whole(n_jobs) and n_jobs != 0):
        yield Problem("n_jobs", repr(n_jobs), "None or a whole number other than 0", "-1 is all cores")
    if not isinstance(parameters["confidence"], (bool, np.bool_)):
        yield Problem("confidence", repr(parameters["confidence"]), "True or False")
    state = parameters["random_state"]
    if not (state is None or isinstance(state, np.random.RandomState) or (_is_whole(state) and state >= 0)):
        yield Problem("random_state", repr(state), "None, a RandomState or a whole number, 0 or more")


def _annotator_accuracy_problems(own: Any) -> Iterator[Problem]:
    if own is None:
        return
    if not isinstance(own, Mapping):
        yield Problem("annotator_accuracy", repr(own), "None or a mapping of names to numbers")
        return
    for name, value in own.items():
        if not isinstance(name, str):
            yield Problem("annotator_accuracy", f"annotator {name!r}", "a name, a text")
        elif not (_is_real(value) and 0 < value <= 1):
            yield Problem(f"annotator_accuracy of {name}", repr(value), "a number above 0, at most 1")


def _is_whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _is_real(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def check_features(estimator: object, X: ArrayLike, min_samples: int = 1) -> NDArray[np.float64]:
    """Features as a table of finite numbers.

    Raises
    ------
    ValueError, TypeError
        As of `sklearn.utils.check_array`; for a fit, also if squares are no numbers or nothing varies.
    """
    unmasked("X", X)
    with np.errstate(over="ignore", invalid="ignore"):  # it adds all values up
        checked: NDArray[np.float64] = check_array(
            X, dtype=np.float64, ensure_min_samples=min_samples, estimator=estimator, input_name="X"
        )
    wrong = spread_problem(checked) if min_samples > 1 else None
    if wrong:
        raise InputError([Problem("X", *wrong)])
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
