"""A cut of a tree of merged groups is chosen by its predictions, whatever made them."""

import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.random import SeedSequence
from numpy.typing import NDArray
from solving.answers import scores_behind

from sweep_clustering.kernels.choice import child_seed, list_annotations, training_layers
from sweep_clustering.kernels.groups import fit as groups
from sweep_clustering.kernels.groups import merging
from sweep_clustering.kernels.problem.data import CANNOT, MUST, Layer, link
from sweep_clustering.kernels.settings import FOLDS
from sweep_clustering.kernels.structure import AVERAGE, GENIE, METRIC, NONE, n_groups
from sweep_clustering.kernels.unions import contest as module
from sweep_clustering.kernels.unions.table import Table

Floats = NDArray[np.float64]
N_FEW = 10
NEAREST = next(iter(GENIE))

# Standard errors that the cut of each linkage into so many classes is behind the best one.
Behind = dict[tuple[str, int], float]


def weighted_layers(n_rows: int, count: int, accuracies: tuple[float, float]) -> list[Layer]:
    """Draw random pairs, a quarter of them must-links, with weights and an accuracy of either kind."""
    rng = np.random.default_rng(3)
    first = rng.integers(n_rows, size=count)
    pairs = np.column_stack([first, (first + rng.integers(1, n_rows, size=count)) % n_rows])
    weights, n_must = rng.uniform(0.5, 3.0, count), count // 4
    return [
        Layer(MUST, pairs[:n_must], weights[:n_must], accuracies[0]),
        Layer(CANNOT, pairs[n_must:], weights[n_must:], accuracies[1]),
    ]


X = np.random.default_rng(1).normal(size=(120, 3))
LAYERS = weighted_layers(len(X), 80, (0.9, 0.8))
ANNOTATIONS = list_annotations(LAYERS, SeedSequence(0))


def rating_of(behind: Behind, shares: dict[int, Floats] | None = None) -> module.Rating:
    """Return predictions, with the probability of each number of classes that pairs are of one class."""
    rating = module.Rating()
    for (linkage, count), score in scores_behind(behind, ANNOTATIONS.weights).items():
        joint_shares = np.ones(len(score.weights)) if shares is None else shares[count]
        agreements = np.where(ANNOTATIONS.is_must, joint_shares, 1.0 - joint_shares)
        key = (NONE if linkage == AVERAGE else METRIC, linkage), count
        rating[key] = replace(score, agreements=agreements)
    return rating


def cut_of(
    monkeypatch: pytest.MonkeyPatch, *ratings: module.Ratings, share: module.Share = module.OPEN_SHARE
) -> module.Cut | None:
    """Choose a cut where trees of groups, and those of rows if they are grown, have these predictions."""
    remaining = list(ratings)
    monkeypatch.setattr(module, "share_together", lambda *arguments: share)
    monkeypatch.setattr(module, "rate_cuts", lambda *arguments: remaining.pop(0))
    cut = module.choose_cut(X, LAYERS, SeedSequence(0), N_FEW)
    assert not remaining  # trees of rows are grown if and only if they are expected
    return cut


AVERAGES = {(AVERAGE, 2): 5.0, (AVERAGE, 10): 1.6, (AVERAGE, 15): 1.1, (AVERAGE, 18): 0.9, (AVERAGE, 20): 0.0}
AVERAGES |= {(AVERAGE, 22): 0.9, (AVERAGE, 24): 1.1}


