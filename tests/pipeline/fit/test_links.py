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
from scipy.sparse import coo_array

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


def test_unknown_labels_come_with_the_nearest() -> None:
    cells = [(0, "anne"), (2, "bob"), (2, "zoe"), (5, "bob")]
    whole, *each = names(["ann", "bobby", "carl", "dora"]).unknown("must_link", cells, 9)
    assert "must_link: found 3 of 9 rows" in str(whole)
    assert "such as 'ann', 'bobby', 'carl' (where X is a part of a table on purpose" in str(whole)
    assert [(one.where, one.found, one.hint) for one in each] == [
        ("must_link, row 0", "'anne'", "did you mean 'ann'?"),
        ("must_link, row 2", "'bob'", "did you mean 'bobby'?"),
        ("must_link, row 2", "'zoe'", ""),
    ]
    (_, of_type) = names([1, 2, 3]).unknown("must_link", [(0, "3")], 1)
    assert of_type.hint == "did you mean 3, of type int?"
    (first, _) = names(["a", "b"]).unknown("must_link", [(0, 1)], 1)
    assert first.hint == "X.to_numpy() has no labels: there, links are places from 0"
    many = list(names(["a"]).unknown("must_link", [(row, f"x{row}") for row in range(25)], 25))
    assert len(many) == 12
    assert many[-1].found == "15 more unknown labels"


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
NOISE = np.random.default_rng(3).normal(size=(40, 3))


def small(n_clusters: int = 3, **changes: Any) -> AnnotatedClustering:
    return AnnotatedClustering(n_clusters, **(SMALL | changes))


def problems(estimator: AnnotatedClustering, X: object, **links: Any) -> list[str]:
    with pytest.raises(InputError) as raised:
        estimator.fit(X, **links)
    return str(raised.value).splitlines()


def same(one: AnnotatedClustering, other: AnnotatedClustering) -> bool:
    arrays = ("labels_", "restart_objectives_", "must_link_", "cannot_link_")
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in arrays)


@pytest.mark.parametrize(
    "index",
    [LABELS, np.arange(40)[::-1], np.arange(40) * 3 + 100, TREE, pd.date_range("2024-01-01", periods=40)],
)
def test_links_by_labels_are_those_by_places(index: Any) -> None:
    frame = pd.DataFrame(NOISE, index=index)
    labels = Names(frame.index, "the index of X").take(np.arange(40))
    weights = np.array([2.0, 1.0, 0.5])
    plain = small().fit(NOISE, must_link=MUST_LINKS, cannot_link=np.column_stack([CANNOT_LINKS, weights]))
    must, cannot = labels[MUST_LINKS], labels[CANNOT_LINKS]
    table = pd.DataFrame({"i": cannot[:, 0], "j": cannot[:, 1], "weight": weights})
    assert same(small().fit(frame, must_link=must, cannot_link=table), plain)
    if not isinstance(index, pd.DatetimeIndex):  # tolist makes numbers
        rows = [[*row, weight] for row, weight in zip(cannot.tolist(), weights, strict=True)]
        assert same(small().fit(frame, must_link=must, cannot_link=rows), plain)
    pairs = [tuple(row) for row in must]
    by_samples = small().fit(NOISE, must_link=pairs, cannot_link=table, samples=list(frame.index))
    assert same(by_samples, plain)
    assert by_samples.sample_names_in_.tolist() == frame.index.tolist()
    assert not hasattr(small().fit(NOISE), "sample_names_in_")


def test_labels_come_before_places() -> None:
    """Rows in another order: an index of numbers is read as labels, and never as places."""
    X = np.array([[0.0], [0.1], [0.2], [5.0], [5.1], [5.2]])
    frame = pd.DataFrame(X, index=[5, 4, 3, 2, 1, 0])
    assert small(2).fit(frame, cannot_link=[[0, 1]]).cannot_link_.tolist() == [[5, 4, 1]]
    again = small(2).fit(frame.reset_index(drop=True), cannot_link=[[0, 1]])
    assert again.cannot_link_.tolist() == [[0, 1, 1]]
    (found,) = problems(small(2), pd.DataFrame(X, index=[5, 4, 4, 2, 1, 4]), cannot_link=[[5, 1]])
    assert found.startswith("the index of X: found 4 on 3 rows, expected a label of its own")


def test_a_part_of_a_table_is_refused_or_links_are_dropped() -> None:
    frame = pd.DataFrame(NOISE)
    train = np.array([row for row in range(40) if row not in (1, 21)])
    found = problems(small(), frame.iloc[train], must_link=MUST_LINKS, cannot_link=CANNOT_LINKS)
    assert [line.split(", expected")[0] for line in found] == [
        "must_link: found 2 of 5 rows with labels that no row of X has",
        "must_link, row 0: found 1",
        "cannot_link: found 1 of 3 rows with labels that no row of X has",
        "cannot_link, row 1: found 21",
    ]
    dropping = small(links_outside="drop")
    for part, samples in ((frame.iloc[train], None), (NOISE[train], train)):
        dropping.fit(part, must_link=MUST_LINKS, cannot_link=CANNOT_LINKS, samples=samples)
        assert dropping.must_link_.tolist() == [[3, 3, 1], [9, 10, 1], [2, 27, 1]]  # places in the part
        assert dropping.cannot_link_.tolist() == [[0, 14, 1], [6, 6, 1]]
        assert dropping.links_dropped_ == 3
    by_hand = small().fit(NOISE[train], must_link=[[3, 3], [9, 10], [2, 27]], cannot_link=[[0, 14], [6, 6]])
    assert same(dropping, by_hand)
    assert by_hand.links_dropped_ == 0
    with pytest.warns(UserWarning, match="all 5 links were left out") as caught:
        dropping.fit(frame.iloc[32:], must_link=MUST_LINKS)
    assert caught[0].filename == __file__
    assert dropping.model_ == "likelihood"
    # a part of an array has lost what its rows were: a link beyond its end says that others may be wrong
    (beyond,) = problems(dropping, NOISE[:20], must_link=MUST_LINKS)
    assert beyond.startswith("must_link, row 4: found 3, 29, expected whole numbers 0 to 19")
    assert "name its rows: by the index of a data frame, or by samples=" in beyond


