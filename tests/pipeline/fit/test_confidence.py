"""A fit gives each annotator two accuracies with intervals, and names those below chance."""

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock, patch

import numpy as np
import pytest
from scipy.stats import beta

from sweep_clustering import AnnotatedClustering, AnnotatedClusteringWarning
from sweep_clustering.kernels.problem.data import CANNOT, MUST, Estimates, Layer
from sweep_clustering.pipeline.fit import confidence
from sweep_clustering.pipeline.fit.confidence import Confidence, below_chance, estimates_json, judge_unsure
from sweep_clustering.sweeps.annotations.rows import Annotation, AnnotationRows, Skip


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


@pytest.mark.parametrize("has_classes", [False, True])
def test_estimates_count_the_weights_of_pairs_of_an_unknown_accuracy(has_classes: bool) -> None:
    labels = np.array([0, 0, 1, 1])
    classes = np.array([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.0, 1.0]]) if has_classes else np.empty((0, 0))
    fit: Any = SimpleNamespace(labels=labels, gaussians=SimpleNamespace(classes=classes))
    must, cannot = np.array([[0, 1], [2, 2], [1, 2]]), np.array([[0, 3], [2, 3], [1, 3]])
    layers = [
        Layer(MUST, must, np.array([2.0, 5.0, 0.5]), None, None, 3),
        Layer(CANNOT, cannot, np.array([3.0, 4.0, 7.0]), None, np.array([np.nan, 0.8, np.nan]), 1),
        Layer(MUST, must, None, 0.9, None, 2),
    ]
    with patch.object(confidence.data, "estimate_accuracies") as estimate_accuracies:
        confidence.estimate(layers, fit)
    annotators, is_must, weights, shares = estimate_accuracies.call_args.args
    assert annotators.tolist() == [3, 3, 1, 1]
    assert is_must.tolist() == [True, True, False, False]
    assert weights.tolist() == [2.0, 0.5, 3.0, 7.0]
    assert shares == pytest.approx([0.74, 0.38, 0.1, 0.2] if has_classes else [1.0, 0.0, 0.0, 0.0])
    assert len(confidence.estimate([], fit).annotators) == 0


def test_the_clearest_of_many_annotators_below_chance_are_named() -> None:
    counts = np.array([[50.0, 100.0 + 10.0 * number] for number in (3, 1, 5, 0, 4, 2, 6)])
    estimates = Estimates(np.arange(7), counts, 1000.0 - counts, np.array([0.7, 0.7]))
    structure = SimpleNamespace(annotated=True)
    fit: Any = SimpleNamespace(
        gaussians=SimpleNamespace(structure=structure, accuracies=dict.fromkeys(range(7), (0.4, 0.5)))
    )
    for is_used, use in ((True, "these answers are used in reverse"), (False, "no answers in reverse")):
        structure.annotated = is_used
        (warning,), notes = below_chance(estimates, list("dbfaecg"), fit)
        assert re.findall(r"(\w) \(right for 0.05 of", warning) == list("abcde")
        assert ", and 2 more: " in warning
        assert use in warning
        assert notes == []


def test_chains_disagree_by_their_agreement_with_the_solution_too() -> None:
    rng = np.random.default_rng(0)
    chains = (rng.random((4, 20, 6)) < np.array([0.1, 0.1, 0.5, 0.6])[:, None, None]).astype(np.int16)
    calm = rng.normal(size=(4, 20))
    draws = SimpleNamespace(labels=chains, membership=None, objectives=calm, starts=2)
    solver, fits = Mock(n_clusters=2, draws=Mock(return_value=draws)), [Mock(), Mock(labels=np.zeros(6, int))]
    result = confidence.find_confidence(solver, fits, 1, 3)
    of_agreements = confidence.split_r_hat((chains == 0).mean(axis=2))
    assert result.r_hat == of_agreements > confidence.split_r_hat(calm)
    assert result.label_draws.tolist() == chains.reshape(80, 6).tolist()
    assert result.membership[:, 1] == pytest.approx(chains.mean(axis=(0, 1)))
    assert result.chain_agreement == pytest.approx(1.0 - np.ptp(chains.mean(axis=1), axis=0).max())
    _, best, seed, effort = solver.draws.call_args.args
    assert best == 1
    assert seed.entropy == 3
    assert seed.spawn_key == (1,)
    assert effort == confidence.EFFORT
    draws.objectives = None
    assert confidence.find_confidence(solver, fits, 1, 3).r_hat == 1.0


def test_a_confidence_has_unsure_labels_and_chains_that_disagree() -> None:
    membership = np.array([[0.9, 0.1], [0.89, 0.11], [0.2, 0.8], [0.0, 1.0]])
    labels = np.array([0, 0, 1, 1], np.int16)
    certainty = Confidence(labels, labels[None], membership, 1.1, 0.5, 2, 0.25)
    assert certainty.confidence.tolist() == [0.9, 0.89, 0.8, 1.0]
    assert certainty.words == "0.897 of the labels expected right, if the model is; 2 below 0.9"
    assert (
        certainty.lines()[1] == "chains     4 from 2 distinct restarts, R-hat 1.100, agreement 0.500, 0.250 s"
    )
    assert list(certainty.notes()) == []
    assert "memberships differ by up to 0.51;" in next(replace(certainty, chain_agreement=0.49).notes())
    assert "R-hat 1.11," in next(replace(certainty, r_hat=1.11).notes())
    assert certainty.to_json()["r_hat"] == 1.1
    assert replace(certainty, r_hat=np.inf).to_json()["r_hat"] is None


def test_unsure_answers_are_counted_by_annotator_and_pair() -> None:
    skips = [Skip(0, 3, "ann", 2.0), Skip(3, 0, "bob", 0.5), Skip(1, 2, "bob", 3.0), Skip(3, 0, "bob", 1.0)]
    values, (line,) = judge_unsure(
        [AnnotationRows.of(skips[:2]), AnnotationRows.of(skips[2:])], "abcd".__getitem__
    )
    assert values["annotators"] == {"ann": 2.0, "bob": 4.5}
    assert values["pairs"] == [{"i": "a", "j": "d", "count": 3.5}, {"i": "b", "j": "c", "count": 3.0}]
    assert line == "unsure     6.5 answers about 2 pairs, left out: bob 4.5, ann 2"
    sure = AnnotationRows.of([Annotation(Path("a"), 1, 0, 1, MUST, 1.0, "cyd"), skips[0]])
    assert judge_unsure([sure], int)[0]["annotators"] == {"ann": 2.0}
    many = [Skip(0, 1, name, 1.0) for name in "abcdefg"]
    assert judge_unsure([AnnotationRows.of(many)], int)[1][0].endswith("d 1, e 1, and 2 more annotators")
    assert judge_unsure([], int) == ({"annotators": {}, "pairs": []}, [])
