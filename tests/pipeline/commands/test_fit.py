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
from pipeline.commands.fit import ask, fit_command
from pipeline.commands.main import main
from sweeps.annotations.files import read_answers

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
def run_ask(folder: Path) -> Run:
    def call(*arguments: str, typed: str = "") -> Result:
        return CliRunner().invoke(ask, ["x.csv", *SMALL, *arguments], input=typed)

    return call


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


@pytest.mark.parametrize("strategy", ["information", "again"])
def test_questions_go_round(strategy: str, run_ask: Run, folder: Path) -> None:
    first = run_ask("-n", "10", "--strategy", strategy, "--out", "ask.csv")
    assert first.exit_code == 0, first.output
    assert fill(folder / "ask.csv") == 10
    second = run_ask("-n", "7", "--strategy", strategy, "--annotations", "ask.csv", "--out", "ask2.csv")
    assert second.exit_code == 0, second.output
    assert "answers    8: " in second.stdout
    assert "; 2 skipped" in second.stdout
    assert fill(folder / "ask2.csv") == 7
    third = run_ask("--json", "--annotations", "ask.csv", "--annotations", "ask2.csv", "--until", "0.5")
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


def test_commands_that_are_shown_can_be_typed(run_ask: Run, folder: Path) -> None:
    shown = run_ask("-n", "5", "--out", "ask.csv", "--scale", "standard").stdout
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


def test_bad_input_is_answered_without_loading_a_compiler_by_ask(folder: Path) -> None:
    done = command("ask", "x.csv", "-k", "99", "--strategy", "none", cwd=folder)
    assert done.returncode == 2
    assert done.stderr.endswith("False\n")


def test_keys_from_a_pipe(run_ask: Run, folder: Path) -> None:
    done = run_ask(
        "--interactive", "--annotations", "answers.csv", "-n", "2", typed="y\nno\nu\nskip\nyes\nq\n"
    )
    assert done.exit_code == 0, done.output
    assert len(read_answers(folder / "answers.csv", 30)) == 3
    assert "3 answers and skips of this session are in answers.csv" in done.stdout
    again = run_ask("--interactive", "--annotations", "answers.csv", typed="")
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


def test_a_failing_disk_ends_the_session(run_ask: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(handle: int) -> None:
        raise OSError(28, "No space left on device")

    (folder / "answers.csv").write_text("i,j,annotator,answer\n")
    monkeypatch.setattr("os.fsync", fail)
    done = run_ask("--interactive", "--annotations", "answers.csv", typed="y\n")
    assert done.exit_code == 1
    assert "No space left on device" in done.stderr
    assert rows(folder) == 0


def test_a_second_session_is_refused(run_ask: Run, folder: Path) -> None:
    terminal = session(folder)
    terminal.wait_for("[q]uit")
    done = run_ask("--interactive", "--annotations", "answers.csv")
    assert (done.exit_code, done.stderr) == (1, "answers.csv is open in another session\n")
    terminal.type("q")
    assert terminal.ended() == 0
