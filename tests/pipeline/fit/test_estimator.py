"""The estimator: scikit-learn's conventions, and the numbers of `sweep fit`."""

from __future__ import annotations

import inspect
import json
import math
import pickle
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from scipy.sparse import coo_array
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks
from solving.blobs import far_clusters

from kernels.problem.problem import CANNOT, MODELS, MUST, Layer
from kernels.settings import PARAMETERS, Settings
from pipeline.commands.fit import fit_command
from pipeline.fit.estimator import AnnotatedClustering, runner
from pipeline.fit.solve import fit
from sweeps.errors import InputError

# Restarts side by side: in order, at once, and the same bits.


def fitted_bits(estimator: AnnotatedClustering) -> dict[str, bytes]:
    return {name: pickle.dumps(value) for name, value in vars(estimator).items() if name.endswith("_")}


@pytest.mark.parametrize(("n_jobs", "covariance"), [(2, "spherical"), (-1, "full")])
def test_the_number_of_jobs_changes_no_bit(n_jobs: int, covariance: str) -> None:
    X = np.random.default_rng(3).normal(size=(150, 3))
    given: dict[str, Any] = {
        "restarts": 6,
        "generations": 1,
        "population": 3,
        "random_state": 5,
        "covariance": covariance,
    }
    links = {"must_link": [[0, 1], [4, 9]], "cannot_link": [[2, 3]]}
    one = AnnotatedClustering(8, **given).fit(X, **links)
    several = AnnotatedClustering(8, n_jobs=n_jobs, **given).fit(X, **links)
    assert len(set(one.restart_objectives_)) > 1
    assert fitted_bits(several) == fitted_bits(one)
    assert fitted_bits(several.partial_fit(X, must_link=[[7, 8]])) == fitted_bits(
        one.partial_fit(X, must_link=[[7, 8]])
    )


def test_calls_are_at_once_and_results_in_order() -> None:
    barrier = threading.Barrier(2, timeout=20)

    def meet(number: int) -> int:
        barrier.wait()  # for ever, if calls came one after the other
        return number * number

    assert list(runner(2)(meet, range(4))) == [0, 1, 4, 9]


# What the estimator is given: forms of links, data frames, and everything that can be wrong.

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


def problems(estimator: AnnotatedClustering, X: object, **links: Any) -> list[str]:
    with pytest.raises(InputError) as raised:
        estimator.fit(X, **links)
    return str(raised.value).splitlines()


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("n_clusters", 2.0, f"found 2.0, expected {PARAMETERS['n_clusters'].expected}"),
        ("n_clusters", True, f"found True, expected {PARAMETERS['n_clusters'].expected}"),
        ("restarts", 0, "found 0, expected a whole number, 1 or more"),
        ("min_cluster_size", None, "found None, expected a whole number, 1 or more"),
        ("model", "likelyhood",
         f"found 'likelyhood', expected one of {KNOWN_MODELS} (did you mean 'likelihood'?)"),
        ("model", ["auto"], f"found ['auto'], expected one of {KNOWN_MODELS}"),
        ("model", None, f"found None, expected one of {KNOWN_MODELS}"),
        ("covariance", "shared", f"found 'shared', expected one of {KNOWN_SHAPES}"),
        ("accuracy", 0, "found 0, expected a number above 0, at most 1"),
        ("accuracy", math.nan, "found nan, expected a number above 0, at most 1"),
        ("accuracy", "high", "found 'high', expected a number above 0, at most 1"),
        ("variance_prior", math.inf, "found inf, expected a finite number, 0 or more"),
        ("method", None, "found None, expected one of strong, published"),
        ("relocation", ["all"], "found ['all'], expected one of annotated, all, components"),
        ("n_jobs", 0, "found 0, expected None or a whole number other than 0 (-1 is all cores)"),
        ("n_jobs", "all", "found 'all', expected None or a whole number other than 0 (-1 is all cores)"),
        ("links_outside", "dorp", "found 'dorp', expected one of error, drop (did you mean 'drop'?)"),
        ("annotator_accuracy", 0.9, "found 0.9, expected None or a mapping of names to numbers"),
        ("annotator_accuracy", {1: 0.9}, "found annotator 1, expected a name, a text"),
        ("confidence", 1, "found 1, expected True or False"),
        ("random_state", -1, "found -1, expected None, a RandomState or a whole number, 0 or more"),
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
        "n_clusters", "accuracy", "restarts", "annotator_accuracy of ann", "annotator_accuracy of bob",
        "must_link, row 0", "must_link, row 0", "cannot_link",
    ]  # fmt: skip
    (found, *_) = problems(small(model="posterior"), blobs)
    assert found == "accuracy: found nothing, expected a number above 0, at most 1: posterior needs it"


