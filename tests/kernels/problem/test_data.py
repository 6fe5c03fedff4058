"""Annotations are laid out for kernels as slow twins say, with weights that are not 1."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit, logit
from solving import oracles

from sweep_clustering.kernels.problem import data
from sweep_clustering.kernels.problem.data import CANNOT, MUST, Layer

N = 9


def drawn_layers(seed: int) -> list[Layer]:
    """Draw layers with repeated pairs, self pairs and weights; two annotators share three of them."""
    rng, layers = np.random.default_rng(seed), []
    for kind, accuracy, annotator in ((MUST, 0.8, 0), (CANNOT, 0.9, 3), (CANNOT, 0.7, 1), (MUST, 0.6, 3)):
        pairs, weights = rng.integers(N, size=(12, 2)), rng.integers(1, 4, size=12) / 2.0
        layers.append(Layer(kind, pairs, weights, accuracy, annotator=annotator))
    return layers


def test_block_models_get_the_weights_of_all_pairs() -> None:
    layers = [*drawn_layers(0), replace(drawn_layers(1)[0], accuracy=None)]
    fields = data.adjacency(layers, N, "posterior")
    for number, layer in enumerate(layers):
        matrix = np.diag(fields["self_weights"][:, number])
        for i in range(N):
            row = i * len(layers) + number
            entries = slice(fields["row_start"][row], fields["row_start"][row + 1])
            matrix[i, fields["partners"][entries]] = fields["weights"][entries]
        expected = oracles.adjacency(layer, N)
        np.testing.assert_allclose(matrix, expected)
        assert fields["totals"][number] == pytest.approx(expected.sum() / 2.0)
    assert fields["spread"] == pytest.approx([0.2 / 0.8, 0.9 / 0.1, 0.7 / 0.3, 0.4 / 0.6, 1.0])
    assert fields["attracts"].tolist() == [True, False, False, True, True]


def test_pairs_of_the_conditional_model_add_up_to_its_value() -> None:
    first, second, third, fourth = drawn_layers(0)
    some_accuracies = np.where(
        np.arange(12) % 3 == 0, 0.95, np.nan
    )  # some annotations have accuracies of their own
    layers = [
        first,
        replace(second, accuracy=None, accuracies=some_accuracies),
        third,
        replace(fourth, accuracy=None),
    ]
    fields = data.adjacency(layers, N, "conditional")
    labels = np.random.default_rng(1).integers(3, size=N)
    expected = np.zeros(2)  # nats of known accuracies, and agreeing weight of the annotator without one
    totals = np.zeros(2)
    for layer in layers:
        single = np.full(12, np.nan) if layer.accuracies is None else layer.accuracies
        accuracies = np.where(np.isnan(single), layer.accuracy or np.nan, single)
        for (i, j), weight, p in zip(layer.pairs, data.layer_weights(layer), accuracies, strict=True):
            is_right = (labels[i] == labels[j]) == (layer.kind == MUST)
            if i != j and np.isnan(p):
                expected[1] += weight * is_right
                totals[1] += weight
            elif i != j:
                expected[0] += weight * np.log(p if is_right else 1.0 - p)
    assert fields["n_known"] == 1
    values = fields["base_agreements"].copy()
    for i in range(N):
        for number in (0, 1):
            row = 2 * i + number
            for entry in range(fields["row_start"][row], fields["row_start"][row + 1]):
                if labels[fields["partners"][entry]] == labels[i]:
                    values[number] += 0.5 * fields["weights"][entry]
    assert values == pytest.approx(expected)
    assert fields["totals"] == pytest.approx(totals)
    assert not fields["self_weights"].any()


def test_links_are_pairs_with_the_sum_of_equal_annotations() -> None:
    first, second, third, fourth = drawn_layers(2)
    layers = [
        first,
        replace(second, accuracy=None),
        replace(third, accuracy=1.0),
        replace(fourth, accuracy=None),
    ]
    layers[3] = replace(layers[3], annotator=7)
    expected: dict[tuple[int, int, int, float, int], float] = {}
    for layer in layers:
        sign, p = (1 if layer.kind == MUST else -1), min(layer.accuracy or 0.5, 1.0 - data.UNSURE)
        source = -1 if layer.accuracy else [3, 7].index(layer.annotator)
        for (i, j), weight in zip(layer.pairs.tolist(), data.layer_weights(layer), strict=True):
            if i != j:
                key = (min(i, j), max(i, j), source, round(float(logit(p)), 9), sign)
                expected[key] = expected.get(key, 0.0) + sign * weight
    links = data.link(layers, N)
    columns = links.pairs.tolist(), links.sources.tolist(), links.odds.tolist(), links.signed.tolist()
    result = {
        (*pair, source, round(odds, 9), int(np.sign(signed))): signed
        for pair, source, odds, signed in zip(*columns, strict=True)
    }
    assert len(result) == len(links.pairs)
    assert result == pytest.approx(expected)
    assert links.annotators == (3, 7)
    for i in range(N):
        part = slice(links.row_start[i], links.row_start[i + 1])
        ends = np.sort(np.column_stack([np.full(len(links.partners[part]), i), links.partners[part]]), axis=1)
        np.testing.assert_array_equal(links.pairs[links.entries[part]], ends)
    assert links.row_start[-1] == 2 * len(links.pairs)
    turned = [replace(layer, pairs=layer.pairs[:, ::-1]) for layer in layers]
    assert data.link(turned, N).pairs.tobytes() == links.pairs.tobytes()
    assumed = links.assume(1.5)
    assert assumed.annotators == ()
    assert assumed.odds.tolist() == np.where(links.sources < 0, links.odds, 1.5).tolist()
    assert (assumed.sources == -1).all()
    assert links.assume(0.0) is links


def test_accuracies_of_annotators_are_shrunk_towards_their_own_and_the_group() -> None:
    rng = np.random.default_rng(0)
    annotators, is_must = rng.choice([2, 5, 9], 40), rng.random(40) < 0.5
    weights, shares = rng.integers(1, 4, 40).astype(float), rng.random(40)
    raw = np.full((2, 3, 2), 0.5)
    for annotator, is_link, weight, share in zip(annotators, is_must, weights, shares, strict=True):
        place = [2, 5, 9].index(annotator)
        raw[int(not is_link), place, 0] += weight * share
        raw[int(is_link), place, 1] += weight * (1.0 - share)
    estimates = data.estimate_accuracies(annotators, is_must, weights, shares)
    odds = logit(estimates.accuracies)
    group = expit(odds.mean(axis=0))
    prior = expit(odds.mean(axis=1))[:, None] + 4.0 * (group if group.sum() > 1.0 else 0.5)
    np.testing.assert_allclose(estimates.right, raw[0] + prior, rtol=1e-6)
    np.testing.assert_allclose(estimates.wrong, raw[1] + 5.0 - prior, rtol=1e-6)
    accuracies = estimates.accuracies_of(np.array([9, 3, 2, 11]))
    np.testing.assert_array_equal(accuracies[::2], estimates.accuracies[[2, 0]])
    np.testing.assert_array_equal(accuracies[1::2], [estimates.group] * 2)
    # an annotator alone has one accuracy, which is not below chance
    for is_link, expected in ((is_must, None), (shares < 0.5, 0.501)):
        alone = data.estimate_accuracies(np.full(40, 2), is_link, weights, shares)
        right = (weights * np.where(is_link, shares, 1.0 - shares)).sum() + 1.0
        share = max(right / (weights.sum() + 2.0), 0.501)
        assert alone.accuracies == pytest.approx(np.full((1, 2), share))
        assert expected is None or share == expected


def test_accuracies_of_annotators_are_never_certain() -> None:
    many, none = np.array([[1e6, 1.0], [1.0, 1e6]]), np.array([[1.0, 1e6], [1e6, 1.0]])
    several = data.Estimates(np.array([1, 2]), many, none, np.full(2, 0.5))
    assert several.accuracies == pytest.approx(np.array([[0.999, 0.001], [0.001, 0.999]]))
    alone = data.Estimates(np.array([1]), np.full((1, 2), 1e6), np.ones((1, 2)), np.full(2, 0.5))
    assert alone.accuracies == pytest.approx(np.full((1, 2), 0.999))


def test_rows_that_differ_in_late_columns_alone_are_distinct() -> None:
    table = np.zeros((4, data.FIRST_COLUMNS + 1))
    table[1:3, -1] = 1.0
    assert data.row_numbers(table).tolist() == [0, 1, 1, 0]
    assert data.count_distinct(table) == 2
    assert data.count_distinct(table[:, :-1]) == 1
    assert data.count_distinct(table[:0]) == 0


def test_annotations_in_turn_are_of_one_annotator() -> None:
    table = np.array([[0, 1, 0], [1, 2, 1], [2, 3, 2], [3, 4, 0], [4, 5, 1]])
    for turn, expected in ((None, [[2, 2]]), (2, [[1, 1], [1, 0], [0, 1]]), (3, [[1, 1], [1, 1]])):
        layers = data.layers_from_annotations(table, 0.9, turn)
        sizes = [(layer.annotator, layer.kind, len(layer.pairs)) for layer in layers]
        assert sizes == [(a, k, counts[k]) for a, counts in enumerate(expected) for k in (MUST, CANNOT)]
