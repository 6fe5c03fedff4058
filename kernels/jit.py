"""The one place that decides how kernels are compiled.

`nogil`, so that a worker's heartbeat continues during a restart. `error_model="numpy"`, because the checks
for a division by zero cost branches in inner loops; kernels guard their divisors instead, and so behave the
same with NUMBA_DISABLE_JIT=1. `parallel` off: the unit of parallel work is the restart. `fastmath` off: sums
keep their order, compiled or not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numba.core.config
from numba.core.registry import CPUDispatcher

from kernels.bypointer import on_each
from kernels.cache import KernelCache, compile_alone, warn_not_cached
from kernels.cachedir import cache_folder
from kernels.folders import OwnFolder
from kernels.interrupt import call
from kernels.linking import InnerCompiler
from kernels.pointers import register

F = TypeVar("F", bound=Callable[..., Any])

on_each(register)

FOLDER: OwnFolder | None = None if numba.core.config.DISABLE_JIT else cache_folder()


class Entry(CPUDispatcher):  # type: ignore[misc]  # numba has no types
    """A kernel that Python calls: Ctrl-C ends it."""

    def __call__(self, *arguments: Any) -> Any:
        """Compile it if needed, and run it."""
        return call(super().__call__, arguments)


def jit(function: F) -> F:
    """Compile a kernel on its first call; keep the machine code in the project's own folder.

    Kernels allocate nothing, not even by copying one slice onto another: without numba's runtime (`_nrt`) no
    array is reference counted, and counting the arrays of a search took four fifths of its time. Memory comes
    from Python: `state.new_state` and its like.
    """
    compiled = _njit(function)
    kernel = cast(Any, compiled)
    if not numba.core.config.DISABLE_JIT:
        kernel.__class__ = Entry
    if FOLDER is not None:
        try:
            kernel._cache = KernelCache(function, FOLDER)
            compile_alone(kernel, FOLDER)
        except OSError as error:
            warn_not_cached(FOLDER, str(error))
    return compiled


def jit_part(function: F) -> F:
    """As `jit_inner`, for a part of another kernel: always joined to it, for speed of a few percent.

    By LLVM: numba's own joining gives the same machine code, but types the part again at each place.
    """
    return _compile_inner(function, forceinline=True)


def jit_inner(function: F) -> F:
    """As `jit`, for a kernel that other kernels alone call: it has no way in from Python."""
    # Said, as numba hands the options of a caller down to what is compiled on its behalf.
    return _compile_inner(function, forceinline=False)


def _compile_inner(function: F, **options: Any) -> F:
    return _njit(function, no_cpython_wrapper=True, pipeline_class=InnerCompiler, **options)


def _njit(function: F, **options: Any) -> F:
    compiled = numba.njit(
        nogil=True,
        error_model="numpy",
        fastmath=False,
        parallel=False,
        no_cfunc_wrapper=True,
        _nrt=False,
        **options,
    )(function)
    return cast(F, compiled)
