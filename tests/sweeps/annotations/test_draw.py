"""Annotations are drawn from the pairs of their design, and are right as often as their accuracy says."""

import numpy as np
import pytest
from scipy.special import expit, logit, ndtr

from sweep_clustering.sweeps.annotations import draw
from sweep_clustering.sweeps.annotations.draw import CANNOT, MUST, UNSURE

LABELS = np.repeat([0, 1, 2], 10)


def is_right(annotations: np.ndarray) -> np.ndarray:
    """Whether annotations agree with the labels."""
    first, second, kind = annotations.T
    return (LABELS[first] == LABELS[second]) == (kind == MUST)


def test_answers_are_right_with_the_accuracy_of_their_pair() -> None:
    pairs = np.array([[0, 1], [0, 10], [2, 2], [29, 0]])
    answers = draw.answer_pairs(np.random.default_rng(0), LABELS, pairs, p=np.array([1.0, 1.0, 0.0, 0.0]))
    assert answers.tolist() == [[0, 1, MUST], [0, 10, CANNOT], [2, 2, CANNOT], [29, 0, MUST]]
    answers = draw.draw_annotations(np.random.default_rng(0), LABELS, p=0.8, m=20_000)
    assert is_right(answers).mean() == pytest.approx(0.8, abs=0.02)
    assert np.bincount(answers[:, :2].ravel()) / 40_000 == pytest.approx(np.full(30, 1 / 30), abs=0.005)
    assert (answers[:, 0] == answers[:, 1]).mean() == pytest.approx(1 / 30, abs=0.01)


def test_a_biased_design_draws_a_third_of_the_samples_often() -> None:
    order = np.random.default_rng(1).permutation(30)
    answers = draw.draw_biased(np.random.default_rng(0), LABELS, order, p=1.0, m=20_000)
    assert is_right(answers).all()
    shares = np.bincount(answers[:, :2].ravel(), minlength=30) / 40_000
    assert shares[order] == pytest.approx(np.where(np.arange(30) < 10, 5.0, 1.0) / 70, abs=0.01)


def test_neighbours_are_the_nearest_others_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(0).integers(0, 4, size=(40, 3)).astype(float)  # many are equally far
    samples = np.arange(39, -1, -3)
    squares = np.square(X[:, None] - X).sum(axis=2) + np.diag(np.full(40, np.inf))
    for most_numbers in (draw.MOST_NUMBERS, 100, 1):
        monkeypatch.setattr(draw, "MOST_NUMBERS", most_numbers)
        nearest = np.argsort(squares, axis=1, kind="stable")[samples, :39]
        np.testing.assert_array_equal(draw.nearest_neighbours(X, samples, 39), nearest)
    near = np.random.default_rng(0).normal(size=(30, 2))
    answers = draw.draw_near(np.random.default_rng(0), LABELS, near, p=1.0, m=5_000)
    assert is_right(answers).all()
    nearest = draw.nearest_neighbours(near, np.arange(30), 20)
    places = (nearest[answers[:, 0]] == answers[:, 1:2]).argmax(axis=1)
    np.testing.assert_array_equal(nearest[answers[:, 0], places], answers[:, 1])
    assert np.bincount(places) / 5_000 == pytest.approx(np.full(20, 0.05), abs=0.015)


def test_accuracies_of_a_crowd_have_their_quantiles_median_and_leaning() -> None:
    quantiles, leaning = ((0.0, 0.55), (0.25, 0.7), (0.5, 0.8), (1.0, 0.95)), (0.4, 0.3)
    pairs = draw.draw_accuracies(np.random.default_rng(3), 50, quantiles=quantiles, leaning=leaning, p=0.9)
    draws = np.random.default_rng(3).standard_normal((50, 2))
    unshifted = np.interp(ndtr(draws[:, 0]), *np.array(quantiles).T)
    assert pairs.mean(axis=1) == pytest.approx(expit(logit(unshifted) + logit(0.9) - logit(0.8)))
    assert np.diff(logit(pairs))[:, 0] == pytest.approx(-2.0 * (0.4 + 0.3 * draws[:, 1]))
    few = draw.draw_accuracies(np.random.default_rng(3), 5, quantiles=quantiles, leaning=leaning, p=0.9)
    np.testing.assert_array_equal(few, pairs[:5])
    sure = draw.draw_accuracies(np.random.default_rng(3), 5, quantiles=quantiles, leaning=leaning, p=1.0)
    np.testing.assert_array_equal(sure, np.ones((5, 2)))


def test_each_of_a_crowd_answers_some_pairs_one_after_the_other() -> None:
    # the first is right about pairs that belong together alone, and the second about the others
    accuracies, rng = np.array([[1.0, 0.0], [0.0, 1.0]]), np.random.default_rng(0)
    answers = draw.draw_crowd(rng, LABELS, accuracies, answers=300, unsure=0.0, m=600)
    assert answers[:, 2].tolist() == [MUST] * 300 + [CANNOT] * 300
    plain = draw.draw_annotations(np.random.default_rng(0), LABELS, p=0.9, m=600)
    np.testing.assert_array_equal(answers[:, :2], plain[:, :2])
    alike = np.full((2, 2), 0.9)
    crowd = draw.draw_crowd(np.random.default_rng(0), LABELS, alike, answers=300, unsure=0.25, m=600)
    is_unsure = crowd[:, 2] == UNSURE
    assert is_unsure.mean() == pytest.approx(0.25, abs=0.05)
    np.testing.assert_array_equal(crowd[~is_unsure], plain[~is_unsure])
