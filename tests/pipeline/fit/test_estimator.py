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
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks
from solving.blobs import far_clusters

from kernels.problem.problem import CANNOT, MUST, Layer
from kernels.settings import Settings
from pipeline.commands.fit import fit_command
from pipeline.fit.estimator import AnnotatedClustering, runner
from pipeline.fit.solve import fit
from sweeps.errors import InputError

MUST_LINKS = [[0, 1], [4, 4], [10, 11], [0, 1], [3, 29]]
CANNOT_LINKS = [[0, 15, 2], [21, 11, 0.5], [7, 7, 1]]
SMALL: dict[str, Any] = {"restarts": 2, "generations": 2, "random_state": 5}
BLOBS = far_clusters()[0]
# without clusters: the search finds different solutions from different seeds
NOISE = np.random.default_rng(3).normal(size=(40, 3))


def small(n_clusters: int = 3, **changes: Any) -> AnnotatedClustering:
    return AnnotatedClustering(n_clusters, **(SMALL | changes))


def bits(estimator: AnnotatedClustering) -> dict[str, bytes]:
    return {name: pickle.dumps(value) for name, value in vars(estimator).items() if name.endswith("_")}


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
        {"accuracy": 0.9, "confidence": True, "restarts": 2, "generations": 2, "population": 5},
    ],
)
def test_same_bits_as_the_command(changes: dict[str, Any], tmp_path: Path) -> None:
    np.savetxt(tmp_path / "x", NOISE, fmt="%.17g")
    # files count from 1, and self pairs twice
    (tmp_path / "must").write_text("1 2 2\n5 5 2\n11 12\n4 30 1\n")
    (tmp_path / "cannot").write_text("16 1 2\n12 22 0.5\n8 8 2\n")
    # not all reach the best
    given = SMALL | {"population": 2, "offspring": 1, "generations": 1, "restarts": 6} | changes
    estimator = small(**given).fit(NOISE, must_link=MUST_LINKS, cannot_link=CANNOT_LINKS)
    files = ["--must-link", str(tmp_path / "must"), "--cannot-link", str(tmp_path / "cannot")]
    arguments = [str(tmp_path / "x"), "--json", "-k", "3", "--seed", str(given.pop("random_state")), *files]
    arguments += ["--confidence"] if given.pop("confidence", False) else []
    arguments += [f"--{name.replace('_', '-')}={value}" for name, value in given.items()]
    command = CliRunner().invoke(fit_command, arguments)
    assert command.exit_code == 0, command.output
    document = json.loads(command.stdout)
    for name in ("model", "objective", "gmm", "sbm", "prior", "best_restart"):
        assert getattr(estimator, f"{name}_") == document[name]
    arrays = ["labels", "sizes", "covariances", "restart_objectives"]
    for name in arrays + (["membership", "confidence"] if "confidence" in changes else []):
        assert getattr(estimator, f"{name}_").tolist() == document[name]
    assert estimator.cluster_centers_.tolist() == document["centroids"]
    assert len(set(estimator.restart_objectives_)) > 1  # or the seed would not matter


def test_every_parameter_reaches_the_search() -> None:
    search: dict[str, Any] = {"population": 3, "offspring": 4, "generations": 5, "patience": 2}
    search |= {"crossover": "labels", "mutation": 0.5, "relocation": "all"}
    search |= {"min_cluster_size": 7, "variance_prior": 0.5}
    given: dict[str, Any] = {"model": "posterior", "restarts": 3}
    estimator = AnnotatedClustering(4, accuracy=0.7, random_state=9, **given, **search)
    estimator.fit(NOISE, must_link=[[0, 1]], cannot_link=[[2, 3, 4.0]])
    must = Layer(MUST, np.array([[0, 1]]), None, 0.7)
    cannot = Layer(CANNOT, np.array([[2, 3]]), np.array([4.0]), 0.7)
    result = fit(NOISE, [must, cannot], n_clusters=4, settings=Settings(**search), seed=9, **given)
    assert estimator.labels_.tolist() == result.best.labels.tolist()
    assert estimator.restart_objectives_.tobytes() == result.restart_objectives.tobytes()
    assert estimator.caps_reached_ == result.caps_reached
    assert estimator.sizes_.min() >= 7


