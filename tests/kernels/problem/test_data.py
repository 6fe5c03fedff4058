"""Annotation layers as kernels see them, against dense matrices."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.typing import NDArray
from solving.oracles import adjacency

from kernels.problem import data
from kernels.problem.data import CANNOT, MUST, Layer, layer_weights
from kernels.problem.problem import MODELS
from kernels.settings import COVARIANCES, TERMS

N = 7


def test_codes_are_places_in_the_lists_of_names() -> None:
    assert [getattr(data, name.upper()) for name in COVARIANCES] == list(range(len(COVARIANCES)))
    assert {name: getattr(data, name.upper()) for name in TERMS} == MODELS


def test_inferred_accuracies() -> None:
    layers = [
        Layer(MUST, np.array([[0, 1], [0, 2], [3, 3]]), np.array([2.0, 1.0, 5.0]), annotator=2),
        Layer(CANNOT, np.array([[0, 3], [0, 1]]), np.array([1.0, 4.0]), annotator=2),
        Layer(CANNOT, np.array([[1, 1]]), annotator=1),
        Layer(CANNOT, np.empty((0, 2), dtype=np.int64), annotator=5),
    ]
    found = data.inferred_accuracies(layers, [0, 0, 1, 1])
    assert list(found) == [1, 2, 5]
    assert found[2] == pytest.approx(3 / 8)
    assert np.isnan([found[1], found[5]]).all()


def some_layers(seed: int) -> list[Layer]:
    """One to three, with repeated and self pairs, weights or not, known accuracies or not."""
    rng = np.random.default_rng(seed)
    layers = []
    for number in range(int(rng.integers(1, 4))):
        pairs = rng.integers(0, N, size=(int(rng.integers(1, 12)), 2))
        weights = rng.integers(1, 5, len(pairs)).astype(float) if rng.random() < 0.5 else None
        accuracy = float(rng.uniform(0.05, 1.0)) if rng.random() < 0.6 else None
        layers.append(Layer(int(rng.integers(2)), pairs, weights, accuracy, annotator=number % 2))
    return layers


def laid_out(given: list[Layer], model: str = "likelihood") -> SimpleNamespace:
    return SimpleNamespace(**data.adjacency(given, N, model))


def dense(found: SimpleNamespace) -> NDArray[np.float64]:
    """Matrices of all layers, shape (n_layers, N, N), from the rows as a kernel walks them."""
    n_layers = len(found.totals)
    matrices = np.zeros((n_layers, N, N))
    for i, layer in np.ndindex(N, n_layers):
        row = slice(*found.row_start[i * n_layers + layer :][:2])
        partners = found.partners[row]
        assert (np.diff(partners) > 0).all(), "partners rise, each once"
        matrices[layer, i, partners] = found.weights[row]
        matrices[layer, i, i] = found.self_weights[i, layer]
    return matrices


def test_block_layers_are_the_counts_of_each_pair() -> None:
    for seed in range(40):
        layers = some_layers(seed)
        found, wanted = laid_out(layers), np.array([adjacency(layer, N) for layer in layers])
        np.testing.assert_array_equal(dense(found), wanted)
        np.testing.assert_array_equal(found.totals, wanted.sum(axis=(1, 2)) / 2)
        assert found.attracts.tolist() == [layer.kind == MUST for layer in layers]
        assert found.row_start.dtype == found.partners.dtype == np.int32


def test_conditional_layers_hold_what_a_pair_adds_when_it_shares_a_cluster() -> None:
    for seed in range(40):
        known, unknown = np.zeros((N, N)), {}
        apart, totals, n_known = 0.0, {}, 0
        for layer in some_layers(seed):
            other = layer.pairs[:, 0] != layer.pairs[:, 1]
            counts = layer_weights(layer)[other]
            matrix = adjacency(Layer(layer.kind, layer.pairs[other], counts), N)
            matrix *= 1.0 if layer.kind == MUST else -1.0
            if layer.accuracy is None:
                unknown[layer.annotator] = unknown.get(layer.annotator, 0.0) + matrix
                totals[layer.annotator] = totals.get(layer.annotator, 0.0) + counts.sum()
            else:
                p = min(layer.accuracy, 1 - 1e-6)
                known += np.log(p / (1 - p)) * matrix
                # Apart, a must-link is wrong and a cannot-link right.
                apart += counts.sum() * np.log(1 - p if layer.kind == MUST else p)
                n_known += len(counts)
        found = laid_out(some_layers(seed), "conditional")
        shown = [who for who in sorted(totals) if totals[who]]
        wanted = [known] * (n_known > 0) + [unknown[who] for who in shown]
        assert found.n_known == (n_known > 0)
        np.testing.assert_allclose(dense(found), np.reshape(wanted, (-1, N, N)), atol=1e-9)
        assert found.apart[: found.n_known].tolist() == pytest.approx([apart] * found.n_known)
        assert found.totals[found.n_known :].tolist() == [totals[who] for who in shown]
        assert not found.self_weights.any()
        assert found.x_log_x.size == 0


def test_the_table_of_logarithms_reaches_every_count_or_is_left_out() -> None:
    pairs = np.array([[0, 1], [1, 2]])

    def table(*weights: float) -> NDArray[np.float64]:
        return laid_out([Layer(MUST, np.repeat(pairs, len(weights) // 2, axis=0), np.array(weights))]).x_log_x

    whole = table(2.0, 3.0)
    assert len(whole) > 4 * 5
    counts = np.arange(1.0, len(whole))
    assert whole[0] == 0.0
    np.testing.assert_array_equal(whole[1:], counts * np.log(counts))
    assert table(2.0, 0.5).size == table(2.0, 1e7).size == 0
    # Half weights that add up to whole ones per pair are counts.
    assert table(0.5, 0.5, 0.5, 0.5).size > 0
