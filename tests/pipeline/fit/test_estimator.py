"""The estimator keeps scikit-learn's conventions and gives the numbers of `sweep fit`."""

import inspect
import json
import pickle
import re
import threading
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from processes.commandline import sweep
from scipy.sparse import coo_array
from scipy.stats import multivariate_normal
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from solving.blobs import far_clusters

from sweep_clustering import LinkScorer
from sweep_clustering.kernels.problem.data import CANNOT, MUST
from sweep_clustering.kernels.problem.problem import SPHERES
from sweep_clustering.pipeline.asking import strategies
from sweep_clustering.pipeline.fit.estimator import AnnotatedClustering, runner
from sweep_clustering.pipeline.fit.links import Annotations, Reader, names_of
from sweep_clustering.sweeps.errors import InputError

MUST_LINKS = [[0, 1], [4, 4], [10, 11], [0, 1], [3, 29]]
CANNOT_LINKS = [[0, 15, 2], [21, 11, 0.5], [7, 7, 1]]
BY_ANNOTATOR: dict[str, Any] = {
    "must_link": {"ann": [[0, 1], [10, 11]], "bob": [[3, 29, 1], [7, 8, 0.5]]},
    "cannot_link": {"ann": [[0, 15, 2]], "bob": [[21, 11]], "cyd": [[2, 32]]},
}
SMALL: dict[str, Any] = {"restarts": 2, "generations": 2, "random_state": 5}
BLOBS = far_clusters()[0]
# the data have no clusters: the search finds different solutions from different seeds
NOISE = np.random.default_rng(3).normal(size=(40, 3))
ROWS = np.array([f"s{row}" for row in range(40)])


def small_estimator(n_clusters: int = 3, **changes: Any) -> AnnotatedClustering:
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
        {"model": "posterior", "accuracy": 0.8, "confidence": True, "generations": 2, "population": 5},
        {
            "model": "posterior",
            "accuracy": 0.9,
            "min_cluster_size": 5,
            "variance_prior": 1.5,
            "random_state": 2**40,
        },
        {"method": "published", "crossover": "labels", "mutation": 0.5, "patience": 2, "relocation": "all"},
        {"annotator_accuracy": {"ann": 0.95, "cyd": 0.6}, "accuracy": 0.7},
        {"annotator_accuracy": {"ann": 0.95, "bob": 0.8, "cyd": 0.6}},
        {"model": "conditional", "annotator_accuracy": {"bob": 0.8}, "covariance": "common"},
    ],
)
def test_same_bits_as_the_command(changes: dict[str, Any], tmp_path: Path) -> None:
    np.savetxt(tmp_path / "x", NOISE, fmt="%.17g")
    # files count from 1, and self pairs twice
    (tmp_path / "must").write_text("1 2 2\n5 5 2\n11 12\n4 30 1\n")
    (tmp_path / "cannot").write_text("16 1 2\n12 22 0.5\n8 8 2\n")
    (tmp_path / "pairs").write_text(
        "1 2 must 1 ann\n11 12 must 1 ann\n1 16 cannot 2 ann\n4 30 must 1 bob\n8 9 must 0.5 bob\n"
        "22 12 cannot 1 bob\n3 33 cannot 1 cyd\n"
    )
    links: dict[str, Any] = {"must_link": MUST_LINKS, "cannot_link": CANNOT_LINKS}
    arguments = ["--must-link", tmp_path / "must", "--cannot-link", tmp_path / "cannot"]
    if "annotator_accuracy" in changes:
        links, arguments = BY_ANNOTATOR, ["--annotations", tmp_path / "pairs"]
    # not all reach the best
    options = SMALL | {"population": 2, "offspring": 1, "generations": 1, "restarts": 6} | changes
    estimator = small_estimator(**options).fit(NOISE, **links)
    arguments += ["--first-row", 1, "--json", "-k", 3, "--seed", options.pop("random_state")]
    arguments += ["--confidence"] if options.pop("confidence", False) else []
    for name, value in options.items():
        texts = [f"{who}={p}" for who, p in value.items()] if isinstance(value, dict) else [value]
        arguments += [f"--{name.replace('_', '-')}={text}" for text in texts]
    command = sweep("fit", tmp_path / "x", *arguments)
    assert command.exit_code == 0, command.output
    document = json.loads(command.stdout)
    names = "model objective gmm sbm prior best_restart annotator_accuracies labels sizes covariances"
    names += " restart_objectives" + " membership confidence" * ("confidence" in changes)
    for name in names.split():
        assert np.array_equal(getattr(estimator, f"{name}_"), document[name]), name
    assert estimator.cluster_centers_.tolist() == document["centroids"]
    assert len(set(estimator.restart_objectives_)) > 1  # otherwise the seed would not matter
    assert estimator.sizes_.min() >= options.get("min_cluster_size", 2)


