"""`sweep fit` with several annotators: what it prints, and everything it says about bad input."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from checkout import ROOT
from click.testing import CliRunner, Result
from solving.blobs import far_clusters

from pipeline.commands.fit import fit_command

Run = Callable[..., Result]
DOCUMENTATION = ROOT / "docs" / "guides" / "annotators.md"

ANNOTATIONS = """# i j kind weight annotator
1 2 must 1 ann
11,12,m,2,ann
21 22 + 1 ann
5 5 must 2 ann
1 11 cannot 1 ann

1 30 must 1 bob
1 21 - 3 bob
7 7 cannot 4 bob
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the command on far clusters in the folder of the files, with a small search."""
    X, _ = far_clusters()
    np.savetxt(tmp_path / "x.data", X, fmt="%.17g")
    (tmp_path / "a").write_text(ANNOTATIONS)
    (tmp_path / "must.link").write_text("1 2 1\n1 30 1\n")
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> Result:
        search = "-k", "3", "--restarts", "2", "--generations", "1"
        return CliRunner().invoke(fit_command, ["x.data", *search, *arguments])

    return call


def document(result: Result) -> dict:
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def problems(result: Result) -> list[str]:
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    first, *lines = result.stderr.splitlines()
    assert first == f"{len(lines)} problem{'s' if len(lines) > 1 else ''}, nothing was started:"
    return [line.strip() for line in lines]


def test_json_has_accuracies_and_contradictions(run: Run) -> None:
    found = document(run("--annotations", "a", "--json"))
    assert found["model"] == "likelihood"
    assert found["annotator_accuracies"] == {"ann": 1.0, "bob": 0.75}
    assert found["contradictions"] == [
        {"i": 1, "j": 30, "kind": "must", "weight": 1.0, "annotator": "bob", "file": "a", "line": 8},
        {"i": 7, "j": 7, "kind": "cannot", "weight": 4.0, "annotator": "bob", "file": "a", "line": 10},
    ]
    assert found["scores"]["annotation_agreement"] == pytest.approx(9 / 12)
    assert found["notes"] == []


def test_people_see_a_line_for_each_annotator(run: Run) -> None:
    lines = run("--annotations", "a").stdout.splitlines()
    assert "annotator  ann: accuracy 1.000, 0 of 6 annotations contradicted" in lines
    assert "annotator  bob: accuracy 0.750, 3 of 6 annotations contradicted" in lines
    place = lines.index("contradicted by the clusters")
    assert [line.strip() for line in lines[place + 1 : place + 3]] == [
        "a, line 8: 1 30 must 1 bob",
        "a, line 10: 7 7 cannot 4 bob",
    ]


def test_link_files_are_one_more_annotator(run: Run) -> None:
    found = document(run("--annotations", "a", "--must-link", "must.link", "--json"))
    assert list(found["annotator_accuracies"]) == ["links", "ann", "bob"]
    assert found["annotator_accuracies"]["links"] == 0.5
    assert found["contradictions"][0]["file"] == "must.link"
    alone = document(run("--must-link", "must.link", "--json"))
    assert alone["annotator_accuracies"] == {"links": 0.5}


def test_one_annotator_is_what_links_are(run: Run, tmp_path: Path) -> None:
    (tmp_path / "one").write_text("1 2 must 1 x\n1 30 must 1 x\n")
    (first, second) = (
        document(run(*given, "--accuracy", "0.8", "--json"))
        for given in (("--must-link", "must.link"), ("--annotations", "one"))
    )
    assert first["objective"] == second["objective"]
    assert first["labels"] == second["labels"]


def test_annotators_have_layers_of_their_own(run: Run, tmp_path: Path) -> None:
    # both annotators link the first class with the last: x log x of a sum is more than the sum
    both = ANNOTATIONS + "2 29 must 1 ann\n"
    (tmp_path / "apart").write_text(both)
    (tmp_path / "pooled").write_text(both.replace("bob", "ann"))
    apart = document(run("--annotations", "apart", "--json"))
    pooled = document(run("--annotations", "pooled", "--json"))
    assert apart["labels"] == pooled["labels"]
    assert apart["sbm"] < pooled["sbm"]


def test_accuracies_reach_their_annotators(run: Run) -> None:
    given = "--annotations", "a", "--json"
    both = document(run(*given, "--annotator-accuracy", "ann=0.9", "--annotator-accuracy", "bob=0.6"))
    assert both["model"] == "posterior"
    rest = document(run(*given, "--annotator-accuracy", "bob=0.6", "--accuracy", "0.9"))
    swapped = document(run(*given, "--annotator-accuracy", "ann=0.6", "--annotator-accuracy", "bob=0.9"))
    same = document(run(*given, "--accuracy", "0.9"))
    assert both["prior"] == rest["prior"]
    assert len({both["prior"], swapped["prior"], same["prior"]}) == 3


def test_model_without_accuracies_says_so(run: Run) -> None:
    result = run("--annotations", "a", "--annotator-accuracy", "ann=0.9", "--model", "likelihood", "--json")
    assert document(result)["model"] == "likelihood"
    assert result.stderr == "note: --annotator-accuracy is not used by the model 'likelihood'\n"
    result = run("--annotations", "a", "--model", "unsupervised", "--json")
    assert "does not see the links" in result.stderr
    assert document(result)["annotator_accuracies"]["ann"] == 1.0


def test_empty_file_is_no_error(run: Run, tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("# nothing yet\n")
    found = document(run("--annotations", "empty", "--json"))
    assert (found["model"], found["sbm"]) == ("likelihood", 0)
    assert (found["annotator_accuracies"], found["contradictions"]) == ({}, [])


@pytest.mark.parametrize(
    ("texts", "found"),
    [
        (["ann"], "--annotator-accuracy: found 'ann', expected NAME=p"),
        (["=0.5"], "--annotator-accuracy: found '=0.5', expected NAME=p"),
        (["ann="], "--annotator-accuracy ann: found '', expected a number above 0, at most 1"),
        (["ann=0"], "--annotator-accuracy ann: found '0'"),
        (["ann=1.5"], "--annotator-accuracy ann: found '1.5'"),
        (["ann=nan"], "--annotator-accuracy ann: found 'nan'"),
        (["ann=0.5", "ann=0.6"], "--annotator-accuracy ann: found a second accuracy"),
        (["anne=0.5"], "--annotator-accuracy: found annotator 'anne', expected one of ann, bob (did you"),
        (["ann=0.5"], "--annotator-accuracy: found nothing for annotator 'bob', expected a number above 0"),
    ],
)
def test_bad_accuracy_of_an_annotator(texts: list[str], found: str, run: Run) -> None:
    options = [part for text in texts for part in ("--annotator-accuracy", text)]
    said = problems(run("--annotations", "a", *options))
    assert any(problem.startswith(found) for problem in said), said


def test_accuracy_of_an_annotator_without_annotations(run: Run) -> None:
    (problem,) = problems(run("--annotator-accuracy", "ann=0.5"))
    assert problem.startswith("--annotator-accuracy: found annotator 'ann', expected no name")


def test_posterior_needs_an_accuracy(run: Run) -> None:
    (problem,) = problems(run("--annotations", "a", "--model", "posterior"))
    assert problem.startswith("--accuracy: found nothing")


def test_conditional_weighs_annotations_by_their_accuracy(run: Run, tmp_path: Path) -> None:
    given = "--annotations", "a", "--model", "conditional", "--json"
    unknown = document(run(*given))
    # bob is right with 3 of his 4 annotations, ann with all 5; self pairs do not count
    assert unknown["sbm"] == pytest.approx(3 * np.log(0.75) + np.log(0.25) + 5 * np.log(1), abs=1e-4)
    assert unknown["annotator_accuracies"] == {"ann": 1.0, "bob": 0.75}
    known = document(run(*given, "--annotator-accuracy", "bob=0.6", "--accuracy", "0.9"))
    assert known["sbm"] == pytest.approx(5 * np.log(0.9) + 3 * np.log(0.6) + np.log(0.4))
    (tmp_path / "six").write_text("1 2 must 1 ann 0.7\n1 21 cannot 2 ann\n1 30 must 1 bob 1e-1\n")
    of_lines = document(run("--annotations", "six", "--model", "conditional", "--accuracy", "0.8", "--json"))
    assert of_lines["sbm"] == pytest.approx(np.log(0.7) + 2 * np.log(0.8) + np.log(0.9))


def test_common_variance_is_one(run: Run) -> None:
    found = document(run("--covariance", "common", "--json"))
    assert (found["covariance"], len(set(found["covariances"]))) == ("common", 1)
    assert document(run("--json"))["covariance"] == "spherical"
    assert "common covariance" in run("--covariance", "common").stdout


def test_sixth_column_needs_a_model_with_a_place_for_it(run: Run, tmp_path: Path) -> None:
    (tmp_path / "six").write_text("1 2 must 1 ann\n1 3 must 1 ann 0.9\n1 4 must 1 bob 0.8\n")
    (problem,) = problems(run("--annotations", "six"))
    assert problem == (
        "six, line 2: found an accuracy in the sixth column, and 1 more such lines, expected none with the "
        "model 'likelihood' (--model conditional takes it)"
    )


def test_all_problems_of_all_files_at_once(run: Run, tmp_path: Path) -> None:
    (tmp_path / "bad").write_text("1 2 must 1 ann\n0 2 perhaps 1 ann\n")
    (tmp_path / "bad.link").write_text("1 31 1\n")
    found = problems(
        run("--annotations", "bad", "--cannot-link", "bad.link", "--annotator-accuracy", "x", "--seed", "-1")
    )
    assert [text.split(": found")[0] for text in found] == [
        "--seed", "--annotator-accuracy", "bad.link, line 1", "bad, line 2", "bad, line 2",
    ]  # fmt: skip


def test_unreadable_file(run: Run) -> None:
    (problem,) = problems(run("--annotations", "absent"))
    assert problem.startswith("absent: found No such file or directory")


def test_degenerate_clusters_are_said(run: Run, tmp_path: Path) -> None:
    X = np.concatenate([np.zeros((10, 2)), np.random.default_rng(0).normal(9, 1, size=(20, 2))])
    np.savetxt(tmp_path / "x.data", X)
    (note,) = document(run("--json"))["notes"]
    assert note.startswith("1 cluster is degenerate")
    assert f"note       {note}" in run().stdout.splitlines()


def test_examples_of_the_documentation_run(run: Run, tmp_path: Path) -> None:
    text = DOCUMENTATION.read_text(encoding="utf-8")
    (example,) = re.findall(r"^```text\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    (tmp_path / "pairs.txt").write_text(example, encoding="utf-8")
    (tmp_path / "x.data").rename(tmp_path / "table.csv")
    lines = re.findall(r"^\$ sweep fit (.*)$", text, flags=re.MULTILINE)
    assert lines
    for line in lines:
        result = CliRunner().invoke(fit_command, shlex.split(line))
        assert result.exit_code == 0, result.output
        assert "bob" in result.stdout


@pytest.mark.parametrize("covariance", ["diagonal", "tied", "full"])
def test_shapes_by_the_command(covariance: str, run: Run) -> None:
    found = document(run("--covariance", covariance, "--json"))
    assert found["covariance"] == covariance
    table = np.array(found["covariances"])
    assert table.ndim == {"diagonal": 2, "tied": 2, "full": 3}[covariance]
    assert f"{covariance} covariance" in run("--covariance", covariance).stdout


def test_held_out_annotations_are_scored(run: Run, tmp_path: Path) -> None:
    pairs = [(i, j) for i in range(1, 9) for j in range(12, 20)]
    lines = [f"{i} {j} {'must' if j < 16 else 'cannot'} 1 ann" for i, j in pairs]
    (tmp_path / "many").write_text("\n".join(lines) + "\n")
    given = "--annotations", "many", "--model", "conditional"
    found = document(run(*given, "--json"))
    assert list(found["held_out"]) == ["spherical"]
    assert 0 < found["held_out"]["spherical"]["share_right"] <= 1
    assert "of held-out annotations, log loss" in run(*given).stdout
    assert document(run(*given, "--no-held-out", "--json"))["held_out"] == {}
    chosen = document(run(*given, "--covariance", "auto", "--no-held-out", "--json"))
    assert list(chosen["held_out"]) == ["spherical", "diagonal", "tied", "full"]
    assert chosen["covariance"] in chosen["held_out"]
    assert document(run("--json"))["held_out"] == {}
