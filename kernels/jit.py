"""The one place that decides how kernels are compiled.

`nogil`, so that a worker's heartbeat continues during a restart. `error_model="numpy"`, because the checks
for a division by zero cost branches in inner loops; kernels guard their divisors instead, and so behave the
same with NUMBA_DISABLE_JIT=1. `parallel` off: the unit of parallel work is the restart. `fastmath` off: sums
keep their order, compiled or not.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Any, ParamSpec, TypeVar, cast

import numba
import numba.core.config
from numba.core.caching import FunctionCache

from kernels.cachedir import cache_directory

try:
    import fcntl
except ImportError:  # not on Windows; there processes that start together may compile side by side
    fcntl = None  # type: ignore[assignment]

logger = logging.getLogger(__name__)

F = TypeVar("F", bound=Callable[..., Any])
P = ParamSpec("P")
R = TypeVar("R")

DIRECTORY: Path | None = None if numba.core.config.DISABLE_JIT else cache_directory()


def jit(function: F) -> F:
    """Compile a kernel on its first call; keep the machine code in the project's own cache directory.

    Kernels allocate nothing, not even by copying one slice onto another: without numba's runtime (`_nrt`) no
    array is reference counted, and counting the arrays of a search took four fifths of its time. Memory comes
    from Python: `state.new_state` and its like.
    """
    return _compile(function)


def jit_part(function: F) -> F:
    """As `jit`, for a part of another kernel: always inlined, as a call would push all arrays."""
    return _compile(function, inline="always")


def _compile(function: F, **options: str) -> F:
    compiled = numba.njit(
        nogil=True,
        error_model="numpy",
        fastmath=False,
        parallel=False,
        no_cfunc_wrapper=True,
        _nrt=False,
        **options,
    )(function)
    if DIRECTORY is not None:
        try:
            with _directory_for_ours():
                compiled._cache = KernelCache(function)
        except (OSError, RuntimeError) as error:  # numba turns the first into the second
            warn_not_cached(str(error))
    return cast(F, compiled)


class KernelCache(FunctionCache):  # type: ignore[misc]  # numba has no types
    """Files of one kernel; one that cannot be read or written gives a warning, not an error."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Machine code for a signature; None if there is none."""
        try:
            return super().load_overload(sig, target_context)
        except OSError as error:
            warn_not_cached(str(error))
            return None
        except Exception as error:  # pickle may raise anything for damaged bytes
            logger.debug("machine code of a kernel cannot be read: %r", error)
            self._discard()
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep machine code, which is in memory already."""
        try:
            super().save_overload(sig, data)
        except OSError as error:
            warn_not_cached(str(error))

    def _discard(self) -> None:
        """Remove files that, for instance, a power cut has truncated."""
        try:
            self.flush()
        except OSError as error:
            self.disable()
            warn_not_cached(str(error))


def warn_not_cached(why: str) -> None:
    """Warn, once in a process, that the next one has to compile again."""
    if not _warned:
        _warned.append(why)
        text = "compiled kernels are not cached in %s, each process compiles again: %s (see SWEEP_CACHE_DIR)"
        logger.warning(text, DIRECTORY, why)


@contextmanager
def _directory_for_ours() -> Iterator[None]:
    """Set our directory only while a kernel of ours is decorated: other packages keep their own."""
    config = numba.core.config
    before = config.CACHE_DIR
    if DIRECTORY is not None:
        config.CACHE_DIR = str(DIRECTORY)
    try:
        yield
    finally:
        config.CACHE_DIR = before


_held: list[IO[bytes]] = []
_warned: list[str] = []


@contextmanager
def compile_lock() -> Iterator[None]:
    """Let one process at a time compile; the others then load what it wrote.

    A process that finds no complete cache logs that it compiles, also while it waits for another, or after
    one that was interrupted.
    """
    if DIRECTORY is None or fcntl is None or _held:
        yield
        return
    complete = DIRECTORY / "complete"
    if not complete.exists():
        logger.info("compiling the kernels, which may take a minute; later calls find them in %s", DIRECTORY)
    with ExitStack() as stack:
        try:
            file = stack.enter_context(open(DIRECTORY / "lock", "wb"))
            fcntl.flock(file, fcntl.LOCK_EX)
            _held.append(file)
            stack.callback(_held.clear)
        except OSError as error:
            warn_not_cached(str(error))
        yield
        if not _warned:
            with suppress(OSError):
                complete.touch()


def first_call_alone(function: Callable[P, R]) -> Callable[P, R]:
    """Make the first call in a process, the one that may compile, under `compile_lock`."""
    called = False

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        nonlocal called
        if called:
            return function(*args, **kwargs)
        with compile_lock():
            result = function(*args, **kwargs)
        called = True
        return result

    return call
