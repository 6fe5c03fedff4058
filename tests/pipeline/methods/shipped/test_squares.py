"""Squared distances to centroids, and where centroids begin."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from pipeline.methods.shipped.squares import centroids_of, padded, spread_out, squared_distances

RNG = np.random.default_rng(5)
X = RNG.normal(size=(30, 3))
NONE = np.empty((0, 3))


def test_distances_are_those_of_scipy() -> None:
    assert squared_distances(X, X[:4]) == pytest.approx(cdist(X, X[:4], "sqeuclidean"))


def test_centroids_are_means_and_empty_ones_stay() -> None:
    labels = np.repeat([0, 2], 15)
    before = np.full((3, 3), 7.0)
    found = centroids_of(X, labels, before)
    assert found[0] == pytest.approx(X[:15].mean(axis=0))
    assert found[1].tolist() == [7.0, 7.0, 7.0]
    assert found[2] == pytest.approx(X[15:].mean(axis=0))


def test_centres_are_drawn_by_weight_and_squared_distance() -> None:
    candidates = np.array([[1.0], [2.0], [0.0]])
    given = np.array([[0.0]])
    drawn = [
        float(spread_out(candidates, np.array([4.0, 1.0, 9.0]), given, 2, np.random.default_rng(seed))[1, 0])
        for seed in range(2000)
    ]
    # 4 · 1, 1 · 4 and 9 · 0
    assert np.mean(np.array(drawn) == 1.0) == pytest.approx(0.5, abs=0.05)
    assert set(drawn) == {1.0, 2.0}


def test_the_first_one_goes_by_weight_alone() -> None:
    firsts = [
        float(spread_out(np.array([[1.0], [5.0]]), np.array([3.0, 1.0]), np.empty((0, 1)), 1, rng)[0, 0])
        for rng in map(np.random.default_rng, range(2000))
    ]
    assert np.mean(np.array(firsts) == 1.0) == pytest.approx(0.75, abs=0.05)


def test_each_candidate_is_taken_once() -> None:
    found = spread_out(X[:5], np.ones(5), NONE, 9, np.random.default_rng(0))
    assert sorted(map(tuple, found.tolist())) == sorted(map(tuple, X[:5].tolist()))
    same = spread_out(np.zeros((4, 3)), np.ones(4), NONE, 3, np.random.default_rng(0))
    assert same.shape == (3, 3)
    assert spread_out(X, np.ones(30), X[:2], 2, np.random.default_rng(0)).tolist() == X[:2].tolist()


def test_missing_centroids_are_nan() -> None:
    found = padded(X[:2], 4)
    assert found.shape == (4, 3)
    assert np.isnan(found[2:]).all()
    assert np.array_equal(found[:2], X[:2])
