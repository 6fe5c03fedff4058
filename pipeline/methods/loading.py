"""Loading of a method, a function or a class: shipped, in a package, or in the text of a file.

`load` turns a `MethodCall` into the function of the contract, if its arguments and options fit.
"""

import hashlib
import inspect
import linecache
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import numpy as np

from sweep_clustering.pipeline.methods.contract import Links, Method, Solution
from sweep_clustering.sweeps.errors import InputError, Problem, did_you_mean, raise_all, refused
from sweep_clustering.sweeps.words import FORMS, PER_CALL, SHIPPED, installed_version, read_code, text_of_code

# Name of our distribution.
DISTRIBUTION = "sweep-clustering"

# Package of the shipped methods.
SHELF = "sweep_clustering.pipeline.methods.shipped"

# Module of each shipped method, in which a function has its name; all others are in `baselines`.
MODULES = {
    "spectral": "spectral",
    "spectral-links": "spectral",
    "cop-kmeans": "links",
    "pckmeans": "links",
    "correlation-clustering": "links",
}

# The name of a module that was made of a file begins like this.
PREFIX = "_sweep_method_"

CALL = re.compile(r"(?P<place>[^:]+):(?P<attribute>[^\W\d]\w*(\.[^\W\d]\w*)*)")

CONTRACT = "(X, n_clusters, must_link, cannot_link, *, weights, accuracy, random_state)"
LINKS = ("must_link", "cannot_link", "weights", "accuracy")
SEED = "random_state"
# Arguments that every call gives by name.
BY_NAME = ("weights", "accuracy", SEED)

# Names of the number of clusters in a class, of which the first counts.
NUMBERS = ("n_clusters", "n_components")


@dataclass(frozen=True)
class MethodCall:
    """A method as a sweep file names it; it travels to workers."""

    # The name of the method in the sweep.
    name: str
    # A name of `sweeps.words.SHIPPED`, `package.module:function`, or `file.py:function`. In place of a
    # function there may be a class by scikit-learn's conventions.
    call: str
    # The text of the file, if there is one: workers need not see the file.
    source: str | None = None
    # Keyword arguments of every call.
    options: Mapping[str, Any] = field(default_factory=dict)
    # Longest time of a call, in seconds.
    time_limit: float = PER_CALL


def load(call: MethodCall) -> Method:
    """Return a method with its options, to be called with the arguments of the contract.

    A file becomes a module under a private name: it can define dataclasses and pickle its classes. It
    cannot import what stands beside it. The functions are the ones of one module however often it is loaded.

    Raises
    ------
    InputError
        If there is no such method, or it does not take the arguments of the contract or the options; with
        all problems. Errors of a file or a package while it is imported are passed on.
    """
    target, is_shipped = _target(call), call.call in SHIPPED
    problems = method_problems(target, call.options, is_shipped)
    raise_all(Problem(f"method {call.name!r}", *problem) for problem in problems)
    if isinstance(target, type):
        return method_of_class(target, call.options)
    if not is_shipped:

        def with_options(*arguments: Any, **keywords: Any) -> Any:
            # Each call gets lists of its own, so that its changes do not reach the next call.
            return target(*arguments, **keywords, **deepcopy(dict(call.options)))

        return cast(Method, with_options)
    names = {*LINKS, SEED} & inspect.signature(target).parameters.keys()

    def shipped(X: Any, n_clusters: int, must_link: Links, cannot_link: Links, **keywords: Any) -> Any:
        keywords |= {"must_link": must_link, "cannot_link": cannot_link}
        return target(X, n_clusters, **{name: keywords[name] for name in names}, **call.options)

    return cast(Method, shipped)


def version_of(call: MethodCall) -> str:
    """Return the version of a method: a distribution and its version, or nothing for a file.

    For a shipped method it is the package that computes it, if there is one, else ours.
    """
    if call.source is not None:
        return ""
    if call.call not in SHIPPED:
        return installed_version(call.call.partition(":")[0].partition(".")[0])
    package = SHIPPED[call.call].package
    return installed_version(package) if package else f"{DISTRIBUTION} {version(DISTRIBUTION)}"


def read_source(call: str) -> str | None:
    """Return the text of the file that a `call` names, None if it names none."""
    place, colon, _ = call.partition(":")
    path = Path(place)
    return text_of_code(path, read_code(path)) if colon and place.endswith(".py") else None


def method_problems(
    target: Callable[..., Any], options: Mapping[str, Any], is_shipped: bool = False
) -> Iterator[tuple[str, str, str]]:
    """Yield what was found, what was expected and a hint, for each reason why something is no method.

    A function or class must take the arguments of the contract and the options; shipped functions name those
    that they use.
    """
    is_class, name = isinstance(target, type), getattr(target, "__name__", "it")
    if is_class and not any(callable(getattr(target, fit, None)) for fit in ("fit", "fit_predict")):
        yield f"class {name}", "a class with fit or fit_predict, or a function", ""
    signature, kinds = _signature(target), inspect.Parameter
    parameters = {key: parameter.kind for key, parameter in signature.parameters.items()}
    text = f"class {name}({', '.join(parameters)})" if is_class else f"{name}{signature}"
    n_positional, required, expected = 4, {*BY_NAME}, CONTRACT
    if is_class:
        numbers = [key for key in NUMBERS if key in parameters]
        if not numbers:
            yield text, "a parameter n_clusters or n_components", ""
        n_positional, expected = 0, "options for all without default"
        required = {*numbers, *{SEED} & parameters.keys()}
    elif is_shipped:
        n_positional, required = 2, {*LINKS, SEED} & parameters.keys()
    positional = [key for key, kind in parameters.items() if kind < kinds.VAR_POSITIONAL][:n_positional]
    keyword_names = {
        key for key, kind in parameters.items() if kind in (kinds.POSITIONAL_OR_KEYWORD, kinds.KEYWORD_ONLY)
    }
    option_names = sorted(keyword_names - required - set(positional))
    for option in options:
        if option in {*required, *positional}:
            yield f"option {option!r}", "another name", "every call gives it"
        elif option not in option_names and kinds.VAR_KEYWORD not in parameters.values():
            expected_names = f"one of {', '.join(option_names)}" if option_names else "no options"
            yield f"option {option!r}", expected_names, did_you_mean(option, option_names)
    try:
        signature.bind(
            *[None] * n_positional, **dict.fromkeys({*required, *(options.keys() & set(option_names))})
        )
    except TypeError as error:
        yield text, expected, str(error)


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    """Return a signature; if it is not known, as in some extension modules, any arguments fit."""
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return inspect.signature(lambda *arguments, **options: None)


