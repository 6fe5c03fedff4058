"""Fitting one data set: the best of some restarts, its scores, its JSON."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from solving.blobs import far_clusters
from solving.tiny import COVARIANCES, MODELS

import pipeline.fit.solve as module
from kernels.partition.objective import objective_terms
from kernels.problem.problem import CANNOT, MUST, Layer, build_problem
from kernels.scores import annotation_agreement, nmi
from kernels.settings import AUTO, Settings
from pipeline.fit.solve import FitResult, fit, to_json, weighted_agreement

KEYS = [
    "model",
    "covariance",
    "feature_weight",
    "method",
    "settings",
    "objective",
    "gmm",
    "sbm",
    "prior",
    "labels",
    "sizes",
    "centroids",
    "covariances",
    "restart_objectives",
    "best_restart",
    "local_searches",
    "evaluations",
    "seconds",
    "cpu_seconds",
    "scores",
    "held_out",
    "notes",
]
SCORES = ["nmi", "goldberger_kl", "centroid_index", "annotation_agreement"]
TINY = Settings(population=3, offspring=3, generations=2)


@pytest.fixture(scope="module")
def blobs() -> tuple[np.ndarray, np.ndarray]:
    return far_clusters()


def solve(X: np.ndarray, *layers: Layer, **changes: object) -> FitResult:
    settings = {
        "n_clusters": 3,
        "model": "unsupervised",
        "restarts": 2,
        "settings": TINY,
        "seed": 1,
    } | changes
    return fit(X, layers, **settings)  # type: ignore[arg-type]


def test_far_clusters_are_found(blobs: tuple[np.ndarray, np.ndarray]) -> None:
    X, labels = blobs
    result = solve(X, labels_true=labels)
    assert nmi(labels, result.best.labels) == pytest.approx(1)
    assert result.scores.nmi == pytest.approx(1)
    assert result.scores.goldberger_kl == pytest.approx(0, abs=1e-9)
    assert result.scores.centroid_index == 0
    assert result.scores.annotation_agreement is None
    assert sorted(result.best.sizes.tolist()) == [10, 10, 10]
    for cluster in range(3):
        members = X[result.best.labels == cluster]
        np.testing.assert_allclose(result.best.centroids[cluster], members.mean(axis=0))
        np.testing.assert_allclose(result.best.covariances[cluster], members.var(axis=0).mean())


@pytest.mark.parametrize("covariance", COVARIANCES)
@pytest.mark.parametrize("model", MODELS)
def test_objective_is_that_of_the_labels(
    model: str, covariance: str, blobs: tuple[np.ndarray, np.ndarray]
) -> None:
    X, _ = blobs
    layers = [
        Layer(MUST, np.array([[0, 1], [4, 4]]), np.array([1.0, 2.0]), 0.8),
        Layer(CANNOT, np.array([[0, 15]]), None, 0.8),
    ]
    result = solve(X, *layers, model=model, covariance=covariance)
    problem = build_problem(X, layers, n_clusters=3, model=model, covariance=covariance)
    terms = objective_terms(problem, result.best.labels)
    assert (result.best.gmm, result.best.sbm, result.best.prior) == terms
    assert result.best.objective == sum(terms)
    assert result.best.objective == max(result.restart_objectives)
    assert (result.best.sbm != 0) == (model != "unsupervised")
    assert (result.best.prior != 0) == (model == "posterior")
    assert (result.model, result.covariance) == (model, covariance)
    assert (len(np.unique(result.best.covariances, axis=0)) == 1) == (covariance in ("common", "tied"))
    shapes = {"diagonal": (3, 2), "tied": (2, 2), "full": (3, 2, 2)}
    assert result.covariances.shape == shapes.get(covariance, (3,))


def test_same_seed_same_bits_and_more_restarts_only_add(blobs: tuple[np.ndarray, np.ndarray]) -> None:
    X = np.random.default_rng(0).normal(size=(40, 3))
    first, again = solve(X, restarts=2), solve(X, restarts=2)
    more, other = solve(X, restarts=5), solve(X, restarts=2, seed=2)
    assert first.best.labels.tobytes() == again.best.labels.tobytes()
    assert first.restart_objectives.tobytes() == again.restart_objectives.tobytes()
    assert more.restart_objectives[:2].tobytes() == first.restart_objectives.tobytes()
    assert len(set(more.restart_objectives)) > 1
    assert other.best.labels.tobytes() != first.best.labels.tobytes()


def test_restart_draws_from_its_own_seed_sequence() -> None:
    X = np.random.default_rng(0).normal(size=(40, 3))
    from kernels.search.genetic import run_restart

    problem = build_problem(X, n_clusters=3, model="unsupervised")
    streams = [np.random.default_rng(np.random.SeedSequence(9, spawn_key=(r,))) for r in range(3)]
    expected = [run_restart(problem, TINY, stream) for stream in streams]
    result = solve(X, restarts=3, seed=9)
    assert result.restart_objectives.tolist() == [restart.objective for restart in expected]
    assert result.local_searches == sum(restart.local_searches for restart in expected)
    assert result.evaluations == sum(restart.evaluations for restart in expected)
    assert result.best_restart == int(np.argmax(result.restart_objectives))


def test_lowest_restart_wins_ties(
    blobs: tuple[np.ndarray, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    alike = solve(blobs[0], restarts=1).best
    objectives = iter([1.0, 3.0, 3.0, 2.0])
    monkeypatch.setattr(
        "pipeline.fit.solve.run_restart", lambda *_: alike._replace(objective=next(objectives))
    )
    assert solve(blobs[0], restarts=4).best_restart == 1


def test_bad_input_is_answered_before_anything_is_compiled(
    blobs: tuple[np.ndarray, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    def compiled() -> None:
        raise AssertionError("compiled")

    for name in ("warm_up", "warm_up_predictions"):
        monkeypatch.setattr(module, name, compiled)
    for covariance in (*COVARIANCES, AUTO):
        with pytest.raises(ValueError, match="not finite"):
            solve(np.where(blobs[0] == blobs[0][0], np.nan, blobs[0]), covariance=covariance)
    with pytest.raises(AssertionError, match="compiled"):
        solve(blobs[0])


def test_predictions_are_compiled_only_where_there_are_annotations(
    blobs: tuple[np.ndarray, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled: list[str] = []
    monkeypatch.setattr(module, "warm_up_predictions", lambda: compiled.append("predictions"))
    X, labels = blobs
    rng = np.random.default_rng(0)
    pairs = rng.integers(0, len(X), size=(80, 2))
    must = Layer(MUST, pairs[labels[pairs[:, 0]] == labels[pairs[:, 1]]])
    assert solve(X, must, covariance=AUTO).held_out == {}
    assert solve(X, covariance=AUTO, model="conditional").held_out == {}
    assert solve(X, must, model="conditional").held_out == {}
    assert compiled == []
    one = solve(X, must, model="conditional", predict_annotations=True)
    assert compiled == ["predictions"]
    assert list(one.predictions) == ["spherical"]
    assert one.predictions["spherical"]["log_loss"] == one.held_out["spherical"].log_loss
    every = solve(X, must, model="conditional", covariance=AUTO)
    assert to_json(every)["held_out"] == every.predictions
    assert list(every.predictions) == ["spherical", "diagonal", "tied", "full"]


def test_too_few_annotations_are_noted_only_if_the_shape_was_to_be_chosen(
    blobs: tuple[np.ndarray, np.ndarray],
) -> None:
    few = Layer(MUST, np.array([[0, 1], [2, 3]]))
    asked = {"model": "conditional", "predict_annotations": True}
    assert any("too few" in note for note in solve(blobs[0], few, covariance=AUTO, **asked).notes)
    assert not any("too few" in note for note in solve(blobs[0], few, **asked).notes)


def test_json_is_strict_and_counts_from_zero(blobs: tuple[np.ndarray, np.ndarray]) -> None:
    X, labels = blobs
    result = solve(X, Layer(MUST, np.array([[0, 1]])), labels_true=labels, model="likelihood")
    document = json.loads(json.dumps(to_json(result), allow_nan=False))
    assert list(document) == KEYS
    assert list(document["scores"]) == SCORES
    assert set(document["labels"]) == {0, 1, 2}
    assert np.shape(document["centroids"]) == (3, 2)
    assert document["objective"] == document["gmm"] + document["sbm"] + document["prior"]
    assert document["scores"]["annotation_agreement"] == 1


def test_confidence_is_there_if_asked_for(blobs: tuple[np.ndarray, np.ndarray]) -> None:
    X = np.random.default_rng(0).normal(size=(40, 3))
    plain, sure = solve(X), solve(X, confidence=True)
    assert plain.confidence is None
    assert sure.best.labels.tobytes() == plain.best.labels.tobytes()
    assert sure.confidence is not None
    assert sure.confidence.labels is sure.best.labels
    document = json.loads(json.dumps(to_json(sure), allow_nan=False))
    added = ["membership", "confidence", "expected_accuracy", "r_hat", "chain_agreement"]
    assert list(document) == [*KEYS, *added]
    assert document["membership"] == sure.confidence.membership.tolist()
    assert document["notes"] == [*to_json(plain)["notes"], *sure.confidence.notes()]


def test_scores_that_are_not_defined_are_null() -> None:
    X = np.concatenate([np.zeros((5, 2)), np.random.default_rng(0).normal(9, 1, size=(10, 2))])
    labels = np.repeat([0, 1], [5, 10])
    result = solve(X, n_clusters=2, labels_true=labels)
    assert 0.0 in result.best.covariances
    assert result.scores.goldberger_kl is None
    assert result.scores.nmi == pytest.approx(1)
    assert solve(X, n_clusters=2).scores == type(result.scores)(None, None, None, None)


def test_agreement_counts_annotations_as_the_kernels_do() -> None:
    rng = np.random.default_rng(4)
    labels = rng.integers(3, size=20).astype(np.int16)
    must, cannot = rng.integers(20, size=(15, 2)), rng.integers(20, size=(25, 2))
    must[0] = cannot[0] = 7
    table = np.concatenate(
        [np.column_stack([must, np.full(15, MUST)]), np.column_stack([cannot, np.full(25, CANNOT)])]
    )
    layers = [Layer(MUST, must), Layer(CANNOT, cannot, np.ones(25))]
    assert weighted_agreement(layers, labels) == pytest.approx(annotation_agreement(table, labels))
    weights = rng.integers(1, 4, size=15)
    repeated = [Layer(MUST, np.repeat(must, weights, axis=0)), Layer(CANNOT, cannot)]
    weighted = [Layer(MUST, must, weights.astype(float)), Layer(CANNOT, cannot)]
    assert weighted_agreement(weighted, labels) == pytest.approx(weighted_agreement(repeated, labels))
    assert math.isnan(weighted_agreement([Layer(MUST, must[:0])], labels))
