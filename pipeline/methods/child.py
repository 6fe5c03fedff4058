"""What runs in the process of the methods."""

from __future__ import annotations

import faulthandler
import fcntl
import os
import random
import signal
import sys
import threading
import time
import traceback
import warnings
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from pipeline.methods import estimators, loading
from pipeline.methods.contract import BadAnswer, Method, NoSolution, checked
from pipeline.methods.loading import MethodCall
from sweeps.errors import InputError

READY, BEGUN, LOADED, SOLVED, NONE, FAILED, REFUSED = range(7)
"""Kinds of what is said to the parent."""

TABLE, LOAD, SOLVE = range(3)
"""Kinds of what the parent says."""

WARNING = "warning: "
"""Begins the line of a warning, which is no output of a method."""

LONGEST = 20_000
"""Characters of a traceback that travel."""

_OURS = {__file__, estimators.__file__, loading.__file__}


def main(messages: int, lifeline: int) -> None:
    """Answer the parent until it is gone.

    Parameters
    ----------
    messages : int
        Descriptor of the socket to the parent.
    lifeline : int
        Descriptor of a pipe that ends with the parent: nothing is ever written to it.
    """
    _end_with(lifeline)
    faulthandler.enable()  # a crash in compiled code says where
    warnings.simplefilter("default")  # whatever PYTHONWARNINGS makes of them
    warnings.formatwarning = _warning_line
    _seed_globally(0)
    connection = Connection(messages)
    connection.send((READY,))
    host = Host(connection)
    with suppress(EOFError, ConnectionResetError):
        while True:
            host.answer(connection.recv())


def _warning_line(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
) -> str:
    text = " ".join(str(message).split())
    return f"{WARNING}{filename}:{lineno}: {category.__name__}: {text}\n"


def _end_with(lifeline: int) -> None:
    threading.Thread(target=_watch, args=(lifeline,), daemon=True).start()
    # A method that hangs outside of Python without releasing its lock stops that thread as well. On Linux the
    # end of the pipe is then a signal too, whose default is to end the process.
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)


def _watch(lifeline: int) -> None:
    os.read(lifeline, 1)
    os.killpg(0, signal.SIGKILL)  # with all that the method may have started


class Host:
    """Methods and the latest table, and what is done with them.

    Parameters
    ----------
    connection : Connection
        To the parent.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._loaded: list[tuple[MethodCall, Method]] = []
        self._X: NDArray[np.float64] | None = None

    def answer(self, message: tuple[Any, ...]) -> None:
        """Do what the parent says."""
        kind, *rest = message
        if kind == TABLE:
            self._take(*rest)
        elif kind == LOAD:
            if self._method(*rest) is not None:
                self._connection.send((LOADED, loading.version_of(*rest)))
        else:
            self._solve(*rest)
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):  # a method may have closed or replaced it
                stream.flush()

    def _take(self, shape: tuple[int, int]) -> None:
        # An array over bytes cannot be made writeable, whatever a method tries.
        self._X = np.frombuffer(self._connection.recv_bytes(), dtype=np.float64).reshape(shape)

    def _method(self, call: MethodCall) -> Method | None:
        """The method; None where it cannot be loaded, and the parent knows."""
        for known, method in self._loaded:
            if known == call:
                return method
        try:
            method = loading.load(call)
        except InputError as error:
            self._connection.send((REFUSED, error))
            return None
        except BaseException as error:
            self._connection.send((FAILED, _cause(error), _text(error)))
            return None
        threadpool_limits(limits=1)  # of libraries that came with it, whatever they make of the environment
        self._loaded.append((call, method))
        return method

    def _solve(self, call: MethodCall, global_seed: int, arguments: dict[str, Any]) -> None:
        method = self._method(call)
        if method is None:
            return
        X = self._X
        assert X is not None  # the parent sends the table first
        places = [arguments.pop(name) for name in ("n_clusters", "must_link", "cannot_link")]
        for links in (*places[1:], *arguments["weights"]):
            links.setflags(write=False)
        _seed_globally(global_seed)
        self._connection.send((BEGUN,))
        started, cpu_started = time.perf_counter(), time.process_time()
        try:
            with np.errstate():  # what one call sets is not left to the next
                answer = method(X, *places, **arguments)
            seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - cpu_started
            sizes = {"n_samples": X.shape[0], "n_features": X.shape[1], "n_clusters": places[0]}
            reply: tuple[Any, ...] = (SOLVED, checked(answer, **sizes), seconds, cpu_seconds)
        except NoSolution as error:
            reply = (NONE, str(error), time.perf_counter() - started, time.process_time() - cpu_started)
        except BadAnswer as error:
            reply = (FAILED, f"BadAnswer: {error}", "")
        except BaseException as error:
            reply = (FAILED, _cause(error), _text(error))
        self._connection.send(reply)


def _seed_globally(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002  # for methods that draw from it


def _cause(error: BaseException) -> str:
    return "".join(traceback.format_exception_only(error)).strip()[:LONGEST]


def _text(error: BaseException) -> str:
    """Traceback from the first line of the method on."""
    place = error.__traceback__
    while place is not None and place.tb_frame.f_code.co_filename in _OURS:
        place = place.tb_next
    return "".join(traceback.format_exception(type(error), error, place))[-LONGEST:]
