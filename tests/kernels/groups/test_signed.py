"""Classes by the answers alone, against a dense matrix that is made entry by entry."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse.linalg import ArpackNoConvergence

from sweep_clustering.kernels.groups import signed
from sweep_clustering.kernels.groups.metric import Answers
from sweep_clustering.kernels.groups.signed import DENSE, signed_axes, signed_classes
from sweep_clustering.kernels.scores import adjusted_rand

Floats = NDArray[np.float64]


def right(labels: NDArray[np.int64], n_answers: int) -> Answers:
    """Right answers about uniform pairs of rows, some of them more than once."""
    rng = np.random.default_rng(0)
    first, steps = rng.integers(len(labels), size=n_answers), rng.integers(1, len(labels), n_answers)
    pairs = np.stack([first, (first + steps) % len(labels)], axis=1)
    signs = np.where(labels[pairs[:, 0]] == labels[pairs[:, 1]], 1.0, -1.0)
    return Answers(pairs, signs, rng.integers(1, 3, n_answers).astype(float), np.full(n_answers, 0.9))


@pytest.mark.parametrize("n_rows", [60, DENSE + 50])
def test_axes_are_the_largest_eigenvectors_of_the_normalised_graph(n_rows: int) -> None:
    answers = right(np.arange(n_rows) % 3, 6 * n_rows)
    graph = np.zeros((n_rows, n_rows))
    for (i, j), odds in zip(answers.pairs, answers.odds, strict=True):
        graph[i, j] += odds
        graph[j, i] += odds
    degrees = np.abs(graph).sum(axis=1)
    degrees += degrees.mean()
    values, vectors = np.linalg.eigh(graph / np.sqrt(np.outer(degrees, degrees)))
    axes = signed_axes(answers.pairs, answers.odds, n_rows, 2) * np.sqrt(degrees)[:, None]
    assert values[-2] > values[-3] + 0.05
    assert axes @ axes.T == pytest.approx(vectors[:, -2:] @ vectors[:, -2:].T, abs=1e-6)


def test_answers_find_classes_that_the_features_do_not_show() -> None:
    labels = np.arange(300) % 3
    Z = np.random.default_rng(1).normal(size=(300, 2))
    plain = np.random.default_rng(2).integers(3, size=300)
    classes = signed_classes(Z, right(labels, 2_000), plain, np.random.default_rng(0))
    assert adjusted_rand(labels, classes) > 0.95


def test_rows_without_answers_go_to_the_nearest_mean() -> None:
    labels = np.arange(80) % 2
    Z = 8.0 * labels[:, None] + np.random.default_rng(1).normal(size=(80, 1))
    answers = right(labels[:40], 300)
    classes = signed_classes(Z, answers, labels, np.random.default_rng(0))
    assert adjusted_rand(labels, classes) == 1.0


def test_too_few_rows_with_answers_leave_the_features() -> None:
    plain = np.array([0, 1, 0, 1])
    answers = right(plain[:2], 5)
    assert signed_classes(np.zeros((4, 1)), answers, plain, np.random.default_rng(0)) is plain


def test_answers_that_say_nothing_leave_the_features() -> None:
    plain = np.arange(30) % 2
    answers = right(plain, 200)._replace(accuracies=np.full(200, 0.5))
    assert signed_classes(np.zeros((30, 1)), answers, plain, np.random.default_rng(0)) is plain


@pytest.mark.parametrize("n_found", [0, 1])
def test_an_iteration_that_does_not_end_gives_what_it_has(
    n_found: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    labels = np.arange(DENSE + 50) % 2
    vectors = np.where(labels == 0, 1.0, -1.0)[:, None][:, :n_found]

    def endless(*_: object, **__: object) -> None:
        raise ArpackNoConvergence("no convergence", np.ones(n_found), vectors)

    monkeypatch.setattr(signed, "eigsh", endless)
    plain = np.zeros(len(labels), np.int64)
    plain[::3] = 1
    Z = np.zeros((len(labels), 1))
    classes = signed_classes(Z, right(labels, 4_000), plain, np.random.default_rng(0))
    assert adjusted_rand(labels if n_found else plain, classes) > 0.95
