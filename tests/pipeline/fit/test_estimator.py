"""The estimator: scikit-learn's conventions, and the numbers of `sweep fit`."""

from __future__ import annotations

import doctest
import inspect
import json
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grimp
import numpy as np
import pytest
from click.testing import CliRunner
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from solving.blobs import far_clusters

from kernels.problem.problem import CANNOT, MUST, Layer
from kernels.settings import Settings
from pipeline.commands.fit import fit_command
from pipeline.fit.estimator import AnnotatedClustering
from pipeline.fit.inputs import FitOptions
from pipeline.fit.solve import fit

MUST_LINKS = [[0, 1], [4, 4], [10, 11], [0, 1], [3, 29]]
CANNOT_LINKS = [[0, 15, 2], [21, 11, 0.5], [7, 7, 1]]
SMALL: dict[str, Any] = {"restarts": 2, "generations": 2, "random_state": 5}
METHODS: dict[str, dict[str, Any]] = {
    "strong": {"population": 5, "offspring": 8, "patience": 4}
    | {"crossover": "labels", "mutation": 0.2, "relocation": "components"},
    "published": {"population": 10, "offspring": 10, "patience": 0}
    | {"crossover": "centroids", "mutation": 1.0, "relocation": "annotated"},
}


@pytest.fixture(scope="module")
def noise() -> np.ndarray:
    """Forty samples without clusters: the search finds different solutions from different seeds."""
    return np.random.default_rng(3).normal(size=(40, 3))


@pytest.fixture(scope="module")
def blobs() -> np.ndarray:
    return far_clusters()[0]


def small(n_clusters: int = 3, **changes: Any) -> AnnotatedClustering:
    return AnnotatedClustering(n_clusters, **(SMALL | changes))


def fitted_bits(estimator: AnnotatedClustering) -> dict[str, bytes]:
    return {name: pickle.dumps(value) for name, value in vars(estimator).items() if name.endswith("_")}


# No check is expected to fail: the list of exceptions is empty. `check_array_api_input` is skipped by
# scikit-learn itself unless SCIPY_ARRAY_API is set.
@parametrize_with_checks(
    [AnnotatedClustering(restarts=2, generations=2, confidence=sure) for sure in (False, True)]
)
def test_conventions_of_scikit_learn(estimator: AnnotatedClustering, check: Callable[..., None]) -> None:
    check(estimator)


