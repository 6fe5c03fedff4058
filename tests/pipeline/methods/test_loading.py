"""Where a method is found."""

from __future__ import annotations

import pickle
import sys
import traceback
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.cluster import AgglomerativeClustering, Birch, KMeans
from sklearn.mixture import GaussianMixture

from pipeline.methods import shipped
from pipeline.methods.contract import Solution, checked
from pipeline.methods.loading import (
    ON_SCIKIT_LEARN,
    PLACES,
    MethodCall,
    class_problems,
    function_problems,
    load,
    method_of_class,
    version_of,
)
from sweeps.errors import InputError
from sweeps.words import SHIPPED

# Whether a function can take what a call gives it.


def whole(X, n_clusters, must_link, cannot_link, *, weights, accuracy, random_state):  # type: ignore[no-untyped-def]
    """A function of the contract."""


def with_options(data, k, must, cannot, *, weights, accuracy, random_state, gamma=1.0):  # type: ignore[no-untyped-def]
    """The first four may have any names."""


def generous(*arguments, **keywords):  # type: ignore[no-untyped-def]
    """Takes everything."""


def short(X, n_clusters, *, random_state):  # type: ignore[no-untyped-def]
    """Takes too little."""


def needy(X, n_clusters, must_link, cannot_link, *, weights, accuracy, random_state, gamma):  # type: ignore[no-untyped-def]
    """An option without a default."""


@pytest.mark.parametrize(
    ("function", "options"),
    [
        (whole, {}),
        (with_options, {}),
        (with_options, {"gamma": 2}),
        (generous, {"a": 1}),
        (needy, {"gamma": 1}),
    ],
)
def test_what_fits_has_no_problems(function: Any, options: dict[str, Any]) -> None:
    assert list(function_problems(function, options)) == []


def test_a_function_without_a_known_signature_is_let_through() -> None:
    assert list(function_problems(iter, {})) == []


def test_all_that_does_not_fit_is_named() -> None:
    found = list(function_problems(short, {"gama": 1, "random_state": 2}))
    assert [each[2] for each in found[:2]] == [
        "X, n_clusters, must_link and cannot_link come by position",
        "it does not take weights, accuracy",
    ]
    assert found[0][0] == "short(X, n_clusters, *, random_state)"
    assert found[2] == ("option 'gama'", "no options", "")
    assert found[3] == ("option 'random_state'", "another name", "every call gives it")


def test_a_misspelt_option_has_a_hint() -> None:
    (problem,) = function_problems(with_options, {"gama": 1})
    assert problem == ("option 'gama'", "one of gamma", "did you mean 'gamma'?")


def test_an_option_of_the_name_of_a_position_is_refused() -> None:
    (problem,) = function_problems(with_options, {"data": 1})
    assert problem[0] == "option 'data'"
    assert problem[2] == "every call gives it"


def test_an_option_that_is_needed_is_named() -> None:
    (problem,) = function_problems(needy, {})
    assert problem[1:] == ("options gamma", "they have no default")


# Classes by scikit-learn's conventions as methods.

X = np.concatenate([np.random.default_rng(0).normal(center, 0.1, (10, 2)) for center in (0, 5, 9)])
TRUE = np.repeat([0, 1, 2], 10)


def call(cls: type, options: dict[str, Any] | None = None, seed: int = 0) -> Solution:
    empty = np.empty((0, 2), dtype=np.int64)
    method = method_of_class(cls, options or {})
    answer = method(X, 3, empty, empty, weights=(np.empty(0), np.empty(0)), accuracy=0.8, random_state=seed)
    return checked(answer, n_samples=30, n_features=2, n_clusters=3)


@pytest.mark.parametrize("cls", [KMeans, GaussianMixture, AgglomerativeClustering, Birch])
def test_classes_of_scikit_learn_find_what_is_plain(cls: type) -> None:
    labels = np.asarray(call(cls).labels)
    assert {tuple(set(labels[each == TRUE])) for each in range(3)} == {(0,), (1,), (2,)}


def test_what_a_class_knows_besides_labels_is_taken() -> None:
    kmeans = KMeans(n_clusters=3, random_state=7, n_init=2).fit(X)
    found = call(KMeans, {"n_init": 2}, seed=7)
    assert found.objective == -kmeans.inertia_
    assert np.array_equal(np.asarray(found.centroids), kmeans.cluster_centers_)
    mixture = GaussianMixture(n_components=3, random_state=7).fit(X)
    found = call(GaussianMixture, seed=7)
    assert found.objective == mixture.lower_bound_
    assert np.array_equal(np.asarray(found.centroids), mixture.means_)
    assert call(AgglomerativeClustering).objective is None


class Linked:
    """Only `fit` sees links, and only those it names."""

    def __init__(self, n_clusters: int, scale: float = 1.0) -> None:
        self.n_clusters = n_clusters
        self.scale = scale

    def fit(self, X: Any, y: Any = None, *, must_link: Any, accuracy: float, **others: Any) -> None:
        assert not others
        assert must_link.shape == (0, 2)
        self.labels_ = np.full(len(X), int(accuracy * self.scale))


class Predicting:
    """Has nothing but `fit_predict`."""

    def __init__(self, n_components: int) -> None:
        self.n_components = n_components

    def fit_predict(self, X: Any) -> Any:
        return np.full(len(X), self.n_components - 1)


def test_fit_gets_what_it_names() -> None:
    assert set(np.asarray(call(Linked, {"scale": 2.5}).labels)) == {2}


def test_fit_predict_alone_will_do() -> None:
    assert set(np.asarray(call(Predicting).labels)) == {2}


class Needy:
    """Has neither a number of clusters nor a fit, and needs an option."""

    def __init__(self, radius: float) -> None:
        self.radius = radius


