"""`sweep fit`: what it prints, and everything it says about bad input."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from solving.blobs import far_clusters

from kernels.problem.problem import Problem
from kernels.search.genetic import Restart, run_restart
from kernels.settings import SETTINGS, SearchSettings, Settings, settings_of
from pipeline.commands.fit import fit_command
from pipeline.fit.solve import fit
from sweeps.data.table import scale

Run = Callable[..., Result]


@pytest.fixture(scope="module")
def blobs() -> tuple[np.ndarray, np.ndarray]:
    return far_clusters()


@pytest.fixture
def files(tmp_path: Path, blobs: tuple[np.ndarray, np.ndarray]) -> Path:
    X, labels = blobs
    np.savetxt(tmp_path / "x.data", X, fmt="%.17g")
    np.savetxt(tmp_path / "y.label", labels + 1, fmt="%d")
    (tmp_path / "must.link").write_text("1 2 1\n11 12 1\n21 22 2\n5 5 2\n1 30 1\n")
    (tmp_path / "cannot.link").write_text("1 11 1\n11 21 0.5\n")
    return tmp_path


@pytest.fixture
def run(files: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the command in the folder of the files, with a small search unless told otherwise."""
    monkeypatch.chdir(files)

    def call(*arguments: str) -> Result:
        small = [] if "--restarts" in arguments else ["--restarts", "2"]
        return CliRunner().invoke(fit_command, [*arguments, "--generations", "1", *small])

    return call


def problems(result: Result) -> list[str]:
    """Lines on stderr below the first; nothing else may have happened."""
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    first, *lines = result.stderr.splitlines()
    assert first == f"{len(lines)} problem{'s' if len(lines) > 1 else ''}, nothing was started:"
    return [line.strip() for line in lines]


