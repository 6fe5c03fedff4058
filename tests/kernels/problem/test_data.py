"""Codes that kernels compare are those of the names."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from solving.oracles import adjacency

from kernels.problem import data
from kernels.problem.data import (
    adjacency as laid_out,
)
from kernels.problem.data import (
    check_layer,
    layer_weights,
    pair_accuracies,
)
from kernels.problem.problem import (
    CANNOT,
    MODELS,
    MUST,
    Layer,
    inferred_accuracies,
)
from kernels.settings import COVARIANCES, TERMS


def test_codes_are_places_in_the_lists_of_names() -> None:
    assert [getattr(data, name.upper()) for name in COVARIANCES] == list(range(len(COVARIANCES)))
    assert [getattr(data, name.upper()) for name in TERMS] == list(range(len(TERMS)))
    assert {name: getattr(data, name.upper()) for name in TERMS} == MODELS


# Annotation layers: how they are made, checked, and agree with a partition.


def test_inferred_accuracies() -> None:
    layers = [
        Layer(MUST, np.array([[0, 1], [0, 2], [3, 3]]), np.array([2.0, 1.0, 5.0]), annotator=2),
        Layer(CANNOT, np.array([[0, 3], [0, 1]]), np.array([1.0, 4.0]), annotator=2),
        Layer(CANNOT, np.array([[1, 1]]), annotator=1),
        Layer(CANNOT, np.empty((0, 2), dtype=np.int64), annotator=5),
    ]
    found = inferred_accuracies(layers, [0, 0, 1, 1])
    assert list(found) == [1, 2, 5]
    assert found[2] == pytest.approx(3 / 8)
    assert np.isnan([found[1], found[5]]).all()


def test_weights_and_accuracies_of_each_pair() -> None:
    pairs = np.array([[0, 1], [2, 3], [1, 1]])
    plain = Layer(MUST, pairs)
    assert layer_weights(plain).tolist() == [1.0, 1.0, 1.0]
    assert np.isnan(pair_accuracies(plain)).all()
    given = Layer(MUST, pairs, np.array([2, 1, 3]), 0.7, np.array([np.nan, 0.0, 1.0]))
    assert layer_weights(given).tolist() == [2.0, 1.0, 3.0]
    assert layer_weights(given).dtype == np.float64
    assert pair_accuracies(given).tolist() == [0.7, 1e-6, 1 - 1e-6]
    assert pair_accuracies(Layer(CANNOT, pairs, None, 1.0)).tolist() == [1 - 1e-6] * 3


@pytest.mark.parametrize(
    ("layer", "model", "said"),
    [
        (Layer(MUST, np.array([[-1, 0]])), "likelihood", "indices go from -1 to 0, expected 0 to 5"),
        (Layer(MUST, np.array([[0, 1, 2]])), "likelihood", r"shape \(1, 3\), expected integers"),
        (Layer(MUST, np.array([[0, 1]]), np.array([np.inf])), "likelihood", "weights go from"),
        (Layer(MUST, np.array([[0, 1]]), None, float("nan")), "posterior", "accuracy is nan"),
        (Layer(MUST, np.array([[0, 1]]), None, 0.0), "posterior", "accuracy is 0.0"),
        (Layer(MUST, np.array([[0, 1]]), None, float("nan")), "conditional", "accuracy is nan"),
    ],
)
def test_a_layer_the_model_cannot_use_is_refused_with_its_number(layer: Layer, model: str, said: str) -> None:
    with pytest.raises(ValueError, match=f"annotation layer 7: .*{said}"):
        check_layer(layer, 7, 6, model)


@pytest.mark.parametrize("model", ["likelihood", "posterior", "conditional"])
def test_each_model_asks_for_the_accuracy_it_needs(model: str) -> None:
    pairs = np.array([[0, 1], [5, 5]])
    check_layer(Layer(CANNOT, pairs, None, 1.0), 0, 6, model)
    if model != "posterior":
        check_layer(Layer(CANNOT, pairs), 0, 6, model)
    if model == "conditional":
        check_layer(Layer(CANNOT, pairs, None, 0.0, np.array([np.nan, 1.0])), 0, 6, model)


# Adjacency of the annotation layers against dense matrices.

N = 7

PAIRS = st.lists(st.tuples(st.integers(0, N - 1), st.integers(0, N - 1)), min_size=1, max_size=12)
ACCURACIES = st.one_of(st.none(), st.floats(0.05, 1.0))


@st.composite
def layers(draw: st.DrawFn) -> list[Layer]:
    drawn = []
    for _ in range(draw(st.integers(1, 3))):
        pairs = np.array(draw(PAIRS), dtype=np.int64)
        weights = draw(
            st.one_of(
                st.none(),
                st.lists(st.integers(1, 4).map(float), min_size=len(pairs), max_size=len(pairs)).map(
                    np.array
                ),
            )
        )
        kind, accuracy = draw(st.sampled_from([MUST, CANNOT])), draw(ACCURACIES)
        drawn.append(Layer(kind, pairs, weights, accuracy, annotator=draw(st.integers(0, 1))))
    return drawn


def adjacency_of(given: list[Layer], model: str = "likelihood", n_samples: int = N) -> SimpleNamespace:
    return SimpleNamespace(**laid_out(given, n_samples, model))


def dense(found: SimpleNamespace) -> NDArray[np.float64]:
    """Matrices of all layers, shape (n_layers, N, N), from the rows as a kernel walks them."""
    n_layers = len(found.totals)
    matrices = np.zeros((n_layers, N, N))
    for i in range(N):
        for layer in range(n_layers):
            row = slice(*found.row_start[i * n_layers + layer :][:2])
            partners = found.partners[row]
            assert (np.diff(partners) > 0).all(), "partners rise, each once"
            matrices[layer, i, partners] = found.weights[row]
            matrices[layer, i, i] = found.self_weights[i, layer]
    return matrices


@given(layers())
def test_block_layers_are_the_counts_of_each_pair(given_layers: list[Layer]) -> None:
    found = adjacency_of(given_layers)
    wanted = np.array([adjacency(layer, N) for layer in given_layers])
    np.testing.assert_array_equal(dense(found), wanted)
    np.testing.assert_array_equal(found.totals, wanted.sum(axis=(1, 2)) / 2)
    assert found.attracts.tolist() == [layer.kind == MUST for layer in given_layers]
    assert found.row_start.dtype == found.partners.dtype == np.int32


def weighed(layer: Layer, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Matrix of a layer without its self pairs, with other weights."""
    other = layer.pairs[:, 0] != layer.pairs[:, 1]
    return adjacency(Layer(layer.kind, layer.pairs[other], weights[other]), N)


