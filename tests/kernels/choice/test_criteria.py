"""BIC, ICL and their parts: by hand, and beside the likelihood of a mixture."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sweep_clustering.kernels.choice.criteria import Criteria, annotation_parameters, criteria
from sweep_clustering.kernels.problem.problem import CANNOT, MUST, Layer, build_problem
from sweep_clustering.kernels.settings import Settings

X = np.array([[0.0], [2.0], [10.0], [12.0]])
LABELS = np.array([0, 0, 1, 1])


def judged(
    layers: tuple[Layer, ...] = (), model: str = "unsupervised", X: np.ndarray = X, **settings: Any
) -> Criteria:
    problem = build_problem(X, layers, n_clusters=2, model=model, settings=Settings(**settings))
    return criteria(problem, layers, LABELS)


ALONE = judged()


def test_two_clusters_by_hand() -> None:
    parts = judged(min_cluster_size=1)
    assert parts.classification == pytest.approx(-2.0 - 2.0 * math.log(2.0 * math.pi) - 4.0 * math.log(2.0))
    assert parts.parameters == 4
    assert parts.penalty == pytest.approx(2.0 * math.log(4.0))
    surprise = entropy = 0.0
    # exp of the gain of moving 0 or 2 (as 12 or 10) to the other cluster, both variances being 1. The pair
    # left alone adds 0. Of 0, 10, 12 the squared error about their mean is 248/3; of 2, 10, 12 it is 56.
    for error in (248.0 / 3.0, 56.0):
        odds = math.exp(2.0 - 1.5 * (1.0 + math.log(error / 3.0)))
        share = 1.0 / (1.0 + odds)
        surprise -= 2.0 * math.log(share)
        entropy -= 2.0 * (share * math.log(share) + (1.0 - share) * math.log(1.0 - share))
    assert parts.surprise == pytest.approx(surprise)
    assert parts.entropy == pytest.approx(entropy)
    assert parts.bic == pytest.approx(parts.classification + surprise - parts.penalty)
    assert parts.icl == pytest.approx(parts.bic - entropy)


def test_annotations_by_hand() -> None:
    right = Layer(MUST, np.array([[0, 1]]), np.array([3.0]), 0.9)
    layers = (right, Layer(MUST, np.array([[1, 2], [3, 3]]), None, 0.9))
    fixed = judged(layers, "conditional")
    assert fixed.classification - ALONE.classification == pytest.approx(3.0 * math.log(0.9) + math.log(0.1))
    assert fixed.parameters == 4
    assert fixed.penalty == pytest.approx(ALONE.penalty)
    layers = tuple(replace(layer, accuracy=None) for layer in layers)
    free = judged(layers, "conditional")
    assert free.classification - ALONE.classification == pytest.approx(3.0 * math.log(0.75) + math.log(0.25))
    # one annotator with four annotations of two samples; the self pair says nothing of the accuracy
    assert free.parameters == 5
    assert free.penalty == pytest.approx(ALONE.penalty + 0.5 * math.log(4.0))
    two = (layers[0], replace(layers[1], annotator=1))
    problem = build_problem(X, two, n_clusters=2, model="conditional")
    assert annotation_parameters(problem, two) == [(1, 3.0), (1, 1.0)]


def test_rates_of_a_block_model_by_hand() -> None:
    layers = (Layer(MUST, np.array([[0, 1], [2, 3]])), Layer(CANNOT, np.array([[1, 2]])))
    parts = judged(layers, "likelihood")
    # a must-link within each cluster, m_rr = 2 of n_r² = 4, and a cannot-link between, m_rs = 1 of 4
    sbm = 2.0 * math.log(0.5) - 2.0 + math.log(0.25) - 1.0
    assert parts.classification == pytest.approx(ALONE.classification + sbm)
    assert parts.parameters == 4 + 3 + 3
    assert parts.penalty == pytest.approx(ALONE.penalty + 1.5 * math.log(2.0) + 1.5 * math.log(1.0))


def test_free_proportions_and_the_weight_of_features() -> None:
    free = judged(proportions="free")
    # of equal clusters the proportions are those that were given
    assert free.classification == pytest.approx(ALONE.classification)
    assert free.parameters == 5
    assert free.penalty == pytest.approx(2.5 * math.log(4.0))
    weighted = judged(X=np.hstack([X, X]), feature_weight=0.5)
    assert weighted.classification == pytest.approx(ALONE.classification)
    assert weighted.surprise == pytest.approx(ALONE.surprise)
    assert weighted.penalty == pytest.approx(0.25 * 6 * math.log(4.0))