@pytest.mark.filterwarnings("ignore:clusters of a handful")
@pytest.mark.parametrize(
    "changes",
    [
        {"model": "unsupervised"},
        {"model": "unsupervised", "covariance": "tied"},
        {"model": "unsupervised", "proportions": "free", "covariance": "full"},
        {"model": "unsupervised", "components": 2, "covariance": "spherical"},
    ],
)
def test_transform_gives_the_share_of_each_cluster_in_the_density(changes: dict[str, Any]) -> None:
    X = np.vstack([BLOBS, BLOBS.mean(axis=0) + 1e6])  # all densities are 0 as floats there
    estimator = small_estimator(**changes).fit(BLOBS)
    shares = estimator.transform(X)
    assert shares.shape == (len(X), 3)
    assert np.isfinite(shares).all()
    assert shares.sum(axis=1) == pytest.approx(1)
    assert shares.argmax(axis=1).tolist() == estimator.predict(X).tolist()
    if changes == {"model": "unsupervised"}:
        square = ((BLOBS[:, None] - estimator.cluster_centers_) ** 2).sum(axis=2)
        variances = estimator.covariances_
        density = np.exp(-square / (2 * variances)) / variances ** (BLOBS.shape[1] / 2)
        assert shares[:-1] == pytest.approx(density / density.sum(axis=1, keepdims=True))


def test_a_notebook_shows_the_classes_of_a_fit_above_the_parameters() -> None:
    estimator = small_estimator(model="conditional", confidence=True)
    assert "mean confidence" not in estimator._repr_mimebundle_()["text/html"]
    labels = ["<b>", None, None] * 10
    estimator.fit(BLOBS, must_link=MUST_LINKS, row_labels=labels)
    forms = estimator._repr_mimebundle_()
    cells = re.findall(r"<td>(.*)</td>", forms["text/html"].partition("</table>")[0])
    rows = np.array(cells).reshape(3, 5)  # class, name, samples, share, mean confidence
    assert rows[:, 2].astype(int).tolist() == estimator.sizes_.tolist()
    assert "&lt;b&gt;" in rows[:, 1]
    assert ((rows[:, 4].astype(float) >= 0) & (rows[:, 4].astype(float) <= 1)).all()
    with config_context(display="text"):
        assert [*estimator._repr_mimebundle_()] == ["text/plain"]


def test_outputs_are_frames_with_the_names_of_clusters() -> None:
    names = [f"annotatedclustering{cluster}" for cluster in range(3)]
    X = pd.DataFrame(BLOBS).add_prefix("x")
    for kind, frame in (("pandas", pd.DataFrame), ("polars", pl.from_pandas)):
        estimator = small_estimator().set_output(transform=kind).fit(frame(X))
        table = estimator.transform(frame(X))
        assert type(table).__module__.startswith(kind)
        assert list(table.columns) == names
    assert estimator.get_feature_names_out().tolist() == names


@pytest.mark.parametrize("make", [pl.from_pandas, pa.Table.from_pandas])
def test_tables_of_other_libraries_are_features_with_their_names(make: Callable[..., Any]) -> None:
    table = pd.DataFrame(BLOBS).add_prefix("x")
    estimator, twin = small_estimator().fit(table), small_estimator().fit(make(table))
    assert twin.labels_.tolist() == estimator.labels_.tolist()
    assert twin.objective_ == estimator.objective_
    assert twin.feature_names_in_.tolist() == [*table.columns]
    assert twin.predict(make(table)).tolist() == estimator.predict(table).tolist()


@pytest.mark.filterwarnings("ignore:only one of")  # restarts of next to no search
@pytest.mark.parametrize(("n_jobs", "covariance"), [(2, "spherical"), (-1, "full")])
def test_the_number_of_jobs_changes_no_bit(n_jobs: int, covariance: str) -> None:
    X = np.random.default_rng(3).normal(size=(80, 3))
    keys: dict[str, Any] = {"restarts": 5, "generations": 1, "population": 3, "random_state": 5}
    alone, several = (
        AnnotatedClustering(8, covariance=covariance, n_jobs=jobs, **keys).fit(X, must_link=[[0, 1], [4, 9]])
        for jobs in (None, n_jobs)
    )
    assert len(set(alone.restart_objectives_)) > 1
    assert bits(several) == bits(alone)
    barrier = threading.Barrier(2, timeout=20)

    def meet(number: int) -> int:
        barrier.wait()  # for ever, if calls came one after the other
        return number * number

    assert list(runner(2)(meet, range(4))) == [0, 1, 4, 9]


def test_threads_do_not_touch_the_filters_of_warnings() -> None:
    # each thread would put back the filters that it found, which may be those of another thread
    filters, values = warnings.filters, list(warnings.filters)
    assert all(runner(2)(lambda _number: warnings.filters is filters, range(8)))
    assert list(warnings.filters) == values


