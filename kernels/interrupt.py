"""Kernels that Ctrl-C ends, which reaches Python alone, and between two of its steps.

What the main thread calls runs in a thread beside it, so that the main thread is there for the signal, and
sets a flag that the loops of the kernels look at. A compilation looks at nothing: it goes on, and the next
call waits for it.
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
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")

# Of shape (1,): not 0 asks kernels to end.
Flag = NDArray[np.int64]

# Seconds in which a kernel ends that was asked to; what takes longer is being compiled.
GRACE = 1.0

# Seconds between looks for a signal: one that comes just before a wait begins does not end that wait.
LOOK = 0.5

# What came of some work: its result, what it raised, and the seconds of a processor that it took.
_Answer = tuple[Any, BaseException | None, float]

_own = threading.local()


def new_flag() -> Flag:
    """A flag that is not set; within `sharing`, that one."""
    found: Flag | None = getattr(_own, "flag", None)
    return np.zeros(1, np.int64) if found is None else found


@contextmanager
def sharing(flag: Flag) -> Iterator[None]:
    """Have all kernels that this thread calls look at one flag."""
    before = getattr(_own, "flag", None)
    _own.flag = flag
    try:
        yield
    finally:
        _own.flag = before


def beside(work: Callable[[], T]) -> T:
    """Do some work with kernels in the thread beside the main one; in any other thread there.

    It costs a tenth of a millisecond, which is much for a kernel and little for some restarts.

    Raises
    ------
    BaseException
        What the work raises, or a handler of a signal in the main thread; then the kernels have ended, or are
        being compiled and end after that.
    """
    flag = new_flag()

    def shared() -> T:
        with sharing(flag):
            return work()

    return cast(T, _run(shared, [flag]))


def call(kernel: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """Call a kernel, `beside` the main thread.

    Parameters
    ----------
    kernel : callable
        It lets go of Python's lock while it runs, and looks at the flags.
    arguments : tuple
        Of the kernel; those with an attribute `stop` bring its flags.

    Raises
    ------
    KeyboardInterrupt
        If a flag was set meanwhile.
    """
    found = (getattr(each, "stop", None) for each in arguments)
    flags = [each for each in found if isinstance(each, np.ndarray)]
    result = _run(partial(kernel, *arguments), flags)
    if any(flag[0] for flag in flags):
        raise KeyboardInterrupt
    return result


def cpu_time() -> float:
    """Seconds of a processor that this thread has taken, what it had done beside it included."""
    return time.thread_time() + getattr(_own, "seconds", 0.0)


def leave(code: int) -> None:
    """End the process with an exit code, at once also while kernels are compiled."""
    if not any(thread.is_alive() for thread in _left_alone):
        sys.exit(code)
    # A compiler that works while the process takes its memory down crashes it.
    atexit.unregister(_wait)
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(code)


class _Helper:
    """A thread that runs one call after the other: to start one for each would cost more."""

    def __init__(self) -> None:
        self.calls: SimpleQueue[tuple[Callable[[], Any], Future[_Answer]]] = SimpleQueue()
        self.thread = threading.Thread(target=self._work, name="kernels", daemon=True)
        self.thread.start()

    def _work(self) -> None:
        while self.thread not in _left_alone:
            work, done = self.calls.get()
            result, error, began = None, None, time.thread_time()
            try:
                result = work()
            except BaseException as raised:
                error = raised
            done.set_result((result, error, time.thread_time() - began))
            del work, done, result, error  # they hold the table


_helpers: list[_Helper] = []
_left_alone: list[threading.Thread] = []


def _run(work: Callable[[], Any], flags: Iterable[Flag]) -> Any:
    """Have the thread beside the main one do some work, and wait; in any other thread do it there.

    It is another thread after a fork, or where that one is still compiling.
    """
    if threading.current_thread() is not threading.main_thread():
        return work()
    if not _helpers or not _helpers[0].thread.is_alive() or _helpers[0].thread in _left_alone:
        _helpers[:] = [_Helper()]
    done: Future[_Answer] = Future()
    try:
        _helpers[0].calls.put((work, done))
        while not done.done():
            wait([done], LOOK)
        result, error, seconds = done.result()
    except BaseException:
        for flag in flags:
            flag[0] = 1
        try:
            wait([done], GRACE)
        finally:
            if not done.done():
                _left_alone.append(_helpers[0].thread)
        raise
    _own.seconds = getattr(_own, "seconds", 0.0) + seconds
    if error is not None:
        raise error
    return result


@atexit.register
def _wait() -> None:
    """Let compilations come to the next step of Python, where they end."""
    for thread in _left_alone:
        if thread.is_alive():
            end = ctypes.pythonapi.PyThreadState_SetAsyncExc
            end(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(SystemExit))
            thread.join()
