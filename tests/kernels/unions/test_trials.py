"""Rounds of a race add candidates, and predictions of any origin rank them."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.random import SeedSequence
from numpy.typing import NDArray
from solving.answers import scores_behind

from sweep_clustering.kernels.choice import HeldOut, list_annotations
from sweep_clustering.kernels.fits import Gaussians
from sweep_clustering.kernels.problem.data import CANNOT, MUST, Layer
from sweep_clustering.kernels.settings import FOLDS
from sweep_clustering.kernels.structure import (
    AUTO,
    CANDIDATES,
    DISCRIMINATIVE,
    KMEANS,
    NONE,
    Structure,
)
from sweep_clustering.kernels.unions import race
from sweep_clustering.kernels.unions.race import Choices, Trials
from sweep_clustering.kernels.unions.table import CompactGaussians, Table

Floats = NDArray[np.float64]

COARSE, NEIGHBOURS, CLOSE, DIRECTIONS, ASSUMPTIONS, UNSUPERVISED = race.ROUNDS
X = np.random.default_rng(1).normal(size=(150, 4)) * [4.0, 3.0, 2.0, 1.0]
BALL, LARGE = Structure(NONE, 1, "spherical"), Structure(NONE, 8, "spherical")


def weighted_layers(accuracy: float | None = None) -> list[Layer]:
    """Draw 90 pairs, a third of them must-links, with weights."""
    rng = np.random.default_rng(2)
    first = rng.integers(150, size=90)
    pairs, weights = (
        np.column_stack([first, (first + rng.integers(1, 150, size=90)) % 150]),
        rng.uniform(0.5, 3.0, 90),
    )
    return [
        Layer(kind, pairs[rows], weights[rows], accuracy)
        for kind, rows in ((MUST, slice(30)), (CANNOT, slice(30, 90)))
    ]


LAYERS = weighted_layers(0.9)
ANNOTATIONS = list_annotations(LAYERS, SeedSequence(0))


def table_of(n_classes: int = 3) -> Table:
    return Table(X, n_classes, SeedSequence(0))


class Ranked:
    """Candidates of a race whose order is known, and those that a round adds."""

    def __init__(self, ranked: Sequence[Structure], annotations: Any = ANNOTATIONS) -> None:
        self.ranked, self.annotations = list(ranked), annotations
        self.scores = {(structure, 3): None for structure in ranked}
        self.added: list[tuple[list[Structure], int, list[Structure]]] = []

    def ranked_structures(self, starts: int) -> list[Structure]:
        return self.ranked if starts in (1, 3) else []

    def add(self, candidates: Iterable[Structure], starts: int, parents: Sequence[Structure] = ()) -> None:
        self.added.append((list(candidates), starts, list(parents)))


def added_by(
    add_candidates: Callable[[Any, Any], None], ranked: Sequence[Structure] = (), **parts: Any
) -> list[tuple[list[Structure], int, list[Structure]]]:
    """Return what a round adds, with the named parts."""
    trials = Ranked(ranked)
    parts = {"components": AUTO, "subspace": AUTO, "covariance": AUTO, "odds": (0.7, 1.5)} | parts
    add_candidates(Choices(table_of(), **parts), trials)
    return trials.added


def test_a_race_begins_with_each_shape_in_each_space_without_repetition() -> None:
    assert table_of().dims == (2, 4, NONE)
    ((candidates, starts, _),) = added_by(COARSE)
    assert starts == 1
    # Sixteen components have too few rows. Matrices are the same in all principal components as in the
    # features, and so are balls.
    expected = {Structure(space, count, "diagonal") for space in (2, 4, NONE) for count in (1, 4)}
    expected |= {Structure(space, count, "spherical") for space in (2, NONE) for count in (1, 4)}
    expected |= {Structure(space, count, "full") for space in (2, 4) for count in (1, 4)}
    expected |= {Structure(space, 1, "tied") for space in (2, 4)}
    assert len(candidates) == len(expected)
    assert set(candidates) == expected


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ({"subspace": 4}, {(4, 1, s) for s in CANDIDATES} | {(4, 4, s) for s in CANDIDATES if s != "tied"}),
        ({"components": 3, "covariance": "full"}, {(2, 3, "full"), (4, 3, "full")}),
        ({"components": 99, "subspace": NONE, "covariance": "full"}, {(NONE, 99, "full")}),
        (
            {"subspace": DISCRIMINATIVE, "covariance": "tied"},
            {(2, 1, "tied"), (4, 1, "tied"), (NONE, 1, "tied")},
        ),
    ],
)
def test_named_parts_are_those_of_all_candidates(
    parts: dict[str, Any], expected: set[tuple[int | str, int, str]]
) -> None:
    ((candidates, _, _),) = added_by(COARSE, **parts)
    assert {structure[:3] for structure in candidates} == expected


RANKED = [Structure(2, 2, "full"), Structure(2, 1, "tied"), LARGE, Structure(4, 1, "full"), BALL]
RANKED += [Structure(4, 6, "diagonal")]


def test_the_best_candidates_have_neighbours_of_half_and_twice_as_many_components() -> None:
    first, second = added_by(NEIGHBOURS, RANKED)
    assert first == second
    counts = [(2, 1, "full"), (2, 4, "full"), (NONE, 4, "spherical"), (4, 2, "full"), (NONE, 2, "spherical")]
    assert [structure[:3] for structure in first[0]] == counts  # a tied one has no twin, and 16 have no rows
    assert first[1] == 1
    assert added_by(NEIGHBOURS, RANKED, components=4) == []


def test_the_best_candidates_and_one_of_each_of_the_best_spaces_are_looked_at_closely() -> None:
    ranked = [Structure(2, count, "full") for count in (1, 2, 4, 6, 8)] + [BALL, Structure(4, 1, "full")]
    ((candidates, starts, parents),) = added_by(CLOSE, ranked)
    assert starts == 3
    assert parents == [ranked[0], BALL]
    assert candidates == [*ranked[:5], ranked[0], BALL]


@pytest.mark.parametrize(
    ("parts", "shapes"),
    [
        ({}, [("full", 1), ("spherical", 4), ("tied", 1)]),
        ({"covariance": "spherical"}, [("spherical", 4)]),
        ({"components": 1}, [("full", 1), ("tied", 1)]),
        ({"subspace": DISCRIMINATIVE, "covariance": "diagonal"}, [("diagonal", 1), ("diagonal", 4)]),
        ({"components": 50, "covariance": "full"}, [("full", 50)]),  # what is named is tried
        ({"subspace": 2}, None),
    ],
)
def test_directions_start_from_the_best_fits_in_the_best_spaces(
    parts: dict[str, Any], shapes: list[tuple[str, int]] | None
) -> None:
    added = added_by(DIRECTIONS, RANKED, **parts)
    parents = [RANKED[0], LARGE]
    expected = [
        Structure(DISCRIMINATIVE, count, shape, first=parent)
        for parent in parents
        for shape, count in shapes or ()
    ]
    assert added == ([] if shapes is None else [(expected, 3, [])])


@pytest.mark.parametrize(("rank", "subspace", "is_added"), [(3, AUTO, False), (3, DISCRIMINATIVE, True)])
def test_few_directions_are_tried_if_they_are_named(rank: int, subspace: str, is_added: bool) -> None:
    trials, small = Ranked([BALL]), Table(X[:, :rank], 3, SeedSequence(0))
    DIRECTIONS(Choices(small, AUTO, subspace, AUTO, ()), trials)
    assert bool(trials.added) == is_added
    # a fit that was clearly behind is no start
    ended = Ranked([BALL])
    ended.scores = {(BALL, 1): None}
    DIRECTIONS(Choices(table_of(), AUTO, DISCRIMINATIVE, AUTO, ()), ended)
    assert ended.added == [([], 3, [])]


def test_the_best_three_are_tried_with_each_accuracy_and_features_alone_if_everything_is_open() -> None:
    unknown = list_annotations(weighted_layers(), SeedSequence(0))
    trials, choices = Ranked(RANKED, unknown), Choices(table_of(), AUTO, AUTO, AUTO, (0.7, 1.5))
    ASSUMPTIONS(choices, trials)
    expected = [structure._replace(odds=odds) for structure in RANKED[:3] for odds in (0.7, 1.5)]
    assert trials.added == [(expected, 3, [])]
    ((candidates, starts, _),) = added_by(UNSUPERVISED)
    plain = [Structure(NONE, 1, shape, annotated=False) for shape in CANDIDATES]
    equal = [structure._replace(proportions="equal") for structure in plain]
    assert candidates == [Structure(NONE, 1, KMEANS, annotated=False), *plain, *equal]
    assert starts == 3
    for part in ({"components": 1}, {"subspace": NONE}, {"covariance": "full"}):
        assert added_by(UNSUPERVISED, **part) == []


# Predictions.


def shares_of(quality: float, seed: int) -> Floats:
    """Return probabilities for the pairs that agree with the annotations by a quality, and vary."""
    agreements = np.clip(
        np.random.default_rng(seed).normal(quality, 0.25, len(ANNOTATIONS.folds)), 0.01, 0.99
    )
    return np.where(ANNOTATIONS.is_must, agreements, 1.0 - agreements)


class Predictions:
    """A runner that predicts by shares of each structure, and notes which folds it predicts."""

    def __init__(self, shares: dict[Structure, Floats]) -> None:
        self.shares = shares
        self.folds: dict[Structure, list[int]] = {structure: [] for structure in shares}

    def __call__(self, task: Any, work: Iterable[Any]) -> list[Any]:
        return [self.trial(*item) if isinstance(item[0], Structure) else None for item in work]

    def trial(self, structure: Structure, folds: Sequence[int]) -> race.Trial:
        self.folds[structure] += folds
        predictions = dict[int, race.FoldPrediction]()
        for fold in folds:
            shares = self.shares[structure][ANNOTATIONS.folds == fold]
            predictions[fold] = race.FoldPrediction(shares, shares**2, np.zeros(150, np.int16))
        return race.Trial(SimpleNamespace(), {}, predictions)  # type: ignore[arg-type]


def score_by_hand(shares: Floats, is_tested: NDArray[np.bool_]) -> HeldOut:
    """Return the predictions in the best of 21 mixtures with the rate of must-links in other folds."""
    is_must, weights = ANNOTATIONS.is_must, ANNOTATIONS.weights
    rates = np.zeros(len(is_must))
    for place, fold in enumerate(ANNOTATIONS.folds):
        rest = ANNOTATIONS.folds != fold
        rates[place] = (weights[rest & is_must].sum() + 1.0) / (weights[rest].sum() + 2.0)
    mixtures = [
        sure * np.clip(shares**2, 1e-3, 1.0 - 1e-3) + (1.0 - sure) * rates for sure in np.linspace(0, 1, 21)
    ]
    probabilities = [np.where(is_must, mixture, 1.0 - mixture)[is_tested] for mixture in mixtures]
    best = max(probabilities, key=lambda values: float(weights[is_tested] @ np.log(values)))
    agreements = np.where(is_must, shares, 1.0 - shares)[is_tested]
    return HeldOut(np.log(best), best > 0.5, weights[is_tested], agreements)


def test_candidates_that_are_clearly_behind_after_two_folds_end() -> None:
    structures = [Structure(NONE, count, "spherical") for count in range(1, 6)]
    qualities = (0.9, 0.88, 0.8, 0.6, 0.3)
    shares = {s: shares_of(q, seed) for seed, (s, q) in enumerate(zip(structures, qualities, strict=True))}
    predictions = Predictions(shares)
    trials = Trials(table_of(), LAYERS, ANNOTATIONS, predictions)
    trials.add([*structures, structures[0]], 1)
    is_first = ANNOTATIONS.folds < 2
    early = {structure: score_by_hand(shares[structure], is_first) for structure in structures}
    best = min(early.values(), key=lambda score: score.log_loss)
    is_kept = {structure: not best.is_ahead(score, 2.0) for structure, score in early.items()}
    assert set(is_kept.values()) == {True, False}
    for structure in structures:
        assert predictions.folds[structure] == list(range(FOLDS if is_kept[structure] else 2))
    late = {s: score_by_hand(shares[s], is_first | ~is_first) for s in structures if is_kept[s]}
    best = min(late.values(), key=lambda score: score.log_loss)
    late = {structure: score for structure, score in late.items() if not best.is_ahead(score, 2.0)}
    assert {structure for structure, _ in trials.scores} == set(late)
    assert trials.ranked_structures(1) == sorted(late, key=lambda structure: late[structure].log_loss)
    for structure, expected in late.items():
        score = trials.scores[structure, 1]
        np.testing.assert_allclose(score.log_probabilities, expected.log_probabilities)
        np.testing.assert_array_equal(score.right, expected.right)
        np.testing.assert_allclose(score.agreements, expected.agreements)
    # candidates of an earlier round are rivals of those from as many starts
    late_structure = Structure(2, 1, "full")
    predictions.shares[late_structure], predictions.folds[late_structure] = shares[structures[3]], []
    trials.add([late_structure], 1)
    assert predictions.folds[late_structure] == [0, 1]
    trials.add([late_structure], 2)
    assert predictions.folds[late_structure] == [0, 1, *range(FOLDS)]


def test_so_many_candidates_at_most_go_on_and_these_are_the_best(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(race, "LIMIT", 2)
    monkeypatch.setattr(race, "CLEAR", 100.0)
    structures = [Structure(NONE, count, "spherical") for count in range(1, 5)]
    shares = {s: shares_of(q, 0) for s, q in zip(structures, (0.5, 0.9, 0.6, 0.8), strict=True)}
    trials = Trials(table_of(), LAYERS, ANNOTATIONS, Predictions(shares))
    trials.add(structures, 1)
    assert trials.ranked_structures(1) == [structures[1], structures[3]]


def test_a_base_rate_is_right_about_the_more_frequent_answer_by_weights() -> None:
    trials = Trials(table_of(), LAYERS, ANNOTATIONS, map)
    base, weights = trials.base_rate, ANNOTATIONS.weights
    np.testing.assert_array_equal(base.right, ~ANNOTATIONS.is_must)
    rows = np.where(ANNOTATIONS.is_must, 1.0, 0.1)
    heavy = ANNOTATIONS._replace(weights=rows)  # must-links have more weight, and are fewer
    np.testing.assert_array_equal(Trials(table_of(), LAYERS, heavy, map).base_rate.right, heavy.is_must)
    expected = score_by_hand(np.full(len(weights), 0.5), np.ones(len(weights), bool))
    assert base.log_loss >= expected.log_loss


def ranking_of(
    monkeypatch: pytest.MonkeyPatch, scores: dict[Structure, HeldOut], **parts: Any
) -> race.Ranking:
    """Rank structures with these predictions from three starts, and a better one from a single start."""

    def add_scores(choices: Choices, trials: Trials) -> None:
        trials.scores = {(structure, 3): score for structure, score in scores.items()}
        trials.scores[LARGE, 1] = scores_behind({LARGE: -50.0}, ANNOTATIONS.weights)[LARGE]
        for number, structure in enumerate(scores):
            for fold in range(FOLDS):
                labels = np.full(150, FOLDS * number + fold, np.int16)
                trials.predictions[structure, 3, fold] = race.FoldPrediction(np.empty(0), np.empty(0), labels)

    monkeypatch.setattr(race, "ROUNDS", (add_scores,))
    return race.choose_structure(table_of(), LAYERS, **parts)


@pytest.mark.parametrize(("behind", "first"), [(0.74, 1), (0.76, 4)])
def test_the_simplest_of_the_best_is_first_and_others_follow_in_order(
    behind: float, first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    single, double, fourfold = (Structure(NONE, count, "full") for count in (1, 2, 4))
    alone = Structure(NONE, 1, KMEANS, annotated=False)
    ranking = ranking_of(
        monkeypatch,
        scores_behind({double: 1.5, fourfold: 0.0, single: behind, alone: 4.0}, ANNOTATIONS.weights),
    )
    expected = [fourfold, single, double, alone]
    assert list(ranking.candidates) == expected
    expected.sort(key=lambda structure: structure.components != first or structure == alone)
    assert list(ranking.structures) == expected
    assert ranking.note == ""
    assert ranking.base_rate is not None
    assert set(ranking.partitions) == {single, double, fourfold}  # answers took part in those
    assert [labels[0] for labels in ranking.partitions[single]] == list(range(2 * FOLDS, 3 * FOLDS))


@pytest.mark.parametrize("ahead", [1.9, 2.1])
def test_the_best_structure_must_be_clearly_ahead_of_the_base_rate(
    ahead: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = Trials(table_of(), LAYERS, ANNOTATIONS, map).base_rate
    noise = scores_behind({BALL: ahead}, ANNOTATIONS.weights)[BALL].log_probabilities + 0.3 + 0.01 * ahead
    score = replace(base, log_probabilities=base.log_probabilities + noise + 0.01 * ahead)
    assert score.gain_over(base) == pytest.approx((0.01 * ahead, 0.01))
    ranking = ranking_of(monkeypatch, {BALL: score}, components=1, subspace=NONE)
    assert list(ranking.candidates) == [BALL]
    if ahead > 2.0:
        assert ranking.structures == (BALL,)
        return
    losses = f"(log loss {score.log_loss:.3f} against {base.log_loss:.3f})"
    words = "clearly better than how often they are must-links"
    assert ranking.note.startswith(f"no structure predicts the annotations {words} {losses}: the features")
    assert {structure.covariance for structure in ranking.structures} == set(CANDIDATES)
    assert all(structure.annotated for structure in ranking.structures)


def test_only_directions_are_candidates_if_they_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    along = Structure(DISCRIMINATIVE, 1, "full", first=BALL)
    scores = scores_behind({BALL: 0.0, along: 9.0}, ANNOTATIONS.weights)
    assert ranking_of(monkeypatch, scores, subspace=DISCRIMINATIVE).structures == (along,)
    ranking = ranking_of(monkeypatch, {BALL: scores[BALL]}, subspace=DISCRIMINATIVE)
    assert ranking.note.startswith("the annotations are predicted clearly worse along discriminative")
    assert {structure.covariance for structure in ranking.structures} == set(CANDIDATES)
    assert {structure.subspace for structure in ranking.structures} == {DISCRIMINATIVE}


# Fits.


def gaussians_of(classes: Floats, bound: float = 0.0) -> Gaussians:
    n_classes = classes.shape[1]
    return Gaussians(
        structure=BALL,
        class_of=np.arange(n_classes),
        weights=np.full(n_classes, 1.0 / n_classes),
        means=np.zeros((n_classes, 4)),
        covariances=np.ones((n_classes, 4)),
        center=np.zeros(4),
        classes=classes,
        terms=(bound, 0.0, 0.0),
    )


@pytest.mark.parametrize("behind", [1.9, 2.1])
def test_a_fit_falls_short_if_it_agrees_clearly_less_than_its_folds(
    behind: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(race, "AT_ONCE", 7)  # pairs in several parts
    weights, is_must = ANNOTATIONS.weights, ANNOTATIONS.is_must
    classes = np.random.default_rng(0).dirichlet(np.ones(3), size=150)
    joint_shares = np.array([classes[i] @ classes[j] for i, j in ANNOTATIONS.pairs])
    share = float(weights @ np.where(is_must, joint_shares, 1.0 - joint_shares)) / weights.sum()
    noise = scores_behind({BALL: behind}, ANNOTATIONS.weights)[BALL].log_probabilities + 0.3 + 0.01 * behind
    score = HeldOut(noise, is_must, weights, share + 0.01 * behind + noise)
    reason = race.falls_short(gaussians_of(classes), ANNOTATIONS, score)
    words = (
        f"agrees with {share:.3f} of the annotations, where its folds predicted {share + 0.01 * behind:.3f}"
    )
    assert reason == ("" if behind < 2.0 else words)


def test_the_best_of_an_interrupted_race_agrees_surely_by_the_weights_of_the_annotations() -> None:
    weights, is_heavy = ANNOTATIONS.weights, ANNOTATIONS.weights > np.median(ANNOTATIONS.weights)
    agreements = {
        Structure(NONE, 1, "full"): np.where(is_heavy, 0.70, 0.60),
        Structure(NONE, 2, "full"): np.where(is_heavy, 0.59, 0.72),  # the better one without weights
        Structure(NONE, 3, "full"): np.where(np.arange(len(weights)) % 4 == 0, 0.0, 0.95),  # one less sure
    }
    calls = []
    for number, (structure, values) in enumerate(agreements.items()):
        shares = np.where(ANNOTATIONS.is_must, values, 1.0 - values)
        for turn, folds in enumerate(race.RACE):
            predictions = {
                fold: race.FoldPrediction(
                    shares[ANNOTATIONS.folds == fold], np.empty(0), np.empty(0, np.int16)
                )
                for fold in folds
            }
            fit = gaussians_of(np.ones((150, 1)), bound=10.0 * number - turn)
            calls.append(
                ((structure, folds), race.Trial(CompactGaussians.from_gaussians(fit), {}, predictions))
            )
    assert race.best_so_far(table_of(), LAYERS, calls).bound == 0.0
    assert race.best_so_far(table_of(), LAYERS, calls[2:]).bound == 10.0
