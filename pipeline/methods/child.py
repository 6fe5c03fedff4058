"""What runs in the process of the methods: `serve` answers the calls that come through a `Channel`."""

import faulthandler
import json
import math
import operator
import os
import random
import socket
import struct
import sys
import time
import traceback
import warnings
import zlib
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from sweep_clustering.pipeline.methods import loading
from sweep_clustering.pipeline.methods.contract import BadAnswer, Floats, Method, NoSolution, checked
from sweep_clustering.sweeps.errors import LONGEST_TRACEBACK, InputError, cause_of, one_line

# Messages between a process and the one that runs a method: numbered, bounded, and read within a limit.
#
# What a method does to the connection by accident (it forks, writes into a descriptor that is not its own,
# ends in the middle of a message) must never become the answer to another call. So every message says which
# call it belongs to, its length is checked before anything is allocated, and arrays travel as bytes: nothing
# that comes back is unpickled.

_MARK = b"\x00swp\xff\x02\r\n"
_HEAD = struct.Struct("!8sBQQQ")  # mark, kind, number, bytes of the note, bytes of the arrays

# Bytes that the note of a reply may have: a cause, a traceback or some problems.
TEXT = 2**20

Limit = float | None


class Spoilt(Exception):
    """What was read is no message, or not the one that was to come next."""


class Message(NamedTuple):
    """What was said.

    Parameters
    ----------
    kind : int
        One of those in `pipeline.methods.child`.
    number : int
        Of the call it belongs to.
    note : dict
        Plain values.
    arrays : list of ndarray
        Read-only, and nothing makes them writeable.
    """

    kind: int
    number: int
    note: dict[str, Any]
    arrays: list[NDArray[Any]]


class Channel:
    """One end of a connection.

    Parameters
    ----------
    end : socket.socket
        A stream.
    """

    def __init__(self, end: socket.socket) -> None:
        self._socket = end

    def send(
        self, kind: int, number: int, note: Mapping[str, Any], *arrays: NDArray[Any], limit: Limit = None
    ) -> None:
        """Say something.

        Raises
        ------
        OSError
            If nobody reads any more, or not within `limit` seconds.
        """
        plain = [np.asarray(array, order="C") for array in arrays]
        kinds = [(array.dtype.str, array.shape) for array in plain]
        text = json.dumps([note, kinds]).encode()
        head = _HEAD.pack(_MARK, kind, number, len(text), sum(array.nbytes for array in plain))
        self._socket.settimeout(limit)
        self._socket.sendall(head + text)
        for array in plain:
            if array.nbytes:
                self._socket.sendall(array.reshape(-1).data.cast("B"))

    def receive(self, *, limit: Limit = None, most: float = math.inf) -> Message:
        """Hear what is said next.

        Parameters
        ----------
        limit : float, optional
            Seconds for the whole message, however it arrives.
        most : float
            Bytes that its arrays may have; where there is such a bound its note has at most `TEXT`.

        Raises
        ------
        TimeoutError
            If it is not there in time.
        Spoilt
            If what comes is no message, or has more than `most` bytes.
        EOFError, OSError
            If nobody is at the other end.
        """
        end = None if limit is None else time.monotonic() + limit
        mark, kind, number, text, rest = _HEAD.unpack(self._read(_HEAD.size, end))
        if mark != _MARK or rest > most or (text > TEXT and most < math.inf):
            raise Spoilt
        try:
            note, kinds = json.loads(bytes(self._read(text, end)))
            arrays, place = [], 0
            # Over a view that cannot be written to no array can be made writeable, whatever a method tries.
            body = memoryview(self._read(rest, end)).toreadonly()
            for name, shape in kinds:
                kind_of = np.dtype(name)
                if kind_of.kind not in "iuf":
                    raise Spoilt
                size = math.prod(shape)
                array = np.frombuffer(body, kind_of, size, place) if size else np.empty(0, kind_of)
                arrays.append(array.reshape(shape))
                place += array.nbytes
        except (ValueError, TypeError):
            raise Spoilt from None
        return Message(kind, number, note, arrays)

    def is_quiet(self) -> bool:
        """Whether nothing more was said by now, and the other end is open."""
        self._socket.settimeout(0)
        try:
            self._socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            pass
        return False

    def close(self) -> None:
        """Let go of this end."""
        self._socket.close()

    def _read(self, count: int, end: float | None) -> bytearray:
        buffer = bytearray(count)
        rest = memoryview(buffer)
        while rest:
            # What has arrived counts also when the time is up: it may be this process that stood still.
            self._socket.settimeout(None if end is None else max(end - time.monotonic(), 0.0))
            try:
                got = self._socket.recv_into(rest)
            except BlockingIOError:
                raise TimeoutError from None
            if not got:
                raise EOFError
            rest = rest[got:]
        return buffer


# Kinds of what is said to the parent.
READY, BEGUN, LOADED, SOLVED, NONE, FAILED, REFUSED, STALE, CHANGED = range(9)

# Kinds of what the parent says.
TABLE, LOAD, SOLVE = range(3)

# Arrays that a method gets, in the order in which they travel.
ARGUMENTS = ("X", "must_link", "cannot_link", "weights[0]", "weights[1]")

