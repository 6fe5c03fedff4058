"""The estimator that asks: pairs to annotate next, and annotations that are added."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

from pipeline.asking.names import NAMES
from pipeline.fit.estimator import AnnotatedClustering
from sweeps.errors import InputError

SMALL: dict[str, Any] = {"restarts": 3, "generations": 2, "random_state": 5, "model": "conditional"}


@pytest.fixture(scope="module")
def blobs() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1, 2], 20)
    return rng.normal(size=(60, 2)) + 2.0 * np.eye(3, 2)[labels], labels


def small(**parameters: Any) -> AnnotatedClustering:
    return AnnotatedClustering(n_clusters=3, **{**SMALL, **parameters})


def truth(labels: np.ndarray, pairs: np.ndarray) -> dict[str, np.ndarray]:
    together = labels[pairs[:, 0]] == labels[pairs[:, 1]]
    return {"must_link": pairs[together], "cannot_link": pairs[~together]}


@pytest.mark.parametrize("strategy", NAMES)
def test_pairs_are_new_and_the_same_again(strategy: str, blobs: tuple[np.ndarray, np.ndarray]) -> None:
    X, _ = blobs
    estimator = small().fit(X, must_link=[[0, 1], [5, 2]], cannot_link=[[0, 59, 2]])
    found = estimator.query(12, strategy=strategy)
    assert found.pairs.shape == (12, 2)
    assert found.pairs.dtype == np.int64
    assert (found.pairs[:, 0] < found.pairs[:, 1]).all()
    assert len({tuple(pair) for pair in found.pairs.tolist()}) == 12
    assert ((found.together > 0) & (found.together < 1)).all()
    assert (found.information >= 0).all()
    if strategy != "again":
        assert not {(0, 1), (2, 5), (0, 59)} & {tuple(pair) for pair in found.pairs.tolist()}
    again = pickle.loads(pickle.dumps(estimator)).query(12, strategy=strategy)
    for one, other in zip(found, again, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("model", ["unsupervised", "likelihood", "posterior", "conditional"])
@pytest.mark.parametrize("covariance", ["spherical", "auto"])
def test_any_fit_can_ask(model: str, covariance: str, blobs: tuple[np.ndarray, np.ndarray]) -> None:
    X, labels = blobs
    estimator = small(model=model, covariance=covariance, accuracy=0.9).fit(X)
    found = estimator.query(6)
    estimator.partial_fit(X, **truth(labels, found.pairs))
    assert len(estimator.query(6).pairs) == 6


def test_answers_add_up_and_questions_help(blobs: tuple[np.ndarray, np.ndarray]) -> None:
    X, labels = blobs
    estimator = small(feature_weight="effective").fit(X)
    assert (estimator.must_link_, estimator.cannot_link_) == (None, None)
    rights = []
    for batch in range(5):
        estimator.partial_fit(X, **truth(labels, estimator.query(20).pairs))
        n_links = sum(
            len(links) for links in (estimator.must_link_, estimator.cannot_link_) if links is not None
        )
        assert n_links == 20 * (batch + 1)
        share = (estimator.labels_[:, None] == estimator.labels_) == (labels[:, None] == labels)
        rights.append(share.mean())
    assert rights[-1] > max(rights[0], 0.95)


def test_a_partial_fit_is_the_fit_of_all_annotations(blobs: tuple[np.ndarray, np.ndarray]) -> None:
    X, labels = blobs
    pairs = np.random.default_rng(1).integers(0, 60, size=(40, 2))
    first, second = truth(labels, pairs[:20]), truth(labels, pairs[20:])
    stepwise = small(restarts=9).partial_fit(X, **first)
    before = stepwise.labels_
    stepwise.partial_fit(X, **second)
    whole = small(restarts=9).fit(X, **truth(labels, pairs))
    assert len(whole.restart_objectives_) == 9
    assert len(stepwise.restart_objectives_) == 3
    assert stepwise.objective_ == pytest.approx(whole.objective_)
    for links in ("must_link_", "cannot_link_"):
        assert sorted(getattr(stepwise, links).tolist()) == sorted(getattr(whole, links).tolist())
    assert before.shape == stepwise.labels_.shape


def test_it_begins_with_the_solution_there_is(blobs: tuple[np.ndarray, np.ndarray]) -> None:
    X, _ = blobs
    # one restart of a search that does next to nothing: what is not kept is not found again
    search = {"restarts": 1, "generations": 1, "population": 2, "offspring": 1}
    kept, anew = [], []
    for seed in range(5):
        estimator = AnnotatedClustering(n_clusters=8, restarts=9, random_state=seed).fit(X)
        good = estimator.objective_
        estimator.set_params(**search, random_state=seed + 100)
        kept.append(estimator.partial_fit(X).objective_ - good)
        anew.append(estimator.fit(X).objective_ - good)
    assert min(kept) >= -1e-9
    assert min(anew) < -1e-3


def test_a_later_change_of_the_table_does_not_matter(blobs: tuple[np.ndarray, np.ndarray]) -> None:
    X = blobs[0].copy()
    estimator = small().fit(X)
    before = estimator.query(5).pairs
    X[:] = 0.0
    np.testing.assert_array_equal(estimator.query(5).pairs, before)


def test_what_is_wrong_is_said_and_the_fit_is_kept(blobs: tuple[np.ndarray, np.ndarray]) -> None:
    X, _ = blobs
    with pytest.raises(NotFittedError):
        small().query(3)
    estimator = small().fit(X)
    labels = estimator.labels_
    with pytest.raises(InputError) as caught:
        estimator.set_params(accuracy=0.5).query(0, strategy="anchor")
    assert [problem.where for problem in caught.value.problems] == ["n", "strategy", "accuracy"]
    assert "did you mean 'anchors'?" in str(caught.value)
    estimator.set_params(accuracy=None)
    with pytest.raises(InputError, match="that of the fit, of shape"):
        estimator.partial_fit(X + 1.0)
    with pytest.raises(ValueError, match="is expecting 2 features"):
        estimator.partial_fit(X[:, :1])
    with pytest.raises(InputError, match="must_link, row 0"):
        estimator.partial_fit(X, must_link=[[0, 60]])
    assert estimator.labels_ is labels
    assert estimator.must_link_ is None


def test_all_pairs_run_out() -> None:
    X = np.arange(5.0)[:, None] ** 2
    estimator = AnnotatedClustering(n_clusters=2, restarts=1, random_state=0, variance_prior=1.0).fit(X)
    assert len(estimator.query(100).pairs) == 10


@pytest.mark.parametrize("index", [[f"s{row}" for row in range(60)], np.arange(60)[::-1], np.arange(60) * 2])
def test_questions_have_the_labels_of_the_table(index: Any, blobs: tuple[np.ndarray, np.ndarray]) -> None:
    X, labels = blobs
    frame = pd.DataFrame(X, index=index)
    named, plain = small().fit(frame), small().fit(X)
    for _ in range(2):
        asked, by_place = named.query(8), plain.query(8)
        assert asked.positions.tolist() == by_place.positions.tolist() == by_place.pairs.tolist()
        assert asked.pairs.tolist() == frame.index.to_numpy()[by_place.pairs].tolist()
        together = labels[asked.positions[:, 0]] == labels[asked.positions[:, 1]]
        named.partial_fit(frame, must_link=asked.pairs[together], cannot_link=asked.pairs[~together])
        plain.partial_fit(X, **truth(labels, by_place.pairs))
        assert named.labels_.tobytes() == plain.labels_.tobytes()
    again = small(confidence=True).fit(frame)
    pairs = np.array([[0, 5], [20, 59]])
    expected = small(confidence=True).fit(X).together(pairs)
    assert again.together(frame.index.to_numpy()[pairs]).tolist() == expected.tolist()
    with pytest.raises(InputError, match="pairs: found rows of 3"):
        again.together(frame.index.to_numpy()[[[0, 1, 2]]])


def test_rows_keep_their_names(blobs: tuple[np.ndarray, np.ndarray]) -> None:
    X, _ = blobs
    frame = pd.DataFrame(X, index=[f"s{row}" for row in range(60)])
    named = small().fit(frame)
    for other in (X, frame.set_axis(frame.index[::-1]), frame.reset_index(drop=True)):
        with pytest.raises(
            InputError, match=r"X: found .*, expected as in the fit: rows named 's0', 's1', 's2'"
        ):
            named.partial_fit(other)
    with pytest.raises(InputError, match=r"rows named 's0'.*, expected as in the fit: rows without names"):
        small().fit(X).partial_fit(frame)
    named.partial_fit(X, must_link=[["s1", "s2"]], samples=frame.index)
    assert named.must_link_.tolist() == [[1, 2, 1]]
    small().fit(X).partial_fit(pd.DataFrame(X))  # numbers from 0 are places


def test_annotators_come_step_by_step(blobs: tuple[np.ndarray, np.ndarray]) -> None:
    X, _ = blobs
    accuracies = {"ann": 0.9, "bob": 0.8}
    estimator = small(annotator_accuracy=accuracies).fit(X)
    estimator.partial_fit(X, must_link={"ann": [[0, 1]]})
    estimator.partial_fit(X, must_link={"bob": [[1, 2]]}, cannot_link={"ann": [[0, 59]]})
    assert {who: rows.tolist() for who, rows in estimator.must_link_.items()} == {
        "ann": [[0, 1, 1]], "bob": [[1, 2, 1]],
    }  # fmt: skip
    assert list(estimator.cannot_link_) == ["ann"]
    whole = small(annotator_accuracy=accuracies)
    whole.fit(X, must_link={"ann": [[0, 1]], "bob": [[1, 2]]}, cannot_link={"ann": [[0, 59]]})
    assert whole.objective_ == pytest.approx(estimator.objective_)
    assert len(estimator.query(4).pairs) == 4
