"""Classes by scikit-learn's conventions as methods."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.cluster import AgglomerativeClustering, Birch, KMeans
from sklearn.mixture import GaussianMixture

from pipeline.methods.contract import Solution, checked
from pipeline.methods.estimators import class_problems, method_of_class

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
