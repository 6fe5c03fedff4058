"""Merged groups compete with structures: predictions and distances decide who wins."""

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.random import SeedSequence
from numpy.typing import NDArray
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.optimize import minimize
from scipy.spatial.distance import pdist, squareform
from scipy.stats import multivariate_normal
from solving.answers import answered, are_alike, layers_of

from sweep_clustering.kernels.choice import HeldOut, child_seed, list_annotations, some_rows, training_layers
from sweep_clustering.kernels.groups import fit as groups
from sweep_clustering.kernels.groups import merging, metric
from sweep_clustering.kernels.problem.data import CANNOT, MUST, Layer, link
from sweep_clustering.kernels.scores import adjusted_rand
from sweep_clustering.kernels.settings import FOLDS, settings_of
from sweep_clustering.kernels.solver import prepare as solvers
from sweep_clustering.kernels.solver.contract import Model
from sweep_clustering.kernels.solver.prepare import prepare
from sweep_clustering.kernels.structure import (
    AVERAGE,
    GENIE,
    KMEANS,
    LINKAGES,
    METRIC,
    MOST_ROWS,
    NONE,
    ODDS,
    ROWS,
    SIGNED,
    WARD,
    Structure,
    merged_structures,
    n_groups,
)
from sweep_clustering.kernels.unions import contest as module
from sweep_clustering.kernels.unions.race import Ranking, choose_structure
from sweep_clustering.kernels.unions.table import Table, union_criteria
from sweep_clustering.sweeps.errors import present
from sweep_clustering.sweeps.inputs import draw_mixture

Floats = NDArray[np.float64]
Rows = tuple[Floats, NDArray[np.int64]]

ANY_SHAPE = Model("conditional", "any", settings_of({}), has_groups=True)
FEATURES = Ranking((Structure(NONE, 1, KMEANS, annotated=False),), {}, None)


def draw_skewed(largest: int) -> Rows:
    """Draw classes of 2 to so many rows, on the axes of twelve features."""
    rng = np.random.default_rng(0)
    sizes = np.unique(np.geomspace(2, largest, largest).astype(int))
    labels = np.repeat(np.arange(len(sizes)), sizes)
    centers = rng.normal(size=(len(sizes), 12))
    return centers[labels] + 0.6 * rng.normal(size=(len(labels), 12)), labels


@pytest.fixture(scope="module")
def skewed_rows() -> Rows:
    """Return 26 classes of 2 to 40 rows."""
    return draw_skewed(40)


@pytest.fixture(autouse=True)
def _few_random_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let fewer random pairs stand beside answers, which takes less time."""
    monkeypatch.setattr(module, "N_RANDOM", 1_000)


def near_pairs(X: Floats, n_near: int, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw pairs of a row and one of its nearest neighbours."""
    near = np.argsort(squareform(pdist(X)), axis=1)[:, 1 : n_near + 1]
    first = rng.integers(len(X), size=count)
    return np.column_stack([first, near[first, rng.integers(n_near, size=count)]])


def draw_layers(labels: NDArray[Any], count: int, accuracy: float | None) -> list[Layer]:
    rng = np.random.default_rng(1)
    pairs = rng.integers(len(labels), size=(count, 2))
    # half of the pairs are of one class
    for row in range(0, count, 2):
        pairs[row, 1] = rng.choice(np.flatnonzero(labels == labels[pairs[row, 0]]))
    return answered(pairs, labels, rng, right=0.95, accuracy=accuracy)


def contest_of(table: Table, layers: Sequence[Layer], rival: Floats | None = None) -> module.Contest:
    random = module.random_pairs(table, layers, list_annotations(layers, table.seed))
    return module.Contest(table, layers, random, map, rival)


def chosen_cut(X: Floats, layers: Sequence[Layer]) -> module.Cut:
    return present(module.choose_cut(X, layers, SeedSequence(0), 10))


def rate_cuts(table: Table, layers: Sequence[Layer], many: int) -> module.Ratings:
    random = module.random_pairs(table, layers, list_annotations(layers, table.seed))
    return module.rate_cuts(table, layers, random, many, map)


def test_predictions_are_those_of_a_logistic_regression() -> None:
    rng = np.random.default_rng(2)
    distances, together, weights = (
        rng.random((80, 2)),
        rng.random(80),
        rng.integers(1, 3, size=80).astype(float),
    )
    is_must = rng.random(80) < np.where(together > 0.5, 0.8, 0.3)
    columns = np.column_stack([distances, together])
    columns = np.column_stack([np.ones(80), (columns - columns.mean(axis=0)) / columns.std(axis=0)])

    def loss(x: Floats) -> float:
        shares = 1.0 / (1.0 + np.exp(-columns @ x))
        probabilities = np.where(is_must, shares, 1.0 - shares)
        return float(-weights @ np.log(probabilities) + 0.5 * module.RIDGE * x @ x)

    x = minimize(loss, np.zeros(4)).x
    logs, right = module.predict_answers(together, distances, is_must, weights)
    shares = 1.0 / (1.0 + np.exp(-columns @ x))
    assert np.exp(logs) == pytest.approx(np.where(is_must, shares, 1.0 - shares), abs=1e-3)
    assert right.tolist() == (np.exp(logs) > 0.5).tolist()


def test_one_surprise_among_sure_predictions_does_no_harm() -> None:
    is_must = np.arange(400) < 200
    together = is_must.astype(float)
    together[[0, 399]] = 1.0 - together[[0, 399]]
    logs, right = module.predict_answers(together, np.empty((400, 0)), is_must, np.ones(400))
    assert right.sum() == 398
    assert np.exp(logs[1:399]) == pytest.approx(199.0 / 200.0, abs=1e-3)


def test_what_a_candidate_gets_wrong_is_no_skill() -> None:
    rng = np.random.default_rng(3)
    distances, is_must, weights = rng.random((200, 1)), rng.random(200) < 0.5, np.ones(200)
    against, _ = module.predict_answers(np.where(is_must, 0.2, 0.8), distances, is_must, weights)
    alone, _ = module.predict_answers(None, distances, is_must, weights)
    assert against.tolist() == alone.tolist()


