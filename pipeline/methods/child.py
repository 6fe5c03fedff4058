"""The process that runs methods: `serve` answers the calls that come through a `Channel`."""

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
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import asdict
from enum import IntEnum, auto
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from sweep_clustering.pipeline.methods import loading
from sweep_clustering.pipeline.methods.contract import BadAnswer, Floats, Method, NoSolution, accept
from sweep_clustering.sweeps.errors import LONGEST_TRACEBACK, InputError, cause_of, one_line

# Messages between a caller and a process of methods are numbered, bounded, and read within a limit.
#
# A method may damage the connection by accident: it forks, writes into a foreign descriptor, or
# ends in the middle of a message. That must never become the answer to another call. So every message has the
# number of its call, its length is checked before anything is allocated, and arrays travel as bytes: nothing
# that comes back is unpickled.

MARK = b"\x00swp\xff\x02\r\n"
# mark, kind, number, bytes of the note, bytes of the arrays
HEAD = struct.Struct("!8sBQQQ")

# Most bytes of the note of a reply: a cause, a traceback or some problems.
MOST_TEXT = 2**20

# Longest time of a message, in seconds.
Limit = float | None


class Kind(IntEnum):
    """Kinds of messages."""

    # from the caller
    TABLE = auto()
    LOAD = auto()
    SOLVE = auto()
    # from the process
    GREETING = auto()
    START = auto()
    VERSION = auto()
    SOLUTION = auto()
    NO_SOLUTION = auto()
    FAILURE = auto()
    REFUSAL = auto()
    OLD_TABLE = auto()
    CHANGE = auto()


class Spoilt(Exception):
    """The connection has something that is no message, or not the expected one."""


class Message(NamedTuple):
    """A message of a call: its kind, the number of the call, plain values, and read-only arrays."""

    kind: int
    number: int
    note: Mapping[str, Any]
    # Nothing makes them writeable.
    arrays: Sequence[NDArray[Any]]


