"""Where a method is found: shipped, in a package, or in the text of a file; a function, or a class.

`load` makes of a `MethodCall` the function that the contract asks for, once its arguments and options fit.
"""

from __future__ import annotations

import hashlib
import inspect
import linecache
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pipeline.methods.contract import Links, Method, Solution, Weights
from sweeps.errors import InputError, Problem, did_you_mean
from sweeps.words import FORMS, PER_CALL, SHIPPED, installed_version, read_code, text_of_code

# Whether a function can take what a call gives it.

CONTRACT = "(X, n_clusters, must_link, cannot_link, *, weights, accuracy, random_state)"
GIVEN = ("weights", "accuracy", "random_state")
"""What comes by name."""

Wrong = tuple[str, str, str]
"""What was found, what was expected, and a hint."""

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_VARIABLE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def parameters_of(function: Callable[..., Any]) -> dict[str, inspect.Parameter] | None:
    """Parameters by name; None where they are not known, as of some functions of extension modules."""
    try:
        return dict(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return None


def function_problems(function: Callable[..., Any], options: Mapping[str, Any]) -> Iterator[Wrong]:
    """What keeps a function from being a method with these options."""
    parameters = parameters_of(function)
    if parameters is None:
        return
    form = f"{getattr(function, '__name__', 'it')}{inspect.signature(function)}"
    kinds = {parameter.kind for parameter in parameters.values()}
    places = [name for name, each in parameters.items() if each.kind in _POSITIONAL][:4]
    if len(places) < 4 and inspect.Parameter.VAR_POSITIONAL not in kinds:
        yield form, CONTRACT, "X, n_clusters, must_link and cannot_link come by position"
    takes_any = inspect.Parameter.VAR_KEYWORD in kinds
    named = {name for name, each in parameters.items() if each.kind in _BY_NAME} - set(places)
    lacking = [name for name in GIVEN if name not in named]
    if lacking and not takes_any:
        yield form, CONTRACT, f"it does not take {', '.join(lacking)}"
    yield from option_problems(options, named - set(GIVEN), takes_any, (*places, *GIVEN))
    needed = [name for name in needed_names(parameters) if name not in (*places, *GIVEN, *options)]
    if needed:
        yield form, f"options {', '.join(needed)}", "they have no default"


def needed_names(parameters: Mapping[str, inspect.Parameter]) -> list[str]:
    """Parameters without a default."""
    return [
        name
        for name, each in parameters.items()
        if each.default is inspect.Parameter.empty and each.kind not in _VARIABLE
    ]


def takes_any_name(parameters: Mapping[str, inspect.Parameter]) -> bool:
    """Whether there is a `**` among the parameters."""
    return any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values())


def option_problems(
    options: Mapping[str, Any], known: Iterable[str], takes_any: bool, taken: Iterable[str]
) -> Iterator[Wrong]:
    """Options that are not taken, or that a call gives already."""
    known, taken = sorted(known), tuple(taken)
    for option in options:
        if option in taken:
            yield f"option {option!r}", "another name", "every call gives it"
        elif option not in known and not takes_any:
            expected = f"one of {', '.join(known)}" if known else "no options"
            yield f"option {option!r}", expected, did_you_mean(option, known)


# Classes by scikit-learn's conventions as methods.

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


OWN = "sweep-clustering"
"""Our distribution."""

PLACES = {
    "k-means": "baselines:k_means",
    "gaussian-mixture-spherical": "baselines:gaussian_mixture_spherical",
    "gaussian-mixture-diag": "baselines:gaussian_mixture_diag",
    "gaussian-mixture-tied": "baselines:gaussian_mixture_tied",
    "gaussian-mixture-full": "baselines:gaussian_mixture_full",
    "ward": "baselines:ward",
    "spectral-links": "spectral:spectral_links",
    "cop-kmeans": "links:cop_kmeans",
    "pckmeans": "links:pckmeans",
    "correlation-clustering": "links:correlation_clustering",
}
"""Shipped methods: module of the folder `shipped` and function."""

ON_SCIKIT_LEARN = ("baselines", "spectral")
"""Modules whose methods are computed by scikit-learn."""

PRIVATE = "_sweep_method_"
"""Begins the name of the module that a file becomes."""

CALL = re.compile(r"(?P<place>[^:]+):(?P<attribute>[^\W\d]\w*(\.[^\W\d]\w*)*)")


@dataclass(frozen=True)
class MethodCall:
    """A method as a sweep file names it; it travels to workers.

    Parameters
    ----------
    name : str
        Of the method in the sweep.
    call : str
        A name of `sweeps.words.SHIPPED`, `package.module:function`, or `file.py:function`. In place of a
        function there may be a class by scikit-learn's conventions.
    source : str or None
        Text of the file, where there is one: workers need not see the file.
    options : mapping of str to Any
        Passed to every call as keywords.
    time_limit : float
        Seconds that a call may take.
    """

    name: str
    call: str
    source: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    time_limit: float = PER_CALL