@pytest.mark.parametrize(
    ("behind", "expected"),
    [
        ({}, module.Cut(18, 22)),
        ({(NEAREST, 20): -9.0}, module.Cut(18, 22)),  # with as many classes it teaches nothing
        ({(NEAREST, 19): -1.4}, module.Cut(18, 22)),
        ({(NEAREST, 19): -1.6, (NEAREST, 9): 0.6}, module.Cut(19, 19, is_by_nearest=True)),
        ({(NEAREST, 19): -1.6, (NEAREST, 17): -0.9}, module.Cut(17, 19, is_by_nearest=True)),
        ({(NEAREST, 19): -2.0, (NEAREST, 9): -1.9}, None),
        ({(AVERAGE, 10): 1.4}, None),
        ({(AVERAGE, 10): -0.1}, None),
        (
            {(AVERAGE, 10): -0.1, (NEAREST, 25): -2.5, (NEAREST, 9): 9.0},
            module.Cut(25, 25, is_by_nearest=True),
        ),
    ],
)
def test_a_cut_is_clearly_better_than_few_classes_and_the_largest_of_equal_ones(
    behind: Behind, expected: module.Cut | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    rating = rating_of(AVERAGES | behind)
    flat = rating_of({(AVERAGE, 2): 0.5, (AVERAGE, 20): 0.0})
    ratings = [module.Ratings(rating, flat, {})] * (1 if expected else 2)
    assert cut_of(monkeypatch, *ratings) == expected
    # if distances leave the number open, the answers alone say it
    ratings = [module.Ratings(flat, rating, {})] * (1 if expected else 2)
    assert cut_of(monkeypatch, *ratings) == expected
    # random pairs decide, and a cut that answers alone do not see is not clear
    ratings = [module.Ratings(flat, flat, rating)] * (1 if expected else 2)
    assert cut_of(monkeypatch, *ratings) == (expected and expected._replace(is_clear=False))
    ratings = [module.Ratings(rating, flat, flat)] * 2
    assert cut_of(monkeypatch, *ratings) is None


def test_a_cut_that_puts_clearly_fewer_pairs_together_than_there_are_is_not_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    weights = ANNOTATIONS.weights
    for total, expected in ((0.201, module.Cut(18, 22)), (0.199, module.Cut(18, 18))):
        # the light pairs are together, whose weights are less than their number
        rows = np.argsort(weights)[:20]
        light = np.zeros(len(weights))
        light[rows] = total * weights.sum() / weights[rows].sum()
        shares = {count: np.full(len(weights), 0.0 if count > 18 else 1.0) for _, count in AVERAGES}
        shares[22] = light
        ratings = module.Ratings(rating_of(AVERAGES, shares), {}, {})
        assert cut_of(monkeypatch, ratings, share=module.Share(0.6, 0.2)) == expected


@pytest.mark.parametrize(
    ("few", "share", "expected"),
    [
        (1.6, module.OPEN_SHARE, None),
        (1.6, module.Share(0.45, 0.02), None),  # not clearly less than one half
        (1.6, module.Share(0.2, 0.015), module.Cut(20, 22)),
        (1.6, module.Share(0.2, 0.015, is_bound=True), module.Cut(20, 22)),
        (1.6, module.Share(0.2, 0.018), None),  # two standard errors rule out the right number now and then
        (1.4, module.Share(0.2, 0.015), None),
    ],
)
def test_cuts_that_put_clearly_more_pairs_together_than_there_are_are_no_rivals(
    few: float, share: module.Share, expected: module.Cut | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    behind = AVERAGES | {(AVERAGE, 2): -2.0, (AVERAGE, 10): few, (NEAREST, 9): -5.0, (NEAREST, 19): 9.0}
    n_answers, coarse = len(ANNOTATIONS.weights), {2, 9, 18}
    shares = {count: np.full(n_answers, 0.25 if count in coarse else 0.2) for _, count in behind}
    flat = rating_of({(AVERAGE, 2): 0.5, (AVERAGE, 20): 0.0})
    ratings = [module.Ratings(rating_of(behind, shares), flat, {})] * (1 if expected else 2)
    assert cut_of(monkeypatch, *ratings, share=share) == expected


@pytest.mark.parametrize(("n_best", "has_rows"), [(27, False), (29, True)])
def test_trees_of_rows_are_grown_if_the_best_cut_has_nearly_all_groups(
    n_best: int, has_rows: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert n_groups(len(X), 1) == 40
    coarse = rating_of({(AVERAGE, 2): 3.0, (AVERAGE, n_best): 0.0, (NEAREST, 10): 9.0})
    fine = rating_of({(AVERAGE, 2): 3.5, (AVERAGE, n_best): 9.0, (AVERAGE, 60): 0.0, (NEAREST, 10): 4.0})
    ratings = [module.Ratings(rating, rating, {}) for rating in (coarse, fine)]
    cut = cut_of(monkeypatch, *ratings[: 1 + has_rows])
    assert cut == (module.Cut(60, 60) if has_rows else module.Cut(n_best, n_best))
    if has_rows:  # few classes are found better by groups, others are those of rows
        kept = {key: score is coarse.get(key) for key, score in fine.items()}
        assert [key for key, is_coarse in kept.items() if is_coarse] == [((NONE, AVERAGE), 2)]


@pytest.mark.parametrize(
    ("share", "expected"),
    [
        (module.Share(0.04, 0.005), module.Cut(19, 25, is_by_share=True)),  # 1 / 0.055 and 1 / 0.04
        (module.Share(0.001, 0.02), module.Cut(17, 50, is_by_share=True)),  # 1 / 0.061 and 1 / 0.02
        (module.Share(0.001, 0.006), module.Cut(53, 60, is_by_share=True)),  # at most half of the rows
        (module.Share(0.0, 0.005), None),  # more than these are sure
        (module.Share(0.09, 0.0001), module.Cut(12, 12, is_by_share=True)),
        (module.Share(0.101, 0.0), None),
        (module.OPEN_SHARE, None),
    ],
)
def test_the_share_of_pairs_of_one_class_decides_if_no_number_predicts_better(
    share: module.Share, expected: module.Cut | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    flat = rating_of({(AVERAGE, 2): 0.5, (AVERAGE, 20): 0.0})
    assert cut_of(monkeypatch, *[module.Ratings(flat, flat, {})] * 2, share=share) == expected


def error_of_pairs(deviations: Floats, pairs: NDArray[np.int64]) -> float:
    """Return the standard error of a sum by a loop over each two pairs, which depend if they share a row."""
    both = [
        deviations[a] * deviations[b] * (1 if a == b else len({*pairs[a]} & {*pairs[b]}))
        for a in range(len(pairs))
        for b in range(len(pairs))
    ]
    return math.sqrt(max(sum(both), np.square(deviations).sum()))


def test_a_share_counts_answers_by_their_weights_and_accuracies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CERTAINTY", math.inf)
    must, weights, accuracies = ANNOTATIONS.is_must, ANNOTATIONS.weights, ANNOTATIONS.accuracies
    # a share s of pairs of one class has a share a s + (1 - a) (1 - s) of must-links
    value = sum(weights * (must - (1.0 - accuracies))) / sum(weights * (2.0 * accuracies - 1.0))
    expected = accuracies * value + (1.0 - accuracies) * (1.0 - value)
    error = error_of_pairs(weights * (must - expected), ANNOTATIONS.pairs)
    share = module.share_together(X, ANNOTATIONS)
    assert share[:2] == pytest.approx((value, error / sum(weights * (2.0 * accuracies - 1.0))))
    assert not share.is_bound
    # if one accuracy is unknown, the share of must-links bounds it
    unknown = ANNOTATIONS._replace(accuracies=np.where(must, np.nan, accuracies))
    share, rate = module.share_together(X, unknown), sum(weights * must) / sum(weights)
    error = error_of_pairs(weights * (must - rate), ANNOTATIONS.pairs) / sum(weights)
    assert share == pytest.approx((rate, error, True))


@pytest.mark.parametrize("step", [1, 2])
def test_pairs_are_random_whose_distances_have_the_mean_of_all_pairs(
    step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PAIRS_ENOUGH", len(ANNOTATIONS.pairs) // step)
    pairs = ANNOTATIONS.pairs[::step]
    squares = np.square(X[pairs[:, 0]] - X[pairs[:, 1]]).sum(axis=1)
    mean = np.mean([np.square(X[i] - X[j]).sum() for i in range(len(X)) for j in range(len(X)) if i != j])
    surprise = abs(squares.sum() - len(pairs) * mean) / error_of_pairs(squares - squares.mean(), pairs)
    for factor in (0.99, 1.01):
        monkeypatch.setattr(module, "CERTAINTY", factor * surprise)
        assert module.are_random(X, ANNOTATIONS) == (factor > 1.0)


def test_answers_about_random_pairs_have_the_mean_accuracy_by_their_weights() -> None:
    rng = np.random.default_rng(5)
    near = np.argsort(np.square(X[:, None] - X).sum(axis=2), axis=1)[:, 1]
    pairs, weights = np.column_stack([np.arange(120), near]), rng.uniform(0.5, 3.0, 120)
    layers = [
        Layer(MUST, pairs[:70], weights[:70], 0.95),
        Layer(CANNOT, pairs[70:], weights[70:], 0.7),
    ]
    table, annotations = Table(X, 2, SeedSequence(0)), list_annotations(layers, SeedSequence(0))
    answers = groups.answers_of(link(layers, 120))
    random = module.random_pairs(table, layers, annotations)
    asked, drawn = (np.square(X[p[:, 0]] - X[p[:, 1]]).sum(axis=1) for p in (answers.pairs, random.pairs))
    relation = groups.logistic(asked, answers)
    p = (answers.accuracies * answers.weights).sum() / answers.weights.sum()
    joint_share = 1.0 / (1.0 + np.exp(relation.slope * drawn - relation.intercept))
    np.testing.assert_allclose(random.must_probabilities, p * joint_share + (1.0 - p) * (1.0 - joint_share))


@pytest.mark.parametrize("tree", [(NONE, AVERAGE), (METRIC, AVERAGE), (METRIC, NEAREST)])
def test_a_cut_predicts_the_answers_of_each_fold_by_the_tree_of_the_others(tree: tuple[str, str]) -> None:
    n_leaves, count, table = 60, 9, Table(X, 2, SeedSequence(0))
    random = module.RandomPairs(ANNOTATIONS, np.empty((0, 2), np.int64), np.empty(0))
    ratings = module.rate_cuts(table, LAYERS, random, n_leaves, map)
    shares, distances = np.zeros(len(ANNOTATIONS.folds)), np.zeros((len(ANNOTATIONS.folds), 2))
    for fold in range(FOLDS):
        training, is_tested = training_layers(LAYERS, ANNOTATIONS, fold), ANNOTATIONS.folds == fold
        answers, (i, j) = groups.answers_of(link(training, len(X))), ANNOTATIONS.pairs[is_tested].T
        spaces = NONE, METRIC
        places = [table.place(table.axes_in(space, training, answers)) for space in spaces]
        distances[is_tested] = np.column_stack([np.square(Z[i] - Z[j]).sum(axis=1) for Z in places])
        Z = places[spaces.index(tree[0])]
        rng = np.random.default_rng(child_seed(table.seed, module.STREAM))
        leaves = groups.leaves_of(merging.small_groups(Z, n_leaves, rng), tree[1])
        classes = merging.cut(groups.tree_of(Z, leaves, answers, tree[1]), count)[leaves]
        shares[is_tested] = classes[i] == classes[j]
    is_must, weights = ANNOTATIONS.is_must, ANNOTATIONS.weights
    for rating, columns in ((ratings.with_distance, distances), (ratings.without_distance, distances[:, :0])):
        score = rating[tree, count]
        logs, right = module.predict_answers(shares, columns, is_must, weights)
        np.testing.assert_allclose(score.log_probabilities, logs, atol=1e-9)
        np.testing.assert_array_equal(score.right, right)
        np.testing.assert_array_equal(score.agreements, shares == is_must)
        np.testing.assert_array_equal(score.weights, weights)
