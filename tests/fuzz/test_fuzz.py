"""Whatever is done to an input, a command ends with an exit code and a message: thousands of damaged files.

A trial damages one good file as its seed says and runs a command on it. It must end within 20 seconds of a
processor with an exit code from 0 to 3, without an uncaught exception or a traceback on stderr; take no more
than 1 GiB; and change nothing outside of the results. `python -m tests.fuzz KIND SEED` runs one alone.
"""

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checkout import ROOT
from fuzz import trial
from fuzz.trial import KINDS, Templates, make_templates, run_trial

from sweep_clustering.sweeps.data.reading import READERS
from sweep_clustering.sweeps.errors import InputError, Problem

# Trials by default, and with `-m heavy`, of each kind.
SEEDS = {"sweep_file": (30, 4000), "cluster": (30, 3000), "text_table": (40, 3000), "npz_table": (40, 3000)}
SEEDS |= {"annotations": (30, 3000), "journal": (5, 1000), "cube": (4, 1000), "chunks": (12, 1000)}
SEEDS |= {"run_folder": (30, 1000)}

PROCESSES = 10  # so many of the heavy trials of each kind run as other processes


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Templates:
    return make_templates(tmp_path_factory.mktemp("templates"))


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_files_end_with_a_message(kind: str, templates: Templates, tmp_path: Path) -> None:
    outcomes = [run_trial(kind, seed, templates, tmp_path / str(seed)) for seed in range(SEEDS[kind][0])]
    assert [str(outcome) for outcome in outcomes if outcome.fault] == []
    assert {1, 2} & {outcome.code for outcome in outcomes}  # damage was met at all


@pytest.mark.heavy
@pytest.mark.timeout(4 * 3600)
@pytest.mark.parametrize("kind", SEEDS)
def test_damaged_files_by_the_thousand(kind: str, tmp_path: Path) -> None:
    # there are parts because a process that damages thousands of archives runs out of its memory
    parts = [(f"{start}:{start + 1000}", []) for start in range(0, SEEDS[kind][1], 1000)]
    for seeds, more in (*parts, (f"0:{PROCESSES}", ["--processes"])):
        command = [sys.executable, "-m", "tests.fuzz", kind, seeds, "--folder", str(tmp_path / seeds), *more]
        process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert process.returncode == 0, process.stdout + process.stderr


def end(how: object, message: str = "") -> None:
    sys.stderr.write(message)
    raise SystemExit(how) if isinstance(how, int) else InputError([Problem("a", str(how), "c")])


def run_endlessly(path: Path, *arguments: object) -> None:
    while True:
        pass


@pytest.mark.parametrize(
    ("bug", "message"),
    [
        (lambda path, *arguments: {}["planted"], "KeyError: 'planted'"),
        (lambda path, *arguments: time.sleep(60), "took longer than 20 s of processors, or 0.5 s in all"),
        (run_endlessly, "took longer than 0.5 s of processors, or 180 s in all"),
        (lambda *_: end(7), "exit code 7"),
        (lambda *_: end("b", "Traceback (most recent call last):\n"), "a traceback on stderr"),
        (lambda path, *_: end(path.with_name("more").touch()), "changed outside of the results: "),
        (lambda *_: end(np.ones(40_000_000).sum()), "bytes of memory, expected at most 200,000,000"),
    ],
)
def test_a_planted_bug_is_found(
    bug: Any, message: str, templates: Templates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial, "MOST_BYTES", 200_000_000)
    monkeypatch.setitem(READERS, ".npz", bug)
    monkeypatch.setattr(trial, "SECONDS", 0.5 if bug is run_endlessly else 20.0)
    monkeypatch.setattr(trial, "PATIENCE", 0.5 if "0.5 s in all" in message else 180.0)
    outcome = run_trial("npz_table", 3, templates, tmp_path / "trial")
    assert message in str(outcome)
    assert "alone: python -m tests.fuzz npz_table 3\ncommand: sweep fit " in str(outcome)
    assert (tmp_path / "trial").is_dir()