def test_command_prints_one_json_document(run: Run, blobs: tuple[np.ndarray, np.ndarray]) -> None:
    result = run(
        "x.data", "--labels", "y.label", "--must-link", "must.link", "--cannot-link", "cannot.link",
        "-k", "3", "--accuracy", "0.9", "--json",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    document = json.loads(result.stdout)
    assert document["model"] == "posterior"
    assert len(document["restart_objectives"]) == 2
    assert 0 < document["cpu_seconds"] < 2 * document["seconds"] + 0.1
    assert document["scores"]["nmi"] == pytest.approx(1)
    # the must-link of the first and the last sample is wrong, one annotation of 7.5
    assert document["scores"]["annotation_agreement"] == pytest.approx(6.5 / 7.5)


@pytest.mark.parametrize(
    ("arguments", "model", "note"),
    [
        ((), "unsupervised", ""),
        (("--must-link", "must.link"), "likelihood", ""),
        (("--cannot-link", "cannot.link", "--accuracy", "1"), "posterior", ""),
        (("--must-link", "must.link", "--model", "unsupervised"), "unsupervised",
         "note: the model 'unsupervised' does not see the links; they are only scored\n"),
        (("--must-link", "must.link", "--model", "likelihood", "--accuracy", ".9"), "likelihood",
         "note: --accuracy is not used by the model 'likelihood'\n"),
    ],
)  # fmt: skip
def test_model_is_the_most_that_is_known_allows(
    arguments: tuple[str, ...], model: str, note: str, run: Run
) -> None:
    result = run("x.data", "-k", "3", "--json", *arguments)
    document = json.loads(result.stdout)
    assert document["model"] == model
    assert (document["scores"]["annotation_agreement"] is None) == (not arguments)
    assert document["scores"]["nmi"] is None
    assert result.stderr == note


def test_formats_and_scaling_change_nothing_but_units(
    run: Run, files: Path, blobs: tuple[np.ndarray, np.ndarray]
) -> None:
    X, labels = blobs
    (files / "x.csv").write_text("a,b\n" + "".join(f"{a!r}, {b!r}\n" for a, b in X.tolist()))
    (files / "x.tsv").write_text("".join(f"{a!r}\t{b!r}\n" for a, b in X.tolist()))
    (files / "y.csv").write_text(",".join(map(str, labels)))
    np.savez(files / "x.npz", X=X, y=labels)
    names = ("x.data", "x.csv", "x.tsv", "x.npz")
    documents = [json.loads(run(name, "-k", "3", "--labels", "y.csv", "--json").stdout) for name in names]
    assert [document.pop("features") for document in documents] == [[], ["a", "b"], [], []]
    for document in documents:
        del document["seconds"], document["cpu_seconds"]
        assert document["index"] == list(range(1, len(X) + 1))
    assert documents[1:] == documents[:1] * 3
    assert json.loads(run("x.npz", "-k", "3", "--json").stdout)["scores"]["nmi"] == pytest.approx(1)
    scaled = json.loads(run("x.data", "-k", "3", "--scale", "standard", "--json").stdout)
    settings = Settings(generations=1)
    direct = fit(
        scale(X, "standard"), n_clusters=3, model="unsupervised", restarts=2, settings=settings, seed=0
    )
    assert sorted(scaled["covariances"]) == pytest.approx(sorted(direct.best.covariances))


def test_method_of_the_search_reaches_it(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def spy(problem: Problem, settings: SearchSettings, *rest: Any) -> Restart:
        seen.append(settings)
        return run_restart(problem, settings, *rest)

    monkeypatch.setattr("pipeline.fit.solve.run_restart", spy)
    sizes = {"population": 7, "offspring": 6, "generations": 1, "min_cluster_size": 4}
    chosen = Settings(
        **sizes, patience=3, crossover="labels", mutation=0.1, relocation="all", variance_prior=0.5
    )
    options = [text for each in SETTINGS for text in (each.option, str(getattr(chosen, each.name)))]
    assert run("x.data", "-k", "3", *options).exit_code == 0
    assert run("x.data", "-k", "3", "--method", "published").exit_code == 0
    assert run("x.data", "-k", "3").exit_code == 0
    assert seen[:2] == [chosen] * 2
    assert seen[2:4] == [Settings(generations=1)] * 2
    assert seen[4:] == [settings_of({"method": "strong", "generations": 1})] * 2


def test_the_search_is_named(run: Run) -> None:
    sizes = "population 5, 8 offspring, 1 generations, patience 4"
    assert f"\nsearch     strong: {sizes}\n" in run("x.data", "-k", "3").stdout
    sizes = "population 10, 10 offspring, 1 generations, patience 0"
    published = run("x.data", "-k", "3", "--method", "published")
    assert f"\nsearch     published: {sizes}\n" in published.stdout
    document = json.loads(run("x.data", "-k", "3", "--relocation", "all", "--patience", "2", "--json").stdout)
    assert document["method"] == "strong with relocation all"
    assert document["settings"] == vars(settings_of({"relocation": "all", "patience": 2, "generations": 1}))


def test_summary_for_people(run: Run) -> None:
    result = run("x.data", "--labels", "y.label", "--must-link", "must.link", "-k", "3")
    assert result.exit_code == 0
    assert "nats, model 'likelihood'" in result.stdout
    assert "sizes      10 10 10" in result.stdout
    assert "nmi 1" in result.stdout
    assert "2 as good" in result.stdout


def test_empty_links_and_contradictions_are_no_errors(run: Run, files: Path) -> None:
    (files / "empty.link").write_text("")
    plain = json.loads(run("x.data", "-k", "3", "--json").stdout)
    empty = json.loads(run("x.data", "-k", "3", "--must-link", "empty.link", "--json").stdout)
    assert empty["model"] == "likelihood"
    assert (empty["sbm"], empty["gmm"]) == (0, plain["gmm"])
    assert empty["scores"]["annotation_agreement"] is None
    both = run(
        "x.data",
        "-k",
        "3",
        "--must-link",
        "must.link",
        "--cannot-link",
        "must.link",
        "--accuracy",
        "0.7",
        "--json",
    )
    assert json.loads(both.stdout)["scores"]["annotation_agreement"] == 0.5


def test_variance_prior_and_cluster_size_reach_the_solver(run: Run) -> None:
    free = json.loads(run("x.data", "-k", "3", "--json").stdout)
    bounded = json.loads(run("x.data", "-k", "3", "--variance-prior", "5", "--json").stdout)
    assert min(bounded["covariances"]) > max(free["covariances"])
    many = json.loads(run("x.data", "-k", "5", "--min-cluster-size", "6", "--json").stdout)
    assert many["sizes"] == [6] * 5


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (("x.data", "-k", "31"), "-k: found 31 clusters for 30 distinct rows of x.data"),
        (("x.data", "-k", "16"), "-k: found 16 clusters of 2 or more for 30 samples"),
        (("x.data", "-k", "0"), "-k: found 0, expected 1 or more"),
        (
            ("x.data", "-k", "3", "--patience", "-1"),
            "--patience: found -1, expected a whole number, 0 or more",
        ),
        (("x.data", "-k", "3", "--mutation", "nan"), "--mutation: found nan, expected a probability"),
        (("x.data", "-k", "3", "--mutation", "1"), "--mutation: found 1.0, expected less than 1"),
        (
            ("x.data", "-k", "3", "--method", "published", "--crossover", "labels"),
            "--mutation: found 1.0 by the method published, expected less than 1",
        ),
        (("x.data", "-k", "3", "--method", "paper"), "--method: found 'paper', expected one of strong,"),
        (("x.data", "-k", "3", "--restarts", "0"), "--restarts: found 0, expected 1 or more"),
        (
            ("x.data", "-k", "3", "--accuracy", "0"),
            "--accuracy: found 0.0, expected a number above 0, at most 1",
        ),
        (("x.data", "-k", "3", "--accuracy", "1.01"), "--accuracy: found 1.01"),
        (("x.data", "-k", "3", "--accuracy", "nan"), "--accuracy: found nan"),
        (("x.data", "-k", "3", "--model", "posterior"), "--accuracy: found nothing"),
        (("x.data", "-k", "3", "--seed", "-1"), "--seed: found -1, expected 0 or more"),
        (("x.data", "-k", "3", "--min-cluster-size", "0"), "--min-cluster-size: found 0"),
        (("x.data", "-k", "3", "--variance-prior", "inf"), "--variance-prior: found inf"),
        (("absent.data", "-k", "3"), "absent.data: found No such file or directory"),
        ((".", "-k", "3"), ".: found Is a directory"),
        (("x.data", "-k", "3", "--labels", "absent"), "absent: found No such file or directory"),
        (("x.data", "-k", "3", "--must-link", "absent"), "absent: found No such file or directory"),
    ],
)
def test_bad_option_or_path(arguments: tuple[str, ...], found: str, run: Run) -> None:
    (problem,) = problems(run(*arguments))
    assert problem.startswith(found)


