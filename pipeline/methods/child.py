"""What runs in the process of the methods."""

from __future__ import annotations

import faulthandler
import os
import random
import socket
import sys
import time
import traceback
import warnings
from contextlib import closing, suppress
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from pipeline.methods import estimators, loading
from pipeline.methods.contract import BadAnswer, Method, NoSolution, checked
from pipeline.methods.frames import Channel, Message
from pipeline.methods.loading import MethodCall
from sweeps.errors import InputError

READY, BEGUN, LOADED, SOLVED, NONE, FAILED, REFUSED = range(7)
"""Kinds of what is said to the parent."""

TABLE, LOAD, SOLVE = range(3)
"""Kinds of what the parent says."""

PARTS = ("labels", "centroids", "probabilities")
"""Arrays of a solution, in the order in which they travel."""

WARNING = "warning: "
"""Begins the line of a warning, which is no output of a method."""

FORKED = f"{WARNING}a process that the method forked came back from it, and was ended"
"""Said by such a process."""

LONGEST, MOST = 20_000, 20
"""Characters of a cause or traceback that travel, and problems."""

_OURS = {__file__, estimators.__file__, loading.__file__}


def serve(messages: int) -> None:
    """Answer the caller until it is gone.

    Parameters
    ----------
    messages : int
        Descriptor of the socket to the caller.
    """
    faulthandler.enable()  # a crash in compiled code says where
    warnings.simplefilter("default")  # whatever PYTHONWARNINGS makes of them
    warnings.formatwarning = _warning_line
    _seed_globally(0)
    channel = Channel(socket.socket(fileno=messages))
    host = Host(channel)
    channel.send(READY, 0, {})
    with closing(channel), suppress(EOFError, ConnectionError):
        while True:
            host.answer(channel.receive())


def _warning_line(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
) -> str:
    text = " ".join(str(message).split())
    return f"{WARNING}{filename}:{lineno}: {category.__name__}: {text}\n"


class Host:
    """Methods and the latest table, and what is done with them.

    Parameters
    ----------
    channel : Channel
        To the caller.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._process = os.getpid()
        self._loaded: list[tuple[MethodCall, Method]] = []
        self._X: NDArray[np.float64] | None = None

    def answer(self, message: Message) -> None:
        """Do what the caller says."""
        kind, number, note, arrays = message
        if kind == TABLE:
            (self._X,) = arrays
            return
        call = MethodCall(**note.pop("method"))
        method = self._method(number, call)
        if method is None:
            return
        if kind == LOAD:
            self._say(LOADED, number, {"version": loading.version_of(call)})
        else:
            self._solve(number, method, note, arrays)

    def _say(self, kind: int, number: int, note: dict[str, Any], *arrays: NDArray[Any]) -> None:
        """Reply, if this is the process that was called.

        A method that forks and returns twice comes here in both processes: the second one ends.
        """
        if os.getpid() != self._process:
            os.write(2, f"{FORKED}\n".encode())
            os._exit(0)
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):  # a method may have closed or replaced it
                stream.flush()
        self._channel.send(kind, number, note, *arrays)

    def _method(self, number: int, call: MethodCall) -> Method | None:
        """The method; None where it cannot be loaded, and the caller knows."""
        for known, method in self._loaded:
            if known == call:
                return method
        try:
            method = loading.load(call)
        except InputError as error:
            problems = [
                asdict(replace(each, found=each.found[:LONGEST], expected=each.expected[:LONGEST]))
                for each in error.problems[:MOST]
            ]
            self._say(REFUSED, number, {"problems": problems})
            return None
        except BaseException as error:
            self._say(FAILED, number, _failure(error))
            return None
        threadpool_limits(limits=1)  # of libraries that came with it, whatever they make of the environment
        self._loaded.append((call, method))
        return method

    def _solve(self, number: int, method: Method, note: dict[str, Any], arrays: list[NDArray[Any]]) -> None:
        X = self._X
        if X is None:
            raise RuntimeError("a call came before its table")
        must_link, cannot_link, *weights = arrays
        n_clusters, random_state, accuracy = (note[key] for key in ("n_clusters", "random_state", "accuracy"))
        _seed_globally(note["global_seed"])
        self._say(BEGUN, number, {})
        started, cpu_started = time.perf_counter(), time.process_time()

        def passed() -> dict[str, float]:
            return {
                "seconds": time.perf_counter() - started,
                "cpu_seconds": time.process_time() - cpu_started,
            }

        try:
            with np.errstate():  # what one call sets is not left to the next
                answer = method(
                    X,
                    n_clusters,
                    must_link,
                    cannot_link,
                    weights=(weights[0], weights[1]),
                    accuracy=accuracy,
                    random_state=random_state,
                )
            times = passed()
            sizes = {"n_samples": X.shape[0], "n_features": X.shape[1], "n_clusters": n_clusters}
            found = checked(answer, **sizes)
            parts = {name: getattr(found, name) for name in PARTS}
            given = [name for name in PARTS if parts[name] is not None]
            reply = times | {"objective": found.objective, "given": given}
        except NoSolution as error:
            self._say(NONE, number, {"reason": _text(error), **passed()})
        except BadAnswer as error:
            self._say(FAILED, number, {"cause": f"BadAnswer: {error}"[:LONGEST], "traceback": ""})
        except BaseException as error:
            self._say(FAILED, number, _failure(error))
        else:
            self._say(SOLVED, number, reply, *(parts[name] for name in given))


def _seed_globally(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002  # for methods that draw from it


def _text(error: BaseException) -> str:
    try:
        return str(error)[:LONGEST]
    except Exception:
        return ""


def _failure(error: BaseException) -> dict[str, str]:
    """Cause of a failure, and the traceback from the first line of the method on."""
    place = error.__traceback__
    while place is not None and place.tb_frame.f_code.co_filename in _OURS:
        place = place.tb_next
    try:
        cause = "".join(traceback.format_exception_only(error)).strip()
        lines = "".join(traceback.format_exception(type(error), error, place))
    except Exception:  # an error whose own methods raise
        cause, lines = type(error).__name__, ""
    if cause.startswith(loading.PRIVATE):  # nobody else knows that name of the file
        cause = cause.removeprefix(f"{type(error).__module__}.")
    return {"cause": cause[:LONGEST], "traceback": lines[-LONGEST:]}
