"""What `sweep fit` is given: options and files, checked together."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from solving.blobs import far_clusters

from kernels.problem.problem import CANNOT, MUST, build_problem
from kernels.settings import Settings
from pipeline.fit.inputs import (
    SHOWN,
    FitOptions,
    annotator_layers,
    judge,
    labels_csv,
    missing_problems,
    name_problems,
    read_accuracies,
    read_inputs,
)
from pipeline.fit.solve import fit, weighted_agreement
from sweeps.annotations.files import Annotation, Samples
from sweeps.data.table import SampleRows
from sweeps.errors import InputError

# Annotators: their layers, their accuracies after a fit, and what a fit contradicts.

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


def test_features_alone_are_enough(options: FitOptions) -> None:
    found = read_inputs(options)
    assert found.X.shape == (12, 2)
    assert (found.labels_true, found.annotations, found.layers) == (None, [], [])
    scaled = read_inputs(replace(options, scale="minmax")).X
    assert (scaled.min(), scaled.max()) == (0.0, 1.0)


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


def test_links_and_annotations_make_layers(options: FitOptions) -> None:
    must = file(options, "must", "1 2\n3 4\n")
    lines = file(options, "annotations", "1 2 must 1 ann\n4 5 cannot 1 ann\n")
    found = read_inputs(replace(options, must_link=must, annotations=(lines,), accuracy=0.9))
    assert len(found.annotations) == 4
    assert len(found.layers) == 3


def test_problems_of_options_and_of_every_file_come_together(options: FitOptions) -> None:
    bad = replace(
        options,
        must_link=file(options, "must", "0 99\n"),
        labels=file(options, "labels", "1\n2\n"),
        n_clusters=13,
        restarts=0,
        seed=-1,
        accuracy=1.5,
        annotator_accuracy=("ann", "bob=2"),
        chosen={"population": 0, "method": "paper"},
    )
    with pytest.raises(InputError) as refused:
        read_inputs(bad)
    text = str(refused.value)
    for words in (
        "--restarts: found 0",
        "--seed: found -1",
        "--accuracy: found 1.5",
        "--population: found 0",
        "--method: found 'paper', expected one of strong, published",
        "13 clusters for 12 distinct rows",
        "2 labels, expected 12",
        "--annotator-accuracy: found 'ann', expected NAME=p",
        "--annotator-accuracy bob: found '2'",
        "must, line 1",
    ):
        assert words in text, words


def test_missing_files_and_unknown_words_come_with_all_the_rest(options: FitOptions) -> None:
    bad = replace(
        options,
        features=Path("x.none"),
        labels=Path("y.none"),
        must_link=Path("must.none"),
        annotations=(file(options, "a", "1 2 must 1 ann 0.9\n1 2 must 1 bob\n3 4 must 1 eve\n"),),
        model="posteriro",
        covariance="comon",
        scale="log",
        restarts=0,
        annotator_accuracy=("ann=2", "bob=0.5"),
    )
    with pytest.raises(InputError) as refused:
        read_inputs(bad)
    assert [str(problem).split(", expected")[0] for problem in refused.value.problems] == [
        "--model: found 'posteriro'",
        "--covariance: found 'comon'",
        "--scale: found 'log'",
        "--restarts: found 0",
        "x.none: found No such file or directory",
        "y.none: found No such file or directory",
        "--annotator-accuracy ann: found '2'",
        "must.none: found No such file or directory",
    ]
    assert "did you mean 'posterior'?" in str(refused.value)


def test_what_is_wrong_with_a_good_file_is_said_beside_a_missing_one(options: FitOptions) -> None:
    lines = file(options, "a", "1 2 must 1 ann 0.9\n1 3 must 1 eve\n")
    given = replace(options, must_link=Path("must.none"), annotations=(lines,), annotator_accuracy=("ann=2",))
    with pytest.raises(InputError) as refused:
        read_inputs(given)
    accuracy, missing, annotator, column = map(str, refused.value.problems)
    assert missing.startswith("must.none: found No such file")
    assert accuracy.startswith("--annotator-accuracy ann: found '2'")
    assert "nothing for annotator 'eve'" in annotator
    assert column.startswith(f"{lines}, line 1: found an accuracy in the sixth column")


def test_without_features_the_other_files_are_read_all_the_same(options: FitOptions) -> None:
    must = file(options, "must", "1 1000\n1 zero\n")
    with pytest.raises(InputError) as refused:
        read_inputs(replace(options, features=Path("none.csv"), must_link=must))
    assert "none.csv" in str(refused.value)
    assert "line 2" in str(refused.value)
    assert "line 1" not in str(refused.value)  # nobody knows how many samples there are


def test_clusters_too_small_for_their_least_size(options: FitOptions) -> None:
    with pytest.raises(InputError, match="3 clusters of 5 or more for 12 samples"):
        read_inputs(replace(options, chosen={"min_cluster_size": 5}))


def test_the_name_of_an_annotator_ends_at_the_last_equals_sign() -> None:
    assert read_accuracies(["a=b=0.5", "ann=1"]) == ({"a=b": 0.5, "ann": 1.0}, [])
    _, (problem,) = read_accuracies(["ann=0.5", "ann=0.6"])
    assert "ann: found a second accuracy" in str(problem)


def test_names_of_annotators_are_compared_with_those_of_the_files() -> None:
    (problem,) = name_problems({"anm": 0.9, "bob": 0.8}, ["ann", "bob"])
    assert (problem.found, problem.hint) == ("annotator 'anm'", "did you mean 'ann'?")
    (problem,) = name_problems({"ann": 0.9}, [])
    assert "there are no annotations" in problem.expected
    (problem,) = missing_problems({"ann": 0.9}, ["ann", "bob"])
    assert problem.found == "nothing for annotator 'bob'"


def test_labels_in_a_file_of_arrays_are_used(options: FitOptions, tmp_path: Path) -> None:
    arrays = tmp_path / "x.npz"
    labels = np.repeat([0, 1], 6)
    np.savez(arrays, X=np.arange(24.0).reshape(12, 2), labels=labels)
    found = read_inputs(replace(options, features=arrays)).labels_true
    assert found is not None
    assert np.array_equal(found, labels)
