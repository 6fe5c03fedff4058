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
from sweeps.errors import given

SEED = np.random.SeedSequence(5)


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


def blobs() -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.normal(size=(40, 2)) + np.repeat([[0.0, 0.0], [3.0, 3.0]], 20, axis=0)


def test_the_seed_is_all_that_counts_and_is_not_changed() -> None:
    layers = layers_from_annotations(np.array([[0, 1, 0], [0, 30, 1]]), 0.9)
    seeds = (SEED, SEED, np.random.SeedSequence(6))
    draws = [believe(blobs(), layers, n_clusters=2, accuracy=0.9, seed=seed).draws for seed in seeds]
    np.testing.assert_array_equal(draws[0], draws[1])
    assert not np.array_equal(draws[0], draws[2])
    assert SEED.n_children_spawned == 0


def test_an_unknown_accuracy_is_the_share_of_answers_that_agree() -> None:
    rng = np.random.default_rng(1)
    truth = np.repeat([0, 1], 20)
    pairs = rng.integers(0, 40, size=(200, 2))
    wrong = rng.random(200) < 0.3
    kinds = (truth[pairs[:, 0]] != truth[pairs[:, 1]]) ^ wrong
    layers = layers_from_annotations(np.column_stack([pairs, kinds]), None)
    X = np.random.default_rng(0).normal(size=(40, 2)) + 6.0 * truth[:, None]
    found = believe(X, layers, n_clusters=2, accuracy=None, seed=SEED, covariance="spherical")
    expected = (9.0 + (~wrong).sum()) / 210.0
    assert found.accuracy == pytest.approx(expected)
    assert believe(X, [], n_clusters=2, accuracy=None, seed=SEED).accuracy == 0.9


def test_a_start_is_where_the_first_restart_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    starts = []
    run = beliefs.run_restart

    def noted(problem, settings, rng, start=None):  # type: ignore[no-untyped-def]
        starts.append(start)
        return run(problem, settings, rng, start)

    monkeypatch.setattr(beliefs, "run_restart", noted)
    known = np.repeat([0, 1], 20).astype(np.int16)
    believe(blobs(), [], n_clusters=2, accuracy=0.9, seed=SEED, start=known, restarts=2)
    assert starts[0] is known
    assert starts[1] is None


def test_a_shape_is_chosen_from_some_rows_of_many(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    def noted(X: np.ndarray, layers: list[Layer], **more: Any) -> Any:
        seen[:] = X, layers
        return choice(X, layers, **more)

    choice = beliefs.held_out.choose_covariance
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
        each = (
            (layer, *of) for layer in layers for of in zip(layer.pairs, given(layer.weights), strict=True)
        )
        return {(tuple(X[i]), tuple(X[j]), weight, layer.kind) for layer, (i, j), weight in each}

    assert seen[0].shape == (30, 2)
    assert all(len(layer.pairs) for layer in seen[1])
    assert told(*seen) < told(X, layers)


# Shares of right labels.


def test_a_hand_case() -> None:
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
    assert found.mean == pytest.approx(mean)
    assert found.low == math.floor(10 * low) / 10
    assert found.high == math.ceil(10 * high) / 10
    assert found.low < found.mean < found.high
