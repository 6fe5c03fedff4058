"""Make numba kernels interruptible by Ctrl-C.

Python sees the signal only between two bytecodes, so kernels that the main thread calls run in a second
thread and poll a flag, while the main thread waits for the signal. A compilation polls nothing: it goes on,
and the next call waits for it.
"""

import atexit
import ctypes
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from functools import partial
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")

# Flag of shape (1,): a value other than 0 asks kernels to end.
Flag = NDArray[np.int64]

# Seconds in which a kernel ends after its flag was set; a call that takes longer is being compiled.
GRACE = 1.0

# Seconds between looks for a signal: one that comes just before a wait begins does not end that wait.
LOOK = 0.5


class Outcome(NamedTuple):
    """Result of a call, the exception that it raised, and its CPU time in seconds."""

    result: Any
    error: BaseException | None
    seconds: float


# Flag of the calls of this thread, and CPU time in seconds that its calls took in the second thread.
_state = threading.local()


def new_flag() -> Flag:
    """Return a flag that is not set; within `shared_flag`, return that flag."""
    flag: Flag | None = getattr(_state, "flag", None)
    return np.zeros(1, np.int64) if flag is None else flag


@contextmanager
def shared_flag(flag: Flag) -> Iterator[None]:
    """Have all kernels that this thread calls poll one flag."""
    old_flag = getattr(_state, "flag", None)
    _state.flag = flag
    try:
        yield
    finally:
        _state.flag = old_flag


def run_interruptibly(work: Callable[[], T]) -> T:
    """Run a function with kernels so that Ctrl-C ends it; in a thread other than the main one, just run it.

    It costs a tenth of a millisecond, which is much for a kernel and little for some restarts. When an
    exception of a signal handler arrives here, the kernels have ended, or are being compiled and end after
    that.
    """
    flag = new_flag()

    def work_with_flag() -> T:
        with shared_flag(flag):
            return work()

    return cast(T, _run(work_with_flag, [flag]))


def call(kernel: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """Call a kernel so that Ctrl-C ends it; a flag that was set in the meantime raises a KeyboardInterrupt.

    The kernel releases Python's lock while it runs, and polls the flags: attributes `stop` of its arguments.
    """
    stops = (getattr(argument, "stop", None) for argument in arguments)
    flags = [stop for stop in stops if isinstance(stop, np.ndarray)]
    result = _run(partial(kernel, *arguments), flags)
    if any(flag[0] for flag in flags):
        raise KeyboardInterrupt
    return result


def cpu_time() -> float:
    """Return the CPU time of this thread in seconds, including that of its calls in the second thread."""
    return time.thread_time() + getattr(_state, "seconds", 0.0)


def leave(code: int) -> None:
    """End the process with an exit code, immediately even while kernels are compiled."""
    if not any(thread.is_alive() for thread in abandoned_threads):
        sys.exit(code)
    # A compiler that works while the memory of the process is released crashes it.
    atexit.unregister(_wait)
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(code)


class _Helper:
    """A thread that runs one call after the other, as a new thread for each call would cost more."""

    def __init__(self) -> None:
        self.calls: SimpleQueue[tuple[Callable[[], Any], Future[Outcome]]] = SimpleQueue()
        self.thread = threading.Thread(target=self._work, name="kernels", daemon=True)
        self.thread.start()

    def _work(self) -> None:
        while self.thread not in abandoned_threads:
            work, future = self.calls.get()
            result, error, start = None, None, time.thread_time()
            try:
                result = work()
            except BaseException as raised:
                error = raised
            future.set_result(Outcome(result, error, time.thread_time() - start))
            del work, future, result, error  # they hold the table


_helpers: list[_Helper] = []

# Threads that did not end in time: they are compiling.
abandoned_threads: list[threading.Thread] = []


def _run(work: Callable[[], Any], flags: Iterable[Flag]) -> Any:
    """Run a function in the second thread and wait; a thread other than the main one runs it itself."""
    if threading.current_thread() is not threading.main_thread():
        return work()
    # After a fork there is no second thread, and one that is compiling is replaced.
    if not _helpers or not _helpers[0].thread.is_alive() or _helpers[0].thread in abandoned_threads:
        _helpers[:] = [_Helper()]
    future: Future[Outcome] = Future()
    try:
        _helpers[0].calls.put((work, future))
        while not future.done():
            wait([future], LOOK)
        outcome = future.result()
    except BaseException:
        for flag in flags:
            flag[0] = 1
        try:
            wait([future], GRACE)
        finally:
            if not future.done():
                abandoned_threads.append(_helpers[0].thread)
        raise
    _state.seconds = getattr(_state, "seconds", 0.0) + outcome.seconds
    if outcome.error is not None:
        raise outcome.error
    return outcome.result


@atexit.register
def _wait() -> None:
    """Let compilations end at the next step of Python."""
    for thread in abandoned_threads:
        if thread.is_alive():
            end = ctypes.pythonapi.PyThreadState_SetAsyncExc
            end(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(SystemExit))
            thread.join()