def load(call: MethodCall) -> Method:
    """The method itself, which takes the options of `call` without being given them.

    A file is a module of its own, under a private name: it can define dataclasses and pickle its classes. It
    cannot import what stands beside it. The functions are the ones of one module however often it is loaded.

    Parameters
    ----------
    call : MethodCall
        What to load.

    Returns
    -------
    Method
        To be called with the arguments of the contract.

    Raises
    ------
    InputError
        If there is no such method, or it does not take the arguments of the contract or the options; with
        all that is wrong. What a file or a package raises while it is imported is passed on.
    """
    found = _found(call)
    wrong = class_problems if isinstance(found, type) else function_problems
    problems = [Problem(f"method {call.name!r}", *each) for each in wrong(found, call.options)]
    if problems:
        raise InputError(problems)
    options = dict(call.options)
    if isinstance(found, type):
        return method_of_class(found, options)

    def with_options(*arguments: Any, **keywords: Any) -> Any:
        return found(*arguments, **keywords, **options)

    return cast(Method, with_options)


def version_of(call: MethodCall) -> str:
    """Which version of a method this is, as far as it is known.

    Returns
    -------
    str
        Distribution and version of what a package gives; those of scikit-learn for shipped methods that it
        computes, else ours; nothing for a file, whose text says all.
    """
    if call.source is not None:
        return ""
    if call.call in SHIPPED:
        uses = PLACES[call.call].partition(":")[0] in ON_SCIKIT_LEARN
        distribution = "scikit-learn" if uses else OWN
        return f"{distribution} {version(distribution)}"
    return installed_version(call.call.partition(":")[0].partition(".")[0])


def call_problems(name: str, call: str) -> list[Problem]:
    """What is wrong with the form of a `call`, without importing anything."""
    where = f"method {name!r}"
    if ":" not in call:
        return [] if call in SHIPPED else [Problem(where, repr(call), FORMS, did_you_mean(call, SHIPPED))]
    if not CALL.fullmatch(call):
        return [Problem(where, repr(call), FORMS)]
    return []


def read_source(call: str, folder: Path) -> str | None:
    """Text of the file that a `call` names; None where it names none.

    Parameters
    ----------
    call : str
        As in `MethodCall`.
    folder : Path
        That a relative path begins in.

    Returns
    -------
    str or None
        The whole file.

    Raises
    ------
    InputError
        If there is no such file, or it is no text.
    """
    place = call.partition(":")[0]
    if ":" not in call or not place.endswith(".py"):
        return None
    path = folder / place
    where = f"method {call!r}"
    try:
        return text_of_code(path, read_code(path))
    except InputError as error:
        (problem,) = error.problems
        beside = [each.name for each in path.parent.glob("*.py")] if path.parent.is_dir() else []
        is_gone = isinstance(error.__cause__, FileNotFoundError)
        found = f"no {place}" if is_gone else f"{place}: {problem.found}"
        hint = did_you_mean(path.name, beside) if is_gone else ""
        raise InputError([Problem(where, found, "a Python file that can be read", hint)]) from None


def _found(call: MethodCall) -> Any:
    problems = call_problems(call.name, call.call)
    if problems:
        raise InputError(problems)
    if call.call in SHIPPED:
        place, _, attribute = PLACES[call.call].partition(":")
        return getattr(import_module(f"pipeline.methods.shipped.{place}"), attribute)
    place, _, attribute = call.call.partition(":")
    module = _of_source(place, call.source) if call.source is not None else _imported(call.name, place)
    found: Any = module
    for step in attribute.split("."):
        if not hasattr(found, step):
            raise InputError([_missing(call.name, place, step, found)])
        found = getattr(found, step)
    if not callable(found):
        found_text = f"{attribute}, of type {type(found).__name__}"
        raise InputError([Problem(f"method {call.name!r}", found_text, "a function or a class")])
    return found


def _missing(name: str, place: str, attribute: str, holder: object) -> Problem:
    names = [each for each, value in vars(holder).items() if callable(value) and not each.startswith("_")]
    hint = did_you_mean(attribute, names)
    return Problem(f"method {name!r}", f"no {attribute!r} in {place}", "a function or a class", hint)


def _imported(name: str, place: str) -> ModuleType:
    if place.endswith(".py"):
        raise InputError([Problem(f"method {name!r}", f"{place} without its text", "a file that was read")])
    try:
        return import_module(place)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{place}.".startswith(f"{error.name}."):
            raise  # something that the package needs
        hint = "files are named with .py: file.py:function"
        problem = Problem(f"method {name!r}", f"no module {error.name!r}", "one that is installed", hint)
        raise InputError([problem]) from None


def _of_source(place: str, source: str) -> ModuleType:
    digest = hashlib.sha256(f"{place}\0{source}".encode()).hexdigest()[:16]
    private = f"{PRIVATE}{digest}"
    if private in sys.modules:
        return sys.modules[private]
    # Without a time of change linecache keeps the lines, whatever stands in the file by now.
    linecache.cache[place] = (len(source), None, source.splitlines(keepends=True), place)
    module = ModuleType(private)
    module.__file__ = place
    sys.modules[private] = module
    try:
        exec(compile(source, place, "exec", dont_inherit=True), module.__dict__)
    except BaseException:
        del sys.modules[private]
        raise
    return module
