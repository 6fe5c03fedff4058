"""`sweep fit`: what it prints, and everything it says about bad input."""

from __future__ import annotations

import csv
import json
import os
import random
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from processes.pseudo import Pseudo
from solving.blobs import far_clusters

from kernels.problem.problem import Problem
from kernels.search.genetic import Restart, run_restart
from kernels.settings import SETTINGS, SearchSettings, Settings, settings_of
from pipeline.asking.strategies import NAMES
from pipeline.commands.fit import ask, fit_command
from pipeline.commands.main import main
from pipeline.fit.solve import fit
from sweeps.annotations.files import read_answers
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


# `sweep ask`: questions to a file and back, and a session in a pseudo-terminal that nothing can rob.

SMALL = "-k", "3", "--restarts", "1", "--generations", "1", "--names", "id", "--without", "class"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder of a table with names and classes, which is the working directory."""
    X, labels = far_clusters()
    lines = [f"r{n},{a!r},{b!r},{y}" for n, ((a, b), y) in enumerate(zip(X.tolist(), labels, strict=True))]
    (tmp_path / "x.csv").write_text("\n".join(["id,width,height,class", *lines]) + "\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run_of_ask(folder: Path) -> Run:
    def call(*arguments: str, typed: str = "") -> Result:
        return CliRunner().invoke(ask, ["x.csv", *SMALL, *arguments], input=typed)

    return call


def problems_of_ask(result: Result) -> list[str]:
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    first, *lines = result.stderr.splitlines()
    assert first == f"{len(lines)} problem{'s' if len(lines) > 1 else ''}, nothing was started:"
    return [line.strip() for line in lines]


def fill(path: Path) -> int:
    """Answer all questions of a file from the classes, every fifth one wrongly or not at all."""
    _, labels = far_clusters()
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    for number, row in enumerate(rows):
        together = labels[int(row["i"]) - 1] == labels[int(row["j"]) - 1]
        row["answer"] = "skip" if number % 5 == 4 else "yes" if together else "no"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)
    return len(rows)


@pytest.mark.parametrize("strategy", NAMES)
def test_questions_go_round(strategy: str, run_of_ask: Run, folder: Path) -> None:
    first = run_of_ask("-n", "10", "--strategy", strategy, "--out", "ask.csv")
    assert first.exit_code == 0, first.output
    assert fill(folder / "ask.csv") == 10
    second = run_of_ask("-n", "7", "--strategy", strategy, "--annotations", "ask.csv", "--out", "ask2.csv")
    assert second.exit_code == 0, second.output
    assert "answers    8: " in second.stdout
    assert "; 2 skipped" in second.stdout
    assert fill(folder / "ask2.csv") == 7
    third = run_of_ask("--json", "--annotations", "ask.csv", "--annotations", "ask2.csv", "--until", "0.5")
    document = json.loads(third.stdout)
    answered = {
        (row.first, row.second) for name in ("ask.csv", "ask2.csv") for row in read_answers(Path(name), 30)
    }
    asked = [(each["i"] - 1, each["j"] - 1) for each in document["questions"]]
    assert len(asked) == len(set(asked)) == 20
    assert not answered & set(asked)
    assert (document["model"], document["until"]["passed"]) == ("conditional", True)
    program, command, *arguments = document["fit"]
    assert (program, command) == ("sweep", "fit")
    done = CliRunner().invoke(fit_command, [*arguments, "--restarts", "2", "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["scores"]["annotation_agreement"] > 0.9


def test_commands_that_are_shown_can_be_typed(run_of_ask: Run, folder: Path) -> None:
    shown = run_of_ask("-n", "5", "--out", "ask.csv", "--scale", "standard").stdout
    commands = [
        text.replace("\\\n", "") for text in re.findall(r"^  sweep (?:.*\\\n)*.*$", shown, flags=re.MULTILINE)
    ]
    assert [shlex.split(text)[1] for text in commands] == ["ask", "fit"]
    fill(folder / "ask.csv")
    for text in commands:
        done = CliRunner().invoke(main, shlex.split(text)[1:])
        assert done.exit_code == 0, done.output
    assert (folder / "ask2.csv").is_file()
    assert "posterior and likelihood would take" in shown


def test_the_same_seed_asks_the_same(run_of_ask: Run) -> None:
    texts = [run_of_ask("-n", "5", "--seed", seed).stdout for seed in ("3", "3", "4")]
    assert texts[0] == texts[1] != texts[2]
    assert texts[0].startswith("i,j,together,information,settles,name_i,name_j,answer\n")


def test_kinds_of_files_mix(run_of_ask: Run, folder: Path) -> None:
    (folder / "lines").write_text("1 2 must 1 ann\n1 2 cannot 1 bob 0.7\n")
    (folder / "asked.csv").write_text("i,j,answer\n1,2,yes\n1,12,no\n1,12,yes\n")
    (folder / "empty").write_text("")
    (folder / "must").write_text("3 4\n")
    given = (
        "--annotations",
        "lines",
        "--annotations",
        "asked.csv",
        "--annotations",
        "empty",
        "--must-link",
        "must",
    )
    document = json.loads(run_of_ask(*given, "--json").stdout)
    assert document["answers"] == {"yes": 4, "no": 2, "skipped": 0}
    assert document["accuracy_given"] is False
    cold = json.loads(run_of_ask("--annotations", "empty", "--json").stdout)
    assert cold["answers"] == {"yes": 0, "no": 0, "skipped": 0}


def test_all_problems_of_all_files_at_once_of_ask(run_of_ask: Run, folder: Path) -> None:
    (folder / "asked.csv").write_text("i,j,answer\n1,0,yes\n1,2,maybe\n")
    (folder / "lines").write_text("1 2 perhaps 1 ann\n")
    given = "--annotations", "asked.csv", "--annotations", "lines", "--cannot-link", "absent"
    found = problems_of_ask(
        run_of_ask(*given, "--strategy", "anchor", "--covariance", "round", "--show", "widht", "-n", "0")
    )
    assert [text.split(": found")[0] for text in found] == [
        "--strategy", "-n", "--covariance", "x.csv, column left out", "absent", "asked.csv, line 2",
        "asked.csv, line 3", "lines, line 1",
    ]  # fmt: skip


def test_too_few_pairs_are_said(run_of_ask: Run, folder: Path) -> None:
    (folder / "x.csv").write_text("id,a,class\n" + "".join(f"r{n},{n * n},0\n" for n in range(6)))
    done = run_of_ask("-n", "50", "--out", "ask.csv")
    assert "15 questions, as no other pair is left" in done.stdout


def test_bad_input_is_answered_without_loading_a_compiler_of_ask(folder: Path) -> None:
    script = (
        "import atexit, sys\n"
        "atexit.register(lambda: print('numba' in sys.modules, file=sys.stderr))\n"
        "from pipeline.commands.main import main\n"
        "main()\n"
    )
    command = [sys.executable, "-c", script, "ask", "x.csv", "-k", "99", "--strategy", "none"]
    done = subprocess.run(command, cwd=folder, capture_output=True, check=False, text=True)
    assert done.returncode == 2
    assert done.stderr.endswith("False\n")


def test_keys_from_a_pipe(run_of_ask: Run, folder: Path) -> None:
    done = run_of_ask(
        "--interactive", "--annotations", "answers.csv", "-n", "2", typed="y\nno\nu\nskip\nyes\nq\n"
    )
    assert done.exit_code == 0, done.output
    assert len(read_answers(folder / "answers.csv", 30)) == 3
    assert "3 answers and skips of this session are in answers.csv" in done.stdout
    again = run_of_ask("--interactive", "--annotations", "answers.csv", typed="")
    assert "question 1, 2 answers so far" in again.stdout


SESSION = "ask", "x.csv", *SMALL, "--interactive", "--annotations", "answers.csv", "--strategy", "uniform"
SPHERICAL = "--covariance", "spherical", "-n", "4"


def session(folder: Path) -> Pseudo:
    return Pseudo(*SESSION, *SPHERICAL, folder=folder)


def answer(terminal: Pseudo, key: str, then: str) -> None:
    """Press a key, and wait until what follows is on the screen whole."""
    terminal.type(key)
    terminal.wait_for(then)
    terminal.wait_for_end("[q]uit")


def rows(folder: Path) -> int:
    path = folder / "answers.csv"
    return len(read_answers(path, 30)) if path.exists() else 0


def test_keys_need_no_enter_and_screens_fit(folder: Path) -> None:
    terminal = session(folder)
    terminal.wait_for("[q]uit")
    answer(terminal, "y", "question 2,")
    answer(terminal, "n", "question 3,")
    answer(terminal, "s", "question 4,")
    answer(terminal, "u", "taken back: ")
    answer(terminal, "?", "no such key: ")
    terminal.type("q")
    assert terminal.ended() == 0
    assert rows(folder) == 2
    for screen in terminal.screens()[1:-1]:
        assert len(screen) <= 24
        assert max(map(len, screen)) <= 80
    (first,) = [line for line in terminal.screens()[1] if line.startswith("width")]
    assert len(first.split()) == 3


def test_ctrl_c_ends_as_everywhere(folder: Path) -> None:
    terminal = session(folder)
    terminal.wait_for("[q]uit")
    answer(terminal, "y", "question 2,")
    answer(terminal, "n", "question 3,")
    terminal.type("\x03")
    assert terminal.ended() == 130
    assert rows(folder) == 2
    assert "2 answers and skips of this session" in terminal.output
    assert "Traceback" not in terminal.output


@pytest.mark.parametrize(("told", "codes"), [(signal.SIG_DFL, (0, -signal.SIGHUP)), (signal.SIG_IGN, (0,))])
def test_a_closed_terminal_loses_nothing(folder: Path, told: signal.Handlers, codes: tuple[int, ...]) -> None:
    """Also where the signal of it is ignored, as under nohup."""
    before = signal.signal(signal.SIGHUP, told)
    try:
        terminal = session(folder)
    finally:
        signal.signal(signal.SIGHUP, before)
    terminal.wait_for("[q]uit")
    for number, key in enumerate("yns", start=2):
        answer(terminal, key, f"question {number},")
    assert terminal.close() in codes
    assert rows(folder) == 3


def killed_again_and_again(folder: Path, times: int) -> None:
    """Kill sessions at random moments: what was said to be saved is in the file, and every row is whole."""
    rng = random.Random(0)
    before = 0
    for _ in range(times):
        terminal = session(folder)
        terminal.wait_for("[q]uit")
        answered = rng.randrange(6)
        for number in range(answered):
            answer(terminal, rng.choice("yns"), f"question {number + 2},")
        terminal.type(rng.choice("yns"))
        time.sleep(rng.uniform(0.0, 0.02))
        terminal.kill()
        terminal.ended()
        after = rows(folder)
        assert answered <= after - before <= answered + 1
        before = after
    assert before > 0


def test_killed_sessions_lose_no_answer(folder: Path) -> None:
    killed_again_and_again(folder, 3)


@pytest.mark.heavy
def test_many_killed_sessions_lose_no_answer(folder: Path) -> None:
    killed_again_and_again(folder, 60)


def test_a_failing_disk_ends_the_session(
    run_of_ask: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(handle: int) -> None:
        raise OSError(28, "No space left on device")

    (folder / "answers.csv").write_text("i,j,annotator,answer\n")
    monkeypatch.setattr("os.fsync", fail)
    done = run_of_ask("--interactive", "--annotations", "answers.csv", typed="y\n")
    assert done.exit_code == 1
    assert "No space left on device" in done.stderr
    assert rows(folder) == 0


def test_a_second_session_is_refused(run_of_ask: Run, folder: Path) -> None:
    terminal = session(folder)
    terminal.wait_for("[q]uit")
    done = run_of_ask("--interactive", "--annotations", "answers.csv")
    assert (done.exit_code, done.stderr) == (1, "answers.csv is open in another session\n")
    terminal.type("q")
    assert terminal.ended() == 0
