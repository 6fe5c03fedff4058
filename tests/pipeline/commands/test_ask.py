"""`sweep ask`: questions to a file and back, and a session in a pseudo-terminal that nothing can rob."""

from __future__ import annotations

import json
import random
import re
import shlex
import signal
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from processes.commandline import sweep
from processes.pseudo import Pseudo
from solving.blobs import far_clusters

from pipeline.commands.main import main
from sweeps.annotations.files import read_answers

SMALL = "-k", "3", "--restarts", "1", "--generations", "1", "--names", "id", "--without", "class"
SESSION = "ask", "x.csv", *SMALL, "--interactive", "--annotations", "answers.csv"
TERMINAL = *SESSION, "--strategy", "uniform", "--covariance", "spherical", "-n", "4"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder of a table with names and classes, which is the working directory."""
    X, labels = far_clusters()
    lines = [f"r{n},{a!r},{b!r},{y}" for n, ((a, b), y) in enumerate(zip(X.tolist(), labels, strict=True))]
    (tmp_path / "x.csv").write_text("\n".join(["id,width,height,class", *lines]) + "\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def ask(*arguments: str) -> Result:
    """Questions to a file, which end well."""
    done = sweep("ask", "x.csv", *SMALL, *arguments)
    assert done.exit_code == 0, done.output
    return done


def keys(typed: str, *arguments: str) -> Result:
    """A session whose keys come from a pipe."""
    return CliRunner().invoke(main, [*SESSION, *arguments], input=typed)


def fill(path: str) -> int:
    """Answer all questions of a file from the classes, every fifth one not at all."""
    _, labels = far_clusters()
    header, *rows = Path(path).read_text().splitlines()
    for number, row in enumerate(rows):
        i, j = (int(cell) - 1 for cell in row.split(",")[:2])
        rows[number] += "skip" if number % 5 == 4 else "yes" if labels[i] == labels[j] else "no"
    Path(path).write_text("\n".join([header, *rows, ""]))
    return len(rows)


def saved() -> int:
    """Answers in the file of a session."""
    path = Path("answers.csv")
    return len(read_answers(path, 30)) if path.exists() else 0


@pytest.mark.parametrize("strategy", ["information", "again"])
def test_questions_go_round_and_commands_that_are_shown_can_be_typed(strategy: str) -> None:
    ask("-n", "10", "--strategy", strategy, "--out", "ask.csv")
    assert fill("ask.csv") == 10
    second = ask("-n", "7", "--strategy", strategy, "--annotations", "ask.csv", "--out", "ask2.csv").stdout
    assert "answers    8: " in second
    assert "posterior and likelihood would take" in second
    assert fill("ask2.csv") == 7
    shown = re.findall(r"^  sweep ((?:.*\\\n)*.*)$", second, flags=re.MULTILINE)
    again, fit = [shlex.split(text.replace("\\\n", "")) for text in shown]
    for words in (again, fit):
        done = sweep(*words)
        assert done.exit_code == 0, done.output
    assert (again[0], Path("ask3.csv").is_file()) == ("ask", True)
    third = ask(
        "--json",
        "--columns",
        "width,height",
        "--annotations",
        "ask.csv",
        "--annotations",
        "ask2.csv",
        "--until",
        "0.5",
    )
    document = json.loads(third.stdout)
    files = (read_answers(Path(name), 30) for name in ("ask.csv", "ask2.csv"))
    answered = {(row.first, row.second) for rows in files for row in rows}
    asked = [(each["i"] - 1, each["j"] - 1) for each in document["questions"]]
    assert len(asked) == len(set(asked)) == 20
    assert not answered & set(asked)
    assert (document["model"], document["until"]["passed"]) == ("conditional", True)
    program, *words = document["fit"]
    done = sweep(*words, "--restarts", "2", "--json")
    assert (program, done.exit_code) == ("sweep", 0), done.output
    assert json.loads(done.stdout)["scores"]["annotation_agreement"] > 0.9


def test_keys_from_a_pipe_and_a_failing_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    done = keys("y\nno\nu\nskip\nyes\nq\n", "-n", "2")
    assert (done.exit_code, saved()) == (0, 3), done.output
    assert "3 answers and skips of this session are in answers.csv" in done.stdout

    def fail(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", fail)
    done = keys("y\n")
    assert (done.exit_code, saved()) == (1, 3)
    assert "No space left on device" in done.stderr


# In a terminal.


def session(folder: Path) -> Pseudo:
    terminal = Pseudo(*TERMINAL, folder=folder)
    terminal.wait_for("[q]uit")
    return terminal


def answer(terminal: Pseudo, key: str, then: str) -> None:
    """Press a key, and wait until what follows is on the screen whole."""
    terminal.type(key)
    terminal.wait_for(then)
    terminal.wait_for_end("[q]uit")


def test_keys_need_no_enter_screens_fit_and_ctrl_c_ends_as_everywhere(folder: Path) -> None:
    terminal = session(folder)
    steps = {
        "y": "question 2,",
        "n": "question 3,",
        "s": "question 4,",
        "u": "taken back: ",
        "?": "no such key",
    }
    for key, then in steps.items():
        answer(terminal, key, then)
    second = keys("")
    assert (second.exit_code, second.stderr[-39:]) == (1, "answers.csv is open in another session\n")
    terminal.type("\x03")
    assert (terminal.ended(), saved()) == (130, 2)
    assert "2 answers and skips of this session" in terminal.output
    assert "Traceback" not in terminal.output
    for screen in terminal.screens()[1:-1]:
        assert len(screen) <= 24
        assert max(map(len, screen)) <= 80
    (first,) = [line for line in terminal.screens()[1] if line.startswith("width")]
    assert len(first.split()) == 3


@pytest.mark.parametrize(("told", "codes"), [(signal.SIG_DFL, (0, -signal.SIGHUP)), (signal.SIG_IGN, (0,))])
def test_a_closed_terminal_loses_nothing(folder: Path, told: signal.Handlers, codes: tuple[int, ...]) -> None:
    """Also where the signal of it is ignored, as under nohup."""
    before = signal.signal(signal.SIGHUP, told)
    try:
        terminal = session(folder)
    finally:
        signal.signal(signal.SIGHUP, before)
    for number, key in enumerate("yns", start=2):
        answer(terminal, key, f"question {number},")
    assert terminal.close() in codes
    assert saved() == 3


@pytest.mark.parametrize("times", [2, pytest.param(60, marks=pytest.mark.heavy)])
def test_killed_sessions_lose_no_answer(folder: Path, times: int) -> None:
    """Killed at random moments: what was said to be saved is in the file, and every row is whole."""
    rng, before = random.Random(0), 0
    for _ in range(times):
        terminal = session(folder)
        answered = rng.randrange(1, 6)
        for number in range(answered):
            answer(terminal, rng.choice("yns"), f"question {number + 2},")
        terminal.type(rng.choice("yns"))
        time.sleep(rng.uniform(0.0, 0.02))
        terminal.kill()
        terminal.ended()
        after = saved()
        assert answered <= after - before <= answered + 1
        before = after
