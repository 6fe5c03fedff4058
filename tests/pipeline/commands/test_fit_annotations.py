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


def test_annotators_have_layers_of_their_own(run: Run, tmp_path: Path) -> None:
    # both annotators link the first class with the last: x log x of a sum is more than the sum
    both = ANNOTATIONS + "2 29 must 1 ann\n"
    (tmp_path / "apart").write_text(both)
    (tmp_path / "pooled").write_text(both.replace("bob", "ann"))
    apart = document(run("--annotations", "apart", "--json"))
    pooled = document(run("--annotations", "pooled", "--json"))
    assert apart["labels"] == pooled["labels"]
    assert apart["sbm"] < pooled["sbm"]


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
