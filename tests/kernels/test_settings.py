"""The declarations of the settings, and the three doors that derive from them."""

from __future__ import annotations

import inspect
import json
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
    METHOD,
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
STRONG_LENGTHS = {"population": 5, "offspring": 8, "generations": 20, "patience": 4}
STRONG = STRONG_LENGTHS | {"crossover": "labels", "mutation": 0.2, "relocation": "components"}
PUBLISHED_LENGTHS = {"population": 10, "offspring": 10, "generations": 10, "patience": 0}
PUBLISHED = PUBLISHED_LENGTHS | {"crossover": "centroids", "mutation": 1.0, "relocation": "annotated"}
BY_METHOD = dict.fromkeys(STRONG)


def bad_values(setting: Setting) -> list[Any]:
    """Just out of the range, or not one of the words."""
    if setting.choices:
        return ["some"]
    wrong = ["half"] if setting.words else []
    step = 1 if isinstance(setting.default, int) else 0.5
    return [setting.low - step, *([] if setting.high is None else [setting.high + step]), *wrong]


def test_all_settings_are_those_of_the_search_and_of_the_objective() -> None:
    own = [each.name for kind in (SearchSettings, ObjectiveSettings) for each in fields(kind)]
    assert [each.name for each in SETTINGS] == own == list(vars(DEFAULT))
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


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"accuracy": None, "model": "posterior"}, ["accuracy"]),
        ({"accuracy": None, "model": "posterior", "annotator_accuracy": {"ann": 0.9}}, []),
        ({"accuracy": None, "model": None, "covariance": "auto", "restarts": 1, "seed": 0}, []),
        ({"accuracy": 0.0, "model": "auto", "restarts": None, "scale": "log"},
         ["model", "accuracy", "restarts", "scale"]),
        ({"accuracy": 1, "n_clusters": 32_768, "missing": None, "categories": "one"},
         ["n_clusters", "missing", "categories"]),
    ],
)  # fmt: skip
def test_parameters_are_checked_with_the_settings(values: dict[str, Any], expected: list[str]) -> None:
    assert [each.name for each, _, _ in wrong_settings(values)] == expected


def wrong(**given: Any) -> list[tuple[str, str, str]]:
    return [(each.name, found, expected) for each, found, expected in wrong_settings(BY_METHOD | given)]


def test_what_the_method_says_is_judged_with_what_is_given() -> None:
    by_strong = LABELS.replace("labels,", "labels by the method strong,")
    assert wrong(method="published", crossover="labels") == [
        ("mutation", "1.0 by the method published", LABELS)
    ]
    assert wrong(method="strong", mutation=1) == [("mutation", "1", by_strong)]
    assert wrong(method="strong", mutation=1, crossover="labels") == [("mutation", "1", LABELS)]
    assert [name for name, *_ in wrong(method="other", mutation=2)] == ["method", "mutation"]
    assert wrong(method="strong", mutation=1, crossover="centroids") == []
    assert wrong(method="strong") == wrong(method="published") == []


@pytest.mark.parametrize(("method", "says"), [("strong", STRONG), ("published", PUBLISHED)])
def test_a_method_says_what_is_not_given(method: str, says: dict[str, Any]) -> None:
    assert {each.name: each.of(method) for each in SETTINGS if each.by_method} == says
    settings = settings_of({"method": method})
    assert vars(settings) == vars(DEFAULT) | says
    assert settings_of({"method": method, **BY_METHOD}) == settings
    assert method_of(settings) == (method, {})
    assert method_words(settings) == method
    given = {"crossover": "centroids", "mutation": 0.7, "relocation": "all", "patience": 3, "generations": 4}
    for name, value in given.items():
        overridden = settings_of({"method": method, **BY_METHOD, name: value})
        assert vars(overridden) == vars(settings) | {name: value}


def test_what_comes_to_the_same_values_has_the_same_name() -> None:
    by_keys = settings_of({"method": "published", **STRONG})
    assert by_keys == settings_of({"method": "strong"})
    assert method_words(by_keys) == "strong"
    assert method_words(settings_of({"relocation": "all"})) == "strong with relocation all"
    some = settings_of({"method": "published", "mutation": 0.5, "relocation": "all"})
    assert method_words(some) == "published with mutation 0.5, relocation all"
    assert method_of(some) == ("published", {"mutation": 0.5, "relocation": "all"})
    longer = settings_of({"generations": 99, "relocation": "all"})
    assert method_of(longer) == ("strong", {"generations": 99, "relocation": "all"})
    # of methods that are as close in what they do, the one of the same lengths
    half = {"crossover": "labels", "mutation": 0.5, "relocation": "annotated"}
    assert method_of(settings_of({"method": "published", **half})) == (
        "published",
        dict(list(half.items())[:2]),
    )
    tie = settings_of({"crossover": "labels", "mutation": 0.5, "relocation": "annotated"})
    assert method_words(tie) == "strong with mutation 0.5, relocation annotated"
    assert method_words(settings_of({"generations": 99, "patience": 5})) == "strong"


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


def test_every_door_has_every_setting(tmp_path: Path) -> None:
    (search,) = load_sweep(write_spec(tmp_path, BEFORE_SEARCH)).search
    help_text = " ".join(CliRunner().invoke(fit_command, ["--help"]).stdout.split())
    described = " ".join(str(AnnotatedClustering.__doc__).split())
    for setting in OFFERED:
        assert setting == METHOD or getattr(search, setting.name) == setting.of("strong")
        option: Any = next(each for each in fit_command.params if each.name == setting.name)
        assert option.opts == [setting.option]
        assert (option.default, option.help) == (setting.offered, setting.meaning)
        if setting.choices:
            assert tuple(option.type.choices) == setting.choices
        else:
            assert (option.type.min, option.type.max) == (setting.low, setting.high)
        default = f"({setting.unless_given})" if setting.by_method else setting.default
        assert f"{setting.option} " in help_text
        assert f"{setting.meaning} [default: {default}" in help_text
        parameter = inspect.signature(AnnotatedClustering).parameters[setting.name]
        assert parameter.default == setting.offered == AnnotatedClustering().get_params()[setting.name]
        assert f"{setting.name} : " in described
        by_method = f" None: {setting.unless_given}." if setting.by_method else ""
        assert f"{setting.meaning}{by_method}" in described


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


def test_every_door_takes_a_method_and_what_overrides_it(tmp_path: Path) -> None:
    np.savetxt(tmp_path / "x", X)
    for given in ({}, {"method": "published"}, {"method": "published", "relocation": "all", "mutation": 0.5}):
        wanted = vars(settings_of(given))
        keys = "".join(f"{name} = {value!r}\n" for name, value in given.items())
        (of_file,) = load_sweep(write_spec(tmp_path, f"{BEFORE_SEARCH}[search]\n{keys}")).search
        assert vars(of_file.settings) == wanted
        options = [f"--{name}={value}" for name, value in given.items()]
        command = CliRunner().invoke(fit_command, [str(tmp_path / "x"), "-k", "2", "--json", *options])
        assert json.loads(command.stdout)["settings"] == wanted
        fitted = AnnotatedClustering(random_state=0, **given).fit(X)
        assert fitted.objective_ == json.loads(command.stdout)["objective"]
        assert fitted.get_params().items() >= given.items()