def test_data_frames(blobs: np.ndarray) -> None:
    frame = pd.DataFrame(blobs, columns=["a", "b"], index=np.arange(30)[::-1])
    places = np.array(MUST_LINKS)
    estimator = small().fit(frame, must_link=29 - places)  # links name rows by the index
    plain = small().fit(blobs, must_link=places)
    assert estimator.feature_names_in_.tolist() == ["a", "b"]
    assert estimator.labels_.tolist() == plain.labels_.tolist()
    assert estimator.must_link_.tolist() == plain.must_link_.tolist() == [[*row, 1] for row in MUST_LINKS]
    assert estimator.predict(frame).tolist() == plain.predict(blobs).tolist()
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        estimator.predict(blobs)
    with pytest.warns(UserWarning, match="fitted without feature names"):
        plain.score(frame)
    for other, text in [
        (frame.rename(columns={"b": "c"}), "unseen at fit time:\n- c\n.*now missing:\n- b"),
        (frame[["b"]], "now missing:\n- a"),
        (frame[["b", "a"]], "must be in the same order"),
    ]:
        for method in (estimator.predict, estimator.score):
            with pytest.raises(ValueError, match=f"(?s)feature names should match.*{text}"):
                method(other)
    with pytest.raises(TypeError, match="string names"):
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


# The estimator that asks: pairs to annotate next, and annotations that are added.

ASKING: dict[str, Any] = {"restarts": 3, "generations": 2, "random_state": 5, "model": "conditional"}


@pytest.fixture(scope="module")
def near_blobs() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1, 2], 20)
    return rng.normal(size=(60, 2)) + 2.0 * np.eye(3, 2)[labels], labels


def asking(**parameters: Any) -> AnnotatedClustering:
    return AnnotatedClustering(n_clusters=3, **{**ASKING, **parameters})


def truth(labels: np.ndarray, pairs: np.ndarray) -> dict[str, np.ndarray]:
    together = labels[pairs[:, 0]] == labels[pairs[:, 1]]
    return {"must_link": pairs[together], "cannot_link": pairs[~together]}


@pytest.mark.parametrize("strategy", ["information", "again", "uniform"])
def test_pairs_are_new_and_the_same_again(strategy: str, near_blobs: tuple[np.ndarray, np.ndarray]) -> None:
    X, _ = near_blobs
    estimator = asking().fit(X, must_link=[[0, 1], [5, 2]], cannot_link=[[0, 59, 2]])
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


def test_a_partial_fit_is_the_fit_of_all_annotations(near_blobs: tuple[np.ndarray, np.ndarray]) -> None:
    X, labels = near_blobs
    pairs = np.random.default_rng(1).integers(0, 60, size=(40, 2))
    first, second = truth(labels, pairs[:20]), truth(labels, pairs[20:])
    stepwise = asking(restarts=9).partial_fit(X, **first)
    before = stepwise.labels_
    stepwise.partial_fit(X, **second)
    whole = asking(restarts=9).fit(X, **truth(labels, pairs))
    assert len(whole.restart_objectives_) == 9
    assert len(stepwise.restart_objectives_) == 3
    assert stepwise.objective_ == pytest.approx(whole.objective_)
    for links in ("must_link_", "cannot_link_"):
        assert sorted(getattr(stepwise, links).tolist()) == sorted(getattr(whole, links).tolist())
    assert before.shape == stepwise.labels_.shape


def test_it_begins_with_the_solution_there_is(near_blobs: tuple[np.ndarray, np.ndarray]) -> None:
    X, _ = near_blobs
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


def test_a_later_change_of_the_table_does_not_matter(near_blobs: tuple[np.ndarray, np.ndarray]) -> None:
    X = near_blobs[0].copy()
    estimator = asking().fit(X)
    before = estimator.query(5).pairs
    X[:] = 0.0
    np.testing.assert_array_equal(estimator.query(5).pairs, before)


def test_what_is_wrong_is_said_and_the_fit_is_kept(near_blobs: tuple[np.ndarray, np.ndarray]) -> None:
    X, _ = near_blobs
    with pytest.raises(NotFittedError):
        asking().query(3)
    estimator = asking().fit(X)
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


