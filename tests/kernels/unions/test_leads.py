"""Merged groups are put before other structures by their leads, and tried no further if they are behind."""

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.random import SeedSequence
from numpy.typing import NDArray
from solving.answers import layers_of, scores_behind

from sweep_clustering.kernels.choice import HeldOut, Skill, child_seed, list_annotations
from sweep_clustering.kernels.groups.fit import DEFAULT_ODDS
from sweep_clustering.kernels.problem.data import Layer
from sweep_clustering.kernels.settings import FOLDS
from sweep_clustering.kernels.structure import (
    AVERAGE,
    LINEAR,
    MANY_CLASSES,
    NONE,
    ODDS,
    SIGNED,
    WARD,
    Structure,
)
from sweep_clustering.kernels.unions import contest as module
from sweep_clustering.kernels.unions.race import Ranking
from sweep_clustering.kernels.unions.table import Table

Floats = NDArray[np.float64]

X = np.random.default_rng(1).normal(size=(90, 2)) * [2.0, 1.0]
BALLS = Structure(NONE, 1, "spherical")
AVERAGES, WARDS, SIGNS = (Structure(NONE, 9, kind, "equal") for kind in (AVERAGE, WARD, SIGNED))
ONE_CENTER = Structure(NONE, 1, WARD, "equal")
ALONE = AVERAGES._replace(annotated=False)
SURE = AVERAGES._replace(odds=3.0)


def weighted_layers(accuracy: float | None = 0.9, n_rows: int = 90) -> list[Layer]:
    """Draw 80 random pairs, a quarter of them must-links, with weights."""
    rng = np.random.default_rng(3)
    first = rng.integers(n_rows, size=80)
    pairs = np.column_stack([first, (first + rng.integers(1, n_rows, size=80)) % n_rows])
    layers = layers_of(pairs, np.arange(80) < 20, accuracy=accuracy)
    return [replace(layer, weights=rng.uniform(0.5, 3.0, len(layer.pairs))) for layer in layers]


WEIGHTS = list_annotations(weighted_layers(), SeedSequence(0)).weights


def skill_of(score: HeldOut) -> Skill:
    """Return predictions that compare structures, beside others."""
    return Skill(*(replace(score, log_probabilities=score.log_probabilities - n) for n in range(3)), score)


class FixedContest:
    """A contest whose predictions are known."""

    def __init__(self, skills: dict[Structure, Skill], simple: Skill) -> None:
        self.skills, self.simple, self.partitions = skills, simple, dict[Structure, Any]()
        self.added: list[Structure] = []

    @property
    def ranked_structures(self) -> list[Structure]:
        return sorted(self.skills, key=lambda structure: self.skills[structure].overall.log_loss)

    def best_annotated(self, count: int) -> list[Structure]:
        return self.ranked_structures[:count]

    def add(self, structures: Sequence[Structure]) -> None:
        self.added += structures

    def add_linear(self) -> None:
        self.added.append(BALLS)

    def skill(self, shares: Floats) -> Skill:
        return self.simple


def rank(
    monkeypatch: pytest.MonkeyPatch,
    behind: dict[Structure, float],
    layers: Sequence[Layer] | None = None,
    n_classes: int = 3,
) -> tuple[Ranking, Ranking, FixedContest]:
    """Return the ranking with groups, that without, and the contest, where balls are the chosen structure."""
    scores = scores_behind({BALLS: 1.6} | behind, WEIGHTS)
    skills = {structure: skill_of(score) for structure, score in scores.items()}
    simple = skills.pop(BALLS)
    contest = FixedContest(skills, simple)
    monkeypatch.setattr(module, "Contest", lambda *arguments: contest)
    labels = FOLDS * [np.zeros(90, np.int16)]
    chosen = Ranking((BALLS,), {BALLS: scores[BALLS]}, None, "chosen", partitions={BALLS: labels})
    table = Table(X, n_classes, SeedSequence(0))
    return module.rank_with_groups(table, layers or weighted_layers(), chosen), chosen, contest


def scatter_of(structure: Structure) -> float:
    """Return the sum of the squared distances of rows to the mean of their class."""
    rng, layers = np.random.default_rng(child_seed(SeedSequence(0), module.STREAM)), weighted_layers()
    labels = Table(X, 3, SeedSequence(0)).solve(structure, layers, rng).labels
    return sum(np.square(X[labels == c] - X[labels == c].mean(axis=0)).sum() for c in np.unique(labels))


