"""Names that cubes hold, a contract; forms of covariances, narrow and wide."""

import numpy as np
import pytest

from sweep_clustering.kernels import settings, structure
from sweep_clustering.sweeps import words
from sweep_clustering.sweeps.shapes import CANDIDATES, CODES, DIMS, narrowed, widened
from sweep_clustering.sweeps.words import AUTO, MODEL_CODES, baseline_of, chooses, split_model


def test_codes_are_pinned_and_terms_and_shapes_are_those_of_the_kernels() -> None:
    terms = ("unsupervised", "likelihood", "posterior", "conditional")
    shapes = {"": 0, "-common": 16, "-diagonal": 32, "-tied": 48, "-full": 64, "-auto": 80}
    pinned = {f"{term}{shape}": code + at for shape, code in shapes.items() for at, term in enumerate(terms)}
    del pinned["unsupervised-auto"]
    pinned["conditional-any"] = 99
    assert pinned == MODEL_CODES
    assert tuple(words.TERM_CODES) == settings.TERMS
    assert tuple(words.SHAPE_CODES) == tuple(DIMS) == (*structure.COVARIANCES, AUTO, structure.ANY)
    assert (tuple(CODES), CANDIDATES, AUTO) == (structure.COVARIANCES, structure.CANDIDATES, structure.AUTO)


def test_a_name_says_term_and_shape_and_baselines_are_of_the_same_shape() -> None:
    assert split_model("conditional-full") == ("conditional", "full")
    for model in MODEL_CODES:
        shape = "spherical" if chooses(model) else words.shape_of(model)
        assert split_model(baseline_of(model)) == ("unsupervised", shape)
    assert {baseline_of(model) for model in MODEL_CODES} == set(words.BASELINES)
    auto = ["likelihood-auto", "posterior-auto", "conditional-auto", "conditional-any"]
    assert [model for model in MODEL_CODES if chooses(model)] == auto


def test_a_wider_form_holds_the_same_bits() -> None:
    rng = np.random.default_rng(5)
    own = {
        "spherical": rng.random(3),
        "any": rng.random(3),
        "common": np.full(3, 0.7),
        "diagonal": rng.random((3, 4)),
    }
    own |= {"tied": np.repeat(rng.random((1, 4, 4)), 3, axis=0)}
    own |= dict.fromkeys(("full", "auto"), rng.random((3, 4, 4)))
    for shape in DIMS:
        for n_axes in range(3):
            if n_axes < own[shape].ndim - 1:
                with pytest.raises(ValueError, match="expected at most"):
                    widened(own[shape], n_axes, 4)
            else:
                wide = widened(own[shape], n_axes, 4)
                assert wide.shape == (3, *[4] * n_axes)
                np.testing.assert_array_equal(narrowed(wide, shape), own[shape])
    with pytest.raises(ValueError, match="expected 3 axes of a full shape"):
        narrowed(own["diagonal"], "full")
