"""Where a method is found: shipped, in a package, or in the text of a file; a function, or a class.

`load` makes of a `MethodCall` the function that the contract asks for, once its arguments and options fit.
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
from sweep_clustering.sweeps.errors import InputError, Problem, did_you_mean
from sweep_clustering.sweeps.words import FORMS, PER_CALL, SHIPPED, installed_version, read_code, text_of_code

# Our distribution.
OWN = "sweep-clustering"

# Folder of the shipped methods.
SHELF = "sweep_clustering.pipeline.methods.shipped"

# Modules of that folder, in which functions have the names of methods; all others are baselines.
MODULES = {
    "spectral": "spectral",
    "spectral-links": "spectral",
    "cop-kmeans": "links",
    "pckmeans": "links",
    "correlation-clustering": "links",
}

# Begins the name of the module that a file becomes.
PRIVATE = "_sweep_method_"

CALL = re.compile(r"(?P<place>[^:]+):(?P<attribute>[^\W\d]\w*(\.[^\W\d]\w*)*)")

CONTRACT = "(X, n_clusters, must_link, cannot_link, *, weights, accuracy, random_state)"
LINKS = ("must_link", "cannot_link", "weights", "accuracy")
SEED = "random_state"
# What comes by name.
GIVEN = ("weights", "accuracy", SEED)

# What a class may call the number of clusters, the first one it has.
NUMBERS = ("n_clusters", "n_components")


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
    found, is_shipped = _found(call), call.call in SHIPPED
    if problems := list(method_problems(found, call.options, is_shipped)):
        raise _refused(call, *problems)
    if isinstance(found, type):
        return method_of_class(found, call.options)
    if not is_shipped:

        def with_options(*arguments: Any, **named: Any) -> Any:
            # Lists among the options are new in each call: what a call changes is not left to the next.
            return found(*arguments, **named, **deepcopy(dict(call.options)))

        return cast(Method, with_options)
    seen = [name for name in (*LINKS, SEED) if name in inspect.signature(found).parameters]

    def shipped(X: Any, n_clusters: int, must_link: Links, cannot_link: Links, **told: Any) -> Any:
        told |= {"must_link": must_link, "cannot_link": cannot_link}
        return found(X, n_clusters, **{name: told[name] for name in seen}, **call.options)

    return cast(Method, shipped)


def version_of(call: MethodCall) -> str:
    """Which version of a method this is, as far as it is known.

    Returns
    -------
    str
        Distribution and version of what a package gives; those of the package that computes a shipped
        method, else ours; nothing for a file, whose text says all.
    """
    if call.source is not None:
        return ""
    if call.call not in SHIPPED:
        return installed_version(call.call.partition(":")[0].partition(".")[0])
    package = SHIPPED[call.call].package
    return installed_version(package) if package else f"{OWN} {version(OWN)}"


def read_source(call: str) -> str | None:
    """Text of the file that a `call` names, as in `MethodCall`; None where it names none.

    Raises
    ------
    InputError
        If there is no such file, or it is no text.
    """
    place, colon, _ = call.partition(":")
    path = Path(place)
    return text_of_code(path, read_code(path)) if colon and place.endswith(".py") else None


def method_problems(
    found: Callable[..., Any], options: Mapping[str, Any], is_shipped: bool = False
) -> Iterator[tuple[str, str, str]]:
    """What keeps a function, or a class, from being a method with these options.

    Each is what was found, what was expected, and a hint. Functions that are shipped take of the contract
    what they use, by name.
    """
    is_class, name = isinstance(found, type), getattr(found, "__name__", "it")
    if is_class and not any(callable(getattr(found, fit, None)) for fit in ("fit", "fit_predict")):
        yield f"class {name}", "a class with fit or fit_predict, or a function", ""
    signature, kinds = _signature(found), inspect.Parameter
    parameters = {key: each.kind for key, each in signature.parameters.items()}
    form = f"class {name}({', '.join(parameters)})" if is_class else f"{name}{signature}"
    # what comes by position, and what by name; then how the whole is called
    n_places, named, expected = 4, {*GIVEN}, CONTRACT
    if is_class:
        numbers = [key for key in NUMBERS if key in parameters]
        if not numbers:
            yield form, "a parameter n_clusters or n_components", ""
        n_places, expected = 0, "options for all without default"
        named = {*numbers, *{SEED} & parameters.keys()}
    elif is_shipped:
        n_places, named = 2, {*LINKS, SEED} & parameters.keys()
    places = [key for key, kind in parameters.items() if kind < kinds.VAR_POSITIONAL][:n_places]
    by_name = {
        key for key, kind in parameters.items() if kind in (kinds.POSITIONAL_OR_KEYWORD, kinds.KEYWORD_ONLY)
    }
    known = sorted(by_name - named - set(places))
    for option in options:
        if option in {*named, *places}:
            yield f"option {option!r}", "another name", "every call gives it"
        elif option not in known and kinds.VAR_KEYWORD not in parameters.values():
            these = f"one of {', '.join(known)}" if known else "no options"
            yield f"option {option!r}", these, did_you_mean(option, known)
    try:
        signature.bind(*[None] * n_places, **dict.fromkeys({*named, *(options.keys() & set(known))}))
    except TypeError as error:
        yield form, expected, str(error)


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    """How it is called; in any way where that is not known, as of some functions of extension modules."""
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return inspect.signature(lambda *arguments, **options: None)


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
    parameters = _signature(cls).parameters
    number = next(name for name in NUMBERS if name in parameters)
    fits: Any = getattr(cls, "fit", None) or getattr(cls, "fit_predict", None)
    seen = set(LINKS) & _signature(fits).parameters.keys()

    def fitted(X: Any, n_clusters: int, must_link: Links, cannot_link: Links, **told: Any) -> Solution:
        told |= {"must_link": must_link, "cannot_link": cannot_link, number: n_clusters}
        estimator = cls(
            **deepcopy(dict(options)), **{name: told[name] for name in (number, SEED) if name in parameters}
        )
        links = {name: told[name] for name in seen}
        if hasattr(estimator, "fit"):
            estimator.fit(X, **links)
            labels = estimator.labels_ if hasattr(estimator, "labels_") else estimator.predict(X)
        else:
            labels = estimator.fit_predict(X, **links)
        objective = getattr(estimator, "lower_bound_", None)
        if hasattr(estimator, "inertia_"):
            objective = -float(estimator.inertia_)
        found: Any = (getattr(estimator, name, None) for name in ("cluster_centers_", "means_"))
        shape = (n_clusters, X.shape[1])
        return Solution(labels, objective, next((each for each in found if np.shape(each) == shape), None))

    return cast(Method, fitted)


def _refused(call: MethodCall, *problems: tuple[str, str, str]) -> InputError:
    """Of what was found, what was expected, and a hint, each."""
    return InputError(Problem(f"method {call.name!r}", *each) for each in problems)


def _found(call: MethodCall) -> Any:
    """The function or class that a call names."""
    if call.call in SHIPPED:
        shipped = SHIPPED[call.call]
        if shipped.missing:
            raise _refused(call, (f"no {shipped.package}, which it calls", shipped.package, shipped.missing))
        module = import_module(f"{SHELF}.{MODULES.get(call.call, 'baselines')}")
        return getattr(module, call.call.replace("-", "_"))
    if not CALL.fullmatch(call.call):
        hint = "" if ":" in call.call else did_you_mean(call.call, SHIPPED)
        raise _refused(call, (repr(call.call), FORMS, hint))
    place, _, attribute = call.call.partition(":")
    expected, found = "a function or a class", _module(call, place)
    for step in attribute.split("."):
        if not hasattr(found, step):
            names = [name for name, value in vars(found).items() if callable(value) and name[0] != "_"]
            hint = did_you_mean(step, names)
            raise _refused(call, (f"no {step!r} in {place}", expected, hint))
        found = getattr(found, step)
    if not callable(found):
        raise _refused(call, (f"{attribute}, of type {type(found).__name__}", expected, ""))
    return found


def _allow_former_name() -> None:
    """Let a method import the public names from `pipeline`, where they were before.

    The text of a method is part of what a cube was made with: a line that changes makes it another method, so
    a cube could neither grow nor be verified.
    """
    spec = find_spec("pipeline") if "pipeline" not in sys.modules else None
    ours = Path(__file__).resolve().parents[1]
    if spec is None or Path(spec.origin or "").resolve().parent == ours:
        sys.modules.setdefault("pipeline", sys.modules["sweep_clustering"])


def _module(call: MethodCall, place: str) -> Any:
    """The module of a package, or the one that the text of a file becomes."""
    source = call.source
    if source is None and place.endswith(".py"):
        raise _refused(call, (f"{place} without its text", "a file that was read", ""))
    if source is None:
        try:
            return import_module(place)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{place}.".startswith(f"{error.name}."):
                raise  # something that the package needs
            hint = "files are named with .py: file.py:function"
            raise _refused(call, (f"no module {error.name!r}", "one that is installed", hint)) from None
    private = PRIVATE + hashlib.sha256(f"{place}\0{source}".encode()).hexdigest()[:16]
    if private in sys.modules:
        return sys.modules[private]
    # Without a time of change linecache keeps the lines, whatever stands in the file by now.
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
