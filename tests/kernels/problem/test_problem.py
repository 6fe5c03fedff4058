"""A clustering problem: what is refused, and what is left alone."""

from __future__ import annotations

import numpy as np
import pytest
from solving import oracles

from kernels.problem.problem import CANNOT, MUST, Layer, build_problem, effective_weight
from kernels.settings import ObjectiveSettings

GOOD = np.arange(12.0).reshape(6, 2)
PAIR = np.array([[0, 1]])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"X": np.ones((6, 2))}, "rows without any variance"),
        ({"X": np.array([[0.0], [np.nan], [1.0], [2.0]])}, "not finite, the first in row 1, column 0"),
        ({"X": np.arange(3.0)}, r"shape \(3,\)"),
        ({"n_clusters": 4}, "6 samples are fewer"),
        ({"X": np.repeat([[0.0], [1.0]], 5, axis=0), "n_clusters": 3}, "only 2 distinct rows"),
        ({"n_clusters": 0}, "n_clusters is 0"),
        ({"settings": ObjectiveSettings(min_cluster_size=0)}, "min_cluster_size is 0"),
        ({"settings": ObjectiveSettings(variance_prior=-1.0)}, "variance_prior is -1"),
        (
            {"layers": [Layer(MUST, np.array([[0, 6]]), None, 0.9)]},
            "annotation layer 0: indices go from 0 to 6, expected 0 to 5",
        ),
        ({"layers": [Layer(MUST, PAIR, np.array([0.0]), 0.9)]}, "expected each a number from 1e-100"),
        ({"layers": [Layer(MUST, PAIR)]}, "accuracy is None"),
        ({"layers": [Layer(MUST, PAIR, None, 1.1)]}, "accuracy is 1.1"),
        ({"layers": [Layer(CANNOT, PAIR, None, 0.0)]}, "accuracy is 0.0"),
        ({"layers": [Layer(MUST, PAIR, None, 1.1)], "model": "conditional"}, "accuracy is 1.1"),
        ({"layers": [Layer(MUST, PAIR, accuracies=np.array([-1]))], "model": "conditional"}, r"in \[0, 1\]"),
    ],
)
def test_refusals(change: dict[str, object], words: str) -> None:
    given = {"X": GOOD, "layers": (), "n_clusters": 2, "model": "posterior"} | change
    with pytest.raises(ValueError, match=words):
        build_problem(**given)  # type: ignore[arg-type]


def test_input_is_left_alone() -> None:
    X = np.asfortranarray(GOOD + 5)
    X.flags.writeable = False
    problem = build_problem(X, n_clusters=2, model="unsupervised")
    np.testing.assert_allclose(problem.data.X.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(problem.means, X.mean(axis=0))


def test_the_weight_of_features_knows_no_units() -> None:
    X = np.random.default_rng(0).normal(size=(300, 6))
    assert effective_weight(1e200 * X) == pytest.approx(oracles.effective_weight(X), rel=1e-12)
    assert effective_weight(X[:, :1] + 1e6) == pytest.approx(1.0)
