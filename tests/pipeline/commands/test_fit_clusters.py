"""`sweep fit -k 2..4`: several numbers of clusters, and the fit of the one that is taken."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from solving.blobs import far_clusters

from pipeline.commands.fit import ask, fit_command
from sweeps.annotations.draw import draw_annotations

Run = Callable[..., Result]
CONDITIONAL = ("--annotations", "pairs.txt", "--model", "conditional", "--accuracy", "0.9")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the command in a folder with a table of three far clusters, and pairs."""
    X, labels = far_clusters()
    np.savetxt(tmp_path / "x.data", X, fmt="%.17g")
    drawn = draw_annotations(np.random.default_rng(4), labels, p=0.9, m=60)
    kinds = ("must", "cannot")
    lines = [f"{i + 1} {j + 1} {kinds[kind]} {1 + (i == j)} ann\n" for i, j, kind in drawn.tolist()]
    (tmp_path / "pairs.txt").write_text("".join(lines))
    monkeypatch.chdir(tmp_path)
    small = ("--generations", "1", "--restarts", "2")
    return lambda *arguments: CliRunner().invoke(fit_command, [*arguments, *small])


def document(result: Result) -> dict[str, Any]:
    """JSON on stdout, without times."""
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    del found["seconds"], found["cpu_seconds"]
    return found


@pytest.mark.parametrize(
    ("model", "criterion"),
    [
        (("--variance-prior", "1"), "BIC"),
        ((*CONDITIONAL, "--confidence"), "held-out annotations"),
        ((*CONDITIONAL, "--no-held-out"), "BIC"),
    ],
)
def test_the_fit_taken_is_that_of_its_number_bit_for_bit(
    model: tuple[str, ...], criterion: str, run: Run
) -> None:
    chosen = document(run("x.data", "-k", "2..4", "--json", "--out", "several.csv", *model))
    single = document(run("x.data", "-k", "3", "--json", "--out", "one.csv", *model))
    choice = chosen.pop("choice")
    for each in (chosen, single):
        each.pop("chain_seconds", None)
    assert chosen == single
    assert Path("several.csv").read_bytes() == Path("one.csv").read_bytes()
    assert choice["n_clusters"] == 3
    assert choice["criterion"] == criterion
    assert [each["n_clusters"] for each in choice["candidates"]] == [2, 3, 4]
    assert choice["candidates"][1]["objective"] == single["objective"]


def test_the_table_comes_first_and_the_figure_is_written(run: Run) -> None:
    result = run("x.data", "-k", "2,3", *CONDITIONAL, "--figure", "c.svg")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert [line[:3] for line in lines[1:3]] == ["  2", "* 3"]
    assert lines[3].startswith("clusters   3 by held-out annotations")
    assert lines[4].startswith("accuracy   told 0.9, estimated 0.")
    alone = run("x.data", "-k", "3", *CONDITIONAL).stdout.splitlines()
    untimed = [[line for line in each if line[:6] != "solver"] for each in (lines[5:-1], alone)]
    assert untimed[0][-len(untimed[1]) :] == untimed[1]
    assert lines[-1] == "figure     in c.svg"
    assert b"taken: K = 3" in Path("c.svg").read_bytes()
    again = run("x.data", "-k", "2,3", "--figure", "c.svg")
    assert again.exit_code == 2
    assert "--figure: found c.svg, which is there already" in again.stderr
    assert run("x.data", "-k", "2,3", "--figure", "c.svg", "--force").exit_code == 0


def test_questions_are_for_one_number(run: Run) -> None:
    result = CliRunner().invoke(ask, ["x.data", "-k", "2..4"])
    assert result.exit_code == 2
    assert "expected one number of clusters (sweep fit -k 2..4 chooses among several)" in result.stderr
    assert "'x' is not a valid integer" in CliRunner().invoke(ask, ["x.data", "-k", "x"]).stderr