SHAPES = "expected shape (n_links, 2) or (n_links, 3)"
WEIGHTS = "expected a number from 1e-100 to 1e+12"
PLACES = "expected whole numbers 0 to 39 (samples are counted from 0"


@pytest.mark.parametrize(
    ("links", "by_place", "by_label"),
    [
        ([[0, 40]], f", row 0: found 0, 40, {PLACES}; if X is a part", None),
        ([[0, 1], [1, -1], [0, 99], [0.5, 3]], ", row 1: found 1, -1, and 2 more such rows, expected", None),
        ([[0, np.nan]], f", row 0: found 0, nan, {PLACES})", None),
        ([[0, 1, 1], [0, 2, 0]], f", row 1: found 0, {WEIGHTS}", None),
        ([[0, 1, 1e12], [0, 2, 2e12]], f", row 1: found 2000000000000, {WEIGHTS}", None),
        ([["s00", "s01", 0]], None, f", row 0: found 0, {WEIGHTS}"),
        ([["s00", "s01", "much"]], None, f": found weights that are no numbers, {WEIGHTS}"),
        ([[0, 1, 1, 1]], f": found shape (1, 4), {SHAPES}", f": found rows of 4 cells, {SHAPES}"),
        (np.eye(30), f": found shape (30, 30), {SHAPES}", f": found shape (30, 30), {SHAPES}"),
        ([[0, 1], [0, 1, 2]], ": found a list that makes no table of num", ": found rows of 2 and 3 cells"),
        ("links", ": found a str that makes no table of num", ": found a str that makes no table of labels"),
        (["s00", "s01"], None, ": found a list that makes no table of labels"),
        (7, ": found shape (), expected", ": found a int that makes no table of labels"),
        (coo_array(np.eye(30)), ": found a coo_array that makes no table", None),
        (iter([("s00", "s01")]), None, ": found a list_iterator that makes no table of labels"),
    ],
)
def test_tables_that_are_wrong(links: object, by_place: str | None, by_label: str | None) -> None:
    for X, text in ((NOISE, by_place), (pd.DataFrame(NOISE, index=LABELS), by_label)):
        if text is not None:
            (found,) = problems(small(), X, must_link=links)
            assert found.startswith(f"must_link{text}")


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
        {"model": "conditional", "annotator_accuracy": {"bob": 0.8}, "covariance": "common"},
    ],
)
def test_annotators_have_the_bits_of_the_command(changes: dict[str, Any], tmp_path: Path) -> None:
    np.savetxt(tmp_path / "x", NOISE, fmt="%.17g")
    (tmp_path / "pairs").write_text(FILE)
    changes = {"restarts": 4, "population": 2, "offspring": 1, "generations": 1, **changes}
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
    for X, links in ((NOISE, BY_ANNOTATOR), (pd.DataFrame(NOISE, index=LABELS), by_name)):
        estimator = small(**changes).fit(X, **links)
        for name in ("model", "sbm", "annotator_accuracies"):
            assert getattr(estimator, f"{name}_") == document[name]
        for name in ("labels", "restart_objectives"):
            assert getattr(estimator, f"{name}_").tolist() == document[name]


def test_accuracies_of_annotators_that_are_wrong() -> None:
    some = {"ann": 0.9, "bbo": 0.8}
    found = problems(small(model="posterior", annotator_accuracy=some), NOISE, **BY_ANNOTATOR)
    assert [line.split(", expected")[0] for line in found] == [
        "annotator_accuracy: found annotator 'bbo'",
        "annotator_accuracy: found nothing for annotator 'bob'",
        "annotator_accuracy: found nothing for annotator 'cyd'",
    ]
    assert "did you mean 'bob'?" in found[0]
    assert found[1].endswith("(or accuracy, for all that have none of their own)")
    (found,) = problems(small(annotator_accuracy={"ann": 0.9, "bob": 0.0, "cyd": 1}), NOISE, **BY_ANNOTATOR)
    assert found.startswith("annotator_accuracy of bob: found 0.0, expected a number above 0")


def test_annotations_add_up_by_annotator() -> None:
    reader = Reader(9)
    first = reader.read({"ann": [[0, 1]], "bob": [[1, 2]]}, None)
    both = reader.read({"cyd": [[3, 4]], "bob": [[5, 6, 2]]}, {"ann": [[7, 8]]}, before=first)
    assert both.annotators == ["ann", "bob", "cyd"]
    assert [(layer.annotator, layer.kind, layer.pairs.tolist()) for layer in both.layers] == [
        (0, MUST, [[0, 1]]), (0, CANNOT, [[7, 8]]), (1, MUST, [[1, 2], [5, 6]]), (2, MUST, [[3, 4]]),
    ]  # fmt: skip
    assert (both.total, both.dropped) == (5, 0)
    assert Given().of_kind(MUST) is None
