"""Held-out annotations: nothing leaks, and probabilities are those of the objective."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from solving.oracles import COVARIANCES, MODELS, draw_case, draw_labels, objective

import kernels.choice.held_out as module
from kernels.choice.held_out import (
    FOLDS,
    LEAST_PAIRS,
    Choice,
    HeldOut,
    choose_covariance,
    estimated_accuracy,
    held_out,
    label_probabilities,
    list_annotations,
    simplest_of_the_best,
)
from kernels.problem.problem import CANNOT, MUST, Layer, Problem
from kernels.settings import CANDIDATES, settings_of


def predicted(logs: object, right: object, weights: object = None, agreeing: object = 0.0) -> HeldOut:
    """Of values for each annotation, or one for all."""
    arrays = np.broadcast_arrays(logs, right, 1.0 if weights is None else weights, agreeing)
    return HeldOut(*(np.array(each) for each in arrays))


def test_the_accuracy_of_certain_pairs_is_the_share_that_agrees() -> None:
    found = estimated_accuracy(predicted(0.0, True, agreeing=[1.0] * 8 + [0.0] * 2))
    assert found == pytest.approx((0.8, math.sqrt(0.8 * 0.2 / 10)))
    assert estimated_accuracy(predicted(0.0, True, [8.0, 2.0], [1.0, 0.0])) == pytest.approx(found)
    for share, end in ((0.999, 0.999), (0.001, 0.5), (0.5, 0.5)):
        value, error = estimated_accuracy(predicted(0.0, True, agreeing=[share] * 5))
        assert (value, math.isnan(error)) == (end, True)


# The shape chosen is that which made the data; the simplest unless another is clearly better.

SEED = np.random.SeedSequence(0)


def draw(shape: str, seed: int, n_samples: int = 200) -> tuple[np.ndarray, np.ndarray]:
    """Two overlapping clusters whose covariances tell them apart."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n_samples) % 2
    X = rng.normal(size=(n_samples, 2))
    if shape == "spherical":
        X[labels == 1] = X[labels == 1] * 1.5 + 2.0
    elif shape == "diagonal":
        X[labels == 0] *= [4.0, 0.3]
        X[labels == 1] *= [0.3, 4.0]
    elif shape == "tied":
        X = X * [6.0, 0.5] + np.where(labels, 1.5, -1.5)[:, None] * [0, 1]
        X = X @ np.array([[1.0, 1.0], [-1.0, 1.0]])
    else:
        turned = X * [4.0, 0.3] @ np.array([[1.0, 1.0], [-1.0, 1.0]])
        X = np.where(labels[:, None] == 1, turned, turned * [1, -1])
    return X, labels


def layers_of(labels: np.ndarray, m: int, seed: int) -> list[Layer]:
    rng = np.random.default_rng(seed)
    pairs = rng.integers(0, len(labels), size=(m, 2))
    together = labels[pairs[:, 0]] == labels[pairs[:, 1]]
    kinds = np.where(together ^ (rng.random(m) < 0.1), MUST, CANNOT)
    return [Layer(kind, pairs[kinds == kind], None, 0.9) for kind in (MUST, CANNOT)]


def choose(X: np.ndarray, layers: list[Layer], model: str = "conditional") -> Choice:
    settings = settings_of({"method": "strong"})
    return choose_covariance(X, layers, n_clusters=2, model=model, settings=settings, seed=SEED)


def test_the_shape_that_made_the_data_is_chosen() -> None:
    # what is spherical is diagonal too, and so on: such a choice costs little
    more = {"spherical": "diagonal", "diagonal": "full", "tied": "full", "full": "full"}
    models = ("conditional", "posterior", "likelihood", "conditional")
    for shape, model in zip(CANDIDATES, models, strict=True):
        X, labels = draw(shape, 0)
        choice = choose(X, layers_of(labels, 200, 0), model)
        assert list(choice.candidates) == list(CANDIDATES)
        assert choice.covariance in (shape, more[shape])


def test_too_few_annotations_are_said_and_mean_spherical() -> None:
    X, labels = draw("full", 2)
    few = layers_of(labels, LEAST_PAIRS - 1, 2)
    choice = choose(X, few)
    assert (choice.covariance, choice.candidates) == ("spherical", {})
    assert str(LEAST_PAIRS) in choice.note
    # repeats of a pair tell nothing more
    many = [Layer(each.kind, np.repeat(each.pairs, 5, axis=0), None, 0.9) for each in few]
    assert choose(X, many).candidates == {}
    assert "sees no annotations" in choose(X, layers_of(labels, 100, 2), "unsupervised").note


def test_a_simpler_candidate_wins_within_half_a_standard_error() -> None:
    rng = np.random.default_rng(0)
    base = rng.normal(size=400)

    def chosen(gain: float) -> str:
        noise = rng.normal(size=400)
        noise -= noise.mean()
        logs = {"spherical": base, "diagonal": base - 1.0, "full": base + gain * noise.std() / 20 + noise}
        return simplest_of_the_best({name: predicted(each, True) for name, each in logs.items()})

    assert [chosen(gain) for gain in (0.4, 0.6, -0.1)] == ["spherical", "full", "spherical"]


SETTINGS = settings_of({"method": "strong", "population": 4, "offspring": 4})


