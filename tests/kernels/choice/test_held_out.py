"""Held-out annotations: nothing leaks, and probabilities are those of the objective."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from solving.oracles import draw_case, draw_labels, objective
from solving.tiny import COVARIANCES, MODELS

import kernels.choice.held_out as module
from kernels.choice.held_out import (
    FOLDS,
    HeldOut,
    held_out,
    label_probabilities,
    list_annotations,
)
from kernels.problem.problem import CANNOT, MUST, Layer, Problem, build_problem
from kernels.settings import settings_of

SEED = np.random.SeedSequence(3)
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


def test_every_annotation_is_in_one_fold_with_all_of_its_pair() -> None:
    layers = some_layers()
    found = list_annotations(layers, SEED)
    total = sum(int((layer.pairs[:, 0] != layer.pairs[:, 1]).sum()) for layer in layers)
    assert len(found.folds) == total
    different = {tuple(sorted(pair)) for pair in found.pairs.tolist()}
    assert found.n_pairs == len(different)
    for pair in different:
        same = [set(each) == set(pair) for each in found.pairs.tolist()]
        assert len(set(found.folds[same].tolist())) == 1
    of_pairs = {
        tuple(sorted(pair)): fold for pair, fold in zip(found.pairs.tolist(), found.folds, strict=True)
    }
    assert np.ptp(np.bincount(list(of_pairs.values()))) <= 1
    for pair, is_must, weight, layer, row in zip(
        found.pairs.tolist(), found.is_must, found.weights, found.layers, found.rows, strict=True
    ):
        given = layers[layer]
        assert given.pairs[row].tolist() == pair
        assert (given.kind == MUST) == is_must
        assert weight == (1.0 if given.weights is None else given.weights[row])
    assert list_annotations([], SEED).n_pairs == 0
    again = list_annotations(layers, SEED)
    np.testing.assert_array_equal(found.folds, again.folds)


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
        values = []
        for k in range(3):
            moved = labels.astype(int)
            moved[sample] = k
            values.append(objective(case, moved))
        shares = np.exp(np.array(values) - max(values))
        # the series of the posterior is exact near the threshold alone
        tolerance = 0.1 if model == "posterior" else 1e-6
        np.testing.assert_allclose(found[sample], shares / shares.sum(), atol=tolerance)


def test_a_fit_never_sees_what_is_held_out(monkeypatch: pytest.MonkeyPatch) -> None:
    layers = some_layers()
    annotations = list_annotations(layers, SEED)
    X = np.random.default_rng(0).normal(size=(30, 2))
    seen = []
    real = module.build_problem

    def watched(X: np.ndarray, given: list[Layer], **options: object) -> Problem:
        seen.append([{tuple(sorted(pair)) for pair in layer.pairs.tolist()} for layer in given])
        return real(X, given, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "build_problem", watched)
    options = {"n_clusters": 2, "model": "conditional", "covariance": "spherical", "settings": SETTINGS}
    first = held_out(X, layers, annotations, **options, seed=SEED)  # type: ignore[arg-type]
    second = held_out(X, layers, annotations, **options, seed=SEED)  # type: ignore[arg-type]
    np.testing.assert_array_equal(first.log_probabilities, second.log_probabilities)
    assert len(seen) == 2 * FOLDS
    for fold in range(FOLDS):
        tested = {tuple(sorted(pair)) for pair in annotations.pairs[annotations.folds == fold].tolist()}
        assert tested
        assert not tested & (seen[fold][0] | seen[fold][1])
    whole = {tuple(sorted(pair)) for layer in layers for pair in layer.pairs.tolist()}
    assert set().union(*(fold[0] | fold[1] for fold in seen)) == whole


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
        annotations = list_annotations(layers, SEED)
        found = held_out(
            X,
            layers,
            annotations,
            n_clusters=2,
            model="conditional",
            covariance="full",
            settings=SETTINGS,
            seed=SEED,
        )
        ordered = np.concatenate([wrong[kinds == kind] for kind in (MUST, CANNOT)])
        np.testing.assert_array_equal(found.right, ~ordered)
        if accuracy is not None:
            wanted = np.log(np.where(ordered, 0.2, 0.8))
            np.testing.assert_allclose(found.log_probabilities, wanted, atol=5e-3)
        assert found.share_right == pytest.approx(1 - wrong.mean())
        entropy = -(0.8 * np.log(0.8) + 0.2 * np.log(0.2))
        assert found.log_loss == pytest.approx(entropy, abs=0.1)


def test_unknown_accuracies_are_those_of_each_annotator_on_the_other_folds() -> None:
    X = np.repeat([0.0, 100.0], 20)[:, None] + np.random.default_rng(1).normal(size=(40, 1))
    rng = np.random.default_rng(4)
    layers, said = [], []
    for annotator, error in ((7, 0.05), (2, 0.4)):
        pairs = rng.permutation(40)[: 2 * 20].reshape(20, 2)
        together = (pairs[:, 0] < 20) == (pairs[:, 1] < 20)
        wrong = rng.random(20) < error
        for kind in (MUST, CANNOT):
            rows = np.flatnonzero((kind == MUST) == (together ^ wrong))
            weights = rng.integers(1, 4, len(rows)).astype(float)
            layers.append(Layer(kind, pairs[rows], weights, None, None, annotator))
            said += [(annotator, weight, not wrong[row]) for weight, row in zip(weights, rows, strict=True)]
    annotations = list_annotations(layers, SEED)
    options = {"n_clusters": 2, "model": "conditional", "covariance": "spherical", "settings": SETTINGS}
    found = held_out(X, layers, annotations, **options, seed=SEED)  # type: ignore[arg-type]
    for place, (annotator, _, is_right) in enumerate(said):
        fold = annotations.folds[place]
        others = [
            (weight, right)
            for (who, weight, right), its in zip(said, annotations.folds, strict=True)
            if who == annotator and its != fold
        ]
        total = sum(weight for weight, _ in others)
        accuracy = max((sum(weight for weight, right in others if right) + 1) / (total + 2), 0.5)
        told = accuracy if is_right else 1 - accuracy
        told += module.UNSURE * (1 - 2 * told)  # of a label that is as certain as any may be
        assert found.log_probabilities[place] == pytest.approx(np.log(told), abs=1e-6)


def test_gains_are_paired_and_weighted() -> None:
    weights = np.array([1.0, 2.0, 1.0])
    one = HeldOut(np.array([-1.0, -2.0, -3.0]), np.ones(3, bool), weights)
    two = HeldOut(np.array([-2.0, -2.5, -3.0]), np.zeros(3, bool), weights)
    mean, error = one.gain_over(two)
    assert mean == pytest.approx(0.5)
    assert error == pytest.approx(np.sqrt(0.5**2 + 0 + 0.5**2) / 4)
    assert (one.share_right, two.share_right) == (1.0, 0.0)
    assert one.log_loss == pytest.approx(2.0)
    with pytest.raises(ValueError, match="covariance is 'auto'"):
        build_problem(np.eye(4), n_clusters=2, model="unsupervised", covariance="auto")
