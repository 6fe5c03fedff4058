"""The settings of the search as parameters of an estimator."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Mapping
from typing import Any, TypeVar

from kernels.settings import OFFERED, Setting

Estimator = TypeVar("Estimator", bound=type)

PLACE = "**settings : as declared"
"""Line of a docstring where the settings are described."""


def with_settings(estimator: Estimator) -> Estimator:
    """Give a class whose `__init__` takes `**settings` the signature and the docstring that name them.

    scikit-learn, `inspect` and tools that show help read both, so a declared setting is a parameter.
    """
    init = vars(estimator)["__init__"]
    signature = inspect.signature(init)
    own = [each for each in signature.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
    init.__signature__ = signature.replace(parameters=own + [_parameter(each) for each in OFFERED])
    if estimator.__doc__ is not None:  # there is none under `python -OO`
        described = "\n".join(map(_described, OFFERED))
        estimator.__doc__ = inspect.cleandoc(estimator.__doc__).replace(PLACE, described)
    return estimator


def _parameter(setting: Setting) -> inspect.Parameter:
    return inspect.Parameter(
        setting.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=setting.offered,
        annotation=f"{_kind(setting)} | None" if setting.by_method else _kind(setting),
    )


def _described(setting: Setting) -> str:
    words = ", ".join(f'"{word}"' for word in setting.choices)
    kind = f"{{{words}}}" if words else _kind(setting)
    default = f'"{setting.default}"' if words and not setting.by_method else setting.offered
    by_method = f" None: {setting.unless_given}." if setting.by_method else ""
    meaning = textwrap.fill(setting.meaning + by_method, 106, initial_indent="    ", subsequent_indent="    ")
    return f"{setting.name} : {kind}, default={default}\n{meaning}"


def _kind(setting: Setting) -> str:
    number = type(setting.default).__name__
    return " or ".join([number, *(f'"{word}"' for word in setting.words)])


def with_defaults(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Every setting by name: the one given, as it is, else its default.

    Raises
    ------
    TypeError
        If there is no such setting.
    """
    defaults = {each.name: each.offered for each in OFFERED}
    unknown = settings.keys() - defaults.keys()
    if unknown:
        raise TypeError(f"unexpected parameters: {', '.join(sorted(unknown))}")
    return {**defaults, **settings}