def test_answers_have_the_accuracy_that_is_given_or_a_guess() -> None:
    layers = [Layer(MUST, np.array([[0, 1]]), accuracy=0.9), Layer(CANNOT, np.array([[2, 1], [3, 3]]))]
    answers = groups.answers_of(link(layers, 4))
    assert answers.pairs.tolist() == [[0, 1], [1, 2]]
    assert answers.accuracies == pytest.approx([0.9, 1.0 / (1.0 + math.exp(-groups.DEFAULT_ODDS))])
    assert answers.odds == pytest.approx([math.log(9.0), -groups.DEFAULT_ODDS])


def test_folds_do_not_see_the_answers_that_they_predict(skewed_rows: Rows) -> None:
    X, labels = skewed_rows
    layers = draw_layers(labels, 300, 0.95)
    table = Table(X, int(labels.max()) + 1, SeedSequence(0))
    annotations = list_annotations(layers, table.seed)
    contest = contest_of(table, layers)
    structure = next(merged for merged in contest.structures if merged.subspace == METRIC)
    tested = annotations.folds == 2
    training = training_layers(layers, annotations, 2)
    fit = Table(X, table.n_classes, SeedSequence(0)).fit_groups(
        [merged for merged in contest.structures if merged.subspace == METRIC], training, contest.stream()
    )[0]
    i, j = annotations.pairs[tested].T
    together = (fit.classes[i] * fit.classes[j]).sum(axis=1)
    count = len(tested)
    assert contest.shares[structure][:count][tested] == pytest.approx(together)
    Z = fit.place(X)
    assert contest.distances[:count][tested, 1] == pytest.approx(np.square(Z[i] - Z[j]).sum(axis=1))


