"""The declarations of the settings, and the three doors that derive from them."""

from __future__ import annotations

import inspect
import math
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from click.testing import CliRunner
from processes.sweeping import TINY, write_spec

from kernels.problem.problem import build_problem
from kernels.settings import (
    DEFAULT,
    SETTINGS,
    ObjectiveSettings,
    SearchSettings,
    Setting,
    Settings,
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
each_setting = pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)


def bad_values(setting: Setting) -> list[Any]:
    """Just out of the range, or not one of the words."""
    if setting.choices:
        return ["some"]
    wrong = ["half"] if setting.words else []
    step = 1 if isinstance(setting.default, int) else 0.5
    return [setting.low - step, *([] if setting.high is None else [setting.high + step]), *wrong]


def test_all_settings_are_those_of_the_search_and_of_the_objective() -> None:
    own = [each.name for kind in (SearchSettings, ObjectiveSettings) for each in fields(kind)]
    assert [each.name for each in SETTINGS] == own == list(vars(DEFAULT)) == list(vars(Search()))
    assert vars(DEFAULT) == {each.name: each.default for each in SETTINGS} == vars(Search())


@each_setting
def test_a_declaration_holds_together(setting: Setting) -> None:
    assert setting.allows(setting.default)
    assert setting.since >= 1
    assert setting.meaning.endswith(".")
    assert bool(setting.choices) == isinstance(setting.default, str)
    limits = [setting.low, setting.high] if setting.high is not None else [setting.low]
    assert setting.choices or all(setting.allows(type(setting.default)(limit)) for limit in limits)
    odd = [None, True, "some", ["all"], math.nan, math.inf, *bad_values(setting)]
    odd += [] if isinstance(setting.default, float) else [1.5]
    assert [value for value in odd if setting.allows(value)] == []


def test_all_that_is_wrong_is_listed() -> None:
    values = {"generations": 0, "crossover": "labels", "mutation": 1, "seed": -1, "relocation": "none"}
    assert [(each.name, found) for each, found, _ in wrong_settings(values)] == [
        ("generations", 0),
        ("mutation", 1),
        ("relocation", "none"),
    ]
    assert list(wrong_settings({"crossover": "labels", "mutation": 0.999})) == []
    assert list(wrong_settings(vars(DEFAULT))) == []


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


@each_setting
def test_every_door_has_every_setting(setting: Setting, tmp_path: Path) -> None:
    assert getattr(load_sweep(write_spec(tmp_path, BEFORE_SEARCH)).search, setting.name) == setting.default
    option = next(each for each in fit_command.params if each.name == setting.name)
    assert isinstance(option, click.Option)
    assert option.opts == [setting.option]
    assert (option.default, option.help) == (setting.default, setting.meaning)
    if setting.choices:
        assert isinstance(option.type, click.Choice)
        assert tuple(option.type.choices) == setting.choices
    else:
        assert isinstance(option.type, click.IntRange | click.FloatRange)
        assert (option.type.min, option.type.max) == (setting.low, setting.high)
    help_text = " ".join(CliRunner().invoke(fit_command, ["--help"]).stdout.split())
    assert f"{setting.option} " in help_text
    assert f"{setting.meaning} [default: {setting.default}" in help_text
    parameter = inspect.signature(AnnotatedClustering).parameters[setting.name]
    assert parameter.default == setting.default == AnnotatedClustering().get_params()[setting.name]
    described = " ".join(str(AnnotatedClustering.__doc__).split())
    assert f"{setting.name} : " in described
    assert setting.meaning in described


@pytest.mark.parametrize(
    ("setting", "value"),
    [(setting, value) for setting in SETTINGS for value in bad_values(setting)],
    ids=lambda given: getattr(given, "name", str(given)),
)
def test_every_door_refuses_in_the_same_words(setting: Setting, value: Any, tmp_path: Path) -> None:
    problem = f"found {value!r}, expected {setting.expected}"
    spec = write_spec(tmp_path, f"{BEFORE_SEARCH}[search]\n{setting.name} = {value!r}\n")
    with pytest.raises(InputError) as of_file:
        load_sweep(spec)
    assert str(of_file.value) == f"tiny.toml [search] {setting.name}: {problem}"
    with pytest.raises(InputError) as of_estimator:
        AnnotatedClustering().set_params(**{setting.name: value}).fit(X)
    assert str(of_estimator.value) == f"{setting.name}: {problem}"
    np.savetxt(tmp_path / "x", X)
    arguments = [str(tmp_path / "x"), "-k", "2", f"{setting.option}={value}"]
    command = CliRunner().invoke(fit_command, arguments)
    assert command.exit_code == 2
    assert command.stderr.splitlines()[1:] == [f"  {setting.option}: {problem}"]


def test_every_door_refuses_labels_that_nothing_takes(tmp_path: Path) -> None:
    problem = "found 1.0, expected less than 1 for crossover labels, which mutated offspring do not take"
    with pytest.raises(InputError, match=f"mutation: {problem}"):
        load_sweep(write_spec(tmp_path, f'{BEFORE_SEARCH}[search]\ncrossover = "labels"\n'))
    with pytest.raises(InputError, match=f"mutation: {problem}"):
        AnnotatedClustering(crossover="labels").fit(X)
    np.savetxt(tmp_path / "x", X)
    command = CliRunner().invoke(fit_command, [str(tmp_path / "x"), "-k", "2", "--crossover", "labels"])
    assert f"--mutation: {problem}" in command.stderr


@pytest.mark.parametrize("name", [each.name for each in fields(ObjectiveSettings)])
def test_the_kernels_refuse_what_the_doors_refuse(name: str) -> None:
    (setting,) = (each for each in SETTINGS if each.name == name)
    with pytest.raises(ValueError, match=f"{name} is -1, expected {setting.expected}"):
        build_problem(X, n_clusters=2, model="unsupervised", settings=ObjectiveSettings(**{name: -1}))