@pytest.mark.parametrize("index", [[f"s{row}" for row in range(60)], np.arange(60)[::-1]])
def test_questions_have_the_labels_of_the_table(
    index: Any, near_blobs: tuple[np.ndarray, np.ndarray]
) -> None:
    X, labels = near_blobs
    frame = pd.DataFrame(X, index=index)
    named, plain = asking().fit(frame), asking().fit(X)
    for _ in range(2):
        asked, by_place = named.query(8), plain.query(8)
        assert asked.positions.tolist() == by_place.positions.tolist() == by_place.pairs.tolist()
        assert asked.pairs.tolist() == frame.index.to_numpy()[by_place.pairs].tolist()
        together = labels[asked.positions[:, 0]] == labels[asked.positions[:, 1]]
        named.partial_fit(frame, must_link=asked.pairs[together], cannot_link=asked.pairs[~together])
        plain.partial_fit(X, **truth(labels, by_place.pairs))
        assert named.labels_.tobytes() == plain.labels_.tobytes()
    again = asking(confidence=True).fit(frame)
    pairs = np.array([[0, 5], [20, 59]])
    expected = asking(confidence=True).fit(X).together(pairs)
    assert again.together(frame.index.to_numpy()[pairs]).tolist() == expected.tolist()
    with pytest.raises(InputError, match="pairs: found rows of 3"):
        again.together(frame.index.to_numpy()[[[0, 1, 2]]])


def test_rows_keep_their_names(near_blobs: tuple[np.ndarray, np.ndarray]) -> None:
    X, _ = near_blobs
    frame = pd.DataFrame(X, index=[f"s{row}" for row in range(60)])
    named = asking().fit(frame)
    for other in (X, frame.set_axis(frame.index[::-1]), frame.reset_index(drop=True)):
        with pytest.raises(
            InputError, match=r"X: found .*, expected as in the fit: rows named 's0', 's1', 's2'"
        ):
            named.partial_fit(other)
    with pytest.raises(InputError, match=r"rows named 's0'.*, expected as in the fit: rows without names"):
        asking().fit(X).partial_fit(frame)
    named.partial_fit(X, must_link=[["s1", "s2"]], samples=frame.index)
    assert named.must_link_.tolist() == [[1, 2, 1]]
    asking().fit(X).partial_fit(pd.DataFrame(X))  # numbers from 0 are places


# What a fit says of samples without annotations: clusters and densities.


def slow_costs(estimator: AnnotatedClustering, x: np.ndarray) -> list[float]:
    """Costs of one sample, written down as in the text."""
    costs = []
    for center, variance in zip(estimator.cluster_centers_, estimator.covariances_, strict=True):
        squares = sum((a - b) ** 2 for a, b in zip(x.tolist(), center.tolist(), strict=True))
        is_degenerate = variance == 0
        cost = math.inf if is_degenerate else squares / (2 * variance) + len(x) / 2 * math.log(variance)
        costs.append(cost)
    return costs


def test_predict_and_score_against_one_sample_at_a_time() -> None:
    rng = np.random.default_rng(8)
    # a wide and a narrow cluster: the closest centre is not always the cheapest
    X = np.concatenate([rng.normal(0, 5, size=(60, 2)), rng.normal(4, 0.3, size=(60, 2))])
    estimator = small(2).fit(X)
    other = rng.normal(2, 4, size=(200, 2))
    costs = np.array([slow_costs(estimator, x) for x in other])
    predicted = estimator.predict(other)
    assert predicted.dtype == estimator.labels_.dtype == np.int32
    assert predicted.tolist() == costs.argmin(axis=1).tolist()
    closest = np.square(other[:, None] - estimator.cluster_centers_).sum(axis=2).argmin(axis=1)
    assert (predicted != closest).any()
    expected = -costs.min(axis=1).mean() - math.log(2 * math.pi) - math.log(2)
    assert estimator.score(other) == pytest.approx(expected, rel=1e-12)


def test_score_is_a_density(noise: np.ndarray) -> None:
    estimator = small().fit(noise)
    n_samples, n_features = noise.shape
    dropped = 0.5 * n_samples * n_features * math.log(2 * math.pi) + n_samples * math.log(3)
    assert n_samples * estimator.score(noise) == pytest.approx(estimator.objective_ - dropped, rel=1e-12)
    clusters = zip(estimator.cluster_centers_, estimator.covariances_, strict=True)
    mixture = sum(multivariate_normal(mean, variance).pdf(noise) for mean, variance in clusters) / 3
    assert estimator.score(noise) < np.log(mixture).mean() < estimator.score(noise) + math.log(3)


