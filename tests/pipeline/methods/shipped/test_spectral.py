"""Spectral clustering with links written into the affinity."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.metrics import adjusted_rand_score

from pipeline.methods.contract import Solution, checked, merged_links
from pipeline.methods.shipped import spectral
from pipeline.methods.shipped.links import SignedGraph
from pipeline.methods.shipped.spectral import spectral_links

RNG = np.random.default_rng(4)
TRUE = np.repeat([0, 1, 2], 20)
X = np.array([[0.0, 0.0], [6.0, 0.0], [0.0, 6.0]])[TRUE] + RNG.normal(size=(60, 2))


def call(annotations: Any = (), X: Any = X, n_clusters: int = 3, **options: Any) -> Solution:
    must, cannot, weights = merged_links(np.array(annotations, dtype=np.int64).reshape(-1, 3))
    answer = spectral_links(
        X, n_clusters, must, cannot, weights=weights, accuracy=None, random_state=0, **options
    )
    return checked(answer, n_samples=len(X), n_features=X.shape[1], n_clusters=n_clusters)


def matrix(annotations: Any, sigma: float, neighbours: int) -> NDArray[np.float64]:
    """Affinity by the definition, pair by pair."""
    distances = np.linalg.norm(X[:, None] - X[None], axis=2)
    near = np.argsort(distances, axis=1)[:, 1 : neighbours + 1]
    found = np.zeros((60, 60))
    for i in range(60):
        for j in near[i]:
            found[i, j] = found[j, i] = np.exp(-(distances[i, j] ** 2) / (2 * sigma**2))
    counts: dict[tuple[int, int], int] = {}
    for i, j, kind in annotations:
        pair = (min(i, j), max(i, j))
        counts[pair] = counts.get(pair, 0) + (1 if kind == 0 else -1)
    for (i, j), count in counts.items():
        if count:
            found[i, j] = found[j, i] = float(count > 0)
    return found


def test_the_affinity_is_as_defined() -> None:
    annotations = [(0, 30, 0), (0, 1, 1), (2, 3, 0), (2, 3, 1), (5, 50, 0), (5, 50, 0), (5, 50, 1)]
    must, cannot, weights = merged_links(np.array(annotations))
    graph = SignedGraph.of(60, must, cannot, weights)
    found = spectral._with_links(spectral._affinity(X, 1.5, 8), graph).toarray()
    assert found == pytest.approx(matrix(annotations, 1.5, 8))


def test_vectors_are_the_leading_ones_of_the_published_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    affinity = matrix([(0, 30, 0), (20, 50, 0)], 1.5, 8)
    sums = affinity.sum(axis=1)
    values, vectors = np.linalg.eigh((affinity + np.diag(sums.max() - sums)) / sums.max())
    assert values[-3] - values[-4] > 1e-3
    theirs = vectors[:, -3:] @ vectors[:, -3:].T
    for largest in (60, 59):  # of all pairs, and sparse
        monkeypatch.setattr(spectral, "LARGEST_DENSE", largest)
        found = spectral._leading(csr_array(affinity), 3)
        assert found @ found.T == pytest.approx(theirs, abs=1e-6)


@pytest.mark.parametrize("largest", [60, 59])
def test_plain_clusters_are_found(monkeypatch: pytest.MonkeyPatch, largest: int) -> None:
    monkeypatch.setattr(spectral, "LARGEST_DENSE", largest)
    assert adjusted_rand_score(TRUE, call().labels) > 0.9


def test_links_lead_where_features_do_not() -> None:
    blob = RNG.normal(size=(60, 2))
    hidden = np.arange(60) % 2
    pairs = RNG.integers(60, size=(900, 2)).tolist()
    annotations = [(i, j, int(hidden[i] != hidden[j])) for i, j in pairs]
    assert adjusted_rand_score(hidden, call(X=blob, n_clusters=2).labels) < 0.2
    assert adjusted_rand_score(hidden, call(annotations, X=blob, n_clusters=2).labels) > 0.9


def test_the_width_follows_the_units() -> None:
    assert np.array_equal(np.asarray(call().labels), np.asarray(call(X=1000 * X).labels))


def test_edges() -> None:
    assert sorted(np.asarray(call(X=X[:3]).labels)) == [0, 1, 2]
    assert len(set(np.asarray(call(X=X[:4]).labels))) <= 3
    call(X=np.zeros((10, 2)))
    for options in ({"sigma": 0.0}, {"neighbours": 0}):
        with pytest.raises(ValueError, match="expected both above 0"):
            call(**options)
