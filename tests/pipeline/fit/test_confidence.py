"""A fit gives each annotator two accuracies with intervals, and names those below chance."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.stats import beta

from sweep_clustering import AnnotatedClustering, AnnotatedClusteringWarning
from sweep_clustering.kernels.problem.data import Estimates
from sweep_clustering.pipeline.fit.confidence import below_chance, estimates_json, judge_unsure
from sweep_clustering.sweeps.annotations.rows import AnnotationRows, Skip


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
    with pytest.warns(AnnotatedClusteringWarning) as caught:
        estimator.fit(X, must_link=tables[True], cannot_link=tables[False])
    notes = [note for note in estimator.notes_ if "used in reverse" in note]
    assert len(notes) == 1
    assert notes[0].startswith("must-links and cannot-links seem to be exchanged by eve (right for 0.")
    assert notes[0] in [str(warning.message) for warning in caught]
    estimates = estimator.annotator_estimates_
    assert [name for name in estimates if estimates[name]["below_chance"]] == ["eve"]
    assert estimator.annotator_accuracies_["eve"] < 0.3
    assert "np." not in repr(estimates)


@pytest.mark.parametrize(
    ("right", "used", "warning", "note"),
    [
        ((4, 90), (0.1, 0.5), "eve (right for 0.04 of pairs that belong together, 0.45", ""),
        ((4, 10), (0.5, 0.5), "0.05 of others): this fit uses no answers in reverse", ""),
        ((45, 95), (0.45, 0.48), "", "right less often than by chance, and used in reverse: eve"),
        ((45, 95), (0.5, 0.5), "", ""),
        ((90, 160), (0.9, 0.8), "", ""),
    ],
)  # fmt: skip
def test_exchanged_kinds_are_told_from_guesses(
    right: tuple[int, int], used: tuple[float, float], warning: str, note: str
) -> None:
    counts = np.array([[80.0, 170.0], right])
    estimates = Estimates(np.array([0, 1]), counts, np.array([100.0, 200.0]) - counts, np.array([0.7, 0.7]))
    gaussians = SimpleNamespace(
        structure=SimpleNamespace(annotated=True), accuracies={0: (0.8, 0.85), 1: used}
    )
    fit: Any = SimpleNamespace(gaussians=gaussians)
    warnings, notes = below_chance(estimates, ["ann", "eve"], fit)
    assert len(warnings) == bool(warning)
    assert len(notes) == bool(note)
    assert warning in "".join(warnings)
    assert note in "".join(notes)
    assert not any("ann (" in text for text in warnings + notes)


def test_one_unsure_answer_is_no_plural() -> None:
    values, lines = judge_unsure([AnnotationRows.of([Skip(0, 3, "ann", 1.0)])], int)
    assert values == {"annotators": {"ann": 1.0}, "pairs": [{"i": 0, "j": 3, "count": 1.0}]}
    assert lines == ["unsure     1 answer about 1 pair, left out: ann 1"]


@pytest.mark.parametrize(("n_others", "n_warnings"), [(1, 1), (99, 0)])
def test_one_of_many_annotators_is_below_chance_only_if_more_clearly(n_others: int, n_warnings: int) -> None:
    counts = np.array([*n_others * [[80.0, 170.0]], [40.0, 80.0]])
    totals = np.array([100.0, 200.0])
    estimates = Estimates(np.arange(n_others + 1), counts, totals - counts, np.array([0.7, 0.7]))
    fit: Any = SimpleNamespace(gaussians=None)
    warnings, notes = below_chance(estimates, [*n_others * ["ann"], "eve"], fit)
    assert len(warnings) == n_warnings
    assert notes == []
