"""The declarations of the settings, and the three doors that derive from them."""

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from processes.sweeping import TINY, write_spec

from kernels.problem.problem import build_problem
from kernels.settings import (
    DEFAULT,
    OFFERED,
    SETTINGS,
    ObjectiveSettings,
    SearchSettings,
    Setting,
    Settings,
    method_of,
    method_words,
    settings_of,
    wrong_settings,
)
from pipeline.commands.fit import fit_command
from pipeline.fit.estimator import AnnotatedClustering
from sweeps.errors import InputError
from sweeps.file.reading import load_sweep
from sweeps.file.search import Search

X = np.arange(20.0).reshape(10, 2)
BEFORE_SEARCH = TINY.partition("[search]")[0]
each_setting = pytest.mark.parametrize("setting", OFFERED, ids=lambda setting: setting.name)
NAMES = ("population", "offspring", "generations", "patience", "crossover", "mutation", "relocation")
STRONG = dict(zip(NAMES, (5, 8, 20, 4, "labels", 0.2, "components"), strict=True))
PUBLISHED = dict(zip(NAMES, (10, 10, 10, 0, "centroids", 1.0, "annotated"), strict=True))
BY_METHOD = dict.fromkeys(NAMES)


def bad_values(setting: Setting) -> list[Any]:
    """Just out of the range, or not one of the words."""
    if setting.choices:
        return ["some"]
    wrong = ["half"] if setting.words else []
    step = 1 if isinstance(setting.default, int) else 0.5
    return [setting.low - step, *([] if setting.high is None else [setting.high + step]), *wrong]


def test_all_settings_are_those_of_the_search_and_of_the_objective() -> None:
    own = [each.name for kind in (SearchSettings, ObjectiveSettings) for each in fields(kind)]
    assert own == list(vars(DEFAULT))
    assert vars(DEFAULT) == {each.name: each.default for each in SETTINGS}
    assert list(vars(Search())) == [*own, "held_out", "name"]
    assert Search().settings == DEFAULT


@each_setting
def test_a_declaration_holds_together(setting: Setting) -> None:
    assert setting.allows(setting.default)
    assert setting.meaning.endswith(".")
    assert setting.strong is None or setting.allows(setting.strong)
    assert setting.strong != setting.default
    assert bool(setting.choices) == isinstance(setting.default, str)
    limits = [setting.low, setting.high] if setting.high is not None else [setting.low]
    assert setting.choices or all(setting.allows(type(setting.default)(limit)) for limit in limits)
    odd = [None, True, "some", ["all"], math.nan, math.inf, *bad_values(setting)]
    odd += [] if isinstance(setting.default, float) else [1.5]
    assert [value for value in odd if setting.allows(value)] == []


def test_parameters_are_checked_with_the_settings() -> None:
    for values, expected in (
        ({"accuracy": None, "model": "posterior"}, ["accuracy"]),
        ({"accuracy": None, "model": "posterior", "annotator_accuracy": {"ann": 0.9}}, []),
        ({"accuracy": None, "model": None, "covariance": "auto", "restarts": 1, "seed": 0}, []),
        ({"accuracy": 0.0, "model": "auto", "restarts": None, "scale": "log"},
         ["model", "accuracy", "restarts", "scale"]),
        ({"accuracy": 1, "n_clusters": 32_768, "missing": None, "categories": "one"},
         ["n_clusters", "missing", "categories"]),
        ({"covariance": "full", "covariance_prior": 0, "variance_prior": 0}, ["covariance_prior"]),
    ):  # fmt: skip
        assert [each.name for each, _, _ in wrong_settings(values)] == expected


def test_what_the_method_says_is_judged_with_what_is_given() -> None:
    by_strong = LABELS.replace("labels,", "labels by the method strong,")
    for given, found in (
        ({"method": "published", "crossover": "labels"}, [("1.0 by the method published", LABELS)]),
        ({"method": "strong", "mutation": 1}, [("1", by_strong)]),
        ({"method": "strong", "mutation": 1, "crossover": "labels"}, [("1", LABELS)]),
        ({"method": "strong", "mutation": 1, "crossover": "centroids"}, []),
        ({"method": "published"}, []),
    ):
        assert [each[1:] for each in wrong_settings(BY_METHOD | given)] == found
    named = [each.name for each, *_ in wrong_settings(BY_METHOD | {"method": "other", "mutation": 2})]
    assert named == ["method", "mutation"]


