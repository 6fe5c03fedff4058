"""The comparison of fitted Gaussians bit by bit."""

import numpy as np

from sweep_clustering.kernels.fits import Gaussians


def assert_same_gaussians(found: Gaussians | None, expected: Gaussians | None) -> None:
    """Compare structures, and all arrays but the shares of the rows."""
    assert found is not None
    assert expected is not None
    assert found.structure == expected.structure
    for name in ("class_of", "weights", "means", "covariances", "center", "axes"):
        one, other = getattr(found, name), getattr(expected, name)
        assert (one is None) == (other is None)
        if one is not None:
            assert one.shape == other.shape
            assert np.ascontiguousarray(one).tobytes() == np.ascontiguousarray(other).tobytes()
