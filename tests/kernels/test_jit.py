"""How kernels are compiled and cached: fresh after an edit, by one process at a time, never in the way."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numba
import pytest

import kernels
from kernels.jit import jit

INNER = "from kernels.jit import jit\n\n@jit\ndef inner(x):\n    return x + {}\n"
OUTER = (
    "from kernels.inner import inner\nfrom kernels.jit import jit\n\n"
    "@jit\ndef outer(x):\n    return 10 * inner(x)\n"
)
CALL = "from kernels.outer import outer; print(outer(1), sum(outer.stats.cache_hits.values()))"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the package with a kernel that calls one of another module."""
    copy = tmp_path / "copy" / "kernels"
    shutil.copytree(Path(kernels.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    (copy / "inner.py").write_text(INNER.format(1))
    (copy / "outer.py").write_text(OUTER)
    return copy


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
    assert list(package.rglob("*.nb?")) == []


def test_unusable_directory_costs_a_warning(package: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = call(package, tmp_path / "file" / "cache")
    assert done.stdout.split()[0] == "20"
    assert "compiled kernels are not cached" in done.stderr
    assert list(package.rglob("*.nb?")) == []


@pytest.mark.parametrize("pattern", ["*.nbi", "*.nbc"])
@pytest.mark.parametrize("left", [0, 100])
def test_files_cut_short_are_compiled_again(package: Path, tmp_path: Path, pattern: str, left: int) -> None:
    """A power cut may leave such files."""
    cache = tmp_path / "cache"
    call(package, cache)
    (file,) = (path for path in cache.rglob(pattern) if "outer" in path.name)
    assert file.stat().st_size > left
    os.truncate(file, left)
    assert call(package, cache).stdout.split() == ["20", "0"]
    assert call(package, cache).stdout.split() == ["20", "1"]


FULL = """
import resource, shutil
import kernels.jit
from kernels.outer import outer
if {removed}:
    shutil.rmtree(kernels.jit.DIRECTORY)
    kernels.jit.DIRECTORY.parent.rmdir()
    kernels.jit.DIRECTORY.parent.write_text("")
else:
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
outer = kernels.jit.first_call_alone(outer)
print(outer(1), outer(1.5))
"""


@pytest.mark.parametrize("removed", [False, True])
def test_directory_that_cannot_be_written_any_more_costs_one_warning(
    package: Path, tmp_path: Path, removed: bool
) -> None:
    """A full disk shows when the first kernel is compiled, long after the directory was made."""
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


FIRST = """
import logging, sys
logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(name)s %(message)s")
from kernels.jit import first_call_alone
from kernels.outer import outer
if {}:
    def outer(x): raise KeyboardInterrupt
for _ in range(2):
    try:
        first_call_alone(outer)(1)
    except KeyboardInterrupt:
        pass
"""


def test_first_call_ever_says_that_it_compiles(package: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    (said,) = call(package, cache, FIRST.format(False)).stdout.splitlines()
    assert said.startswith("kernels.jit compiling the kernels")
    assert said.endswith(str(next(cache.iterdir())))
    assert call(package, cache, FIRST.format(False)).stdout == ""
    (package / "inner.py").write_text(INNER.format(3))
    assert len(call(package, cache, FIRST.format(False)).stdout.splitlines()) == 1


def test_interrupted_compilation_is_said_again(package: Path, tmp_path: Path) -> None:
    interrupted = FIRST.format(True)
    assert len(call(package, tmp_path / "cache", interrupted).stdout.splitlines()) == 2
    assert len(call(package, tmp_path / "cache", FIRST.format(False)).stdout.splitlines()) == 1
    assert call(package, tmp_path / "cache", FIRST.format(False)).stdout == ""


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


def test_others_functions_keep_their_cache_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(numba.core.config, "CACHE_DIR", str(tmp_path))
    double = jit(lambda x: 2 * x)
    assert str(tmp_path) == numba.core.config.CACHE_DIR
    assert double(4) == 8
    assert list(tmp_path.iterdir()) == []


def test_kernels_release_the_interpreter() -> None:
    from kernels.search.hgs import _search
    from kernels.search.local_search import local_search

    for kernel in (_search, local_search):
        assert kernel.targetoptions["nogil"]
        assert not kernel.targetoptions["fastmath"]
        assert not kernel.targetoptions["parallel"]
        assert kernel.targetoptions["error_model"] == "numpy"
