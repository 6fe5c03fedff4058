"""Names that cubes hold, a contract; forms of covariances, narrow and wide."""

from __future__ import annotations

import numpy as np
import pytest

from kernels import settings
from kernels.settings import COVARIANCES, TERMS
from pipeline.asking.strategies import STRATEGIES
from sweeps.shapes import CANDIDATES, CODES, DIMS, narrowed, widened
from sweeps.words import (
    ASKED,
    AUTO,
    BASELINES,
    DEFAULT,
    DESIGNS,
    DRAWN,
    MODEL_CODES,
    SHAPE_CODES,
    TERM_CODES,
    asked_of,
    asks,
    baseline_of,
    chooses,
    shape_of,
    split_model,
)


def test_a_design_draws_or_asks_and_has_its_strategy() -> None:
    assert set(ASKED.values()) <= set(STRATEGIES)
    assert set(DRAWN) | set(ASKED) == set(DESIGNS)
    assert not set(DRAWN) & set(ASKED)
    assert asked_of(("uniform", "active", "biased", "uncertain")) == ("active", "uncertain")
    assert not asks(None)
    assert asked_of(DEFAULT) == ()


# Names of models and their codes, a contract.


def test_codes_are_pinned() -> None:
    terms = ("unsupervised", "likelihood", "posterior", "conditional")
    shapes = {"": 0, "-common": 16, "-diagonal": 32, "-tied": 48, "-full": 64, "-auto": 80}
    pinned = {f"{term}{shape}": code + at for shape, code in shapes.items() for at, term in enumerate(terms)}
    del pinned["unsupervised-auto"]
    assert pinned == MODEL_CODES


def test_terms_and_shapes_are_those_of_the_kernels() -> None:
    assert tuple(TERM_CODES) == TERMS
    assert tuple(SHAPE_CODES) == tuple(DIMS) == (*COVARIANCES, AUTO)
    assert (tuple(CODES), CANDIDATES, AUTO) == (COVARIANCES, settings.CANDIDATES, settings.AUTO)


def test_a_name_says_term_and_shape_and_baselines_are_of_the_same_shape() -> None:
    assert split_model("posterior") == ("posterior", "spherical")
    assert split_model("conditional-full") == ("conditional", "full")
    for model in MODEL_CODES:
        shape = "spherical" if chooses(model) else shape_of(model)
        assert split_model(baseline_of(model)) == ("unsupervised", shape)
    assert {baseline_of(model) for model in MODEL_CODES} == set(BASELINES)
    auto = ["likelihood-auto", "posterior-auto", "conditional-auto"]
    assert [model for model in MODEL_CODES if chooses(model)] == auto


RNG = np.random.default_rng(5)
OWN = {
    "spherical": RNG.random(3),
    "common": np.full(3, 0.7),
    "diagonal": RNG.random((3, 4)),
    "tied": np.repeat(RNG.random((1, 4, 4)), 3, axis=0),
    "full": RNG.random((3, 4, 4)),
    "auto": RNG.random((3, 4, 4)),
}


@pytest.mark.parametrize("shape", DIMS)
@pytest.mark.parametrize("n_axes", [0, 1, 2])
def test_a_wider_form_holds_the_same_bits(shape: str, n_axes: int) -> None:
    own = OWN[shape]
    if n_axes < own.ndim - 1:
        with pytest.raises(ValueError, match="expected at most"):
            widened(own, n_axes, 4)
        return
    wide = widened(own, n_axes, 4)
    assert wide.shape == (3, *[4] * n_axes)
    np.testing.assert_array_equal(narrowed(wide, shape), own)


def test_a_form_that_is_too_narrow_is_refused() -> None:
    with pytest.raises(ValueError, match="expected 3 axes of a full shape"):
        narrowed(OWN["diagonal"], "full")
