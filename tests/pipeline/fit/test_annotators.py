"""Annotators: their layers, their accuracies after a fit, and what a fit contradicts."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kernels.problem.problem import CANNOT, MUST, build_problem
from pipeline.fit.annotators import SHOWN, annotator_layers, judge
from pipeline.fit.solve import weighted_agreement
from sweeps.annotations.files import Annotation

FILE = Path("some.annotations")


def annotation(first: int, second: int, kind: int, count: float = 1.0, name: str = "ann") -> Annotation:
    return Annotation(FILE, 10 * first + second, first, second, kind, count, name)


def many(n: int, seed: int = 0) -> list[Annotation]:
    """Annotations of three annotators on 20 samples, self pairs among them."""
    rng = np.random.default_rng(seed)
    columns = (
        rng.integers(20, size=n),
        rng.integers(20, size=n),
        rng.integers(2, size=n),
        rng.integers(1, 4, n),
    )
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return [annotation(*row, name=str(rng.choice(["c", "a", "b"]))) for row in rows]


def test_a_layer_for_each_annotator_and_kind() -> None:
    annotations = [
        annotation(0, 1, CANNOT, 2.0),
        annotation(2, 3, MUST, 1.0, "bob"),
        annotation(1, 1, MUST, 3.0),
        annotation(1, 0, CANNOT, 0.5),
    ]
    layers = annotator_layers(annotations, {"bob": 0.7}, 0.9)
    assert [(layer.kind, layer.accuracy) for layer in layers] == [(MUST, 0.9), (CANNOT, 0.9), (MUST, 0.7)]
    assert [layer.pairs.tolist() for layer in layers] == [[[1, 1]], [[0, 1], [1, 0]], [[2, 3]]]
    assert [layer.weights.tolist() for layer in layers if layer.weights is not None] == [[3], [2, 0.5], [1]]
    assert [layer.annotator for layer in layers] == [0, 0, 1]
    assert [layer.accuracies for layer in layers] == [None] * 3
    assert annotator_layers([], {}, None) == []


def test_accuracies_of_lines_come_before_those_of_annotators() -> None:
    annotations = [replace(annotation(0, 1, MUST), accuracy=0.6), annotation(1, 2, MUST)]
    (layer,) = annotator_layers(annotations, {"ann": 0.7}, 0.9)
    assert layer.accuracies is not None
    np.testing.assert_array_equal(layer.accuracies, [0.6, np.nan])
    assert layer.accuracy == 0.7


def test_all_annotations_reach_the_kernels() -> None:
    annotations = many(60)
    layers = annotator_layers(annotations, {}, 0.8)
    X = np.random.default_rng(1).normal(size=(20, 2))
    totals = build_problem(X, layers, n_clusters=2, model="posterior").data.totals
    assert len(totals) == 6
    assert totals.sum() == sum(item.count for item in annotations)


def test_accuracy_is_the_agreeing_share_without_self_pairs() -> None:
    labels = np.array([0, 0, 1, 1], dtype=np.int16)
    annotations = [
        annotation(0, 1, MUST, 3.0),
        annotation(0, 2, MUST, 2.0),
        annotation(3, 3, CANNOT, 4.0),
        annotation(1, 1, MUST, 9.0),
        annotation(1, 2, CANNOT, 1.0, "bob"),
        annotation(2, 2, MUST, 1.0, "self"),
    ]
    judgement = judge(annotations, labels)
    assert judgement.accuracies == {"ann": 0.6, "bob": 1.0, "self": None}
    assert judgement.counts == {"ann": 18, "bob": 1, "self": 1}
    assert judgement.contradictions == [annotations[1], annotations[2]]


@pytest.mark.parametrize("seed", range(3))
def test_contradictions_are_what_the_agreement_lacks(seed: int) -> None:
    annotations = many(80, seed)
    labels = np.random.default_rng(seed).integers(3, size=20)
    contradicted = sum(item.count for item in judge(annotations, labels).contradictions)
    total = sum(item.count for item in annotations)
    agreement = weighted_agreement(annotator_layers(annotations, {}, None), labels)
    assert 1 - contradicted / total == pytest.approx(agreement)


def test_json_repeats_the_lines_of_the_file() -> None:
    labels = np.array([0, 0, 1])
    judgement = judge([annotation(0, 2, MUST, 0.5), annotation(2, 2, CANNOT, 1.0, "bob")], labels)
    document = json.loads(json.dumps(judgement.to_json(), allow_nan=False))
    assert document == {
        "annotator_accuracies": {"ann": 0.0, "bob": None},
        "contradictions": [
            {"i": 1, "j": 3, "kind": "must", "weight": 0.5, "annotator": "ann", "file": str(FILE), "line": 2},
            {
                "i": 3,
                "j": 3,
                "kind": "cannot",
                "weight": 2.0,
                "annotator": "bob",
                "file": str(FILE),
                "line": 22,
            },
        ],
    }


def test_people_see_counts_and_the_first_contradictions() -> None:
    labels = np.arange(20)
    lines = judge([annotation(i, i + 1, MUST) for i in range(SHOWN + 2)], labels).lines()
    assert lines[0] == f"annotator  ann: accuracy 0.000, {SHOWN + 2} of {SHOWN + 2} annotations contradicted"
    assert lines[2].strip() == f"{FILE}, line 1: 1 2 must 1 ann"
    assert len(lines) == 2 + SHOWN + 1
    assert lines[-1].strip() == "and 2 more (--json lists all)"
    assert judge([annotation(1, 2, CANNOT)], labels).lines() == [
        "annotator  ann: accuracy 1.000, 0 of 1 annotations contradicted"
    ]
    assert judge([], labels).lines() == []
