"""The settings of the search and of its objective: each declared once, here.

The table `[search]` of a sweep file, the options of `sweep fit`, the parameters of the estimator and the
checks of all three derive from `SETTINGS`. Only the standard library is loaded: commands that solve nothing
import this too.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field, fields
from numbers import Integral, Real
from typing import Any

TERMS = ("unsupervised", "likelihood", "posterior", "conditional")
"""Annotation terms of the objective, by name."""

COVARIANCES = ("spherical", "common")
"""Each cluster has a variance of its own, or all share one."""

LARGEST_WEIGHT = 1e12
"""Of an annotation: far beyond what anybody annotates; sums of such weights, and logarithms, keep digits."""

WEIGHTS = f"a number above 0, at most {LARGEST_WEIGHT:g}"
"""What a weight of an annotation has to be, in words."""


@dataclass(frozen=True)
class Setting:
    """What is known of one setting.

    Parameters
    ----------
    name : str
        As in the sweep file and of the estimator; the option of `sweep fit` has dashes.
    default : int, float or str
        Its type is that of the setting: a whole number, a finite number or one of some words.
    meaning : str
        One line, the help text.
    since : int
        Generation of the sweep file that brought it, counted from 1. A default of a later generation is left
        out of what a cube keeps: cubes made before it stay growable.
    low, high : int, float or None
        Range, both ends included; None for no limit.
    choices : tuple of str
        The words.
    words : tuple of str
        Words that stand for a number which is computed from the data.
    """

    name: str
    default: int | float | str
    meaning: str
    since: int
    low: float = 0
    high: float | None = None
    choices: tuple[str, ...] = ()
    words: tuple[str, ...] = ()

    @property
    def option(self) -> str:
        """Option of `sweep fit`."""
        return f"--{self.name.replace('_', '-')}"

    @property
    def expected(self) -> str:
        """What a value has to be, in words."""
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        if isinstance(self.default, float) and (self.low, self.high) == (0, 1):
            return "a probability in [0, 1]"
        noun = "a whole number" if isinstance(self.default, int) else "a finite number"
        limit = "" if self.high is None else f", at most {self.high}"
        return ", or ".join([f"{noun}, {self.low} or more{limit}", *self.words])

    def allows(self, value: object) -> bool:
        """Whether a value is of the type and in the range."""
        if self.choices:
            return isinstance(value, str) and value in self.choices
        if isinstance(value, str):
            return value in self.words
        kind = Integral if isinstance(self.default, int) else Real
        if not isinstance(value, kind) or isinstance(value, bool):
            return False
        number = float(value)
        return math.isfinite(number) and self.low <= number <= (math.inf if self.high is None else self.high)


def _declared(default: int | float | str, meaning: str, **more: Any) -> Any:
    return field(default=default, metadata={"default": default, "meaning": meaning, **more})


@dataclass(frozen=True)
class SearchSettings:
    """Size and method of a restart; the defaults are the method of docs/model.md, section 3."""

    population: int = _declared(10, "Solutions that survive a generation.", since=1, low=2, high=10_000)
    offspring: int = _declared(10, "Solutions made in a generation.", since=1, low=1, high=10_000)
    generations: int = _declared(10, "Generations of a restart.", since=1, low=1, high=10**6)
    patience: int = _declared(
        0, "Generations without gain that end a restart early; 0 for never.", since=2, high=10**6
    )
    # a mutated offspring always goes by centroids, hence the limit on mutation below
    crossover: str = _declared(
        "centroids",
        "What offspring that are not mutated take from their parents; labels need a mutation below 1.",
        since=2,
        choices=("centroids", "labels"),
    )
    mutation: float = _declared(1.0, "Probability that an offspring is mutated.", since=2, high=1)
    # with "all", no sample is left for phase 2 of the local search, and the objective never falls
    relocation: str = _declared(
        "annotated",
        "Samples whose relocations are judged by the whole objective; the others go by the features."
        " With components, all samples and sets of them that must-links hold together.",
        since=2,
        choices=("annotated", "all", "components"),
    )


@dataclass(frozen=True)
class ObjectiveSettings:
    """What is maximised, beside model and number of clusters (docs/model.md, section 2)."""

    min_cluster_size: int = _declared(2, "Fewest samples of a cluster.", since=1, low=1)
    variance_prior: float = _declared(
        0.0,
        "Pseudo-samples per cluster at the overall variance; above 0 no cluster's variance can vanish.",
        since=1,
    )
    feature_weight: float | str = _declared(
        1.0,
        "Weight of the features against the annotations; effective counts correlated features once.",
        since=3,
        low=0.001,
        high=1,
        words=("effective",),
    )


@dataclass(frozen=True)
class Settings(ObjectiveSettings, SearchSettings):
    """All settings; those of the search come first."""


DEFAULT = Settings()
SETTINGS = tuple(Setting(each.name, **each.metadata) for each in fields(Settings))


def wrong_settings(values: Mapping[str, Any]) -> Iterator[tuple[Setting, object, str]]:
    """Every setting that is not possible, with the value found and what was expected.

    Parameters
    ----------
    values : mapping of str to object
        Settings by name; those left out are not looked at, and neither are other names.
    """
    for setting in SETTINGS:
        if setting.name not in values:
            continue
        found = values[setting.name]
        if not setting.allows(found):
            yield setting, found, setting.expected
        elif setting.name == "mutation" and found == 1 and values.get("crossover") == "labels":
            yield setting, found, "less than 1 for crossover labels, which mutated offspring do not take"


def require(settings: object, declared: type, but: Container[str] = ()) -> None:
    """Raise ValueError if a setting is not possible; the text names all that are not.

    Parameters
    ----------
    settings : SearchSettings or ObjectiveSettings
        Values.
    declared : type
        The one of the two whose settings are looked at.
    but : container of str
        Names that are left out.
    """
    own = {each.name: getattr(settings, each.name) for each in fields(declared) if each.name not in but}
    wrong = [
        f"{each.name} is {found!r}, expected {expected}" for each, found, expected in wrong_settings(own)
    ]
    if wrong:
        raise ValueError("; ".join(wrong))


def settings_of(values: Mapping[str, Any]) -> Settings:
    """All settings from their values by name, in Python's own types; other names are not looked at."""
    return Settings(**{each.name: _converted(each, values[each.name]) for each in SETTINGS})


def _converted(setting: Setting, value: Any) -> Any:
    return value if isinstance(value, str) else type(setting.default)(value)
