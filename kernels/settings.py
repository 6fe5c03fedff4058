"""The parameters and settings of a fit, each declared once, and their checks.

`PARAMETERS` say which model is fitted to which data, `SETTINGS` how it is searched for and what is maximised.
A method gives values to some settings; a setting that is named overrides it. Sweep files, the options of
`sweep fit` and `sweep ask`, the parameters of the estimator, the checks of all of them (`wrong_settings`) and
their help derive from these declarations. `spread_problem` is the one check of features.
Only the standard library is loaded, because commands that solve nothing import this module too.
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

# Parts of the annotations, each of which is held out once to choose a shape.
FOLDS = 5

# Most generations of the search of a fold: few, because parameters matter more than the last sample.
FOLD_GENERATIONS = 5

# The model of the term "conditional" and classes of any shape, by one name.
MODEL_ANY = "conditional-any"

# Shapes whose likelihood is unbounded without a prior, or may be.
SINGULAR = ("tied", "full", AUTO)

# Ways to scale features (`sweeps.data.reading`), as sweep files name them.
SCALES = ("none", "standard", "minmax")

# Code of a row without a label.
UNLABELLED = -1

# Limits of the weight of an annotation, far beyond what anybody annotates: sums, squares and logarithms of
# weights between them keep their digits.
LEAST_WEIGHT = 1e-100
LARGEST_WEIGHT = 1e12
WEIGHTS = f"a number from {LEAST_WEIGHT:g} to {LARGEST_WEIGHT:g}"


@dataclass(frozen=True)
class Setting:
    """The declaration of one parameter.

    Parameters
    ----------
    name : str
        Name in sweep files and of the estimator's parameter; the option of `sweep fit` has dashes.
    default : int, float, str or None
        Value if the parameter is left out, and of its type: a whole number, a finite number or a word; None
        if other parameters decide. The method "published" has the defaults.
    meaning : str
        Help text, one line.
    epoch : int
        Epoch of the sweep file that brought it, counted from 1. Cubes leave out defaults of later epochs, so
        that cubes made before stay growable.
    low, high : int, float or None
        Range, both ends included; None for no limit.
    is_low_excluded : bool
        Whether the lower end is not included.
    flag : str
        Option of `sweep fit`, if that is not the name.
    choices : tuple of str
        Words, one of which the value is.
    words : tuple of str
        Words that are allowed beside numbers, such as one for a value computed from the data.
    has_whole_values : bool
        Whether the numbers are whole, if the default is a word.
    strong : int, float, str or None
        Value of the method "strong"; None if the setting does not depend on the method.
    """

    name: str
    default: int | float | str | None
    meaning: str
    epoch: int = 1
    low: float = 0
    high: float | None = None
    is_low_excluded: bool = False
    flag: str = ""
    choices: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    has_whole_values: bool = False
    strong: int | float | str | None = None

    @property
    def by_method(self) -> bool:
        """Whether its value depends on the method."""
        return self.strong is not None

    @property
    def preset(self) -> int | float | str | None:
        """Default of options and parameters: None if the method decides."""
        return None if self.by_method else self.default

    @property
    def default_words(self) -> str:
        """Defaults of the methods in words; empty if they do not decide."""
        return f"{self.strong} if strong, {self.default} if published" if self.by_method else ""

    def value(self, method: str) -> Any:
        """Return the value of a method."""
        return self.strong if self.by_method and method == "strong" else self.default

    @property
    def option(self) -> str:
        """Option of `sweep fit`."""
        return self.flag or f"--{self.name.replace('_', '-')}"

    @property
    def is_whole(self) -> bool:
        """Whether it is a whole number."""
        return self.has_whole_values or isinstance(self.default, int)

    @property
    def expected(self) -> str:
        """Condition on its values, in words."""
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        if self.is_low_excluded:
            return f"a number above {self.low}, at most {self.high}"
        if (type(self.default), self.low, self.high) == (float, 0, 1):
            return "a probability in [0, 1]"
        noun = "a whole number" if self.is_whole else "a finite number"
        limit = "" if self.high is None else f", at most {self.high}"
        return ", or ".join([f"{noun}, {self.low} or more{limit}", *self.words])

    def allows(self, value: Any) -> bool:
        """Return whether a value has the right type and is in the range."""
        if self.choices or isinstance(value, str):
            return isinstance(value, str) and value in (*self.choices, *self.words)
        kind = Integral if self.is_whole else Real
        if not isinstance(value, kind) or isinstance(value, bool) or not math.isfinite(value):
            return False
        is_low = value <= self.low if self.is_low_excluded else value < self.low
        return not is_low and (self.high is None or value <= self.high)


def _declare(default: int | float | str, meaning: str, **options: Any) -> Any:
    return field(default=default, metadata={"default": default, "meaning": meaning, **options})


@dataclass(frozen=True)
class SearchSettings:
    """The size and the method of a restart of the search.

    The defaults are those of the method "published" (docs/model.md, section 3), which cubes that are older
    than a setting were made with.
    """

    # a few parents agree after a few generations: patience then ends what many would still be searching
    population: int = _declare(10, "Solutions that survive a generation.", low=2, high=10_000, strong=5)
    offspring: int = _declare(10, "Solutions made in a generation.", low=1, high=10_000, strong=8)
    generations: int = _declare(10, "Generations of a restart, at most.", low=1, high=10**6, strong=20)
    patience: int = _declare(
        0, "Generations without gain that end a restart early; 0 for never.", epoch=2, high=10**6, strong=4
    )
    # a mutated offspring always goes by centroids, which is why labels need a mutation below 1
    crossover: str = _declare(
        "centroids",
        "Part of the parents that offspring take if they are not mutated; labels need a mutation below 1.",
        epoch=2,
        choices=("centroids", "labels"),
        strong="labels",
    )
    mutation: float = _declare(1.0, "Probability that an offspring is mutated.", epoch=2, high=1, strong=0.2)
    # with "all", no sample is left for phase 2 of the local search, and the objective never falls
    relocation: str = _declare(
        "annotated",
        "Samples whose relocations are judged by the whole objective; the others are judged by the features."
        " With components, all samples and sets of them that must-links hold together.",
        epoch=2,
        choices=("annotated", "all", "components"),
        strong="components",
    )


@dataclass(frozen=True)
class ObjectiveSettings:
    """The settings of the objective, beside model and number of clusters (docs/model.md, section 2)."""

    min_cluster_size: int = _declare(2, "Fewest samples of a cluster.", low=1)
    variance_prior: float = _declare(
        0.0, "Pseudo-samples per cluster at the overall variance; above 0 no cluster's variance can vanish."
    )
    covariance_prior: float = _declare(
        1.0,
        "Strength of the prior on diagonal, tied and full covariances; 0 is none, for diagonal ones alone.",
        epoch=3,
        high=1_000_000,
    )
    feature_weight: float | str = _declare(
        1.0,
        "Weight of the features against the annotations; effective counts correlated features once.",
        epoch=3,
        low=0.001,
        high=1,
        words=("effective",),
    )
    proportions: str = _declare(
        "equal",
        "Shares of the clusters: equally likely beforehand, or free, each as likely as it is large.",
        epoch=3,
        choices=("equal", "free"),
    )
    components: int | str = _declare(
        1,
        "Gaussians that a cluster is a union of; auto is the number that predicts held-out annotations best.",
        epoch=4,
        low=1,
        high=MOST_COMPONENTS,
        words=(AUTO,),
    )
    subspace: int | str = _declare(
        NONE,
        "Coordinates of the Gaussians: a number of principal components, discriminative directions, none for"
        " the features as they are; auto is what predicts held-out annotations best.",
        epoch=4,
        low=1,
        high=1_000_000,
        words=(NONE, AUTO, DISCRIMINATIVE),
        has_whole_values=True,
    )


@dataclass(frozen=True)
class Settings(ObjectiveSettings, SearchSettings):
    """All settings, those of the search first."""


DEFAULT = Settings()
SETTINGS = tuple(Setting(entry.name, **entry.metadata) for entry in fields(Settings))

# Settings of the length of a restart.
LENGTHS = {"population", "offspring", "generations", "patience"}

# Not a setting: a method and settings that come to the same values are one search.
METHOD = Setting(
    "method",
    "strong",
    "Settings of the search by one name: published is the paper's method, strong finds better solutions in"
    " less time. A setting that is given overrides it.",
    epoch=4,
    choices=("strong", "published"),
)

# Keys of `[search]` in sweep files; `sweep fit` and the estimator have them beside `PARAMETERS`.
OFFERED = (METHOD, *SETTINGS)

# Parameters of the model and of the data, by name.
PARAMETERS = {
    parameter.name: parameter
    for parameter in (
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
            is_low_excluded=True,
        ),
        Setting(
            "label_accuracy",
            0.9,
            "Assumed share of the labels of rows that are right, above that of chance.",
            high=1,
            is_low_excluded=True,
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


class WrongSetting(NamedTuple):
    """A setting, its impossible value in words, and the condition on its values."""

    setting: Setting
    value: str
    expected: str


def wrong_settings(
    values: Mapping[str, Any], parameters: Mapping[str, Setting] = PARAMETERS
) -> Iterator[WrongSetting]:
    """Yield every parameter and setting whose value is not possible.

    Parameters
    ----------
    values : mapping of str to object
        Parameters, the method and settings by name. Names that are missing are not checked, and other names
        are ignored. If there is a method, None stands for its value.
    parameters : mapping of str to Setting
        Parameters to check, if they are not `PARAMETERS`.
    """
    is_accuracy_needed = values.get("model") == "posterior" and not values.get("annotator_accuracy")
    for name, parameter in parameters.items():
        value = values.get(name)
        # if None is the default, the other parameters decide
        if value is not None or (name in values and parameter.default is not None):
            if not parameter.allows(value):
                yield WrongSetting(parameter, repr(value), parameter.expected)
        elif name == "accuracy" and is_accuracy_needed:
            yield WrongSetting(parameter, "nothing", f"{parameter.expected}: posterior needs it")
    yield from _wrong_for_unions(values, parameters)
    method = values.get("method")
    has_method, is_right = "method" in values, METHOD.allows(method)
    if has_method and not is_right:
        yield WrongSetting(METHOD, repr(method), METHOD.expected)
    labels = ""  # the crossover without mutated offspring, and its source if that is the method
    for setting in SETTINGS:
        value, source = values.get(setting.name), ""
        if has_method and setting.by_method and value is None:
            value, source = setting.value(str(method)), f" by the method {method}"
        if setting.name not in values or (source and not is_right):
            continue
        text = f"{value!r}{source}"
        if not setting.allows(value):
            yield WrongSetting(setting, text, setting.expected)
        elif value == "labels":
            labels = f"crossover labels{source}"
        elif setting.name == "covariance_prior" and value == 0 and values.get("covariance") in SINGULAR:
            yield WrongSetting(setting, text, f"a number above 0 for {values['covariance']} covariances")
        elif setting.name == "mutation" and value == 1 and labels:
            # the crossover came before, because settings stand in the order of their declarations
            expected = f"less than 1 for {labels}, which mutated offspring do not take"
            yield WrongSetting(setting, text, expected)


def _wrong_for_unions(values: Mapping[str, Any], parameters: Mapping[str, Setting]) -> Iterator[WrongSetting]:
    """Yield the parameters and settings that do not go with classes of any shape."""
    model, shape = values.get("model"), values.get("covariance")
    changed_settings = [entry for entry in SETTINGS if values.get(entry.name, entry.default) != entry.default]
    parts = [setting for setting in changed_settings if setting.name in ("components", "subspace")]
    is_any = ANY in (model, shape) or model == MODEL_ANY
    for setting in parts if is_any else ():
        text = repr(values[setting.name])
        yield WrongSetting(setting, text, f"{setting.default!r}: {MODEL_ANY} chooses it")
    if not parts and not is_any:
        return
    reason = ", ".join(setting.name for setting in parts) or "classes of any shape"
    if "model" in parameters and model in set(parameters["model"].choices) - {AUTO, MODEL_ANY, *UNION.terms}:
        yield WrongSetting(parameters["model"], repr(model), f"{' or '.join(UNION.terms)} for {reason}")
    if "covariance" in parameters:
        covariance, text = parameters["covariance"], repr(shape)
        if shape == "common":
            yield WrongSetting(covariance, text, f"{', '.join(CANDIDATES)} or {AUTO} for {reason}")
        elif model == MODEL_ANY and shape not in (None, AUTO, ANY):
            yield WrongSetting(covariance, text, f"{AUTO}: {MODEL_ANY} chooses it")
    for setting in changed_settings:
        if setting.name in UNION.unused and setting.allows(value := values[setting.name]):
            expected = f"{setting.default!r}: it has no place with {reason}; or a model such as posterior"
            yield WrongSetting(setting, repr(value), expected)


class ModelChoice(NamedTuple):
    """A model, a covariance and a scale, none of them open."""

    model: Any
    covariance: Any
    scale: Any


def choose_model(
    model: Any, covariance: Any, scale: Any, settings: ObjectiveSettings, *, has_links: bool
) -> ModelChoice:
    """Return the model, covariance and scale with defaults for those that are open; others stay unchecked.

    Parameters
    ----------
    model, covariance, scale : str or None
        Names; the model `AUTO`, and None for all of them, are open.
    settings : ObjectiveSettings
        Settings with components and subspace. If one of these is named, the model "auto" fits that, and the
        shape is chosen.
    has_links : bool
        Whether there are annotations.
    """
    if model in (None, AUTO):
        is_named = covariance not in (None, ANY) or kind_of("", settings) is not ONE_GAUSSIAN
        model = "unsupervised" if not has_links else "conditional" if is_named else MODEL_ANY
        covariance = covariance or (AUTO if is_named else ANY)
    elif covariance is None or (model, covariance) == (MODEL_ANY, AUTO):
        covariance = ANY if model == MODEL_ANY else "spherical"
    return ModelChoice(model, covariance, scale or kind_of(str(covariance), settings).scale)


def settings_of(values: Mapping[str, Any]) -> Settings:
    """Return all settings, in types of Python, from the method and settings by name.

    Parameters
    ----------
    values : mapping of str to object
        If a value is None or missing, the setting has that of the method, or its default. A method that is
        missing or does not exist, which `wrong_settings` reports, is "strong". Other names are ignored.
    """
    method = values.get("method") if METHOD.allows(values.get("method")) else METHOD.default
    settings: dict[str, Any] = {}
    for setting in SETTINGS:
        value = values.get(setting.name)
        value = setting.value(str(method)) if value is None else value
        kind: Any = str if isinstance(value, str) else int if setting.is_whole else float
        settings[setting.name] = kind(value)
    return Settings(**settings)


def method_of(settings: SearchSettings) -> tuple[str, dict[str, Any]]:
    """Return the method that is closest to settings, and the settings that differ from it, by name.

    The name follows from the values, so that the same search always has the same name. The length of a
    restart counts only between methods that are equally close.
    """
    values = {setting: getattr(settings, setting.name) for setting in SETTINGS if setting.by_method}
    changes = {
        method: {setting.name: value for setting, value in values.items() if value != setting.value(method)}
        for method in METHOD.choices
    }
    closest = min(changes, key=lambda method: (len(changes[method].keys() - LENGTHS), len(changes[method])))
    return closest, changes[closest]


def method_words(settings: SearchSettings) -> str:
    """Return the method for people, without `LENGTHS`: `strong`, or `strong with relocation all`."""
    method, changes = method_of(settings)
    words = ", ".join(f"{name} {value}" for name, value in changes.items() if name not in LENGTHS)
    return f"{method} with {words}" if words else method


# The check of features: their squares have to be numbers.

# Limit of the sum of all squared deviations: below it squares and sums keep their digits.
LARGEST = 1e304

# Limit of the mean of the squared deviations: above it squares keep their digits.
SMALLEST = 1e-300

# Factor to both limits by which a table is good without copies of it.
MARGIN = 1e6


class SpreadProblem(NamedTuple):
    """A fault of a table in words, the condition on it, and a remedy or nothing."""

    fault: str
    expected: str
    remedy: str


def spread_problem(X: NDArray[np.float64]) -> SpreadProblem | None:
    """Return the problem that keeps a table from being clustered, or None.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Features, finite, at least one.
    """
    import numpy as np

    if (X[0] == X).all():
        fault = "a single row" if len(X) == 1 else f"{len(X)} rows without any variance"
        return SpreadProblem(fault, "samples that differ", "")
    width = max(1, 2**20 // len(X))
    with np.errstate(all="ignore"):
        starts = range(0, X.shape[1], width)
        variance = sum(float(X[:, start : start + width].var(axis=0).sum()) for start in starts) / X.shape[1]
        if variance > SMALLEST * MARGIN and variance * X.size < LARGEST / MARGIN:
            return None

    # Half the differences cannot overflow, and in units of a power of two nothing rounds.
    differences = 0.5 * X - 0.5 * X[0]
    exponent = np.frexp(np.abs(differences).max())[1]
    differences = np.ldexp(differences, -exponent)
    total = float(np.square(differences - differences.mean(axis=0)).sum())
    logs = 2.0 * float(exponent + 1) * math.log(2.0)
    if total > 0.0 and math.log(total) + logs > math.log(LARGEST):
        return SpreadProblem("values whose squares overflow", "smaller values", "use another unit")
    if total == 0.0 or math.log(total / X.size) + logs < math.log(SMALLEST):
        return SpreadProblem("values whose squares underflow", "larger values", "use another unit")
    return None