@pytest.mark.parametrize(
    ("option", "text", "found"),
    [
        ("--labels", "1\n2\n", "bad: found 2 labels, expected 30, one for each row of x.data"),
        ("--labels", "1\n" * 31, "bad: found 31 labels"),
        ("--must-link", "1 31 1", "bad, line 1: found sample 31, expected 1 to 30"),
        ("--cannot-link", "0 1 1", "bad, line 1: found sample 0"),
        ("--must-link", "1 2 0", "bad, line 1: found weight 0"),
        ("--must-link", "1 2 -1", "bad, line 1: found weight -1"),
        ("--cannot-link", "4 4 1", "bad, line 1: found weight 1 for the self pair of sample 4"),
        ("--cannot-link", "1 2 1\nto be or not", "bad, line 2: found 'to be or not'"),
    ],
)
def test_bad_labels_and_links(option: str, text: str, found: str, run: Run, files: Path) -> None:
    (files / "bad").write_text(text)
    (problem,) = problems(run("x.data", "-k", "3", option, "bad"))
    assert problem.startswith(found)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("1 2\n3\n4 5\n", "bad, line 2: found 1 cells, expected 2"),
        ("1 2\n3 nan\n", "bad, line 2, column 2: found 'nan'"),
        ("1 2\n-inf 4\n", "bad, line 2, column 1: found '-inf'"),
        ("1 2\n3 x\n", "bad, line 2, column 2: found 'x'"),
        ("1 2\n1 2\n", "bad: found 2 rows without any variance"),
        ("", "bad: found no rows"),
    ],
)
def test_bad_features(text: str, found: str, run: Run, files: Path) -> None:
    (files / "bad").write_text(text)
    (problem,) = problems(run("bad", "-k", "1"))
    assert problem.startswith(found)


