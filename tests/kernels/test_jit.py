"""Kernels are compiled with options from one place, and code of other libraries is not affected."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checkout import ROOT
from numba.core.codegen import JITCodeLibrary
from numba.core.datamodel import ArgPacker, default_manager

from sweep_clustering.kernels.jit import Pointer, jit, jit_inner, jit_part
from sweep_clustering.kernels.search.genetic import Search, run_search, warm_up
from sweep_clustering.kernels.search.local_search import local_search


def test_the_search_takes_pointers_and_lets_go_of_the_interpreter() -> None:
    """Tuples that are passed by value are some four hundred arguments of each function."""
    warm_up()
    ((search, *_),) = run_search.signatures
    assert [type(search), search.fields.instance_class] == [Pointer, Search]
    assert len(ArgPacker(default_manager, run_search.signatures[0]).argument_types) < 40
    # Names of kernels do not repeat the types of all fields, as they are parsed and hashed for each call.
    assert len(search.name) < 30
    assert Pointer(search.fields) == search
    options = {"nogil": True, "fastmath": False, "parallel": False, "error_model": "numpy"}
    assert all(kernel.targetoptions.items() >= options.items() for kernel in (run_search, local_search))


# Kernels that others call: translated once, with the kernel that Python calls, and for one signature.


@jit_part
def third(values: Any) -> Any:
    return values[2]


@jit_inner
def second(values: Any, add: Any) -> Any:
    if add < 0:
        raise ValueError("below 0")
    values[2] += add
    return third(values)


@jit_inner
def twice(values: Any) -> Any:
    return second(values, 1) + second(values, 2)


def test_what_python_calls_alone_becomes_machine_code(monkeypatch: pytest.MonkeyPatch) -> None:
    @jit
    def first(values: Any, add: Any) -> Any:
        return second(values, add) + twice(values) + third(values)

    translated: list[JITCodeLibrary] = []
    translate, values = JITCodeLibrary._finalize_specific, np.zeros(3)
    monkeypatch.setattr(
        JITCodeLibrary, "_finalize_specific", lambda library: translated.append(library) or translate(library)
    )
    assert first(values, 0) == (0 + 1 + 3) + 3
    assert list(values) == [0, 0, 3]
    with pytest.raises(ValueError, match="below 0"):
        first(values, -1)
    # numba's own runtime is compiled once in a process, with the first kernel.
    (name,) = {library.name for library in translated} - {"nrt"}
    assert "first" in name


START = """
from numba.core import event
from sweep_clustering.kernels.search.genetic import warm_up
with event.install_recorder("numba:compile") as recorder:
    warm_up()
kernels = [start.data["dispatcher"].py_func for _, start in recorder.buffer if start.is_start]
names = [f"{kernel.__module__}.{kernel.__qualname__}" for kernel in kernels]
print(*[name for name in names if name.startswith("sweep_clustering.kernels.")])
"""


@pytest.mark.heavy
def test_the_first_start_compiles_every_kernel_once_and_a_later_one_nothing(tmp_path: Path) -> None:
    """A literal, or an int16 beside an int64, would compile a kernel again with all that it calls."""
    environment = os.environ | {"SWEEP_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", START]
    first, later = (
        subprocess.run(command, cwd=ROOT, env=environment, stdout=-1, text=True, check=True) for _ in range(2)
    )
    kernels = Counter(name.removeprefix("sweep_clustering.kernels.") for name in first.stdout.split())
    assert kernels["search.genetic.run_search"] == kernels["partition.objective.evaluate"] == 1
    # It shuffles samples and clusters, whose integers differ.
    assert [name for name, count in kernels.items() if count > 1] == ["search.local_search.shuffle"]
    assert later.stdout == "\n"
