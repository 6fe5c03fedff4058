"""Names of models and their codes, a contract."""

from __future__ import annotations

from kernels import settings
from kernels.settings import COVARIANCES, TERMS
from sweeps.models import (
    AUTO,
    BASELINES,
    MODEL_CODES,
    SHAPE_CODES,
    TERM_CODES,
    baseline_of,
    chooses,
    shape_of,
    split_model,
)
from sweeps.shapes import CANDIDATES, CODES, DIMS


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
