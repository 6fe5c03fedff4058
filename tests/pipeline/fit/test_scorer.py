"""The recipe of cross-validation: fits to a part of the samples, and the links that judge them."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pipeline import AnnotatedClustering, LinkScorer
from sweeps.errors import InputError

FOLDS = KFold(4, shuffle=True, random_state=1)
X = pd.DataFrame({"x": [0.0, 0.1, 5.0, 5.1, 0.2, 5.2]}, index=list("abcdef"))


def small(**changes: Any) -> AnnotatedClustering:
    given = {"restarts": 2, "generations": 2, "random_state": 5, "links_outside": "drop"}
    return AnnotatedClustering(2, **(given | changes))


def slow_score(estimator: AnnotatedClustering, train: pd.DataFrame, test: pd.DataFrame, links: Any) -> float:
    """One link at a time."""
    predicted = dict(zip(test.index, estimator.predict(test), strict=True))
    clusters = dict(zip(train.index, estimator.labels_, strict=True)) | predicted
    right = [
        (clusters[i] == clusters[j]) == (name == "must_link")
        for name, rows in links.items()
        for i, j in rows
        if i in predicted or j in predicted
    ]
    return float(np.mean(right))


def test_folds_by_hand() -> None:
    """Clusters that are long in one feature or the other, so that only some shapes find them."""
    rng = np.random.default_rng(3)
    long = rng.normal(size=(120, 2)) * np.where(np.arange(120)[:, None] % 2, [5.0, 0.2], [0.2, 5.0])
    table = pd.DataFrame(long, index=[f"s{row:03}" for row in range(120)])
    pairs = rng.integers(0, 120, size=(200, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    is_must, names = pairs[:, 0] % 2 == pairs[:, 1] % 2, table.index.to_numpy()
    links = {"must_link": names[pairs[is_must]], "cannot_link": names[pairs[~is_must]]}
    scores = cross_val_score(small(), table, scoring=LinkScorer(**links), cv=FOLDS, params=links)
    expected = []
    for train, test in FOLDS.split(table):
        rows = set(names[train])
        seen = {name: [row for row in rows_ if set(row) <= rows] for name, rows_ in links.items()}
        estimator = small(links_outside="error").fit(table.iloc[train], **seen)
        expected.append(slow_score(estimator, table.iloc[train], table.iloc[test], links))
    assert scores.tolist() == expected
    assert len(set(expected)) > 1
    with config_context(enable_metadata_routing=True):
        asking = small().set_fit_request(must_link=True, cannot_link=True)
        assert len(cross_val_score(asking, table, cv=FOLDS, params=links)) == 4


def test_score_by_hand() -> None:
    estimator = small().fit(X.iloc[:4])
    scaled = make_pipeline(StandardScaler().set_output(transform="pandas"), small()).fit(X.iloc[:4])
    for must, cannot, expected in [
        ([["e", "a"]], None, 1.0),
        ([["e", "c", 3], ["f", "d", 1]], None, 0.25),
        ([["e", "e"], ["a", "b"], ["e", "z"], ["a", "e"]], [["f", "e"]], 1.0),
        (None, [["a", "e"], ["a", "f"]], 0.5),
        ({"ann": [["a", "e"]]}, {"bob": [["b", "e"]]}, 0.5),
    ]:
        for fitted in (estimator, scaled):
            assert LinkScorer(must, cannot)(fitted, X.iloc[4:]) == expected
    assert pickle.loads(pickle.dumps(LinkScorer([["e", "c"]])))(estimator, X.iloc[4:]) == 0.0


def test_what_cannot_be_scored() -> None:
    estimator, scorer = small().fit(X), LinkScorer([["a", "b"]])
    for fitted, table, text in [
        (estimator, X.iloc[2:4], "links: found none of 1 with a sample in the 2 rows of X"),
        (small().fit(X.to_numpy()), X, "the fit: found rows without names"),
        (estimator, X.to_numpy(), "X: found rows without names"),
        (small(), X, "not fitted yet"),
    ]:
        with pytest.raises((InputError, NotFittedError), match=text):
            scorer(fitted, table)
