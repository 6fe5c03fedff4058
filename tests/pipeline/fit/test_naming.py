"""Labels of rows take part in fits of the estimator and of `sweep fit`."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click import Command
from click.testing import CliRunner
from numpy.typing import NDArray

from sweep_clustering.kernels.scores import adjusted_rand
from sweep_clustering.pipeline.commands.fit import ask, fit_command
from sweep_clustering.pipeline.fit.estimator import AnnotatedClustering, AnnotatedClusteringWarning
from sweep_clustering.pipeline.fit.inputs import Naming, label_notes, label_problems
from sweep_clustering.sweeps.annotations.labels import RowLabels
from sweep_clustering.sweeps.errors import InputError

NAMES = np.array(["red", "green", "blue"], dtype=object)


def blobs(n_rows: int = 120, spread: float = 1.2) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Draw three classes, two of which overlap, and a feature that says nothing."""
    rng = np.random.default_rng(0)
    y = np.arange(n_rows) % 3
    centers = np.array([[0.0, 0.0, 0.0], [3.0, 0.0, 0.0], [0.0, 6.0, 0.0]])
    return centers[y] + rng.normal(0.0, spread, (n_rows, 3)), y


def some_labels(y: NDArray[np.int64], share: float = 0.4, wrong: float = 0.1) -> NDArray[np.object_]:
    """Label some rows, some of them wrongly."""
    rng = np.random.default_rng(1)
    names = NAMES[(y + (rng.random(len(y)) < wrong)) % 3]
    return np.where(rng.random(len(y)) < share, names, None)


def fit_labels(
    labels: Any, n_clusters: int | None = 3, X: Any = None, model: str | None = None, **links: Any
) -> AnnotatedClustering:
    X = blobs()[0] if X is None else X
    estimator = AnnotatedClustering(n_clusters, model=model, restarts=3, random_state=0)
    return estimator.fit(X, row_labels=labels, **links)


def test_labels_name_the_clusters() -> None:
    _, y = blobs()
    labels = some_labels(y)
    estimator = fit_labels(labels)
    assert sorted(estimator.cluster_names_) == sorted(NAMES)
    assert estimator.label_names_ == sorted(NAMES)
    named = estimator.cluster_names_[estimator.labels_]
    assert (named == NAMES[y]).mean() > 0.85
    is_labelled = labels != None  # noqa: E711
    assert estimator.label_agreement_ == pytest.approx((named == labels)[is_labelled].mean())
    assert adjusted_rand(y, estimator.labels_) > 0.6


def test_wrong_labels_are_outvoted() -> None:
    X, y = blobs(spread=0.5)
    labels = some_labels(y, share=0.6, wrong=0.2)
    estimator = fit_labels(labels, X=X)
    is_wrong = (labels != None) & (labels != NAMES[y])  # noqa: E711
    named = estimator.cluster_names_[estimator.labels_]
    assert is_wrong.sum() > 5
    assert (named == NAMES[y])[is_wrong].all()


def test_forms_of_labels_give_the_same_fit() -> None:
    X, y = blobs()
    codes = np.where(some_labels(y) == None, -1, y)  # noqa: E711
    expected = fit_labels(codes, model="conditional").labels_
    texts = [str(code) if code >= 0 else "?" for code in codes]
    floats = np.where(codes < 0, np.nan, codes)
    by_row = {row: code for row, code in enumerate(codes.tolist()) if code >= 0}
    for labels in (texts, floats, by_row, pd.Series(codes)):
        assert np.array_equal(fit_labels(labels, model="conditional").labels_, expected)
    table = pd.DataFrame(X, index=[f"r{row}" for row in range(len(X))])
    series = pd.Series(codes, index=table.index)[::-1]
    assert np.array_equal(fit_labels(series, X=table, model="conditional").labels_, expected)


def test_series_with_two_labels_of_a_row_is_refused() -> None:
    table = pd.DataFrame(blobs()[0]).rename(index="r{}".format)
    labels = pd.Series(["red", "blue", "red", "red"], index=["r7", "r7", "r8", "r8"])
    with pytest.raises(InputError, match="one label for each row") as caught:
        fit_labels(labels, X=table)
    assert str(caught.value).startswith("row_labels, row 1: found label 'blue' for 'r7', and 'red' in row 0")


def test_labels_by_names_that_repeat_are_refused() -> None:
    X, y = blobs()
    names = [f"r{row // 2}" for row in range(len(X))]
    for labels in ({"r0": "red"}, pd.Series(NAMES[y], index=names)):
        with pytest.raises(
            InputError, match=r"names of rows: found labels that repeat: .*row_labels name rows"
        ):
            fit_labels(labels, X=pd.DataFrame(X, index=names))
    assert fit_labels(NAMES[y], X=pd.DataFrame(X, index=names)).label_agreement_ > 0.8


