"""The estimator with covariances and proportions of every shape: what it predicts is what it fitted."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from pipeline import AnnotatedClustering

SMALL: dict[str, Any] = {"restarts": 2, "generations": 2, "random_state": 5}


def small(n_clusters: int = 3, **changes: Any) -> AnnotatedClustering:
    return AnnotatedClustering(n_clusters, **(SMALL | changes))


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
    shares = estimator.sizes_ / 200
    centers, variance = estimator.cluster_centers_.ravel(), estimator.covariances_[0]
    x = np.linspace(-2, 5, 50)
    densities = -((x[:, None] - centers) ** 2) / (2 * variance) - 0.5 * math.log(2 * math.pi * variance)
    densities += np.log(shares)
    assert estimator.predict(x[:, None]).tolist() == densities.argmax(axis=1).tolist()
    assert estimator.score(x[:, None]) == pytest.approx(densities.max(axis=1).mean())
    between = centers.mean()
    assert estimator.labels_.tolist() == estimator.predict(X).tolist()
    assert estimator.sizes_[estimator.predict([[between]])[0]] > 100


def test_auto_is_the_shape_that_annotations_speak_for() -> None:
    rng = np.random.default_rng(3)
    labels = np.arange(120) % 2
    X = rng.normal(size=(120, 2)) * np.where(labels[:, None], [5.0, 0.2], [0.2, 5.0])
    pairs = rng.integers(0, 120, size=(150, 2))
    same = labels[pairs[:, 0]] == labels[pairs[:, 1]]
    links = {"must_link": pairs[same], "cannot_link": pairs[~same & (pairs[:, 0] != pairs[:, 1])]}
    estimator = small(2, model="conditional", covariance="auto").fit(X, **links)
    assert list(estimator.held_out_) == ["spherical", "diagonal", "tied", "full"]
    assert estimator.covariance_ in ("diagonal", "full")
    losses = {shape: each["log_loss"] for shape, each in estimator.held_out_.items()}
    assert losses[estimator.covariance_] < losses["spherical"]
    plain = small(2, model="conditional", covariance=estimator.covariance_).fit(X, **links)
    assert plain.labels_.tolist() == estimator.labels_.tolist()
    assert (plain.covariance_, plain.held_out_) == (estimator.covariance_, {})
    without = small(2, covariance="auto").fit(X)
    assert (without.covariance_, without.held_out_) == ("spherical", {})
    assert "sees no annotations" in without.notes_[0]