def test_random_state() -> None:
    stream, drawn = (
        small_estimator(random_state=state).fit(NOISE) for state in (np.random.RandomState(5), None)
    )
    assert stream.seed_ == np.random.RandomState(5).randint(2**31 - 1)
    assert drawn.seed_ != small_estimator(random_state=None).fit(NOISE).seed_
    for estimator in (stream, drawn):
        assert bits(small_estimator(random_state=estimator.seed_).fit(NOISE)) == bits(estimator)
    assert stream.restart_objectives_.tobytes() != small_estimator().fit(NOISE).restart_objectives_.tobytes()


def test_parameters_are_plain_to_see() -> None:
    signature = inspect.signature(AnnotatedClustering)
    assert not [item for item in signature.parameters.values() if item.kind is item.VAR_KEYWORD]
    assert sorted(signature.parameters) == sorted(AnnotatedClustering().get_params())
    text, _, _ = str(inspect.getdoc(AnnotatedClustering)).partition("Attributes\n")
    assert sorted(re.findall(r"^(\w+) : ", text, flags=re.MULTILINE)) == sorted(signature.parameters)
    assert max(map(len, text.splitlines())) <= 106
    with pytest.raises(TypeError, match="populaton"):
        AnnotatedClustering(populaton=3)


# What the estimator is given, and everything that can be wrong.


SEVERAL = {"n_clusters": 0, "restarts": -3, "accuracy": 3, "annotator_accuracy": {"ann": 2, "bob": True}}
OWN = "annotator_accuracy"
PROBLEMS: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"n_clusters": 2.0}, {}, "n_clusters"),
    ({"model": "any", "method": None}, {}, "model|method"),
    ({"n_jobs": 0, "links_outside": "dorp"}, {}, "links_outside|n_jobs"),
    ({"n_jobs": "all", "confidence": 1, "random_state": -1}, {}, "n_jobs|confidence|random_state"),
    ({OWN: 0}, {}, OWN),
    ({OWN: {1: 0.9}}, {}, OWN),
    ({"model": "posterior"}, {}, "accuracy"),
    ({"model": "posterior", OWN: {"ann": 0.9, "bbo": 0.8}}, BY_ANNOTATOR, f"{OWN}|{OWN}|{OWN}"),
    (
        SEVERAL,
        {"must_link": [[0, 77, -1]], "cannot_link": "none"},
        f"n_clusters|accuracy|restarts|{OWN} of ann|{OWN} of bob|"
        "must_link, row 0|must_link|must_link, row 0|cannot_link",
    ),
]


def test_all_problems_at_once() -> None:
    for parameters, links, places in PROBLEMS:
        with pytest.raises(InputError) as raised:
            small_estimator().set_params(**parameters).fit(NOISE, **links)
        assert [problem.where for problem in raised.value.problems] == places.split("|")


def test_a_fit_that_fails_keeps_the_earlier_one_and_names_of_features_go_with_it() -> None:
    frame = pd.DataFrame(BLOBS, columns=["a", "b"])
    estimator = small_estimator(model="unsupervised").fit(frame)
    before = bits(estimator)
    for X, text in [
        (np.ones((8, 2)), "X: found 8 rows without any variance"),
        (BLOBS[:5, :1], "5 samples are fewer"),
        (np.repeat([[0.0], [1.0]], 5, axis=0), "only 2 distinct rows"),
    ]:
        with pytest.raises(ValueError, match=text):
            estimator.fit(X)
    assert bits(estimator) == before
    assert estimator.feature_names_in_.tolist() == ["a", "b"]
    assert len(estimator.sample_names_in_) == 30
    again = clone(estimator).fit(frame)
    assert bits(again) == before
    with pytest.raises(ValueError, match="only 2 distinct rows"):
        small_estimator().fit(np.repeat([[0.0], [1.0]], 5, axis=0))
    again.fit(BLOBS)
    assert not {"feature_names_in_", "sample_names_in_"} & vars(again).keys()


# The estimator that asks: pairs to annotate next, and annotations that are added.

NEAR_CLASSES = np.repeat([0, 1, 2], 20)
NEAR = np.random.default_rng(0).normal(size=(60, 2)) + 2.0 * np.eye(3, 2)[NEAR_CLASSES]


def asking_estimator(**parameters: Any) -> AnnotatedClustering:
    return small_estimator(**{"restarts": 3, "model": "conditional"} | parameters)


def truth(pairs: np.ndarray) -> dict[str, np.ndarray]:
    together = NEAR_CLASSES[pairs[:, 0]] == NEAR_CLASSES[pairs[:, 1]]
    return {"must_link": pairs[together], "cannot_link": pairs[~together]}


