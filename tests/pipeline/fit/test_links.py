"""Links as the estimator takes them: columns by their names, labels of any kind, and never by chance."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from sweep_clustering import AnnotatedClustering
from sweep_clustering.kernels.problem.data import CANNOT, MUST, Layer
from sweep_clustering.pipeline.fit.links import Annotations, Reader
from sweep_clustering.sweeps.errors import InputError

PLAIN = pd.DataFrame({"i": [2, 3], "j": [0, 1]})
WEIGHTED = PLAIN.assign(weight=[1.0, 2.0])
NAMES = pd.Index(["r0", "r1", "r2", "r3"])


def pairs_of(links: Any, names: pd.Index | None = None) -> list[list[int]]:
    """Places of the links."""
    (layer,) = Reader(4, names).read(links, None).layers
    return layer.pairs.tolist()


class Foreign:
    """A table of another library, which pandas can take."""

    columns = ("j", "i")

    def to_pandas(self) -> pd.DataFrame:
        """The table as one of pandas."""
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
    ):
        with pytest.raises(InputError):
            pairs_of(links, names)


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
    again = Reader(4).read([[0, 2, np.inf]], None, before=annotations)
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