def some_layers() -> list[Layer]:
    rng = np.random.default_rng(2)
    pairs = rng.integers(0, 30, size=(60, 2))
    pairs[:5, 1] = pairs[:5, 0]
    pairs[50:] = pairs[20:30, ::-1]
    return [
        Layer(MUST, pairs[:35], rng.uniform(0.5, 3.0, 35), None, None, 0),
        Layer(CANNOT, pairs[35:], None, 0.8, np.where(np.arange(25) < 4, 0.6, np.nan), 1),
    ]


def test_every_annotation_is_listed_and_folds_are_even() -> None:
    layers = some_layers()
    found = list_annotations(layers, SEED)
    assert len(found.folds) == sum(int((each.pairs[:, 0] != each.pairs[:, 1]).sum()) for each in layers)
    pairs, places = np.unique(np.sort(found.pairs, axis=1), axis=0, return_index=True)
    assert found.n_pairs == len(pairs)
    assert np.ptp(np.bincount(found.folds[places], minlength=FOLDS)) <= 1
    for place, (layer, row) in enumerate(zip(found.layers, found.rows, strict=True)):
        given = layers[layer]
        assert given.pairs[row].tolist() == found.pairs[place].tolist()
        assert (given.kind == MUST, layer) == (found.is_must[place], found.annotators[place])
        assert found.weights[place] == (1.0 if given.weights is None else given.weights[row])
    assert list_annotations([], SEED).n_pairs == 0


@pytest.mark.parametrize("covariance", COVARIANCES)
@pytest.mark.parametrize("model", MODELS)
def test_label_probabilities_are_softmax_of_the_objective(model: str, covariance: str) -> None:
    case = replace(draw_case(5, model=model, n_samples=14, m=12, min_size=3), covariance=covariance)
    labels = draw_labels(case, 2)
    found = label_probabilities(case.problem(), labels)
    for sample in range(14):
        source = int(labels[sample])
        if (labels == source).sum() <= 3:
            assert found[sample].tolist() == np.eye(3)[source].tolist()
            continue
        moved = np.tile(labels.astype(int), (3, 1))
        moved[:, sample] = range(3)
        values = np.array([objective(case, each) for each in moved])
        shares = np.exp(values - values.max())
        # the series of the posterior is exact near the threshold alone
        tolerance = 0.1 if model == "posterior" else 1e-6
        np.testing.assert_allclose(found[sample], shares / shares.sum(), atol=tolerance)


def test_a_fit_never_sees_what_is_held_out(monkeypatch: pytest.MonkeyPatch) -> None:
    layers = some_layers()
    annotations = list_annotations(layers, SEED)
    X = np.random.default_rng(0).normal(size=(30, 2))
    seen, real = [], module.build_problem

    def sets(*arrays: np.ndarray) -> set[tuple[int, ...]]:
        return {tuple(sorted(pair)) for array in arrays for pair in array.tolist()}

    def watched(X: np.ndarray, given: list[Layer], **options: object) -> Problem:
        seen.append(sets(*(layer.pairs for layer in given)))
        return real(X, given, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "build_problem", watched)
    options = {"n_clusters": 2, "model": "conditional", "covariance": "spherical", "settings": SETTINGS}
    held_out(X, layers, annotations, **options, seed=SEED)  # type: ignore[arg-type]
    whole = sets(*(layer.pairs for layer in layers))
    assert seen == [whole - sets(annotations.pairs[annotations.folds == fold]) for fold in range(FOLDS)]


def test_log_probabilities_are_those_of_the_answers() -> None:
    """Clusters so far apart that labels are certain: what is left is the accuracy."""
    X = np.repeat([0.0, 100.0], 20)[:, None] + np.random.default_rng(1).normal(size=(40, 1))
    rng = np.random.default_rng(2)
    pairs = rng.integers(0, 40, size=(100, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    together = (pairs[:, 0] < 20) == (pairs[:, 1] < 20)
    wrong = rng.random(len(pairs)) < 0.2
    kinds = np.where(together ^ wrong, MUST, CANNOT)
    for accuracy in (0.8, None):
        layers = [Layer(kind, pairs[kinds == kind], None, accuracy) for kind in (MUST, CANNOT)]
        given = {"n_clusters": 2, "model": "conditional", "covariance": "full", "settings": SETTINGS}
        found = held_out(X, layers, list_annotations(layers, SEED), **given, seed=SEED)  # type: ignore[arg-type]
        ordered = np.concatenate([wrong[kinds == kind] for kind in (MUST, CANNOT)])
        np.testing.assert_array_equal(found.right, ~ordered)
        if accuracy is not None:
            wanted = np.log(np.where(ordered, 0.2, 0.8))
            np.testing.assert_allclose(found.log_probabilities, wanted, atol=5e-3)
        assert found.share_right == pytest.approx(1 - wrong.mean())
        entropy = -(0.8 * np.log(0.8) + 0.2 * np.log(0.2))
        assert found.log_loss == pytest.approx(entropy, abs=0.1)


def test_gains_are_paired_and_weighted() -> None:
    weights = np.array([1.0, 2.0, 1.0])
    one = predicted([-1.0, -2.0, -3.0], True, weights)
    two = predicted([-2.0, -2.5, -3.0], False, weights)
    mean, error = one.gain_over(two)
    assert mean == pytest.approx(0.5)
    assert error == pytest.approx(np.sqrt(0.5**2 + 0 + 0.5**2) / 4)
    assert (one.share_right, two.share_right) == (1.0, 0.0)
    assert one.log_loss == pytest.approx(2.0)
