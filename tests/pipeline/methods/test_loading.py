"""Methods are found by name, and must take their arguments and give a valid answer."""

import pickle
import sys
from collections import Counter
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.cluster import KMeans
from sklearn.mixture import GaussianMixture

from sweep_clustering.pipeline.methods import loading
from sweep_clustering.pipeline.methods.contract import BadAnswer, Solution, accept, merged_links
from sweep_clustering.pipeline.methods.loading import MethodCall, load, read_source, version_of
from sweep_clustering.sweeps.errors import InputError
from sweep_clustering.sweeps.words import SHIPPED


class Needy:
    """Has neither a number of clusters nor a fit, and needs an option."""

    def __init__(self, radius: float) -> None: ...


def with_option(data: Any, k: Any, must: Any, cannot: Any, *, weights, accuracy, random_state, gamma=1.0): ...  # type: ignore[no-untyped-def]


NEEDY = lambda X, n_clusters, must_link, cannot_link, *, weights, accuracy, random_state, gamma: None  # noqa: E731
SHORT = lambda X, n_clusters, *, random_state: None  # noqa: E731
CALLED = "every call gives it"
MISSING = "missing a required argument:"
CONTRACT = "(X, n_clusters, must_link, cannot_link, *, weights, accuracy, random_state)"


@pytest.mark.parametrize(
    ("method", "options", "expected"),
    [
        (with_option, {"gamma": 2}, []),
        (lambda *arguments, **keywords: None, {"a": 1}, []),
        (NEEDY, {"gamma": 1}, []),
        (iter, {}, []),  # its signature is not known
        (KMeans, {"n_init": 5}, []),
        (
            SHORT,
            {"gama": 1, "random_state": 2},
            [
                ("option 'gama'", "no options", ""),
                ("option 'random_state'", "another name", CALLED),
                ("<lambda>(X, n_clusters, *, random_state)", CONTRACT, "too many positional arguments"),
            ],
        ),
        (with_option, {"gama": 1}, [("option 'gama'", "one of gamma", "did you mean 'gamma'?")]),
        (with_option, {"data": 1}, [("option 'data'", "another name", CALLED)]),
        (NEEDY, {}, [(f"<lambda>{CONTRACT[:-1]}, gamma)", CONTRACT, f"{MISSING} 'gamma'")]),
        (
            Needy,
            {"width": 1},
            [
                ("class Needy", "a class with fit or fit_predict, or a function", ""),
                ("class Needy(radius)", "a parameter n_clusters or n_components", ""),
                ("option 'width'", "one of radius", ""),
                ("class Needy(radius)", "options for all without default", f"{MISSING} 'radius'"),
            ],
        ),
        (KMeans, {"n_clusters": 3}, [("option 'n_clusters'", "another name", CALLED)]),
    ],
)
def test_all_that_does_not_fit_is_named(method: Any, options: dict[str, Any], expected: list[Any]) -> None:
    assert list(loading.method_problems(method, options)) == expected


# Classes by scikit-learn's conventions as methods.

X = np.concatenate([np.random.default_rng(0).normal(center, 0.1, (10, 2)) for center in (0, 5, 9)])
EMPTY = np.empty((0, 2), dtype=np.int64)
LINKS: dict[str, Any] = {"must_link": EMPTY, "cannot_link": EMPTY, "weights": (np.empty(0), np.empty(0))}


def call(cls: type, **options: Any) -> Any:
    answer = loading.method_of_class(cls, options)(X, 3, **LINKS, accuracy=0.8, random_state=7)
    return accept(answer, n_samples=30, n_features=2, n_clusters=3)


class Linked:
    """Only `fit` sees links, and only those it names."""

    def __init__(self, n_clusters: int, scale: float = 1.0) -> None:
        self.scale = scale

    def fit(self, X: Any, y: Any = None, *, must_link: Any, accuracy: float, **extras: Any) -> None:
        assert extras == {}
        assert must_link.shape == (0, 2)
        self.labels_ = np.full(len(X), int(accuracy * self.scale))