@pytest.mark.filterwarnings("ignore:only one of")  # restarts of next to no search
def test_a_partial_fit_is_the_fit_of_all_annotations() -> None:
    pairs = np.random.default_rng(1).integers(0, 60, size=(40, 2))
    stepwise = asking_estimator(restarts=9).partial_fit(NEAR, **truth(pairs[:20]))
    stepwise.partial_fit(NEAR, **truth(pairs[20:]))
    whole = asking_estimator(restarts=9).fit(NEAR, **truth(pairs))
    assert len(whole.restart_objectives_) == 9
    assert len(stepwise.restart_objectives_) == 3
    assert stepwise.objective_ == pytest.approx(whole.objective_)
    for links in ("must_link_", "cannot_link_"):
        assert sorted(getattr(stepwise, links).tolist()) == sorted(getattr(whole, links).tolist())
    # one restart of a search that does next to nothing does not find a lost solution again
    search = {"restarts": 1, "generations": 1, "population": 2, "offspring": 1}
    gains, fresh_gains = [], []
    for seed in range(5):
        options: dict[str, Any] = {"model": "unsupervised", "restarts": 9, "random_state": seed}
        estimator = AnnotatedClustering(8, **options).fit(NEAR)
        good = estimator.objective_
        estimator.set_params(**search, random_state=seed + 100)
        gains.append(estimator.partial_fit(NEAR).objective_ - good)
        fresh_gains.append(estimator.fit(NEAR).objective_ - good)
    assert min(gains) >= -1e-9
    assert min(fresh_gains) < -1e-3


def test_what_is_wrong_with_questions_is_said_and_the_fit_is_kept() -> None:
    estimator = asking_estimator().fit(NEAR)
    labels = estimator.labels_
    with pytest.raises(InputError, match="did you mean 'anchors'") as caught:
        estimator.set_params(accuracy=0.5).query(0, strategy="anchor")
    assert [problem.where for problem in caught.value.problems] == ["n", "strategy", "accuracy"]
    estimator.set_params(accuracy=None)
    for X, links in ((NEAR + 1.0, None), (NEAR[:, :1], None), (NEAR, [[0, 60]])):
        with pytest.raises(
            ValueError, match=r"the table of the fit, with shape|expecting 2 features|must_link, row 0"
        ):
            estimator.partial_fit(X, must_link=links)
    assert estimator.labels_ is labels
    assert estimator.must_link_ is None


@pytest.mark.parametrize("index", [[f"s{row}" for row in range(60)], np.arange(60)[::-1]])
def test_questions_are_new_and_have_the_names_of_the_table(index: Any) -> None:
    X = NEAR.copy()
    frame = pd.DataFrame(NEAR, index=index)
    named, plain = asking_estimator().fit(frame), asking_estimator().fit(X)
    X[:] = 0.0  # a later change of the table does not matter
    pairs: set[tuple[int, int]] = set()
    for _ in range(2):
        questions, by_place = named.query(8), plain.query(8)
        assert questions.positions.tolist() == by_place.positions.tolist() == by_place.pairs.tolist()
        assert questions.pairs.tolist() == frame.index.to_numpy()[by_place.pairs].tolist()
        assert ((questions.together > 0) & (questions.together < 1)).all()
        for one, other in zip(by_place, pickle.loads(pickle.dumps(plain)).query(8), strict=True):
            np.testing.assert_array_equal(one, other)
        pairs |= {tuple(pair) for pair in by_place.pairs.tolist()}
        together = NEAR_CLASSES[questions.positions[:, 0]] == NEAR_CLASSES[questions.positions[:, 1]]
        named.partial_fit(frame, must_link=questions.pairs[together], cannot_link=questions.pairs[~together])
        plain.partial_fit(NEAR, **truth(by_place.pairs))
        assert named.labels_.tobytes() == plain.labels_.tobytes()
    assert len(pairs) == 16  # no pair twice
    for fitted, other in ((named, NEAR), (named, frame.set_axis(frame.index[::-1])), (plain, frame)):
        with pytest.raises(InputError, match=r"X: found rows named .*, expected those of the fit: rows"):
            fitted.partial_fit(other)
    named.fit(frame).partial_fit(NEAR, must_link=[index[1:3]], samples=frame.index)
    assert named.must_link_.tolist() == [[1, 2, 1]]
    plain.partial_fit(pd.DataFrame(NEAR))  # numbers from 0 are places


def test_random_pairs_are_asked_if_neither_clusters_nor_strategy_are_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(strategies, "RANDOM_SHARE", 1.0)
    random = strategies.ScoredPairs(np.array([[7, 50], [8, 51]]), np.zeros(2))
    monkeypatch.setitem(strategies.STRATEGIES, "uniform", lambda *arguments: random)
    estimator = asking_estimator().set_params(n_clusters=None, covariance="tied").fit(NEAR)
    assert estimator.query(2).pairs.tolist() == [[7, 50], [8, 51]]
    assert estimator.query(2, strategy="overall").pairs.tolist() != [[7, 50], [8, 51]]
    estimator.set_params(n_clusters=estimator.n_clusters_)
    assert estimator.query(2).pairs.tolist() != [[7, 50], [8, 51]]


