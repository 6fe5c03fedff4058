"""People read the classes of a fit, how certain they are, and what the answers say to them."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from sweep_clustering.kernels.choice import HeldOut, Skill
from sweep_clustering.kernels.problem.data import CANNOT, MUST, Layer
from sweep_clustering.kernels.settings import MODEL_ANY
from sweep_clustering.pipeline.common import SAME_OPTIMUM
from sweep_clustering.pipeline.fit.inputs import Judgement, Naming, label_problems
from sweep_clustering.pipeline.fit.solve import foresight
from sweep_clustering.pipeline.fit.summary import FitSummary
from sweep_clustering.sweeps.annotations.labels import RowLabels


def lines_of(sizes: list[int], naming: Naming | None = None, **more: object) -> list[str]:
    """Return the lines on a fit of classes of some sizes, without the answers."""
    objectives = np.array([-2.0, -2.0 - SAME_OPTIMUM, -2.0 - 2.0 * SAME_OPTIMUM])
    fields: dict[str, Any] = {"model": MODEL_ANY, "words": "as drawn", "foresight": "", "confidence": None}
    best = SimpleNamespace(sizes=np.array(sizes), objective=-2.0)
    result: Any = SimpleNamespace(**fields | {"best": best, "restart_objectives": objectives} | more)
    inputs: Any = SimpleNamespace(X=np.empty((sum(sizes), 1)), labels_true=None, lines=lambda: ["inputs"])
    return list(
        FitSummary(
            result, inputs, Judgement({}, ["answers"], []), None, naming, unsure=["unsure"]
        ).result_lines()
    )


def test_a_few_classes_have_a_row_each() -> None:
    naming = Naming.of(RowLabels.from_cells(["ann", "ann", "", "bob", ""]), np.array([1, 1, 1, 0, 2]), 3)
    lines = lines_of([1, 3, 1], naming)
    assert lines == [
        "classes    3 (5 rows)",
        "           class   rows   share   name",
        "               0      1   20.0%   bob",
        "               1      3   60.0%   ann",
        "               2      1   20.0%   -",
        "model      as drawn",
        "certainty  2 of 3 restarts found this solution; no answers were held out to test it",
        "answers",
        "inputs",
        "row labels 3 rows of 5, 2 names: 100.0% are the name of their cluster",
        "unsure",
    ]
    certainty = SimpleNamespace(words="sure")
    lines = lines_of([2, 3], model="posterior", confidence=certainty, foresight="predicts")
    assert lines[-5:-3] == ["model      posterior: as drawn", "certainty  predicts; sure"]
    assert "certainty  no answers were held out to test it" in lines_of([2], restart_objectives=np.zeros(1))


@pytest.mark.parametrize(
    ("sizes", "numbers", "tail"),
    [
        ([1] * 10, range(10), []),
        ([7, 1, 9, 7, 1, 7, 1, 1, 1, 7, 1], [2, 0, 3, 5, 9], ["           and 6 more with 1 row each"]),
        ([1200] + [30, 20] * 5, [0, 1, 3, 5, 7], ["           and 6 more with 20 to 30 rows"]),
    ],
)
def test_the_largest_of_many_classes_have_a_row_each(sizes: list[int], numbers: Any, tail: list[str]) -> None:
    rows = lines_of(sizes)[2:-5]
    assert [int(line.split()[0]) for line in rows[: len(numbers)]] == list(numbers)
    assert rows[0].split()[1] == f"{sizes[numbers[0]]:,}"
    assert rows[len(numbers) :] == tail


def test_names_of_many_rows_come_with_their_largest_cluster() -> None:
    names = [f"n{number:02}" for number in range(12)]
    labels = RowLabels.from_cells([*names, "n00", "n00", ""])
    clusters = np.array([*range(12), 3, 3, 0])
    head, first = Naming.of(labels, clusters, 12).lines()
    assert head == "row labels 14 rows of 15, 12 names: 85.7% are the name of their cluster"
    assert first.startswith("           'n00' 2 of 3 in 3, 'n01' 1 of 1 in 1, ")
    assert first.endswith("'n09' 1 of 1 in 9, and 2 more names (--json has all)")


def test_labels_have_as_many_names_as_there_may_be_clusters() -> None:
    labels = RowLabels.from_cells(["red", "blue", "red", "green"])
    assert label_problems("rows.txt", "--label-accuracy", labels, 0.9, 3, is_open=False) == []
    for is_open, words in (
        (False, "at most 2, the number of clusters"),
        (True, "at most 2, the possible clusters"),
    ):
        (problem,) = label_problems("rows.txt", "--label-accuracy", labels, 0.9, 2, is_open=is_open)
        assert problem.expected == words
        assert problem.hint == "labels of one row: 'blue', 'green'"
    (problem,) = label_problems("rows.txt", "--label-accuracy", labels, 1 / 3, 3, is_open=False)
    assert problem.expected == "more than 0.3333, which is chance"


def test_predictions_come_beside_the_answer_that_is_always_the_same() -> None:
    pairs = np.array([[0, 1], [2, 3]])
    layers = [Layer(MUST, pairs, np.array([2.0, 1.0])), Layer(CANNOT, pairs, np.array([4.0, 5.0]))]
    right = np.array([True, True, True, False])
    score = HeldOut(np.log(np.full(4, 0.5)), right, np.array([1.0, 1.0, 1.0, 2.0]), np.full(4, 0.5))
    assert foresight(None, layers) == ""
    assert foresight(score, layers) == (
        "predicts 60% of the answers that it had not seen; always answering *apart* would be right for 75%"
    )
    more = [layers[0], Layer(CANNOT, pairs, np.array([1.0, 1.0]))]
    assert foresight(score, more).endswith("always answering *together* would be right for 60%")
    worse = HeldOut(score.log_probabilities, ~right, score.weights, score.agreements)
    skill = Skill(worse, worse, score, worse)
    assert foresight(score, layers, skill=skill) == (
        "predicts 40% of the answers that it had not seen; by distance alone it would be 60%"
    )
    for no_score in (score, None):
        words = foresight(no_score, layers, no_skill=True, skill=skill)
        assert words.startswith(
            "predicts answers that it had not seen no better than a constant: always answering *apart*"
        )
