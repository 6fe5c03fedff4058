"""Settings are declared once, and all doors derive from the declarations and refuse the same tables."""

import math
import re
import subprocess
import sys
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from processes.commandline import refuse, sweep
from processes.sweeping import TINY, write_spec
from sklearn.datasets import load_iris

from sweep_clustering.kernels import settings as declared
from sweep_clustering.kernels.problem.problem import build_problem
from sweep_clustering.kernels.settings import (
    DEFAULT,
    OFFERED,
    SETTINGS,
    ObjectiveSettings,
    Setting,
    settings_of,
)
from sweep_clustering.kernels.structure import COVARIANCES
from sweep_clustering.pipeline.fit.estimator import AnnotatedClustering
from sweep_clustering.sweeps.errors import InputError
from sweep_clustering.sweeps.file.reading import load_sweep
from sweep_clustering.sweeps.file.search import Search

X = np.arange(20.0).reshape(10, 2)
NAMES = ("population", "offspring", "generations", "patience", "crossover", "mutation", "relocation")
STRONG = dict(zip(NAMES, (5, 8, 20, 4, "labels", 0.2, "components"), strict=True))
PUBLISHED = dict(zip(NAMES, (10, 10, 10, 0, "centroids", 1.0, "annotated"), strict=True))
BY_METHOD = dict.fromkeys(NAMES)


def bad_values(setting: Setting) -> list[Any]:
    """Return values just out of the range, or not one of the words."""
    step = 1 if isinstance(setting.default, int) else 0.5
    numbers = [] if setting.choices else [setting.low - step]
    numbers += [] if setting.high is None else [setting.high + step]
    return [*numbers, *["half"] * (not numbers or bool(setting.words))]


def test_all_settings_are_those_of_the_search_and_of_the_objective() -> None:
    names = [entry.name for kind in (declared.SearchSettings, ObjectiveSettings) for entry in fields(kind)]
    assert names == list(vars(DEFAULT))
    assert vars(DEFAULT) == {entry.name: entry.default for entry in SETTINGS}
    assert list(vars(Search())) == [*names, "held_out", "name"]
    assert Search().settings == DEFAULT


@pytest.mark.parametrize("setting", OFFERED, ids=lambda setting: setting.name)
def test_a_declaration_holds_together(setting: Setting) -> None:
    assert setting.allows(setting.default)
    assert setting.meaning.endswith(".")
    assert setting.strong is None or setting.allows(setting.strong)
    assert setting.strong != setting.default
    assert bool(setting.choices) == (isinstance(setting.default, str) and not setting.words)
    limits = [setting.low, setting.high] if setting.high is not None else [setting.low]
    number = int if setting.is_whole else float
    assert setting.choices or all(setting.allows(number(limit)) for limit in limits)
    odd = [None, True, "some", ["all"], math.nan, math.inf, *bad_values(setting)]
    odd += [] if isinstance(setting.default, float) else [1.5]
    assert [value for value in odd if setting.allows(value)] == []


def test_parameters_are_checked_with_the_settings() -> None:
    for values, expected in (
        ({"accuracy": None, "model": "posterior"}, ["accuracy"]),
        ({"accuracy": None, "model": "posterior", "annotator_accuracy": {"ann": 0.9}}, []),
        ({"accuracy": None, "model": "auto", "covariance": "auto", "restarts": 1, "seed": 0}, []),
        ({"accuracy": 0.0, "model": "best", "restarts": None, "scale": "log"},
         ["model", "accuracy", "restarts", "scale"]),
        ({"accuracy": 1, "n_clusters": 32_768, "missing": None, "categories": "one"},
         ["n_clusters", "missing", "categories"]),
        ({"covariance": "full", "covariance_prior": 0, "variance_prior": 0}, ["covariance_prior"]),
    ):  # fmt: skip
        assert [setting.name for setting, _, _ in declared.wrong_settings(values)] == expected


