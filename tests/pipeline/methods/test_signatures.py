"""Whether a function can take what a call gives it."""

from __future__ import annotations

from typing import Any

import pytest

from pipeline.methods.signatures import function_problems


def whole(X, n_clusters, must_link, cannot_link, *, weights, accuracy, random_state):  # type: ignore[no-untyped-def]
    """A function of the contract."""


def with_options(data, k, must, cannot, *, weights, accuracy, random_state, gamma=1.0):  # type: ignore[no-untyped-def]
    """The first four may have any names."""


def generous(*arguments, **keywords):  # type: ignore[no-untyped-def]
    """Takes everything."""


def short(X, n_clusters, *, random_state):  # type: ignore[no-untyped-def]
    """Takes too little."""


def needy(X, n_clusters, must_link, cannot_link, *, weights, accuracy, random_state, gamma):  # type: ignore[no-untyped-def]
    """An option without a default."""


@pytest.mark.parametrize(
    ("function", "options"),
    [
        (whole, {}),
        (with_options, {}),
        (with_options, {"gamma": 2}),
        (generous, {"a": 1}),
        (needy, {"gamma": 1}),
    ],
)
def test_what_fits_has_no_problems(function: Any, options: dict[str, Any]) -> None:
    assert list(function_problems(function, options)) == []


def test_a_function_without_a_known_signature_is_let_through() -> None:
    assert list(function_problems(iter, {})) == []


def test_all_that_does_not_fit_is_named() -> None:
    found = list(function_problems(short, {"gama": 1, "random_state": 2}))
    assert [each[2] for each in found[:2]] == [
        "X, n_clusters, must_link and cannot_link come by position",
        "it does not take weights, accuracy",
    ]
    assert found[0][0] == "short(X, n_clusters, *, random_state)"
    assert found[2] == ("option 'gama'", "no options", "")
    assert found[3] == ("option 'random_state'", "another name", "every call gives it")


def test_a_misspelt_option_has_a_hint() -> None:
    (problem,) = function_problems(with_options, {"gama": 1})
    assert problem == ("option 'gama'", "one of gamma", "did you mean 'gamma'?")


def test_an_option_of_the_name_of_a_position_is_refused() -> None:
    (problem,) = function_problems(with_options, {"data": 1})
    assert problem[0] == "option 'data'"
    assert problem[2] == "every call gives it"


def test_an_option_that_is_needed_is_named() -> None:
    (problem,) = function_problems(needy, {})
    assert problem[1:] == ("options gamma", "they have no default")
