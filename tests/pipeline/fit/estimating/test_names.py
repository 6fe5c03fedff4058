"""What links call samples: labels of an index, of any kind."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd
import pytest

from pipeline.fit.estimating.names import Names, names_of, plain, same_names
from sweeps.errors import InputError

DAYS = pd.date_range("2024-01-01", periods=3)


def names(labels: Any) -> Names:
    return Names(pd.Index(labels), "the index of X")


@pytest.mark.parametrize(
    ("index", "asked", "places"),
    [
        (["a", "b", "c"], ["c", np.str_("a"), "d", 0], [2, 0, -1, -1]),
        ([7, 0, 3], [3, 3.0, np.int64(7), 1, "7", 3.5], [2, 2, 0, -1, -1, -1]),
        ([0.5, 1.5], [1.5, np.float64(0.5), 1], [1, 0, -1]),
        ([("x", 1), ("x", 2)], [("x", 2), ["x", 1], ("x", np.int64(1)), "x", ("x",)], [1, 0, 0, -1, -1]),
        (DAYS, [DAYS[1], datetime(2024, 1, 3), np.datetime64("2024-01-01"), "2024-01-01"], [1, 2, 0, -1]),
        (pd.Categorical(["u", "v"]), ["v", "w"], [1, -1]),
        (["a", "b"], [{"a"}, None, float("nan")], [-1, -1, -1]),
    ],
)
def test_places_of_labels(index: Any, asked: list[Any], places: list[int]) -> None:
    assert names(index).places(asked).tolist() == places


@pytest.mark.parametrize("index", [["a", "b", "c"], [7, 0, 3], [("x", 1), ("x", 2), ("y", 1)], DAYS])
def test_labels_of_places_come_back(index: Any) -> None:
    found = names(index)
    pairs = np.array([[0, 2], [1, 1]])
    labels = found.take(pairs)
    assert labels.shape == (2, 2)
    assert found.places(labels.ravel()).tolist() == pairs.ravel().tolist()


def test_where_names_are_from() -> None:
    X = np.zeros((3, 1))
    frame = pd.DataFrame(X, index=["a", "b", "c"])
    assert names_of(X, None, 3) is None
    assert names_of(X.tolist(), None, 3) is None
    found = names_of(frame, None, 3)
    assert found is not None
    assert found.labels == ["a", "b", "c"]
    for given in (["x", "y", "z"], np.array(["x", "y", "z"]), pd.Series(list("xyz")), pd.Index(list("xyz"))):
        named = names_of(frame, given, 3)
        assert named is not None
        assert named.labels == ["x", "y", "z"]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (["x", "y"], r"samples: found shape \(2,\), expected shape \(3,\), a name for each row of X"),
        (np.zeros((3, 2)), r"samples: found shape \(3, 2\), expected shape \(3,\)"),
        ("xyz", "samples: found 'xyz', expected shape"),
        (3, "samples: found 3, expected shape"),
    ],
)
def test_names_that_are_none(given: Any, text: str) -> None:
    with pytest.raises(InputError, match=text):
        names_of(np.zeros((3, 1)), given, 3)


def test_labels_that_repeat() -> None:
    assert names(["a", "b"]).repeated() is None
    found = names(["b", "a", "b", "c", "c", "b"]).repeated()
    assert str(found) == (
        "the index of X: found 'b' on 3 rows, and 1 more labels that repeat, expected a label of its own for"
        " each row (links name rows by these labels; reset_index(drop=True) numbers the rows)"
    )


def test_unknown_labels_are_told_with_the_nearest() -> None:
    cells = [(0, "anne"), (2, "bob"), (2, "zoe"), (5, "bob")]
    found = [
        str(problem) for problem in names(["ann", "bobby", "carl", "dora"]).unknown("must_link", cells, 9)
    ]
    assert found == [
        "must_link: found 3 of 9 rows with labels that no row of X has, expected labels of the index of X,"
        " such as 'ann', 'bobby', 'carl' (where X is a part of a table on purpose, links_outside=\"drop\" "
        "leaves these links out)",
        "must_link, row 0: found 'anne', expected a label of the index of X (did you mean 'ann'?)",
        "must_link, row 2: found 'bob', expected a label of the index of X (did you mean 'bobby'?)",
        "must_link, row 2: found 'zoe', expected a label of the index of X",
    ]
    (_, of_type) = names([1, 2, 3]).unknown("must_link", [(0, "3")], 1)
    assert of_type.hint == "did you mean 3, of type int?"
    (first, _) = names(["a", "b"]).unknown("must_link", [(0, 1)], 1)
    assert first.hint == "X.to_numpy() has no labels: there, links are places from 0"
    many = list(names(["a"]).unknown("must_link", [(row, f"x{row}") for row in range(25)], 25))
    assert len(many) == 12
    assert str(many[-1]) == "must_link: found 15 more unknown labels, expected labels of the index of X"


def test_labels_as_python_has_them() -> None:
    assert plain([np.int64(1), ["a", np.float64(2.5)]]) == (1, ("a", 2.5))
    assert type(plain(np.int64(1))) is int
    assert plain(np.datetime64("2024-01-02")) == pd.Timestamp("2024-01-02")


def test_the_same_names() -> None:
    assert same_names(None, None, 3)
    assert same_names(names([0, 1, 2]), None, 3)
    assert same_names(None, names(pd.RangeIndex(3)), 3)
    assert same_names(names(["a", "b"]), names(np.array(["a", "b"])), 2)
    assert not same_names(names([1, 2, 3]), None, 3)
    assert not same_names(names(["a", "b"]), names(["b", "a"]), 2)