@given(layers())
def test_conditional_layers_hold_what_a_pair_adds_when_it_shares_a_cluster(given_layers: list[Layer]) -> None:
    found = adjacency_of(given_layers, "conditional")
    matrices = dense(found)
    known, signed = np.zeros((N, N)), {0: np.zeros((N, N)), 1: np.zeros((N, N))}
    apart, n_known, totals = 0.0, 0, {0: 0.0, 1: 0.0}
    for layer in given_layers:
        counts = np.ones(len(layer.pairs)) if layer.weights is None else layer.weights
        sign = 1.0 if layer.kind == MUST else -1.0
        others = counts[layer.pairs[:, 0] != layer.pairs[:, 1]]
        if layer.accuracy is None:
            signed[layer.annotator] += weighed(layer, sign * counts)
            totals[layer.annotator] += others.sum()
        else:
            p = min(layer.accuracy, 1 - 1e-6)
            known += weighed(layer, sign * counts * np.log(p / (1 - p)))
            # Apart, a must-link is wrong and a cannot-link right.
            apart += others.sum() * np.log(1 - p if layer.kind == MUST else p)
            n_known += len(others)
    wanted = [known] * (n_known > 0) + [signed[who] for who in (0, 1) if totals[who]]
    assert found.n_known == (n_known > 0)
    assert len(matrices) == len(wanted)
    for matrix, expected in zip(matrices, wanted, strict=True):
        np.testing.assert_allclose(matrix, expected, atol=1e-9)
    if n_known:
        assert found.apart[0] == pytest.approx(apart)
    np.testing.assert_array_equal(
        found.totals[found.n_known :], [total for total in totals.values() if total]
    )
    assert not found.self_weights.any()
    assert found.x_log_x.size == 0


def test_a_triangle_by_hand() -> None:
    """Sample 0 twice with 1, 2 with itself; 1 and 2 apart."""
    must = Layer(MUST, np.array([[0, 1], [1, 0], [2, 2]]), None, 0.8)
    cannot = Layer(CANNOT, np.array([[2, 1]]), np.array([3.0]), 0.8)
    found = adjacency_of([must, cannot], n_samples=3)
    assert found.row_start.tolist() == [0, 1, 1, 2, 3, 3, 4]
    assert found.partners.tolist() == [1, 0, 2, 1]
    assert found.weights.tolist() == [2.0, 2.0, 3.0, 3.0]
    assert found.self_weights.tolist() == [[0.0, 0.0], [0.0, 0.0], [2.0, 0.0]]
    assert found.totals.tolist() == [3.0, 3.0]
    np.testing.assert_allclose(found.spread, [0.25, 4.0])


def test_the_table_of_logarithms_reaches_every_count_or_is_left_out() -> None:
    pairs = np.array([[0, 1], [1, 2]])
    whole = adjacency_of([Layer(MUST, pairs, np.array([2.0, 3.0]))], n_samples=3).x_log_x
    assert len(whole) > 4 * 5
    counts = np.arange(1.0, len(whole))
    assert whole[0] == 0.0
    np.testing.assert_array_equal(whole[1:], counts * np.log(counts))
    for weights in (np.array([2.0, 0.5]), np.array([2.0, 1e7])):
        assert adjacency_of([Layer(MUST, pairs, weights)], n_samples=3).x_log_x.size == 0
    # Half weights that add up to whole ones per pair are counts.
    twice = adjacency_of([Layer(MUST, np.repeat(pairs, 2, axis=0), np.full(4, 0.5))], n_samples=3)
    assert twice.x_log_x.size > 0
