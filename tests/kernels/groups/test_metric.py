"""A metric from answers equals numerical gradients and a slow search."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize

from sweep_clustering.kernels.groups import metric

Floats = NDArray[np.float64]


def draw_answers(
    X: Floats, classes: NDArray[np.int64], n_answers: int, accuracy: float = 0.9
) -> metric.Answers:
    rng = np.random.default_rng(0)
    pairs = np.stack([rng.permutation(len(X))[:2] for _ in range(n_answers)])
    is_right = rng.random(n_answers) < accuracy
    signs = np.where((classes[pairs[:, 0]] == classes[pairs[:, 1]]) == is_right, 1.0, -1.0)
    return metric.Answers(pairs, signs, np.ones(n_answers), np.full(n_answers, accuracy))


@pytest.fixture(scope="module")
def rows() -> tuple[Floats, NDArray[np.int64]]:
    """Return four classes that differ in one feature of four, which has the least variance."""
    rng = np.random.default_rng(1)
    classes = rng.integers(4, size=120)
    return np.column_stack([0.3 * rng.normal(size=120) + classes, 3.0 * rng.normal(size=(120, 3))]), classes


def loss(answers: metric.Answers, log_odds: Floats) -> float:
    """Return minus the log-likelihood, answer by answer."""
    total = 0.0
    for sign, weight, p, odds in zip(
        answers.signs, answers.weights, answers.accuracies, log_odds, strict=True
    ):
        together = 1.0 / (1.0 + np.exp(-odds))
        share = together if sign > 0 else 1.0 - together
        total -= weight * np.log(p * share + (1.0 - p) * (1.0 - share))
    return total


def squares(X: Floats, answers: metric.Answers) -> Floats:
    unit = np.sqrt(X.var(axis=0).sum())
    return np.array([((X[i] - X[j]) / unit) ** 2 for i, j in answers.pairs])


def test_minimum_is_that_of_scipy() -> None:
    def rosenbrock(x: Floats) -> tuple[float, Floats]:
        turn = x[1] - x[0] ** 2
        gradient = np.array([-400.0 * x[0] * turn - 2.0 * (1.0 - x[0]), 200.0 * turn])
        return float(100.0 * turn**2 + (1.0 - x[0]) ** 2), gradient

    assert metric.minimise(rosenbrock, np.array([-1.2, 1.0]), 200) == pytest.approx([1.0, 1.0], abs=1e-2)


def test_no_step_raises_the_function() -> None:
    values = list[float]()

    def bowl(x: Floats) -> tuple[float, Floats]:
        values.append(float(x @ x))
        return values[-1], 2.0 * x

    assert metric.minimise(bowl, np.array([3.0, -4.0])) == pytest.approx([0.0, 0.0], abs=1e-2)
    assert values[-1] == min(values)


def test_distance_predicts_as_a_slow_search_has_it(rows: tuple[Floats, NDArray[np.int64]]) -> None:
    X, classes = rows
    answers = draw_answers(X, classes, 200)
    distances = squares(X, answers).sum(axis=1)
    relation = metric.logistic(distances, answers)
    slow = minimize(
        lambda x: loss(answers, x[0] - np.exp(x[1]) * distances), np.zeros(2), method="Nelder-Mead"
    )
    assert loss(answers, relation.intercept - relation.slope * distances) <= slow.fun + 0.1


def test_full_metric_is_the_minimum_of_its_loss(rows: tuple[Floats, NDArray[np.int64]]) -> None:
    X, classes = rows
    answers = draw_answers(X, classes, 150)
    start = metric.logistic(squares(X, answers).sum(axis=1), answers)
    unit = np.sqrt(X.var(axis=0).sum())
    moves = (X[answers.pairs[:, 0]] - X[answers.pairs[:, 1]]) / unit

    def slow(x: Floats) -> float:
        axes = x[1:].reshape(4, 4)
        distances = np.array([np.square(move @ axes).sum() for move in moves])
        shrunk = metric.SHRINKAGE * np.square(axes - np.eye(4)).sum()
        return loss(answers, x[0] - start.slope * distances) + float(shrunk)

    best = minimize(slow, np.append(start.intercept, np.eye(4)), method="BFGS").x
    # the shrinkage leaves the directions within 5e-3 of the features, so that the loss says little of them
    assert metric.full_metric(X, answers) == pytest.approx(best[1:].reshape(4, 4), abs=1e-4)


def test_diagonal_metric_is_the_minimum_of_its_loss(rows: tuple[Floats, NDArray[np.int64]]) -> None:
    X, classes = rows
    answers = draw_answers(X, classes, 150)
    squared = squares(X, answers)
    start = metric.logistic(squared.sum(axis=1), answers)

    def slow(x: Floats) -> float:
        shrunk = metric.WEIGHT_SHRINKAGE * np.square(x[1:] - x[1:].mean()).sum()
        return loss(answers, x[0] - squared @ np.exp(x[1:])) + float(shrunk)

    best = minimize(slow, np.append(start.intercept, np.full(4, np.log(start.slope))), method="BFGS").x
    weights = np.exp(best[1:] - best[1:].mean())
    assert np.square(np.diag(metric.diagonal_metric(X, answers))) == pytest.approx(weights, rel=0.1)


def test_metrics_find_the_feature_that_matters(rows: tuple[Floats, NDArray[np.int64]]) -> None:
    X, classes = rows
    answers = draw_answers(X, classes, 300)
    for axes in (metric.full_metric(X, answers), metric.diagonal_metric(X, answers)):
        lengths = np.square(axes).sum(axis=1)
        assert lengths.argmax() == 0


def test_few_answers_leave_the_features_as_they_are(rows: tuple[Floats, NDArray[np.int64]]) -> None:
    X, classes = rows
    assert metric.full_metric(X, draw_answers(X, classes, 1)) == pytest.approx(np.eye(4), abs=0.1)


def test_weights_of_features_stay_finite_where_a_step_is_too_long() -> None:
    rng = np.random.default_rng(1039)
    n_features, n_rows, n_answers = (int(rng.integers(*ends)) for ends in ((1, 30), (30, 200), (10, 60)))
    X, pairs = rng.normal(size=(n_rows, n_features)), rng.integers(n_rows, size=(n_answers, 2))
    is_right = rng.random(n_answers) < rng.choice([0.7, 0.9, 1.0])
    is_same = (X[pairs[:, 0], 0] > 0) == (X[pairs[:, 1], 0] > 0)
    signs = np.where(is_same == is_right, 1.0, -1.0)
    accuracies = np.full(n_answers, rng.choice([0.67, 0.82, 0.95, 0.999]))
    assert np.isfinite(
        metric.diagonal_metric(X, metric.Answers(pairs, signs, np.ones(n_answers), accuracies))
    ).all()


def test_more_answers_than_teach_a_metric_are_thinned_out_to_fewer(
    rows: tuple[Floats, NDArray[np.int64]], monkeypatch: pytest.MonkeyPatch
) -> None:
    X, classes = rows
    answers = draw_answers(X, classes, 150)
    every_second = metric.full_metric(X, answers.select(np.arange(0, 150, 2)))
    monkeypatch.setattr(metric, "MOST_PAIRS", 100)
    np.testing.assert_array_equal(metric.full_metric(X, answers), every_second)


def test_answers_count_by_their_weights_and_accuracies() -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(80, 2)) * [1.0, 0.7]
    classes, weights = 2 * (X[:, 0] > 0.0) + (X[:, 1] > 0.0), rng.uniform(0.3, 3.0, 200)
    accuracies = rng.uniform(0.7, 0.99, 200)
    answers = draw_answers(X, classes, 200)._replace(weights=weights, accuracies=accuracies)
    distances = squares(X, answers).sum(axis=1)
    relation, unit = metric.logistic(distances, answers), np.average(distances, weights=weights)
    moves = (X[answers.pairs[:, 0]] - X[answers.pairs[:, 1]]) / np.sqrt(X.var(axis=0).sum())

    def relation_loss(x: Floats) -> float:
        return loss(answers, x[0] - np.exp(x[1]) * distances / unit) + 1e-3 * float(x @ x)

    def full_loss(x: Floats) -> float:
        axes = x[1:].reshape(2, 2)
        shrunk = metric.SHRINKAGE * float(np.square(axes - np.eye(2)).sum())
        return loss(answers, x[0] - relation.slope * np.square(moves @ axes).sum(axis=1)) + shrunk

    def diagonal_loss(x: Floats) -> float:
        shrunk = metric.WEIGHT_SHRINKAGE * float(np.square(x[1:] - x[1:].mean()).sum())
        return loss(answers, x[0] - np.square(moves) @ np.exp(x[1:])) + shrunk

    intercept, slope = minimize(relation_loss, np.zeros(2)).x
    assert relation == pytest.approx((intercept, np.exp(slope) / unit), rel=0.02)
    axes = minimize(full_loss, np.append(intercept, np.eye(2))).x[1:].reshape(2, 2)
    assert metric.full_metric(X, answers) == pytest.approx(axes, abs=0.01)
    logs = minimize(diagonal_loss, np.append(intercept, np.full(2, np.log(relation.slope)))).x[1:]
    expected = np.diag(np.exp(0.5 * (logs - logs.mean())))
    assert metric.diagonal_metric(X, answers) == pytest.approx(expected, rel=0.02)
