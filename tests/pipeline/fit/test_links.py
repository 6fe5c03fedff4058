"""The estimator takes links with named columns and labels of any kind, and never by chance."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.datasets import load_iris

from sweep_clustering import AnnotatedClustering, LinkScorer
from sweep_clustering.kernels.problem.data import CANNOT, MUST, Layer, layer_weights
from sweep_clustering.pipeline.fit.links import Annotations, Reader, check_unmasked
from sweep_clustering.sweeps.annotations.files import PairFile
from sweep_clustering.sweeps.annotations.rows import Samples
from sweep_clustering.sweeps.data.table import SampleRows
from sweep_clustering.sweeps.errors import InputError, Problem, collecting

PLAIN = pd.DataFrame({"i": [2, 3], "j": [0, 1]})
WEIGHTED = PLAIN.assign(weight=[1.0, 2.0])
NAMES = pd.Index(["r0", "r1", "r2", "r3"])


def pairs_of(links: Any, names: pd.Index | None = None) -> list[list[int]]:
    """Return the places of the links."""
    (layer,) = Reader(4, names).read(links, None).layers
    return layer.pairs.tolist()


class Foreign:
    """A table of another library, which pandas can take."""

    columns = ("j", "i")

    def to_pandas(self) -> pd.DataFrame:
        """Return the table as a frame of pandas."""
        return PLAIN[["j", "i"]]


@pytest.mark.parametrize(
    "links",
    [
        PLAIN,
        PLAIN.reset_index().rename(columns={"index": "Unnamed: 0"}),
        WEIGHTED[["weight", "j", "i"]],
        PLAIN.rename(columns={"i": "First", "j": " second"}),
        PLAIN.rename(columns={"i": "0", "j": "1"}).assign(**{"Unnamed: 0": 9}),
        PLAIN.astype(float),
        PLAIN.astype("Int64"),
        PLAIN.to_records(index=False),
        PLAIN.to_numpy(),
        PLAIN.to_numpy().astype(object),
        [(2, 0), (3, 1)],
        Foreign(),
    ],
)
def test_columns_are_taken_by_their_names(links: Any) -> None:
    assert pairs_of(links) == [[2, 0], [3, 1]]


@pytest.mark.parametrize(
    ("links", "words"),
    [
        (PLAIN.assign(note="x"), "column 'note'"),
        (PLAIN.assign(kind="must"), "column 'kind'"),
        (PLAIN.rename(columns={"i": "x1", "j": "x2"}), "no column 'i' and 'j'"),
        (PLAIN.rename(columns={"i": 5, "j": 7}), "column '5'"),
        (PLAIN.set_axis(["i", "i"], axis=1), "several columns 'i'"),
        (np.array([[True, False]]), "booleans in column 0 and 1"),
        (np.array([[2, True]], dtype=object), "booleans in column 1"),
        (pd.DataFrame({"i": [True], "j": [0]}), "booleans in column i"),
        ([(True, False)], "booleans"),
        (np.array([[4, 1]]), "samples=range(1, len(X) + 1)"),
        (np.array([[np.nan, 1]]), "row 0: found nan"),
    ],
)
def test_links_that_cannot_be_understood_are_refused(links: Any, words: str) -> None:
    with pytest.raises(InputError) as caught:
        pairs_of(links)
    assert words in str(caught.value)


def test_labels_are_matched_exactly_or_not_at_all() -> None:
    texts = np.array([["r2", "r0"], ["r3", "r1"]], dtype=object)
    assert pairs_of(texts, NAMES) == [[2, 0], [3, 1]]
    floats = pd.Index([7.0, 3.0, 1.0, 2.0])
    assert pairs_of([[7, 2]], floats) == [[0, 3]]
    for links, names in (
        ([[7, 8]], pd.Index(["007", "7", "8", "9"])),
        (np.array([[2.0**53, 1.0]]), pd.Index([2**53, 1, 2, 3])),
        (np.array([[2**24, 1]], dtype=np.float32), pd.Index([2**24, 1, 2, 3])),
        ([[np.nan, 1.0]], pd.Index([np.nan, 1.0, 2.0, 3.0])),
        (np.array([[-(2.0**53), 1.0]]), pd.Index([-(2**53), 1, 2, 3])),
    ):
        with pytest.raises(InputError):
            pairs_of(links, names)


def test_masked_values_of_all_arrays_are_counted() -> None:
    columns = [np.ma.array([1, 2, 3], mask=mask) for mask in ([0, 1, 1], [1, 0, 0])]
    with pytest.raises(InputError, match="must_link: found 3 masked values, expected none"):
        check_unmasked("must_link", columns)


@pytest.mark.parametrize("labels", [[0, 0, 1, 2], ["a", "a", "b", "c"]])
def test_labels_that_repeat_are_refused(labels: list[Any]) -> None:
    with pytest.raises(InputError, match=r"names of rows: found labels that repeat: \[(0|'a')\]"):
        pairs_of([labels[2:]], pd.Index(labels))


def test_links_by_place_that_clearly_count_from_1_are_refused() -> None:
    rng = np.random.default_rng(1)
    labels = rng.integers(3, size=200)
    X = 4.0 * np.eye(3)[labels] + 0.5 * rng.normal(size=(200, 3))
    i, j = rng.integers(1, 199, (2, 300))
    rows = np.column_stack([i, j])
    is_must = labels[i] == labels[j]
    kinds = ((MUST, is_must), (CANNOT, ~is_must))

    def given_from(first: int) -> Annotations:
        return Annotations(
            [Layer(kind, rows[which] + first, None, None, None, 0) for kind, which in kinds], ["links"]
        )

    Reader(200).check_places(given_from(0), X)
    for names in (None, pd.RangeIndex(200)):
        with pytest.raises(InputError, match="fit rows that are counted from 1"):
            Reader(200, names).check_places(given_from(1), X)
    Reader(200, pd.RangeIndex(1, 201)).check_places(given_from(1), X)


def test_links_of_infinite_weight_are_hard_and_stay_so() -> None:
    links = {"ann": [[0, 1, np.inf], [1, 2, 3.0]], "bob": [[2, 3, np.inf]]}
    annotations = Reader(4).read(links, [[0, 3]], accuracy=0.9)
    hard = [layer.pairs.tolist() for layer in annotations.layers if layer.is_hard]
    assert hard == [[[0, 1]], [[2, 3]]]
    table = annotations.of_kind(MUST)
    assert isinstance(table, dict)
    assert sorted(table["ann"].tolist()) == [[0.0, 1.0, np.inf], [1.0, 2.0, 3.0]]
    again = Reader(4).read([[0, 2, np.inf]], None, base=annotations)
    assert sum(len(layer.pairs) for layer in again.layers if layer.is_hard) == 3


def test_the_estimator_obeys_hard_links_and_names_those_that_contradict_each_other() -> None:
    X = pd.DataFrame({"x": [0.0, 0.1, 0.2, 3.0, 3.1, 3.2]}, index=list("abcdef"))
    estimator = AnnotatedClustering(2, random_state=0, restarts=2)
    labels = estimator.fit(X, must_link=[["a", "d", np.inf]], cannot_link=[["a", "b", np.inf]]).labels_
    assert labels[0] == labels[3]
    assert labels[0] != labels[1]
    labels = estimator.partial_fit(X, must_link=[["b", "c", np.inf]]).labels_
    assert labels[1] == labels[2] != labels[0]
    query = estimator.query(2)
    assert len(query.pairs) == 2
    with pytest.raises(InputError, match="'a' must! 'd', 'b' must! 'd', 'a' cannot! 'b'"):
        estimator.partial_fit(X, must_link=[["b", "d", np.inf]])


FRAME = pd.DataFrame(
    {
        "i": [0, 1, 2, 3, 0],
        "j": [1, 2, 2, 0, 2],
        "kind": ["must", "cannot", "yes", "unsure", "cannot!"],
        "weight": [1.0, 2.5, 4.0, 1.0, 1.0],
        "annotator": ["ann", "bob", "ann", "bob", "bob"],
    }
)
KINDS_OF_FRAMES = [pd.DataFrame, pl.from_pandas, pa.Table.from_pandas]


def rows_of(annotations: Annotations) -> list[tuple[Any, ...]]:
    """Return the sorted rows of annotations with the fields of their layers."""
    rows = []
    for layer in annotations.layers:
        weights = np.ones(len(layer.pairs)) if layer.weights is None else layer.weights
        who = annotations.annotators[layer.annotator]
        rows += [
            (who, layer.kind, layer.is_hard, *pair.tolist(), weight)
            for pair, weight in zip(layer.pairs, weights, strict=True)
        ]
    return sorted(rows)


@pytest.mark.parametrize("make", KINDS_OF_FRAMES)
def test_frames_of_several_libraries_are_read_as_annotation_files(make: Callable[[Any], Any]) -> None:
    expected = [
        ("ann", MUST, False, 0, 1, 1.0),
        ("ann", MUST, False, 2, 2, 2.0),  # a self pair has weight 2 for each annotation
        ("bob", CANNOT, False, 1, 2, 2.5),
        ("bob", CANNOT, True, 0, 2, 1.0),
    ]
    assert rows_of(Reader(4).read(None, None, frames=make(FRAME))) == expected
    assert rows_of(Reader(4).read(None, None, frames=[make(FRAME[:2]), make(FRAME[2:])])) == expected
    named = FRAME.assign(i=NAMES[FRAME["i"]], j=NAMES[FRAME["j"]])
    assert rows_of(Reader(4, NAMES).read(None, None, frames=make(named))) == expected


def test_the_estimator_counts_unsure_answers_by_annotator_and_by_pair() -> None:
    X = np.array([[0.0], [0.1], [3.0], [3.1]])
    more = pd.DataFrame({"i": [1, 3], "j": [0, 0], "kind": [None, "?"], "annotator": ["ann", "bob"]})
    estimator = AnnotatedClustering(2, random_state=0, restarts=2).fit(X, annotations=FRAME)
    assert estimator.unsure_ == {"annotators": {"bob": 1.0}, "pairs": [{"i": 0, "j": 3, "count": 1.0}]}
    estimator.partial_fit(X, annotations=more)
    assert estimator.unsure_["annotators"] == {"bob": 2.0, "ann": 1.0}
    assert [pair["count"] for pair in estimator.unsure_["pairs"]] == [1.0, 2.0]
    asked = {tuple(sorted(pair)) for pair in estimator.query(6).pairs.tolist()}
    assert not asked & {(0, 1), (0, 3)}
    assert estimator.fit(X).unsure_ == {"annotators": {}, "pairs": []}


WRONG = FRAME.assign(
    i=[0, 9, 2, 3, 0], kind=["must", "cannot", "sam", None, "no"], weight=[1, 2, 3, -1, 1.0], annotator=None
)


@pytest.mark.parametrize(
    "frame",
    [
        WRONG,
        FRAME.drop(columns="kind"),
        FRAME.assign(note="x"),
        FRAME.rename(columns={"kind": "kinds"}),
        FRAME.assign(accuracy=1.5),
        FRAME.assign(i=["a", "b", "c", "d", "e"]),
    ],
)
def test_a_frame_has_the_problems_of_its_file(frame: pd.DataFrame, tmp_path: Path) -> None:
    frame.to_parquet(tmp_path / "pairs.parquet")
    with pytest.raises(InputError) as of_file:
        PairFile.of(tmp_path / "pairs.parquet").table(Samples(SampleRows(4), first_row=0))
    for make in KINDS_OF_FRAMES:
        with pytest.raises(InputError) as of_frame:
            Reader(4).read(None, None, frames=make(frame))
        problems = [(item.value, item.expected, item.hint) for item in of_frame.value.problems]
        assert problems == [(item.value, item.expected, item.hint) for item in of_file.value.problems]
        assert all(item.where.startswith("annotations") for item in of_frame.value.problems)
    if frame is WRONG:
        assert "annotations, row 1: found sample 9, expected 0 to 3" in str(of_frame.value)


@pytest.mark.parametrize(
    ("frames", "names", "words"),
    [
        ([[0, 1, "must"]], None, "annotations: found a list, expected a data frame"),
        ("pairs.csv", None, "annotations: found a str"),
        (pl.LazyFrame({"i": [0]}), None, "collect() makes one of it"),
        (FRAME.set_axis([*"iijjk"], axis=1), None, "several columns of one name"),
        (pl.DataFrame({"i": [[0]], "j": [1], "kind": ["must"]}), None, "column 'i': found List(Int64)"),
        (FRAME, NAMES, "sample '0', expected the name of a row"),
        (FRAME, pd.Index(["1", 1, "2", "3"], dtype=object), "different labels with the same text"),
        (FRAME[:3], pd.Index([0, 1, 2, 2]), "labels that repeat: [2]"),
        ([FRAME, FRAME.assign(kind="x")], None, "annotations[1], rows 0, 1, 2 and 2 more: found kind 'x'"),
    ],
)
def test_frames_that_cannot_be_understood_are_refused(frames: Any, names: Any, words: str) -> None:
    with pytest.raises(InputError) as caught:
        Reader(4, names).read(None, None, frames=frames)
    assert words in str(caught.value)


def test_a_frame_gives_the_fit_of_its_links_and_stays_for_questions() -> None:
    X, labels = load_iris(return_X_y=True)
    pairs = np.random.default_rng(0).permutation(150)[:120].reshape(-1, 2)
    is_must = labels[pairs[:, 0]] == labels[pairs[:, 1]]
    frame = pl.DataFrame({"i": pairs[:, 0], "j": pairs[:, 1], "kind": is_must, "annotator": "ann"})
    links = {"must_link": {"ann": pairs[is_must]}, "cannot_link": {"ann": pairs[~is_must]}}
    by_links, by_frame = (
        AnnotatedClustering(3, model="conditional", restarts=2, random_state=0).fit(X, **form)
        for form in (links, {"annotations": frame})
    )
    assert by_frame.labels_.tolist() == by_links.labels_.tolist()
    assert by_frame.objective_ == by_links.objective_
    assert by_frame.query(5).pairs.tolist() == by_links.query(5).pairs.tolist()
    table = pd.DataFrame(X, index=[f"f{row}" for row in range(150)])
    named = frame.with_columns(pl.format("f{}", "i").alias("i"), pl.format("f{}", "j").alias("j"))
    part = AnnotatedClustering(3, model="conditional", links_outside="drop", restarts=2, random_state=0)
    part.fit(table[::2], annotations=named)
    inside = (pairs % 2 == 0).all(axis=1)
    assert part.links_dropped_ == (~inside).sum()
    score = LinkScorer(annotations=named)(part, table[1::2])
    assert 0.8 < score <= 1


def test_accuracies_of_single_rows_stay_with_them_and_need_a_model_that_reads_them() -> None:
    X = np.array([[0.0], [0.2], [0.4], [3.0], [3.2], [3.4]])
    frame = pd.DataFrame({"i": [0, 0], "j": [1, 4], "kind": "must", "accuracy": [0.9, np.nan]})
    estimator = AnnotatedClustering(2, model="conditional", restarts=2, random_state=0)
    estimator.fit(X, annotations=frame)
    estimator.partial_fit(X, must_link=[[1, 2]])
    assert estimator.query(1).pairs.shape == (1, 2)
    objective = estimator.objective_
    frame["accuracy"] = [0.6, np.nan]
    estimator.fit(X, annotations=frame).partial_fit(X, must_link=[[1, 2]])
    assert estimator.objective_ != objective
    with pytest.raises(InputError, match="accuracies of single rows, expected none with the model"):
        AnnotatedClustering(2, model="posterior", accuracy=0.9).fit(X, annotations=frame)


def test_links_that_name_the_place_1_may_count_from_1() -> None:
    rng = np.random.default_rng(1)
    labels = rng.integers(3, size=200)
    X = 4.0 * np.eye(3)[labels] + 0.5 * rng.normal(size=(200, 3))
    rows = rng.integers(199, size=(300, 2))
    rows[0] = 0, 1
    is_must = labels[rows[:, 0]] == labels[rows[:, 1]]
    layers = [Layer(kind, rows[is_kind] + 1) for kind, is_kind in ((MUST, is_must), (CANNOT, ~is_must))]
    with pytest.raises(InputError, match="fit rows that are counted from 1"):
        Reader(200).check_places(Annotations(layers, ["links"]), X)


@pytest.mark.parametrize(
    ("weight", "is_right"),
    [(1e-100, True), (9e-101, False), (1e12, True), (2e12, False), (np.inf, True), (np.nan, False)],
)
def test_weights_have_bounds_or_are_infinite(weight: float, is_right: bool) -> None:
    problems: list[Problem] = []
    with collecting(problems):
        Reader(4).read([(0, 1, 1.0), (2, 3, weight)], None)
    assert [problem.where for problem in problems] == ([] if is_right else ["must_link, row 1"])


def test_links_are_added_by_annotator_and_kind_with_those_that_were_left_out() -> None:
    reader = Reader(3, pd.Index(list("abc")), drop=True)
    frame = pd.DataFrame({"i": ["a", "b"], "j": ["b", "x"], "kind": ["must", "must"], "annotator": "ann"})
    frame["accuracy"] = [0.8, 0.7]
    first = reader.read({"ann": [("a", "c", 2.0), ("a", "z", 1.0)]}, None, 0.9, frames=frame)
    assert first.annotators == ["ann"]
    assert first.n_dropped == 2
    assert first.n_total == 4
    (layer,) = first.layers
    assert layer.pairs.tolist() == [[0, 1], [0, 2]]
    assert layer_weights(layer).tolist() == [1.0, 2.0]
    assert layer.accuracy == 0.9
    np.testing.assert_array_equal(layer.accuracies, [0.8, np.nan])
    added = {"ann": [("b", "c")], "bob": [("y", "c"), ("a", "b")]}
    more = reader.read(None, added, 0.9, {"bob": 0.6}, base=first)
    rows = [(layer.annotator, layer.kind, layer.accuracy, layer.pairs.tolist()) for layer in more.layers]
    assert rows == [
        (0, MUST, 0.9, [[0, 1], [0, 2]]),
        (0, CANNOT, 0.9, [[1, 2]]),
        (1, CANNOT, 0.6, [[0, 1]]),
    ]
    assert more.n_dropped == 3
    assert more.n_total == 7
    tables = more.of_kind(CANNOT)
    assert isinstance(tables, dict)
    assert {name: table.tolist() for name, table in tables.items()} == {
        "ann": [[1, 2, 1]],
        "bob": [[0, 1, 1]],
    }
    assert more.agreement(np.array([0, 0, 1])) == {"ann": 0.5, "bob": 0.0}
