"""One variance for each cluster and feature: no overflow, and what is degenerate without a prior."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from solving.entries import collect
from solving.from_python import from_python
from solving.oracles import Case, draw_case, draw_labels, gain, objective

from kernels.partition.gains import exact_gain, set_distances, set_gains, set_links
from kernels.partition.objective import objective_terms
from kernels.partition.relocation import relocate
from kernels.partition.state import new_state

exact_gain = from_python(exact_gain)
relocate = from_python(relocate)
set_gains = from_python(set_gains)
set_links = from_python(set_links)
set_distances = from_python(set_distances)


def test_a_product_of_many_large_ratios_does_not_overflow() -> None:
    """Clusters of next to no width in 90 features, and far apart: each ratio is near a billion."""
    rng = np.random.default_rng(0)
    X = np.repeat([[0.0], [1.0], [-1.0]], 6, axis=0) + 1e-6 * rng.normal(size=(18, 90))
    case = Case(X, [], 3, "unsupervised", 1, covariance="diagonal", covariance_prior=0.001)
    data = case.problem().data
    state = new_state(data)
    labels = np.repeat([0, 1, 2], 6)
    labels[0] = 1
    state.labels[:] = labels
    collect(data, state)
    rise = 0.0
    for sample in (0, 3, 8):
        set_gains(data, state, sample, set_links(data, state, sample))
        for target in range(3):
            if target != labels[sample]:
                wanted = gain(case, labels, sample, target)
                assert state.gains[target] == pytest.approx(wanted, rel=1e-6)
                rise = max(rise, abs(wanted))
    assert rise > 1000.0


@pytest.mark.parametrize("model", ["unsupervised", "conditional"])
def test_without_a_prior_a_walk_meets_degenerate_clusters(model: str) -> None:
    case = draw_case(3, model=model, min_size=1, n_clusters=5, covariance_prior=0.0)
    X = case.X.copy()
    X[:7, 1] = X[0, 1]
    X[7:12] = X[7]
    case = replace(case, X=X, covariance="diagonal")
    data = case.problem().data
    state = new_state(data)
    labels = np.repeat([0, 1, 2, 3, 4], [7, 5, 4, 4, 4])
    state.labels[:] = labels
    collect(data, state)
    assert np.isinf(state.logdets[:2]).all()
    rng = np.random.default_rng(1)
    for _ in range(150):
        sample = int(rng.integers(24))
        labels = state.labels.astype(int)
        if state.sizes[labels[sample]] <= 1:
            continue
        degree = set_links(data, state, sample)
        set_gains(data, state, sample, degree)
        for target in set(range(5)) - {int(labels[sample])}:
            wanted = gain(case, labels, sample, target)
            assert state.gains[target] == pytest.approx(wanted, abs=1e-7)
        set_distances(data, state, sample)
        relocate(data, state, sample, int(rng.integers(5)) if rng.random() < 0.3 else int(rng.integers(2)))
        if state.labels[sample] == labels[sample]:
            collect(data, state)


def test_one_feature_without_a_prior_is_spherical() -> None:
    for model in ("unsupervised", "likelihood", "posterior", "conditional"):
        case = draw_case(4, model=model, n_features=1, n_clusters=4, covariance_prior=0.0)
        for seed in range(5):
            labels = draw_labels(case, seed)
            found, wanted = (
                objective_terms(replace(case, covariance=shape).problem(), labels)
                for shape in ("diagonal", "spherical")
            )
            assert found == pytest.approx(wanted, rel=1e-12)


def test_the_scale_of_single_features_is_a_constant() -> None:
    case = replace(draw_case(5, model="posterior", n_features=4), covariance="diagonal")
    units = np.array([1e-3, 1.0, 7.0, 1e4])
    scaled = replace(case, X=case.X * units)
    shift = 24 * np.log(units).sum()
    for seed in range(5):
        labels = draw_labels(case, seed)
        assert objective(scaled, labels) == pytest.approx(objective(case, labels) - shift)
        found = sum(objective_terms(scaled.problem(), labels))
        assert found == pytest.approx(sum(objective_terms(case.problem(), labels)) - shift)
