"""Links of one annotator or of several, by places or by labels."""

from __future__ import annotations

from contextlib import nullcontext
from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import coo_array

from kernels.problem.data import CANNOT, MUST
from pipeline.fit.estimator import AnnotatedClustering
from pipeline.fit.links import Given, Reader, names_of
from sweeps.errors import InputError

DAYS = pd.date_range("2024-01-01", periods=40)
LABELS = np.array([f"s{number:02}" for number in range(40)])
TREE = pd.MultiIndex.from_product([["x", "y"], range(20)])
MUST_LINKS = np.array([[0, 1], [4, 4], [10, 11], [0, 1], [3, 29]])
CANNOT_LINKS = np.array([[0, 15], [21, 11], [7, 7]])
NOISE = np.random.default_rng(3).normal(size=(40, 3))
NAMED = pd.DataFrame(NOISE, index=LABELS)


def small(**changes: Any) -> AnnotatedClustering:
    return AnnotatedClustering(3, **({"restarts": 2, "generations": 2, "random_state": 5} | changes))


def problems(reader: Reader, *links: Any) -> list[str]:
    with pytest.raises(InputError) as raised:
        reader.read(*links, *[None] * (2 - len(links)))
    return str(raised.value).splitlines()


def tables(given: Given) -> list[Any]:
    return [(layer.kind, layer.pairs.tolist(), np.ravel(layer.weights).tolist()) for layer in given.layers]


@pytest.mark.parametrize("index", [LABELS, np.arange(40)[::-1], np.arange(40) * 3 + 100, TREE, DAYS])
def test_links_by_labels_are_those_by_places(index: Any) -> None:
    weights = np.array([2.0, 1.0, 0.5])
    plain = Reader(40).read(MUST_LINKS, np.column_stack([CANNOT_LINKS, weights]))
    names = names_of(pd.DataFrame(NOISE, index=index), None, 40)
    by_samples = names_of(NOISE, list(pd.Index(index)), 40)
    labels = np.asarray(names)
    must, cannot = labels[MUST_LINKS], labels[CANNOT_LINKS]
    frame = pd.DataFrame({"i": cannot[:, 0], "j": cannot[:, 1], "weight": weights})
    forms = [frame, [[*row, weight] for row, weight in zip(cannot, weights, strict=True)]]
    for given in (names, by_samples):
        for cannot_links in forms:
            for must_links in (must, [tuple(row) for row in must], iter(must)):
                assert tables(Reader(40, given).read(must_links, cannot_links)) == tables(plain)


@pytest.mark.parametrize(
    ("index", "asked", "places"),
    [
        (["a", "b", "c"], ["c", np.str_("a"), "d", 0], [2, 0]),
        ([7, 0, 3], [3, 3.0, np.int64(7), 1, "7", 3.5], [2, 2, 0]),
        ([("x", 1), ("x", 2)], [("x", 2), ["x", 1], ("x", np.int64(1)), "x", ("x",)], [1, 0, 0]),
        (DAYS[:3], [DAYS[1], datetime(2024, 1, 3), np.datetime64("2024-01-01"), "2024-01-01"], [1, 2, 0]),
        (pd.Categorical(["u", "v"]), ["v", "w"], [1]),
        (["a", "b"], [{"a"}, None, float("nan")], []),
    ],
)
def test_labels_are_found_whatever_spells_them_and_others_dropped(
    index: Any, asked: list[Any], places: list[int]
) -> None:
    table = np.empty((len(asked), 2), dtype=object)
    for row, label in enumerate(asked):
        table[row] = [label, label]
    given = Reader(len(index), pd.Index(index), drop=True).read(table, None)
    assert given.layers[0].pairs.tolist() == [[place, place] for place in places]
    assert (given.total, given.dropped) == (len(asked), len(asked) - len(places))


def test_unknown_labels_come_with_the_nearest() -> None:
    reader = Reader(4, pd.Index(["ann", "bobby", "carl", 3]))
    links = [["anne", "ann"], ["ann", "carl"], ["bob", "zoe"], ["carl", "bob"], ["3", "ann"]]
    whole, *each = problems(reader, links)
    assert whole.startswith("must_link: found 4 rows with samples that X does not have, expected labels of")
    assert "such as 'ann', 'bobby', 'carl' (where X is a part of a table on purpose" in whole
    assert each == [
        "must_link, row 0: found 'anne', expected a sample of X (did you mean 'ann'?)",
        "must_link, row 2: found 'bob', expected a sample of X (did you mean 'bobby'?)",
        "must_link, row 2: found 'zoe', expected a sample of X",
        "must_link, row 4: found '3', expected a sample of X (did you mean 3, of type int?)",
    ]
    assert len(problems(reader, [[f"x{row}", "ann"] for row in range(25)])) == 11
    (found,) = problems(Reader(3, pd.Index(["a", "b", "a"])), [["a", "b"]])
    assert found.startswith("names of rows: found labels that repeat: ['a'], expected a label of its own")
    for samples in ("abc", ["a", "b"], np.eye(3)):
        with pytest.raises(InputError, match=r"samples: found .*, expected shape \(3,\)"):
            names_of(np.eye(3), samples, 3)