def test_confidence_of_labels_and_pairs() -> None:
    estimator = small_estimator(accuracy=0.9, confidence=True).fit(NOISE, must_link=MUST_LINKS)
    assert estimator.confidence_.tolist() == estimator.membership_[range(40), estimator.labels_].tolist()
    draws, pairs = estimator.label_draws_, [[0, 1], [3, 29], [5, 5]]
    shares = [(draws[:, i] == draws[:, j]).mean() for i, j in pairs]
    assert estimator.together(pairs).tolist() == pytest.approx(shares)
    assert estimator.together([]).shape == (0,)
    named = small_estimator(accuracy=0.9, confidence=True).fit(
        NOISE, must_link=ROWS[MUST_LINKS], samples=ROWS
    )
    assert named.together(ROWS[pairs]).tolist() == estimator.together(pairs).tolist()
    for wrong in ([[0, 40]], [[0, 1, 2]], [0, 1]):
        with pytest.raises(InputError, match="pairs: found"):
            estimator.together(wrong)
    sure = bits(estimator)
    plain = bits(estimator.set_params(confidence=False).fit(NOISE, must_link=MUST_LINKS))
    assert len(sure.keys() - plain.keys()) == 5
    assert plain == {name: array for name, array in sure.items() if name in plain}
    with pytest.raises(AttributeError, match="fitted with confidence=False, expected confidence=True"):
        estimator.together([[0, 1]])


# What a fit says of samples without annotations: clusters and densities.


@pytest.mark.parametrize("proportions", ["equal", "free"])
@pytest.mark.parametrize("covariance", ["spherical", "common", "diagonal", "tied", "full"])
def test_predict_and_score_are_those_of_the_densities(covariance: str, proportions: str) -> None:
    rng = np.random.default_rng(8)
    # a wide and a narrow cluster: the closest centre is not always the cheapest
    X = np.concatenate([rng.normal(0, [5, 3], size=(90, 2)), rng.normal(4, [0.2, 0.4], size=(30, 2))])
    X = np.column_stack([X, np.full(120, 7.0)])
    with pytest.warns(UserWarning, match="1 of 3 features is constant"):
        estimator = small_estimator(2, covariance=covariance, proportions=proportions).fit(X)
    axes = estimator.features_used_.tolist()
    assert axes == [0, 1, 2][: 3 if covariance in SPHERES else 2]  # shapes with a prior leave it out
    matrices = [estimator.covariances_] * 2 if covariance == "tied" else estimator.covariances_
    whole = [np.asarray(matrix) * np.eye(3) if np.ndim(matrix) < 2 else matrix for matrix in matrices]
    samples = np.column_stack([rng.normal(2, 4, size=(200, 2)), np.full(200, 7.0)])
    pairs = zip(estimator.cluster_centers_, whole, strict=True)
    densities = [multivariate_normal(mean[axes], matrix[np.ix_(axes, axes)]) for mean, matrix in pairs]
    logs = np.array([density.logpdf(samples[:, axes]) for density in densities])
    shares = estimator.sizes_ / 120 if proportions == "free" else np.full(2, 0.5)
    logs += np.log(shares)[:, None]
    assert estimator.predict(samples).tolist() == logs.argmax(axis=0).tolist()
    assert estimator.predict(samples).dtype == estimator.labels_.dtype == np.int32
    assert estimator.score(samples) == pytest.approx(logs.max(axis=0).mean(), rel=1e-9)


@pytest.mark.filterwarnings("ignore:one row comes 5 times among 15")
def test_degenerate_clusters_are_announced_and_receive_nothing() -> None:
    X = np.concatenate([np.zeros((5, 2)), np.random.default_rng(0).normal(9, 1, size=(10, 2))])
    with pytest.warns(ConvergenceWarning, match=r"variance 0: \d; variance_prior above 0") as caught:
        estimator = small_estimator(2, model="unsupervised").fit(X)
    assert caught[0].filename == __file__
    degenerate = int(estimator.labels_[0])
    assert estimator.covariances_[degenerate] == 0
    assert set(estimator.predict(X)) == {1 - degenerate}
    assert np.isfinite(estimator.score(X))
    assert small_estimator(2, model="unsupervised", variance_prior=1.0).fit(X).covariances_.min() > 0
    X = np.repeat([[0.0], [100.0]], 3, axis=0)
    with pytest.warns(ConvergenceWarning, match="variance 0: 0, 1;"), pytest.warns(UserWarning, match="rows"):
        estimator = small_estimator(2, model="unsupervised").fit(X)
    for method in (estimator.predict, estimator.score):
        with pytest.raises(ValueError, match="all clusters are degenerate"):
            method(X)


# Links of one annotator or of several, by places or by labels.

DAYS = pd.date_range("2024-01-01", periods=40)
TREE = pd.MultiIndex.from_product([["x", "y"], range(20)])
MUST_PAIRS = np.array(MUST_LINKS)
CANNOT_PAIRS = np.array([[0, 15], [21, 11], [7, 7]])


