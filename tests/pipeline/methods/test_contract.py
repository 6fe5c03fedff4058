"""What a method takes and gives."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.methods.contract import BadAnswer, NoSolution, Solution, checked, merged_links

SIZES = {"n_samples": 4, "n_features": 2, "n_clusters": 3}


@pytest.mark.parametrize(
    "labels", [[0, 2, 2, 0], [0.0, 2.0, 2.0, 0.0], np.array([0, 2, 2, 0], dtype=np.uint8), (0, 2, 2, 0)]
)
def test_labels_become_int16(labels: object) -> None:
    solution = checked(labels, **SIZES)
    assert solution.labels.dtype == np.int16
    assert solution.labels.tolist() == [0, 2, 2, 0]
    assert (solution.objective, solution.centroids, solution.probabilities) == (None, None, None)


def test_everything_that_is_known_is_kept() -> None:
    centroids = [[0, 1], [np.nan, np.nan], [2, 3]]
    probabilities = np.full((4, 3), 1 / 3, dtype=np.float32)
    solution = checked(Solution([0, 2, 2, 0], np.float32(-1.5), centroids, probabilities), **SIZES)
    assert solution.objective == -1.5
    assert isinstance(solution.objective, float)
    assert np.array_equal(solution.centroids, centroids, equal_nan=True)
    assert solution.probabilities.dtype == np.float64


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ([0, 1, 2], "labels: found shape (3,), expected (4,)"),
        ([[0], [1], [2], [0]], "labels: found shape (4, 1), expected (4,)"),
        ([0, 1, -1, 1], "labels: found -1, expected 0 to 2"),
        ([0, 1, 2, 3], "labels: found 3 among 4 different ones, expected 0 to 2"),
        ([0, 1, 2, 1.5], "labels: found 1.5, expected whole numbers"),
        ([0, 1, 2, np.nan], "labels: found 1 that are NaN or infinite"),
        ([True, False, True, False], "labels: found bool values, expected whole numbers"),
        (["a", "b", "a", "b"], "labels: found <U1 values"),
        (None, "labels: found object values"),
        ([[0, 1], [2]], "labels: found list that makes no array"),
        (Solution([0, 1, 2, 0], objective=np.nan), "objective: found nan, expected a finite number"),
        (Solution([0, 1, 2, 0], objective=np.inf), "objective: found inf"),
        (Solution([0, 1, 2, 0], objective="good"), "objective: found 'good', expected a number"),
        (Solution([0, 1, 2, 0], centroids=[[0, 1]]), "centroids: found shape (1, 2), expected (3, 2)"),
        (Solution([0, 1, 2, 0], centroids=[["a", "b"]]), "centroids: found <U1 values"),
        (
            Solution([0, 1, 1, 0], centroids=[[0, 1], [np.nan, 0], [0, 0]]),
            "centroids: found NaN or infinite ones of clusters 1, which have samples",
        ),
        (Solution([0, 1, 2, 0], probabilities=np.ones((4, 2))), "found shape (4, 2), expected (4, 3)"),
        (Solution([0, 1, 2, 0], probabilities=np.ones((4, 3))), "found 4 rows with sums such as 3, 3"),
        (Solution([0, 1, 2, 0], probabilities=np.full((4, 3), np.nan)), "found nan, nan"),
        (
            Solution([0, 1, 2, 0], probabilities=[[2, -1, 0]] * 4),
            "found 2, -1, 2, -1, 2, ..., expected 0 to 1",
        ),
    ],
)
def test_what_is_no_answer_is_named(answer: object, found: str) -> None:
    with pytest.raises(BadAnswer) as refused:
        checked(answer, **SIZES)
    assert found in str(refused.value)


def test_all_that_is_wrong_is_named_at_once() -> None:
    answer = Solution([0, -1, 7.5], objective=np.nan, centroids=[1], probabilities=[2])
    with pytest.raises(BadAnswer) as refused:
        checked(answer, **SIZES)
    assert str(refused.value).split("; ") == [
        "labels: found shape (3,), expected (4,)",
        "labels: found 7.5, expected whole numbers",
        "labels: found -1, expected 0 to 2",
        "objective: found nan, expected a finite number",
        "centroids: found shape (1,), expected (3, 2)",
        "probabilities: found shape (1,), expected (4, 3)",
    ]


def test_no_solution_travels_with_its_reason() -> None:
    again = pickle.loads(pickle.dumps(NoSolution("links contradict")))
    assert isinstance(again, NoSolution)
    assert str(again) == "links contradict"


def test_links_of_a_hand_case() -> None:
    annotations = np.array([[3, 1, 0], [1, 3, 0], [1, 3, 1], [2, 2, 0], [0, 2, 1], [4, 0, 0]], dtype=np.int32)
    must, cannot, (must_weights, cannot_weights) = merged_links(annotations)
    assert must.tolist() == [[0, 4], [1, 3]]
    assert cannot.tolist() == [[0, 2], [1, 3]]
    assert must_weights.tolist() == [1.0, 2.0]
    assert cannot_weights.tolist() == [1.0, 1.0]
    assert must.dtype == np.int64


def test_no_annotations_are_empty_links() -> None:
    must, cannot, weights = merged_links(np.empty((0, 3), dtype=np.int32))
    assert must.shape == cannot.shape == (0, 2)
    assert [len(each) for each in weights] == [0, 0]


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 1)), max_size=40))
def test_links_count_what_was_annotated(annotations: list[tuple[int, int, int]]) -> None:
    links = merged_links(np.array(annotations, dtype=np.int32).reshape(-1, 3))
    for kind, pairs, weights in zip((0, 1), links[:2], links[2], strict=True):
        expected: dict[tuple[int, int], int] = {}
        for i, j, its in annotations:
            if its == kind and i != j:
                pair = (min(i, j), max(i, j))
                expected[pair] = expected.get(pair, 0) + 1
        assert [tuple(pair) for pair in pairs.tolist()] == sorted(expected)
        assert weights.tolist() == [expected[pair] for pair in sorted(expected)]