def test_a_part_of_a_table_is_refused_or_links_are_dropped() -> None:
    frame = pd.DataFrame(NOISE)
    train = np.array([row for row in range(40) if row not in (1, 21)])
    assert [text[:30] for text in problems(Reader(38, frame.index[train]), MUST_LINKS, CANNOT_LINKS)] == [
        "must_link: found 2 rows with s", "must_link, row 0: found 1, exp", "cannot_link: found 1 rows with",
        "cannot_link, row 1: found 21, ",
    ]  # fmt: skip
    dropping = small(links_outside="drop")
    for part, samples in ((frame.iloc[train], None), (NOISE[train], train)):
        dropping.fit(part, must_link=MUST_LINKS, cannot_link=CANNOT_LINKS, samples=samples)
        assert dropping.sample_names_in_.tolist() == train.tolist()
        assert dropping.must_link_.tolist() == [[3, 3, 1], [9, 10, 1], [2, 27, 1]]  # places in the part
        assert dropping.cannot_link_.tolist() == [[0, 14, 1], [6, 6, 1]]
        assert dropping.links_dropped_ == 3
    with pytest.warns(UserWarning, match="all 5 links were left out") as caught:
        dropping.fit(frame.iloc[32:], must_link=MUST_LINKS)
    assert (caught[0].filename, dropping.model_) == (__file__, "likelihood")
    # a part of an array has lost what its rows were: a link beyond its end says that others may be wrong
    whole, beyond = problems(Reader(20, drop=True), MUST_LINKS)
    assert "expected places 0 to 19 (counted from 0; if X is a part of a table, name its rows" in whole
    assert beyond.startswith("must_link, row 4: found 29")


PLACES = "found 1 rows with samples that X does not have, expected places 0 to 39"
LABELLED = PLACES.replace("places 0 to 39", "labels of rows of X, such as 's00', 's01', 's02'")
SHAPES = "expected shape (n_links, 2) or (n_links, 3)"
WEIGHTS = "expected a number from 1e-100 to 1e+12"


@pytest.mark.parametrize(
    ("links", "by_place", "by_label"),
    [
        ([[0, 40]], f": {PLACES}", f": {LABELLED}"),
        ([[1, -1], [0, 2]], f": {PLACES}", None),
        ([[0.5, 3], [0, 2]], f": {PLACES}", None),
        ([[0, np.nan]], f": {PLACES}", None),
        ([[0, 1, 1], [0, 2, 0]], f", row 1: found weight 0, {WEIGHTS}", None),
        ([[0, 1, 1e12], [0, 2, 2e12]], f", row 1: found weight 2000000000000.0, {WEIGHTS}", None),
        ([["s00", "s01", 0]], f", row 0: found weight 0, {WEIGHTS}", f", row 0: found weight 0, {WEIGHTS}"),
        ([["s00", "s01", "much"]], None, f", row 0: found weight much, {WEIGHTS}"),
        ([[0, 1, 1, 1]], f": found shape (1, 4), {SHAPES}", f": found shape (1, 4), {SHAPES}"),
        (["s00", "s01"], f": found shape (2, 1), {SHAPES}", f": found shape (2, 1), {SHAPES}"),
        ("links", f": found a str, no table, {SHAPES}", f": found a str, no table, {SHAPES}"),
        (7, f": found a int, no table, {SHAPES}", None),
        (coo_array(np.eye(30)), f": found a coo_array, no table, {SHAPES}", None),
        (np.zeros((2, 2, 2)), f": found a ndarray, no table, {SHAPES}", None),
    ],
)
def test_tables_that_are_wrong(links: object, by_place: str | None, by_label: str | None) -> None:
    for names, text in ((None, by_place), (pd.Index(LABELS), by_label)):
        if text is not None:
            assert problems(Reader(40, names), links)[0].startswith(f"must_link{text}")


@pytest.mark.parametrize("where", ["X", "must_link", "samples"])
def test_masked_values_are_not_taken_as_good(where: str) -> None:
    given = {"X": NOISE[:9], "must_link": np.array([[0, 1], [2, 3]]), "samples": np.arange(9)}
    for mask in (False, True):
        masked = np.ma.masked_array(given[where], mask=np.full(given[where].shape, mask))
        with pytest.raises(ValueError, match=f"{where}: found .* masked") if mask else nullcontext():
            small().fit(**{**given, where: masked})


def test_annotations_add_up_by_annotator() -> None:
    reader = Reader(9)
    first = reader.read({"ann": [[0, 1]], "bob": [[1, 2]]}, None)
    both = reader.read({"cyd": [[3, 4]], "bob": [[5, 6, 2]]}, {"ann": [[7, 8]]}, 0.7, {"bob": 0.9}, first)
    assert both.annotators == ["ann", "bob", "cyd"]
    assert [(layer.annotator, layer.accuracy, layer.kind, layer.pairs.tolist()) for layer in both.layers] == [
        (0, 0.7, MUST, [[0, 1]]), (0, 0.7, CANNOT, [[7, 8]]), (1, 0.9, MUST, [[1, 2], [5, 6]]),
        (2, 0.7, MUST, [[3, 4]]),
    ]  # fmt: skip
    assert (both.total, both.dropped) == (5, 0)
    assert {name: table.tolist() for name, table in dict(both.of_kind(MUST) or {}).items()} == {
        "ann": [[0, 1, 1]], "bob": [[1, 2, 1], [5, 6, 2]], "cyd": [[3, 4, 1]],
    }  # fmt: skip
    assert both.agreement(np.array([0, 0, 0, 1, 2, 0, 1, 1, 2])) == {"ann": 1.0, "bob": 1 / 3, "cyd": 0.0}
    assert Given().of_kind(MUST) is None
    assert reader.read([[1, 1]], None).agreement(np.zeros(9)) == {"links": None}
    assert problems(reader, {"": [[0, 1]]}, {3: [[0, 1]]}) == [
        f"{where}: found annotator {name}, expected a name, a text that is not empty"
        for where, name in (("must_link", "''"), ("cannot_link", "3"))
    ]
