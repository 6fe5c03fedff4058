"""Whether a function can take what a call gives it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from sweeps.errors import did_you_mean

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
