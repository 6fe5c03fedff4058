"""One trial: a command on damaged files, and what must hold whatever it meets."""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from fuzz.kinds import KINDS, Scene, Templates
from processes.commandline import sweep

from storage.runfolder import lease

SECONDS = 20.0
"""Of processors, and so the same on a busy machine."""

PATIENCE = 180.0
"""Seconds for whatever it waits for."""

MOST_BYTES = 2**30

lease.PATIENCE = 0.2
"""For a heartbeat of a holder of another machine, which never comes here."""


class TooSlow(BaseException):
    """A trial took longer than `SECONDS`; nothing that is tested handles it."""


@dataclass(frozen=True)
class Outcome:
    """What came of a trial: arguments of `sweep`, how it ended, and what did not hold."""

    kind: str
    seed: int
    command: list[str]
    code: int
    said: str
    wrong: str

    def __str__(self) -> str:
        alone = f"python -m tests.fuzz {self.kind} {self.seed}"
        return f"{self.wrong or self.said}\nalone: {alone}\ncommand: sweep {' '.join(self.command)}"


Ended = tuple[int, str, str]
"""Exit code, the end of what was printed, and what is wrong."""


def run_trial(
    kind: str, seed: int, templates: Templates, folder: Path, run: Callable[[list[str]], Ended] | None = None
) -> Outcome:
    """Damage files as the seed says, run the command, and look at what it did.

    The folder is made, and removed unless something is wrong; without `run` the command is run here.
    """
    scene = Scene(folder / "inputs", folder / "results")
    shutil.copytree(templates.finished.inputs, scene.inputs)
    command = [str(word) for word in KINDS[kind](random.Random(f"{kind} {seed}"), templates, scene)]
    before = _outside(folder)
    Path("/proc/self/clear_refs").write_text("5")  # forgets the peak of memory
    memory, code, said = _memory("VmRSS"), 1, ""
    empty = folder / "here"
    empty.mkdir()
    try:  # without the commands of a queue
        with chdir(empty), patch.dict(os.environ, PATH=str(empty)), _time_limit():
            code, said, wrong = (run or in_this_process)(command)
    except TooSlow:
        limits = f"{SECONDS:g} s of processors, or {PATIENCE:g} s in all"
        wrong = f"took longer than {limits}\n{traceback.format_exc(limit=-4)}"
    more = _memory("VmHWM") - memory
    if not wrong and more > MOST_BYTES:
        wrong = f"took {more:,} bytes of memory, expected at most {MOST_BYTES:,}"
    changed = {str(path) for path, _ in _outside(folder).items() ^ before.items()}
    if not wrong and changed:
        wrong = f"changed outside of the results: {', '.join(sorted(changed))}"
    if not wrong:
        shutil.rmtree(folder)
    return Outcome(kind, seed, command, code, said, wrong)


def in_this_process(command: list[str]) -> Ended:
    """Run a command with all that is loaded."""
    result = sweep(*command)
    error = None if isinstance(result.exception, SystemExit) else result.exception
    uncaught = "" if error is None else "".join(traceback.format_exception(error)[-6:])
    return result.exit_code, result.output[-1000:], uncaught or _wrong(result.exit_code, result.stderr)


def as_a_process(command: list[str], most: int) -> Ended:
    """Run a command as users do, with a limit of its address space in bytes."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        resource.setrlimit(resource.RLIMIT_CPU, (int(SECONDS), int(SECONDS)))

    try:
        done = subprocess.run(
            [sys.executable, "-m", "pipeline", *command],
            capture_output=True, text=True, errors="replace", timeout=PATIENCE, check=False, preexec_fn=limit,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise TooSlow from error
    return done.returncode, (done.stdout + done.stderr)[-1000:], _wrong(done.returncode, done.stderr)


def _wrong(code: int, stderr: str) -> str:
    if code not in range(4):
        return f"exit code {code}\n{stderr[-2000:]}"
    return f"a traceback on stderr:\n{stderr[-2000:]}" if "Traceback" in stderr else ""


def _outside(folder: Path) -> dict[Path, tuple[int, int]]:
    """Size and time of everything but the results."""
    found = [path for path in folder.rglob("*") if "results" not in path.relative_to(folder).parts[:1]]
    return {path: (path.lstat().st_size, path.lstat().st_mtime_ns) for path in found if not path.is_dir()}


def _memory(what: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(what))


@contextmanager
def _time_limit() -> Iterator[None]:
    """Raise `TooSlow` in the main thread; another timer that was running goes on after."""

    def late(*_: object) -> None:
        raise TooSlow

    handlers = {number: signal.signal(number, late) for number in (signal.SIGALRM, signal.SIGPROF)}
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    left, _ = signal.setitimer(signal.ITIMER_REAL, PATIENCE)
    begin = time.monotonic()
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, max(0.1, left - (time.monotonic() - begin)) if left else 0)
        for number, handler in handlers.items():
            signal.signal(number, handler)
