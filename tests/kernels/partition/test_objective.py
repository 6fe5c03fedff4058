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
)
from kernels.search.genetic import SearchSettings, run_restart


@pytest.mark.parametrize("covariance", ["spherical", "common"])
@pytest.mark.parametrize("weight", [0.25, "effective"])
def test_a_weight_of_the_features_is_a_factor_of_gmm(weight: float | str, covariance: str) -> None:
    case = replace(draw_case(3, n_clusters=4), covariance=covariance)
    labels = draw_labels(case, 3)
    weighted = replace(case, feature_weight=weight)
    found = objective_terms(weighted.problem(), labels)
    np.testing.assert_allclose(found, objective_parts(weighted, labels), rtol=1e-11, atol=1e-10)
    plain = objective_terms(case.problem(), labels)
    assert found[0] == pytest.approx(weighted.problem().data.feature_weight * plain[0], rel=1e-12)
    assert found[1:] == plain[1:]


def test_one_cluster_and_empty_layers() -> None:
    case = draw_case(0, n_clusters=1)
    labels = np.zeros(24, dtype=np.int64)
    np.testing.assert_allclose(objective_terms(case.problem(), labels), objective_parts(case, labels))
    empty = Layer(MUST, np.empty((0, 2), dtype=np.int64), None, 0.9)
    bare = Case(case.X, [empty], 2, "posterior")
    gmm, sbm, prior = objective_terms(bare.problem(), np.arange(24) % 2)
    assert (sbm, prior) == (0.0, 0.0)
    assert gmm == pytest.approx(objective_parts(bare, np.arange(24) % 2)[0])


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
    found = run_restart(problem, settings, np.random.default_rng(0)).objective
    assert found >= value - 1e-3


GOOD = np.arange(12.0).reshape(6, 2)


@pytest.mark.parametrize("labels", [[0, 1], [0, 1, 2, 0, 1, 0], [0.0] * 6])
def test_labels_are_checked(labels: list[float]) -> None:
    with pytest.raises(ValueError, match="labels"):
        objective_terms(build_problem(GOOD, n_clusters=2, model="unsupervised"), labels)
