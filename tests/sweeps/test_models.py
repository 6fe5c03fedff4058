"""Names of models and their codes, a contract."""

from __future__ import annotations

from sweeps.models import BASELINES, MODEL_CODES, TERM_CODES, baseline_of, split_model


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
    }


def test_a_name_says_term_and_variance() -> None:
    assert split_model("posterior") == ("posterior", "spherical")
    assert split_model("posterior-common") == ("posterior", "common")
    assert {split_model(model) for model in MODEL_CODES} == {
        (term, variance) for term in TERM_CODES for variance in ("spherical", "common")
    }


def test_baselines_are_those_of_the_same_variance() -> None:
    assert {baseline_of(model) for model in MODEL_CODES} == set(BASELINES)
    for model in MODEL_CODES:
        assert split_model(baseline_of(model)) == ("unsupervised", split_model(model)[1])
