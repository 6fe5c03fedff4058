"""What the estimator is given: forms of links, data frames, and everything that can be wrong."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import coo_array
from solving.blobs import far_clusters

from kernels.problem.problem import MODELS
from pipeline.fit.estimator import AnnotatedClustering
from sweeps.errors import InputError

KNOWN_SHAPES = "spherical, common, diagonal, tied, full, auto"
KNOWN_MODELS = ", ".join(["auto", *MODELS])
BEYOND = (
    "samples are counted from 0; if X is a part of a table, name its rows: by the index of a data frame, or"
    " by samples="
)
MUST_LINKS = [[0, 1], [4, 4], [10, 11], [0, 1], [3, 29]]


@pytest.fixture(scope="module")
def blobs() -> np.ndarray:
    return far_clusters()[0]


def small(n_clusters: int = 3, **changes: Any) -> AnnotatedClustering:
    settings = {"restarts": 2, "generations": 2, "random_state": 5}
    return AnnotatedClustering(n_clusters, **(settings | changes))


@pytest.mark.parametrize("model", ["likelihood", "posterior"])
def test_forms_of_the_same_links(model: str) -> None:
    rng = np.random.default_rng(1)
    noise = rng.normal(size=(40, 3))
    links = rng.integers(40, size=(50, 2))
    links[0] = 7
    pairs, counts = np.unique(np.sort(links, axis=1), axis=0, return_counts=True)
    table = np.column_stack([pairs, counts])
    assert counts.max() > 1 or len(pairs) == 50
    columns = {"i": table[:, 0], "j": table[:, 1], "weight": table[:, 2].astype(float)}
    forms = [
        links,
        links[::-1, ::-1],
        links.tolist(),
        links.astype(np.uint8),
        table,
        table.astype(np.float32),
        pd.DataFrame(columns, index=table[:, 0]),
        [tuple(row) for row in table.tolist()],
    ]
    estimators = [small(model=model, accuracy=0.8).fit(noise, cannot_link=form) for form in forms]
    assert len({estimator.objective_ for estimator in estimators}) == 1
    assert len({estimator.labels_.tobytes() for estimator in estimators}) == 1
    heavier = small(model=model, accuracy=0.8).fit(noise, cannot_link=table * [1, 1, 2])
    assert heavier.objective_ != estimators[0].objective_


def test_links_of_no_pair_are_no_links(blobs: np.ndarray) -> None:
    without = small(model="likelihood").fit(blobs)
    for links in ([], np.empty((0, 2), dtype=int), np.empty((0, 3))):
        estimator = small().fit(blobs, must_link=links)
        assert estimator.model_ == "likelihood"
        assert estimator.objective_ == without.objective_


def problems(estimator: AnnotatedClustering, X: object, **links: Any) -> list[str]:
    with pytest.raises(InputError) as raised:
        estimator.fit(X, **links)
    return str(raised.value).splitlines()


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("n_clusters", 0, "found 0, expected a whole number, 1 or more"),
        ("n_clusters", 2.0, "found 2.0, expected a whole number, 1 or more"),
        ("n_clusters", True, "found True, expected a whole number, 1 or more"),
        ("n_clusters", "2", "found '2', expected a whole number, 1 or more"),
        ("restarts", 0, "found 0, expected a whole number, 1 or more"),
        ("generations", 0, "found 0, expected a whole number, 1 or more, at most 1000000"),
        ("min_cluster_size", None, "found None, expected a whole number, 1 or more"),
        ("population", 1, "found 1, expected a whole number, 2 or more, at most 10000"),
        ("offspring", 0, "found 0, expected a whole number, 1 or more, at most 10000"),
        ("min_cluster_size", -1, "found -1, expected a whole number, 1 or more"),
        ("model", "likelyhood",
         f"found 'likelyhood', expected one of {KNOWN_MODELS} (did you mean 'likelihood'?)"),
        ("model", ["auto"], f"found ['auto'], expected one of {KNOWN_MODELS}"),
        ("model", None, f"found None, expected one of {KNOWN_MODELS}"),
        ("covariance", "shared", f"found 'shared', expected one of {KNOWN_SHAPES}"),
        ("covariance", None, f"found None, expected one of {KNOWN_SHAPES}"),
        ("accuracy", 0, "found 0, expected None or a number above 0, at most 1"),
        ("accuracy", math.nan, "found nan, expected None or a number above 0, at most 1"),
        ("accuracy", "high", "found 'high', expected None or a number above 0, at most 1"),
        ("variance_prior", -0.5, "found -0.5, expected a finite number, 0 or more"),
        ("variance_prior", math.inf, "found inf, expected a finite number, 0 or more"),
        ("variance_prior", None, "found None, expected a finite number, 0 or more"),
        ("patience", 1.5, "found 1.5, expected a whole number, 0 or more, at most 1000000"),
        ("crossover", "label", "found 'label', expected one of centroids, labels"),
        ("mutation", "half", "found 'half', expected a probability in [0, 1]"),
        ("method", None, "found None, expected one of strong, published"),
        ("method", "publishd", "found 'publishd', expected one of strong, published"),
        ("relocation", ["all"], "found ['all'], expected one of annotated, all, components"),
        ("n_jobs", 0, "found 0, expected None or a whole number other than 0 (-1 is all cores)"),
        ("n_jobs", 1.0, "found 1.0, expected None or a whole number other than 0 (-1 is all cores)"),
        ("n_jobs", "all", "found 'all', expected None or a whole number other than 0 (-1 is all cores)"),
        ("links_outside", "dorp", "found 'dorp', expected one of error, drop (did you mean 'drop'?)"),
        ("links_outside", None, "found None, expected one of error, drop"),
        ("annotator_accuracy", 0.9, "found 0.9, expected None or a mapping of names to numbers"),
        ("annotator_accuracy", {1: 0.9}, "found annotator 1, expected a name, a text"),
        ("random_state", -1, "found -1, expected None, a RandomState or a whole number, 0 or more"),
        ("random_state", 0.5, "found 0.5, expected None, a RandomState or a whole number, 0 or more"),
    ],
)  # fmt: skip
def test_bad_parameter(name: str, value: object, problem: str, blobs: np.ndarray) -> None:
    assert problems(small().set_params(**{name: value}), blobs)[:1] == [f"{name}: {problem}"]


@pytest.mark.parametrize(
    ("links", "problem"),
    [
        ([[0, 30]], f", row 0: found 0, 30, expected whole numbers 0 to 29 ({BEYOND})"),
        ([[0, 1], [1, -1], [0, 99], [0.5, 3]],
         ", row 1: found 1, -1, and 2 more such rows, expected whole numbers 0 to 29"
         f" ({BEYOND})"),
        ([[0, math.nan]],
         ", row 0: found 0, nan, expected whole numbers 0 to 29 (samples are counted from 0)"),
        ([[0, 1, 1], [0, 2, 0]], ", row 1: found 0, expected a number from 1e-100 to 1e+12"),
        ([[0, 1, math.inf]], ", row 0: found inf, expected a number from 1e-100 to 1e+12"),
        ([[0, 1, 1e12], [0, 2, 2e12]],
         ", row 1: found 2000000000000, expected a number from 1e-100 to 1e+12"),
        ([[0, 1, 1, 1]], ": found shape (1, 4), expected {}"),
        ([0, 1], ": found shape (2,), expected {}"),
        (np.eye(30), ": found shape (30, 30), expected {}"),
        (np.empty((0, 5)), ": found shape (0, 5), expected {}"),
        ([[0, 1], [0, 1, 2]], ": found a list that makes no table of numbers, expected {}"),
        ("links", ": found a str that makes no table of numbers, expected {}"),
        (coo_array(np.eye(30)), ": found a coo_array that makes no table of numbers, expected {}"),
    ],
)  # fmt: skip
def test_bad_links(links: object, problem: str, blobs: np.ndarray) -> None:
    text = problem.format("shape (n_links, 2) or (n_links, 3)")
    assert problems(small(), blobs, cannot_link=links) == [f"cannot_link{text}"]


def test_all_problems_at_once(blobs: np.ndarray) -> None:
    bad = small(0, model="posterior", restarts=-3, accuracy=3, annotator_accuracy={"ann": 2, "bob": True})
    found = problems(bad, blobs, must_link=[[0, 77, -1]], cannot_link="none")
    assert [line.partition(":")[0] for line in found] == [
        "n_clusters", "restarts", "accuracy", "annotator_accuracy of ann", "annotator_accuracy of bob",
        "must_link, row 0", "must_link, row 0", "cannot_link",
    ]  # fmt: skip
    assert found[2] == "accuracy: found 3, expected None or a number above 0, at most 1"
    (found, *_) = problems(small(model="posterior"), blobs)
    assert found == "accuracy: found None, expected a number above 0, at most 1 (posterior needs it)"


def test_data_frames(blobs: np.ndarray) -> None:
    frame = pd.DataFrame(blobs, columns=["a", "b"], index=np.arange(30)[::-1])
    places = np.array(MUST_LINKS)
    estimator = small().fit(frame, must_link=29 - places)  # links name rows by the index
    plain = small().fit(blobs, must_link=places)
    assert estimator.feature_names_in_.tolist() == ["a", "b"]
    assert estimator.labels_.tolist() == plain.labels_.tolist()
    assert estimator.must_link_.tolist() == plain.must_link_.tolist() == [[*row, 1] for row in MUST_LINKS]
    assert estimator.predict(frame).tolist() == plain.predict(blobs).tolist()
    with pytest.warns(UserWarning, match="columns of the fit have names, those of X have none") as caught:
        estimator.predict(blobs)
    assert caught[0].filename == __file__
    with pytest.warns(UserWarning, match="columns of X have names, those of the fit have none"):
        plain.score(frame)
    for other, text in [
        (frame.rename(columns={"b": "c"}), "unknown: c; missing: b$"),
        (frame[["b"]], ": missing: a$"),
        (frame[["b", "a"]], "found b, a, expected the order a, b$"),
    ]:
        for method in (estimator.predict, estimator.score):
            with pytest.raises(ValueError, match=f"^columns of X are not those of the fit.*{text}"):
                method(other)
    with pytest.raises(TypeError, match="names of kinds int, str"):
        small().fit(frame.rename(columns={"b": 1}))
    estimator.fit(frame.rename(columns={"a": 0, "b": 1}))
    assert not hasattr(estimator, "feature_names_in_")
    assert estimator.predict(blobs).tolist() == estimator.labels_.tolist()


@pytest.mark.parametrize("where", ["X", "must_link", "samples"])
def test_masked_values_are_not_taken_as_good(where: str) -> None:
    X = np.random.default_rng(0).normal(size=(9, 2))
    given = {"X": X, "must_link": np.array([[0, 1], [2, 3]]), "samples": np.arange(9)}
    estimator = AnnotatedClustering(n_clusters=2, accuracy=0.9, restarts=1, random_state=0)
    masked = np.ma.masked_array(given[where], mask=np.zeros(given[where].shape, dtype=bool))
    told = estimator.fit(**{**given, where: masked}).labels_  # of which none is masked
    assert np.array_equal(told, estimator.fit(**given).labels_)
    masked[0] = np.ma.masked
    with pytest.raises(ValueError, match=f"{where}: found [12] masked values"):
        estimator.fit(**{**given, where: masked})