@pytest.mark.parametrize("space", [NONE, METRIC])
def test_groups_that_are_known_give_the_fits_of_a_new_table(
    skewed_rows: Rows, space: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, labels = skewed_rows
    search, n_rows = groups.ground_of, list[int]()

    def count_call(Z: Floats, *arguments: Any) -> groups.Ground:
        n_rows.append(len(Z))
        return search(Z, *arguments)

    monkeypatch.setattr(groups, "ground_of", count_call)
    first, second = draw_layers(labels, 300, 0.95), draw_layers(labels, 200, 0.8)
    table, seed = Table(X, int(labels.max()) + 1, SeedSequence(0)), SeedSequence(0)
    structures = [merged for merged in merged_structures(*X.shape, 40, 10_000) if merged.subspace == space]
    table.fit_groups(structures, first, np.random.default_rng(3))
    again = table.fit_groups(structures, second, np.random.default_rng(3))
    assert len(n_rows) == (1 if space == NONE else 2)
    new = Table(X, table.n_classes, seed).fit_groups(structures, second, np.random.default_rng(3))
    for fit, other in zip(again, new, strict=True):
        assert np.array_equal(fit.classes, other.classes)
        assert fit.terms == other.terms


@pytest.mark.parametrize("accuracy", [0.95, None])
def test_groups_win_where_classes_are_many_and_skewed(accuracy: float | None) -> None:
    X, labels = draw_skewed(50)
    layers, n_classes = draw_layers(labels, 700, accuracy), int(labels.max()) + 1
    solver = prepare(ANY_SHAPE, X, layers, n_classes, SeedSequence(0))
    solved = solver.solve([SeedSequence(0, spawn_key=(restart,)) for restart in range(2)])
    winner = solver.ranking.structures[0]
    assert winner.covariance in LINKAGES
    skill = solver.ranking.skills[winner]
    assert skill.with_distance.log_loss < skill.distance.log_loss
    assert solved.name in map(str, solver.ranking.skills)
    (best,) = solved.fits
    assert solved.words.startswith("an average of ")
    gaussians = present(best.gaussians)
    assert str(gaussians.structure) == solved.name
    assert solved.n_averaged > FOLDS
    simple = Table(X, n_classes, SeedSequence(0)).fit_features(FEATURES.structures[0])
    assert adjusted_rand(labels, best.labels) > adjusted_rand(labels, simple.labels) + 0.05
    assert gaussians.classes.sum(axis=1) == pytest.approx(1.0)
    shares = gaussians.predict(gaussians.place(X))
    assert (shares.argmax(axis=1) == best.labels).mean() > 0.9
    if accuracy is None:
        assert gaussians.accuracies[0] == pytest.approx((0.95, 0.95), abs=0.05)


@pytest.mark.parametrize("most_rows", [4_000, 100])
def test_the_average_of_partitions_that_each_are_half_wrong_is_right(
    skewed_rows: Rows, monkeypatch: pytest.MonkeyPatch, most_rows: int
) -> None:
    X, labels = skewed_rows
    monkeypatch.setattr(groups, "MOST_ROWS", most_rows)
    rng, table = np.random.default_rng(8), Table(X, int(labels.max()) + 1, SeedSequence(0))
    partitions = [np.where(rng.random(len(X)) < 0.5, labels, rng.permutation(labels)) for _ in range(9)]
    classes = table.average([(partition, 1.0) for partition in partitions], np.random.default_rng(0))
    scores = [adjusted_rand(labels, partition) for partition in partitions]
    assert adjusted_rand(labels, classes.argmax(axis=1)) > max(scores) + 0.3
    assert classes.sum(axis=1) == pytest.approx(1.0)
    alone = [(partition, 0.0) for partition in partitions]
    apart = table.average([*alone, (labels, 1.0)], np.random.default_rng(0))
    assert adjusted_rand(labels, apart.argmax(axis=1)) > 0.8


def test_rows_of_a_table_that_was_compared_on_a_part_are_not_merged_one_by_one(
    skewed_rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, labels = skewed_rows
    monkeypatch.setattr(groups, "MOST_ROWS", 100)
    sizes, tree_of = list[int](), groups.tree_of

    def count_call(Z: Floats, parts: NDArray[np.int64], *rest: Any) -> NDArray[np.int64]:
        sizes.append(int(parts.max()) + 1)
        return tree_of(Z, parts, *rest)

    monkeypatch.setattr(groups, "tree_of", count_call)
    table = Table(X, int(labels.max()) + 1, SeedSequence(0))
    structure = Structure(NONE, 9, ROWS, proportions="equal")
    fit = table.solve(structure, draw_layers(labels, 900, 0.95), np.random.default_rng(0))
    assert sizes
    assert max(sizes) <= n_groups(len(X), table.n_classes) < len(X)
    assert adjusted_rand(labels, fit.labels) > 0.5


@pytest.mark.slow
def test_threads_do_not_change_an_average(skewed_rows: Rows) -> None:
    X, labels = skewed_rows
    layers, n_classes = draw_layers(labels, 900, 0.95), int(labels.max()) + 1
    with ThreadPoolExecutor(3) as pool:
        one, many = (
            prepare(ANY_SHAPE, X, layers, n_classes, SeedSequence(0), run=run).solve([SeedSequence(1)])
            for run in (map, pool.map)
        )
    assert many.notes == one.notes
    assert many.fits[0].objective == one.fits[0].objective
    assert many.fits[0].labels.tolist() == one.fits[0].labels.tolist()


@pytest.mark.parametrize("seed", range(2))
def test_answers_by_chance_leave_the_choice_as_it_is(skewed_rows: Rows, seed: int) -> None:
    X, labels = skewed_rows
    layers = uniform_layers(labels, 300, seed=seed, right=0.5)
    choice = module.rank_with_groups(Table(X, 20, SeedSequence(0)), layers, FEATURES)
    assert choice.structures == FEATURES.structures


def test_few_answers_are_not_asked(skewed_rows: Rows) -> None:
    X, labels = skewed_rows
    assert (
        module.rank_with_groups(Table(X, 20, SeedSequence(0)), draw_layers(labels, 12, 0.9), FEATURES)
        is FEATURES
    )


def test_more_groups_than_classes() -> None:
    assert n_groups(3_000, 80) == 900
    assert n_groups(60_000, 100) == 900
    assert n_groups(300, 60) == 180
    assert n_groups(50, 40) == 50


def test_groups_of_one_variance_have_its_criteria(skewed_rows: Rows) -> None:
    X, labels = skewed_rows
    table = Table(X, 20, SeedSequence(0))
    (structure, *_), layers = merged_structures(len(X), X.shape[1], 20), draw_layers(labels, 100, 0.95)
    fit = table.solve(structure, layers, np.random.default_rng(0))
    criteria = union_criteria(fit, fit.place(X))
    many, variance = len(fit.weights), fit.covariances[0, 0]
    logs = [
        multivariate_normal(mean, variance * np.eye(X.shape[1])).logpdf(fit.place(X)) for mean in fit.means
    ]
    assert criteria.parameters == many * X.shape[1] + 1
    likelihood = np.logaddexp.reduce(np.array(logs) - math.log(many), axis=0).sum()
    assert criteria.classification + criteria.surprise == pytest.approx(likelihood)


def test_cuts_are_compared_on_random_pairs_if_answers_are_about_near_rows(skewed_rows: Rows) -> None:
    X, labels = skewed_rows
    table = Table(X, 2, SeedSequence(0))
    assert rate_cuts(table, uniform_layers(labels, 900), 100).overall == {}
    layers = near_layers(skewed_rows, 900)
    ratings, annotations = rate_cuts(table, layers, 100), list_annotations(layers, table.seed)
    random, key = module.random_pairs(table, layers, annotations), ((NONE, AVERAGE), 37)
    together = np.zeros(len(annotations.folds) + len(random.pairs))
    folds, pairs = (
        np.concatenate(both)
        for both in zip((annotations.folds, annotations.pairs), (random.folds, random.pairs), strict=True)
    )
    for fold in range(FOLDS):
        answers = groups.answers_of(link(training_layers(layers, annotations, fold), len(X)))
        small = merging.small_groups(
            table.centered_X, 100, np.random.default_rng(child_seed(table.seed, module.STREAM))
        )
        classes = merging.cut(groups.tree_of(table.centered_X, small, answers, AVERAGE), 37)[small]
        first, second = pairs[folds == fold].T
        together[folds == fold] = classes[first] == classes[second]
    overall = random.overall(together, np.zeros((len(together), 0)), ratings.without_distance[key])
    assert ratings.overall[key].log_loss == pytest.approx(overall.log_loss)


def test_skewed_classes_with_near_pairs_are_not_taken_for_few() -> None:
    sizes = {"n_clusters": 12, "n_samples": 600, "n_features": 40}
    rows = draw_mixture(np.random.default_rng(5), **sizes, variance=(0.1, 0.3), kind="embeddings", skew=1.0)
    layers = near_layers(rows, 600)
    cut = chosen_cut(rows[0], layers)
    assert 10 < cut.n_clusters < 20
    assert not cut.is_clear  # the answers alone are predicted by few classes as well


def test_numbers_of_classes_grow_by_a_ratio() -> None:
    assert module.cut_counts(20) == [2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 16, 18, 20]
    assert module.cut_counts(2_000)[-1] > 1_700


def test_a_cut_finds_about_as_many_classes_as_there_are(skewed_rows: Rows) -> None:
    X, labels = skewed_rows
    layers, n_classes = draw_layers(labels, 900, 0.95), int(labels.max()) + 1
    cut = chosen_cut(X, layers)
    assert 0.6 * n_classes < cut.n_clusters < 1.8 * n_classes
    assert cut.low <= cut.n_clusters


def test_cuts_into_pairs_are_found_among_single_rows() -> None:
    rng = np.random.default_rng(4)
    labels = np.repeat(np.arange(150), 2)
    X = rng.normal(size=(150, 8))[labels] + 0.05 * rng.normal(size=(300, 8))
    cut = chosen_cut(X, draw_layers(labels, 600, 0.95))
    assert cut.low <= 150 <= 1.4 * cut.n_clusters


def records(n_classes: int, n_rows: int, spread: float, accuracy: float) -> tuple[Rows, list[Layer]]:
    """Draw classes of one or two rows, and answers about near rows."""
    rng = np.random.default_rng(n_classes)
    labels = np.concatenate([np.arange(n_classes), rng.integers(n_classes, size=n_rows - n_classes)])
    X = rng.normal(size=(n_classes, 20))[labels] + spread * rng.normal(size=(n_rows, 20))
    return (X, labels), answered(near_pairs(X, 5, n_rows, rng), labels, rng, right=accuracy)


@pytest.mark.parametrize(("n_classes", "n_rows"), [(180, 380), (315, 476)])
def test_hundreds_of_classes_of_one_or_two_rows_are_found_by_single_rows(n_classes: int, n_rows: int) -> None:
    (X, _), layers = records(n_classes, n_rows, 0.5, 0.8)
    cut = chosen_cut(X, layers)
    assert cut.n_clusters == pytest.approx(n_classes, rel=0.15)


def test_more_classes_than_half_of_the_rows_are_merged() -> None:
    (X, labels), layers = records(100, 180, 0.65, 0.95)
    ranking = module.rank_with_groups(Table(X, 85, SeedSequence(0)), layers, FEATURES)
    assert len(ranking.structures) > 1
    assert ranking.structures[-1] == FEATURES.structures[0]
    tables = Table(X, 85, SeedSequence(0)), Table(X, 85, SeedSequence(0))
    merged, plain = (
        table.solve(ranked, layers, np.random.default_rng(0))
        for table, ranked in zip(tables, (ranking.structures[0], FEATURES.structures[0]), strict=True)
    )
    assert adjusted_rand(labels, merged.labels) > adjusted_rand(labels, plain.labels) + 0.1


def test_few_classes_are_left_to_fits_of_each_number() -> None:
    rng = np.random.default_rng(5)
    labels = np.arange(200) % 3
    X = 8.0 * rng.normal(size=(3, 4))[labels] + rng.normal(size=(200, 4))
    layers = draw_layers(labels, 300, 0.95)
    assert module.choose_cut(X, layers, SeedSequence(0), 10) is None
    rated = rate_cuts(Table(X, 2, SeedSequence(0)), layers, 60).without_distance
    assert min(rated, key=lambda key: rated[key].log_loss)[1] == 3


def near_layers(rows: Rows, count: int, accuracy: float | None = 0.9) -> list[Layer]:
    """Draw answers about a row and one of its ten nearest neighbours, nine of ten of them right."""
    (X, labels), rng = rows, np.random.default_rng(6)
    return answered(near_pairs(X, 10, count, rng), labels, rng, right=0.9, accuracy=accuracy)


def uniform_layers(
    labels: NDArray[Any], count: int, accuracy: float | None = 0.9, seed: int = 7, right: float = 0.9
) -> list[Layer]:
    """Draw answers about uniform pairs, nine of ten of them right unless another share is named."""
    rng = np.random.default_rng(seed)
    first = rng.integers(len(labels), size=count)
    pairs = np.column_stack([first, (first + rng.integers(1, len(labels), size=count)) % len(labels)])
    return answered(pairs, labels, rng, right=right, accuracy=accuracy)


@pytest.fixture(scope="module")
def blurred_rows() -> Rows:
    """Return sixty classes of ten rows each, which overlap."""
    rng = np.random.default_rng(8)
    labels = np.repeat(np.arange(60), 10)
    return 1.2 * rng.normal(size=(60, 8))[labels] + rng.normal(size=(600, 8)), labels


def test_random_pairs_estimate_the_share_of_pairs_of_one_class(blurred_rows: Rows) -> None:
    X, labels = blurred_rows
    shares = []
    for seed in range(40):
        annotations = list_annotations(uniform_layers(labels, 1_500, seed=seed), SeedSequence(0))
        shares.append(module.share_together(X, annotations))
    values, errors, _ = np.array(shares).T
    right = np.square(np.bincount(labels) / len(labels)).sum()
    assert values.mean() == pytest.approx(right, abs=3.0 * values.std() / math.sqrt(40))
    assert errors.mean() == pytest.approx(values.std(), rel=0.3)


def test_a_share_is_known_only_from_random_pairs_of_likely_accuracy(blurred_rows: Rows) -> None:
    X, labels = blurred_rows

    def share_of(layers: list[Layer]) -> module.Share:
        return module.share_together(X, list_annotations(layers, SeedSequence(0)))

    near, half = near_layers(blurred_rows, 1_500), uniform_layers(labels, 1_500, 0.5)
    # labels of chosen rows may have each class as often as the others
    labelled = [replace(layer, is_of_labels=True) for layer in uniform_layers(labels, 1_500)]
    # fewer must-links than so many wrong answers give
    unlikely = uniform_layers(labels, 1_500, 0.8)
    assert {*map(share_of, (near, half, labelled, unlikely))} == {module.OPEN_SHARE}
    assert (module.OPEN_SHARE.low, module.OPEN_SHARE.high) == (-math.inf, 1.0)
    assert share_of(uniform_layers(labels, 1_500, 0.99)).value > 0.1


@pytest.mark.parametrize(("accuracy", "right"), [(0.9, 0.9), (None, 0.98)])
def test_random_pairs_rule_few_classes_out_where_no_number_predicts_better(
    accuracy: float | None, right: float
) -> None:
    labels, noise = np.repeat(np.arange(30), 10), np.random.default_rng(9).normal(size=(300, 8))
    cut = chosen_cut(noise, uniform_layers(labels, 900, accuracy, right=right))
    assert cut.is_by_share
    assert 10 < cut.low < 30 < 2.5 * cut.n_clusters
    assert module.choose_cut(noise, uniform_layers(labels % 5, 900), SeedSequence(0), 10) is None


def test_random_pairs_have_answers_by_their_distance(
    skewed_rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metric, "AT_ONCE", 1_000)  # numbers in several parts
    X, labels = skewed_rows
    n_classes, layers = int(labels.max()) + 1, near_layers(skewed_rows, 900)
    annotations = list_annotations(layers, SeedSequence(0))
    _, pairs, must = module.random_pairs(Table(X, n_classes, SeedSequence(0)), layers, annotations)
    assert (pairs[:, 0] != pairs[:, 1]).all()
    squares, asked = (np.square(X[p[:, 0]] - X[p[:, 1]]).sum(axis=1) for p in (pairs, annotations.pairs))
    signs = np.where(annotations.is_must, 1.0, -1.0)

    def loss(x: Floats) -> float:
        right = 1.0 / (1.0 + np.exp(-signs * (x[0] - x[1] * asked)))
        return float(-np.log(0.1 + 0.8 * right).sum())

    intercept, slope = minimize(loss, np.ones(2), method="Nelder-Mead").x
    assert must == pytest.approx(0.1 + 0.8 / (1.0 + np.exp(slope * squares - intercept)), abs=0.01)
    together = (labels[pairs[:, 0]] == labels[pairs[:, 1]]).mean()
    assert 0.3 * together < (must.mean() - 0.1) / 0.8 < 3.0 * together


def test_no_random_pairs_stand_beside_answers_about_random_pairs(skewed_rows: Rows) -> None:
    X, labels = skewed_rows
    layers, table = uniform_layers(labels, 900), Table(X, 40, SeedSequence(0))
    annotations = list_annotations(layers, SeedSequence(0))
    assert len(module.random_pairs(table, layers, annotations).pairs) == 0
    contest = contest_of(Table(X, 3, SeedSequence(0)), layers)
    assert all(skill.overall is skill.with_distance for skill in contest.skills.values())


def test_a_structure_predicts_random_pairs_by_the_classes_of_each_fold() -> None:
    rng = np.random.default_rng(5)
    labels = rng.integers(4, size=300)
    X = 1.2 * rng.normal(size=(4, 3))[labels] + rng.normal(size=(300, 3))
    layers, table = near_layers((X, labels), 300), Table(X, 4, SeedSequence(0))
    annotations = list_annotations(layers, table.seed)
    ranking = choose_structure(table, layers)
    structure = next(iter(ranking.partitions))
    skill = module.rank_with_groups(table, layers, ranking).skills[structure]
    contest = contest_of(table, layers)
    agreeing, parts = ranking.candidates[structure].agreements, ranking.partitions[structure]
    together = np.where(annotations.is_must, agreeing, 1.0 - agreeing)
    pairs = contest.random.pairs
    assert len(pairs) == module.N_RANDOM
    same = [
        parts[number % FOLDS][first] == parts[number % FOLDS][second]
        for number, (first, second) in enumerate(pairs)
    ]
    expected = contest.skill(np.append(together, same))
    assert skill.overall.log_loss == pytest.approx(expected.overall.log_loss)
    assert skill.overall.log_loss > skill.with_distance.log_loss


def test_structures_are_compared_on_random_pairs_too(skewed_rows: Rows) -> None:
    X, labels = skewed_rows
    layers, n_classes = near_layers(skewed_rows, 900), int(labels.max()) + 1
    annotations = list_annotations(layers, SeedSequence(0))
    contest = contest_of(Table(X, n_classes, SeedSequence(0)), layers)
    structure, count = contest.ranked_structures[0], len(annotations.folds)
    together, must = contest.shares[structure], contest.random.must_probabilities
    columns = np.column_stack([contest.distances, together])
    targets = np.append(1.0 * annotations.is_must, must)
    weights = np.append(np.ones(count), np.full(len(must), module.RANDOM_WEIGHT * count / len(must)))
    spread = np.where(columns.std(axis=0) > 0.0, columns.std(axis=0), 1.0)
    columns = np.column_stack([np.ones(len(columns)), (columns - columns.mean(axis=0)) / spread])

    def losses(x: Floats) -> Floats:
        odds = columns @ x
        return targets * np.logaddexp(0.0, -odds) + (1.0 - targets) * np.logaddexp(0.0, odds)

    x = minimize(lambda x: weights @ losses(x) + 5e-4 * x @ x, np.zeros(columns.shape[1])).x
    values = losses(x)
    expected = values[:count].mean() + module.RANDOM_WEIGHT * values[count:].mean()
    assert contest.skills[structure].overall.log_loss == pytest.approx(expected, abs=1e-3)
    unrelated = contest.skill(np.arange(len(together)) / len(together))
    assert unrelated.overall.log_loss > contest.skills[structure].overall.log_loss


def test_fits_to_the_features_of_many_classes_are_averaged(blurred_rows: Rows) -> None:
    X, labels = blurred_rows
    streams = SeedSequence(1).spawn(3)
    solver = prepare(ANY_SHAPE, X, uniform_layers(labels, 300), 60, SeedSequence(0))
    single = solver.choose(streams)
    average = solver.average(single, streams)
    assert not solver.structure.annotated
    assert average.n_averaged > len(single.fits) == 3  # other fits to the features take part
    assert not single.n_averaged
    assert "found without the answers" in average.words
    best = max(single.fits, key=lambda fit: fit.objective)
    assert adjusted_rand(labels, average.fits[0].labels) > adjusted_rand(labels, best.labels) - 0.02


def test_weights_count_as_so_many_answers(skewed_rows: Rows) -> None:
    X, labels = skewed_rows
    layers = draw_layers(labels, 200, 0.95)
    heavy = [replace(layer, weights=np.full(len(layer.pairs), 2.0)) for layer in layers]
    one, two = (groups.answers_of(link(some, len(X))) for some in (layers, heavy))
    assert two.odds == pytest.approx(2.0 * one.odds)


def answers_alone(
    labels: NDArray[np.int64], count: int, accuracy: float | None
) -> tuple[Floats, list[Layer]]:
    """Return features that say nothing, and right answers about uniform pairs."""
    rng = np.random.default_rng(2)
    pairs = rng.integers(len(labels), size=(count, 2))
    return rng.normal(size=(len(labels), 3)), layers_of(pairs, are_alike(labels, pairs), accuracy=accuracy)


@pytest.mark.parametrize("accuracy", [None, 1.0])
def test_answers_that_decide_everything_are_not_given_up(accuracy: float | None) -> None:
    labels = np.arange(150) % 3
    X, layers = answers_alone(labels, 600, accuracy)
    solver = prepare(ANY_SHAPE, X, layers, 3, SeedSequence(0))
    solved = solver.solve([SeedSequence(0, spawn_key=(restart,)) for restart in range(3)])
    best = max(solved.fits, key=lambda fit: fit.objective)
    assert adjusted_rand(labels, best.labels) > 0.95
    if accuracy is None:
        assert present(best.gaussians).accuracies[0][0] > 0.95


def test_answers_alone_are_tried_where_they_are_enough() -> None:
    def kinds(n_classes: int, n_pairs: int) -> set[str]:
        return {structure.covariance for structure in merged_structures(400, 5, n_classes, n_pairs)}

    assert SIGNED not in kinds(2, 200)
    assert SIGNED in kinds(2, 201)
    assert SIGNED not in kinds(10, 4_000)


@pytest.mark.parametrize("kind", [AVERAGE, SIGNED, "spherical", "tied"])
def test_an_assumed_accuracy_gives_the_fit_of_a_given_one(kind: str) -> None:
    labels = np.arange(90) % 3
    (X, unknown), (_, stated_layers) = answers_alone(labels, 200, None), answers_alone(labels, 200, 0.9)
    table, structure = Table(X, 3, SeedSequence(0)), Structure(NONE, 1, kind)
    assumed = structure._replace(odds=float(np.log(0.9 / (1.0 - 0.9))))
    fit, expected = (
        table.solve(variant, layers, np.random.default_rng(0))
        for variant, layers in ((assumed, unknown), (structure, stated_layers))
    )
    assert fit.classes == pytest.approx(expected.classes, abs=1e-9)
    assert fit.bound == pytest.approx(expected.bound)
    assert list(fit.accuracies) == [0]
    assert not expected.accuracies


def test_accuracies_are_tried_only_if_none_is_given(skewed_rows: Rows) -> None:
    X, labels = skewed_rows
    odds = {
        accuracy: {
            structure.odds
            for structure in module.rank_with_groups(
                Table(X, int(labels.max()) + 1, SeedSequence(0)), draw_layers(labels, 100, accuracy), FEATURES
            ).skills
        }
        for accuracy in (0.9, None)
    }
    assert odds[0.9] == {0.0}
    assert odds[None] == {0.0, *ODDS} - {groups.DEFAULT_ODDS}


def test_rows_without_answers_are_plain_average_linkage() -> None:
    X = np.random.default_rng(3).normal(size=(150, 4))
    table, rng = Table(X, 7, SeedSequence(0)), np.random.default_rng(0)
    fit = table.fit_groups(
        [Structure(NONE, 7, ROWS, "equal", annotated=False)], draw_layers(X[:, 0] > 0, 40, 0.9), rng
    )[0]
    plain = fcluster(linkage(pdist(X, "sqeuclidean"), "average"), 7, "maxclust")
    assert adjusted_rand(plain - 1, fit.labels) > 0.9  # few rows go to the nearest part of another class


@pytest.mark.parametrize(("skew", "linkage_of_rows"), [(1.0, ROWS), (0.0, "Genie 0.1"), (1.0, "Genie 0.5")])
def test_thin_classes_are_merged_from_single_rows(skew: float, linkage_of_rows: str) -> None:
    sizes = {"n_clusters": 20, "n_samples": 300, "n_features": 100}
    X, labels = draw_mixture(
        np.random.default_rng(3), **sizes, variance=(0.1, 0.3), kind="embeddings", skew=skew
    )
    layers, table = draw_layers(labels, 300, 0.9), Table(X, 20, SeedSequence(0))
    scores = {}
    for kind in (linkage_of_rows, AVERAGE):
        (fit,) = table.fit_groups([Structure(NONE, 5, kind, "equal")], layers, np.random.default_rng(0))
        scores[kind] = adjusted_rand(labels, fit.labels)
    assert scores[linkage_of_rows] > scores[AVERAGE] + 0.1


def test_partitions_without_answers_are_found_once_and_change_no_other(skewed_rows: Rows) -> None:
    X, labels = skewed_rows
    table, layers = Table(X, 12, SeedSequence(0)), draw_layers(labels, 300, 0.9)
    alone = [Structure(NONE, 9, kind, "equal", annotated=False) for kind in (ROWS, *GENIE)]
    structures = [*alone, Structure(NONE, 9, ROWS, "equal"), Structure(NONE, 9, AVERAGE, "equal")]
    first, second = (table.fit_groups(structures, layers, np.random.default_rng(0)) for _ in range(2))
    rest = Table(X, 12, SeedSequence(0)).fit_groups(structures[3:], layers, np.random.default_rng(0))
    for fit, again in zip([*first, *first[3:]], [*second, *rest], strict=True):
        np.testing.assert_array_equal(fit.classes, again.classes)
    assert all(fit.classes is again.classes for fit, again in zip(first[:3], second, strict=False))


def test_the_number_of_thin_classes_is_found_by_trees_of_rows() -> None:
    sizes = {"n_clusters": 30, "n_samples": 900, "n_features": 100}
    X, labels = draw_mixture(np.random.default_rng(3), **sizes, variance=(0.1, 0.3), kind="embeddings")
    cut = chosen_cut(X, uniform_layers(labels, 900))
    assert cut.is_by_nearest
    assert 20 < cut.n_clusters < 45


def test_large_tables_have_no_trees_of_rows_and_starts_have_answers(skewed_rows: Rows) -> None:
    assert ROWS not in {structure.covariance for structure in merged_structures(MOST_ROWS + 1, 5, 20)}
    X, labels = skewed_rows
    layers, table = draw_layers(labels, 300, 0.9), Table(X, 20, SeedSequence(0))
    contest = contest_of(table, layers)
    assert any(not structure.annotated for structure in contest.ranked_structures)
    assert all(structure.annotated for structure in contest.best_annotated(len(contest.ranked_structures)))


def test_groups_that_are_clearly_behind_a_rival_are_tried_on_two_folds_only() -> None:
    rng = np.random.default_rng(0)
    X, labels = rng.normal(size=(200, 3)), rng.integers(2, size=200)  # features say nothing
    layers, table = draw_layers(labels, 300, 0.9), Table(X, 2, SeedSequence(0))
    annotations = list_annotations(layers, table.seed)
    truth = 1.0 * (labels[annotations.pairs[:, 0]] == labels[annotations.pairs[:, 1]])
    alone = contest_of(table, layers)
    rival = contest_of(table, layers, np.clip(truth, 0.1, 0.9))
    assert len(rival.skills) == module.LINEAR_STARTS < len(alone.skills)
    assert set(rival.best_annotated(module.LINEAR_STARTS)) == set(rival.skills)
    np.testing.assert_array_equal(rival.distances, alone.distances)  # over all folds and spaces
    for structure, skill in rival.skills.items():
        if structure in alone.skills:
            assert skill.with_distance.log_loss == alone.skills[structure].with_distance.log_loss


def test_many_classes_keep_as_many_groups_as_an_average_takes() -> None:
    X, labels = draw_mixture(np.random.default_rng(3), n_clusters=40, n_samples=200, n_features=5)
    layers, table = draw_layers(labels, 200, 0.9), Table(X, 40, SeedSequence(0))
    annotations = list_annotations(layers, table.seed)
    contest = contest_of(table, layers, 1.0 * annotations.is_must)
    assert len(contest.skills) == module.MEMBERS < len(contest.structures)
    assert set(contest.skills) == set(contest.best_annotated(module.MEMBERS))


def test_rows_are_averaged_as_by_average_linkage_of_all_of_them() -> None:
    rng = np.random.default_rng(3)
    labels = rng.integers(4, size=60)
    partitions = [np.where(rng.random(60) < 0.7, labels, rng.integers(4, size=60)) for _ in range(9)]
    weights = rng.uniform(0.2, 1.0, 9)
    apart = np.average([part[:, None] != part for part in partitions], axis=0, weights=weights)
    merged = fcluster(linkage(squareform(apart, checks=False), "average"), 4, "maxclust") - 1
    weighted = list(zip(partitions, weights.tolist(), strict=True))
    classes = groups.average_votes(rng.normal(size=(60, 2)), weighted, 4, rng)
    expected = merging.votes(merged, weighted)
    assert adjusted_rand(classes.argmax(axis=1), expected.argmax(axis=1)) == 1.0
    assert classes.max(axis=1) == pytest.approx(expected.max(axis=1))


def test_no_class_of_an_average_is_empty() -> None:
    # the pairs of rows of the small classes are together in one of three partitions alone
    parts = [np.repeat([0, 1], 6), np.repeat([0, 1], 6), np.array([0] * 5 + [2] + [1] * 5 + [3])]
    classes = groups.average_votes(
        np.zeros((12, 1)), [(part, 1.0) for part in parts], 4, np.random.default_rng(0)
    )
    assert np.unique(classes.argmax(axis=1)).tolist() == [0, 1, 2, 3]
    assert classes.sum(axis=1) == pytest.approx(1.0)
    assert classes.max() < 1.0


@pytest.fixture(scope="module")
def waves() -> Rows:
    """Return four classes that no number of Gaussians fits well, among columns of noise."""
    rng = np.random.default_rng(4)
    labels = rng.integers(4, size=400)
    angle = rng.uniform(0.0, 2.0 * math.pi, 400)
    first = np.column_stack([angle, np.sin(angle) + labels + 0.3 * rng.normal(size=400)])
    return np.hstack([first, rng.normal(size=(400, 6))]), labels


def test_candidates_are_averaged_by_how_well_they_predict(waves: Rows) -> None:
    X, labels = waves
    layers, streams = draw_layers(labels, 400, 0.95), [SeedSequence(0, spawn_key=(n,)) for n in range(5)]
    solver = prepare(ANY_SHAPE, X, layers, 4, SeedSequence(0))
    chosen = solver.choose(streams)
    average = solver.average(chosen, streams)
    assert len(chosen.fits) == 5
    (fit,) = average.fits
    skills, partitions = solver.ranking.skills, solver.ranking.partitions
    assert len(partitions) > 3
    assert all(len(parts) == FOLDS for parts in partitions.values())
    losses = {structure: skills[structure].with_distance.log_loss for structure in partitions}
    leaders = sorted(losses, key=lambda structure: losses[structure])[:8]
    best = sorted(chosen.fits, key=lambda one: -one.objective)[:3]
    weighted = [(one.labels, 1.0 / 3.0) for one in best]
    n_structures = 0
    for leader in leaders:
        gain, error = skills[leaders[0]].with_distance.gain_over(skills[leader].with_distance)
        share = math.exp(-0.5 * (gain / (2.0 * error)) ** 2) if error else 1.0
        n_structures += share > 0.02
        weighted += [(part, share / FOLDS) for part in partitions[leader] if share > 0.02]
    expected = groups.average_votes(X - X.mean(axis=0), weighted, 4, np.random.default_rng(0))
    assert adjusted_rand(fit.labels, expected.argmax(axis=1)) == 1.0
    # rows change, and neither the Gaussians nor the numbers of their classes
    assert fit.gaussians.means is best[0].gaussians.means
    assert (fit.labels == best[0].labels).mean() > 0.8
    assert average.words.startswith(f"an average of {len(weighted)} fits of {n_structures} structures; ")
    assert average.words.endswith(chosen.words)
    assert average.name == chosen.name
    scores = [adjusted_rand(labels, one.labels) for one in chosen.fits]
    assert adjusted_rand(labels, fit.labels) > np.mean(scores)


def test_what_the_features_choose_is_not_averaged_if_no_answer_says_otherwise(waves: Rows) -> None:
    X, labels = waves
    layers = draw_layers(np.random.default_rng(2).permutation(labels), 400, None)
    streams = [SeedSequence(0, spawn_key=(n,)) for n in range(3)]
    solver = prepare(ANY_SHAPE, X, layers, 4, SeedSequence(0))
    chosen = solver.choose(streams)
    assert chosen.has_no_skill
    assert solver.average(chosen, streams) is chosen


def test_answers_vote_beside_features_that_were_chosen_by_a_hair(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {"n_clusters": 20, "n_samples": 300, "n_features": 100}
    X, labels = draw_mixture(np.random.default_rng(2), **sizes, variance=(0.1, 0.3), kind="embeddings")
    layers, streams = uniform_layers(labels, 90), [SeedSequence(0), SeedSequence(1)]
    monkeypatch.setattr(module, "LEAD", 100.0)  # features are chosen, whatever the answers say
    solver = prepare(ANY_SHAPE, X, layers, 20, SeedSequence(0))
    chosen = solver.choose(streams)
    assert not solver.structure.annotated
    average = solver.average(chosen, streams)
    assert "found without the answers" in average.words
    alone = max(chosen.fits, key=lambda fit: fit.objective)
    assert adjusted_rand(labels, average.fits[0].labels) > adjusted_rand(labels, alone.labels) + 0.2
    skills = solver.ranking.skills
    simple = skills[solver.structure].overall
    ahead = [
        structure
        for structure in solver.ranking.partitions
        if skills[structure].overall.is_ahead(simple, 1.0)
    ]
    assert ahead
    assert all(structure.annotated for structure in ahead)
    n_voters = min(len(ahead), solvers.MEMBERS)
    assert f" of {n_voters + 1} structures, {n_voters} of which know the answers; " in average.words
    monkeypatch.setattr(solvers, "VOTING_LEAD", 100.0)
    assert solver.average(chosen, streams) is chosen


def test_of_a_table_that_was_compared_on_a_part_only_merged_groups_are_averaged(
    waves: Rows, skewed_rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, labels = waves
    layers, streams = draw_layers(labels, 800, 0.95), [SeedSequence(0)]
    solver = prepare(ANY_SHAPE, X, layers, 4, SeedSequence(0))
    choice = solver.choose(streams, part=some_rows(X, layers, 300, np.random.default_rng(0)))
    assert solver.ranking.partitions
    assert solver.average(choice, streams) is choice
    monkeypatch.setattr(module, "LEAD", -100.0)  # groups are ahead of other structures
    X, labels = skewed_rows
    layers, n_classes = draw_layers(labels, 3000, 0.95), int(labels.max()) + 1
    solver = prepare(ANY_SHAPE, X, layers, n_classes, SeedSequence(0))
    choice = solver.choose(streams, part=some_rows(X, layers, len(X) - 50, np.random.default_rng(0)))
    assert len(next(iter(solver.ranking.partitions.values()))[0]) < len(X)
    average = solver.average(choice, streams)
    assert average.fits[0].labels.shape == labels.shape
    assert average.words.startswith("an average of ")
    assert adjusted_rand(labels, average.fits[0].labels) > adjusted_rand(labels, choice.fits[0].labels) - 0.02


def test_of_groups_that_predict_as_well_those_that_know_the_answers_come_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    labels, X = np.arange(90) % 3, np.random.default_rng(0).normal(size=(90, 2))
    structures = [Structure(NONE, 1, WARD, annotated=is_annotated) for is_annotated in (False, True)]
    monkeypatch.setattr(module, "merged_structures", lambda *sizes: structures)
    monkeypatch.setattr(module, "TIE", 100.0)  # all of them are as good as the best
    monkeypatch.setattr(module, "LEAD", -100.0)  # and ahead of the structure that was chosen
    table = Table(X, 3, SeedSequence(0))
    ranking = module.rank_with_groups(table, draw_layers(labels, 100, 0.95), FEATURES)
    is_annotated = [structure.annotated for structure in ranking.structures]
    assert is_annotated == [True, True, False, False]
    assert ranking.structures[2] == structures[0]


def test_random_pairs_take_off_the_same_whatever_an_answer_weighs() -> None:
    rng = np.random.default_rng(0)
    pairs, random_pairs = rng.integers(50, size=(80, 2)), rng.integers(50, size=(200, 2))
    must, together, distances = rng.random(200), rng.random(280), rng.random((280, 1))
    losses = []
    for weight in (1.0, 4.0):
        layers = [
            Layer(kind, pairs[rows], weights=np.full(40, weight))
            for kind, rows in ((MUST, slice(40)), (CANNOT, slice(40, 80)))
        ]
        annotations = list_annotations(layers, SeedSequence(0))
        count = len(annotations.folds)
        random = module.RandomPairs(annotations, random_pairs, must)
        rows = np.append(np.arange(count), np.arange(80, 280))
        logs, right = module.predict_answers(
            together[:count], distances[:count], annotations.is_must, annotations.weights
        )
        score = HeldOut(logs, right, annotations.weights, together[:count])
        losses.append(random.overall(together[rows], distances[rows], score).log_loss)
    assert losses[1] == pytest.approx(losses[0], abs=1e-3)


def test_classes_by_the_answers_alone_need_a_larger_lead_than_merged_groups(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    labels, X = np.arange(90) % 3, np.random.default_rng(0).normal(size=(90, 2))
    structures = [Structure(NONE, 1, kind) for kind in (WARD, SIGNED)]
    monkeypatch.setattr(module, "merged_structures", lambda *sizes: structures)
    monkeypatch.setattr(module, "LEAD", -100.0)  # all are ahead of the structure that was chosen
    monkeypatch.setattr(module, "SIGNED_LEAD", 100.0)
    table = Table(X, 3, SeedSequence(0))
    ranking = module.rank_with_groups(table, draw_layers(labels, 100, 0.95), FEATURES)
    kinds = {structure.covariance for structure in ranking.structures}
    assert WARD in kinds
    assert SIGNED not in kinds


def test_a_candidate_agrees_with_an_answer_by_its_probability_for_the_pair(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "merged_structures", lambda *sizes: [Structure(NONE, 1, WARD)])
    labels, X = np.arange(60) % 3, np.random.default_rng(0).normal(size=(60, 2))
    contest = contest_of(Table(X, 3, SeedSequence(0)), draw_layers(labels, 60, 0.95))
    is_must = contest.annotations.is_must
    agreements = contest.predict(np.full(len(is_must), 0.9)).agreements
    np.testing.assert_allclose(agreements, np.where(is_must, 0.9, 0.1))