@pytest.mark.parametrize(
    "changes",
    [
        {"model": "unsupervised"},
        {"model": "likelihood"},
        {"model": "posterior", "accuracy": 0.8},
        {"model": "conditional"},
        {"model": "conditional", "accuracy": 0.7, "covariance": "common"},
        {"accuracy": 0.9, "min_cluster_size": 5, "variance_prior": 1.5, "random_state": 2**40},
        {"method": "published"},
        {"method": "published", "crossover": "labels", "mutation": 0.5},
        {"relocation": "all"},
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


@pytest.mark.parametrize(("method", "keys"), METHODS.items())
def test_a_method_is_its_settings(method: str, keys: dict[str, Any], noise: np.ndarray) -> None:
    given: dict[str, Any] = {"accuracy": 0.7, "generations": 3, "restarts": 4, "random_state": 3}
    named = AnnotatedClustering(4, method=method, **given).fit(noise, cannot_link=CANNOT_LINKS)
    other = next(name for name in METHODS if name != method)
    by_keys = AnnotatedClustering(4, method=other, **keys, **given).fit(noise, cannot_link=CANNOT_LINKS)
    assert named.restart_objectives_.tobytes() == by_keys.restart_objectives_.tobytes()
    assert named.labels_.tolist() == by_keys.labels_.tolist()
    another = AnnotatedClustering(4, method=other, **given).fit(noise, cannot_link=CANNOT_LINKS)
    assert another.restart_objectives_.tobytes() != named.restart_objectives_.tobytes()


def test_terms_add_up(blobs: np.ndarray) -> None:
    estimator = small(accuracy=0.9).fit(blobs, must_link=MUST_LINKS)
    assert estimator.objective_ == estimator.gmm_ + estimator.sbm_ + estimator.prior_
    assert estimator.objective_ == estimator.restart_objectives_[estimator.best_restart_]
    assert np.bincount(estimator.labels_).tolist() == estimator.sizes_.tolist() == [10, 10, 10]


def test_defaults_are_those_of_the_command() -> None:
    """Those of the settings of the search are compared where they are declared, in test_settings.py."""
    parameters = AnnotatedClustering().get_params()
    options = {option.name: option.default for option in fit_command.params}
    for name in ("restarts", "covariance"):
        assert parameters[name] == options[name]


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


@pytest.mark.parametrize("accuracy", [None, 0.9])
@pytest.mark.parametrize("links", [None, [], [[0, 1]]])
@pytest.mark.parametrize("model", [None, "unsupervised", "likelihood"])
def test_model_is_chosen_as_by_the_command(
    model: str | None, links: list[list[int]] | None, accuracy: float | None, blobs: np.ndarray
) -> None:
    given: dict[str, Any] = dict.fromkeys(inspect.signature(FitOptions).parameters)
    given |= {"model": model, "accuracy": accuracy, "cannot_link": None if links is None else Path("some")}
    estimator = small(model=model or "auto", accuracy=accuracy).fit(blobs, cannot_link=links)
    assert estimator.model_ == FitOptions(**given).chosen_model


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


def test_features_that_tell_nothing_are_announced() -> None:
    X = np.random.default_rng(0).normal(size=(12, 2))
    with pytest.warns(UserWarning, match="1 feature is constant, of 3") as caught:
        small(2).fit(np.column_stack([X, np.ones(12)]))
    assert caught[0].filename == __file__
    with pytest.warns(UserWarning, match="as many clusters as rows"):
        small(12, variance_prior=1.0, min_cluster_size=1).fit(X)
    estimator = small(2, min_cluster_size=3).fit(np.concatenate([X, X[:1]]))
    (note,) = estimator.notes_
    assert note.startswith("2 of 13 rows are (nearly) equal")


def test_links_move_samples_unless_the_model_does_not_see_them() -> None:
    rng = np.random.default_rng(6)
    X, labels = rng.normal(size=(60, 2)) + 1.5 * np.repeat([[0], [1]], 30, axis=0), np.repeat([0, 1], 30)
    pairs = rng.integers(60, size=(400, 2))
    together = labels[pairs[:, 0]] == labels[pairs[:, 1]]
    links = {"must_link": pairs[together], "cannot_link": pairs[~together]}
    alone, blind = small(2).fit(X), small(2, model="unsupervised").fit(X, **links)
    assert blind.labels_.tobytes() == alone.labels_.tobytes()
    assert (blind.objective_, blind.sbm_, blind.prior_) == (alone.objective_, 0, 0)
    seeing = small(2, accuracy=0.99).fit_predict(X, **links)
    assert len(set(zip(seeing.tolist(), labels.tolist(), strict=True))) == 2
    assert len(set(zip(alone.labels_.tolist(), labels.tolist(), strict=True))) > 2


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


def test_global_state_governs_none_as_elsewhere_in_scikit_learn(noise: np.ndarray) -> None:
    before = np.random.get_state()  # noqa: NPY002
    try:
        np.random.seed(1)  # noqa: NPY002
        first = small(random_state=None).fit(noise).seed_
        np.random.seed(1)  # noqa: NPY002
        assert small(random_state=None).fit(noise).seed_ == first
    finally:
        np.random.set_state(before)  # noqa: NPY002


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


def test_true_labels_are_not_used(blobs: np.ndarray) -> None:
    estimator, other = small().fit(blobs), small().fit(blobs, ["no", "labels"])
    assert fitted_bits(estimator) == fitted_bits(other)
    assert small().fit_predict(blobs, "none").tolist() == estimator.labels_.tolist()
    assert estimator.score(blobs, 1) == estimator.score(blobs)


def test_links_reach_the_last_step_of_a_pipeline(blobs: np.ndarray) -> None:
    steps = make_pipeline(StandardScaler(), small())
    steps.fit(blobs, annotatedclustering__must_link=MUST_LINKS)
    scaled = StandardScaler().fit_transform(blobs)
    direct = small().fit(scaled, must_link=MUST_LINKS)
    assert fitted_bits(steps[-1]) == fitted_bits(direct)
    assert direct.model_ == "likelihood"


def test_score_serves_model_selection(blobs: np.ndarray) -> None:
    shuffled = np.random.default_rng(0).permutation(blobs)
    mean = {k: cross_val_score(small(k), shuffled).mean() for k in (1, 2, 3)}
    assert max(mean, key=lambda k: mean[k]) == 3


def test_example_of_the_documentation() -> None:
    (example,) = doctest.DocTestFinder(recurse=False).find(AnnotatedClustering, "AnnotatedClustering")
    assert doctest.DocTestRunner().run(example) == (0, 5)


def test_no_scheduler_is_imported() -> None:
    graph = grimp.build_graph(
        "pipeline", "storage", "kernels", "sweeps", include_external_packages=True, cache_dir=None
    )
    known = graph.find_upstream_modules("pipeline.fit.estimator")
    assert "pipeline.fit.solve" in known
    assert known.isdisjoint({"distributed", "dask", "dask_jobqueue", "click"})
