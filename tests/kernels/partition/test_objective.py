"""The objective from scratch: oracle, published numbers, invariances, refusals."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from solving.oracles import Case, draw_case, draw_labels, objective_parts

from kernels.partition.objective import objective_terms
from kernels.problem.problem import (
    CANNOT,
    MUST,
    Layer,
    Problem,
    build_problem,
    inferred_accuracies,
    layers_from_annotations,
)
from kernels.search.hgs import SearchSettings, run_restart


@pytest.mark.parametrize("variance", ["free", "common"])
@pytest.mark.parametrize("model", ["unsupervised", "likelihood", "posterior", "conditional"])
@pytest.mark.parametrize("kappa", [0.0, 1.5])
def test_agrees_with_oracle(model: str, kappa: float, variance: str) -> None:
    for seed in range(5):
        case = replace(draw_case(seed, model=model, kappa=kappa, n_clusters=4), variance=variance)
        labels = draw_labels(case, seed)
        found = objective_terms(case.problem(), labels)
        np.testing.assert_allclose(found, objective_parts(case, labels), rtol=1e-11, atol=1e-10)


def test_one_cluster_and_empty_layers() -> None:
    case = draw_case(0, n_clusters=1)
    labels = np.zeros(24, dtype=np.int64)
    np.testing.assert_allclose(objective_terms(case.problem(), labels), objective_parts(case, labels))
    empty = Layer(MUST, np.empty((0, 2), dtype=np.int64), None, 0.9)
    bare = Case(case.X, [empty], 2, "posterior")
    gmm, sbm, prior = objective_terms(bare.problem(), np.arange(24) % 2)
    assert (sbm, prior) == (0.0, 0.0)
    assert gmm == pytest.approx(objective_parts(bare, np.arange(24) % 2)[0])


def test_units_shift_gmm_only() -> None:
    case = draw_case(1)
    labels = draw_labels(case, 1)
    scaled = Case(case.X * 1024.0, case.layers, 3, "posterior")
    before, after = objective_terms(case.problem(), labels), objective_terms(scaled.problem(), labels)
    assert after[1:] == before[1:]
    assert after[0] - before[0] == pytest.approx(-case.X.size * np.log(1024.0))


def test_self_pair_counts_one_annotation() -> None:
    X = np.array([[0.0], [1.0], [5.0], [7.0]])
    problem = build_problem(X, [Layer(MUST, np.array([[0, 0], [2, 3]]))], n_clusters=2, model="likelihood")
    # m_00 = m_11 = 2 over 4 ordered pairs each: rates ½; ½ Σ (2 log ½) - 2.
    assert objective_terms(problem, [0, 0, 1, 1])[1] == pytest.approx(2 * np.log(0.5) - 2)


def test_degenerate_cluster_adds_nothing() -> None:
    X = np.array([[0.0], [0.0], [0.0], [1.0], [2.0], [4.0]])
    problem = build_problem(X, n_clusters=2, model="unsupervised")
    variance = np.var([1.0, 2.0, 4.0])
    assert objective_terms(problem, [0, 0, 0, 1, 1, 1])[0] == pytest.approx(-1.5 * (1 + np.log(variance)))


def read_layer(path: Path, kind: int, accuracy: float) -> Layer:
    table = np.loadtxt(path, dtype=np.int64)
    own = table[:, 0] == table[:, 1]
    weights = np.where(own, table[:, 2] / 2.0, table[:, 2])
    return Layer(kind, table[:, :2] - 1, weights, accuracy)


def vertebral(folder: Path, model: str) -> tuple[Problem, np.ndarray]:
    folder = folder / "reference-vertebral"
    layers = [
        read_layer(folder / "vertebral-must.link", MUST, 0.9),
        read_layer(folder / "vertebral-cannot.link", CANNOT, 0.9),
    ]
    X = np.loadtxt(folder / "vertebral.data")
    labels = np.loadtxt(folder / "vertebral.label", dtype=np.int64) - 1
    return build_problem(X, layers, n_clusters=3, model=model), labels


@pytest.mark.parametrize(("model", "value"), [("likelihood", -7664.0184), ("posterior", -7595.3676)])
def test_published_instance(shared_data: Path, model: str, value: float) -> None:
    problem, labels = vertebral(shared_data, model)
    assert sum(objective_terms(problem, labels)) == pytest.approx(value, abs=1e-4)


@pytest.mark.parametrize(
    ("model", "value"),
    [("likelihood", -7429.1792), ("posterior", -7373.1052), ("unsupervised", -5437.2074)],
)
def test_best_known_of_published_instance(shared_data: Path, model: str, value: float) -> None:
    problem, _ = vertebral(shared_data, model)
    settings = SearchSettings(10, 10, 50)
    found = max(run_restart(problem, settings, np.random.default_rng(seed)).objective for seed in range(3))
    assert found >= value - 1e-3


HAND = np.array([[0.0], [1.0], [5.0], [7.0]])
HAND_LABELS = [0, 0, 1, 1]


def ann(layers: list[Layer]) -> float:
    problem = build_problem(HAND, layers, n_clusters=2, model="conditional")
    return objective_terms(problem, HAND_LABELS)[1]


def test_conditional_by_hand() -> None:
    right, wrong = np.array([[0, 1], [3, 2]]), np.array([[0, 2], [1, 1]])
    assert ann([Layer(MUST, right, None, 0.8)]) == pytest.approx(2 * np.log(0.8))
    assert ann([Layer(MUST, wrong, None, 0.8)]) == pytest.approx(np.log(0.2))
    assert ann([Layer(CANNOT, wrong, np.array([3.0, 9.0]), 0.8)]) == pytest.approx(3 * np.log(0.8))
    three = [Layer(MUST, right), Layer(MUST, wrong)]
    assert ann(three) == pytest.approx(2 * np.log(2 / 3) + np.log(1 / 3))
    apart = [three[0], Layer(MUST, wrong, annotator=4)]
    # Alone, right beyond 1 - 1e-6 and wrong below one half are both held.
    assert ann(apart) == pytest.approx(2 * np.log(1 - 1e-6) + np.log(0.5))
    each = Layer(MUST, right, None, 0.9, np.array([0.0, np.nan]))
    assert ann([each]) == pytest.approx(np.log(1e-6) + np.log(0.9))
    assert ann([Layer(MUST, np.array([[1, 1]]))]) == 0.0


def test_conditional_does_not_see_who_was_drawn() -> None:
    """Pairs right at accuracy one half say nothing, however often a sample has them."""
    often = np.array([[0, 1]] * 50 + [[0, 2]] * 50)
    assert ann([Layer(MUST, often, None, 0.5)]) == pytest.approx(100 * np.log(0.5))


def test_inferred_accuracies() -> None:
    layers = [
        Layer(MUST, np.array([[0, 1], [0, 2], [3, 3]]), np.array([2.0, 1.0, 5.0]), annotator=2),
        Layer(CANNOT, np.array([[0, 3], [0, 1]]), np.array([1.0, 4.0]), annotator=2),
        Layer(CANNOT, np.array([[1, 1]]), annotator=1),
        Layer(CANNOT, np.empty((0, 2), dtype=np.int64), annotator=5),
    ]
    found = inferred_accuracies(layers, HAND_LABELS)
    assert list(found) == [1, 2, 5]
    assert found[2] == pytest.approx(3 / 8)
    assert np.isnan([found[1], found[5]]).all()


def test_common_variance_by_hand() -> None:
    problem = build_problem(HAND, n_clusters=2, model="unsupervised", variance="common")
    assert problem.variance == "common"
    gmm = objective_terms(problem, HAND_LABELS)[0]
    assert gmm == pytest.approx(-2.0 * (1.0 + np.log((0.5 + 2.0) / 4)))


def test_layers_from_annotations() -> None:
    table = np.array([[0, 1, 0], [2, 2, 0], [3, 1, 1]], dtype=np.int32)
    must, cannot = layers_from_annotations(table, 0.8)
    assert (must.kind, cannot.kind, must.accuracy) == (MUST, CANNOT, 0.8)
    assert must.pairs.tolist() == [[0, 1], [2, 2]]
    assert cannot.pairs.tolist() == [[3, 1]]


GOOD = np.arange(12.0).reshape(6, 2)
PAIR = np.array([[0, 1]])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"X": np.ones((6, 2))}, "rows of X are equal"),
        ({"X": np.array([[0.0], [np.nan], [1.0], [2.0]])}, "not finite, the first in row 1, column 0"),
        ({"X": np.arange(3.0)}, r"shape \(3,\)"),
        ({"n_clusters": 4}, "6 samples are fewer"),
        ({"X": np.repeat([[0.0], [1.0]], 5, axis=0), "n_clusters": 3}, "only 2 distinct rows"),
        ({"n_clusters": 0}, "n_clusters is 0"),
        ({"model": "common"}, "model is 'common'"),
        ({"variance": "shared"}, "variance is 'shared'"),
        ({"min_cluster_size": 0}, "min_cluster_size is 0"),
        ({"variance_prior": -1.0}, "variance_prior is -1"),
        ({"layers": [Layer(MUST, np.array([[0, 6]]), None, 0.9)]}, "go from 0 to 6"),
        ({"layers": [Layer(MUST, PAIR, np.array([0.0]), 0.9)]}, "above 0"),
        ({"layers": [Layer(MUST, PAIR, np.ones(2), 0.9)]}, r"weights have shape \(2,\)"),
        ({"layers": [Layer(2, PAIR, None, 0.9)]}, "kind is 2"),
        ({"layers": [Layer(MUST, PAIR * 1.0, None, 0.9)]}, "pairs are float64"),
        ({"layers": [Layer(MUST, PAIR)]}, "accuracy is None"),
        ({"layers": [Layer(MUST, PAIR, None, 1.1)]}, "accuracy is 1.1"),
        ({"layers": [Layer(CANNOT, PAIR, None, 0.0)]}, "accuracy is 0.0"),
        ({"layers": [Layer(MUST, PAIR, None, 1.1)], "model": "conditional"}, "accuracy is 1.1"),
        ({"layers": [Layer(MUST, PAIR, accuracies=np.ones(2))], "model": "conditional"}, r"shape \(2,\)"),
        (
            {"layers": [Layer(MUST, PAIR, accuracies=np.array([-0.1]))], "model": "conditional"},
            r"in \[0, 1\]",
        ),
    ],
)
def test_refusals(change: dict[str, object], words: str) -> None:
    given = {"X": GOOD, "layers": (), "n_clusters": 2, "model": "posterior"} | change
    with pytest.raises(ValueError, match=words):
        build_problem(**given)  # type: ignore[arg-type]


@pytest.mark.parametrize("labels", [[0, 1], [0, 1, 2, 0, 1, 0], [0.0] * 6])
def test_labels_are_checked(labels: list[float]) -> None:
    with pytest.raises(ValueError, match="labels"):
        objective_terms(build_problem(GOOD, n_clusters=2, model="unsupervised"), labels)


def test_input_is_left_alone() -> None:
    X = np.asfortranarray(GOOD + 5)
    X.flags.writeable = False
    problem = build_problem(X, n_clusters=2, model="unsupervised")
    np.testing.assert_allclose(problem.data.X.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(problem.means, X.mean(axis=0))
