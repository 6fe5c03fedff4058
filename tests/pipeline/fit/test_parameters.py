"""Settings of the search as parameters of an estimator."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from kernels.settings import OFFERED
from pipeline.fit.parameters import with_defaults, with_settings


@with_settings
class Example:
    """An estimator.

    Parameters
    ----------
    n_clusters : int
        Number of clusters.
    **settings : as declared
    """

    def __init__(self, n_clusters: int, *, seed: int = 0, **settings: Any) -> None:
        self.settings = with_defaults(settings)


def test_every_setting_is_a_keyword_with_its_default_or_none() -> None:
    parameters = inspect.signature(Example).parameters
    assert list(parameters) == ["n_clusters", "seed", *(setting.name for setting in OFFERED)]
    for setting in OFFERED:
        parameter = parameters[setting.name]
        assert parameter.kind is inspect.Parameter.KEYWORD_ONLY
        assert parameter.default == setting.offered
        assert ("None" in parameter.annotation) == (parameter.default is None) == setting.by_method


def test_the_docstring_describes_every_setting() -> None:
    text = inspect.getdoc(Example) or ""
    assert "as declared" not in text
    for setting in OFFERED:
        assert f"\n{setting.name} : " in text
    assert max(map(len, text.splitlines())) <= 110


def test_settings_left_out_have_their_default() -> None:
    _, first, *_ = OFFERED
    found = Example(3, **{first.name: "mine"}).settings
    assert found == {setting.name: setting.offered for setting in OFFERED} | {first.name: "mine"}


def test_a_parameter_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(TypeError, match="unexpected parameters: also, popluation"):
        Example(3, popluation=3, also=4)
