"""Which number of clusters is taken, and by what."""

from __future__ import annotations

import numpy as np
import pytest
from solving.blobs import far_clusters
from solving.cluster_candidates import candidate

from kernels.problem.problem import CANNOT, MUST, Layer
from kernels.settings import Settings
from pipeline.choosing.clusters import BIC, HELD_OUT, choose, choose_clusters, within
from pipeline.fit.solve import FitResult, fit


def test_bic_decides_without_annotations() -> None:
    choice = choose([candidate(2, -9.0), candidate(3, -7.0), candidate(4, -7.0)])
    assert (choice.criterion, choice.chosen.n_clusters) == (BIC, 3)
    assert choice.values.tolist() == [-9.0, -7.0, -7.0]
    assert choice.errors is None
    assert choice.accuracy is None
    *_, last, note = choice.lines()
    assert last == "clusters   3 by BIC, the largest, in nats"
    assert note.startswith("note ")


def test_bic_decides_within_one_standard_error_of_the_least_log_loss() -> None:
    """By hand: differences to the best of 0, 0, 1, 1 are 0.5 in the mean, ± ¼ √(4 · 0.25) = 0.25."""
    best = [-0.1, -0.1, -0.1, -0.1]
    uneven, close, far = [-0.1, -0.1, -1.1, -1.1], [-0.1, -0.1, -0.1, -0.5], [-1.0] * 4
    values = [(5.0, far), (4.0, uneven), (1.0, close), (0.0, best)]
    given = [candidate(number, bic, logs) for number, (bic, logs) in enumerate(values, start=2)]
    choice = choose(given)
    assert choice.errors == pytest.approx([0.0, 0.25, 0.25 * np.sqrt(3 * 0.01 + 0.09), 0.0])
    # 4 is 0.1 behind with an error of 0.087, 3 is 0.5 behind with one of 0.25
    assert (choice.criterion, choice.chosen.n_clusters) == (HELD_OUT, 5)
    assert [each.n_clusters for each in within(given, 1.2)] == [4, 5]
    assert [each.n_clusters for each in within(given, 2.1)] == [3, 4, 5]
    within_it = candidate(4, 1.0, [-0.05, -0.1, -0.1, -0.3])
    closer = [*given[:2], within_it, given[3]]
    assert choose(closer).chosen.n_clusters == 4


def test_table_and_json_have_every_candidate() -> None:
    choice = choose([candidate(2, 5.0, [-0.1] * 4), candidate(10, 4.0, [-3.0] * 4)])
    first, two, ten, taken, accuracy, end = choice.lines(0.9)
    assert first.split() == ["K", "objective", "parameters", "BIC", "ICL", "log", "loss"]
    assert two.split() == ["*", "2", "-1.00", "7", "5.00", "4.50", "0.1000"]
    assert ten.split() == ["10", "-1.00", "7", "4.00", "3.50", "3.0000"]
    assert taken.startswith("clusters   2 by held-out annotations")
    assert accuracy.startswith("accuracy   told 0.9, ")
    assert "0.750" in accuracy
    assert end == "note       2 is the smallest tried: the best may lie beyond"
    document = choice.to_json()
    assert (document["n_clusters"], document["criterion"]) == (2, HELD_OUT)
    assert document["accuracy_held_out"] == pytest.approx(0.75, abs=0.01)
    assert [each["bic"] for each in document["candidates"]] == [5.0, 4.0]
    assert document["candidates"][0]["held_out_log_loss"] == pytest.approx(0.1)


@pytest.mark.parametrize("model", ["unsupervised", "conditional", "likelihood"])
def test_far_clusters_are_counted(model: str) -> None:
    X, labels = far_clusters()
    pairs = np.random.default_rng(2).integers(30, size=(60, 2))
    together = labels[pairs[:, 0]] == labels[pairs[:, 1]]
    layers = [Layer(MUST, pairs[together]), Layer(CANNOT, pairs[~together])]

    def one(n_clusters: int) -> FitResult:
        return fit(
            X, layers, n_clusters=n_clusters, model=model, restarts=2, seed=3,
            settings=Settings(generations=2, variance_prior=1.0), predict_annotations=True,
        )  # fmt: skip

    choice = choose_clusters(X, layers, (1, 2, 3, 4), one)
    assert choice.chosen.n_clusters == 3
    assert choice.criterion == (BIC if model == "unsupervised" else HELD_OUT)
    again = one(3)
    assert choice.chosen.result.best.objective == again.best.objective
    np.testing.assert_array_equal(choice.chosen.result.best.labels, again.best.labels)
