"""What `sweep fit` is given: options and files, checked together."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from solving.blobs import far_clusters

from kernels.problem.problem import CANNOT, MUST
from kernels.settings import Settings
from pipeline.fit.inputs import (
    SHOWN,
    FitOptions,
    annotator_layers,
    judge,
    labels_csv,
    read_accuracies,
    read_inputs,
)
from pipeline.fit.solve import fit, weighted_agreement
from sweeps.annotations.files import Annotation, Samples
from sweeps.data.table import SampleRows
from sweeps.errors import InputError

# Annotators: their layers, their accuracies after a fit, and what a fit contradicts.

FILE = Path("some.annotations")
SAMPLES = Samples(SampleRows(20))


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
    judgement = judge(annotations, labels, SAMPLES)
    assert judgement.accuracies == {"ann": 0.6, "bob": 1.0, "self": None}
    assert judgement.counts == {"ann": 18, "bob": 1, "self": 1}
    assert judgement.contradictions == [annotations[1], annotations[2]]


@pytest.mark.parametrize("seed", range(3))
def test_contradictions_are_what_the_agreement_lacks(seed: int) -> None:
    annotations = many(80, seed)
    labels = np.random.default_rng(seed).integers(3, size=20)
    contradicted = sum(item.count for item in judge(annotations, labels, SAMPLES).contradictions)
    total = sum(item.count for item in annotations)
    agreement = weighted_agreement(annotator_layers(annotations, {}, None), labels)
    assert 1 - contradicted / total == pytest.approx(agreement)


def test_people_see_counts_and_the_first_contradictions() -> None:
    labels = np.arange(20)
    lines = judge([annotation(i, i + 1, MUST) for i in range(SHOWN + 2)], labels, SAMPLES).lines()
    assert lines[0] == f"annotator  ann: accuracy 0.000, {SHOWN + 2} of {SHOWN + 2} annotations contradicted"
    assert lines[2].strip() == f"{FILE}, line 1: 1 2 must 1 ann"
    assert len(lines) == 2 + SHOWN + 1
    assert lines[-1].strip() == "and 2 more (--json lists all)"
    assert judge([annotation(1, 2, CANNOT)], labels, SAMPLES).lines() == [
        "annotator  ann: accuracy 1.000, 0 of 1 annotations contradicted"
    ]
    assert judge([], labels, SAMPLES).lines() == []


# Labels as a table, put in place whole: `sweep fit --out` is tested with its command.


def test_a_row_for_each_sample_by_what_it_is_called() -> None:
    X, labels = far_clusters()
    n = len(X)
    result = fit(X, [], n_clusters=3, model="unsupervised", restarts=2, settings=Settings(), seed=0)
    kept = np.arange(0, 2 * n, 2)
    header, *rows = labels_csv(Samples(SampleRows(2 * n, kept)), result).splitlines()
    assert header == "index,label"
    assert [int(row.split(",")[0]) for row in rows] == (kept + 1).tolist()
    assert [int(row.split(",")[1]) for row in rows] == result.best.labels.tolist()
    names = tuple(f'"{i}", of {n}' for i in range(n))
    quoted = labels_csv(Samples(SampleRows(n, None, names)), result).splitlines()[1]
    assert quoted == f'"""0"", of {n}",{result.best.labels[0]}'
    assert len(labels) == n


ROWS = "".join(f"{i},{i * i % 11}\n" for i in range(12))


@pytest.fixture
def options(tmp_path: Path) -> FitOptions:
    """A table of twelve distinct rows, and nothing else."""
    features = tmp_path / "x.csv"
    features.write_text(ROWS)
    return FitOptions(features, None, None, None, 3, None, None, 5, 0, "none")


def file(options: FitOptions, name: str, text: str) -> Path:
    path = options.features.with_name(name)
    path.write_text(text)
    return path


def test_the_model_is_the_most_that_is_known(options: FitOptions) -> None:
    links = Path("links")
    assert options.chosen_model == "unsupervised"
    assert replace(options, must_link=links).chosen_model == "likelihood"
    assert replace(options, must_link=links, accuracy=0.9).chosen_model == "posterior"
    assert replace(options, annotations=(links,), annotator_accuracy=("ann=0.9",)).chosen_model == "posterior"
    assert replace(options, accuracy=0.9, model="likelihood").chosen_model == "likelihood"


def test_what_has_no_effect_is_noted(options: FitOptions) -> None:
    given = replace(options, model="unsupervised", accuracy=0.9, must_link=Path("links"))
    accuracy, links = given.without_effect()
    assert accuracy == "--accuracy is not used by the model 'unsupervised'"
    assert "does not see the links" in links
    assert replace(given, model="posterior").without_effect() == []


def test_without_features_the_other_files_are_read_all_the_same(options: FitOptions) -> None:
    must = file(options, "must", "1 1000\n1 zero\n")
    with pytest.raises(InputError) as refused:
        read_inputs(replace(options, features=Path("none.csv"), must_link=must))
    assert "none.csv" in str(refused.value)
    assert "line 2" in str(refused.value)
    assert "line 1" not in str(refused.value)  # nobody knows how many samples there are


def test_the_name_of_an_annotator_ends_at_the_last_equals_sign() -> None:
    assert read_accuracies(["a=b=0.5", "ann=1"]) == ({"a=b": 0.5, "ann": 1.0}, [])
    _, (problem,) = read_accuracies(["ann=0.5", "ann=0.6"])
    assert "ann: found a second accuracy" in str(problem)


def test_labels_in_a_file_of_arrays_are_used(options: FitOptions, tmp_path: Path) -> None:
    arrays = tmp_path / "x.npz"
    labels = np.repeat([0, 1], 6)
    np.savez(arrays, X=np.arange(24.0).reshape(12, 2), labels=labels)
    found = read_inputs(replace(options, features=arrays)).labels_true
    assert found is not None
    assert np.array_equal(found, labels)
