"""Annotation layers: how they are made, checked, and agree with a partition."""

from __future__ import annotations

import numpy as np
import pytest

from kernels.problem.layers import check_layer, layer_weights, pair_accuracies
from kernels.problem.problem import (
    CANNOT,
    MUST,
    Layer,
    inferred_accuracies,
    layers_from_annotations,
)


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


def test_layers_from_annotations() -> None:
    table = np.array([[0, 1, 0], [2, 2, 0], [3, 1, 1]], dtype=np.int32)
    must, cannot = layers_from_annotations(table, 0.8)
    assert (must.kind, cannot.kind, must.accuracy) == (MUST, CANNOT, 0.8)
    assert must.pairs.tolist() == [[0, 1], [2, 2]]
    assert cannot.pairs.tolist() == [[3, 1]]


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
