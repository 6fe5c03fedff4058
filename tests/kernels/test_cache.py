"""Machine code on disk: fresh after an edit, made by one process at a time, never in the way."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from solving.small_kernels import INNER, copy_of_kernels

import kernels

CALL = "from kernels.outer import outer; print(outer(1), sum(outer.stats.cache_hits.values()))"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the package with a kernel that calls one of another module."""
    return copy_of_kernels(tmp_path / "copy")


def environment(package: Path, cache: Path) -> dict[str, str]:
    return os.environ | {
        "PYTHONPATH": str(package.parent),
        "PYTHONDONTWRITEBYTECODE": "1",
        "SWEEP_CACHE_DIR": str(cache),
    }


def call(package: Path, cache: Path, code: str = CALL) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=package.parent,
        env=environment(package, cache),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done


def test_edited_callee_changes_the_result(package: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    assert call(package, cache).stdout.split() == ["20", "0"]
    assert call(package, cache).stdout.split() == ["20", "1"]
    (package / "inner.py").write_text(INNER.format(2))
    assert call(package, cache).stdout.split() == ["30", "0"]
    assert len(list(cache.iterdir())) == 2
    assert {path.stat().st_mode & 0o777 for path in [cache, *cache.iterdir()]} == {0o700}
    assert list(package.rglob("*.kernel")) == []


def test_unusable_folder_costs_a_warning(package: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = call(package, tmp_path / "file" / "cache")
    assert done.stdout.split()[0] == "20"
    assert "compiled kernels are kept for this run only" in done.stderr
    assert list(package.rglob("*.kernel")) == []


@pytest.mark.parametrize("left", [0, 100])
def test_files_cut_short_are_compiled_again(package: Path, tmp_path: Path, left: int) -> None:
    """A power cut may leave such files."""
    cache = tmp_path / "cache"
    call(package, cache)
    (file,) = (path for path in cache.rglob("*.kernel") if "outer" in path.name)
    assert file.stat().st_size > left
    os.truncate(file, left)
    assert call(package, cache).stdout.split() == ["20", "0"]
    assert call(package, cache).stdout.split() == ["20", "1"]


FULL = """
import resource, shutil
import kernels.jit
from kernels.outer import outer
if {removed}:
    shutil.rmtree(kernels.jit.FOLDER.path)
    kernels.jit.FOLDER.path.parent.rmdir()
    kernels.jit.FOLDER.path.parent.write_text("")
else:
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
print(outer(1), outer(1.5))
"""


@pytest.mark.parametrize("removed", [False, True])
def test_folder_that_cannot_be_written_any_more_costs_one_warning(
    package: Path, tmp_path: Path, removed: bool
) -> None:
    """A full disk shows when the first kernel is compiled, long after the folder was made."""
    done = call(package, tmp_path / "cache", FULL.format(removed=removed))
    assert done.stdout.split() == ["20", "25.0"]
    (said,) = done.stderr.splitlines()
    assert str(tmp_path / "cache" / "kernels-") in said
    assert "SWEEP_CACHE_DIR" in said


def test_processes_starting_at_once_share_one_empty_directory(package: Path, tmp_path: Path) -> None:
    started = [
        subprocess.Popen(
            [sys.executable, "-c", CALL],
            cwd=package.parent,
            env=environment(package, tmp_path / "cache"),
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    outputs = [process.communicate()[0].split()[0] for process in started]
    assert [process.returncode for process in started] == [0] * 4
    assert outputs == ["20"] * 4


TOLD = """
import logging, sys
logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(name)s %(message)s")
import kernels.cache
kernels.cache.SAY_AFTER, kernels.cache.WAIT_AT_MOST = {waits}
from kernels.outer import outer
if {interrupted}:
    def interrupt(*_): raise KeyboardInterrupt
    outer._compiler.compile = interrupt
for x in (1, 1.5):
    try:
        outer(x)
    except KeyboardInterrupt:
        pass
print("end", flush=True)
"""


def told(*, waits: tuple[float, float] = (60.0, 60.0), interrupted: bool = False) -> str:
    return TOLD.format(waits=waits, interrupted=interrupted)


def test_first_call_ever_says_that_it_compiles(package: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    said, _ = call(package, cache, told()).stdout.splitlines()
    assert said.startswith("kernels.cache compiling the kernels")
    assert said.endswith(str(next(cache.iterdir())))
    assert call(package, cache, told()).stdout == "end\n"
    (package / "inner.py").write_text(INNER.format(3))
    assert len(call(package, cache, told()).stdout.splitlines()) == 2


def test_interrupted_compilation_is_said_again(package: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    assert len(call(package, cache, told(interrupted=True)).stdout.splitlines()) == 2
    assert len(call(package, cache, told()).stdout.splitlines()) == 2
    assert call(package, cache, told()).stdout == "end\n"


THRESHOLDS = """
import gc
from numba.core import event
from kernels.outer import outer

class Thresholds(event.Listener):
    def on_start(self, happened): print(*gc.get_threshold())
    def on_end(self, happened): pass

event.register("numba:compile", Thresholds())
for x in (1, 1.5, "text"):
    try:
        outer(x)
    except Exception as error:
        print(type(error).__name__)
    print(*gc.get_threshold())
"""


def test_garbage_is_looked_for_less_often_while_it_compiles(package: Path, tmp_path: Path) -> None:
    """And as before when that ends, well or not."""
    code = "import gc; gc.set_threshold(600, 9, 8)" + THRESHOLDS
    lines = call(package, tmp_path / "cache", code).stdout.splitlines()
    rarely, usual = "50000 20 50", "600 9 8"
    # outer and inner, for each of the types.
    assert lines == [rarely, rarely, usual] * 2 + [rarely, rarely, "TypingError", usual]


HOLD = """
import fcntl, sys
import kernels.jit
file = open(kernels.jit.FOLDER.path / "lock", "wb")
fcntl.flock(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.readline()
"""


def start(package: Path, cache: Path, code: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=package.parent,
        env=environment(package, cache),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def test_what_is_there_is_loaded_while_another_process_compiles(package: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    call(package, cache, told())
    holder = start(package, cache, HOLD)
    try:
        assert first_line(holder) == "held\n"
        assert call(package, cache, told()).stdout == "end\n"
    finally:
        holder.communicate("\n")


def test_wait_for_another_process_is_said_and_has_an_end(package: Path, tmp_path: Path) -> None:
    """A process that was stopped while it compiles must not stop all others."""
    cache = tmp_path / "cache"
    holder = start(package, cache, HOLD)
    try:
        assert first_line(holder) == "held\n"
        compiling, waiting, tired, *_, end = call(package, cache, told(waits=(0.2, 0.5))).stdout.splitlines()
    finally:
        holder.communicate("\n")
    assert compiling.startswith("kernels.cache compiling the kernels")
    assert waiting.startswith("kernels.cache waiting for another process")
    assert tired.endswith("compiling them here too")
    assert end == "end"
    # What it compiled is there for others.
    assert call(package, cache, told()).stdout == "end\n"


def test_wait_ends_as_soon_as_the_code_is_there(package: Path, tmp_path: Path) -> None:
    """Though the lock is held on: those that wait load side by side, not in turn."""
    cache = tmp_path / "cache"
    holder = start(package, cache, HOLD)
    waiting = []
    try:
        assert first_line(holder) == "held\n"
        waiting = [start(package, cache, told(waits=(0.1, 60.0))) for _ in range(2)]
        for process in waiting:
            assert "compiling" in first_line(process)
            assert "waiting" in first_line(process)
        call(package, cache, told(waits=(60.0, 0.0)))
        began = time.monotonic()
        outputs = [process.communicate()[0] for process in waiting]
        assert time.monotonic() - began < 30
        assert outputs == ["end\n"] * 2
    finally:
        for process in (holder, *waiting):
            process.kill()
            process.communicate()


WARM = """
from kernels.search.hgs import _search, warm_up
warm_up()
print(sum(_search.stats.cache_misses.values()))
"""


@pytest.mark.heavy
def test_one_of_eight_processes_compiles_the_search(tmp_path: Path) -> None:
    package = Path(kernels.__file__).parent
    started = [
        subprocess.Popen(
            [sys.executable, "-c", WARM],
            env=environment(package, tmp_path / "cache"),
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(8)
    ]
    misses = [int(process.communicate()[0]) for process in started]
    assert [process.returncode for process in started] == [0] * 8
    assert sorted(misses) == [0] * 7 + [1]
