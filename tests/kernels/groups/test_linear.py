"""Classes that linear functions tell apart, against a slow likelihood and a general minimiser."""

import numpy as np
import pytest
from numpy.random import SeedSequence
from numpy.typing import NDArray
from scipy.optimize import minimize

from sweep_clustering.kernels.groups.fit import answers_of
from sweep_clustering.kernels.groups.linear import STIFFNESS, Functions, discriminant, linear_classes
from sweep_clustering.kernels.groups.metric import Answers
from sweep_clustering.kernels.problem.data import CANNOT, MUST, Layer, link
from sweep_clustering.kernels.scores import adjusted_rand
from sweep_clustering.kernels.structure import AVERAGE, LINEAR, METRIC, NONE, Structure
from sweep_clustering.kernels.unions.table import Table
from sweep_clustering.sweeps.shapes import from_rows, to_rows

Floats = NDArray[np.float64]


def drawn(labels: NDArray[np.int64], count: int, accuracy: float) -> list[Layer]:
    rng = np.random.default_rng(1)
    pairs = rng.integers(len(labels), size=(count, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    must = (labels[pairs[:, 0]] == labels[pairs[:, 1]]) == (rng.random(len(pairs)) < accuracy)
    return [Layer(MUST, pairs[must], accuracy=accuracy), Layer(CANNOT, pairs[~must], accuracy=accuracy)]


@pytest.fixture(scope="module")
def hidden() -> tuple[Floats, NDArray[np.int64]]:
    """Three classes along two of thirty directions, all others with more variance."""
    rng = np.random.default_rng(0)
    labels = np.arange(600) % 3
    X = 3.0 * rng.normal(size=(600, 30))
    X[:, :2] = np.array([[0.0, 2.0], [-2.0, -1.0], [2.0, -1.0]])[labels] + 0.5 * rng.normal(size=(600, 2))
    return X @ np.linalg.qr(rng.normal(size=(30, 30)))[0], labels


def loss_by_pair(x: Floats, rows: Floats, answers: Answers, start: Floats) -> float:
    total = STIFFNESS * float(np.square(x - start.ravel()).sum())
    logs = rows @ x.reshape(start.shape)
    for (i, j), sign, weight, accuracy in zip(*answers, strict=True):
        first, second = (np.exp(logs[row]) / np.exp(logs[row]).sum() for row in (i, j))
        together = float(first @ second)
        agreeing = together if sign > 0.0 else 1.0 - together
        total -= weight * np.log(accuracy * agreeing + (1.0 - accuracy) * (1.0 - agreeing))
    return total


def test_functions_have_the_least_loss_nearby() -> None:
    rng = np.random.default_rng(2)
    Z, labels = rng.normal(size=(25, 2)), rng.integers(3, size=25)
    Z -= Z.mean(axis=0)
    pairs = np.stack([np.arange(25), (np.arange(25) + 3) % 25], axis=1)
    weights, accuracies = rng.integers(1, 3, size=25).astype(float), rng.uniform(0.6, 0.95, size=25)
    answers = Answers(pairs, rng.choice([-1.0, 1.0], size=25), weights, accuracies)
    functions = linear_classes(Z, labels, answers, 3)
    unit = np.sqrt(Z.var(axis=0).sum())
    rows = np.column_stack([Z / unit, np.ones(25)])
    first = discriminant(Z / unit, labels, 3)
    start = np.vstack([first.slopes, first.intercepts])
    best = minimize(loss_by_pair, start.ravel(), args=(rows, answers, start), tol=1e-6)
    x = np.vstack([functions.slopes * unit, functions.intercepts]).ravel()
    assert loss_by_pair(x, rows, answers, start) == pytest.approx(best.fun, abs=1e-3)
    assert functions.deviation == pytest.approx(-STIFFNESS * np.square(x - start.ravel()).sum())


def test_a_partition_without_answers_is_kept(hidden: tuple[Floats, NDArray[np.int64]]) -> None:
    X, labels = hidden
    nothing = Answers(np.empty((0, 2), np.int64), *np.empty((3, 0)))
    functions = linear_classes(X - X.mean(axis=0), labels, nothing, 3)
    assert functions.deviation == 0.0
    assert adjusted_rand(labels, functions.of(X - X.mean(axis=0)).argmax(axis=1)) > 0.9


def test_a_class_without_rows_takes_none() -> None:
    Z = np.random.default_rng(3).normal(size=(40, 2))
    labels = np.where(Z[:, 0] > 0.0, 2, 0)
    assert 1 not in discriminant(Z, labels, 3).of(Z).argmax(axis=1)


def test_equal_rows_are_no_obstacle() -> None:
    Z, answers = np.zeros((9, 2)), answers_of(link(drawn(np.arange(9) % 3, 20, 0.9), 9))
    assert np.isfinite(linear_classes(Z, np.arange(9) % 3, answers, 3).of(Z)).all()


def test_directions_are_found_that_distances_hide(hidden: tuple[Floats, NDArray[np.int64]]) -> None:
    X, labels = hidden
    layers, first = drawn(labels, 1200, 0.9), Structure(NONE, 1, AVERAGE)
    structure = Structure(NONE, 1, LINEAR, first=first)
    table = Table(X, 3, SeedSequence(0))
    merged = table.solve(first, layers, np.random.default_rng(0))
    fit = table.solve(structure, layers, np.random.default_rng(0))
    assert adjusted_rand(labels, merged.labels) < 0.6
    assert adjusted_rand(labels, fit.labels) > 0.9
    assert fit.structure == structure
    assert fit.classes.sum(axis=1) == pytest.approx(1.0)


def test_gaussians_have_the_shares_of_the_functions(hidden: tuple[Floats, NDArray[np.int64]]) -> None:
    X, labels = hidden
    layers = drawn(labels, 300, 0.9)
    table = Table(X, 3, SeedSequence(0))
    fit = table.linear(Structure(NONE, 1, LINEAR, first=Structure(METRIC, 1, AVERAGE)), layers, labels)
    Z = X - table.center
    functions: Functions = linear_classes(Z, labels, answers_of(link(layers, len(X))), 3)
    assert fit.predict(fit.place(X)) == pytest.approx(np.exp(functions.of(Z)), abs=1e-9)
    alone = np.setdiff1d(np.arange(len(X)), np.concatenate([layer.pairs for layer in layers]))
    assert fit.classes[alone] == pytest.approx(np.exp(functions.of(Z))[alone])


def test_codes_keep_the_structure() -> None:
    structure = Structure(NONE, 1, LINEAR, first=Structure(METRIC, 9, AVERAGE))
    assert Structure.of(structure.codes) == structure
    assert str(structure) == "linear functions, from average linkage, 9 a class, in a metric from the answers"


@pytest.mark.parametrize("space", [NONE, METRIC])
def test_rows_of_a_cube_keep_the_fit(hidden: tuple[Floats, NDArray[np.int64]], space: str) -> None:
    X, labels = hidden
    structure = Structure(space, 1, LINEAR, first=Structure(space, 1, AVERAGE))
    fit = Table(X, 3, SeedSequence(0)).solve(structure, drawn(labels, 300, 0.9), np.random.default_rng(0))
    kept = from_rows(to_rows(fit), X.shape[1], 3)
    assert kept is not None
    assert kept.structure == structure
    assert kept.predict(kept.place(X)).tolist() == fit.predict(fit.place(X)).tolist()
