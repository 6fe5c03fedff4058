"""Drawing of mixtures: the laws of docs/model.md, eq. (25), and the streams that must not move."""

from __future__ import annotations

import numpy as np
import pytest

from sweeps.inputs.mixtures import draw_mixture


def test_shapes_and_types() -> None:
    X, labels = draw_mixture(np.random.default_rng(0), n_clusters=3)
    assert X.shape == (200, 10)
    assert X.dtype == np.float64
    assert labels.shape == (200,)
    assert labels.dtype == np.int16
    assert set(labels.tolist()) == {0, 1, 2}


def test_same_generator_same_bits() -> None:
    first = draw_mixture(np.random.default_rng(5), n_clusters=4, n_samples=30, n_features=2)
    second = draw_mixture(np.random.default_rng(5), n_clusters=4, n_samples=30, n_features=2)
    other = draw_mixture(np.random.default_rng(6), n_clusters=4, n_samples=30, n_features=2)
    assert np.array_equal(first[0], second[0])
    assert np.array_equal(first[1], second[1])
    assert not np.array_equal(first[0], other[0])


def test_order_of_draws_is_centres_variances_labels_noise() -> None:
    X, labels = draw_mixture(np.random.default_rng(1), n_clusters=3, n_samples=20, n_features=2)
    rng = np.random.default_rng(1)
    centers = rng.uniform(-1, 1, (3, 2))
    variances = rng.uniform(0, 5, 3)
    expected_labels = rng.integers(3, size=20)
    assert labels.tolist() == expected_labels.tolist()
    for x, label in zip(X, labels, strict=True):
        assert x.tolist() == (centers[label] + np.sqrt(variances[label]) * rng.standard_normal(2)).tolist()


def test_first_draw_is_pinned() -> None:
    # a cube that was begun must go on with the same data
    X, labels = draw_mixture(np.random.default_rng(2021), n_clusters=2, n_samples=4, n_features=1)
    np.testing.assert_allclose(
        X[:, 0],
        [0.8339489990417366, -2.4271893108204994, -0.15667516830523676, -2.141416507072786],
        rtol=1e-14,
    )
    assert labels.tolist() == [1, 1, 1, 0]


@pytest.mark.parametrize("variance", [0.25, 4.0])
def test_variance_is_a_variance(variance: float) -> None:
    X, labels = draw_mixture(
        np.random.default_rng(7), n_clusters=2, n_samples=40_000, variance_range=(variance, variance)
    )
    for label in (0, 1):
        members = X[labels == label]
        assert members.var(axis=0).mean() == pytest.approx(variance, rel=0.02)
        assert np.abs(members.mean(axis=0)).max() < 1.1


def test_parameters_fill_their_intervals() -> None:
    draws = [
        draw_mixture(
            np.random.default_rng(seed),
            n_clusters=2,
            n_samples=400,
            center_range=(2, 4),
            variance_range=(0, 1e-6),
        )
        for seed in range(100)
    ]
    centers = np.array([X[labels == label].mean(axis=0) for X, labels in draws for label in (0, 1)])
    assert centers.min() == pytest.approx(2, abs=0.01)
    assert centers.max() == pytest.approx(4, abs=0.01)
    assert centers.mean() == pytest.approx(3, abs=0.05)
    assert centers.var() == pytest.approx(4 / 12, rel=0.05)


def test_labels_are_uniform_and_a_cluster_may_be_empty() -> None:
    _, labels = draw_mixture(np.random.default_rng(8), n_clusters=5, n_samples=100_000, n_features=1)
    np.testing.assert_allclose(np.bincount(labels) / 100_000, 0.2, atol=0.005)
    _, few = draw_mixture(np.random.default_rng(8), n_clusters=5, n_samples=2, n_features=1)
    assert len(few) == 2