def test_what_the_method_says_is_judged_with_what_is_given() -> None:
    by_strong = LABELS.replace("labels,", "labels by the method strong,")
    for choices, problems in (
        ({"method": "published", "crossover": "labels"}, [("1.0 by the method published", LABELS)]),
        ({"method": "strong", "mutation": 1}, [("1", by_strong)]),
        ({"method": "strong", "mutation": 1, "crossover": "labels"}, [("1", LABELS)]),
        ({"method": "strong", "mutation": 1, "crossover": "centroids"}, []),
    ):
        assert [problem[1:] for problem in declared.wrong_settings(BY_METHOD | choices)] == problems
    problems = declared.wrong_settings(BY_METHOD | {"method": "other", "mutation": 2})
    assert [setting.name for setting, *_ in problems] == ["method", "mutation"]


@pytest.mark.parametrize(("method", "says"), [("strong", STRONG), ("published", PUBLISHED)])
def test_a_method_says_what_is_not_given(method: str, says: dict[str, Any]) -> None:
    assert {setting.name: setting.value(method) for setting in SETTINGS if setting.by_method} == says
    settings = settings_of({"method": method})
    assert vars(settings) == vars(DEFAULT) | says
    assert settings_of({"method": method, **BY_METHOD}) == settings
    assert declared.method_of(settings) == (method, {})
    assert declared.method_words(settings) == method
    extra = {"crossover": "centroids", "mutation": 0.7, "relocation": "all", "patience": 3, "generations": 4}
    assert vars(settings_of(BY_METHOD | {"method": method} | extra)) == vars(settings) | extra


def test_what_comes_to_the_same_values_has_the_same_name() -> None:
    half = {"crossover": "labels", "mutation": 0.5, "relocation": "annotated"}
    other = half | {"method": "published"}
    for choices, method, others, words in (
        ({"method": "published", **STRONG}, "strong", "", ""),
        ({"relocation": "all"}, "strong", "relocation", " with relocation all"),
        ({"generations": 99, "patience": 5}, "strong", "generations patience", ""),
        # the method of the same lengths is named if several are equally close
        (half, "strong", "mutation relocation", " with mutation 0.5, relocation annotated"),
        (other, "published", "crossover mutation", " with crossover labels, mutation 0.5"),
    ):
        settings = settings_of(choices)
        assert declared.method_of(settings) == (method, {name: choices[name] for name in others.split()})
        assert declared.method_words(settings) == method + words


def test_numbers_of_numpy_become_those_of_python() -> None:
    choices = vars(DEFAULT) | {"patience": np.int64(3), "mutation": np.float32(0.5), "variance_prior": 2}
    assert list(declared.wrong_settings(choices)) == []
    settings = settings_of(choices | {"other": 1})
    assert settings == declared.Settings(patience=3, mutation=0.5, variance_prior=2.0)
    assert [type(value) for value in vars(settings).values()] == [type(row.default) for row in SETTINGS]


def test_declarations_load_nothing() -> None:
    script = (
        "import sys, sweep_clustering.kernels.settings; print({'numpy', 'numba', 'click'} & set(sys.modules))"
    )
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True)
    assert process.stdout == "set()\n"


LABELS = "less than 1 for crossover labels, which mutated offspring do not take"
WRONG = {setting.name: {setting.name: bad_values(setting)[-1]} for setting in OFFERED}
WRONG["both"] = {"method": "published", "crossover": "labels"}


@pytest.mark.parametrize("case", WRONG)
def test_every_door_refuses_in_the_same_words(case: str, tmp_path: Path) -> None:
    choices, name = WRONG[case], "mutation" if case == "both" else case
    (setting,) = (entry for entry in OFFERED if entry.name == name)
    problem = f"found {choices.get(name)!r}, expected {setting.expected}"
    if case == "both":
        problem = f"found 1.0 by the method published, expected {LABELS}"
    keys = "".join(f"{key} = {value!r}\n" for key, value in choices.items())
    with pytest.raises(InputError) as of_file:
        load_sweep(write_spec(tmp_path, TINY.partition("population")[0] + keys))
    assert str(of_file.value) == f"tiny.toml [search] {name}: {problem}"
    with pytest.raises(InputError) as of_estimator:
        AnnotatedClustering(**choices).fit(X)
    assert str(of_estimator.value) == f"{name}: {problem}"
    np.savetxt(tmp_path / "x", X)
    options = [f"--{key.replace('_', '-')}={value}" for key, value in choices.items()]
    problems = refuse("fit", tmp_path / "x", "-k", "2", *options)
    assert problems.splitlines()[1:] == [f"  {setting.option}: {problem}"]


