"""What people may choose of a fit: each parameter declared once, here.

`PARAMETERS` say what is fitted to what, `SETTINGS` how it is searched for and what is maximised; the method
names values of some settings, which those that are given override. Sweep files, the options of `sweep fit`
and `sweep ask`, the parameters of the estimator, the checks of all of them (`wrong_settings`) and their help
derive from these. Beyond the doors there are values alone. `spread_problem` is their one check of features.
Only the standard library is loaded: commands that solve nothing import this too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, NamedTuple

from sweep_clustering.kernels.structure import (
    ANY,
    AUTO,
    CANDIDATES,
    COVARIANCES,
    DISCRIMINATIVE,
    MOST_COMPONENTS,
    NONE,
    ONE_GAUSSIAN,
    UNION,
    kind_of,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Annotation terms of the objective.
TERMS = ("unsupervised", "likelihood", "posterior", "conditional")

# Parts of the annotations, each of which is held out once to choose a shape, and generations of the search of
# each, at most: a short one, as parameters matter more than the last sample.
FOLDS, FOLD_GENERATIONS = 5, 5

# The model of the term "conditional" and classes of any shape, by one name.
MODEL_ANY = "conditional-any"

# Shapes whose likelihood is unbounded without a prior, or may be.
SINGULAR = ("tied", "full", AUTO)

# Ways to scale features; `sweeps.data.scaling` does it. Sweep files take those that are named.
SCALES = ("none", "standard", "minmax")

# Of a weight of an annotation: far beyond what anybody annotates; sums, squares and logarithms keep digits.
LEAST_WEIGHT, LARGEST_WEIGHT = 1e-100, 1e12
WEIGHTS = f"a number from {LEAST_WEIGHT:g} to {LARGEST_WEIGHT:g}"


@dataclass(frozen=True)
class Setting:
    """What is known of one parameter.

    Parameters
    ----------
    name : str
        As in the sweep file and of the estimator; the option of `sweep fit` has dashes.
    default : int, float, str or None
        Its type is that of the setting: a whole number, a finite number or one of some words; None where it
        may be left out. Of a setting that goes by the method it is what "published" says.
    meaning : str
        One line, the help text.
    since : int
        Generation of the sweep file that brought it, counted from 1. A default of a later generation is left
        out of what a cube keeps: cubes made before it stay growable.
    low, high : int, float or None
        Range, both ends included; None for no limit.
    above : bool
        Whether the lower end is not included.
    flag : str
        Option of `sweep fit`, where that is not the name.
    choices : tuple of str
        The words.
    words : tuple of str
        Words that stand beside numbers, such as one that is computed from the data.
    whole : bool
        Whether the numbers are whole, where the default is a word.
    strong : int, float, str or None
        What the method "strong" says; None for a setting that does not go by the method.
    """

    name: str
    default: int | float | str | None
    meaning: str
    since: int = 1
    low: float = 0
    high: float | None = None
    above: bool = False
    flag: str = ""
    choices: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    whole: bool = False
    strong: int | float | str | None = None

    @property
    def by_method(self) -> bool:
        """Whether the method says what it is where it is not given."""
        return self.strong is not None

    @property
    def offered(self) -> int | float | str | None:
        """What a door has where nothing is given: None if that goes by the method."""
        return None if self.by_method else self.default

    @property
    def unless_given(self) -> str:
        """What it is where it is not given, in words; empty if that does not go by the method."""
        return f"{self.strong} if strong, {self.default} if published" if self.by_method else ""

    def of(self, method: str) -> Any:
        """What a method says."""
        return self.strong if self.by_method and method == "strong" else self.default

    @property
    def option(self) -> str:
        """Option of `sweep fit`."""
        return self.flag or f"--{self.name.replace('_', '-')}"

    @property
    def is_whole(self) -> bool:
        """Whether it is a whole number."""
        return self.whole or isinstance(self.default, int)

    @property
    def expected(self) -> str:
        """What a value has to be, in words."""
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        if self.above:
            return f"a number above {self.low}, at most {self.high}"
        if (type(self.default), self.low, self.high) == (float, 0, 1):
            return "a probability in [0, 1]"
        noun = "a whole number" if self.is_whole else "a finite number"
        limit = "" if self.high is None else f", at most {self.high}"
        return ", or ".join([f"{noun}, {self.low} or more{limit}", *self.words])

    def allows(self, value: Any) -> bool:
        """Whether a value is of the type and in the range."""
        if self.choices or isinstance(value, str):
            return isinstance(value, str) and value in (*self.choices, *self.words)
        kind = Integral if self.is_whole else Real
        if not isinstance(value, kind) or isinstance(value, bool) or not math.isfinite(value):
            return False
        is_low = value <= self.low if self.above else value < self.low
        return not is_low and (self.high is None or value <= self.high)


def _declared(default: int | float | str, meaning: str, **more: Any) -> Any:
    return field(default=default, metadata={"default": default, "meaning": meaning, **more})


@dataclass(frozen=True)
class SearchSettings:
    """Size and method of a restart, as the search takes them.

    The defaults are those of the method "published", docs/model.md, section 3: a cube says nothing of a
    setting that it was made without.
    """

    # a few parents agree after a few generations: patience then ends what many would still be searching
    population: int = _declared(10, "Solutions that survive a generation.", low=2, high=10_000, strong=5)
    offspring: int = _declared(10, "Solutions made in a generation.", low=1, high=10_000, strong=8)
    generations: int = _declared(10, "Generations of a restart, at most.", low=1, high=10**6, strong=20)
    patience: int = _declared(
        0, "Generations without gain that end a restart early; 0 for never.", since=2, high=10**6, strong=4
    )
    # a mutated offspring always goes by centroids, hence the limit on mutation below
    crossover: str = _declared(
        "centroids",
        "Part of the parents that offspring take if they are not mutated; labels need a mutation below 1.",
        since=2,
        choices=("centroids", "labels"),
        strong="labels",
    )
    mutation: float = _declared(1.0, "Probability that an offspring is mutated.", since=2, high=1, strong=0.2)
    # with "all", no sample is left for phase 2 of the local search, and the objective never falls
    relocation: str = _declared(
        "annotated",
        "Samples whose relocations are judged by the whole objective; the others are judged by the features."
        " With components, all samples and sets of them that must-links hold together.",
        since=2,
        choices=("annotated", "all", "components"),
        strong="components",
    )


@dataclass(frozen=True)
class ObjectiveSettings:
    """What is maximised, beside model and number of clusters (docs/model.md, section 2)."""

    min_cluster_size: int = _declared(2, "Fewest samples of a cluster.", low=1)
    variance_prior: float = _declared(
        0.0,
        "Pseudo-samples per cluster at the overall variance; above 0 no cluster's variance can vanish.",
    )
    covariance_prior: float = _declared(
        1.0,
        "Strength of the prior on diagonal, tied and full covariances; 0 is none, for diagonal ones alone.",
        since=3,
        high=1_000_000,
    )
    feature_weight: float | str = _declared(
        1.0,
        "Weight of the features against the annotations; effective counts correlated features once.",
        since=3,
        low=0.001,
        high=1,
        words=("effective",),
    )
    proportions: str = _declared(
        "equal",
        "Shares of the clusters: equally likely beforehand, or free, each as likely as it is large.",
        since=3,
        choices=("equal", "free"),
    )
    components: int | str = _declared(
        1,
        "Gaussians that a cluster is a union of; auto is the number that predicts held-out annotations best.",
        since=4,
        low=1,
        high=MOST_COMPONENTS,
        words=(AUTO,),
    )
    subspace: int | str = _declared(
        NONE,
        "Coordinates of the Gaussians: a number of principal components, discriminative directions, none for"
        " the features as they are; auto is what predicts held-out annotations best.",
        since=4,
        low=1,
        high=1_000_000,
        words=(NONE, AUTO, DISCRIMINATIVE),
        whole=True,
    )


@dataclass(frozen=True)
class Settings(ObjectiveSettings, SearchSettings):
    """All settings; those of the search come first."""


DEFAULT = Settings()
SETTINGS = tuple(Setting(each.name, **each.metadata) for each in fields(Settings))

# How long a restart is.
LENGTHS = {"population", "offspring", "generations", "patience"}

# No setting of its own: choices of a method and of settings that come to the same values are one search.
METHOD = Setting(
    "method",
    "strong",
    "Settings of the search by one name: published is the paper's method, strong finds better solutions in"
    " less time. A setting that is given overrides it.",
    since=4,
    choices=("strong", "published"),
)

# What `[search]` of a sweep file takes, and `sweep fit` and the estimator beside `PARAMETERS`.
OFFERED = (METHOD, *SETTINGS)

# What is fitted to what, by name.
PARAMETERS = {
    each.name: each
    for each in (
        # labels are int16, counted from 0
        Setting("n_clusters", 2, "Number of clusters.", low=1, high=32_767, flag="-k"),
        Setting(
            "model",
            AUTO,
            "What to maximise. auto is classes of any shape, all chosen by held-out annotations, or without"
            " any by the features; posterior is the source paper's model.",
            choices=(AUTO, *TERMS, MODEL_ANY),
        ),
        Setting(
            "covariance",
            None,
            "One variance for each cluster, or for all; one for each cluster and feature; one matrix for all"
            " clusters, or for each; auto is the shape that predicts held-out annotations best; any chooses"
            " components and subspace in the same way.  [default: any with model auto, else spherical]",
            choices=(*COVARIANCES, AUTO, ANY),
        ),
        Setting(
            "accuracy",
            None,
            "Assumed share of correct annotations; estimated from them if not given, but posterior needs it.",
            high=1,
            above=True,
        ),
        Setting("restarts", 10, "Independent runs of the search.", low=1),
        Setting("seed", 0, "Seed of all random numbers: the same seed gives the same result."),
        Setting(
            "scale",
            None,
            "Scale of the features. auto gives each the standard deviation 1. It leaves columns of 0 and 1"
            " alone, and all columns if they seem to have one unit.  [default: auto for classes of any shape,"
            " else none]",
            choices=(AUTO, *SCALES),
        ),
        Setting(
            "missing", "error", "Rows with an empty cell: refused, or left out.", choices=("error", "drop")
        ),
        Setting(
            "categories",
            "error",
            "Features of texts: refused, or a column of 0 and 1 for each of their texts.",
            choices=("error", "onehot"),
        ),
        Setting(
            "links_outside",
            "error",
            "Annotations of rows that are left out: refused, or left out and counted.",
            choices=("error", "drop"),
        ),
        Setting(
            "first_row",
            "auto",
            "Number of the first row in files of links and annotations. auto: 0 if any of them names row 0,"
            " 1 if one names row N; else what the answers say, if that is clear.",
            choices=("auto", "0", "1"),
        ),
    )
}


def wrong_settings(
    values: Mapping[str, Any], parameters: Mapping[str, Setting] = PARAMETERS
) -> Iterator[tuple[Setting, str, str]]:
    """Every parameter and setting that is not possible, with what was found and expected, both in words.

    Parameters
    ----------
    values : mapping of str to object
        Parameters, the method and settings by name; those left out are not looked at, and neither are other
        names. Where there is a method, None stands for what it says.
    parameters : mapping of str to Setting
        Those of a door, where they are not `PARAMETERS`.
    """
    for name, parameter in parameters.items():
        # None where that is the default stands for what the others say
        found = values.get(name)
        if found is not None or (name in values and parameter.default is not None):
            if not parameter.allows(found):
                yield parameter, repr(found), parameter.expected
        elif (name, values.get("model")) == ("accuracy", "posterior") and not values.get(
            "annotator_accuracy"
        ):
            yield parameter, "nothing", f"{parameter.expected}: posterior needs it"
    yield from _wrong_of_unions(values, parameters)
    method = values.get("method")
    has_method, is_right = "method" in values, METHOD.allows(method)
    if has_method and not is_right:
        yield METHOD, repr(method), METHOD.expected
    labels = ""  # the crossover that takes no mutated offspring, and where it comes from if not from the user
    for setting in SETTINGS:
        found, source = values.get(setting.name), ""
        if has_method and setting.by_method and found is None:
            found, source = setting.of(str(method)), f" by the method {method}"
        if setting.name not in values or (source and not is_right):
            continue
        told = f"{found!r}{source}"
        if not setting.allows(found):
            yield setting, told, setting.expected
        elif found == "labels":
            labels = f"crossover labels{source}"
        elif setting.name == "covariance_prior" and found == 0 and values.get("covariance") in SINGULAR:
            yield setting, told, f"a number above 0 for {values['covariance']} covariances"
        elif setting.name == "mutation" and found == 1 and labels:
            # the crossover was looked at before: settings stand in the order of their declarations
            yield setting, told, f"less than 1 for {labels}, which mutated offspring do not take"


def _wrong_of_unions(
    values: Mapping[str, Any], parameters: Mapping[str, Setting]
) -> Iterator[tuple[Setting, str, str]]:
    """What classes of any shape have no place for."""
    model, shape = values.get("model"), values.get("covariance")
    own = [each for each in SETTINGS if each.name in ("components", "subspace")]
    given = [each for each in own if values.get(each.name, each.default) != each.default]
    is_any = ANY in (model, shape) or model == MODEL_ANY
    for each in given if is_any else ():
        yield each, repr(values[each.name]), f"{each.default!r}: {MODEL_ANY} chooses it"
    if not given and not is_any:
        return
    who = ", ".join(each.name for each in given) or "classes of any shape"
    if "model" in parameters and model in set(parameters["model"].choices) - {AUTO, MODEL_ANY, *UNION.terms}:
        yield parameters["model"], repr(model), f"{' or '.join(UNION.terms)} for {who}"
    if "covariance" in parameters:
        if shape == "common":
            yield parameters["covariance"], repr(shape), f"{', '.join(CANDIDATES)} or {AUTO} for {who}"
        elif model == MODEL_ANY and shape not in (None, AUTO, ANY):
            yield parameters["covariance"], repr(shape), f"{AUTO}: {MODEL_ANY} chooses it"
    for each in SETTINGS:
        found = values.get(each.name, each.default)
        if each.name in UNION.unused and found != each.default and each.allows(found):
            expected = f"{each.default!r}: it has no place with {who}; or a model such as posterior"
            yield each, repr(found), expected


class Taken(NamedTuple):
    """What model, covariance and scale stand for."""

    model: Any
    covariance: Any
    scale: Any


def taken(model: Any, covariance: Any, scale: Any, settings: ObjectiveSettings, *, annotated: bool) -> Taken:
    """What stands for a model, covariance and scale that are not given; those that are stay, right or wrong.

    Parameters
    ----------
    model, covariance, scale : str or None
        As given: the model `AUTO`, and None for the others, go by what else is known.
    settings : ObjectiveSettings
        With components and subspace: where one is named, the model "auto" fits that, and the shape is chosen.
    annotated : bool
        Whether there are annotations.
    """
    if model in (None, AUTO):
        named = covariance not in (None, ANY) or kind_of("", settings) is not ONE_GAUSSIAN
        model = "unsupervised" if not annotated else "conditional" if named else MODEL_ANY
        covariance = covariance or (AUTO if named else ANY)
    elif covariance is None or (model, covariance) == (MODEL_ANY, AUTO):
        covariance = ANY if model == MODEL_ANY else "spherical"
    return Taken(model, covariance, scale or kind_of(str(covariance), settings).scale)


def settings_of(values: Mapping[str, Any]) -> Settings:
    """All settings, in Python's own types, from the method and settings by name.

    Parameters
    ----------
    values : mapping of str to object
        None, or nothing, stands for what the method says, and for the default of what does not go by it. No
        method is "strong"; so is one that does not exist, which `wrong_settings` reports. Other names are not
        looked at.
    """
    method = values.get("method") if METHOD.allows(values.get("method")) else METHOD.default
    taken: dict[str, Any] = {}
    for each in SETTINGS:
        given = values.get(each.name)
        found = each.of(str(method)) if given is None else given
        kind: Any = str if isinstance(found, str) else int if each.is_whole else float
        taken[each.name] = kind(found)
    return Settings(**taken)


def method_of(settings: SearchSettings) -> tuple[str, dict[str, Any]]:
    """The method that settings come closest to, and those that differ from what it says, by name.

    The name is found from the values, and not kept beside them: the same search always has the same name. How
    long a restart is counts only between methods that are equally close.
    """
    own = {each: getattr(settings, each.name) for each in SETTINGS if each.by_method}
    others = {
        method: {each.name: value for each, value in own.items() if value != each.of(method)}
        for method in METHOD.choices
    }
    closest = min(others, key=lambda method: (len(others[method].keys() - LENGTHS), len(others[method])))
    return closest, others[closest]


def method_words(settings: SearchSettings) -> str:
    """The method for people: `strong`, or `strong with relocation all`.

    `LENGTHS` are left out: they are numbers, which stand beside it.
    """
    method, others = method_of(settings)
    words = ", ".join(f"{name} {value}" for name, value in others.items() if name not in LENGTHS)
    return f"{method} with {words}" if words else method


# Features: what they must be for their squares to be numbers, one check for every door.

# Of the sum of all squared deviations, and of their mean: between them squares and sums keep digits. Far from
# both, by the margin, a table is good without copies of it.
LARGEST, LEAST, MARGIN = 1e304, 1e-300, 1e6


def spread_problem(X: NDArray[np.float64]) -> tuple[str, str, str] | None:
    """What keeps a table from being clustered.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Features, finite, at least one.

    Returns
    -------
    tuple of str, or None
        What was found, what was expected, and a remedy.
    """
    import numpy as np

    if (X[0] == X).all():
        found = "a single row" if len(X) == 1 else f"{len(X)} rows without any variance"
        return found, "samples that differ", ""
    width = max(1, 2**20 // len(X))
    with np.errstate(all="ignore"):
        starts = range(0, X.shape[1], width)
        variance = sum(float(X[:, start : start + width].var(axis=0).sum()) for start in starts) / X.shape[1]
        if variance > LEAST * MARGIN and variance * X.size < LARGEST / MARGIN:
            return None

    # Half the differences cannot overflow, and in units of a power of two nothing rounds.
    differences = 0.5 * X - 0.5 * X[0]
    exponent = np.frexp(np.abs(differences).max())[1]
    differences = np.ldexp(differences, -exponent)
    total = float(np.square(differences - differences.mean(axis=0)).sum())
    logs = 2.0 * float(exponent + 1) * math.log(2.0)
    if total > 0.0 and math.log(total) + logs > math.log(LARGEST):
        return "values whose squares overflow", "smaller values", "use another unit"
    if total == 0.0 or math.log(total / X.size) + logs < math.log(LEAST):
        return "values whose squares underflow", "larger values", "use another unit"
    return None