@pytest.mark.parametrize(("n_jobs", "covariance"), [(2, "spherical"), (-1, "full")])
def test_the_number_of_jobs_changes_no_bit(n_jobs: int, covariance: str) -> None:
    X = np.random.default_rng(3).normal(size=(80, 3))
    given: dict[str, Any] = {"restarts": 5, "generations": 1, "population": 3, "random_state": 5}
    links = {"must_link": [[0, 1], [4, 9]], "cannot_link": [[2, 3]]}
    one, several = (
        AnnotatedClustering(8, covariance=covariance, n_jobs=jobs, **given).fit(X, **links)
        for jobs in (None, n_jobs)
    )
    assert len(set(one.restart_objectives_)) > 1
    assert bits(several) == bits(one)
    more = {"must_link": [[7, 8]]}
    assert bits(several.partial_fit(X, **more)) == bits(one.partial_fit(X, **more))
    barrier = threading.Barrier(2, timeout=20)

    def meet(number: int) -> int:
        barrier.wait()  # for ever, if calls came one after the other
        return number * number

    assert list(runner(2)(meet, range(4))) == [0, 1, 4, 9]


def test_random_state() -> None:
    number, numpys, stream, drawn = (
        small(random_state=state).fit(NOISE) for state in (5, np.int64(5), np.random.RandomState(5), None)
    )
    assert number.seed_ == 5
    assert bits(numpys) == bits(number)
    assert stream.seed_ == np.random.RandomState(5).randint(2**31 - 1)
    assert drawn.seed_ not in (5, small(random_state=None).fit(NOISE).seed_)
    for other in (stream, drawn):
        assert bits(small(random_state=other.seed_).fit(NOISE)) == bits(other)
        assert other.restart_objectives_.tobytes() != number.restart_objectives_.tobytes()


def test_clones_and_copies() -> None:
    estimator = small(accuracy=0.9, variance_prior=0.1).fit(BLOBS, must_link=MUST_LINKS)
    copy = clone(estimator)
    assert copy.get_params() == estimator.get_params()
    with pytest.raises(NotFittedError):
        copy.predict(BLOBS)
    assert bits(copy.fit(BLOBS, must_link=MUST_LINKS)) == bits(estimator)
    restored = pickle.loads(pickle.dumps(estimator))
    assert restored.predict(BLOBS).tolist() == estimator.predict(BLOBS).tolist()
    assert restored.score(BLOBS) == estimator.score(BLOBS)


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


# What the estimator is given: forms of links, data frames, and everything that can be wrong.


@pytest.mark.parametrize("model", ["likelihood", "posterior"])
def test_forms_of_the_same_links(model: str) -> None:
    rng = np.random.default_rng(1)
    links = rng.integers(40, size=(50, 2))
    links[0] = 7
    pairs, counts = np.unique(np.sort(links, axis=1), axis=0, return_counts=True)
    table = np.column_stack([pairs, counts])
    columns = {"i": table[:, 0], "j": table[:, 1], "weight": table[:, 2].astype(float)}
    forms = [
        links,
        links[::-1, ::-1],
        links.tolist(),
        links.astype(np.uint8),
        table,
        table.astype(np.float32),
    ]
    forms += [pd.DataFrame(columns, index=table[:, 0]), [tuple(row) for row in table.tolist()]]
    fits = [small(model=model, accuracy=0.8).fit(NOISE, cannot_link=form) for form in forms]
    assert len({(each.objective_, each.labels_.tobytes()) for each in fits}) == 1
    heavier = small(model=model, accuracy=0.8).fit(NOISE, cannot_link=table * [1, 1, 2])
    assert heavier.objective_ != fits[0].objective_


def problems(estimator: AnnotatedClustering, X: object, **links: Any) -> list[str]:
    with pytest.raises(InputError) as raised:
        estimator.fit(X, **links)
    return str(raised.value).splitlines()


