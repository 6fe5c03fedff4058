"""Each alarm is raised by its cause, has a remedy, and is silent on good fits."""

from __future__ import annotations

import itertools
import json
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from processes.commandline import sweep
from solving.answers import answered

from sweep_clustering import AnnotatedClustering
from sweep_clustering.kernels.choice import HeldOut, Skill
from sweep_clustering.kernels.fits import Fit
from sweep_clustering.kernels.problem.data import CANNOT, MUST, Layer
from sweep_clustering.kernels.settings import settings_of
from sweep_clustering.pipeline.fit import alarms
from sweep_clustering.pipeline.fit.estimator import AnnotatedClusteringWarning
from sweep_clustering.pipeline.fit.solve import fit

RNG = np.random.default_rng(5)
LABELS = np.repeat([0, 1, 2], 50)
X = RNG.normal(size=(150, 4)) + 6.0 * np.eye(3, 4)[LABELS]


def draw(p: float, m: int = 150, stated: float | None = None, labels: Any = LABELS) -> list[Layer]:
    rng = np.random.default_rng(m)
    first = rng.integers(len(labels), size=m)
    pairs = np.column_stack([first, (first + rng.integers(1, len(labels), size=m)) % len(labels)])
    return answered(pairs, labels, rng, right=p, accuracy=stated)


def messages(
    features: NDArray[Any] = X, layers: Any = (), labels: Any = LABELS, n_clusters: int = 3, **more: Any
) -> list[str]:
    return list(alarms.alarms_of(features, layers, labels, n_clusters, **more))


@pytest.mark.parametrize("p", [0.8, 0.9, 1.0])
@pytest.mark.parametrize("is_told", [False, True])
def test_good_fits_are_silent(p: float, is_told: bool) -> None:
    for m in (40, 150, 600):
        assert messages(layers=draw(p, m, p if is_told else None)) == []
    assert messages() == []


def test_features_that_count_rows_differ_in_scale_or_repeat() -> None:
    rows = np.arange(150.0)
    (counts,) = messages(np.column_stack([X, rows]), names=["a", "b", "c", "d", "id"])
    assert counts.startswith("feature 'id' counts the rows")
    assert "--drop" in counts
    assert messages(np.column_stack([X, 3.0 - rows]))[0].startswith(
        "feature 4 (counted from 0) counts the rows"
    )
    assert messages(np.column_stack([X, np.sort(RNG.random(150))])) == []
    (scales,) = messages(X * [1.0, 1.0, 1e3, 1e-3])
    assert scales.startswith("features differ in scale: the standard deviation of feature 3")
    assert "--scale" in scales
    repeated = X.copy()
    repeated[:20] = X[0]
    assert messages(repeated)[0].startswith("one row comes 20 times among 150")
    assert messages(RNG.integers(2, size=(150, 3)) * 1.0) == []  # tables of a few words repeat rows


def test_alarms_on_features_begin_behind_their_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    def alarms_on(features: NDArray[Any]) -> int:
        return len(messages(features, labels=np.zeros(len(features), int), n_clusters=1))

    counts = np.column_stack([X, np.arange(150.0)])
    assert [alarms_on(counts[:n_rows]) for n_rows in (10, 11)] == [0, 1]
    # five copies are many, but not if others repeat as well
    for n_copies, n_rows, is_said in ((4, 100, 0), (5, 100, 1), (5, 101, 0), (5, 10, 1), (6, 10, 0)):
        repeated = X[:n_rows].copy()
        repeated[:n_copies] = X[0]
        assert alarms_on(repeated) == is_said
    monkeypatch.setattr(alarms, "WIDEST", 1024.0)
    assert [alarms_on(X[:, :1] * [1.0, ratio]) for ratio in (1024.0, 2048.0)] == [0, 1]