class Channel:
    """One end of a connection, a stream."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end

    def send(
        self, kind: int, number: int, note: Mapping[str, Any], *arrays: NDArray[Any], limit: Limit = None
    ) -> None:
        """Send a message, or raise an `OSError` if nobody reads it, or not within `limit` seconds."""
        plain = [np.asarray(array, order="C") for array in arrays]
        kinds = [(array.dtype.str, array.shape) for array in plain]
        text = json.dumps([note, kinds]).encode()
        head = HEAD.pack(MARK, kind, number, len(text), sum(array.nbytes for array in plain))
        self._socket.settimeout(limit)
        self._socket.sendall(head + text)
        for array in plain:
            if array.nbytes:
                self._socket.sendall(array.reshape(-1).data.cast("B"))

    def receive(self, *, limit: Limit = None, max_bytes: float = math.inf) -> Message:
        """Return the next message, which has `limit` seconds to arrive.

        Its arrays have at most `max_bytes` bytes; if there is such a bound its note has at most `MOST_TEXT`.

        Raises
        ------
        TimeoutError
            If it is not there in time.
        Spoilt
            If there is no message, or it has more than `max_bytes` bytes.
        EOFError, OSError
            If nobody is at the other end.
        """
        end = None if limit is None else time.monotonic() + limit
        mark, kind, number, text, n_bytes = HEAD.unpack(self._read(HEAD.size, end))
        if mark != MARK or n_bytes > max_bytes or (text > MOST_TEXT and max_bytes < math.inf):
            raise Spoilt
        try:
            note, kinds = json.loads(bytes(self._read(text, end)))
            arrays, place = [], 0
            # An array over a read-only view cannot be made writeable by a method.
            body = memoryview(self._read(n_bytes, end)).toreadonly()
            for name, shape in kinds:
                dtype = np.dtype(name)
                if dtype.kind not in "iuf":
                    raise Spoilt
                size = math.prod(shape)
                array = np.frombuffer(body, dtype, size, place) if size else np.empty(0, dtype)
                arrays.append(array.reshape(shape))
                place += array.nbytes
        except (ValueError, TypeError):
            raise Spoilt from None
        return Message(kind, number, note, arrays)

    def is_quiet(self) -> bool:
        """Whether nothing more has arrived, and the other end is open."""
        self._socket.settimeout(0)
        try:
            self._socket.recv(1, socket.MSG_PEEK)
        except OSError as error:
            return isinstance(error, BlockingIOError)
        return False

    def close(self) -> None:
        """Close this end."""
        self._socket.close()

    def _read(self, count: int, end: float | None) -> bytearray:
        buffer = bytearray(count)
        view = memoryview(buffer)
        while view:
            # Bytes that have arrived count even after the time is up: this process may have stood still.
            self._socket.settimeout(None if end is None else max(end - time.monotonic(), 0.0))
            try:
                n_read = self._socket.recv_into(view)
            except BlockingIOError:
                raise TimeoutError from None
            if not n_read:
                raise EOFError
            view = view[n_read:]
        return buffer


# Arrays that a method gets, in the order in which they travel.
ARGUMENTS = ("X", "must_link", "cannot_link", "weights[0]", "weights[1]")

WRITE_MESSAGE = (
    "wrote into {}, which is read-only: code that does not ask NumPy, such as compiled code or SciPy with "
    "overwrite_a=True, needs a copy, as X.copy()"
)

# Arrays of a solution, in the order in which they travel.
PARTS = ("labels", "centroids", "probabilities")

# The line of a warning, which is no output of a method, begins like this.
WARNING = "warning: "

# Line of a process that the method forked.
FORKED = f"{WARNING}a process that the method forked came back from it, and was ended"

# Files whose lines are left out of a traceback.
_OUR_FILES = {__file__, loading.__file__}


def serve(messages: int) -> None:
    """Answer the calls that come through a socket, given by its descriptor, until the caller is gone."""
    faulthandler.enable()  # for the traceback of a crash in compiled code
    warnings.simplefilter("default")  # whatever PYTHONWARNINGS makes of them
    warnings.formatwarning = _warning_line
    _seed_globally(0)
    channel, process = Channel(socket.socket(fileno=messages)), os.getpid()

    def reply(kind: int, number: int, note: Mapping[str, Any], *arrays: NDArray[Any]) -> None:
        """Send a reply, if this is the process that was called.

        A method that forks and returns twice comes here in both processes: the second one ends.
        """
        if os.getpid() != process:
            os.write(2, f"{FORKED}\n".encode())
            os._exit(0)
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):  # a method may have closed or replaced it
                stream.flush()
        channel.send(kind, number, note, *arrays)

    methods: dict[str, Method] = {}
    X: Floats = np.empty((0, 0))
    checksum = _checksum(X)
    reply(Kind.GREETING, 0, {})
    with closing(channel), suppress(EOFError, ConnectionError):
        while True:
            kind, number, note, arrays = channel.receive()
            if kind == Kind.TABLE:
                (X,) = arrays
                checksum = _checksum(X)
                continue
            arguments = dict(note)
            call = loading.MethodCall(**arguments.pop("method"))
            try:
                if repr(call) not in methods:
                    methods[repr(call)] = loading.load(call)
                    # a library that came with the method may take no limit from the environment
                    threadpool_limits(limits=1)
            except InputError as error:
                reply(Kind.REFUSAL, number, {"problems": [asdict(problem) for problem in error.problems]})
            except BaseException as error:
                reply(Kind.FAILURE, number, _failure(error))
            else:
                if kind == Kind.LOAD:
                    reply(Kind.VERSION, number, {"version": loading.version_of(call)})
                elif _checksum(X) != checksum:  # an earlier call has left a process that writes
                    reply(Kind.OLD_TABLE, number, {})
                else:
                    _seed_globally(arguments["random_state"])
                    reply(Kind.START, number, {})
                    message = _solve(methods[repr(call)], X, checksum, arguments, arrays)
                    reply(message.kind, number, message.note, *message.arrays)


def _warning_line(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
) -> str:
    text = " ".join(str(message).split())
    return f"{WARNING}{filename}:{lineno}: {category.__name__}: {text}\n"


def _solve(
    method: Method, X: Floats, checksum: int, arguments: dict[str, Any], arrays: Sequence[NDArray[Any]]
) -> Message:
    """Call a method, and return the reply without the number of the call."""
    n_clusters = arguments.pop("n_clusters")
    checksums = [checksum, *map(_checksum, arrays)]
    view = X[:]  # a method can set its shape and type, although not its numbers
    start, cpu_start = time.perf_counter(), time.process_time()

    def times() -> dict[str, float]:
        end, cpu_end = time.perf_counter(), time.process_time()
        return {"seconds": end - start, "cpu_seconds": cpu_end - cpu_start}

    try:
        with np.errstate():  # settings of one call must not reach the next
            answer = method(view, n_clusters, *arrays[:2], weights=(arrays[2], arrays[3]), **arguments)
        seconds = times()
        solution = accept(answer, n_samples=X.shape[0], n_features=X.shape[1], n_clusters=n_clusters)
        parts = {name: value for name in PARTS if (value := getattr(solution, name)) is not None}
        note: dict[str, Any] = {**seconds, "objective": solution.objective, "given": list(parts)}
        message = Message(Kind.SOLUTION, 0, note, list(parts.values()))
    except NoSolution as error:
        message = Message(Kind.NO_SOLUTION, 0, {"reason": one_line(error), **times()}, [])
    except BaseException as error:
        message = Message(Kind.FAILURE, 0, _failure(error), [])
    is_same = map(operator.eq, checksums, map(_checksum, (X, *arrays)))
    if changed_names := [name for name, same in zip(ARGUMENTS, is_same, strict=True) if not same]:
        cause = WRITE_MESSAGE.format(", ".join(changed_names))
        if message.kind == Kind.FAILURE:
            cause += f"; then {message.note['cause']}"
        note = {"cause": cause, "traceback": message.note.get("traceback", "")}
        return Message(Kind.CHANGE, 0, note, [])
    return message


def _checksum(array: NDArray[Any]) -> int:
    return zlib.crc32(array.data)


def _seed_globally(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002  # methods may draw from it


def _failure(error: BaseException) -> dict[str, str]:
    """Return the cause of a failure, and the traceback from the first line of the method on."""
    place, lines = error.__traceback__, ""
    while place is not None and place.tb_frame.f_code.co_filename in _OUR_FILES:
        place = place.tb_next
    if not isinstance(error, BadAnswer):  # ours, raised after the method has returned
        with suppress(Exception):  # the methods of an error may raise, too
            lines = "".join(traceback.format_exception(type(error), error, place))
    return {"cause": cause_of(error), "traceback": lines[-LONGEST_TRACEBACK:]}