@pytest.mark.parametrize(
    ("name", "value", "found"),
    [
        ("n_clusters", 2.0, "2.0, expected a whole number, 1 or more"),
        ("n_clusters", True, "True, expected a whole number"),
        ("restarts", 0, "0, expected a whole number, 1 or more"),
        ("min_cluster_size", None, "None, expected a whole number, 1 or more"),
        ("model", "likelyhood", "'likelyhood', expected one of auto, unsupervised, likelihood"),
        ("model", None, "None, expected one of auto"),
        ("covariance", "shared", "'shared', expected one of spherical, common, diagonal, tied, full, auto"),
        ("accuracy", math.nan, "nan, expected a number above 0, at most 1"),
        ("method", None, "None, expected one of strong, published"),
        ("n_jobs", 0, "0, expected None or a whole number other than 0 (-1 is all cores)"),
        ("n_jobs", "all", "'all', expected None or a whole number other than 0"),
        ("links_outside", "dorp", "'dorp', expected one of error, drop (did you mean 'drop'?)"),
        ("annotator_accuracy", 0, "0, expected None or a mapping of names to numbers"),
        ("annotator_accuracy", {1: 0.9}, "annotator 1, expected a name, a text"),
        ("confidence", 1, "1, expected True or False"),
        ("random_state", -1, "-1, expected None, a RandomState or a whole number, 0 or more"),
    ],
)
def test_bad_parameter(name: str, value: object, found: str) -> None:
    estimator = small().set_params(**{name: value})
    assert problems(estimator, BLOBS)[0].startswith(f"{name}: found {found}")


def test_all_problems_at_once() -> None:
    bad = small(0, model="posterior", restarts=-3, accuracy=3, annotator_accuracy={"ann": 2, "bob": True})
    found = problems(bad, BLOBS, must_link=[[0, 77, -1]], cannot_link="none")
    assert [line.partition(":")[0] for line in found] == [
        "n_clusters", "accuracy", "restarts", "annotator_accuracy of ann", "annotator_accuracy of bob",
        "must_link, row 0", "must_link, row 0", "cannot_link",
    ]  # fmt: skip
    (found, *_) = problems(small(model="posterior"), BLOBS)
    assert found == "accuracy: found nothing, expected a number above 0, at most 1: posterior needs it"


def test_problem_without_solution_keeps_the_earlier_fit() -> None:
    estimator = small().fit(BLOBS)
    before = bits(estimator)
    for X, text in [
        (np.ones((8, 2)), "X: found 8 rows without any variance"),
        (BLOBS[:5, :1], "5 samples are fewer"),
        (np.repeat([[0.0], [1.0]], 5, axis=0), "only 2 distinct rows"),
    ]:
        with pytest.raises(ValueError, match=text):
            estimator.fit(X)
    assert bits(estimator) == before


def test_data_frames() -> None:
    frame = pd.DataFrame(BLOBS, columns=["a", "b"], index=np.arange(30)[::-1])
    places = np.array(MUST_LINKS)
    estimator = small().fit(frame, must_link=29 - places)  # links name rows by the index
    plain = small().fit(BLOBS, must_link=places)
    assert estimator.feature_names_in_.tolist() == ["a", "b"]
    assert estimator.labels_.tolist() == plain.labels_.tolist()
    assert estimator.must_link_.tolist() == plain.must_link_.tolist() == [[*row, 1] for row in MUST_LINKS]
    assert estimator.predict(frame).tolist() == plain.predict(BLOBS).tolist()
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        estimator.predict(BLOBS)
    with pytest.warns(UserWarning, match="fitted without feature names"):
        plain.score(frame)
    for method in (estimator.predict, estimator.score):
        with pytest.raises(ValueError, match="feature names should match"):
            method(frame.rename(columns={"b": "c"}))
    with pytest.raises(TypeError, match="string names"):
        small().fit(frame.rename(columns={"b": 1}))
    estimator.fit(frame.rename(columns={"a": 0, "b": 1}))
    assert not hasattr(estimator, "feature_names_in_")
    assert estimator.predict(BLOBS).tolist() == estimator.labels_.tolist()


@pytest.mark.parametrize("where", ["X", "must_link", "samples"])
def test_masked_values_are_not_taken_as_good(where: str) -> None:
    given = {"X": NOISE[:9], "must_link": np.array([[0, 1], [2, 3]]), "samples": np.arange(9)}
    estimator = small(2, accuracy=0.9)
    masked = np.ma.masked_array(given[where], mask=np.zeros(given[where].shape, dtype=bool))
    labels = estimator.fit(**{**given, where: masked}).labels_  # of which none is masked
    assert np.array_equal(labels, estimator.fit(**given).labels_)
    masked[0] = np.ma.masked
    with pytest.raises(ValueError, match=f"{where}: found [123] masked values"):
        estimator.fit(**{**given, where: masked})