def test_nothing_is_predicted_if_all_clusters_are_degenerate() -> None:
    X = np.repeat([[0.0], [100.0]], 3, axis=0)
    with pytest.warns(ConvergenceWarning, match="variance 0: 0, 1;"), pytest.warns(UserWarning, match="rows"):
        estimator = small(2).fit(X)
    assert len(set(estimator.labels_)) == 2
    for method in (estimator.predict, estimator.score):
        with pytest.raises(ValueError, match="all clusters are degenerate"):
            method(X)


CANNOT_LINKS = [[0, 15, 2], [21, 11, 0.5], [7, 7, 1]]
SMALL: dict[str, Any] = {"restarts": 2, "generations": 2, "random_state": 5}


@pytest.fixture(scope="module")
def noise() -> np.ndarray:
    """Forty samples without clusters: the search finds different solutions from different seeds."""
    return np.random.default_rng(3).normal(size=(40, 3))


def small(n_clusters: int = 3, **changes: Any) -> AnnotatedClustering:
    return AnnotatedClustering(n_clusters, **(SMALL | changes))


# No check is expected to fail: the list of exceptions is empty. `check_array_api_input` is skipped by
# scikit-learn itself unless SCIPY_ARRAY_API is set.
@parametrize_with_checks([AnnotatedClustering(restarts=2, generations=2)])
def test_conventions_of_scikit_learn(estimator: AnnotatedClustering, check: Callable[..., None]) -> None:
    check(estimator)


@pytest.mark.parametrize(
    "changes",
    [
        {"model": "posterior", "accuracy": 0.8},
        {"model": "conditional", "accuracy": 0.7, "covariance": "common"},
        {"accuracy": 0.9, "min_cluster_size": 5, "variance_prior": 1.5, "random_state": 2**40},
        {"method": "published", "crossover": "labels", "mutation": 0.5},
    ],
)
def test_same_bits_as_the_command(changes: dict[str, Any], noise: np.ndarray, tmp_path: Path) -> None:
    np.savetxt(tmp_path / "x", noise, fmt="%.17g")
    # files count from 1, and self pairs twice
    (tmp_path / "must").write_text("1 2 2\n5 5 2\n11 12\n4 30 1\n")
    (tmp_path / "cannot").write_text("16 1 2\n12 22 0.5\n8 8 2\n")
    changes = {
        "population": 2,
        "offspring": 1,
        "generations": 1,
        "restarts": 6,
        **changes,
    }  # not all reach the best
    estimator = small(**changes).fit(noise, must_link=MUST_LINKS, cannot_link=CANNOT_LINKS)
    options = {
        **{name.replace("_", "-"): value for name, value in (SMALL | changes).items()},
        "n-clusters": 3,
        "must-link": tmp_path / "must",
        "cannot-link": tmp_path / "cannot",
    }
    options["seed"] = options.pop("random-state")
    arguments = [text for name, value in options.items() for text in (f"--{name}", str(value))]
    command = CliRunner().invoke(fit_command, [str(tmp_path / "x"), "--json", *arguments])
    assert command.exit_code == 0, command.output
    document = json.loads(command.stdout)
    for name in ("model", "objective", "gmm", "sbm", "prior", "best_restart"):
        assert getattr(estimator, f"{name}_") == document[name]
    for name in ("labels", "sizes", "covariances", "restart_objectives"):
        assert getattr(estimator, f"{name}_").tolist() == document[name]
    assert estimator.cluster_centers_.tolist() == document["centroids"]
    assert len(set(estimator.restart_objectives_)) > 1  # or the seed would not matter