WRITTEN = (
    "wrote into {}, which is read-only: code that does not ask NumPy, such as compiled code or SciPy with "
    "overwrite_a=True, needs a copy, as X.copy()"
)

# Arrays of a solution, in the order in which they travel.
PARTS = ("labels", "centroids", "probabilities")

# Begins the line of a warning, which is no output of a method.
WARNING = "warning: "

# Said by such a process.
FORKED = f"{WARNING}a process that the method forked came back from it, and was ended"

_OURS = {__file__, loading.__file__}


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
    channel, own = Channel(socket.socket(fileno=messages)), os.getpid()

    def say(kind: int, number: int, note: Mapping[str, Any], *arrays: NDArray[Any]) -> None:
        """Reply, if this is the process that was called.

        A method that forks and returns twice comes here in both processes: the second one ends.
        """
        if os.getpid() != own:
            os.write(2, f"{FORKED}\n".encode())
            os._exit(0)
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):  # a method may have closed or replaced it
                stream.flush()
        channel.send(kind, number, note, *arrays)

    loaded: dict[str, Method] = {}
    X: Floats = np.empty((0, 0))
    checksum = _checksum(X)
    say(READY, 0, {})
    with closing(channel), suppress(EOFError, ConnectionError):
        while True:
            kind, number, note, arrays = channel.receive()
            if kind == TABLE:
                (X,) = arrays
                checksum = _checksum(X)
                continue
            call = loading.MethodCall(**note.pop("method"))
            try:
                if repr(call) not in loaded:
                    loaded[repr(call)] = loading.load(call)
                    threadpool_limits(
                        limits=1
                    )  # of libraries that came with it, whatever the environment says
            except InputError as error:
                say(REFUSED, number, {"problems": [asdict(each) for each in error.problems]})
            except BaseException as error:
                say(FAILED, number, _failure(error))
            else:
                if kind == LOAD:
                    say(LOADED, number, {"version": loading.version_of(call)})
                elif _checksum(X) != checksum:  # by what an earlier call has left running
                    say(STALE, number, {})
                else:
                    _seed_globally(note["random_state"])
                    say(BEGUN, number, {})
                    kind, note, *arrays = _solved(loaded[repr(call)], X, checksum, note, arrays)
                    say(kind, number, note, *arrays)


def _warning_line(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
) -> str:
    text = " ".join(str(message).split())
    return f"{WARNING}{filename}:{lineno}: {category.__name__}: {text}\n"


def _solved(
    method: Method, X: Floats, checksum: int, note: dict[str, Any], arrays: list[NDArray[Any]]
) -> tuple[int, dict[str, Any], *tuple[NDArray[Any], ...]]:
    """What is said of one call of a method: kind, note and arrays."""
    n_clusters = note.pop("n_clusters")
    checksums = [checksum, *map(_checksum, arrays)]
    view = X[:]  # for this call alone: its shape and its type can be set, although its numbers cannot
    reply: dict[str, Any]
    parts: dict[str, NDArray[Any]] = {}
    started, cpu_started = time.perf_counter(), time.process_time()

    def passed() -> dict[str, float]:
        now, cpu_now = time.perf_counter(), time.process_time()
        return {"seconds": now - started, "cpu_seconds": cpu_now - cpu_started}

    try:
        with np.errstate():  # what one call sets is not left to the next
            answer = method(view, n_clusters, *arrays[:2], weights=(arrays[2], arrays[3]), **note)
        times = passed()
        found = checked(answer, n_samples=X.shape[0], n_features=X.shape[1], n_clusters=n_clusters)
        parts = {name: getattr(found, name) for name in PARTS if getattr(found, name) is not None}
        kind, reply = SOLVED, {**times, "objective": found.objective, "given": list(parts)}
    except NoSolution as error:
        kind, reply = NONE, {"reason": one_line(error), **passed()}
    except BaseException as error:
        kind, reply = FAILED, {**_failure(error)}
    is_same = map(operator.eq, checksums, map(_checksum, (X, *arrays)))
    if changed := [name for name, same in zip(ARGUMENTS, is_same, strict=True) if not same]:
        cause = WRITTEN.format(", ".join(changed)) + (f"; then {reply['cause']}" if kind == FAILED else "")
        return CHANGED, {"cause": cause, "traceback": reply.get("traceback", "")}
    return kind, reply, *parts.values()


def _checksum(array: NDArray[Any]) -> int:
    return zlib.crc32(array.data)


def _seed_globally(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002  # for methods that draw from it


def _failure(error: BaseException) -> dict[str, str]:
    """Cause of a failure, and the traceback from the first line of the method on."""
    place, lines = error.__traceback__, ""
    while place is not None and place.tb_frame.f_code.co_filename in _OURS:
        place = place.tb_next
    if not isinstance(error, BadAnswer):  # which only we raise, after the method has returned
        with suppress(Exception):  # of an error whose own methods raise
            lines = "".join(traceback.format_exception(type(error), error, place))
    return {"cause": cause_of(error), "traceback": lines[-LONGEST_TRACEBACK:]}