# The estimator that asks: pairs to annotate next, and annotations that are added.

NEAR_CLASSES = np.repeat([0, 1, 2], 20)
NEAR = np.random.default_rng(0).normal(size=(60, 2)) + 2.0 * np.eye(3, 2)[NEAR_CLASSES]


def asking(**parameters: Any) -> AnnotatedClustering:
    return small(**{"restarts": 3, "model": "conditional"} | parameters)


def truth(pairs: np.ndarray) -> dict[str, np.ndarray]:
    together = NEAR_CLASSES[pairs[:, 0]] == NEAR_CLASSES[pairs[:, 1]]
    return {"must_link": pairs[together], "cannot_link": pairs[~together]}


@pytest.mark.parametrize("strategy", ["information", "again", "uniform"])
def test_pairs_are_new_and_the_same_again(strategy: str) -> None:
    X = NEAR.copy()
    estimator = asking().fit(X, must_link=[[0, 1], [5, 2]], cannot_link=[[0, 59, 2]])
    X[:] = 0.0  # a later change of the table does not matter
    found = estimator.query(12, strategy=strategy)
    pairs = {tuple(pair) for pair in found.pairs.tolist()}
    assert (found.pairs.shape, found.pairs.dtype) == ((12, 2), np.int64)
    assert (found.pairs[:, 0] < found.pairs[:, 1]).all()
    assert len(pairs) == 12
    assert ((found.together > 0) & (found.together < 1)).all()
    assert (found.information >= 0).all()
    assert strategy == "again" or not {(0, 1), (2, 5), (0, 59)} & pairs
    again = pickle.loads(pickle.dumps(estimator)).query(12, strategy=strategy)
    for one, other in zip(found, again, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_partial_fit_is_the_fit_of_all_annotations() -> None:
    pairs = np.random.default_rng(1).integers(0, 60, size=(40, 2))
    stepwise = asking(restarts=9).partial_fit(NEAR, **truth(pairs[:20]))
    stepwise.partial_fit(NEAR, **truth(pairs[20:]))
    whole = asking(restarts=9).fit(NEAR, **truth(pairs))
    assert (len(whole.restart_objectives_), len(stepwise.restart_objectives_)) == (9, 3)
    assert stepwise.objective_ == pytest.approx(whole.objective_)
    for links in ("must_link_", "cannot_link_"):
        assert sorted(getattr(stepwise, links).tolist()) == sorted(getattr(whole, links).tolist())


def test_it_begins_with_the_solution_there_is() -> None:
    # one restart of a search that does next to nothing: what is not kept is not found again
    search = {"restarts": 1, "generations": 1, "population": 2, "offspring": 1}
    kept, anew = [], []
    for seed in range(5):
        estimator = AnnotatedClustering(n_clusters=8, restarts=9, random_state=seed).fit(NEAR)
        good = estimator.objective_
        estimator.set_params(**search, random_state=seed + 100)
        kept.append(estimator.partial_fit(NEAR).objective_ - good)
        anew.append(estimator.fit(NEAR).objective_ - good)
    assert min(kept) >= -1e-9
    assert min(anew) < -1e-3


def test_what_is_wrong_with_questions_is_said_and_the_fit_is_kept() -> None:
    with pytest.raises(NotFittedError):
        asking().query(3)
    estimator = asking().fit(NEAR)
    labels = estimator.labels_
    with pytest.raises(InputError, match="did you mean 'anchors'") as caught:
        estimator.set_params(accuracy=0.5).query(0, strategy="anchor")
    assert [problem.where for problem in caught.value.problems] == ["n", "strategy", "accuracy"]
    estimator.set_params(accuracy=None)
    for X, links, text in [
        (NEAR + 1.0, {}, "that of the fit, of shape"),
        (NEAR[:, :1], {}, "is expecting 2 features"),
        (NEAR, {"must_link": [[0, 60]]}, "must_link, row 0"),
    ]:
        with pytest.raises(ValueError, match=text):
            estimator.partial_fit(X, **links)
    assert estimator.labels_ is labels
    assert estimator.must_link_ is None


@pytest.mark.parametrize("index", [[f"s{row}" for row in range(60)], np.arange(60)[::-1]])
def test_questions_and_rows_have_the_names_of_the_table(index: Any) -> None:
    frame = pd.DataFrame(NEAR, index=index)
    named, plain = asking().fit(frame), asking().fit(NEAR)
    for _ in range(2):
        asked, by_place = named.query(8), plain.query(8)
        assert asked.positions.tolist() == by_place.positions.tolist() == by_place.pairs.tolist()
        assert asked.pairs.tolist() == frame.index.to_numpy()[by_place.pairs].tolist()
        together = NEAR_CLASSES[asked.positions[:, 0]] == NEAR_CLASSES[asked.positions[:, 1]]
        named.partial_fit(frame, must_link=asked.pairs[together], cannot_link=asked.pairs[~together])
        plain.partial_fit(NEAR, **truth(by_place.pairs))
        assert named.labels_.tobytes() == plain.labels_.tobytes()
    for other in (NEAR, frame.set_axis(frame.index[::-1]), frame.reset_index(drop=True)):
        with pytest.raises(InputError, match=r"X: found .*, expected as in the fit: rows named"):
            named.partial_fit(other)
    with pytest.raises(InputError, match=r"rows named .*, expected as in the fit: rows without names"):
        asking().fit(NEAR).partial_fit(frame)
    named.fit(frame).partial_fit(NEAR, must_link=[index[1:3]], samples=frame.index)
    assert named.must_link_.tolist() == [[1, 2, 1]]
    asking().fit(NEAR).partial_fit(pd.DataFrame(NEAR))  # numbers from 0 are places


# How sure it is of its labels: only if asked.


def test_confidence_of_labels_and_pairs() -> None:
    frame = pd.DataFrame(NOISE, index=[f"s{row}" for row in range(40)])
    estimator = small(accuracy=0.9, confidence=True).fit(NOISE, must_link=MUST_LINKS)
    named = small(confidence=True).fit(frame)
    assert estimator.membership_.shape == (40, 3)
    assert estimator.confidence_.tolist() == estimator.membership_[range(40), estimator.labels_].tolist()
    draws, pairs = estimator.label_draws_, [[0, 1], [3, 29], [5, 5]]
    shares = [(draws[:, i] == draws[:, j]).mean() for i, j in pairs]
    assert estimator.together(pairs).tolist() == pytest.approx(shares)
    assert estimator.together([]).shape == (0,)
    assert bits(clone(estimator).fit(NOISE, must_link=MUST_LINKS)) == bits(estimator)
    by_place = small(confidence=True).fit(NOISE)
    assert named.together([["s0", "s5"]]).tolist() == by_place.together([[0, 5]]).tolist()
    for wrong, text in [
        ([[0, 40]], "found 0, 40, expected whole numbers 0 to 39"),
        ([[0, 1, 2]], r"found rows of 3, expected shape \(n_pairs, 2\)"),
        ([0, 1], r"found shape \(2,\)"),
    ]:
        with pytest.raises(ValueError, match=text):
            estimator.together(wrong)
    with pytest.raises(InputError, match="pairs: found rows of 3"):
        named.together([["s0", "s1", "s2"]])
    sure, plain = bits(by_place), bits(by_place.set_params(confidence=False).fit(NOISE))
    names = {"membership_", "confidence_", "label_draws_", "r_hat_", "chain_agreement_"}
    assert sure.keys() - plain.keys() == names
    assert plain == {name: each for name, each in sure.items() if name in plain}
    with pytest.raises(AttributeError, match="fitted with confidence=False, expected confidence=True"):
        by_place.together([[0, 1]])
    with pytest.raises(NotFittedError):
        small(confidence=True).together([[0, 1]])


# What a fit says of samples without annotations: clusters and densities.


def test_predict_and_score_against_one_sample_at_a_time() -> None:
    rng = np.random.default_rng(8)
    # a wide and a narrow cluster: the closest centre is not always the cheapest
    X = np.concatenate([rng.normal(0, 5, size=(60, 2)), rng.normal(4, 0.3, size=(60, 2))])
    estimator = small(2).fit(X)
    other = rng.normal(2, 4, size=(200, 2))
    clusters = list(zip(estimator.cluster_centers_, estimator.covariances_, strict=True))
    logs = np.array([multivariate_normal(mean, variance).logpdf(other) for mean, variance in clusters])
    predicted = estimator.predict(other)
    assert predicted.dtype == estimator.labels_.dtype == np.int32
    assert predicted.tolist() == logs.argmax(axis=0).tolist()
    closest = np.square(other[:, None] - estimator.cluster_centers_).sum(axis=2).argmin(axis=1)
    assert (predicted != closest).any()
    assert estimator.score(other) == pytest.approx(logs.max(axis=0).mean() - math.log(2), rel=1e-9)
    mixture = np.log(np.exp(logs).mean(axis=0)).mean()
    assert estimator.score(other) < mixture < estimator.score(other) + math.log(2)


def test_degenerate_clusters_are_announced_and_receive_nothing() -> None:
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
    X = np.repeat([[0.0], [100.0]], 3, axis=0)
    with pytest.warns(ConvergenceWarning, match="variance 0: 0, 1;"), pytest.warns(UserWarning, match="rows"):
        estimator = small(2).fit(X)
    for method in (estimator.predict, estimator.score):
        with pytest.raises(ValueError, match="all clusters are degenerate"):
            method(X)


@pytest.mark.parametrize("covariance", ["diagonal", "tied", "full"])
def test_shapes_predict_what_they_fitted(covariance: str) -> None:
    rng = np.random.default_rng(2)
    X = np.concatenate([rng.normal(size=(60, 3)) * [5, 0.2, 1], rng.normal(size=(60, 3)) * [0.2, 5, 1] + 1])
    X = np.column_stack([X, np.full(120, 7.0), 2 * X[:, 0]])
    with pytest.warns(UserWarning, match="1 feature is constant"):
        estimator = small(2, covariance=covariance).fit(X)
    assert len(estimator.features_used_) == (4 if covariance == "diagonal" else 3)
    shapes = {"diagonal": (2, 5), "tied": (5, 5), "full": (2, 5, 5)}
    assert estimator.covariances_.shape == shapes[covariance]
    assert estimator.predict(X).tolist() == estimator.labels_.tolist()
    assert np.isfinite(estimator.score(X))


def test_free_proportions_draw_samples_to_large_clusters() -> None:
    rng = np.random.default_rng(6)
    X = np.concatenate([rng.normal(0, 1, size=(180, 1)), rng.normal(3, 1, size=(20, 1))])
    estimator = small(2, covariance="common", proportions="free", crossover="labels").fit(X)
    centers, variance = estimator.cluster_centers_.ravel(), estimator.covariances_[0]
    x = np.linspace(-2, 5, 50)
    densities = -((x[:, None] - centers) ** 2) / (2 * variance) - 0.5 * math.log(2 * math.pi * variance)
    densities += np.log(estimator.sizes_ / 200)
    assert estimator.predict(x[:, None]).tolist() == densities.argmax(axis=1).tolist()
    assert estimator.score(x[:, None]) == pytest.approx(densities.max(axis=1).mean())
    assert estimator.labels_.tolist() == estimator.predict(X).tolist()
    assert estimator.sizes_[estimator.predict([[centers.mean()]])[0]] > 100


def test_auto_is_the_shape_that_annotations_speak_for() -> None:
    rng = np.random.default_rng(3)
    labels = np.arange(120) % 2
    X = rng.normal(size=(120, 2)) * np.where(labels[:, None], [5.0, 0.2], [0.2, 5.0])
    pairs = rng.integers(0, 120, size=(150, 2))
    same = labels[pairs[:, 0]] == labels[pairs[:, 1]]
    links = {"must_link": pairs[same], "cannot_link": pairs[~same & (pairs[:, 0] != pairs[:, 1])]}
    estimator = small(2, model="conditional", covariance="auto").fit(X, **links)
    losses = {shape: each["log_loss"] for shape, each in estimator.held_out_.items()}
    assert list(losses) == ["spherical", "diagonal", "tied", "full"]
    assert estimator.covariance_ in ("diagonal", "full")
    assert losses[estimator.covariance_] < losses["spherical"]
    plain = small(2, model="conditional", covariance=estimator.covariance_).fit(X, **links)
    assert plain.labels_.tolist() == estimator.labels_.tolist()
    assert (plain.covariance_, plain.held_out_) == (estimator.covariance_, {})
    without = small(2, covariance="auto").fit(X)
    assert (without.covariance_, without.held_out_) == ("spherical", {})
    assert "sees no annotations" in without.notes_[0]
