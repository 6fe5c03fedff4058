"""Messages between a process and the one that runs a method: numbered, bounded, and read within a limit.

What a method does to the connection by accident (it forks, writes into a descriptor that is not its own, ends
in the middle of a message) must never become the answer to another call. So every message says which call it
belongs to, its length is checked before anything is allocated, and arrays travel as bytes: nothing that comes
back is unpickled.
"""

from __future__ import annotations

import json
import math
import socket
import struct
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

_MARK = b"\x00swp\xff\x02\r\n"
_HEAD = struct.Struct("!8sBQQQ")  # mark, kind, number, bytes of the note, bytes of the arrays

TEXT = 2**20
"""Bytes that the note of a reply may have: a cause, a traceback or some problems."""

_KINDS = frozenset("iuf")
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
        self,
        kind: int,
        number: int,
        note: Mapping[str, Any],
        *arrays: NDArray[Any],
        limit: float | None = None,
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
                if kind_of.kind not in _KINDS:
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