def fits_of(*partitions: Any, second: float = -1.0) -> list[Fit]:
    """Return fits of which the first is the best, and the second has another objective or not."""
    objectives, clusters = (0.0, second, -2.0, -3.0), (np.zeros(3, int), np.zeros((3, 2)), np.zeros(3))
    return [
        Fit(labels, objectives[number], 0.0, 0.0, 0.0, *clusters, 1, 1, 0)
        for number, labels in enumerate(partitions)
    ]


def test_clusters_of_a_handful_and_restarts_that_stand_alone() -> None:
    few = np.where(np.arange(150) < 3, 2, np.minimum(LABELS, 1))
    (small,) = messages(labels=few)
    assert small.startswith("clusters of a handful of samples: 2 (3)")
    assert messages(labels=np.minimum(LABELS, 1))[0].startswith("clusters of a handful of samples: 2 (0)")
    assert messages(labels=np.repeat([0, 1, 2], [5, 72, 73])) == []
    # one of many classes, or of classes of less than ten rows in the mean, is small by nature
    for n_clusters, n_rows, n_alarms in ((30, 300, 1), (30, 299, 0), (31, 400, 0)):
        last_is_small = np.minimum(np.arange(n_rows) * n_clusters // n_rows, n_clusters - 2)
        last_is_small[-3:] = n_clusters - 1
        assert len(messages(RNG.normal(size=(n_rows, 2)), (), last_is_small, n_clusters)) == n_alarms
    partitions = [RNG.permutation(LABELS) for _ in range(3)]
    (alone,) = alarms.restart_alarm(fits_of(LABELS, *partitions), 0)
    assert alone.startswith("only one of 4 restarts")
    assert list(alarms.restart_alarm(fits_of(LABELS, partitions[0], LABELS), 0)) == []  # the same clusters
    assert list(alarms.restart_alarm(fits_of(LABELS, *partitions, second=0.0), 0)) == []
    assert list(alarms.restart_alarm(fits_of(LABELS, *partitions, second=-alarms.SAME_OPTIMUM), 0)) == []
    assert [len([*alarms.restart_alarm(fits_of(LABELS, *partitions[:n]), 0)]) for n in (1, 2)] == [0, 1]


def predictions(right: NDArray[np.bool_], sure: float, wrong: float) -> HeldOut:
    """Return predictions with one probability where they are right, and another where they are wrong."""
    values = np.where(right, sure, wrong)
    return HeldOut(np.log(values), right, np.ones(len(right)), values)


def test_clusters_that_add_nothing_to_distance() -> None:
    answers = np.arange(200)
    distance = predictions(answers % 5 > 0, 0.8, 0.2)
    better, worse = predictions(answers % 10 > 0, 0.9, 0.1), predictions(answers % 20 < 11, 0.6, 0.4)
    (text,) = alarms.distance_alarm(
        Skill(distance, without_distance=worse, distance=distance, overall=distance)
    )
    assert text.startswith("how far apart two rows are predicts held-out annotations (log loss 0.500)")
    # clusters that say the same as distance are right, and clusters that say more are better
    assert list(alarms.distance_alarm(Skill(distance, distance, distance, overall=distance))) == []
    assert (
        list(alarms.distance_alarm(Skill(better, without_distance=worse, distance=distance, overall=better)))
        == []
    )
    assert list(alarms.distance_alarm(None)) == []
    # distance is not right more often, or is too sure, or clusters are nearly always right with it
    alike, rash = predictions(distance.right, 0.6, 0.4), predictions(distance.right, 0.99, 0.01)
    plain = predictions(answers > 0, 0.95, 0.05)
    for sure, without in ((distance, alike), (rash, worse), (plain, worse)):
        assert list(alarms.distance_alarm(Skill(sure, without, sure, overall=sure))) == []


def test_clusters_of_answers_alone_have_neither_neighbours_nor_distance() -> None:
    answers = np.arange(200)
    coin, good = predictions(answers % 2 == 0, 0.5, 0.5), predictions(answers % 5 > 0, 0.8, 0.2)
    mixed, structure = np.arange(150) % 3, Mock(annotated=True)
    follows_answers, follows_features = (
        Mock(labels=labels, gaussians=Mock(structure=structure)) for labels in (mixed, LABELS)
    )

    def count(fit: Any, distance: HeldOut, base: HeldOut | None = coin) -> int:
        return len([*alarms.answers_alone_alarm(X, fit, Skill(good, good, distance, overall=good), base)])

    assert count(follows_answers, coin) == 1
    assert (
        count(follows_features, coin)
        == count(follows_answers, good)
        == count(follows_answers, coin, None)
        == 0
    )
    assert list(alarms.answers_alone_alarm(X, follows_answers, None, coin)) == []
    assert count(Mock(gaussians=None), coin) == 0
    structure.annotated = False
    assert count(follows_answers, coin) == 0


def test_predictions_barely_better_than_the_base_rate() -> None:
    answers = np.arange(200)
    base = predictions(answers % 2 == 0, 0.5, 0.5)
    good, barely = predictions(answers % 5 > 0, 0.8, 0.2), predictions(answers % 20 < 11, 0.6, 0.4)
    assert list(alarms.skill_alarm(good, base)) == []
    (text,) = alarms.skill_alarm(barely, base)
    assert text.startswith("held-out annotations are predicted barely better")
    assert list(alarms.skill_alarm(None, base)) == list(alarms.skill_alarm(good, None)) == []
    # the gain of 40 answers is uncertain, but 31 of them right are not chance
    few, many = predictions(answers[:40] % 9 < 7, 0.9, 0.05), predictions(answers[:40] % 9 < 5, 0.9, 0.05)
    guess = predictions(answers[:40] % 2 == 0, 0.5, 0.5)
    gain, error = few.gain_over(guess)
    assert 0.0 < gain <= 3.0 * error
    assert list(alarms.skill_alarm(few, guess)) == []
    assert len(list(alarms.skill_alarm(many, guess))) == 1
    # three quarters are right without clusters too, by the answer that the rate does not give
    most, rate = predictions(answers % 4 > 0, 0.6, 0.3), predictions(answers % 4 == 0, 0.5, 0.5)
    assert len(list(alarms.skill_alarm(most, rate))) == 1
    # of the same share, answers of unequal weights say less: as much as 29 of 40
    weights = np.tile([1.0, 4.0], 20)
    right = np.arange(40) >= 10
    for values, n_alarms in ((np.ones(40), 0), (weights, 1)):
        score = replace(predictions(right, 0.9, 0.05), weights=values)
        assert score.share_right == 0.75
        assert len([*alarms.skill_alarm(score, replace(guess, weights=values))]) == n_alarms


def test_agreement_by_hand() -> None:
    """Answers on two samples count by their weights, and chance has the same must-links and sizes."""
    labels = np.array([0, 0, 1, 1, 1])
    layers = [
        Layer(MUST, np.array([[0, 1], [1, 2], [3, 3]]), np.array([2.0, 1.0, 9.0]), None, annotator=0),
        Layer(CANNOT, np.array([[0, 2], [3, 4]]), np.array([4.0, 0.5]), None, annotator=1),
    ]
    answers = alarms.PairAnswers.of(layers)
    assert answers is not None
    assert answers.total == 7.5
    assert answers.count == pytest.approx(7.5**2 / (4.0 + 1.0 + 16.0 + 0.25))
    assert answers.must_share == pytest.approx(3.0 / 7.5)
    share, chance, error = answers.agreement(labels)
    assert share == pytest.approx(6.0 / 7.5)
    assert chance == pytest.approx(0.4 * 0.52 + 0.6 * 0.48)  # (2/5)² + (3/5)² of random pairs share a cluster
    assert error == pytest.approx(np.sqrt(chance * (1.0 - chance) / answers.count))
    assert [part.total for part in answers.by_annotator()] == [3.0, 4.5]
    assert alarms.PairAnswers.of([replace(layers[0], pairs=np.ones((3, 2), int))]) is None
    agreement = alarms.Agreement(0.75, 0.5, 0.125)
    assert [agreement.is_clear(errors) for errors in (1.9, 2.0)] == [True, False]


def test_agreement_near_chance_or_less_than_told() -> None:
    wrong = [replace(layer, pairs=(layer.pairs + 50) % 150) for layer in draw(1.0)]
    shifted = [replace(layer, pairs=RNG.permutation(150)[layer.pairs]) for layer in draw(1.0)]
    assert "no better than chance" in messages(layers=shifted)[0]
    assert "Are the rows those meant" in messages(layers=shifted)[0]
    assert messages(layers=wrong) == []  # classes all move to another: the same answers
    # if one annotator is right and others are wrong, the numbering is not the reason
    crowd = [replace(layer, annotator=1, kind=MUST + CANNOT - layer.kind) for layer in draw(1.0, 300)]
    assert "no better than chance" in messages(layers=crowd)[0]
    # cannot-links within a cluster do not mean that rows are wrong
    assert messages(layers=crowd)[0].endswith("%. Are must and cannot the wrong way round?")
    assert not any("no better than chance" in text for text in messages(layers=[*draw(1.0, 60), *crowd]))
    (less,) = messages(layers=draw(0.75, 600, stated=0.95))
    assert "but their accuracy explains only" in less
    assert "more wrong answers (--accuracy)" in less


def test_the_number_of_clusters_is_asked_about_if_rows_and_kinds_are_right() -> None:
    layers = draw(0.95, 600, stated=0.95)
    for clusters, words in ((LABELS // 2, "are there more classes"), (np.arange(150) // 10, "fewer classes")):
        annotated = alarms.PairAnswers(layers)
        (text,) = alarms.contradictions(annotated, annotated.right(clusters))
        assert words in text
        assert "rows" not in text


@pytest.mark.parametrize(
    ("n_broken", "n_merged", "words"),
    [
        (1, 3, "Are there other classes"), (3, 1, "Are there other classes"),
        (1, 4, "8 of them are pairs that are apart"), (4, 1, "8 of them are pairs that belong together"),
        (16, 16, "Are there other classes"), (17, 17, "Are the rows those meant"),
        (33, 33, "Are the rows those meant"), (34, 34, "Are must and cannot the wrong way round?"),
    ],
)  # fmt: skip
def test_questions_follow_from_the_weights_of_contradicted_answers(
    n_broken: int, n_merged: int, words: str
) -> None:
    """By hand: the error of the gap of 100 must-links and 100 cannot-links is 0.07 if half of them hold."""
    pairs = np.column_stack([np.arange(50), np.arange(50) + 60])
    layers = [Layer(kind, pairs, np.full(50, 2.0), 1.0) for kind in (MUST, CANNOT)]
    right = np.concatenate([np.arange(50) >= n_broken, np.arange(50) >= n_merged])
    (text,) = alarms.contradictions(alarms.PairAnswers(layers), right)
    assert text.startswith(
        f"the clusters contradict {2 * (n_broken + n_merged)} of 200 annotations, but their accuracy"
    )
    assert words in text


def test_contradictions_have_the_weights_and_accuracies_of_answers() -> None:
    pairs = np.column_stack([np.arange(40), np.arange(40) + 60])
    weights = np.tile([1.0, 3.0], 20)
    layers = [Layer(MUST, pairs, weights, 0.9), Layer(CANNOT, pairs, weights, None, np.full(40, 0.8))]
    right = np.tile(np.arange(40) >= 30, 2)
    (text,) = alarms.contradictions(alarms.PairAnswers(layers), right)
    # 80 · 0.1 + 80 · 0.2, and the root of 200 · 0.09 + 200 · 0.16
    assert "contradict 120 of 160 annotations, but their accuracy explains only 24 ± 7.1." in text
    unknown = [replace(layer, accuracy=None, accuracies=None) for layer in layers]
    (text,) = alarms.contradictions(alarms.PairAnswers(unknown), right)
    assert "but guessing explains only 80 ± 10." in text


def test_pairs_with_both_answers_and_samples_apart_by_hand() -> None:
    pairs = np.array([[i, i + 60] for i in range(20)])
    layers = [Layer(MUST, pairs[:12], None, 0.95), Layer(CANNOT, pairs[:12], None, 0.95)]
    layers += [Layer(MUST, pairs[:6], None, 0.95), Layer(MUST, pairs[12:13], None, 0.95)]
    layers += [Layer(CANNOT, pairs[12:], np.zeros(8), 0.95)]  # of no weight
    (text,) = (text for text in messages(layers=layers) if "both answers" in text)
    # 6 (1 - 0.95² - 0.05²) + 6 (1 - 0.95³ - 0.05³)
    assert text.startswith("12 of the 12 pairs that were annotated more than once")
    assert "an accuracy of 0.95 explains 1.4:" in text
    # four samples apart in three clusters are one wrong answer, which is much among twelve pairs
    apart = np.array(list(itertools.combinations((0, 50, 100, 149), 2)))
    for n_others, accuracy, is_said in (
        (6, None, True),
        (7, None, False),
        (7, 0.999, True),
        (7, 0.99, False),
    ):
        clique = [Layer(CANNOT, apart, None, accuracy), Layer(MUST, pairs[:n_others], None, accuracy)]
        assert any("4 samples are all" in text for text in messages(layers=clique)) == is_said
    clique[1] = replace(clique[1], pairs=apart[:1])  # one of the pairs has both answers
    assert not any("are all said" in text for text in messages(layers=clique))


def test_answers_that_contradict_each_other_or_the_number_of_clusters() -> None:
    pairs = np.array([[i, i + 60] for i in range(30)])
    layers = [Layer(MUST, pairs[:12], None, 0.95), Layer(CANNOT, pairs, None, 0.95)]
    assert any("have both answers" in text for text in messages(layers=layers))
    layers[0] = replace(layers[0], pairs=pairs[:2])
    assert not any("have both answers" in text for text in messages(layers=layers))
    apart = np.array(list(itertools.combinations(range(0, 150, 30), 2)))  # five samples
    layers = [Layer(CANNOT, apart, None, None)]
    assert any("5 samples are all said to be apart" in text for text in messages(layers=layers))
    assert messages(layers=layers, n_clusters=5, labels=np.arange(150) // 30) == []
    # samples that must-links join are one, where no answer can be wrong
    sure = [Layer(CANNOT, np.array([[0, 50], [1, 100], [50, 100], [2, 149]]), None, 1.0)]
    sure += [Layer(MUST, np.array([[0, 1]]), None, 1.0)]
    two = messages(layers=sure, labels=np.minimum(LABELS, 1), n_clusters=2)
    assert any("3 samples are all said to be apart" in text for text in two)


def clique_of(n_samples: int, share: float) -> tuple[list[int], int]:
    """Return the clique that is found, and the size of the largest one among all sets of samples."""
    rng = np.random.default_rng(n_samples)
    pairs = np.array([pair for pair in itertools.combinations(range(n_samples), 2) if rng.random() < share])
    apart = {frozenset(pair) for pair in pairs.tolist()}

    def is_clique(members: Any) -> bool:
        return all(frozenset(pair) in apart for pair in itertools.combinations(members, 2))

    size = max(
        n for n in range(2, n_samples) if any(map(is_clique, itertools.combinations(range(n_samples), n)))
    )
    members = alarms.samples_apart(pairs, pairs[:0])
    assert is_clique(members)
    return members, size


@pytest.mark.parametrize("n_samples", range(6, 12))
def test_a_clique_is_one_and_nearly_as_large_as_the_largest(n_samples: int) -> None:
    members, size = clique_of(n_samples, 0.5)
    assert size - 1 <= len(members) <= size


def clique_by_sets(cannot: Any, must: Any) -> list[int]:
    """Return the clique by sets of samples, one pair at a time."""
    group = {sample: {sample} for sample in np.append(cannot, must).tolist()}
    for first, second in must.tolist():
        group[first] |= group[second]
        for sample in group[first]:
            group[sample] = group[first]
    apart: dict[int, set[int]] = {}
    for low, high in ([min(group[end]) for end in pair] for pair in cannot.tolist()):
        if low != high:
            apart.setdefault(low, set()).add(high)
            apart.setdefault(high, set()).add(low)
    largest: list[int] = []
    for sample in sorted(apart, key=lambda sample: (-len(apart[sample]), sample)):
        members, common = [sample], set(apart[sample])
        while common:
            members.append(max(common, key=lambda sample: (len(apart[sample] & common), -sample)))
            common &= apart[members[-1]]
        largest = members if len(members) > len(largest) else largest
    return sorted(largest)


@pytest.mark.parametrize("seed", range(40))
def test_a_clique_is_that_found_by_sets(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n_samples = int(rng.integers(3, 40))
    pairs = rng.integers(0, n_samples, (int(rng.integers(1, 300)), 2))
    must = rng.integers(0, n_samples, (int(rng.integers(0, 6)), 2))
    assert alarms.samples_apart(pairs, must) == clique_by_sets(pairs, must)


def test_a_clique_among_many_samples_is_found_in_few_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = Mock(wraps=alarms.submatrix)
    monkeypatch.setattr(alarms, "submatrix", looks)
    monkeypatch.setattr(alarms, "MOST_LOOKS", 1_000 * alarms.START_LOOKS)
    rng = np.random.default_rng(0)
    pairs = rng.integers(0, 10**5, (2 * 10**5, 2))
    members = np.sort(rng.choice(10**5, 6, replace=False))
    planted = np.concatenate([pairs, list(itertools.combinations(members, 2))])
    assert alarms.samples_apart(planted, pairs[:0], 5) == members.tolist()
    assert alarms.samples_apart(pairs, pairs[:0], 6) == []
    assert looks.call_count < 10  # samples with too few partners are skipped
    assert len(alarms.samples_apart(planted, pairs[:0], 2)) >= 3
    assert looks.call_count < 1_000  # the others are too many to look at all


def test_the_estimator_warns_with_its_own_category_and_keeps_what_it_said() -> None:
    must, cannot = (layer.pairs for layer in draw(1.0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        good = AnnotatedClustering(3, restarts=3, random_state=0).fit(X, must_link=must, cannot_link=cannot)
    assert "predicts 100% of the answers that it had not seen" in good.choice_
    mixed = np.random.default_rng(0).permutation(150)
    with pytest.warns(AnnotatedClusteringWarning) as caught:
        bad = AnnotatedClustering(3, restarts=3, random_state=0).fit(
            X, must_link=mixed[must], cannot_link=mixed[cannot]
        )
    assert all(str(warning.message) in bad.notes_ for warning in caught)
    assert any("no structure predicts the annotations better" in note for note in bad.notes_)


def test_the_command_shows_alarms_and_takes_rows_from_0(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    order = np.random.default_rng(2).permutation(150)  # classes do not stand together
    pd.DataFrame(X[order], columns=list("abcd")).to_csv("table.csv", index=False)
    layers = draw(1.0, 200, labels=LABELS[order])
    rows = [
        (*pair, kind) for layer, kind in zip(layers, ("must", "cannot"), strict=True) for pair in layer.pairs
    ]
    whole = pd.DataFrame(rows, columns=["i", "j", "kind"])
    late = whole[(whole[["i", "j"]] > 0).all(axis=1)]
    for name, table in {"late.csv": late, "whole.csv": whole}.items():
        table.to_csv(name, index=False)
    fit_table = ("fit", "table.csv", "-k", 3, "--model", "conditional", "--restarts", 3, "--annotations")
    wrong = sweep(*fit_table, "late.csv", "--first-row", 1)
    assert wrong.exit_code == 0, wrong.output
    assert "warning    " in wrong.stdout
    assert "(--first-row, first_row)" in wrong.stdout
    right = [("late.csv", "--first-row", 0), ("late.csv",)] + [("whole.csv",)] * (len(whole) > len(late))
    for name, *more in right:
        fields = json.loads(sweep(*fit_table, name, *more, "--json").stdout)
        assert fields["first_row"] == 0
        assert fields["alarms"] == []
        assert fields["scores"]["annotation_agreement"] == 1.0


def test_no_share_is_said_of_predictions_that_are_no_better_than_one_answer() -> None:
    answers = np.arange(200)
    base, good = predictions(answers % 2 == 0, 0.49, 0.49), predictions(answers % 5 > 0, 0.8, 0.2)
    assert alarms.predicted_words(good, base).startswith("80% of held-out annotations, log loss 0.5004")
    # the rate of the other folds lies on the wrong side of one half, so that hardly any answer is right
    folds = predictions(answers % 14 == 0, 0.5001, 0.4999)
    words = alarms.predicted_words(folds, base)
    assert words == f"held-out annotations no better than a coin, log loss {folds.log_loss:.4f} nats"
    assert "no better than a coin" in alarms.predicted_words(base, None)
    assert alarms.predicted_words(good, None).startswith("80% of held-out annotations")


def test_annotations_of_other_rows_are_followed_with_an_alarm() -> None:
    rng = np.random.default_rng(1)
    labels = rng.permutation(np.repeat([0, 1], 60))
    features = rng.normal(size=(120, 3)) + 4.0 * labels[:, None] * np.eye(3)[0]
    for shift in (0, 1):
        layers = [
            replace(layer, pairs=(layer.pairs + shift) % 120) for layer in draw(1.0, 240, labels=labels)
        ]
        choice = {"model": "conditional-any", "covariance": "any", "settings": settings_of({})}
        result = fit(features, layers, n_clusters=2, restarts=1, seed=0, **choice)
        is_alone = any("follow the annotations and not the features" in alarm for alarm in result.alarms)
        assert is_alone == (shift == 1), result.alarms


def test_skill_of_neighbours_is_that_of_the_nearest_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    features, labels = rng.normal(size=(60, 4)), rng.integers(3, size=60)
    distances = np.linalg.norm(features[:, None] - features, axis=2) + np.diag(np.full(60, np.inf))
    share = (labels == labels[distances.argmin(axis=1)]).mean()
    chance = np.square(np.bincount(labels) / 60).sum()
    assert alarms.neighbour_skill(features, labels) == pytest.approx((share - chance) / (1.0 - chance))
    assert alarms.neighbour_skill(features, np.zeros(60, int)) == 1.0
    monkeypatch.setattr(alarms, "MOST_NEIGHBOURS", 7)
    rows = [0, 9, 19, 29, 39, 49, 59]
    share = (labels[rows] == labels[distances[rows].argmin(axis=1)]).mean()
    assert alarms.neighbour_skill(features, labels) == pytest.approx((share - chance) / (1.0 - chance))


def test_the_accuracy_of_hard_links_is_nobodys() -> None:
    """Answers without a given accuracy may contradict each other beside hard links."""
    pairs = np.array([[0, 1], [2, 3], [4, 5]])
    layers = [Layer(MUST, pairs, annotator=0), Layer(CANNOT, pairs, annotator=1)]
    hard = Layer(CANNOT, np.array([[0, 60]]), accuracy=0.999, is_hard=True)
    labels = np.arange(150) // 50
    assert [*alarms.alarms_of(X, [*layers, hard], labels, 3)] == [*alarms.alarms_of(X, layers, labels, 3)]