class Predicting:
    """A class with `fit_predict` alone."""

    def __init__(self, n_components: int) -> None:
        self.n_components = n_components

    def fit_predict(self, X: Any) -> Any:
        return np.full(len(X), self.n_components - 1)


def test_what_a_class_knows_is_taken() -> None:
    theirs: Any = KMeans(n_clusters=3, random_state=7, n_init=2).fit(X)
    solution = call(KMeans, n_init=2)
    assert solution.objective == -theirs.inertia_
    assert np.array_equal(solution.labels, theirs.labels_)
    assert np.array_equal(solution.centroids, theirs.cluster_centers_)
    theirs, solution = GaussianMixture(n_components=3, random_state=7).fit(X), call(GaussianMixture)
    assert solution.objective == theirs.lower_bound_
    assert np.array_equal(solution.labels, theirs.predict(X))
    assert np.array_equal(solution.centroids, theirs.means_)
    assert call(Predicting).objective is None
    # fit gets what it names, and fit_predict alone will do
    assert set(call(Linked, scale=2.5).labels) == set(call(Predicting).labels) == {2}


# Text of a file, packages, and what is shipped.

SOURCE = '''
import pickle
from dataclasses import dataclass

@dataclass
class State:
    """Dataclasses look for their module."""
    value: int

class Holder:
    @staticmethod
    def cluster(X, n_clusters, must_link, cannot_link, *, weights, accuracy, random_state, shift=0):
        return [pickle.loads(pickle.dumps(State(shift))).value] * len(X)

cluster, number = Holder.cluster, 3
'''


def own_method(attribute: str, **options: Any) -> MethodCall:
    return MethodCall("mine", f"folder/mine.py:{attribute}", SOURCE, options)


def answer(call: MethodCall) -> Any:
    return load(call)(np.zeros((2, 1)), 2, **LINKS, accuracy=None, random_state=0)


def test_a_file_is_a_module_of_its_own() -> None:
    before = set(sys.modules)
    method = MethodCall("mine", "mine.py:cluster", f"{SOURCE}\n# not loaded yet\n")
    assert pickle.loads(pickle.dumps(method)) == method
    assert answer(method) == [0, 0]
    load(method)
    assert len(set(sys.modules) - before) == 1
    assert answer(own_method("cluster", shift=1)) == answer(own_method("Holder.cluster", shift=1)) == [1, 1]
    before = set(sys.modules)
    with pytest.raises(OSError, match="no licence"):
        load(MethodCall("mine", "broken.py:cluster", "import sys\nraise OSError('no licence')\n"))
    assert set(sys.modules) == before


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (MethodCall("a", "k-mean"), "found 'k-mean', expected a shipped method, package.module:function, or"),
        (MethodCall("a", "k-mean"), "did you mean 'k-means'?"),
        (MethodCall("a", "numpy:1st"), "found 'numpy:1st', expected a shipped method"),
        (MethodCall("a", "numpy.linalk:eig"), "found no module 'numpy.linalk', expected one that is"),
        (MethodCall("a", "mine.py:cluster"), "found mine.py without its text, expected a file that was read"),
        (
            own_method("clustr"),
            "found no 'clustr' in folder/mine.py, expected a function or a class (did you mean",
        ),
        (own_method("number"), "found number, of type int, expected a function or a class"),
        (own_method("cluster", shft=1), "found option 'shft', expected one of shift (did you mean 'shift'?)"),
        (own_method("State"), "class State"),
    ],
)
def test_what_is_no_method_is_said(call: MethodCall, message: str) -> None:
    with pytest.raises(InputError, match=f"^method {call.name!r}: ") as refused:
        load(call)
    assert message in str(refused.value)


def test_texts_and_versions_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lacking_module.py").write_text("import a_module_that_is_not_there\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="a_module_that_is_not_there"):
        load(MethodCall("a", "lacking_module:cluster"))
    sources = [read_source(f"{tmp_path}/lacking_module{end}:f") for end in (".py", "")]
    assert sources == ["import a_module_that_is_not_there\n", None]
    for name in SHIPPED:
        for option in ("must_link", "random_state", "gama"):
            with pytest.raises(InputError, match=f"found option '{option}'"):
                load(MethodCall(name, name, options={option: 1}))
    theirs, ours = (f"{name} {version(name)}" for name in ("scikit-learn", "sweep-clustering"))
    calls = ("sklearn.cluster:KMeans", "k-means", "spectral-links", "pckmeans", "json:loads")
    assert [version_of(MethodCall("a", text)) for text in calls] == [theirs, theirs, theirs, ours, ""]
    assert version_of(own_method("cluster")) == ""