def problems(reader: Reader, *links: Any) -> list[str]:
    with pytest.raises(InputError) as raised:
        reader.read(*links, *[None] * (2 - len(links)))
    return str(raised.value).splitlines()


def laid_out(links: Annotations) -> list[Any]:
    return [(layer.kind, layer.pairs.tolist(), np.ravel(layer.weights).tolist()) for layer in links.layers]


@pytest.mark.parametrize("index", [ROWS, np.arange(40)[::-1], np.arange(40) * 3 + 100, TREE, DAYS])
def test_links_by_labels_are_those_by_places(index: Any) -> None:
    weights = np.array([2.0, 1.0, 0.5])
    plain = Reader(40).read(MUST_PAIRS, np.column_stack([CANNOT_PAIRS, weights]))
    names = names_of(pd.DataFrame(NOISE, index=index), None, 40)
    by_samples = names_of(NOISE, list(pd.Index(index)), 40)
    labels = np.asarray(names)
    must, cannot = labels[MUST_PAIRS], labels[CANNOT_PAIRS]
    frame = pd.DataFrame({"i": cannot[:, 0], "j": cannot[:, 1], "weight": weights})
    forms = [frame, [[*row, weight] for row, weight in zip(cannot, weights, strict=True)]]
    for reader_names in (names, by_samples):
        for cannot_links in forms:
            for must_links in (must, [tuple(row) for row in must], iter(must)):
                assert laid_out(Reader(40, reader_names).read(must_links, cannot_links)) == laid_out(plain)


@pytest.mark.parametrize(
    ("index", "labels", "places"),
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
    index: Any, labels: list[Any], places: list[int]
) -> None:
    links = Reader(len(index), pd.Index(index), drop=True).read([[label, label] for label in labels], None)
    assert links.layers[0].pairs.tolist() == [[place, place] for place in places]
    assert links.n_total == len(labels)
    assert links.n_dropped == len(labels) - len(places)


@pytest.mark.parametrize("names", [None, range(10, 0, -2), [3, 1, -2], [1.0, 3.5, 0.0]])
@pytest.mark.parametrize(
    "column",
    [
        [0, 3, -2, 99], [0.0, -0.0, 2.0, -2.0], [1.5, 3.0, 3.5, 0.0], [np.nan, np.inf, 1e300, 3.0],
        np.array([0, 2**64 - 2, 2**63, 1], np.uint64), np.array([0, 3, 1, 2], np.int8),
        np.array([0, 3, 1.5, 2], np.float16), [True, False, True, True],
        pd.array([1, None, 3, 0], dtype="Int64"),
    ],
)  # fmt: skip
def test_whole_numbers_are_found_as_any_other_label_is(names: Any, column: Any) -> None:
    reader = Reader(5) if names is None else Reader(len(names), pd.Index(names))
    table = pd.DataFrame({"i": column, "j": [1, 2, 3, 4]})
    places = reader.places(table)
    assert np.array_equal(places, reader.places(table.astype(object)))
    assert places.dtype == np.int64
    assert places.shape == (4, 2)


def test_unknown_labels_come_with_the_nearest() -> None:
    reader = Reader(4, pd.Index(["ann", "bobby", "carl", 3]))
    links = [["anne", "ann"], ["ann", "carl"], ["bob", "zoe"], ["carl", "bob"], ["3", "ann"]]
    whole, *details = problems(reader, links)
    assert whole.startswith("must_link: found 4 rows with samples that X does not have, expected labels of")
    assert "such as 'ann', 'bobby', 'carl' (where X is a part of a table on purpose" in whole
    assert details == [
        "must_link, row 0: found 'anne', expected a sample of X (did you mean 'ann'?)",
        "must_link, row 2: found 'bob', expected a sample of X (did you mean 'bobby'?)",
        "must_link, row 2: found 'zoe', expected a sample of X",
        "must_link, row 4: found '3', expected a sample of X (did you mean 3 of type int?)",
    ]
    assert len(problems(reader, [[f"x{row}", "ann"] for row in range(25)])) == 11
    (problem,) = problems(Reader(3, pd.Index(["a", "b", "a"])), [["a", "b"]])
    assert problem.startswith("names of rows: found labels that repeat: ['a'], expected a label of its own")
    for samples in ("abc", ["a", "b"], np.eye(3)):
        with pytest.raises(InputError, match=r"samples: found .*, expected shape \(3,\)"):
            names_of(np.eye(3), samples, 3)


