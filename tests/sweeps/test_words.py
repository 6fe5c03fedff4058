"""Shipped methods as a sweep knows them."""

from __future__ import annotations

import re

from kernels import settings
from kernels.settings import COVARIANCES, TERMS
from pipeline.asking.strategies import STRATEGIES
from sweeps.shapes import CANDIDATES, CODES, DIMS
from sweeps.words import (
    ASKED,
    AUTO,
    BASELINES,
    DEFAULT,
    DESIGNS,
    DRAWN,
    MODEL_CODES,
    SHAPE_CODES,
    SHIPPED,
    TERM_CODES,
    asked_of,
    asks,
    baseline_of,
    chooses,
    shape_of,
    split_model,
)

# Designs: each that asks has its strategy, and each name is known.


def test_every_design_that_asks_has_its_strategy() -> None:
    assert set(ASKED.values()) <= set(STRATEGIES)


def test_a_design_draws_or_asks() -> None:
    assert set(DRAWN) | set(ASKED) == set(DESIGNS)
    assert not set(DRAWN) & set(ASKED)
    assert asked_of(("uniform", "active", "biased", "uncertain")) == ("active", "uncertain")
    assert not asks(None)
    assert asked_of(DEFAULT) == ()


# Names of models and their codes, a contract.


def test_codes_are_pinned() -> None:
    assert MODEL_CODES == {
        "unsupervised": 0,
        "likelihood": 1,
        "posterior": 2,
        "conditional": 3,
        "unsupervised-common": 16,
        "likelihood-common": 17,
        "posterior-common": 18,
        "conditional-common": 19,
        "unsupervised-diagonal": 32,
        "likelihood-diagonal": 33,
        "posterior-diagonal": 34,
        "conditional-diagonal": 35,
        "unsupervised-tied": 48,
        "likelihood-tied": 49,
        "posterior-tied": 50,
        "conditional-tied": 51,
        "unsupervised-full": 64,
        "likelihood-full": 65,
        "posterior-full": 66,
        "conditional-full": 67,
        "likelihood-auto": 81,
        "posterior-auto": 82,
        "conditional-auto": 83,
    }


def test_terms_and_shapes_are_those_of_the_kernels() -> None:
    assert tuple(TERM_CODES) == TERMS
    assert tuple(SHAPE_CODES) == tuple(DIMS) == (*COVARIANCES, AUTO)
    assert (tuple(CODES), CANDIDATES, AUTO) == (COVARIANCES, settings.CANDIDATES, settings.AUTO)
    assert list(CODES.values()) == [0, 1, 2, 3, 4]
    assert all(len(DIMS[shape]) <= len(DIMS[AUTO]) for shape in CANDIDATES)


def test_a_name_says_term_and_shape() -> None:
    assert split_model("posterior") == ("posterior", "spherical")
    assert split_model("posterior-common") == ("posterior", "common")
    assert split_model("conditional-full") == ("conditional", "full")
    assert {split_model(model) for model in MODEL_CODES} == {
        (term, shape) for term in TERM_CODES for shape in SHAPE_CODES
    } - {("unsupervised", AUTO)}


def test_baselines_are_those_of_the_same_shape() -> None:
    assert {baseline_of(model) for model in MODEL_CODES} == set(BASELINES)
    for model in MODEL_CODES:
        shape = "spherical" if chooses(model) else shape_of(model)
        assert split_model(baseline_of(model)) == ("unsupervised", shape)
    assert [model for model in MODEL_CODES if chooses(model)] == [
        "likelihood-auto",
        "posterior-auto",
        "conditional-auto",
    ]


def test_names_can_stand_beside_models() -> None:
    assert not SHIPPED.keys() & MODEL_CODES.keys()
    assert all(re.fullmatch(r"[a-z][a-z-]*", name) for name in SHIPPED)


def test_each_says_what_it_is_with_a_year_and_how_often_it_is_called() -> None:
    for name, shipped in SHIPPED.items():
        assert re.search(r"\b(19|20)\d\d\b", shipped.text), name
        assert shipped.uses in ("links", "nothing")
        assert shipped.restarts >= 1
        assert shipped.package in ("", "sklearn")