# What a method gives, and the links that it takes.

SIZES = {"n_samples": 4, "n_features": 2, "n_clusters": 3}
LABELS = [0, 2, 2, 0]
THIRDS = [[1 / 3] * 3] * 2


def test_what_is_known_is_kept_in_one_form() -> None:
    for labels in (LABELS, np.array(LABELS, dtype=float), tuple(LABELS)):
        alone = accept(labels, **SIZES)
        assert alone.labels.dtype == np.int16
        assert alone.labels.tolist() == LABELS
        assert alone.objective is None
        assert alone.centroids is None
        assert alone.probabilities is None
    centroids, thirds = [[0, 1], [np.nan, np.nan], [2, 3]], np.full((4, 3), 1 / 3, dtype=np.float32)
    whole = accept(Solution(LABELS, np.float32(-1.5), centroids, thirds), **SIZES)
    assert type(whole.objective) is float
    assert whole.objective == -1.5
    assert np.array_equal(whole.centroids, centroids, equal_nan=True)
    assert whole.probabilities.dtype == np.float64


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ([0, 1, 2], "labels: found shape (3,), expected (4,)"),
        ([0, 3, -1, 1], "labels: found -1, 3, expected whole numbers from 0 to 2"),
        ([0, -np.inf, 1.5, np.nan], "labels: found -inf, 1.5, nan, expected whole"),
        ([True, False, True, False], "labels: found bool values"),
        (None, "labels: found None"),
        ([[0, 1], [2]], "labels: found list that makes no array"),
        (np.ma.masked_less([0, 1, 2, 0], 1), "labels: found a masked array"),
        (Solution(LABELS, objective=np.inf), "objective: found inf, expected a finite number"),
        (Solution(LABELS, objective="good"), "objective: found 'good', expected a finite number"),
        (Solution(LABELS, centroids=[["a", "b"]]), "centroids: found <U1 values"),
        (Solution(LABELS, centroids=[[0, 1], [0, 0], [np.nan, 0]]), "that have samples: found nan"),
        (Solution(LABELS, probabilities=[[1, 1, 1], [0, 0.5, 0]] * 2), "found 0.5, 3, expected sums of 1"),
        (Solution(LABELS, probabilities=[[2, -1, 0]] * 4), "probabilities: found -1, 2, expected 0 to 1"),
        (Solution(LABELS, probabilities=np.full((4, 3), np.nan)), "found nan, expected 0 to 1"),
        (Solution(LABELS, probabilities=[[2, 3, 4], [5, 6, 6], *THIRDS]), "found 2, 3, 4, 5, 6, expected 0"),
        (Solution(LABELS, probabilities=[[2, 3, 4], [5, 6, 7], *THIRDS]), "2, 3, 4, 5, 6, ..., expected 0"),
        (
            Solution([0, -1], np.nan, [1]),
            "(2,), expected (4,); centroids: found shape (1,), expected (3, 2); obj",
        ),
    ],
)
def test_what_is_no_answer_is_named(answer: object, message: str) -> None:
    with pytest.raises(BadAnswer) as refused:
        accept(answer, **SIZES)
    assert message in str(refused.value)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 1)), max_size=40))
def test_links_count_what_was_annotated(annotations: list[tuple[int, int, int]]) -> None:
    links = merged_links(np.array(annotations, dtype=np.int32).reshape(-1, 3))
    for kind, pairs, weights in zip((0, 1), links[:2], links[2], strict=True):
        expected = Counter((min(i, j), max(i, j)) for i, j, its in annotations if its == kind and i != j)
        assert pairs.dtype == np.int64
        assert pairs.shape == (len(expected), 2)
        assert [*zip(map(tuple, pairs.tolist()), weights, strict=True)] == sorted(expected.items())