@pytest.mark.parametrize(("method", "says"), [("strong", STRONG), ("published", PUBLISHED)])
def test_a_method_says_what_is_not_given(method: str, says: dict[str, Any]) -> None:
    assert {each.name: each.of(method) for each in SETTINGS if each.by_method} == says
    settings = settings_of({"method": method})
    assert vars(settings) == vars(DEFAULT) | says
    assert settings_of({"method": method, **BY_METHOD}) == settings
    assert (method_of(settings), method_words(settings)) == ((method, {}), method)
    given = {"crossover": "centroids", "mutation": 0.7, "relocation": "all", "patience": 3, "generations": 4}
    assert vars(settings_of(BY_METHOD | {"method": method} | given)) == vars(settings) | given


def test_what_comes_to_the_same_values_has_the_same_name() -> None:
    half = {"crossover": "labels", "mutation": 0.5, "relocation": "annotated"}
    for given, method, others, words in (
        ({"method": "published", **STRONG}, "strong", {}, "strong"),
        ({"relocation": "all"}, "strong", {"relocation": "all"}, "strong with relocation all"),
        ({"generations": 99, "patience": 5}, "strong", {"generations": 99, "patience": 5}, "strong"),
        # of methods that are as close in what they do, the one of the same lengths
        (half, "strong", {"mutation": 0.5, "relocation": "annotated"},
         "strong with mutation 0.5, relocation annotated"),
        ({"method": "published", **half}, "published", {"crossover": "labels", "mutation": 0.5},
         "published with crossover labels, mutation 0.5"),
    ):  # fmt: skip
        settings = settings_of(given)
        assert (method_of(settings), method_words(settings)) == ((method, others), words)


def test_numbers_of_numpy_become_those_of_python() -> None:
    given = vars(DEFAULT) | {"patience": np.int64(3), "mutation": np.float32(0.5), "variance_prior": 2}
    assert list(wrong_settings(given)) == []
    settings = settings_of(given | {"other": 1})
    assert settings == Settings(patience=3, mutation=0.5, variance_prior=2.0)
    assert [type(value) for value in vars(settings).values()] == [type(each.default) for each in SETTINGS]


def test_declarations_load_nothing() -> None:
    script = "import sys, kernels.settings; print({'numpy', 'numba', 'click'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True)
    assert done.stdout == "set()\n"


LABELS = "less than 1 for crossover labels, which mutated offspring do not take"
WRONG = {each.name: {each.name: bad_values(each)[-1]} for each in OFFERED}
WRONG["both"] = {"method": "published", "crossover": "labels"}


@pytest.mark.parametrize("case", WRONG)
def test_every_door_refuses_in_the_same_words(case: str, tmp_path: Path) -> None:
    given = WRONG[case]
    name = "mutation" if case == "both" else case
    setting = next(each for each in OFFERED if each.name == name)
    problem = f"found {given.get(name)!r}, expected {setting.expected}"
    if case == "both":
        problem = f"found 1.0 by the method published, expected {LABELS}"
    keys = "".join(f"{each} = {value!r}\n" for each, value in given.items())
    with pytest.raises(InputError) as of_file:
        load_sweep(write_spec(tmp_path, f"{BEFORE_SEARCH}[search]\n{keys}"))
    assert str(of_file.value) == f"tiny.toml [search] {name}: {problem}"
    with pytest.raises(InputError) as of_estimator:
        AnnotatedClustering(**given).fit(X)
    assert str(of_estimator.value) == f"{name}: {problem}"
    np.savetxt(tmp_path / "x", X)
    options = [f"--{each.replace('_', '-')}={value}" for each, value in given.items()]
    command = CliRunner().invoke(fit_command, [str(tmp_path / "x"), "-k", "2", *options])
    assert command.exit_code == 2
    assert command.stderr.splitlines()[1:] == [f"  {setting.option}: {problem}"]
    if name in {each.name for each in fields(ObjectiveSettings)}:
        with pytest.raises(ValueError, match=f"{name} is "):
            build_problem(X, n_clusters=2, model="unsupervised", settings=ObjectiveSettings(**given))