def test_all_problems_of_all_files_at_once(run: Run, files: Path) -> None:
    (files / "bad.data").write_text("1 2\n3 nan\n5\n")
    (files / "bad.link").write_text("0 1 1\n1 2 0\njunk\n")
    found = problems(
        run("bad.data", "--labels", "absent.label", "--must-link", "bad.link", "-k", "0", "--accuracy", "2",
            "--restarts", "0")
    )  # fmt: skip
    assert [text.split(": found")[0] for text in found] == [
        "-k", "--restarts", "--accuracy", "bad.data, line 3", "bad.data, line 2, column 2", "absent.label",
        "bad.link, line 1", "bad.link, line 2", "bad.link, line 3",
    ]  # fmt: skip


def test_bad_usage_is_bad_input(run: Run) -> None:
    for arguments in [("x.data",), ("x.data", "-k", "three"), ("x.data", "-k", "3", "--model", "bayes")]:
        result = run(*arguments)
        assert result.exit_code == 2
        assert result.stdout == ""


def command(*arguments: str, cwd: Path, cache: Path | None = None) -> subprocess.CompletedProcess[str]:
    """`sweep` in a process of its own; its last line on stderr says whether numba was loaded."""
    script = (
        "import atexit, sys\n"
        "atexit.register(lambda: print('numba' in sys.modules, file=sys.stderr))\n"
        "from pipeline.commands.main import main\n"
        "main()\n"
    )
    environment = os.environ if cache is None else os.environ | {"SWEEP_CACHE_DIR": str(cache)}
    return subprocess.run(
        [sys.executable, "-c", script, *arguments],
        cwd=cwd,
        env=environment,
        capture_output=True,
        check=False,
        text=True,
    )


def test_process_gives_the_json_of_the_same_bits(files: Path, run: Run) -> None:
    arguments = ["x.data", "-k", "3", "--restarts", "2", "--generations", "1", "--json"]
    done = command("fit", *arguments, cwd=files)
    assert done.returncode == 0, done.stderr
    assert done.stderr.endswith("True\n")
    apart, here = json.loads(done.stdout), json.loads(run("x.data", "-k", "3", "--json").stdout)
    for document in (apart, here):
        del document["seconds"], document["cpu_seconds"]
    assert apart == here


@pytest.mark.heavy
def test_first_call_ever_says_that_it_compiles(files: Path, tmp_path: Path) -> None:
    arguments = ["fit", "x.data", "-k", "3", "--restarts", "1", "--json"]
    first, second = (command(*arguments, cwd=files, cache=tmp_path / "cache") for _ in range(2))
    assert first.stderr.startswith("compiling the kernels")
    assert second.stderr == "True\n"
    assert json.loads(first.stdout)["labels"] == json.loads(second.stdout)["labels"]


def test_bad_input_is_answered_without_loading_a_compiler(files: Path) -> None:
    done = command("fit", "x.data", "-k", "99", cwd=files)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert done.stderr.endswith("False\n")


@pytest.mark.parametrize(("method", "objective"), [("published", -7373.1052), ("strong", -7372.9728)])
def test_published_instance(method: str, objective: float, shared_data: Path) -> None:
    folder = shared_data / "reference-vertebral"
    paths = {
        name: str(folder / f"vertebral{name}") for name in (".data", ".label", "-must.link", "-cannot.link")
    }
    result = CliRunner().invoke(
        fit_command,
        [paths[".data"], "--labels", paths[".label"], "--must-link", paths["-must.link"],
         "--cannot-link", paths["-cannot.link"], "-k", "3", "--accuracy", "0.9", "--restarts", "2", "--json",
         "--method", method],
    )  # fmt: skip
    document = json.loads(result.stdout)
    assert document["objective"] == pytest.approx(objective, abs=1e-3)
    assert document["sizes"] == np.bincount(document["labels"]).tolist()


def test_confidence_is_summed_up(run: Run) -> None:
    plain, sure = run("x.data", "-k", "3"), run("x.data", "-k", "3", "--confidence")
    lines = [line for line in sure.stdout.splitlines() if line not in plain.stdout.splitlines()]
    assert lines[0] == "confidence 1.000 of the labels expected right, if the model is; 0 below 0.9"
    assert lines[1].startswith("chains     4 from 1 distinct restart, R-hat 1.000, agreement 1.000, ")
    assert set(json.loads(run("x.data", "-k", "3", "--confidence", "--json").stdout)["confidence"]) == {1}
