"""What `sweep fit` is given: options and files, checked together; `test_fit` of the commands has the rest."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from solving.blobs import far_clusters

from kernels.problem.problem import CANNOT, MUST
from kernels.settings import Settings
from pipeline.fit import inputs
from pipeline.fit.inputs import SHOWN, FitOptions, annotator_layers, judge
from pipeline.fit.solve import fit, weighted_agreement
from sweeps.annotations.files import Annotation, Samples
from sweeps.data.table import SampleRows
from sweeps.errors import InputError

# Annotators: their layers, their accuracies after a fit, and what a fit contradicts.

FILE = Path("some.annotations")
SAMPLES = Samples(SampleRows(20))


def annotation(first: int, second: int, kind: int, count: float = 1.0, name: str = "ann") -> Annotation:
    return Annotation(FILE, 10 * first + second, first, second, kind, count, name)


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
    assert [(layer.annotator, layer.accuracies) for layer in layers] == [(0, None), (0, None), (1, None)]
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
    assert [(row["i"], row["j"], row["weight"]) for row in judgement.contradictions] == [(1, 3, 2), (4, 4, 8)]
    agreement = weighted_agreement(annotator_layers(annotations, {}, None), labels)
    assert 1 - sum(judgement.contradicted.values()) / 20 == pytest.approx(agreement)


def test_people_see_counts_and_the_first_contradictions() -> None:
    annotations = [annotation(i, i + 1, MUST) for i in range(SHOWN + 2)]
    lines = list(judge(annotations, np.arange(20), SAMPLES).lines())
    assert lines[0] == f"annotator  ann: accuracy 0.000, {SHOWN + 2} of {SHOWN + 2} annotations contradicted"
    assert lines[2].strip() == f"{FILE}, line 1: 1 2 must 1 ann"
    assert len(lines) == 2 + SHOWN + 1
    assert lines[-1].strip() == "and 2 more (--json lists all)"


def test_a_row_for_each_sample_by_what_it_is_called() -> None:
    X, _ = far_clusters()
    result = fit(X, [], n_clusters=3, model="unsupervised", restarts=2, settings=Settings(), seed=0)
    names = tuple(f'"{i}", of 60' for i in range(60))
    kept = np.arange(0, 60, 2)
    for samples, called in ((SampleRows(60, kept), "{}"), (SampleRows(60, kept, names), '"""{}"", of 60"')):
        header, *rows = inputs.labels_csv(Samples(samples), result).splitlines()
        assert header == "index,label"
        first = 0 if samples.names else 1
        assert rows == [
            f"{called.format(i + first)},{y}" for i, y in zip(kept, result.best.labels, strict=True)
        ]


@pytest.fixture
def options(tmp_path: Path) -> FitOptions:
    """A table of twelve distinct rows, and nothing else."""
    features = tmp_path / "x.csv"
    features.write_text("".join(f"{i},{i * i % 11}\n" for i in range(12)))
    return FitOptions(features=features, n_clusters=3)


def test_the_model_is_the_most_that_is_known_and_what_it_does_not_see_is_noted(options: FitOptions) -> None:
    links = replace(options, must_link=Path("links"))
    assert options.chosen_model == "unsupervised"
    assert links.chosen_model == "likelihood"
    assert replace(links, accuracy=0.9).chosen_model == "posterior"
    assert replace(links, annotator_accuracy=("ann=0.9",)).chosen_model == "posterior"
    assert replace(options, accuracy=0.9, model="likelihood").chosen_model == "likelihood"
    given = replace(
        links, model="unsupervised", accuracy=0.9, covariance="full", chosen={"variance_prior": 1}
    )
    notes = given.without_effect()
    assert [note.split()[0] for note in notes] == ["--accuracy", "the", "--variance-prior"]
    assert replace(given, model="posterior", chosen={}).without_effect() == []


def test_without_features_the_other_files_are_read_all_the_same(options: FitOptions) -> None:
    must = options.features.with_name("must")
    must.write_text("1 1000\n1 zero\n")
    with pytest.raises(InputError) as refused:
        inputs.read_inputs(replace(options, features=Path("none.csv"), must_link=must))
    # nobody knows how many samples there are
    assert [problem.where for problem in refused.value.problems] == ["none.csv", f"{must}, line 2"]


def test_accuracies_of_annotators_and_labels_in_a_file_of_arrays(options: FitOptions, tmp_path: Path) -> None:
    arrays, labels = tmp_path / "x.npz", np.repeat([0, 1], 6)
    np.savez(arrays, X=np.arange(24.0).reshape(12, 2), labels=labels)
    pairs = tmp_path / "pairs"
    pairs.write_text("1 2 must 1 a=b\n3 4 must 1 ann\n")
    own = {"annotations": (pairs,), "annotator_accuracy": ("a=b=0.5", "ann=1")}
    found = inputs.read_inputs(replace(options, features=arrays, **own))
    assert np.array_equal(found.labels_true, labels)
    # the name ends at the last equals sign
    assert found.accuracies == {"a=b": 0.5, "ann": 1.0}
    assert [layer.accuracy for layer in found.layers] == [0.5, 1.0]
