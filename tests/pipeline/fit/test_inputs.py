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
from pipeline.fit.data_notes import data_notes, equal_rows
from pipeline.fit.inputs import SHOWN, FitOptions, annotator_layers, judge
from pipeline.fit.solve import fit, weighted_agreement
from sweeps.annotations.files import Annotation, Samples
from sweeps.data.table import SampleRows
from sweeps.errors import InputError

FILE = Path("some.annotations")
SAMPLES = Samples(SampleRows(20))


def annotation(first: int, second: int, kind: int, count: float = 1.0, name: str = "ann") -> Annotation:
    return Annotation(FILE, 10 * first + second, first, second, kind, count, name)


def test_a_layer_for_each_annotator_and_kind() -> None:
    annotations = [annotation(0, 1, CANNOT, 2.0), annotation(2, 3, MUST, 1.0, "bob")]
    annotations += [annotation(1, 1, MUST, 3.0), replace(annotation(1, 0, CANNOT, 0.5), accuracy=0.6)]
    layers = annotator_layers(annotations, {"bob": 0.7}, 0.9)
    found = [(each.kind, each.accuracy, each.annotator, each.pairs.tolist()) for each in layers]
    assert found == [(0, 0.9, 0, [[1, 1]]), (1, 0.9, 0, [[0, 1], [1, 0]]), (0, 0.7, 1, [[2, 3]])]
    assert [layer.weights.tolist() for layer in layers if layer.weights is not None] == [[3], [2, 0.5], [1]]
    assert (layers[0].accuracies, layers[2].accuracies) == (None, None)
    np.testing.assert_array_equal(layers[1].accuracies, [np.nan, 0.6])


def test_accuracy_is_the_agreeing_share_without_self_pairs() -> None:
    labels = np.array([0, 0, 1, 1], dtype=np.int16)
    annotations = [
        annotation(0, 1, MUST, 3.0), annotation(0, 2, MUST, 2.0), annotation(3, 3, CANNOT, 4.0),
        annotation(1, 1, MUST, 9.0), annotation(1, 2, CANNOT, 1.0, "bob"), annotation(2, 2, MUST, 1, "self"),
    ]  # fmt: skip
    judgement = judge(annotations, labels, SAMPLES)
    assert judgement.accuracies == {"ann": 0.6, "bob": 1.0, "self": None}
    assert judgement.counts == {"ann": 18, "bob": 1, "self": 1}
    assert [(row["i"], row["j"], row["weight"]) for row in judgement.contradictions] == [(1, 3, 2), (4, 4, 8)]
    agreement = weighted_agreement(annotator_layers(annotations, {}, None), labels)
    assert 1 - sum(judgement.contradicted.values()) / 20 == pytest.approx(agreement)
    many = [annotation(i, i + 1, MUST) for i in range(SHOWN + 2)]
    first, _, second, *_, last = judge(many, np.arange(20), SAMPLES).lines()
    assert first == f"annotator  ann: accuracy 0.000, {SHOWN + 2} of {SHOWN + 2} annotations contradicted"
    assert second.strip() == f"{FILE}, line 1: 1 2 must 1 ann"
    assert last.strip() == "and 2 more (--json lists all)"


def test_a_row_for_each_sample_by_what_it_is_called() -> None:
    X, _ = far_clusters()
    result = fit(X, [], n_clusters=3, model="unsupervised", restarts=2, settings=Settings(), seed=0)
    names, kept = tuple(f'"{i}", of 60' for i in range(60)), np.arange(0, 60, 2)
    for rows, called in ((SampleRows(60, kept), "{}"), (SampleRows(60, kept, names), '"""{}"", of 60"')):
        first = 0 if rows.names else 1
        lines = [f"{called.format(i + first)},{y}" for i, y in zip(kept, result.best.labels, strict=True)]
        assert inputs.labels_csv(Samples(rows), result).splitlines() == ["index,label", *lines]


@pytest.fixture
def options(tmp_path: Path) -> FitOptions:
    """A table of twelve distinct rows, and nothing else."""
    (tmp_path / "x.csv").write_text("".join(f"{i},{i * i % 11}\n" for i in range(12)))
    return FitOptions(features=tmp_path / "x.csv", n_clusters=3)


def test_the_model_is_the_most_that_is_known_and_what_it_does_not_see_is_noted(options: FitOptions) -> None:
    links = replace(options, must_link=Path("links"))
    for given, model in (
        (options, "unsupervised"),
        (links, "likelihood"),
        (replace(links, accuracy=0.9), "posterior"),
        (replace(links, annotator_accuracy=("ann=0.9",)), "posterior"),
        (replace(options, accuracy=0.9, model="likelihood"), "likelihood"),
    ):
        assert given.chosen_model == model
    ignored = replace(
        links, model="unsupervised", accuracy=0.9, covariance="full", chosen={"variance_prior": 1}
    )
    assert [note.split()[0] for note in ignored.without_effect()] == ["--accuracy", "the", "--variance-prior"]
    assert replace(ignored, model="posterior", chosen={}).without_effect() == []


def test_all_files_are_read_together(options: FitOptions, tmp_path: Path) -> None:
    must, pairs, arrays = tmp_path / "must", tmp_path / "pairs", tmp_path / "x.npz"
    must.write_text("1 1000\n1 zero\n")
    with pytest.raises(InputError) as refused:
        inputs.read_inputs(replace(options, features=Path("none.csv"), must_link=must))
    # nobody knows how many samples there are
    assert [problem.where for problem in refused.value.problems] == ["none.csv", f"{must}, line 2"]
    np.savez(arrays, X=np.arange(24.0).reshape(12, 2), labels=(labels := np.repeat([0, 1], 6)))
    pairs.write_text("1 2 must 1 a=b\n3 4 must 1 ann\n")
    own = {"annotations": (pairs,), "annotator_accuracy": ("a=b=0.5", "ann=1")}
    found = inputs.read_inputs(replace(options, features=arrays, **own))
    assert np.array_equal(found.labels_true, labels)
    # the name ends at the last equals sign
    assert found.accuracies == {"a=b": 0.5, "ann": 1.0}
    assert [layer.accuracy for layer in found.layers] == [0.5, 1.0]


# What makes the objective of a table a poor guide, said before anything is fitted.


def test_features_and_rows_that_tell_nothing_apart() -> None:
    X = np.random.default_rng(0).normal(size=(8, 3))
    assert list(data_notes(X, 2, may_degenerate=True)) == []
    X[1], X[:, 2] = X[0], 0.5
    constant, crowded, repeats = data_notes(X, 7, may_degenerate=True)
    assert constant.startswith("1 feature is constant, of 3")
    assert crowded.startswith("as many clusters as distinct rows (7 of 8)")
    assert repeats.startswith("2 of 8 rows are (nearly) equal")


@pytest.mark.parametrize("place", [0.0, 0.5, 0.25])
def test_rows_alike_count_as_equal_wherever_they_lie(place: float) -> None:
    """Also on the lines of the grid that finds them, and in any units."""
    X = np.random.default_rng(1).normal(size=(400, 2))
    width = 1e-5 * np.sqrt(np.square(X - X.mean(axis=0)).mean())
    X[:200] = X.mean(axis=0) + (np.round(X[:200] / width) + place) * width
    X = np.concatenate([X, X[:200] + 1e-9, X[:200] - 1e-9])
    for units in (1.0, 2.0**40):
        assert np.sort(equal_rows(X * units)).tolist() == [1] * 200 + [3] * 200
