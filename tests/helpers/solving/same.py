"""Fitted Gaussians are compared bit by bit."""

import numpy as np

from sweep_clustering.kernels.fits import Gaussians


def assert_same_gaussians(gaussians: Gaussians | None, expected: Gaussians | None) -> None:
    """Compare structures, and all arrays but the shares of the rows."""
    assert gaussians is not None
    assert expected is not None
    assert gaussians.structure == expected.structure
    for name in ("class_of", "weights", "means", "covariances", "center", "axes"):
        first, second = getattr(gaussians, name), getattr(expected, name)
        assert (first is None) == (second is None)
        if first is not None:
            assert first.shape == second.shape
            assert np.ascontiguousarray(first).tobytes() == np.ascontiguousarray(second).tobytes()
