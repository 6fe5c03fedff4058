"""How kernels are compiled: with the options of one place, in nobody else's way."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numba
import numpy as np
import pytest
from numba.core.codegen import JITCodeLibrary
from numba.core.datamodel import ArgPacker, default_manager
from numba.core.errors import NumbaError
from numpy.typing import NDArray
from solving.starts import start

from kernels.jit import Pointer, by_pointer, jit, jit_inner, jit_part
from kernels.search.genetic import Search, _search, warm_up
from kernels.search.local_search import local_search

# Named tuples by pointer: kernels read the fields that Python put there, through any number of calls.

compiled = pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")


@by_pointer
class Fields(NamedTuple):
    """One of each kind that the search has."""

    matrix: NDArray[np.float64]
    flags: NDArray[np.bool_]
    count: int
    share: float
    is_set: bool
    empty: NDArray[np.int32]


@by_pointer
class Holder(NamedTuple):
    """A tuple that holds another one, beside its own arrays."""

    own: NDArray[np.float64]
    held: Fields


@by_pointer
class Alike(NamedTuple):
    """Fields of one type, which lie as an array does, and not as a structure."""

    first: int
    second: int
    third: int


def fields(**other: object) -> Fields:
    matrix = np.arange(6.0).reshape(2, 3)
    found = Fields(matrix, np.array([True, False]), 7, 0.25, True, np.empty(0, np.int32))
    return found._replace(**other)


@jit
def sum_of(fields):  # type: ignore[no-untyped-def]
    total = float(fields.count) + fields.share + len(fields.empty)
    for i in range(fields.matrix.shape[0]):
        for j in range(fields.matrix.shape[1]):
            total += fields.matrix[i, j]
    for flag in fields.flags:
        if flag and fields.is_set:
            total += 100.0
    return total


@jit
def digits_of(alike):  # type: ignore[no-untyped-def]
    return 100 * alike.first + 10 * alike.second + alike.third


@jit_inner
def write(fields, row):  # type: ignore[no-untyped-def]
    fields.matrix[row] = fields.matrix[row, 0] + 1.0


@jit_inner
def write_all(fields):  # type: ignore[no-untyped-def]
    for row in range(fields.matrix.shape[0]):
        write(fields, row)
    return fields.matrix[0, 0]


@jit
def written(fields, other):  # type: ignore[no-untyped-def]
    before = fields.matrix[0, 0]
    return before, write_all(fields), fields.matrix[0, 0], other.matrix[0, 0]


def test_fields_of_each_kind_are_read() -> None:
    assert sum_of(fields()) == 7 + 0.25 + 15 + 100
    assert sum_of(fields(is_set=False, count=-1)) == -1 + 0.25 + 15
    assert sum_of(fields(matrix=np.arange(40.0).reshape(4, 10)[1:3])) == 7.25 + sum(range(10, 30)) + 100
    made = fields(matrix=np.ones((300, 300)))
    gc.collect()
    assert sum_of(made) == 7.25 + 90_000 + 100
    assert digits_of(Alike(3, 4, 5)) == 345


def test_what_a_kernel_writes_is_seen_by_its_caller_and_by_another_tuple_of_the_same_array() -> None:
    first = fields()
    assert written(first, fields(matrix=first.matrix)) == (0.0, 1.0, 1.0, 1.0)
    assert first.matrix.tolist() == [[1, 1, 1], [4, 4, 4]]


@compiled
def test_the_search_takes_pointers_and_lets_go_of_the_interpreter() -> None:
    """By value tuples are some four hundred arguments of each function."""
    warm_up()
    ((search, *_),) = _search.signatures
    assert [type(search), search.fields.instance_class] == [Pointer, Search]
    assert len(ArgPacker(default_manager, _search.signatures[0]).argument_types) < 40
    # Names of kernels do not repeat the types of all fields: written, parsed and hashed for each call.
    assert len(search.name) < 30
    assert Pointer(search.fields) == search
    for kernel in (_search, local_search):
        wanted = {"nogil": True, "fastmath": False, "parallel": False, "error_model": "numpy"}
        assert kernel.targetoptions.items() >= wanted.items()


@compiled
def test_a_tuple_within_a_tuple_outlives_what_reads_it() -> None:
    """It lies in the frame of the way in: in that of a function which reads fields, it is lost."""

    @numba.njit(no_cfunc_wrapper=True, _nrt=False)
    def total(holder):  # type: ignore[no-untyped-def]
        return holder.own[0] + holder.held.count + holder.held.matrix[1, 2]

    assert [total(Holder(np.full(2, 1.5), fields(count=count))) for count in range(4)] == [
        6.5 + count for count in range(4)
    ]


# Kernels that others call: translated once, with the kernel that Python calls, and for one signature.


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
    def first(values, add):  # type: ignore[no-untyped-def]
        return second(values, add) + twice(values) + third(values)

    values = np.zeros(3)
    assert first(values, 0) == (0 + 1 + 3) + 3
    assert list(values) == [0, 0, 3]
    with pytest.raises(ValueError, match="below 0"):
        first(values, -1)
    # numba's own runtime is compiled once in a process, with the first kernel.
    (name,) = set(translated) - {"nrt"}
    assert "first" in name


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
    assert {"kernels.search.genetic._search", "kernels.partition.objective._evaluate"} <= set(names)
    again = [name for name in set(names) if names.count(name) > 1]
    # It shuffles samples and clusters, whose integers differ.
    assert again == ["kernels.search.local_search.shuffle"]
    assert loaded == []
    assert 0 < sum(spent for _, spent in compiled) < cold
    assert warm < cold / 5
