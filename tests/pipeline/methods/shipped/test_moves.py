"""Local moves of single samples."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from pipeline.methods.contract import merged_links
from pipeline.methods.shipped.moves import SignedGraph, settle

N = 7


def graph_of(annotations: list[tuple[int, int, int]]) -> SignedGraph:
    must, cannot, weights = merged_links(np.array(annotations, dtype=np.int64).reshape(-1, 3))
    return SignedGraph.of(N, must, cannot, weights)


def agreement(annotations: list[tuple[int, int, int]], labels: NDArray[np.integer]) -> float:
    """From the annotations themselves: pairs within clusters, must-links less cannot-links."""
    signs = [1 - 2 * kind for i, j, kind in annotations if i != j and labels[i] == labels[j]]
    return float(sum(signs))


annotations = st.lists(
    st.tuples(st.integers(0, N - 1), st.integers(0, N - 1), st.integers(0, 1)), max_size=30
)


def test_a_graph_of_a_hand_case() -> None:
    graph = graph_of([(0, 1, 0), (1, 0, 0), (1, 2, 1), (3, 4, 0), (3, 4, 1), (5, 5, 0)])
    assert graph.degrees.tolist() == [1, 2, 1, 0, 0, 0, 0]
    neighbours, weights = graph.around(1)
    assert dict(zip(neighbours.tolist(), weights.tolist(), strict=True)) == {0: 2.0, 2: -1.0}
    assert graph.agreement(np.array([0, 0, 0, 0, 0, 0, 0])) == 1.0
    assert graph.agreement(np.array([0, 0, 1, 0, 0, 0, 0])) == 2.0


@given(annotations, st.lists(st.integers(0, 2), min_size=N, max_size=N))
def test_agreement_is_that_of_the_annotations(
    annotations: list[tuple[int, int, int]], labels: list[int]
) -> None:
    assert graph_of(annotations).agreement(np.array(labels)) == agreement(annotations, np.array(labels))


@settings(max_examples=40)
@given(annotations, st.integers(0, 2**32 - 1))
def test_no_single_move_gains_once_settled(annotations: list[tuple[int, int, int]], seed: int) -> None:
    rng = np.random.default_rng(seed)
    pull = rng.normal(size=(N, 3))
    before = rng.integers(3, size=N)

    def worth(labels: NDArray[np.integer]) -> float:
        return agreement(annotations, labels) + float(pull[np.arange(N), labels].sum())

    found = settle(before, pull, graph_of(annotations), rng)
    assert worth(found) >= worth(before) - 1e-9
    for sample in range(N):
        for cluster in range(3):
            other = found.copy()
            other[sample] = cluster
            assert worth(other) <= worth(found) + 1e-9


def test_where_it_begins_is_not_changed() -> None:
    before = np.zeros(N, dtype=np.int64)
    pull = np.tile([0.0, 1.0], (N, 1))
    found = settle(before, pull, graph_of([]), np.random.default_rng(0))
    assert not before.any()
    assert found.all()


def test_the_seed_decides_between_equal_ends() -> None:
    # either end of a cannot-link may leave the cluster
    graph = graph_of([(0, 1, 1)])
    pull = np.zeros((N, 2))
    ends = {
        tuple(settle(np.zeros(N, dtype=np.int64), pull, graph, np.random.default_rng(seed))[:2].tolist())
        for seed in range(10)
    }
    assert ends == {(0, 1), (1, 0)}
    same = [settle(np.zeros(N, dtype=np.int64), pull, graph, np.random.default_rng(3)) for _ in range(2)]
    assert np.array_equal(*same)


@pytest.mark.parametrize("n_clusters", [1, 3])
def test_nothing_to_gain_is_an_end(n_clusters: int) -> None:
    labels = np.arange(N) % n_clusters
    assert np.array_equal(
        settle(labels, np.zeros((N, n_clusters)), graph_of([]), np.random.default_rng(0)), labels
    )
