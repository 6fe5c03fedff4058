"""What `sweep fit` is given: options and files, checked together."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pipeline.fit.inputs import FitOptions, missing_problems, name_problems, read_accuracies, read_inputs
from sweeps.errors import InputError

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