@pytest.mark.parametrize(
    ("behind", "winners"),
    [
        ({AVERAGES: 0.0, BALLS: 1.4}, None),
        ({AVERAGES: 0.0}, [{AVERAGES}]),
        ({AVERAGES: 0.0, WARDS: 0.4, ONE_CENTER: 0.6}, [{AVERAGES, WARDS}, {ONE_CENTER}]),
        ({AVERAGES: 0.6, WARDS: 0.4, ALONE: 0.0}, [{WARDS}, {ALONE}, {AVERAGES}]),
        ({SIGNS: 0.0, AVERAGES: 9.0, BALLS: 2.9}, None),
        ({SIGNS: 0.0, AVERAGES: 9.0, BALLS: 3.1}, [{SIGNS}, {AVERAGES}]),
        ({AVERAGES: 0.0, SURE: -0.7}, [{AVERAGES}]),
        ({AVERAGES: 0.0, SURE: -0.8}, [{SURE}, {AVERAGES}]),
        ({SIGNS: 0.0, BALLS: 2.9}, None),
        ({}, None),
    ],
)
def test_groups_that_predict_clearly_better_come_first_and_of_equal_ones_the_compact(
    behind: dict[Structure, float], winners: list[set[Structure]] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranking, chosen, contest = rank(monkeypatch, behind)
    assert ranking.skills == contest.skills | {BALLS: contest.simple}
    if winners is None:
        assert ranking.structures == (BALLS,)
        assert ranking.candidates is chosen.candidates
        assert ranking.note == "chosen"
        return
    expected = [structure for group in winners for structure in sorted(group, key=scatter_of)]
    assert ranking.structures == (*expected, BALLS)
    assert ranking.note == ""
    assert list(ranking.candidates) == list(ranking.structures)
    for structure in expected:
        assert ranking.candidates[structure] is contest.skills[structure].with_distance
    assert ranking.candidates[BALLS] is chosen.candidates[BALLS]


def test_the_three_best_are_tried_with_each_accuracy_if_none_is_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    behind = {AVERAGES: 0.0, WARDS: 1.0, ONE_CENTER: 4.0, ALONE: 5.0}
    _, _, contest = rank(monkeypatch, behind)
    assert contest.added == [BALLS]
    _, _, contest = rank(monkeypatch, behind, weighted_layers(None))
    others = [odds for odds in ODDS if odds != DEFAULT_ODDS]
    expected = [best._replace(odds=odds) for best in contest.ranked_structures[:3] for odds in others]
    assert contest.added == [*expected, BALLS]


@pytest.mark.parametrize(
    ("most_rows", "n_classes", "is_tried"), [(90, 89, True), (90, 90, False), (89, 45, True), (89, 46, False)]
)
def test_groups_are_merged_into_fewer_classes_than_there_are_rows(
    most_rows: int, n_classes: int, is_tried: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_ROWS", most_rows)
    ranking, chosen, contest = rank(monkeypatch, {}, n_classes=n_classes)
    assert bool(contest.added) == is_tried
    assert (ranking is chosen) != is_tried


@pytest.mark.parametrize("has_rival", [False, True])
def test_structures_that_are_clearly_behind_end_unless_they_lead(has_rival: bool) -> None:
    behind = {ALONE: 9.0, WARDS: 2.1, AVERAGES: 1.9, SIGNS: 2.2, ONE_CENTER: 2.3, BALLS: 0.0}
    scores = scores_behind(behind, WEIGHTS)
    rival = scores.pop(BALLS) if has_rival else None

    def predict(shares: HeldOut, is_tested: NDArray[np.bool_]) -> HeldOut:
        assert is_tested.tolist() == [True, False]
        return shares

    contest: Any = SimpleNamespace(predict=predict, shares=scores, rival=rival)
    structures, is_tested = list(scores), np.array([True, False])
    remaining = module.Contest.remaining_structures(contest, structures, is_tested, 0)
    assert remaining == [AVERAGES, *([] if has_rival else [BALLS])]
    remaining = module.Contest.remaining_structures(contest, structures, is_tested, 3)
    assert remaining == [WARDS, AVERAGES, *([SIGNS] if has_rival else [BALLS])]
    leaders = module.Contest.remaining_structures(contest, [ALONE, WARDS], is_tested, 1)
    assert leaders == [WARDS]
    everything = module.Contest.remaining_structures(contest, structures, np.ones(2, bool), 0)
    assert everything == structures


@pytest.mark.parametrize("n_classes", [3, MANY_CLASSES, MANY_CLASSES + 1])
def test_a_contest_predicts_by_distances_and_by_shares_of_pairs(
    n_classes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    structures = [Structure(NONE, 1, kind, "equal") for kind in (WARD, AVERAGE)]
    monkeypatch.setattr(module, "merged_structures", lambda *sizes: [*structures, ALONE])
    monkeypatch.setattr(module, "CLEAR", 1e9)  # all structures stay
    table, layers = Table(X, n_classes, SeedSequence(0)), weighted_layers()
    annotations = list_annotations(layers, table.seed)
    random = module.RandomPairs(annotations, np.empty((0, 2), np.int64), np.empty(0))
    contest = module.Contest(table, layers, random, map)
    starts = contest.best_annotated(2 if n_classes <= MANY_CLASSES else 1)
    contest.add_linear()
    linear = [structure for structure in contest.skills if structure.covariance == LINEAR]
    assert [structure.first for structure in linear] == [s._replace(proportions="free") for s in starts]
    assert set(contest.partitions) == {*structures, *linear}
    shares, is_tested = np.random.default_rng(0).random(len(annotations.folds)), annotations.folds == 1
    for rows, options in ((is_tested, {"is_tested": is_tested}), (slice(None), {"has_distances": False})):
        score = contest.predict(shares, **options)  # type: ignore[arg-type]
        columns = contest.distances[rows] if "is_tested" in options else np.empty((len(shares), 0))
        is_must, weights = annotations.is_must[rows], annotations.weights[rows]
        logs, right = module.predict_answers(shares[rows], columns, is_must, weights)
        np.testing.assert_array_equal(score.log_probabilities, logs)
        np.testing.assert_array_equal(score.right, right)
        np.testing.assert_array_equal(score.weights, weights)
    skill = contest.skill(shares)
    with_distance, _ = module.predict_answers(
        shares, contest.distances, annotations.is_must, annotations.weights
    )
    distance, _ = module.predict_answers(None, contest.distances, annotations.is_must, annotations.weights)
    np.testing.assert_array_equal(skill.with_distance.log_probabilities, with_distance)
    np.testing.assert_array_equal(skill.distance.log_probabilities, distance)
    np.testing.assert_array_equal(
        skill.without_distance.log_probabilities,
        contest.predict(shares, has_distances=False).log_probabilities,
    )
