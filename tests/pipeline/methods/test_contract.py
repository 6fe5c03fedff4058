"""What a method takes and gives."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.methods.contract import BadAnswer, Solution, checked, merged_links

SIZES = {"n_samples": 4, "n_features": 2, "n_clusters": 3}
LABELS = [0, 2, 2, 0]


@pytest.mark.parametrize("labels", [LABELS, np.array(LABELS, dtype=float), (0, 2, 2, 0)])
def test_what_is_known_is_kept_in_one_form(labels: object) -> None:
    alone = checked(labels, **SIZES)
    assert (alone.labels.dtype, alone.labels.tolist()) == (np.int16, LABELS)
    assert (alone.objective, alone.centroids, alone.probabilities) == (None, None, None)
    centroids = [[0, 1], [np.nan, np.nan], [2, 3]]
    probabilities = np.full((4, 3), 1 / 3, dtype=np.float32)
    whole = checked(Solution(labels, np.float32(-1.5), centroids, probabilities), **SIZES)
    assert (type(whole.objective), whole.objective) == (float, -1.5)
    assert np.array_equal(whole.centroids, centroids, equal_nan=True)
    assert whole.probabilities.dtype == np.float64


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ([0, 1, 2], "labels: found shape (3,), expected (4,)"),
        ([0, 3, -1, 1], "labels: found -1, 3, expected whole numbers from 0 to 2"),
        ([0, -np.inf, 1.5, np.nan], "labels: found -inf, 1.5, nan, expected whole"),
        ([True, False, True, False], "labels: found bool values"),
        (None, "labels: found None"),
        ([[0, 1], [2]], "labels: found list that makes no array"),
        (np.ma.masked_less([0, 1, 2, 0], 1), "labels: found a masked array"),
        (Solution(LABELS, objective=np.inf), "objective: found inf, expected a finite number"),
        (Solution(LABELS, objective="good"), "objective: found 'good', expected a finite number"),
        (Solution(LABELS, centroids=[["a", "b"]]), "centroids: found <U1 values"),
        (Solution(LABELS, centroids=[[0, 1], [0, 0], [np.nan, 0]]), "that have samples: found nan"),
        (Solution(LABELS, probabilities=np.ones((4, 3))), "probabilities: found 3, expected sums of 1"),
        (Solution(LABELS, probabilities=[[2, -1, 0]] * 4), "probabilities: found -1, 2, expected 0 to 1"),
        (Solution(LABELS, probabilities=np.full((4, 3), np.nan)), "found nan, expected 0 to 1"),
        (
            Solution([0, -1], objective=np.nan, centroids=[1], probabilities=[2]),
            "labels: found shape (2,), expected (4,); centroids: found shape (1,), expected (3, 2); "
            "probabilities: found shape (1,), expected (4, 3); objective: found nan, expected a finite",
        ),
    ],
)
def test_what_is_no_answer_is_named(answer: object, found: str) -> None:
    with pytest.raises(BadAnswer) as refused:
        checked(answer, **SIZES)
    assert found in str(refused.value)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 1)), max_size=40))
def test_links_count_what_was_annotated(annotations: list[tuple[int, int, int]]) -> None:
    links = merged_links(np.array(annotations, dtype=np.int32).reshape(-1, 3))
    for kind, pairs, weights in zip((0, 1), links[:2], links[2], strict=True):
        expected: dict[tuple[int, int], int] = {}
        for i, j, its in annotations:
            if its == kind and i != j:
                pair = (min(i, j), max(i, j))
                expected[pair] = expected.get(pair, 0) + 1
        assert (pairs.dtype, pairs.shape) == (np.int64, (len(expected), 2))
        assert [tuple(pair) for pair in pairs.tolist()] == sorted(expected)
        assert weights.tolist() == [expected[pair] for pair in sorted(expected)]
