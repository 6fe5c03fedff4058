"""Forms of covariances, narrow and wide."""

from __future__ import annotations

import numpy as np
import pytest

from sweeps.shapes import DIMS, narrowed, widened, widest_dims

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


def test_wider_forms_by_hand() -> None:
    wide = widened(np.array([2.0, 0.0]), 2, 2)
    assert wide.tolist() == [[[2.0, 0.0], [0.0, 2.0]], [[0.0, 0.0], [0.0, 0.0]]]
    assert widened(np.array([[2.0, 3.0]]), 2, 2).tolist() == [[[2.0, 0.0], [0.0, 3.0]]]
    assert narrowed(np.full((2, 3, 3), np.nan), "spherical").shape == (2,)


def test_a_form_that_is_too_narrow_is_refused() -> None:
    with pytest.raises(ValueError, match="expected 3 axes of a full shape"):
        narrowed(OWN["diagonal"], "full")


def test_the_widest_of_some_shapes() -> None:
    assert widest_dims(("diagonal", "spherical")) == ("feature",)
    assert widest_dims(()) == ()
