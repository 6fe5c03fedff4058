"""`sweep ask`: questions to a file and back, and a session in a pseudo-terminal that nothing can rob."""

from __future__ import annotations

import csv
import json
import random
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from processes.pseudo import Pseudo
from solving.blobs import far_clusters

from pipeline.asking.strategies import NAMES
from pipeline.commands.ask import ask
from pipeline.commands.fit import fit_command
from pipeline.commands.main import main
from sweeps.annotations.files import read_answers

Run = Callable[..., Result]
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
def run(folder: Path) -> Run:
    def call(*arguments: str, typed: str = "") -> Result:
        return CliRunner().invoke(ask, ["x.csv", *SMALL, *arguments], input=typed)

    return call


def problems(result: Result) -> list[str]:
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
def test_questions_go_round(strategy: str, run: Run, folder: Path) -> None:
    first = run("-n", "10", "--strategy", strategy, "--out", "ask.csv")
    assert first.exit_code == 0, first.output
    assert fill(folder / "ask.csv") == 10
    second = run("-n", "7", "--strategy", strategy, "--annotations", "ask.csv", "--out", "ask2.csv")
    assert second.exit_code == 0, second.output
    assert "answers    8: " in second.stdout
    assert "; 2 skipped" in second.stdout
    assert fill(folder / "ask2.csv") == 7
    third = run("--json", "--annotations", "ask.csv", "--annotations", "ask2.csv", "--until", "0.5")
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


def test_commands_that_are_shown_can_be_typed(run: Run, folder: Path) -> None:
    shown = run("-n", "5", "--out", "ask.csv", "--scale", "standard").stdout
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


def test_the_same_seed_asks_the_same(run: Run) -> None:
    texts = [run("-n", "5", "--seed", seed).stdout for seed in ("3", "3", "4")]
    assert texts[0] == texts[1] != texts[2]
    assert texts[0].startswith("i,j,together,information,settles,name_i,name_j,answer\n")


def test_kinds_of_files_mix(run: Run, folder: Path) -> None:
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
    document = json.loads(run(*given, "--json").stdout)
    assert document["answers"] == {"yes": 4, "no": 2, "skipped": 0}
    assert document["accuracy_given"] is False
    cold = json.loads(run("--annotations", "empty", "--json").stdout)
    assert cold["answers"] == {"yes": 0, "no": 0, "skipped": 0}


def test_all_problems_of_all_files_at_once(run: Run, folder: Path) -> None:
    (folder / "asked.csv").write_text("i,j,answer\n1,0,yes\n1,2,maybe\n")
    (folder / "lines").write_text("1 2 perhaps 1 ann\n")
    given = "--annotations", "asked.csv", "--annotations", "lines", "--cannot-link", "absent"
    found = problems(
        run(*given, "--strategy", "anchor", "--covariance", "round", "--show", "widht", "-n", "0")
    )
    assert [text.split(": found")[0] for text in found] == [
        "--strategy", "-n", "--covariance", "x.csv, column left out", "absent", "asked.csv, line 2",
        "asked.csv, line 3", "lines, line 1",
    ]  # fmt: skip


def test_too_few_pairs_are_said(run: Run, folder: Path) -> None:
    (folder / "x.csv").write_text("id,a,class\n" + "".join(f"r{n},{n * n},0\n" for n in range(6)))
    done = run("-n", "50", "--out", "ask.csv")
    assert "15 questions, as no other pair is left" in done.stdout


def test_bad_input_is_answered_without_loading_a_compiler(folder: Path) -> None:
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


def test_keys_from_a_pipe(run: Run, folder: Path) -> None:
    done = run("--interactive", "--annotations", "answers.csv", "-n", "2", typed="y\nno\nu\nskip\nyes\nq\n")
    assert done.exit_code == 0, done.output
    assert len(read_answers(folder / "answers.csv", 30)) == 3
    assert "3 answers and skips of this session are in answers.csv" in done.stdout
    again = run("--interactive", "--annotations", "answers.csv", typed="")
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


def test_a_failing_disk_ends_the_session(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(handle: int) -> None:
        raise OSError(28, "No space left on device")

    (folder / "answers.csv").write_text("i,j,annotator,answer\n")
    monkeypatch.setattr("os.fsync", fail)
    done = run("--interactive", "--annotations", "answers.csv", typed="y\n")
    assert done.exit_code == 1
    assert "No space left on device" in done.stderr
    assert rows(folder) == 0


def test_a_second_session_is_refused(run: Run, folder: Path) -> None:
    terminal = session(folder)
    terminal.wait_for("[q]uit")
    done = run("--interactive", "--annotations", "answers.csv")
    assert (done.exit_code, done.stderr) == (1, "answers.csv is open in another session\n")
    terminal.type("q")
    assert terminal.ended() == 0