def test_what_keeps_a_class_from_being_a_method() -> None:
    assert [each[:2] for each in class_problems(Needy, {"width": 1})] == [
        ("class Needy", "a class with fit or fit_predict, or a function"),
        ("class Needy(radius)", "a parameter n_clusters or n_components"),
        ("option 'width'", "one of radius"),
        ("class Needy(radius)", "options radius"),
    ]
    found = list(class_problems(KMeans, {"n_int": 1, "random_state": 3, "n_clusters": 4}))
    assert [each[2] for each in found] == [
        "did you mean 'n_init'?",
        "every call gives it",
        "every call gives it",
    ]
    assert list(class_problems(KMeans, {"n_init": 5})) == []


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
        state = pickle.loads(pickle.dumps(State(shift)))
        return [state.value] * len(X)

def cluster(X, n_clusters, must_link, cannot_link, *, weights, accuracy, random_state, shift=0):
    return Holder.cluster(X, 0, 0, 0, weights=0, accuracy=0, random_state=0, shift=shift)

def fails(X, n_clusters, must_link, cannot_link, *, weights, accuracy, random_state):
    raise KeyError("here")

number = 3
'''


def mine(attribute: str, **options: Any) -> MethodCall:
    return MethodCall("mine", f"folder/mine.py:{attribute}", SOURCE, options)


def answer(call: MethodCall) -> Any:
    empty = np.empty((0, 2), dtype=np.int64)
    weights = (np.empty(0), np.empty(0))
    return load(call)(np.zeros((2, 1)), 2, empty, empty, weights=weights, accuracy=None, random_state=0)


def test_every_shipped_method_is_there_and_takes_its_arguments() -> None:
    assert list(PLACES) == [name for name in PLACES if name in SHIPPED]
    assert set(PLACES) == set(SHIPPED)
    for name in SHIPPED:
        assert callable(load(MethodCall(name, name)))


def test_a_file_is_a_module_of_its_own() -> None:
    before = set(sys.modules)
    another = MethodCall("mine", "mine.py:cluster", f"{SOURCE}\n# not loaded yet\n")
    assert answer(another) == [0, 0]
    (private,) = set(sys.modules) - before
    assert answer(mine("cluster", shift=1)) == [1, 1]
    assert answer(mine("Holder.cluster", shift=1)) == [1, 1]
    load(another)
    assert len([name for name in set(sys.modules) - before if name.startswith(private[:14])]) <= 2


def test_a_traceback_shows_the_lines_of_the_file() -> None:
    with pytest.raises(KeyError) as failed:
        answer(mine("fails"))
    text = "".join(traceback.format_exception(failed.value))
    assert 'File "folder/mine.py", line 20, in fails\n    raise KeyError("here")' in text


def test_a_file_that_fails_is_no_module() -> None:
    broken = MethodCall("mine", "broken.py:cluster", "import sys\nraise OSError('no licence')\n")
    before = set(sys.modules)
    with pytest.raises(OSError, match="no licence"):
        load(broken)
    assert set(sys.modules) == before
    with pytest.raises(SyntaxError, match=r"broken.py, line 1"):
        load(MethodCall("mine", "broken.py:cluster", "def cluster(:\n"))


def test_a_call_travels() -> None:
    call = mine("cluster", shift=1)
    assert pickle.loads(pickle.dumps(call)) == call


@pytest.mark.parametrize(
    ("call", "found"),
    [
        (MethodCall("a", "k-mean"), "found 'k-mean', expected a shipped method, package.module:function, or"),
        (MethodCall("a", "k-mean"), "did you mean 'k-means'?"),
        (MethodCall("a", "numpy:"), "found 'numpy:', expected a shipped method"),
        (MethodCall("a", "numpy:1st"), "found 'numpy:1st'"),
        (MethodCall("a", "numpi.linalg:eig"), "found no module 'numpi', expected one that is installed"),
        (MethodCall("a", "numpy.linalk:eig"), "found no module 'numpy.linalk'"),
        (MethodCall("a", "mine.py:cluster"), "found mine.py without its text, expected a file that was read"),
        (
            mine("clustr"),
            "found no 'clustr' in folder/mine.py, expected a function or a class (did you mean",
        ),
        (mine("number"), "found number, of type int, expected a function or a class"),
        (mine("cluster", shft=1), "found option 'shft', expected one of shift (did you mean 'shift'?)"),
        (mine("State"), "class State"),
    ],
)
def test_what_is_no_method_is_said(call: MethodCall, found: str) -> None:
    with pytest.raises(InputError) as refused:
        load(call)
    assert found in str(refused.value)
    assert str(refused.value).startswith(f"method {call.name!r}: ")


def test_a_module_that_something_installed_lacks_is_passed_on(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lacking_module.py").write_text("import a_module_that_is_not_there\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="a_module_that_is_not_there"):
        load(MethodCall("a", "lacking_module:cluster"))


def test_versions() -> None:
    assert version_of(mine("cluster")) == ""
    assert version_of(MethodCall("a", "sklearn.cluster:KMeans")) == f"scikit-learn {version('scikit-learn')}"
    assert version_of(MethodCall("k-means", "k-means")) == f"scikit-learn {version('scikit-learn')}"
    assert version_of(MethodCall("a", "pckmeans")) == f"sweep-clustering {version('sweep-clustering')}"
    assert version_of(MethodCall("a", "json:loads")) == ""


def test_what_is_said_to_be_computed_by_scikit_learn_imports_it() -> None:
    folder = Path(shipped.__file__).parent
    modules = {place.partition(":")[0] for place in PLACES.values()}
    using = {name for name in modules if "sklearn" in (folder / f"{name}.py").read_text()}
    assert using == set(ON_SCIKIT_LEARN)