def test_a_part_of_a_table_is_refused_or_links_are_dropped() -> None:
    frame = pd.DataFrame(NOISE)
    train = np.array([row for row in range(40) if row not in (1, 21)])
    assert [text[:30] for text in problems(Reader(38, frame.index[train]), MUST_PAIRS, CANNOT_PAIRS)] == [
        "must_link: found 2 rows with s", "must_link, row 0: found 1, exp", "cannot_link: found 1 row with ",
        "cannot_link, row 1: found 21, ",
    ]  # fmt: skip
    dropping = small_estimator(links_outside="drop")
    for part, samples in ((frame.iloc[train], None), (NOISE[train], train)):
        dropping.fit(part, must_link=MUST_PAIRS, cannot_link=CANNOT_PAIRS, samples=samples)
        assert dropping.sample_names_in_.tolist() == train.tolist()
        assert dropping.must_link_.tolist() == [[3, 3, 1], [9, 10, 1], [2, 27, 1]]  # places in the part
        assert dropping.cannot_link_.tolist() == [[0, 14, 1], [6, 6, 1]]
        assert dropping.links_dropped_ == 3
    with pytest.warns(UserWarning, match="all 5 links were left out") as caught:
        dropping.fit(frame.iloc[32:], must_link=MUST_PAIRS)
    assert caught[0].filename == __file__
    assert dropping.model_ == "conditional-any"
    # a part of an array has lost what its rows were: a link beyond its end says that others may be wrong
    whole, beyond = problems(Reader(20, drop=True), MUST_PAIRS)
    assert "expected places 0 to 19 (counted from 0; if X is a part of a table, name its rows" in whole
    assert beyond.startswith("must_link, row 4: found 29")


PLACES = ": found 1 row with samples that X does not have, expected places 0 to 39"
SHAPES = "expected shape (n_links, 2) or (n_links, 3)"
WRONG_TABLES: dict[str, list[Any]] = {
    PLACES: [[[0, 40]], [[1, -1], [0, 2]], [[0.5, 3], [0, 2]], [[0, np.nan]]],
    ", row 1: found weight 0, expected a number from 1e-100 to 1e+12": [[[0, 1, 1], [0, 2, 0]]],
    ", row 1: found weight 2000000000000.0, expected": [[[0, 1, 1e12], [0, 2, 2e12]]],
    ", row 0: found weight much, expected": [[["s00", "s01", "much"]]],
    f": found shape (1, 4), {SHAPES}": [[[0, 1, 1, 1]]],
    f": found shape (2, 1), {SHAPES}": [["s00", "s01"]],
    f": found a str, no table, {SHAPES}": ["links"],
    f": found a int, no table, {SHAPES}": [7],
    f": found a coo_array, no table, {SHAPES}": [coo_array(np.eye(30))],
    f": found a ndarray, no table, {SHAPES}": [np.zeros((2, 2, 2))],
    f", row 1: found 3 cells after rows of 2, {SHAPES}": [[[0, 1], [2, 3, 1]], iter([(0, 1), np.ones(3)])],
    f", row 2: found 1 cell after rows of 2, {SHAPES}": [[[0, 1], [2, 3], "cd"], [[0, 1], [2, 3], [1]]],
}


def test_tables_that_are_wrong() -> None:
    for text, tables in WRONG_TABLES.items():
        for links in tables:
            assert problems(Reader(40), links)[0].startswith(f"must_link{text}")


@pytest.mark.parametrize("where", ["X", "must_link", "samples"])
def test_masked_values_are_not_taken_as_good(where: str) -> None:
    arguments = {"X": NOISE[:9], "must_link": np.array([[0, 1], [2, 3]]), "samples": np.arange(9)}
    for mask in (False, True):
        masked = np.ma.masked_array(arguments[where], mask=np.full(arguments[where].shape, mask))
        with pytest.raises(ValueError, match=f"{where}: found .* masked") if mask else nullcontext():
            small_estimator().fit_predict(**{**arguments, where: masked})


def test_annotations_add_up_by_annotator() -> None:
    reader = Reader(9)
    first = reader.read({"ann": [[0, 1]], "bob": [[1, 2]]}, None)
    links = reader.read({"cyd": [[3, 4]], "bob": [[5, 6, 2]]}, {"ann": [[7, 8]]}, 0.7, {"bob": 0.9}, first)
    assert links.annotators == ["ann", "bob", "cyd"]
    rows = [(layer.annotator, layer.accuracy, layer.kind, layer.pairs.tolist()) for layer in links.layers]
    assert rows == [
        (0, 0.7, MUST, [[0, 1]]), (0, 0.7, CANNOT, [[7, 8]]), (1, 0.9, MUST, [[1, 2], [5, 6]]),
        (2, 0.7, MUST, [[3, 4]]),
    ]  # fmt: skip
    assert links.n_total == 5
    assert links.n_dropped == 0
    assert {name: table.tolist() for name, table in dict(links.of_kind(MUST) or {}).items()} == {
        "ann": [[0, 1, 1]], "bob": [[1, 2, 1], [5, 6, 2]], "cyd": [[3, 4, 1]],
    }  # fmt: skip
    assert links.agreement(np.array([0, 0, 0, 1, 2, 0, 1, 1, 2])) == {"ann": 1.0, "bob": 1 / 3, "cyd": 0.0}
    assert Annotations().of_kind(MUST) is None
    assert reader.read([[1, 1]], None).agreement(np.zeros(9)) == {"links": None}
    assert problems(reader, {"": [[0, 1]]}, {3: [[0, 1]]}) == [
        f"{where}: found annotator {name}, expected a name, a text that is not empty"
        for where, name in (("must_link", "''"), ("cannot_link", "3"))
    ]