def test_wrong_names_of_rows_are_reported_beside_labels() -> None:
    with pytest.raises(InputError, match="samples: found shape"):
        fit_labels({"a": "red"}, samples=["a", "b"])


def test_labels_stay_for_later_links_and_questions() -> None:
    X, y = blobs()
    estimator = fit_labels(some_labels(y))
    query = estimator.query(5)
    assert len(query.pairs) == 5
    kinds = y[query.positions[:, 0]] == y[query.positions[:, 1]]
    estimator.partial_fit(X, must_link=query.positions[kinds], cannot_link=query.positions[~kinds])
    assert (estimator.row_labels_ >= 0).any()
    assert sorted(estimator.cluster_names_) == sorted(NAMES)


def test_labels_and_links_work_together() -> None:
    X, y = blobs()
    pairs = np.random.default_rng(3).integers(0, len(X), (60, 2))
    same = y[pairs[:, 0]] == y[pairs[:, 1]]
    estimator = fit_labels(some_labels(y), must_link=pairs[same], cannot_link={"ann": pairs[~same]})
    assert set(estimator.annotator_accuracies_) == {"links", "ann"}
    assert set(estimator.annotator_estimates_) == {"links", "ann"}


def test_labels_of_one_class_leave_the_other_classes_to_the_features() -> None:
    X, y = blobs(spread=0.5)
    estimator = fit_labels(np.where(y == 1, some_labels(y, share=0.9, wrong=0.0), None), X=X)
    assert adjusted_rand(y, estimator.labels_) > 0.9
    assert "must-links, which any structure predicts" in estimator.notes_[0]


def test_number_of_clusters_is_at_least_that_of_names() -> None:
    X, y = blobs(60)
    assert fit_labels(some_labels(y), n_clusters=None, X=X, model="conditional").n_clusters_ >= 3


def test_fit_without_labels_has_no_names() -> None:
    estimator = fit_labels(None)
    assert estimator.row_labels_ is None
    assert estimator.cluster_names_.tolist() == [None] * 3
    assert np.isnan(estimator.label_agreement_)


