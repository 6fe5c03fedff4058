"""What a fit says of its annotators: two accuracies with intervals, and who is below chance."""

import numpy as np
import pytest
from scipy.stats import beta

from sweep_clustering import AnnotatedClustering
from sweep_clustering.kernels.problem.data import Estimates
from sweep_clustering.pipeline.fit.confidence import estimates_json


def test_intervals_are_those_of_beta_distributions() -> None:
    right, wrong = np.array([[9.0, 30.5], [2.0, 3.0]]), np.array([[3.0, 1.5], [8.0, 4.0]])
    estimates = Estimates(np.array([0, 2]), right, wrong, np.array([0.7, 0.8]))
    document = estimates_json(estimates, ["ann", "bob", "eve"])
    assert list(document) == ["ann", "eve"]
    assert [document[name]["below_chance"] for name in ("ann", "eve")] == [False, True]
    for row, name in enumerate(("ann", "eve")):
        for column, side in enumerate(("together", "apart")):
            a, b = right[row, column], wrong[row, column]
            assert document[name][side]["accuracy"] == pytest.approx(a / (a + b))
            assert document[name][side]["interval"] == pytest.approx(beta(a, b).interval(0.95))


def test_an_annotator_below_chance_is_named_and_used_in_reverse() -> None:
    rng = np.random.default_rng(0)
    labels = np.arange(90) % 3
    X = rng.normal(size=(90, 2)) + 2.5 * np.column_stack([labels == 1, labels == 2])
    tables: dict[bool, dict[str, np.ndarray]] = {True: {}, False: {}}
    for name, accuracy in (("ann", 0.9), ("bob", 0.85), ("eve", 0.1)):
        pairs = np.array([rng.choice(90, 2, replace=False) for _ in range(150)])
        must = (labels[pairs[:, 0]] == labels[pairs[:, 1]]) == (rng.random(150) < accuracy)
        for kind in (True, False):
            tables[kind][name] = pairs[must == kind]
    estimator = AnnotatedClustering(
        3, model="conditional", components=1, subspace=2, covariance="spherical", restarts=2, random_state=0
    )
    estimator.fit(X, must_link=tables[True], cannot_link=tables[False])
    notes = [note for note in estimator.notes_ if "used in reverse" in note]
    assert len(notes) == 1
    assert notes[0].startswith("right less often than by chance, and used in reverse: eve (0.")
    estimates = estimator.annotator_estimates_
    assert [name for name in estimates if estimates[name]["below_chance"]] == ["eve"]
    assert estimator.annotator_accuracies_["eve"] < 0.3
    assert "np." not in repr(estimates)
