"""What is believed, against all partitions one by one."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from beliefs import made_up
from solving.oracles import draw_case, objective, partitions

from kernels.problem.problem import Layer, layers_from_annotations
from kernels.settings import Settings
from pipeline.asking import belief as beliefs
from pipeline.asking.belief import LEAST, MEAN, MOST, believe, expected_share
from pipeline.asking.strategies import all_pairs

SEED = np.random.SeedSequence(5)
CLASSES = np.repeat([0, 1], 20)
X = np.random.default_rng(0).normal(size=(40, 2)) + 6.0 * CLASSES[:, None]


def test_shares_are_those_of_all_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beliefs, "DRAWS", 4000)
    sizes: Any = {"n_samples": 8, "n_features": 2, "n_clusters": 2, "m": 8}
    case = draw_case(1, model="conditional", accuracies=(0.8, 0.8), **sizes)
    case = replace(case, kappa=1.0, feature_weight=0.5)
    settings = Settings(variance_prior=1.0, feature_weight=0.5)
    how: Any = {"covariance": "spherical", "settings": settings}
    found = believe(case.X, case.layers, n_clusters=2, accuracy=0.8, seed=SEED, **how)
    every = np.array(list(partitions(8, 2, case.min_size)))
    weights = np.exp([objective(case, labels) for labels in every])
    pairs = all_pairs(8)
    exact = np.average(every[:, pairs[:, 0]] == every[:, pairs[:, 1]], axis=0, weights=weights)
    np.testing.assert_allclose(found.together(pairs), exact, atol=0.03)
    np.testing.assert_allclose(found.membership.sum(axis=1), 1.0)


def test_the_seed_is_all_that_counts_and_the_first_restart_has_the_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    starts, run = [], beliefs.run_restart

    def noted(problem, settings, rng, start=None):  # type: ignore[no-untyped-def]
        starts.append(start)
        return run(problem, settings, rng, start)

    monkeypatch.setattr(beliefs, "run_restart", noted)
    layers = layers_from_annotations(np.array([[0, 1, 0], [0, 30, 1]]), 0.9)
    seeds, start = (SEED, SEED, np.random.SeedSequence(6)), CLASSES.astype(np.int16)
    draws = [
        believe(
            X - 4.5 * CLASSES[:, None], layers, n_clusters=2, accuracy=0.9, seed=seed, restarts=2, start=start
        ).draws
        for seed in seeds
    ]
    np.testing.assert_array_equal(draws[0], draws[1])
    assert not np.array_equal(draws[0], draws[2])
    assert SEED.n_children_spawned == 0
    assert [each is start for each in starts] == [True, False] * 3


def test_an_unknown_accuracy_is_the_share_of_answers_that_agree() -> None:
    rng = np.random.default_rng(1)
    pairs, wrong = rng.integers(0, 40, size=(200, 2)), rng.random(200) < 0.3
    kinds = (CLASSES[pairs[:, 0]] != CLASSES[pairs[:, 1]]) ^ wrong
    layers = layers_from_annotations(np.column_stack([pairs, kinds]), None)
    for given, accuracy in ((layers, (9.0 + (~wrong).sum()) / 210.0), ([], 0.9)):
        found = believe(X, given, n_clusters=2, accuracy=None, seed=SEED, covariance="spherical")
        assert found.accuracy == pytest.approx(accuracy)


def test_a_shape_is_chosen_from_some_rows_of_many(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    choice = beliefs.held_out.choose_covariance

    def noted(X: np.ndarray, layers: list[Layer], **more: Any) -> Any:
        seen[:] = X, layers
        return choice(X, layers, **more)

    monkeypatch.setattr(beliefs.held_out, "choose_covariance", noted)
    monkeypatch.setattr(beliefs, "MOST_ROWS", 30)
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(100, 2)), rng.normal(size=(100, 2)) + 5.0])
    pairs = rng.integers(0, 200, size=(300, 2))
    kinds = (pairs[:, 0] < 100) != (pairs[:, 1] < 100)
    layers = layers_from_annotations(np.column_stack([pairs, kinds]), 0.9)
    layers = [replace(layer, weights=np.arange(1.0, len(layer.pairs) + 1)) for layer in layers]
    believe(X, layers, n_clusters=2, accuracy=0.9, seed=SEED)

    def told(X: np.ndarray, layers: list[Layer]) -> set[object]:
        each = ((layer, *of) for layer in layers for of in zip(layer.pairs, layer.weights, strict=True))  # type: ignore[arg-type]
        return {(tuple(X[i]), tuple(X[j]), weight, layer.kind) for layer, (i, j), weight in each}

    assert seen[0].shape == (30, 2)
    assert all(len(layer.pairs) for layer in seen[1])
    assert told(*seen) < told(X, layers)


def test_share_of_right_labels_by_hand() -> None:
    # 9 of 10 draws agree everywhere, one differs in 5 of 10 labels: 0.05 of the labels claimed wrong
    draws = np.zeros((10, 10), dtype=int)
    draws[:, 0] = 1
    draws[9, 5:] = 1
    found = expected_share(made_up(draws))
    wrong = (10 * 0.05 + 0.5) / 11
    mean, low, high = (
        1 - (11 * odds / (1 + odds) - 0.5) / 10
        for intercept, slope in (MEAN, LEAST, MOST)
        for odds in [math.exp(intercept) * (wrong / (1 - wrong)) ** slope]
    )
    assert found == (pytest.approx(mean), math.floor(10 * low) / 10, math.ceil(10 * high) / 10)
    assert found.low < found.mean < found.high