@pytest.mark.parametrize("model", ["posterior", "likelihood", "conditional", "unsupervised"])
def test_every_model_takes_labels(model: str) -> None:
    X, y = blobs()
    estimator = AnnotatedClustering(3, model=model, accuracy=0.9, restarts=2, random_state=0)
    estimator.fit(X, row_labels=some_labels(y))
    assert adjusted_rand(y, estimator.labels_) > 0.5


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (np.full(120, -1), "no labels"),
        (np.arange(60), r"shape \(60,\)"),
        (np.arange(120) % 7, "7 distinct labels"),
        ({500: "a"}, "samples that X does not have"),
        (np.ma.masked_array(np.arange(120) % 2, np.arange(120) < 3), "masked"),
    ],
)
def test_wrong_labels_are_refused(labels: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        fit_labels(labels)


def test_accuracy_of_chance_is_refused() -> None:
    X, y = blobs()
    with pytest.raises(InputError, match="label_accuracy"):
        AnnotatedClustering(3, label_accuracy=0.3).fit(X, row_labels=y)


def test_naming_counts_by_name() -> None:
    labels = RowLabels.from_cells(["a", "a", "", "b", "b", "a", ""])
    # the last row has no label, and its cluster no name: that is no agreement
    naming = Naming.of(labels, np.array([1, 1, 0, 0, 1, 0, 2]), 3)
    assert naming.cluster_names == ["b", "a", None]
    assert naming.agreement == pytest.approx(3 / 5)
    assert naming.to_json(list("uvwxyz-"))["disagreeing"] == [
        {"index": "y", "label": "b"},
        {"index": "z", "label": "a"},
    ]


@pytest.mark.parametrize("n_clusters", [2, None])
def test_impossible_hard_links_are_named_whatever_k(n_clusters: int | None) -> None:
    X = np.random.default_rng(0).normal(size=(40, 2))
    pairs = [(i, j, np.inf) for i in range(3) for j in range(i)]
    must = [(0, 1, np.inf)] if n_clusters is None else None
    with pytest.raises(InputError, match="1 cannot! 0"):
        fit_labels(None, n_clusters=n_clusters, X=X, must_link=must, cannot_link=pairs)


MISSPELT = "labels of one row: 'gren'. Each counts as a class of its own: is it misspelt?"


def test_a_label_of_one_row_is_named_if_most_have_a_handful() -> None:
    labels = RowLabels.from_cells([*("red", "green") * 5, "gren", ""])
    assert list(label_notes(labels)) == [MISSPELT]
    assert list(label_notes(RowLabels.from_cells([*("red", "green") * 4, "gren", ""]))) == []
    assert list(label_notes(RowLabels.from_cells([*("red", "green") * 5]))) == []
    assert list(label_notes(None)) == []


@pytest.mark.filterwarnings("ignore:clusters of a handful of samples")
def test_an_estimator_warns_of_a_label_that_may_be_misspelt() -> None:
    labels = some_labels(blobs()[1])
    labels[np.flatnonzero(labels == "green")[0]] = "gren"
    with pytest.warns(AnnotatedClusteringWarning, match="labels of one row: 'gren'"):
        fit_labels(labels, n_clusters=4)


# The command.


def run(folder: Path, *arguments: str) -> Any:
    X, y = blobs()
    np.savetxt(folder / "x.csv", X, delimiter=",", fmt="%.6f")
    labels = some_labels(y)
    (folder / "rows.txt").write_text("".join(f"{name or ''}\n" for name in labels), encoding="utf-8")
    two = "".join(f"{row},{name}\n" for row, name in enumerate(labels) if name)
    (folder / "two.csv").write_text(f"row,label\n0,?\n{two}", encoding="utf-8")
    (folder / "hard.txt").write_text("1 2 must!\n1 2 cannot!\n", encoding="utf-8")
    return CliRunner().invoke(fit_command, [str(folder / "x.csv"), "--restarts", "2", *arguments])


def test_command_says_what_became_of_labels(tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    result = run(tmp_path, "-k", "3", "--row-labels", str(tmp_path / "rows.txt"), "--out", str(out))
    assert result.exit_code == 0
    assert "row labels " in result.stdout
    assert "are the name of their cluster" in result.stdout
    assert set(pd.read_csv(out)["name"]) == {*NAMES}


def test_both_forms_of_files_give_the_same_json(tmp_path: Path) -> None:
    documents = [
        json.loads(run(tmp_path, "-k", "3", "--row-labels", str(tmp_path / name), "--json").stdout)
        for name in ("rows.txt", "two.csv")
    ]
    assert documents[0]["labels"] == documents[1]["labels"]
    assert documents[0]["row_labels"]["names"] == documents[1]["row_labels"]["names"]
    assert sorted(documents[0]["row_labels"]["cluster_names"]) == sorted(NAMES)
    assert documents[1]["first_row"] == 0


def test_command_says_that_names_bound_the_number(tmp_path: Path) -> None:
    result = run(tmp_path, "--row-labels", str(tmp_path / "rows.txt"), "--model", "conditional")
    assert "there can be no fewer, as row labels have 3 names" in " ".join(result.stdout.split())


@pytest.mark.parametrize("command", [fit_command, ask])
def test_commands_name_a_label_that_may_be_misspelt(command: Command, tmp_path: Path) -> None:
    run(tmp_path, "--help")
    text = (tmp_path / "rows.txt").read_text()
    (tmp_path / "rows.txt").write_text(text.replace("green", "gren", 1))
    arguments = "-k", "4", "--restarts", "1", "--row-labels", str(tmp_path / "rows.txt")
    assert MISSPELT in CliRunner().invoke(command, [str(tmp_path / "x.csv"), *arguments]).stderr


def test_command_refuses_more_labels_than_clusters(tmp_path: Path) -> None:
    result = run(tmp_path, "-k", "2", "--row-labels", str(tmp_path / "rows.txt"), "--label-accuracy", "2")
    assert result.exit_code == 2
    assert "--label-accuracy" in result.stderr
    assert "3 distinct labels" in result.stderr


def test_command_names_impossible_hard_links_with_k_open(tmp_path: Path) -> None:
    result = run(tmp_path, "--annotations", str(tmp_path / "hard.txt"), "--first-row", "1")
    assert result.exit_code == 2
    assert "links that cannot hold together" in result.stderr
    assert "hard.txt, line" in result.stderr
    assert "expected links that a partition obeys" in result.stderr


@pytest.mark.parametrize(("accuracy", "n_problems"), [(0.49, 1), (0.5, 1), (0.51, 0)])
def test_labels_have_to_be_right_more_often_than_by_chance(accuracy: float, n_problems: int) -> None:
    labels = RowLabels.from_cells(["red", "blue", "red"])
    problems = label_problems("rows.txt", "--label-accuracy", labels, accuracy, 2, is_open=False)
    assert len(problems) == n_problems