def method_of_class(cls: type, options: Mapping[str, Any]) -> Method:
    """Return a method that fits an instance of a class in each call.

    The constructor gets the options, and the number of clusters as `n_clusters` or `n_components`, and
    `random_state`, if it has them; `fit`, or `fit_predict` alone, gets `must_link`, `cannot_link`, `weights`
    and `accuracy` if it names them. Labels are `labels_`, else the answer of `predict` for the samples. The
    objective is `-inertia_`, else `lower_bound_`, if there is one; centroids are `cluster_centers_`, else
    `means_`, if there is one for each cluster.
    """
    parameters = _signature(cls).parameters
    number = next(name for name in NUMBERS if name in parameters)
    fits: Any = getattr(cls, "fit", None) or getattr(cls, "fit_predict", None)
    link_names = set(LINKS) & _signature(fits).parameters.keys()

    def fitted(X: Any, n_clusters: int, must_link: Links, cannot_link: Links, **keywords: Any) -> Solution:
        keywords |= {"must_link": must_link, "cannot_link": cannot_link, number: n_clusters}
        names = {number, SEED} & parameters.keys()
        estimator = cls(**deepcopy(dict(options)), **{name: keywords[name] for name in names})
        links = {name: keywords[name] for name in link_names}
        if hasattr(estimator, "fit"):
            estimator.fit(X, **links)
            labels = estimator.labels_ if hasattr(estimator, "labels_") else estimator.predict(X)
        else:
            labels = estimator.fit_predict(X, **links)
        objective = getattr(estimator, "lower_bound_", None)
        if hasattr(estimator, "inertia_"):
            objective = -float(estimator.inertia_)
        centers: Any = (getattr(estimator, name, None) for name in ("cluster_centers_", "means_"))
        shape = (n_clusters, X.shape[1])
        centroids = next((values for values in centers if np.shape(values) == shape), None)
        return Solution(labels, objective, centroids)

    return cast(Method, fitted)


def _refusal(call: MethodCall, value: str, expected: str, hint: str = "") -> InputError:
    return refused(f"method {call.name!r}", value, expected, hint)


def _target(call: MethodCall) -> Any:
    """Return the function or class that a call names."""
    if call.call in SHIPPED:
        shipped = SHIPPED[call.call]
        if command := shipped.install_command:
            raise _refusal(call, f"no {shipped.package}, which it calls", shipped.package, command)
        module = import_module(f"{SHELF}.{MODULES.get(call.call, 'baselines')}")
        return getattr(module, call.call.replace("-", "_"))
    if not CALL.fullmatch(call.call):
        hint = "" if ":" in call.call else did_you_mean(call.call, SHIPPED)
        raise _refusal(call, repr(call.call), FORMS, hint)
    place, _, attribute = call.call.partition(":")
    expected, target = "a function or a class", _module(call, place)
    for step in attribute.split("."):
        if not hasattr(target, step):
            names = [name for name, value in vars(target).items() if callable(value) and name[0] != "_"]
            raise _refusal(call, f"no {step!r} in {place}", expected, did_you_mean(step, names))
        target = getattr(target, step)
    if not callable(target):
        raise _refusal(call, f"{attribute}, of type {type(target).__name__}", expected)
    return target


def _allow_former_name() -> None:
    """Let a method import the public names from `pipeline`, their former package.

    The text of a method is part of what a cube was made with, so a changed line would make it another method.
    """
    spec = find_spec("pipeline") if "pipeline" not in sys.modules else None
    package = Path(__file__).resolve().parents[1]
    if spec is None or Path(spec.origin or "").resolve().parent == package:
        sys.modules.setdefault("pipeline", sys.modules["sweep_clustering"])


def _module(call: MethodCall, place: str) -> Any:
    """Return the module of a package, or the one that the text of a file becomes."""
    source = call.source
    if source is None and place.endswith(".py"):
        raise _refusal(call, f"{place} without its text", "a file that was read")
    if source is None:
        try:
            return import_module(place)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{place}.".startswith(f"{error.name}."):
                raise  # the package lacks a module that it imports
            hint = "files are named with .py: file.py:function"
            raise _refusal(call, f"no module {error.name!r}", "one that is installed", hint) from None
    private = PREFIX + hashlib.sha256(f"{place}\0{source}".encode()).hexdigest()[:16]
    if private in sys.modules:
        return sys.modules[private]
    # Without a time of change linecache keeps these lines, even if the file changes.
    linecache.cache[place] = (len(source), None, source.splitlines(keepends=True), place)
    module = sys.modules[private] = ModuleType(private)
    module.__file__ = place
    if "pipeline" in source:
        _allow_former_name()
    try:
        exec(compile(source, place, "exec", dont_inherit=True), module.__dict__)
    except BaseException:
        del sys.modules[private]
        raise
    return module