def test_every_parameter_reaches_the_search(noise: np.ndarray) -> None:
    search: dict[str, Any] = {"population": 3, "offspring": 4, "generations": 5, "patience": 2}
    search |= {"crossover": "labels", "mutation": 0.5, "relocation": "all"}
    search |= {"min_cluster_size": 7, "variance_prior": 0.5}
    given: dict[str, Any] = {"model": "posterior", "restarts": 3}
    estimator = AnnotatedClustering(4, accuracy=0.7, random_state=9, **given, **search)
    estimator.fit(noise, must_link=[[0, 1]], cannot_link=[[2, 3, 4.0]])
    layers = [
        Layer(MUST, np.array([[0, 1]]), None, 0.7),
        Layer(CANNOT, np.array([[2, 3]]), np.array([4.0]), 0.7),
    ]
    result = fit(noise, layers, n_clusters=4, settings=Settings(**search), seed=9, **given)
    assert estimator.labels_.tolist() == result.best.labels.tolist()
    assert estimator.restart_objectives_.tobytes() == result.restart_objectives.tobytes()
    assert estimator.caps_reached_ == result.caps_reached
    assert estimator.sizes_.min() >= 7


def test_parameters_are_plain_to_see() -> None:
    signature = inspect.signature(AnnotatedClustering)
    assert not [each for each in signature.parameters.values() if each.kind is each.VAR_KEYWORD]
    assert sorted(signature.parameters) == sorted(AnnotatedClustering().get_params())
    text, _, _ = str(inspect.getdoc(AnnotatedClustering)).partition("Attributes\n")
    assert sorted(re.findall(r"^(\w+) : ", text, flags=re.MULTILINE)) == sorted(signature.parameters)
    assert max(map(len, text.splitlines())) <= 106
    with pytest.raises(TypeError, match="populaton"):
        AnnotatedClustering(populaton=3)
    with pytest.raises(ValueError, match="populaton"):
        AnnotatedClustering().set_params(populaton=3)


def test_degenerate_cluster_is_announced_and_receives_nothing() -> None:
    X = np.concatenate([np.zeros((5, 2)), np.random.default_rng(0).normal(9, 1, size=(10, 2))])
    with pytest.warns(ConvergenceWarning, match=r"variance 0: \d; variance_prior above 0") as caught:
        estimator = small(2).fit(X)
    assert caught[0].filename == __file__
    degenerate = int(estimator.labels_[0])
    assert estimator.covariances_[degenerate] == 0
    assert set(estimator.predict(X)) == {1 - degenerate}
    assert np.isfinite(estimator.score(X))
    bounded = small(2, variance_prior=1.0).fit(X)
    assert bounded.covariances_.min() > 0
    assert bounded.predict(X).tolist() == bounded.labels_.tolist()


def test_problem_without_solution_keeps_the_earlier_fit(blobs: np.ndarray) -> None:
    estimator = small().fit(blobs)
    before = fitted_bits(estimator)
    for X, text in [
        (np.ones((8, 2)), "X: found 8 rows without any variance"),
        (blobs[:5, :1], "5 samples are fewer"),
        (np.repeat([[0.0], [1.0]], 5, axis=0), "only 2 distinct rows"),
    ]:
        with pytest.raises(ValueError, match=text):
            estimator.fit(X)
    assert fitted_bits(estimator) == before


def test_random_state(noise: np.ndarray) -> None:
    fits = {
        "number": small(random_state=5).fit(noise),
        "numpy number": small(random_state=np.int64(5)).fit(noise),
        "stream": small(random_state=np.random.RandomState(5)).fit(noise),
        "none": small(random_state=None).fit(noise),
    }
    assert fits["number"].seed_ == 5
    assert fitted_bits(fits["numpy number"]) == fitted_bits(fits["number"])
    assert fits["stream"].seed_ == np.random.RandomState(5).randint(2**31 - 1)
    assert fits["none"].seed_ not in (5, small(random_state=None).fit(noise).seed_)
    for drawn in (fits["stream"], fits["none"]):
        assert fitted_bits(small(random_state=drawn.seed_).fit(noise)) == fitted_bits(drawn)
        assert drawn.restart_objectives_.tobytes() != fits["number"].restart_objectives_.tobytes()


def test_clones_and_copies(blobs: np.ndarray) -> None:
    estimator = small(accuracy=0.9, variance_prior=0.1).fit(blobs, must_link=MUST_LINKS)
    copy = clone(estimator)
    assert copy.get_params() == estimator.get_params()
    with pytest.raises(NotFittedError):
        copy.predict(blobs)
    assert fitted_bits(copy.fit(blobs, must_link=MUST_LINKS)) == fitted_bits(estimator)
    restored = pickle.loads(pickle.dumps(estimator))
    assert restored.predict(blobs).tolist() == estimator.predict(blobs).tolist()
    assert restored.score(blobs) == estimator.score(blobs)
