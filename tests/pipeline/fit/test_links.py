"""Links of one annotator or of several, by places or by labels."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from kernels.problem.data import CANNOT, MUST
from pipeline.commands.fit import fit_command
from pipeline.fit.estimator import AnnotatedClustering
from pipeline.fit.links import Given, Names, Reader, same_names
from sweeps.errors import InputError

# What links call samples: labels of an index, of any kind.

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


def test_the_same_names() -> None:
    assert same_names(None, None, 3)
    assert same_names(names([0, 1, 2]), None, 3)
    assert same_names(None, names(pd.RangeIndex(3)), 3)
    assert same_names(names(["a", "b"]), names(np.array(["a", "b"])), 2)
    assert not same_names(names([1, 2, 3]), None, 3)
    assert not same_names(names(["a", "b"]), names(["b", "a"]), 2)


SMALL: dict[str, Any] = {"restarts": 2, "generations": 2, "random_state": 5}
LABELS = np.array([f"s{number:02}" for number in range(40)])
TREE = pd.MultiIndex.from_product([["x", "y"], range(20)])
MUST_LINKS = np.array([[0, 1], [4, 4], [10, 11], [0, 1], [3, 29]])
CANNOT_LINKS = np.array([[0, 15], [21, 11], [7, 7]])


@pytest.fixture(scope="module")
def noise() -> np.ndarray:
    """Forty samples without clusters."""
    return np.random.default_rng(3).normal(size=(40, 3))


def small(n_clusters: int = 3, **changes: Any) -> AnnotatedClustering:
    return AnnotatedClustering(n_clusters, **(SMALL | changes))


def problems(estimator: AnnotatedClustering, X: object, **links: Any) -> list[str]:
    with pytest.raises(InputError) as raised:
        estimator.fit(X, **links)
    return str(raised.value).splitlines()


def same(one: AnnotatedClustering, other: AnnotatedClustering) -> bool:
    return (
        one.labels_.tobytes() == other.labels_.tobytes()
        and one.restart_objectives_.tobytes() == other.restart_objectives_.tobytes()
        and np.array_equal(one.must_link_, other.must_link_)
        and np.array_equal(one.cannot_link_, other.cannot_link_)
    )


def weighted(labels: np.ndarray, weights: list[float]) -> list[list[Any]]:
    return [[*row, weight] for row, weight in zip(labels.tolist(), weights, strict=True)]


@pytest.mark.parametrize(
    "index",
    [LABELS, np.arange(40)[::-1], np.arange(40) * 3 + 100, TREE, pd.date_range("2024-01-01", periods=40)],
)
def test_links_by_labels_are_those_by_places(index: Any, noise: np.ndarray) -> None:
    frame = pd.DataFrame(noise, index=index)
    labels = Names(frame.index, "the index of X").take(np.arange(40))
    weights = [2.0, 1.0, 0.5]
    plain = small().fit(
        noise, must_link=MUST_LINKS, cannot_link=np.column_stack([CANNOT_LINKS, np.array(weights)])
    )
    must, cannot = labels[MUST_LINKS], labels[CANNOT_LINKS]
    table = pd.DataFrame({"i": cannot[:, 0], "j": cannot[:, 1], "weight": weights})
    for links in (weighted(cannot, weights), table):
        if not (isinstance(links, list) and isinstance(index, pd.DatetimeIndex)):  # tolist makes numbers
            assert same(small().fit(frame, must_link=must, cannot_link=links), plain)
    pairs = [tuple(row) for row in must]
    by_samples = small().fit(noise, must_link=pairs, cannot_link=table, samples=list(frame.index))
    assert same(by_samples, plain)
    assert by_samples.sample_names_in_.tolist() == frame.index.tolist()
    assert not hasattr(small().fit(noise), "sample_names_in_")


def test_labels_come_before_places() -> None:
    """Rows in another order: an index of numbers is read as labels, and never as places."""
    X = np.array([[0.0], [0.1], [0.2], [5.0], [5.1], [5.2]])
    frame = pd.DataFrame(X, index=[5, 4, 3, 2, 1, 0])
    estimator = small(2).fit(frame, cannot_link=[[0, 1]])
    assert estimator.cannot_link_.tolist() == [[5, 4, 1]]
    again = small(2).fit(frame.reset_index(drop=True), cannot_link=[[0, 1]])
    assert again.cannot_link_.tolist() == [[0, 1, 1]]


def test_a_part_of_a_table_is_refused_or_links_are_dropped(noise: np.ndarray) -> None:
    frame = pd.DataFrame(noise)
    train = np.array([row for row in range(40) if row not in (1, 21)])
    found = problems(small(), frame.iloc[train], must_link=MUST_LINKS, cannot_link=CANNOT_LINKS)
    assert found[0] == (
        "must_link: found 2 of 5 rows with labels that no row of X has, expected labels of the index of X,"
        ' such as 0, 2, 3 (where X is a part of a table on purpose, links_outside="drop" leaves these links'
        " out)"
    )
    assert found[1:] == [
        "must_link, row 0: found 1, expected a label of the index of X",
        found[0].replace("must_link: found 2 of 5", "cannot_link: found 1 of 3"),
        "cannot_link, row 1: found 21, expected a label of the index of X",
    ]
    dropping = small(links_outside="drop")
    for part, names in ((frame.iloc[train], None), (noise[train], train)):
        dropping.fit(part, must_link=MUST_LINKS, cannot_link=CANNOT_LINKS, samples=names)
        assert dropping.must_link_.tolist() == [[3, 3, 1], [9, 10, 1], [2, 27, 1]]  # places in the part
        assert dropping.cannot_link_.tolist() == [[0, 14, 1], [6, 6, 1]]
        assert dropping.links_dropped_ == 3
    by_hand = small().fit(noise[train], must_link=[[3, 3], [9, 10], [2, 27]], cannot_link=[[0, 14], [6, 6]])
    assert same(dropping, by_hand)
    assert by_hand.links_dropped_ == 0
    with pytest.warns(UserWarning, match="all 5 links were left out") as caught:
        dropping.fit(frame.iloc[32:], must_link=MUST_LINKS)
    assert caught[0].filename == __file__
    assert dropping.model_ == "likelihood"


def test_places_cannot_be_dropped(noise: np.ndarray) -> None:
    """A part of an array has lost what its rows were: a link beyond its end says that others may be wrong."""
    (found,) = problems(small(links_outside="drop"), noise[:20], must_link=MUST_LINKS)
    assert found.startswith("must_link, row 4: found 3, 29, expected whole numbers 0 to 19")
    assert "name its rows: by the index of a data frame, or by samples=" in found


@pytest.mark.parametrize(
    ("links", "text"),
    [
        (
            [["s00", "s01", "much"]],
            "must_link: found weights that are no numbers, expected a number from 1e-100",
        ),
        ([["s00", "s01", 0]], "must_link, row 0: found 0, expected a number from 1e-100 to 1e+12"),
        ([["s00", "s01"], ["s00"]], "must_link: found rows of 1 and 2 cells, expected shape (n_links, 2)"),
        ([["s00"]], "must_link: found rows of 1 cells, expected shape (n_links, 2)"),
        (np.array(["s00", "s01"]), "must_link: found a ndarray that makes no table of labels"),
        (["s00", "s01"], "must_link: found a list that makes no table of labels"),
        ("s00", "must_link: found a str that makes no table of labels"),
        (7, "must_link: found a int that makes no table of labels"),
        (iter([("s00", "s01")]), "must_link: found a list_iterator that makes no table of labels"),
        (np.full((2, 4), "s00"), "must_link: found shape (2, 4), expected shape (n_links, 2)"),
    ],
)
def test_tables_of_labels_that_are_wrong(links: object, text: str, noise: np.ndarray) -> None:
    (found,) = problems(small(), pd.DataFrame(noise, index=LABELS), must_link=links)
    assert found.startswith(text)


FILE = """1 2 must 1 ann
11 12 must 1 ann
1 16 cannot 2 ann
4 30 must 1 bob
8 9 must 0.5 bob
22 12 cannot 1 bob
3 33 cannot 1 cyd
"""
BY_ANNOTATOR: dict[str, Any] = {
    "must_link": {"ann": [[0, 1], [10, 11]], "bob": [[3, 29, 1], [7, 8, 0.5]]},
    "cannot_link": {"ann": [[0, 15, 2]], "bob": [[21, 11]], "cyd": [[2, 32]]},
}


@pytest.mark.parametrize(
    "changes",
    [
        {"model": "likelihood"},
        {"annotator_accuracy": {"ann": 0.95, "cyd": 0.6}, "accuracy": 0.7},
        {"annotator_accuracy": {"ann": 0.95, "bob": 0.8, "cyd": 0.6}},
        {"model": "conditional"},
        {"model": "conditional", "annotator_accuracy": {"bob": 0.8}, "covariance": "common"},
    ],
)
def test_annotators_have_the_bits_of_the_command(
    changes: dict[str, Any], noise: np.ndarray, tmp_path: Path
) -> None:
    np.savetxt(tmp_path / "x", noise, fmt="%.17g")
    (tmp_path / "pairs").write_text(FILE)
    changes = {"restarts": 4, "population": 2, "offspring": 1, "generations": 1, **changes}
    frame = pd.DataFrame(noise, index=LABELS)
    by_name = {
        name: {who: [[*LABELS[[row[0], row[1]]], *row[2:]] for row in rows] for who, rows in tables.items()}
        for name, tables in BY_ANNOTATOR.items()
    }
    arguments = ["-k", "3", "--seed", "5", "--annotations", str(tmp_path / "pairs"), "--json"]
    for name, value in changes.items():
        given = [f"{who}={p}" for who, p in value.items()] if isinstance(value, dict) else [str(value)]
        arguments += [text for each in given for text in (f"--{name.replace('_', '-')}", each)]
    command = CliRunner().invoke(fit_command, [str(tmp_path / "x"), *arguments])
    assert command.exit_code == 0, command.output
    document = json.loads(command.stdout)
    for X, links in ((noise, BY_ANNOTATOR), (frame, by_name)):
        estimator = small(**changes).fit(X, **links)
        assert estimator.model_ == document["model"]
        assert estimator.labels_.tolist() == document["labels"]
        assert estimator.restart_objectives_.tolist() == document["restart_objectives"]
        assert estimator.sbm_ == document["sbm"]
        assert estimator.annotator_accuracies_ == document["annotator_accuracies"]


def test_accuracies_of_annotators_that_are_wrong(noise: np.ndarray) -> None:
    some = {"ann": 0.9, "bbo": 0.8}
    assert problems(small(model="posterior", annotator_accuracy=some), noise, **BY_ANNOTATOR) == [
        "annotator_accuracy: found annotator 'bbo', expected one of ann, bob, cyd (did you mean 'bob'?)",
        "annotator_accuracy: found nothing for annotator 'bob', expected a number above 0, at most 1"
        " (or accuracy, for all that have none of their own)",
        "annotator_accuracy: found nothing for annotator 'cyd', expected a number above 0, at most 1"
        " (or accuracy, for all that have none of their own)",
    ]
    assert problems(small(annotator_accuracy={"ann": 0.9, "bob": 0.0, "cyd": 1}), noise, **BY_ANNOTATOR) == [
        "annotator_accuracy of bob: found 0.0, expected a number above 0, at most 1"
    ]


def test_annotations_add_up_by_annotator() -> None:
    reader = Reader(9)
    first = reader.read({"ann": [[0, 1]], "bob": [[1, 2]]}, None)
    both = reader.read({"cyd": [[3, 4]], "bob": [[5, 6, 2]]}, {"ann": [[7, 8]]}, before=first)
    assert both.annotators == ["ann", "bob", "cyd"]
    found = [(layer.annotator, layer.kind, layer.pairs.tolist()) for layer in both.layers]
    assert found == [
        (0, MUST, [[0, 1]]), (0, CANNOT, [[7, 8]]), (1, MUST, [[1, 2], [5, 6]]), (2, MUST, [[3, 4]]),
    ]  # fmt: skip
    assert (both.total, both.dropped) == (5, 0)
    assert Given().of_kind(MUST) is None
