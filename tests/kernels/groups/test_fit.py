"""Classes by answers alone equal a dense matrix, and by linear functions a slow likelihood."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.random import SeedSequence
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.sparse.linalg import ArpackNoConvergence
from solving.answers import answered, are_alike

from sweep_clustering.kernels.groups import fit as module
from sweep_clustering.kernels.groups.metric import Answers
from sweep_clustering.kernels.problem.data import CANNOT, MUST, Layer, link
from sweep_clustering.kernels.scores import adjusted_rand
from sweep_clustering.kernels.structure import AVERAGE, LINEAR, METRIC, NONE, ROWS, Structure
from sweep_clustering.kernels.unions.table import Table
from sweep_clustering.sweeps.shapes import from_rows, to_rows

Floats = NDArray[np.float64]


def draw_layers(labels: NDArray[np.int64], count: int, accuracy: float) -> list[Layer]:
    rng = np.random.default_rng(1)
    pairs = rng.integers(len(labels), size=(count, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    return answered(pairs, labels, rng, right=accuracy, accuracy=accuracy)


@pytest.fixture(scope="module")
def hidden_classes() -> tuple[Floats, NDArray[np.int64]]:
    """Return three classes along two of thirty directions; all others have more variance."""
    rng = np.random.default_rng(0)
    labels = np.arange(600) % 3
    X = 3.0 * rng.normal(size=(600, 30))
    X[:, :2] = np.array([[0.0, 2.0], [-2.0, -1.0], [2.0, -1.0]])[labels] + 0.5 * rng.normal(size=(600, 2))
    return X @ np.linalg.qr(rng.normal(size=(30, 30)))[0], labels


def loss_by_pair(x: Floats, rows: Floats, answers: Answers, start: Floats) -> float:
    total = module.STIFFNESS * float(np.square(x - start.ravel()).sum())
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
    functions = module.linear_classes(Z, labels, answers, 3)
    unit = np.sqrt(Z.var(axis=0).sum())
    rows = np.column_stack([Z / unit, np.ones(25)])
    first = module.discriminant(Z / unit, labels, 3)
    start = np.vstack([first.slopes, first.intercepts])
    best = minimize(loss_by_pair, start.ravel(), args=(rows, answers, start), tol=1e-6)
    x = np.vstack([functions.slopes * unit, functions.intercepts]).ravel()
    assert loss_by_pair(x, rows, answers, start) == pytest.approx(best.fun, abs=1e-3)
    assert functions.deviation == pytest.approx(-module.STIFFNESS * np.square(x - start.ravel()).sum())


def test_a_partition_without_answers_is_kept(hidden_classes: tuple[Floats, NDArray[np.int64]]) -> None:
    X, labels = hidden_classes
    nothing = Answers(np.empty((0, 2), np.int64), *np.empty((3, 0)))
    functions = module.linear_classes(X - X.mean(axis=0), labels, nothing, 3)
    assert functions.deviation == 0.0
    assert adjusted_rand(labels, functions.logs(X - X.mean(axis=0)).argmax(axis=1)) > 0.9


def test_a_class_without_rows_takes_none() -> None:
    Z = np.random.default_rng(3).normal(size=(40, 2))
    labels = np.where(Z[:, 0] > 0.0, 2, 0)
    assert 1 not in module.discriminant(Z, labels, 3).logs(Z).argmax(axis=1)


def test_equal_rows_are_no_obstacle() -> None:
    Z, answers = np.zeros((9, 2)), module.answers_of(link(draw_layers(np.arange(9) % 3, 20, 0.9), 9))
    assert np.isfinite(module.linear_classes(Z, np.arange(9) % 3, answers, 3).logs(Z)).all()


def test_directions_are_found_that_distances_hide(hidden_classes: tuple[Floats, NDArray[np.int64]]) -> None:
    X, labels = hidden_classes
    layers, first = draw_layers(labels, 1200, 0.9), Structure(NONE, 1, AVERAGE)
    structure = Structure(NONE, 1, LINEAR, first=first)
    table = Table(X, 3, SeedSequence(0))
    merged = table.solve(first, layers, np.random.default_rng(0))
    fit = table.solve(structure, layers, np.random.default_rng(0))
    assert adjusted_rand(labels, merged.labels) < 0.6
    assert adjusted_rand(labels, fit.labels) > 0.9
    assert fit.structure == structure
    assert fit.classes.sum(axis=1) == pytest.approx(1.0)


def test_gaussians_have_the_shares_of_the_functions(hidden_classes: tuple[Floats, NDArray[np.int64]]) -> None:
    X, labels = hidden_classes
    layers = draw_layers(labels, 300, 0.9)
    table = Table(X, 3, SeedSequence(0))
    fit = table.fit_linear(Structure(NONE, 1, LINEAR, first=Structure(METRIC, 1, AVERAGE)), layers, labels)
    Z = X - table.center
    functions: module.Functions = module.linear_classes(Z, labels, module.answers_of(link(layers, len(X))), 3)
    assert fit.predict(fit.place(X)) == pytest.approx(np.exp(functions.logs(Z)), abs=1e-9)
    alone = np.setdiff1d(np.arange(len(X)), np.concatenate([layer.pairs for layer in layers]))
    assert fit.classes[alone] == pytest.approx(np.exp(functions.logs(Z))[alone])
    # the farthest mean is one deviation from the center
    assert np.square(fit.means).sum(axis=1).max() == pytest.approx(fit.covariances[0, 0])


def test_codes_keep_the_structure() -> None:
    structure = Structure(NONE, 1, LINEAR, first=Structure(METRIC, 9, AVERAGE))
    assert Structure.from_codes(structure.codes) == structure
    assert str(structure) == "linear functions, from average linkage, 9 a class, in a metric from the answers"


@pytest.mark.parametrize("space", [NONE, METRIC])
def test_rows_of_a_cube_keep_the_fit(hidden_classes: tuple[Floats, NDArray[np.int64]], space: str) -> None:
    X, labels = hidden_classes
    structure = Structure(space, 1, LINEAR, first=Structure(space, 1, AVERAGE))
    fit = Table(X, 3, SeedSequence(0)).solve(
        structure, draw_layers(labels, 300, 0.9), np.random.default_rng(0)
    )
    fit_of_rows = from_rows(to_rows(fit), X.shape[1], 3)
    assert fit_of_rows is not None
    assert fit_of_rows.structure == structure
    assert fit_of_rows.predict(fit_of_rows.place(X)).tolist() == fit.predict(fit.place(X)).tolist()


def right_answers(labels: NDArray[np.int64], n_answers: int) -> Answers:
    """Return right answers about uniform pairs of rows, some of them more than once."""
    rng = np.random.default_rng(0)
    first, steps = rng.integers(len(labels), size=n_answers), rng.integers(1, len(labels), n_answers)
    pairs = np.stack([first, (first + steps) % len(labels)], axis=1)
    signs = np.where(are_alike(labels, pairs), 1.0, -1.0)
    return Answers(pairs, signs, rng.integers(1, 3, n_answers).astype(float), np.full(n_answers, 0.9))


@pytest.mark.parametrize("n_rows", [60, module.DENSE + 50])
def test_axes_are_the_largest_eigenvectors_of_the_normalised_graph(n_rows: int) -> None:
    answers = right_answers(np.arange(n_rows) % 3, 6 * n_rows)
    graph = np.zeros((n_rows, n_rows))
    for (i, j), odds in zip(answers.pairs, answers.odds, strict=True):
        graph[i, j] += odds
        graph[j, i] += odds
    degrees = np.abs(graph).sum(axis=1)
    degrees += degrees.mean()
    values, vectors = np.linalg.eigh(graph / np.sqrt(np.outer(degrees, degrees)))
    axes = module.signed_axes(answers.pairs, answers.odds, n_rows, 2) * np.sqrt(degrees)[:, None]
    assert values[-2] > values[-3] + 0.05
    assert axes @ axes.T == pytest.approx(vectors[:, -2:] @ vectors[:, -2:].T, abs=1e-6)


def test_answers_find_classes_that_the_features_do_not_show() -> None:
    labels = np.arange(300) % 3
    Z = np.random.default_rng(1).normal(size=(300, 2))
    plain = np.random.default_rng(2).integers(3, size=300)
    classes = module.signed_classes(Z, right_answers(labels, 2_000), plain, np.random.default_rng(0))
    assert adjusted_rand(labels, classes) > 0.95


def test_rows_without_answers_go_to_the_nearest_mean() -> None:
    labels = np.arange(80) % 2
    Z = 8.0 * labels[:, None] + np.random.default_rng(1).normal(size=(80, 1))
    answers = right_answers(labels[:40], 300)
    classes = module.signed_classes(Z, answers, labels, np.random.default_rng(0))
    assert adjusted_rand(labels, classes) == 1.0


def test_too_few_rows_with_answers_leave_the_features() -> None:
    plain = np.array([0, 1, 0, 1])
    answers = right_answers(plain[:2], 5)
    assert module.signed_classes(np.zeros((4, 1)), answers, plain, np.random.default_rng(0)) is plain


def test_the_accuracy_of_an_annotator_is_the_share_of_answers_that_agree() -> None:
    together, apart = np.array([[0, 1], [2, 3], [0, 2]]), np.array([[0, 3], [1, 2]])
    weights = np.array([1.0, 2.0, 4.0])
    layers = [Layer(MUST, together, weights, annotator=7), Layer(CANNOT, apart, annotator=5)]
    links = link([*layers, Layer(CANNOT, together, accuracy=0.9)], 4)
    # one right and one wrong answer more keep the share from 0 and 1, and it is at least one half
    shares = module.accuracies_of(links, np.eye(2)[[0, 0, 1, 1]])
    assert shares == {5: (0.75, 0.75), 7: (0.5 + module.UNSURE, 0.5 + module.UNSURE)}
    layers[0] = replace(layers[0], weights=weights[::-1])
    assert module.accuracies_of(link(layers, 4), np.eye(2)[[0, 0, 1, 1]])[7] == pytest.approx((7 / 9, 7 / 9))


def test_first_functions_are_as_sure_of_a_partition_as_its_likelihood_asks() -> None:
    rng = np.random.default_rng(2)
    labels = np.repeat(np.arange(3), [10, 20, 30])
    Z = 1.5 * rng.normal(size=(3, 4))[labels] + rng.normal(size=(60, 4)) * [1.0, 2.0, 3.0, 0.5]
    Z -= Z.mean(axis=0)
    means = np.array([Z[labels == c].mean(axis=0) for c in range(3)])
    scatter = np.cov((Z - means[labels]).T, bias=True)
    inverse = np.linalg.inv(0.5 * scatter + 0.5 * np.trace(scatter) / 4.0 * np.eye(4))
    intercepts = np.log([1 / 6, 1 / 3, 1 / 2]) - 0.5 * np.einsum("cd,de,ce->c", means, inverse, means)

    def likelihood_of(factor: float) -> float:
        logs = factor * (Z @ inverse @ means.T + intercepts)
        return float((logs[np.arange(60), labels] - np.log(np.exp(logs).sum(axis=1))).sum())

    best = max(2.0 ** np.arange(-6.0, 3.5, 0.5), key=likelihood_of)
    functions = module.discriminant(Z, labels, 3)
    np.testing.assert_allclose(functions.slopes, best * inverse @ means.T)
    np.testing.assert_allclose(functions.intercepts, best * intercepts)


def test_answers_that_say_nothing_leave_the_features() -> None:
    plain = np.arange(30) % 2
    answers = right_answers(plain, 200)._replace(accuracies=np.full(200, 0.5))
    assert module.signed_classes(np.zeros((30, 1)), answers, plain, np.random.default_rng(0)) is plain


@pytest.mark.parametrize("n_found", [0, 1])
def test_an_iteration_that_does_not_end_gives_what_it_has(
    n_found: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    labels = np.arange(module.DENSE + 50) % 2
    vectors = np.where(labels == 0, 1.0, -1.0)[:, None][:, :n_found]

    def fail_to_converge(*_: object, **__: object) -> None:
        raise ArpackNoConvergence("no convergence", np.ones(n_found), vectors)

    monkeypatch.setattr("sweep_clustering.kernels.groups.fit.eigsh", fail_to_converge)
    plain = np.zeros(len(labels), np.int64)
    plain[::3] = 1
    Z = np.zeros((len(labels), 1))
    classes = module.signed_classes(Z, right_answers(labels, 4_000), plain, np.random.default_rng(0))
    assert adjusted_rand(labels if n_found else plain, classes) > 0.95


def test_accuracies_of_a_fit_to_the_features_are_those_of_the_answers_at_hand() -> None:
    labels = np.arange(40) % 2
    X = 9.0 * labels[:, None] + np.random.default_rng(0).normal(size=(40, 2))
    pairs = np.random.default_rng(1).integers(40, size=(60, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    is_alike = are_alike(labels, pairs)
    table, structure = Table(X, 2, SeedSequence(0)), Structure(NONE, 1, AVERAGE, annotated=False)
    means = []
    for is_right in (True, False):
        layers = [Layer(MUST, pairs[is_alike == is_right]), Layer(CANNOT, pairs[is_alike != is_right])]
        (fit,) = table.fit_groups([structure], layers, np.random.default_rng(0))
        means.append(np.mean(list(fit.accuracies.values())))
    assert means[0] > 0.9
    assert means[1] < 0.6


@pytest.mark.parametrize(
    ("linkage", "ratio"), [(AVERAGE, module.CLASS_WEIGHT / module.GROUP_WEIGHT), (ROWS, 1.0)]
)
def test_groups_of_a_tree_of_rows_have_the_variance_of_a_class(linkage: str, ratio: float) -> None:
    table = Table(np.random.default_rng(0).normal(size=(40, 2)), 2, SeedSequence(0))
    structures = [Structure(NONE, count, linkage) for count in (2, 1)]
    of_groups, of_classes = table.fit_groups(structures, [], np.random.default_rng(0))
    assert of_groups.covariances[0, 0] == pytest.approx(ratio * of_classes.covariances[0, 0])


def test_rows_are_the_leaves_of_a_tree_of_rows_if_they_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    groups = np.array([0, 0, 1, 1])
    monkeypatch.setattr(module, "MOST_ROWS", 4)
    assert module.leaves_of(groups, ROWS).tolist() == [0, 1, 2, 3]
    assert module.leaves_of(groups, AVERAGE) is groups
    monkeypatch.setattr(module, "MOST_ROWS", 3)
    assert module.leaves_of(groups, ROWS) is groups


def test_partitions_that_agree_are_their_average_whatever_the_features() -> None:
    rng = np.random.default_rng(0)
    labels = np.append(np.arange(4), rng.integers(4, size=56))
    partitions = [(labels, 0.5), ((labels + 1) % 4, 2.0)]
    shares = module.average_votes(rng.normal(size=(60, 2)), partitions, 4, rng)
    assert sorted(np.unique(shares).tolist()) == [0.0, 1.0]
    assert adjusted_rand(labels, shares.argmax(axis=1)) == 1.0