# The recipe of cross-validation: fits to a part of the samples, and the links that judge them.

FOLDS = KFold(4, shuffle=True, random_state=1)
TABLE = pd.DataFrame({"x": [0.0, 0.1, 5.0, 5.1, 0.2, 5.2]}, index=list("abcdef"))
DROP = {"links_outside": "drop"}


def test_folds_by_hand_and_the_shape_that_annotations_speak_for() -> None:
    """Clusters are long in one feature or the other, so that only some shapes find them."""
    rng = np.random.default_rng(3)
    long = rng.normal(size=(120, 2)) * np.where(np.arange(120)[:, None] % 2, [5.0, 0.2], [0.2, 5.0])
    table = pd.DataFrame(long, index=[f"s{row:03}" for row in range(120)])
    pairs = rng.integers(0, 120, size=(200, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    is_must, names = pairs[:, 0] % 2 == pairs[:, 1] % 2, table.index.to_numpy()
    links = {"must_link": names[pairs[is_must]], "cannot_link": names[pairs[~is_must]]}
    auto = small_estimator(2, model="conditional", covariance="auto").fit(table, **links)
    losses = {shape: scores_of_shape["log_loss"] for shape, scores_of_shape in auto.held_out_.items()}
    assert list(losses) == ["spherical", "diagonal", "tied", "full"]
    assert losses[auto.covariance_] < losses["spherical"]
    plain = small_estimator(2, model="conditional", covariance=auto.covariance_).fit(table, **links)
    assert plain.labels_.tolist() == auto.labels_.tolist()
    assert plain.held_out_ == {}
    fast: dict[str, Any] = {"model": "conditional", "covariance": "diagonal", "restarts": 1}
    scores = cross_val_score(
        small_estimator(2, **fast, **DROP), table, scoring=LinkScorer(**links), cv=FOLDS, params=links
    )
    expected = []
    for train, test in FOLDS.split(table):
        rows = set(names[train])
        inside = {name: [row for row in rows_ if set(row) <= rows] for name, rows_ in links.items()}
        estimator = small_estimator(2, **fast, links_outside="error").fit(table.iloc[train], **inside)
        predicted = dict(zip(names[test], estimator.predict(table.iloc[test]), strict=True))
        clusters = dict(zip(names[train], estimator.labels_, strict=True)) | predicted
        right = [  # one link is judged at a time
            (clusters[i] == clusters[j]) == (name == "must_link")
            for name, rows_ in links.items()
            for i, j in rows_
            if i in predicted or j in predicted
        ]
        expected.append(float(np.mean(right)))
    assert scores.tolist() == expected
    assert len(set(expected)) > 1
    with config_context(enable_metadata_routing=True):
        asking = small_estimator(2, **fast, **DROP).set_fit_request(must_link=True, cannot_link=True)
        assert len(cross_val_score(asking, table, cv=FOLDS, params=links)) == 4


def test_score_by_hand() -> None:
    estimator = small_estimator(2, **DROP).fit(TABLE.iloc[:4])
    scaler = StandardScaler().set_output(transform="pandas")
    scaled = make_pipeline(scaler, small_estimator(2, **DROP)).fit(TABLE.iloc[:4])
    for must, cannot, expected in [
        ([["e", "a"]], None, 1.0),
        ([["e", "c", 3], ["f", "d", 1]], None, 0.25),
        ([["e", "e"], ["a", "b"], ["e", "z"], ["a", "e"]], [["f", "e"], ["e", "e"]], 1.0),
        (None, [["a", "e"], ["a", "f"]], 0.5),
        ({"ann": [["a", "e"]]}, {"bob": [["b", "e"]]}, 0.5),
    ]:
        for fitted in (estimator, scaled):
            assert LinkScorer(must, cannot)(fitted, TABLE.iloc[4:]) == expected
    assert pickle.loads(pickle.dumps(LinkScorer([["e", "c"]])))(estimator, TABLE.iloc[4:]) == 0.0
    scorer = LinkScorer([["a", "b"]])
    for fitted, table, text in [
        (estimator, TABLE.iloc[2:4], "links: found none of 1 with a sample in the 2 rows of X"),
        (small_estimator(2, **DROP).fit(TABLE.to_numpy()), TABLE, "the fit: found rows without names"),
        (estimator, TABLE.to_numpy(), "X: found rows without names"),
        (small_estimator(2, **DROP), TABLE, "not fitted yet"),
    ]:
        with pytest.raises((InputError, NotFittedError), match=text):
            scorer(fitted, table)