# Tables whose squares are no numbers.

IRIS = load_iris().data
OVERFLOW = "found values whose squares overflow, expected smaller values (use another unit)"
UNDERFLOW = "found values whose squares underflow, expected larger values (use another unit)"


def with_cell(value: float) -> np.ndarray:
    X = IRIS.copy()
    X[3, 1] = value
    return X


BAD = {
    "a cell of 1e155": (with_cell(1e155), OVERFLOW),
    "a cell of -1e308": (with_cell(-1e308), OVERFLOW),
    "all over the range": (np.where(IRIS > 3, 1.7e308, -1.7e308), OVERFLOW),
    "means that overflow": (IRIS * 1e306 + 1.5e308, OVERFLOW),
    "sums of squares": (IRIS * 1e153, OVERFLOW),
    "X 1e-160": (IRIS * 1e-160, UNDERFLOW),
    "subnormal": (IRIS * 1e-310, UNDERFLOW),
    "equal": (np.full((150, 4), 1e300), "found 150 rows without any variance, expected samples that differ"),
}
LIMITS = (1e150, 1e-149, [1, 1e149, 1, 1], [1, 1e-160, 1, 1])
FITTED = [IRIS * limit for limit in LIMITS] + [with_cell(1e150), with_cell(5e-324), IRIS + 1e9]


def small_estimator(covariance: str) -> AnnotatedClustering:
    few = {"restarts": 1, "generations": 2, "population": 3, "offspring": 2}
    return AnnotatedClustering(2, covariance=covariance, random_state=0, **few)


def test_what_is_too_large_or_too_small_is_named() -> None:
    for name, (X, words) in BAD.items():
        fault, expected, remedy = declared.spread_problem(X) or ("", "", "")
        assert f"found {fault}, expected {expected}" + (f" ({remedy})" if remedy else "") == words, name


@pytest.mark.parametrize("name", ["a cell of 1e155", "subnormal", "equal"])
def test_every_door_refuses_a_table_in_the_same_words(name: str, tmp_path: Path) -> None:
    X, words = BAD[name]
    table, entry = tmp_path / "own.npy", '{name = "own", path = "own.npy", n_clusters = 3}'
    np.save(table, X)
    spec = write_spec(tmp_path, TINY.replace('"iris"', entry))
    for command in (
        ["fit", table, "-k", "2"],
        ["ask", table, "-k", "2", "--out", tmp_path / "q.csv"],
        ["submit", spec, "--workers", "0", "--results", tmp_path],
    ):
        result = sweep(*command)
        assert result.exit_code == 2, result.output
        assert f"own.npy: {words}" in result.output
    build = partial(build_problem, n_clusters=2, model="unsupervised")
    for reader in (small_estimator("full").fit, small_estimator("full").partial_fit, build):
        with pytest.raises(ValueError, match=rf"^X: {re.escape(words)}$"):
            reader(X)


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::sklearn.exceptions.ConvergenceWarning")
def test_what_is_not_refused_is_fitted() -> None:
    """A warning of numpy would be an error here."""
    shapes = ["tied", "full", "full", "diagonal", "spherical", "common", "common"]
    for X, covariance in zip(FITTED, shapes, strict=True):
        estimator = small_estimator(covariance).fit(X, must_link=[[0, 1], [60, 61]])
        for values in (estimator.objective_, estimator.covariances_, estimator.score(X)):
            assert np.isfinite(values).all()
        assert set(estimator.predict(X)) <= {0, 1}
        assert len(estimator.query(2).pairs) == 2


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::sklearn.exceptions.ConvergenceWarning")
def test_new_samples_too_far_away_are_refused() -> None:
    for covariance in COVARIANCES:
        estimator = small_estimator(covariance).fit(IRIS)
        for value, method in ((1e155, estimator.predict), (-1e308, estimator.score)):
            with pytest.raises(ValueError, match=r"^X, row 3: found values whose squares overflow"):
                method(with_cell(value))
