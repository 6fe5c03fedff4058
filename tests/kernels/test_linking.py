"""Kernels that others call: translated once, with the kernel that Python calls, and for one signature."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numba
import numpy as np
import pytest
from numba.core.codegen import JITCodeLibrary
from numba.core.errors import NumbaError
from solving.starts import start

from kernels.jit import jit, jit_inner, jit_part
from kernels.linking import InnerCompiler


@jit_part
def third(values):  # type: ignore[no-untyped-def]
    return values[2]


@jit_inner
def second(values, add):  # type: ignore[no-untyped-def]
    if add < 0:
        raise ValueError("below 0")
    values[2] += add
    return third(values)


@jit_inner
def twice(values):  # type: ignore[no-untyped-def]
    return second(values, 1) + second(values, 2)


@pytest.fixture
def translated(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the functions that become machine code."""
    names: list[str] = []
    translate: Callable[[JITCodeLibrary], None] = JITCodeLibrary._finalize_specific

    def note(library: JITCodeLibrary) -> None:
        names.append(library.name)
        translate(library)

    monkeypatch.setattr(JITCodeLibrary, "_finalize_specific", note)
    return names


def test_what_python_calls_alone_becomes_machine_code(translated: list[str]) -> None:
    @jit
    def first(values):  # type: ignore[no-untyped-def]
        return twice(values) + third(values)

    values = np.zeros(3)
    assert first(values) == (1 + 3) + 3
    assert list(values) == [0, 0, 3]
    # numba's own runtime is compiled once in a process, with the first kernel.
    (name,) = set(translated) - {"nrt"}
    assert "first" in name


def test_an_inner_kernel_may_raise() -> None:
    @jit
    def calling(values, add):  # type: ignore[no-untyped-def]
        return second(values, add)

    assert calling(np.zeros(3), 4) == 4
    with pytest.raises(ValueError, match="below 0"):
        calling(np.zeros(3), -1)


def test_kernels_of_the_same_options_share_them() -> None:
    """numba looks up its own functions by the options of the caller: by value, that is slow."""
    calling: list[object] = []

    class Noting(InnerCompiler):  # type: ignore[misc]
        def define_pipelines(self) -> list[object]:
            calling.append(self.state.flags.copy())
            return list(super().define_pipelines())

    options = {"nogil": True, "_nrt": False, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    inner = [
        numba.njit(pipeline_class=Noting, **options)(function)
        for function in (lambda x: x + 1, lambda x: x * 2)
    ]
    part = numba.njit(pipeline_class=Noting, forceinline=True, **options)(lambda x: x - 3)
    for kernel in (*inner, part):
        kernel.compile("int64(int64)")
    first, second, third = calling
    assert first is second
    assert third != first
    assert third.forceinline


def test_what_the_passes_do_not_know_is_not_compiled() -> None:
    """Nothing is compiled to something else in silence, because a pass is left out."""

    @jit_inner
    def closing(values):  # type: ignore[no-untyped-def]
        return sum([2.0 * value for value in values])

    @jit
    def calling(values):  # type: ignore[no-untyped-def]
        return closing(values)

    with pytest.raises(NumbaError):
        calling(np.ones(3))


@pytest.mark.heavy
def test_the_first_start_compiles_every_kernel_once_and_a_later_one_nothing(tmp_path: Path) -> None:
    """A literal, or an int16 beside an int64, would compile a kernel again with all that it calls."""
    cold, _, compiled = start(tmp_path)
    warm, _, loaded = start(tmp_path)
    names = [name for name, _ in compiled if name.startswith("kernels.")]
    assert {"kernels.search.hgs._search", "kernels.partition.objective._evaluate"} <= set(names)
    again = [name for name in set(names) if names.count(name) > 1]
    # It shuffles samples and clusters, whose integers differ.
    assert again == ["kernels.rng.shuffle"]
    assert loaded == []
    assert 0 < sum(spent for _, spent in compiled) < cold
    assert warm < cold / 5
